"""HTTP requests of MCP, written by hand: both eras, for tests that look at what a host answers."""

import http.client
import json

MODERN = "2026-07-28"
LEGACY = "2025-11-25"
META = {
    "io.modelcontextprotocol/protocolVersion": MODERN,
    "io.modelcontextprotocol/clientInfo": {"name": "by hand", "version": "1"},
    "io.modelcontextprotocol/clientCapabilities": {},
}


class Answer:
    """Status, header fields (names in lower case) and body; `messages` are those of a JSON body or of its events."""

    def __init__(self, response):
        self.status = response.status
        self.headers = {name.lower(): value for name, value in response.getheaders()}
        self.body = response.read()

    @property
    def messages(self):
        if self.headers.get("content-type", "").startswith("text/event-stream"):
            data = [line[5:].strip() for line in self.body.splitlines() if line.startswith(b"data:")]
            return [json.loads(each) for each in data if each]
        return [json.loads(self.body)]

    @property
    def answer(self):
        """The message that answers."""
        return next(each for each in self.messages if "result" in each or "error" in each)

    @property
    def result(self):
        return self.answer["result"]

    @property
    def structured(self):
        return self.result["structuredContent"]


class Caller:
    """Calls the endpoint on one port, on a connection of its own."""

    def __init__(self, port, **headers):
        self.connection = http.client.HTTPConnection("127.0.0.1", port, timeout=20)
        self.headers = {"Content-Type": "application/json", "Accept": "application/json, text/event-stream"}
        self.headers |= {name.replace("_", "-"): value for name, value in headers.items()}
        self.number = 0
        self.session = None

    def close(self):
        self.connection.close()

    def send(self, body, method="POST", path="/mcp", **headers):
        """Sends a request without waiting for its answer."""
        text = body if isinstance(body, bytes) else json.dumps(body).encode()
        fields = self.headers | {name.replace("_", "-"): value for name, value in headers.items()}
        self.connection.request(method, path, text, fields)

    def request(self, body, method="POST", path="/mcp", **headers):
        """Sends a request; gives what came back."""
        self.send(body, method, path, **headers)
        return Answer(self.connection.getresponse())

    def message(self, method, params, meta=None):
        self.number += 1
        body = {"jsonrpc": "2.0", "id": self.number, "method": method, "params": dict(params)}
        if meta:
            body["params"]["_meta"] = meta
        return body

    # --- the modern era ------------------------------------------------------------------------------

    def modern_headers(self, method, params):
        fields = {"MCP_Protocol_Version": MODERN, "Mcp_Method": method}
        name = params.get("name", params.get("uri"))
        return fields | ({"Mcp_Name": name} if method in ("tools/call", "prompts/get", "resources/read") else {})

    def modern(self, method, params=(), meta=(), **headers):
        params = dict(params)
        body = self.message(method, params, META | dict(meta))
        return self.request(body, **(self.modern_headers(method, params) | headers))

    def call(self, name, /, meta=(), **arguments):
        """Calls a tool in the modern era."""
        return self.modern("tools/call", {"name": name, "arguments": arguments}, meta)

    # --- the handshake era ---------------------------------------------------------------------------

    def initialize(self, **headers):
        params = {"protocolVersion": LEGACY, "capabilities": {}, "clientInfo": {"name": "by hand", "version": "1"}}
        answer = self.request(self.message("initialize", params), **headers)
        self.session = answer.headers.get("mcp-session-id")
        if self.session is not None:
            self.notify("notifications/initialized")
        return answer

    def session_headers(self):
        fields = {"MCP_Protocol_Version": LEGACY}
        return fields | ({"Mcp_Session_Id": self.session} if self.session is not None else {})

    def legacy(self, method, params=(), meta=None, **headers):
        return self.request(self.message(method, dict(params), meta), **(self.session_headers() | headers))

    def legacy_call(self, name, /, meta=None, **arguments):
        """Calls a tool in the session."""
        return self.legacy("tools/call", {"name": name, "arguments": arguments}, meta)

    def notify(self, method, **headers):
        body = {"jsonrpc": "2.0", "method": method}
        return self.request(body, **(self.session_headers() | headers))

    def delete(self):
        return self.request(b"", "DELETE", **self.session_headers())
