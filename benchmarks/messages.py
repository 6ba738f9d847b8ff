"""The requests of the benchmarks: JSON-RPC bodies, HTTP requests around them, and one exchange by hand."""

from __future__ import annotations

import socket

META = (
    '"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28",'
    '"io.modelcontextprotocol/clientCapabilities":{},'
    '"io.modelcontextprotocol/clientInfo":{"name":"bench","version":"1.0.0"}}'
)
META_NOTED = META.replace('"_meta":{', '"_meta":{"progressToken":1,')
INITIALIZE = (
    '{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{},'
    '"clientInfo":{"name":"bench","version":"1.0.0"}}}'
)
INITIALIZED = '{"jsonrpc":"2.0","method":"notifications/initialized"}'
HANDSHAKE = f"{INITIALIZE}\n{INITIALIZED}\n"
PING = '{"jsonrpc":"2.0","id":1,"method":"ping"}\n'
"""A first line for what needs no handshake: once it is answered the interpreter has started."""
RUNNING_ID = "0000000"
"""What the load generators replace by a running id."""


def call_body(tool: str, arguments: str, *, modern: bool, id: str = "7", noted: bool = False) -> str:
    """A tools/call. ``noted``: with a progress token."""
    meta = "," + (META_NOTED if noted else META) if modern else ',"_meta":{"progressToken":1}' if noted else ""
    return f'{{"jsonrpc":"2.0","id":{id},"method":"tools/call","params":{{"name":"{tool}","arguments":{arguments}{meta}}}}}'


def http_request(body: str, headers: dict[str, str]) -> bytes:
    data = body.encode()
    lines = ["POST /mcp HTTP/1.1", "Host: 127.0.0.1:8000", "Content-Type: application/json",
             "Accept: application/json, text/event-stream", f"Content-Length: {len(data)}"]  # fmt: skip
    lines += [f"{name}: {value}" for name, value in headers.items()]
    return "\r\n".join(lines).encode() + b"\r\n\r\n" + data


def modern_headers(method: str, name: str | None = None) -> dict[str, str]:
    headers = {"MCP-Protocol-Version": "2026-07-28", "Mcp-Method": method}
    if name is not None:
        headers["Mcp-Name"] = name
    return headers


def modern_call(tool: str, arguments: str, *, id: str = RUNNING_ID, noted: bool = False) -> bytes:
    """A whole HTTP request of revision 2026-07-28."""
    return http_request(call_body(tool, arguments, modern=True, id=id, noted=noted), modern_headers("tools/call", tool))


def session_call(
    headers: dict[str, str], tool: str, arguments: str, *, id: str = RUNNING_ID, noted: bool = False
) -> bytes:
    """A whole HTTP request of revision 2025-11-25 with the headers of :func:`open_session`."""
    return http_request(call_body(tool, arguments, modern=False, id=id, noted=noted), headers)


def open_session(port: int) -> dict[str, str]:
    """A handshake of revision 2025-11-25; the headers of what follows (no session id where the server gives none)."""
    answer = exchange(port, http_request(INITIALIZE, {}))
    if b'"protocolVersion"' not in answer:
        raise RuntimeError(f"initialize was answered {answer[:300]!r}")
    headers = {"MCP-Protocol-Version": "2025-11-25"}
    for line in answer.partition(b"\r\n\r\n")[0].split(b"\r\n"):
        if line.lower().startswith(b"mcp-session-id:"):
            headers["Mcp-Session-Id"] = line.partition(b":")[2].strip().decode()
    exchange(port, http_request(INITIALIZED, headers))
    return headers


def exchange(port: int, request: bytes, timeout: float = 20.0) -> bytes:
    """One request on a connection of its own, as if others would follow; the whole answer."""
    with socket.create_connection(("127.0.0.1", port), timeout) as s:
        s.sendall(request)
        data = b""
        while chunk := s.recv(1 << 20):
            data += chunk
            head, _, body = data.partition(b"\r\n\r\n")
            head = head.lower()
            if b"content-length:" in head and b"\r\n\r\n" in data:
                if len(body) >= int(head.split(b"content-length:")[1].split(b"\r\n")[0]):
                    break
            elif b"transfer-encoding:" in head:
                if body.endswith(b"0\r\n\r\n"):
                    break
            elif head.startswith((b"http/1.1 202", b"http/1.1 204")) and b"\r\n\r\n" in data:
                break
        return data
