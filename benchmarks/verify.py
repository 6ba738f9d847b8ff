"""Right answers first: every tool of a peer is called and its answer checked before anything is timed."""

from __future__ import annotations

import json
import subprocess
import threading
from typing import Any

from contenders import Peer
from harness import Failed, Place, one_line
from messages import HANDSHAKE, call_body, exchange, modern_call, open_session, session_call

CALLS: list[tuple[str, str, str]] = [
    ("echo", '{"text":"a \\"quoted\\" text, \\u00e9","n":5}', 'a "quoted" text, é'),
    ("add", '{"a":20,"b":22}', "42"),
    ("sleep", '{"seconds":0.01}', "slept"),
    ("blob", '{"size":5000}', "x" * 5000),
]
WRONG = ("echo", '{"text":"a text","n":"five"}')


def message_of(answer: bytes) -> dict[str, Any]:
    """The JSON-RPC response in an HTTP answer: JSON, or the last event of a stream."""
    head, _, body = answer.partition(b"\r\n\r\n")
    if b"chunked" in head.lower():
        plain, rest = b"", body
        while rest:
            size, _, rest = rest.partition(b"\r\n")
            n = int(size, 16)
            plain, rest = plain + rest[:n], rest[n + 2 :]
            if n == 0:
                break
        body = plain
    if b"text/event-stream" in head.lower():
        datas = [line[5:].strip() for line in body.replace(b"\r\n", b"\n").split(b"\n") if line.startswith(b"data:")]
        body = next((data for data in reversed(datas) if b'"result"' in data or b'"error"' in data), b"")
    try:
        return dict(json.loads(body))
    except ValueError:
        raise Failed(f"no JSON-RPC answer: {one_line(answer[:300].decode(errors='replace'))}") from None


def check(name: str, message: dict[str, Any], expected: str) -> None:
    result = message.get("result")
    if not isinstance(result, dict) or result.get("isError"):
        raise Failed(f"{name} was answered {one_line(json.dumps(message))[:200]}")
    text = "".join(block.get("text", "") for block in result.get("content", ()))
    if message.get("id") != 7 or text != expected:
        raise Failed(f"{name} was answered {one_line(json.dumps(message))[:200]}")


def refuses(message: dict[str, Any]) -> bool:
    return "error" in message or bool(message.get("result", {}).get("isError"))


def over_http(peer: Peer, place: Place) -> bool:
    """Calls every tool. True when wrong argument types are refused."""
    headers = None if peer.era == "modern" else open_session(place.port)

    def call(tool: str, arguments: str) -> dict[str, Any]:
        if headers is None:
            return message_of(exchange(place.port, modern_call(tool, arguments, id="7")))
        return message_of(exchange(place.port, session_call(headers, tool, arguments, id="7")))

    for tool, arguments, expected in CALLS:
        check(tool, call(tool, arguments), expected)
    return refuses(call(*WRONG))


def over_pipes(command: list[str], env: dict[str, str]) -> bool:
    """The same on pipes, in a session."""
    child = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, env=env)
    assert child.stdin is not None and child.stdout is not None
    late = threading.Timer(30, child.kill)
    late.start()

    def answer() -> dict[str, Any]:
        assert child.stdout is not None
        while line := child.stdout.readline():
            message = json.loads(line)
            if "id" in message and "method" not in message:
                return dict(message)
        raise Failed("it ended, or did not answer within 30 s")

    def call(tool: str, arguments: str) -> dict[str, Any]:
        assert child.stdin is not None
        child.stdin.write(call_body(tool, arguments, modern=False).encode() + b"\n")
        child.stdin.flush()
        return answer()

    try:
        child.stdin.write(HANDSHAKE.encode())
        child.stdin.flush()
        answer()
        for tool, arguments, expected in CALLS:
            check(tool, call(tool, arguments), expected)
        return refuses(call(*WRONG))
    except BrokenPipeError:
        raise Failed("it ended") from None
    finally:
        late.cancel()
        child.kill()
        child.wait()
        child.stdin.close()
        child.stdout.close()
