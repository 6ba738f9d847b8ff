"""Which era and transport a client ends with, row by row (VN-40..VN-51), against scripted servers."""

import asyncio
import json
import sys
import textwrap

import pytest
from http_peer import plain
from http_script import HttpScript, agreed
from scripted_peer import MODERN, Script, error, handshake

from headrace import ConnectFailed, Limits, RequestTimeout, connect
from headrace.client import eras
from headrace.jsonrpc import R1, R2, R3, R4, R5

DISCOVER, INIT, INITED, GET = "server/discover", "initialize", "notifications/initialized", "GET"
LEGACY_LIST = error(-32022, {"supported": [R4, R3], "requested": R5})
MODERN_LIST = error(-32022, {"supported": [R5], "requested": R5})
NO_COMMON = error(-32022, {"supported": ["2031-01-01"], "requested": R5})


def typed(status, body, kind="application/json", **headers):
    return plain(status, body if isinstance(body, bytes) else json.dumps(body).encode(), Content_Type=kind, **headers)


def body(code, id=1, data=None):
    return {"jsonrpc": "2.0", "id": id, "error": error(code, data)}


# name: (answer to server/discover, revision or None, methods that the server sees)
HTTP_ROWS = {
    "modern": (MODERN, R5, [DISCOVER]),
    "modern among others": ({**MODERN, "supportedVersions": [R4, R5]}, R5, [DISCOVER]),
    "VN-43 only legacy versions": ({**MODERN, "supportedVersions": [R3, R4]}, R4, [DISCOVER, INIT, INITED, GET]),
    "VN-43 no version of ours": ({**MODERN, "supportedVersions": ["2031-01-01"]}, None, [DISCOVER]),
    "no versions at all": ({**MODERN, "supportedVersions": None}, R4, [DISCOVER, INIT, INITED, GET]),
    "a result that is no object": (typed("200 OK", b'{"jsonrpc":"2.0","id":1,"result":7}'), R4, [DISCOVER, INIT, INITED, GET]),
    "VN-47 200 -32601": (error(-32601), R4, [DISCOVER, INIT, INITED, GET]),
    "VN-47 200 -32600": (error(-32600), R4, [DISCOVER, INIT, INITED, GET]),
    "VN-47 200 -32602": (error(-32602), R4, [DISCOVER, INIT, INITED, GET]),
    "VN-47 200 -32000": (error(-32000), R4, [DISCOVER, INIT, INITED, GET]),
    "VN-47 200 custom": (error(-1), R4, [DISCOVER, INIT, INITED, GET]),
    "VN-46 404 -32601": (("404 Not Found", error(-32601)), R4, [DISCOVER, INIT, INITED, GET]),
    "VN-43 500 -32601": (("500 Oops", error(-32601)), R4, [DISCOVER, INIT, INITED, GET]),
    "VN-45 400 empty": (plain("400 Bad Request"), R4, [DISCOVER, INIT, INITED, GET]),
    "VN-45 400 html": (typed("400 Bad Request", b"<html>", "text/html"), R4, [DISCOVER, INIT, INITED, GET]),
    "VN-45 400 json": (typed("400 Bad Request", {"why": "no"}), R4, [DISCOVER, INIT, INITED, GET]),
    "VN-45 400 session": (("400 Bad Request", error(-32000)), R4, [DISCOVER, INIT, INITED, GET]),
    "VN-45 400 null id": (typed("400 Bad Request", body(-32600, None)), R4, [DISCOVER, INIT, INITED, GET]),
    "VN-45 400 string id": (typed("400 Bad Request", body(-32000, "server-error")), R4, [DISCOVER, INIT, INITED, GET]),
    "404 empty": (plain("404 Not Found"), R4, [DISCOVER, INIT, INITED, GET]),
    "405": (plain("405 Method Not Allowed"), R4, [DISCOVER, INIT, INITED, GET]),
    "406": (plain("406 Not Acceptable"), R4, [DISCOVER, INIT, INITED, GET]),
    "410": (plain("410 Gone"), R4, [DISCOVER, INIT, INITED, GET]),
    "415": (plain("415 Unsupported Media Type"), R4, [DISCOVER, INIT, INITED, GET]),
    "202": (plain("202 Accepted"), R4, [DISCOVER, INIT, INITED, GET]),
    "200 text": (typed("200 OK", b"hello", "text/plain"), R4, [DISCOVER, INIT, INITED, GET]),
    "200 not json": (typed("200 OK", b"hello"), R4, [DISCOVER, INIT, INITED, GET]),
    "VN-40b -32020": (("400 Bad Request", error(-32020)), None, [DISCOVER]),
    "VN-40b -32021": (("400 Bad Request", error(-32021)), None, [DISCOVER]),
    "VN-40b -32020 in 200": (error(-32020), None, [DISCOVER]),
    "VN-23 modern list for ever": (("400 Bad Request", MODERN_LIST), None, [DISCOVER, DISCOVER]),
    "VN-43 -32022 legacy list": (("400 Bad Request", LEGACY_LIST), R4, [DISCOVER, INIT, INITED, GET]),
    "VN-43 -32022 legacy list, 200": (LEGACY_LIST, R4, [DISCOVER, INIT, INITED, GET]),
    "VN-23 -32022 nothing common": (("400 Bad Request", NO_COMMON), None, [DISCOVER]),
    "VN-47 401": (plain("401 Unauthorized", WWW_Authenticate="Bearer"), None, [DISCOVER]),
    "VN-47 401 json": (("401 Unauthorized", error(-32001)), None, [DISCOVER]),
    "VN-47 403": (plain("403 Forbidden"), None, [DISCOVER]),
    "VN-47 403 json": (("403 Forbidden", error(-32600)), None, [DISCOVER]),
    "VN-47 407": (plain("407 Proxy Authentication Required"), None, [DISCOVER]),
    "VN-47 408": (plain("408 Request Timeout"), None, [DISCOVER]),
    "VN-47 429": (plain("429 Too Many Requests", Retry_After="9"), None, [DISCOVER]),
    "VN-47 500": (plain("500 Oops"), None, [DISCOVER]),
    "VN-47 500 json": (("500 Oops", error(-32603)), None, [DISCOVER]),
    "VN-47 502 html": (typed("502 Bad Gateway", b"<html>", "text/html"), None, [DISCOVER]),
    "VN-47 503": (plain("503 No", Retry_After="9"), None, [DISCOVER]),
    "VN-47 301": (plain("301 Moved Permanently", Location="/new"), None, [DISCOVER]),
    "VN-47 303": (plain("303 See Other", Location="/new"), None, [DISCOVER]),
    "VN-47 307 elsewhere": (plain("307 Temporary Redirect", Location="http://127.0.0.1:1/mcp"), None, [DISCOVER]),
}


