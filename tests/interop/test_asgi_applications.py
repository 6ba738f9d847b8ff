"""ASGI applications of others on our HTTP server: Starlette with its middleware, and the OAuth pages of the official SDK.

Strategy: one application is hosted by uvicorn and by us, and both get the same bytes; what they answer must be the same.
Then an MCP endpoint with the SDK's OAuth routes beside it is walked through by the SDK's own client.
"""

import contextlib
import json
import os
import re
import socket
import subprocess
import time
import urllib.error
import urllib.request

import pytest

from interop import support

pytestmark = pytest.mark.interop

PEERS = support.HERE / "peers"


@contextlib.contextmanager
def run_peer(python, script, *arguments):
    """A script of the counterparts' Python with headrace at hand; gives its port."""
    port = support.free_port()
    command = [str(python), str(PEERS / script), *arguments, str(port)]
    process = subprocess.Popen(
        command, stdin=subprocess.DEVNULL, stderr=subprocess.PIPE, env=os.environ | {"PYTHONPATH": str(support.SOURCE)}
    )
    try:
        support.wait_for_port(port, process)
        yield port
    finally:
        support.end(process, 10)


@pytest.fixture(scope="module")
def hosts(peers):
    """Ports of the pages: (on uvicorn, on headrace)."""
    with run_peer(peers, "asgi_pages.py", "uvicorn") as theirs, run_peer(peers, "asgi_pages.py", "headrace") as ours:
        yield theirs, ours


def talk(port, data, parts=1):
    """What a connection answers to these bytes until it ends, or is idle for a while: a list of answers."""
    found = []
    with socket.create_connection(("127.0.0.1", port), 10) as sock:
        data = data.replace(b"HOST", f"127.0.0.1:{port}".encode())
        step = -(-len(data) // parts)
        for at in range(0, len(data), step):
            sock.sendall(data[at : at + step])
            if parts > 1:
                time.sleep(0.003)
        sock.settimeout(10)
        stream = sock.makefile("rb")
        for method in re.findall(rb"(?m)^([A-Z]+) \S+ HTTP/1", data):
            while True:
                line = stream.readline()
                if not line:
                    return [*found, "end"]
                status = int(line.split()[1])
                headers = []
                while (line := stream.readline()) not in (b"\r\n", b""):
                    name, _, value = line.partition(b":")
                    headers.append((name.decode().lower(), value.strip().decode()))
                if status != 100:
                    break
                found.append(100)
            fields = dict(headers)
            body = b""
            if method == b"HEAD" or status in (204, 304):
                pass
            elif fields.get("transfer-encoding") == "chunked":
                while size := int(stream.readline() or b"-1", 16):
                    if size < 0:
                        body += b"<broken>"
                        break
                    body += stream.read(size)
                    stream.readline()
                else:
                    stream.readline()
            elif "content-length" in fields:
                body = stream.read(int(fields["content-length"]))
            else:
                body = stream.read()
            ours = ("date", "server", "transfer-encoding", "content-length", "connection")
            found.append((status, sorted(h for h in headers if h[0] not in ours), body))
            if fields.get("connection") == "close":
                found.append("end" if stream.read(1) == b"" else "more")
                break
    return found


def ask(line, *fields, body=None):
    text = "\r\n".join([f"{line} HTTP/1.1", "Host: HOST", *fields])
    if body is not None:
        text += f"\r\nContent-Length: {len(body)}"
    return text.encode() + b"\r\n\r\n" + (body or b"")


MULTIPART = (
    b"--zz\r\nContent-Disposition: form-data; name=\"a\"\r\n\r\nb\r\n--zz\r\nContent-Disposition: form-data; "
    b"name=\"f\"; filename=\"x.bin\"\r\nContent-Type: application/octet-stream\r\n\r\n" + b"\0" * 300_000 + b"\r\n--zz--\r\n"
)
CHUNKED = b"5\r\nhello\r\n6;x=y\r\n world\r\n0\r\nT: x\r\n\r\n"
SAME = {
    "scope": ask("GET /scope?a=%20b&c", "X-Mixed: Case", "Cookie: a=1; b=2", "X-Mixed: again"),
    "escaped": ask("GET /a%2Fb%20c/%C3%A4?%41"),
    "scope with escapes": ask("GET /scope?%41=%42"),
    "no body": ask("POST /", body=b""),
    "body": ask("POST /", body=b"abc" * 1000),
    "length": ask("PUT /length", body=b"abc"),
    "chunked": ask("POST /", "Transfer-Encoding: chunked") + CHUNKED,
    "pieces": ask("POST /pieces", body=b"0123456789"),
    "head": ask("HEAD /length"),
    "no content": ask("DELETE /204"),
    "not modified": ask("GET /304"),
    "teapot": ask("GET /418"),
    "odd status": ask("GET /599"),
    "early": ask("POST /early", body=b"x" * 5000) + ask("GET /scope"),
    "close": ask("GET /", "Connection: close"),
    "pipelined": ask("GET /201") * 3 + ask("POST /pieces", body=b"abcdef") + ask("POST /202", body=b"x") + ask("GET /204"),
    "options": ask("OPTIONS /x"),
    "other method": ask("PROPFIND /418"),
    "broken": ask("GET /broken"),
    "form": ask("POST /s/form", "Content-Type: application/x-www-form-urlencoded", body=b"a=b&c=d+e"),
    "upload": ask("POST /s/form", "Content-Type: multipart/form-data; boundary=zz", body=MULTIPART),
    "counted": ask("POST /s/counted", body=b"z" * 1_000_000),
    "counted chunked": ask("PUT /s/counted", "Transfer-Encoding: chunked") + b"4000\r\n" + b"z" * 0x4000 + b"\r\n0\r\n\r\n",
    "wrong method": ask("GET /s/form"),
    "streamed": ask("GET /s/streamed") * 2,
    "fail": ask("GET /s/fail"),
    "missing": ask("GET /s/missing"),
    "file": ask("GET /s/file", "Range: bytes=10-40"),
    "file head": ask("HEAD /s/file"),
    "events": ask("GET /s/events"),
    "redirect": ask("GET /s/redirect"),
    "items": ask("GET /s/items/a/b%20c"),
    "preflight": ask("OPTIONS /s/items/x", "Origin: https://app.example", "Access-Control-Request-Method: GET"),
    "cors": ask("GET /s/items/x", "Origin: https://app.example"),
    "upgrade": ask("GET /418", "Connection: Upgrade, HTTP2-Settings", "Upgrade: h2c", "HTTP2-Settings: AAMAAABk"),
}


@pytest.mark.parametrize("name", SAME)
def test_the_same_bytes_get_the_same_answer(hosts, name):
    """Status, header lines, decoded body, and whether the connection goes on."""
    theirs, ours = (talk(port, SAME[name]) for port in hosts)
    assert any(isinstance(each, tuple) for each in theirs)
    assert ours == theirs


@pytest.mark.parametrize("name", ["body", "chunked", "upload", "pipelined", "counted chunked"])
def test_in_pieces_too(hosts, name):
    data = SAME[name]
    assert talk(hosts[1], data, parts=37) == talk(hosts[0], data)


def noted(port):
    return json.loads(talk(port, ask("GET /s/noted"))[0][2])


def settled(check):
    for _ in range(200):
        if check():
            return
        time.sleep(0.02)
    raise AssertionError("it did not come to that in time")


def test_background_tasks_run_behind_the_answer(hosts):
    for port in hosts:
        before = len(noted(port)["background"])
        assert talk(port, ask("GET /s/background"))[0][2] == b"now"
        settled(lambda port=port, want=before + 1: len(noted(port)["background"]) == want)


@pytest.mark.parametrize("path", ["endless", "watch"])
def test_applications_hear_that_their_client_left(hosts, path):
    for port in hosts:
        with socket.create_connection(("127.0.0.1", port), 10) as sock:
            sock.sendall(ask(f"GET /w/{path}").replace(b"HOST", f"127.0.0.1:{port}".encode()))
            if path == "endless":
                assert sock.recv(100)
            else:
                time.sleep(0.05)
        settled(lambda port=port: path in noted(port)["gone"])


def test_websockets_are_refused_in_plain_words(hosts):
    """We do not speak WebSocket: 501 instead of a page that was never meant for HTTP."""
    data = ask(
        "GET /s/talk", "Connection: Upgrade", "Upgrade: websocket", "Sec-WebSocket-Version: 13",
        "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==",
    )  # fmt: skip
    ((status, _, body),) = talk(hosts[1], data)
    assert (status, body) == (501, b"WebSocket is not spoken here")


@pytest.fixture(scope="module")
def guarded(peers):
    with run_peer(peers, "oauth_pages.py") as port:
        yield f"http://localhost:{port}"


def fetch(url, **options):
    try:
        with urllib.request.urlopen(urllib.request.Request(url, **options), timeout=10) as got:
            return got.status, dict(got.headers), got.read()
    except urllib.error.HTTPError as exc:
        return exc.code, dict(exc.headers), exc.read()


def test_au03_oauth_pages_share_the_port(guarded):
    """AU-02, AU-03, AU-05: metadata and a health page beside the endpoint, which answers 401 with its challenge."""
    assert fetch(f"{guarded}/health")[2] == b"well"
    status, _, body = fetch(f"{guarded}/.well-known/oauth-protected-resource/mcp")
    assert status == 200 and json.loads(body)["resource"] == f"{guarded}/mcp"
    status, _, body = fetch(f"{guarded}/.well-known/oauth-authorization-server")
    assert status == 200 and json.loads(body)["token_endpoint"] == f"{guarded}/token"
    status, headers, body = fetch(f"{guarded}/mcp", data=b"{}", headers={"Content-Type": "application/json"})
    assert status == 401 and json.loads(body) == {"error": "invalid_token"}
    assert f"{guarded}/.well-known/oauth-protected-resource/mcp" in headers["WWW-Authenticate"]
    assert fetch(f"{guarded}/register", data=b"[]", headers={"Content-Type": "application/json"})[0] == 400


def test_the_official_client_walks_through_the_flow(guarded, peers):
    """Discovery, registration, consent, token, and a call whose principal is the registered client."""
    found = support.run_json([peers, PEERS / "oauth_client.py", f"{guarded}/mcp"])
    assert found["text"] == f"client {found['client']}" and found["visits"] == 1