@pytest.mark.parametrize("row", HTTP_ROWS)
def test_vn43_vn45_vn46_vn47_rows_over_http(run, row):
    probe, revision, methods = HTTP_ROWS[row]

    async def main():
        async with HttpScript(discover=probe, initialize=handshake()) as script:
            if revision is None:
                with pytest.raises(ConnectFailed):
                    await agreed(script)
            else:
                assert await agreed(script) == revision
            for _ in range(100):
                if script.methods[: len(methods)] == methods:
                    break
                await asyncio.sleep(0.01)
            assert script.methods == methods
            for request in script.seen:
                if request.method == "POST" and request.body["method"] == "initialize":  # VN-49, VN-08
                    assert request.body["params"]["protocolVersion"] == R4 and "_meta" not in request.body["params"]
                    assert not [h for h in request.headers if h.startswith("mcp-")]

    run(main)


@pytest.mark.parametrize("status", [307, 308])
def test_vn47_a_redirect_is_followed_and_the_final_answer_judged(run, status):
    async def main():
        async with HttpScript(initialize=handshake()) as script:

            def discover(request):
                if request.target == "/mcp":
                    return plain(f"{status} Moved", Location="/new")
                return plain("404 Not Found")

            script.replies["discover"] = discover
            assert await agreed(script) == R4
            assert [r.target for r in script.seen[:3]] == ["/mcp", "/new", "/new"]

    run(main)


def test_vn47_silence_and_closes_over_http_are_no_evidence(run):
    async def main():
        async def silent(request):
            await asyncio.sleep(20)

        async with HttpScript(discover=silent, initialize=handshake()) as script:
            with pytest.raises(RequestTimeout, match="server/discover"):
                await agreed(script, limits=Limits(connect_timeout=0.2))
            assert script.methods == [DISCOVER]
        async with HttpScript(discover=lambda r: r.conn.reset(), initialize=handshake()) as script:
            with pytest.raises(ConnectFailed):
                await agreed(script)
            assert INIT not in script.methods

    run(main)


@pytest.mark.parametrize("answer", [error(-32022, {"supported": [R5]}), error(-32601), ("400 Bad Request", MODERN_LIST)])
def test_vn51_a_legacy_client_does_not_fall_forward(run, answer):
    async def main():
        async with HttpScript(initialize=answer, discover=MODERN) as script:
            with pytest.raises(ConnectFailed):
                await agreed(script, revision=R4)
            assert script.methods == [INIT]
        plain_answer = answer[1] if isinstance(answer, tuple) else answer
        async with Script(initialize=plain_answer, discover=MODERN) as script:
            with pytest.raises(ConnectFailed):
                async with connect(script.target, revision=R4):
                    pass
            assert script.methods == [INIT]

    run(main)


@pytest.mark.parametrize("probe", [error(-32601), error(-32000), None])
def test_vn44_a_modern_only_client_probes_before_it_calls(run, probe):
    async def main():
        async with Script(discover=probe, initialize=handshake(), tools_call={"content": []}) as script:
            with pytest.raises((ConnectFailed, RequestTimeout)):
                async with connect(script.target, revision=R5, limits=Limits(connect_timeout=0.3)) as client:
                    await client.call_tool("t")
            assert [m for m in script.methods if m != "notifications/cancelled"] == [DISCOVER]

    run(main)


LINE_ROWS = {
    "modern": (MODERN, R5, [DISCOVER]),
    "VN-43 only legacy versions": ({**MODERN, "supportedVersions": [R2]}, R4, [DISCOVER, INIT, INITED]),
    "VN-41 -32601": (error(-32601), R4, [DISCOVER, INIT, INITED]),
    "VN-41 -32602": (error(-32602), R4, [DISCOVER, INIT, INITED]),
    "VN-41 -32600": (error(-32600), R4, [DISCOVER, INIT, INITED]),
    "VN-41 -32603": (error(-32603), R4, [DISCOVER, INIT, INITED]),
    "VN-41 custom": (error(42), R4, [DISCOVER, INIT, INITED]),
    "VN-41 silence": (None, R4, [DISCOVER, INIT, INITED]),
    "VN-40b -32020": (error(-32020), None, [DISCOVER]),
    "VN-40b -32021": (error(-32021), None, [DISCOVER]),
    "VN-43 -32022 legacy list": (LEGACY_LIST, R4, [DISCOVER, INIT, INITED]),
    "VN-23 -32022 nothing common": (NO_COMMON, None, [DISCOVER]),
    "VN-23 modern list for ever": (MODERN_LIST, None, [DISCOVER, DISCOVER]),
}


@pytest.mark.parametrize("row", LINE_ROWS)
def test_vn40_vn41_rows_over_lines(run, row):
    probe, revision, methods = LINE_ROWS[row]

    async def main():
        async with Script(discover=probe, initialize=handshake()) as script:
            limits = Limits(connect_timeout=1.2)
            if revision is None:
                with pytest.raises(ConnectFailed):
                    async with connect(script.target, limits=limits):
                        pass
            else:
                async with connect(script.target, limits=limits) as client:
                    assert client.protocol_version == revision
                    await asyncio.sleep(0.01)
            assert script.methods == methods

    run(main)


# --- VN-50 -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["http", "lines"])
def test_vn50_a_later_connect_costs_no_failing_probe(run, kind):
    async def main():
        server = (HttpScript if kind == "http" else Script)(discover=error(-32601), initialize=handshake())
        async with server as script:
            target = script.url if kind == "http" else script.target
            for _ in range(3):
                async with connect(target) as client:
                    assert client.protocol_version == R4
            assert script.methods.count(DISCOVER) == 1 and script.methods.count(INIT) == 3
            # A forced revision is not concerned, and finds nothing out for others.
            eras.clear()
            async with connect(target, revision=R4):
                pass
            async with connect(target):
                pass
            assert script.methods.count(DISCOVER) == 2

    run(main)


@pytest.mark.parametrize("kind", ["http", "lines"])
@pytest.mark.parametrize("answer", [error(-32022, {"supported": [R5]}), error(-32601), "closed"])
def test_vn50_a_wrong_memory_costs_one_more_try(run, kind, answer):
    """The server was replaced by a modern one between two connects."""

    async def main():
        server = (HttpScript if kind == "http" else Script)(discover=error(-32601), initialize=handshake())
        async with server as script:
            target = script.url if kind == "http" else script.target
            async with connect(target):
                pass
            await asyncio.sleep(0.01)
            script.seen.clear()
            if kind == "http":
                script.replies.update(discover=MODERN, initialize=None if answer == "closed" else answer)
            else:
                closes = lambda message, writer: writer.close()  # noqa: E731
                script.answers.update(discover=MODERN, initialize=closes if answer == "closed" else answer)
            async with connect(target) as client:
                assert client.protocol_version == R5
            assert [m for m in script.methods if m in (DISCOVER, INIT)][-1] == DISCOVER and DISCOVER not in script.methods[:1]
            script.seen.clear()
            async with connect(target) as client:
                assert client.protocol_version == R5
            assert INIT not in script.methods

    run(main)


@pytest.mark.parametrize("status", ["401 Unauthorized", "429 Too Many", "503 No"])
def test_vn50_no_evidence_keeps_the_memory(run, status):
    async def main():
        async with HttpScript(discover=error(-32601), initialize=handshake()) as script:
            async with connect(script.url):
                pass
            script.replies["initialize"] = plain(status)
            script.seen.clear()
            with pytest.raises(ConnectFailed):
                await agreed(script)
            assert script.methods == [INIT]
            script.replies["initialize"] = handshake()
            assert await agreed(script) == R4
            assert DISCOVER not in script.methods

    run(main)


def test_vn50_a_timeout_forgets(run):
    """A remembered handshake that is met with silence: the next connect finds out anew."""

    async def main():
        async with Script(discover=error(-32601), initialize=handshake()) as script:
            async with connect(script.target):
                pass
            script.answers.update(discover=MODERN, initialize=None)
            with pytest.raises(RequestTimeout, match="initialize"):
                async with connect(script.target, limits=Limits(connect_timeout=0.2)):
                    pass
            async with connect(script.target) as client:
                assert client.protocol_version == R5

    run(main)


def test_vn50_the_memory_is_bounded_and_ends(monkeypatch):
    for i in range(eras.MOST + 10):
        eras.remember(i, "handshake")
    assert eras.recall(0) is None and eras.recall(eras.MOST + 9) == "handshake" and eras.recall(10) == "handshake"
    eras.remember("new", "modern")  # 11 was used the longest time ago, 10 just now
    assert eras.recall(11) is None and eras.recall(10) == "handshake"
    eras.remember(None, "modern")
    assert eras.recall(None) is None
    now = eras.time.monotonic()
    monkeypatch.setattr(eras.time, "monotonic", lambda: now + eras.LASTS + 1)
    assert eras.recall(10) is None
    eras.clear()
    assert eras.recall("new") is None


CHILD = """
import json, os, sys
with open({log!r}, "a") as log:
    log.write("start\\n")
line = sys.stdin.readline()
if "discover" in line:
    {at_probe}
message = json.loads(line)
print(json.dumps({{"jsonrpc": "2.0", "id": message["id"], "result": {{
    "protocolVersion": "2024-11-05", "capabilities": {{}}, "serverInfo": {{"name": "n", "version": "1"}}}}}}), flush=True)
sys.stdin.readline()
sys.stdin.readline()
"""


def child(tmp_path, at_probe):
    log = tmp_path / "starts"
    script = tmp_path / "child.py"
    script.write_text(textwrap.dedent(CHILD).format(log=str(log), at_probe=at_probe))
    return [sys.executable, str(script)], lambda: log.read_text().count("start")


@pytest.mark.parametrize("at_probe", ["sys.exit(1)", "sys.exit(0)", "raise KeyError('server/discover')"])
def test_vn50_a_program_that_ends_at_the_probe_is_started_twice_once(run, tmp_path, at_probe):
    """The first connect pays for it; later ones begin with the handshake."""

    async def main():
        command, starts = child(tmp_path, at_probe)
        for n in (2, 3, 4):
            async with connect(command) as client:
                assert client.protocol_version == R1
            assert starts() == n

    run(main)


@pytest.mark.parametrize("at_probe", ["os.abort()", "sys.exit(2)", "os.kill(os.getpid(), 9)", "sys.exit(127)"])
def test_a_program_that_a_signal_or_its_arguments_ended_is_started_once(run, tmp_path, at_probe):
    async def main():
        command, starts = child(tmp_path, at_probe)
        with pytest.raises(ConnectFailed) as caught:
            async with connect(command):
                pass
        assert starts() == 1 and caught.value.exit_code not in (None, 0)

    run(main)
