"""What servers ask of the client: requests in the handshake era, rounds in the modern era (CF-01..34, MX-30..38)."""

import asyncio
import json

import pytest
from scripted_peer import MODERN, Script, error, handshake

from headrace import (
    Elicited,
    InputRefused,
    InputRequired,
    Limits,
    LocalProtocolError,
    RemoteProtocolError,
    RequestTimeout,
    RpcError,
    UsageError,
    connect,
)
from headrace.client.forms import check_content, choices, form_defaults, with_defaults
from headrace.client.inputs import as_roots
from headrace.jsonrpc import CLIENT_CAPABILITIES, R3, R4
from headrace.types import CreateMessageResult, Root, TextContent

FORM = {
    "type": "object",
    "properties": {
        "name": {"type": "string", "minLength": 2},
        "age": {"type": "integer", "default": 30},
        "color": {"type": "string", "enum": ["r", "g"], "enumNames": ["Red", "Green"], "default": "r"},
    },
    "required": ["name"],
}
ELICIT = {"method": "elicitation/create", "params": {"message": "who?", "requestedSchema": FORM}}
URL = {
    "method": "elicitation/create",
    "params": {"mode": "url", "message": "go", "url": "https://x.example/a", "elicitationId": "e1"},
}
SAMPLE = {
    "method": "sampling/createMessage",
    "params": {"messages": [{"role": "user", "content": {"type": "text", "text": "hi"}}], "maxTokens": 5},
}
ROOTS = {"method": "roots/list"}


async def answers_to(*requests, revision=R4, cancel=None, until=None, **options):
    """What the client answers requests of a server of the handshake era, by id, in the order they came."""
    frames = "".join(json.dumps({"jsonrpc": "2.0", "id": i, **r}) + "\n" for i, r in enumerate(requests))

    def call(message, writer):
        writer.write(frames.encode())
        return {"content": []}

    answers = {"discover": error(-32601), "initialize": handshake(revision), "tools_call": call}
    async with Script(**answers) as peer:
        async with connect(peer.target, **options) as client:
            await client.call_tool("t")
            if cancel is not None:
                note = {"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": cancel}}
                peer.writers[0].write(json.dumps(note).encode() + b"\n")
            if until is not None:
                await until()
            for _ in range(500):
                got = [m for m in peer.seen if "method" not in m]
                if len(got) >= len(requests) - (cancel is not None):
                    break
                await asyncio.sleep(0.01)
        await peer.ended()
        return {m["id"]: m.get("result", m.get("error")) for m in peer.seen if "method" not in m}, peer


# --- declared ----------------------------------------------------------------------------------------


def test_cf02_capabilities_follow_from_what_was_given(run):
    """CF-02: the handshake's object and that of each modern request; roots have no listChanged in the latter."""

    async def declared(discover, **options):
        tool = {"tools_call": {"content": []}}
        async with Script(discover=discover, initialize=handshake(), **tool) as peer:
            async with connect(peer.target, **options) as client:
                await client.call_tool("t")
            for message in reversed(peer.seen):
                if message["method"] == "initialize":
                    return message["params"]["capabilities"]
                if discover is MODERN and message["method"] == "tools/call":
                    return message["params"]["_meta"][CLIENT_CAPABILITIES]

    async def main():
        everything = {
            "roots": ["/tmp"],
            "sampling": print,
            "sampling_features": ["tools"],
            "elicitation": print,
            "elicitation_modes": ["url", "form"],
            "extensions": {"vendor/x": {"a": 1}},
            "capabilities": {"experimental": {"y": {}}},
        }
        expected = {
            "roots": {"listChanged": True},
            "sampling": {"tools": {}},
            "elicitation": {"form": {}, "url": {}},
            "extensions": {"vendor/x": {"a": 1}},
            "experimental": {"y": {}},
        }
        assert await declared(error(-32601), **everything) == expected
        assert await declared(MODERN, **everything) == {**expected, "roots": {}}
        assert await declared(error(-32601)) == {}
        assert await declared(MODERN, elicitation=print) == {"elicitation": {"form": {}}}

    run(main)


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ({"elicitation": 7}, "must be a function"),
        ({"elicitation": print, "elicitation_modes": ["fax"]}, "fax"),
        ({"sampling": print, "sampling_features": ["magic"]}, "magic"),
        ({"roots": ["https://x.example"]}, "file://"),
        ({"roots": "/tmp"}, "list"),
        ({"extensions": {"x": {}}}, "VN-31"),
    ],
)
def test_wrong_options_are_told_at_once(options, text):
    with pytest.raises(UsageError, match=text):
        connect("tcp:h:1", **options)


def test_cf10_roots_are_file_uris(tmp_path):
    named = Root(uri="file:///b", name="B")
    roots = as_roots([tmp_path, "/a b", "file:///c", named, {"uri": "file:///d", "name": "D"}])
    assert [r.uri for r in roots] == [tmp_path.as_uri(), "file:///a%20b", "file:///c", "file:///b", "file:///d"]
    assert roots[3].name == "B"
    for wrong in ("http://x/", 7, {"name": "x"}):
        with pytest.raises(UsageError):
            as_roots([wrong])


# --- the handshake era -------------------------------------------------------------------------------


def test_cf01_the_servers_requests_are_answered_by_the_callbacks(run):
    """CF-01, CF-10, CF-21, CF-31: real requests, bare results; CF-30: defaults are filled in."""
    seen = []

    async def sampling(params):
        seen.append(params)
        return "pong"

    def elicitation(params):
        seen.append(params)
        return {"name": "Ann"}

    async def main():
        got, _ = await answers_to(
            ROOTS, SAMPLE, ELICIT, roots=lambda: ["/a"], sampling=sampling, elicitation=elicitation
        )
        assert got[0] == {"roots": [{"uri": "file:///a"}]}
        assert got[1] == {"role": "assistant", "content": {"type": "text", "text": "pong"}, "model": "unknown"}
        assert got[2] == {"action": "accept", "content": {"name": "Ann", "age": 30, "color": "r"}}
        assert seen[0].max_tokens == 5
        assert (seen[1].message, seen[1].mode, seen[1].requested_schema) == ("who?", "form", FORM)

    run(main)


def test_cf33_undeclared_features_and_modes_are_refused(run):
    """CF-10: -32601 without a callback; CF-33: -32602 for an undeclared mode; nothing is asked of the user."""

    async def main():
        asked = []
        got, _ = await answers_to(ROOTS, SAMPLE, URL, ELICIT, elicitation=asked.append)
        assert [got[i].get("code") for i in range(3)] == [-32601, -32601, -32602]
        assert got[3] == {"action": "cancel"}
        assert len(asked) == 1
        got, _ = await answers_to(URL, ELICIT, elicitation=lambda p: True, elicitation_modes=["url"])
        assert (got[0], got[1]["code"]) == ({"action": "accept"}, -32602)

    run(main)


@pytest.mark.parametrize(
    ("url", "shown"),
    [
        ("https://x.example/a?b=c#d", True),
        ("http://localhost:8000/", True),
        ("http://127.0.0.1/", True),
        ("http://[::1]:1/", True),
        ("http://x.example/", False),
        ("http://localhost.evil.example/", False),
        ("http://127.0.0.1@evil.example/", False),
        ("https://user:word@x.example/", False),
        ("javascript:alert(1)", False),
        ("file:///etc/passwd", False),
        ("x.example", False),
        ("https://x.example/\u202egpj.exe", False),
        ("https://", False),
    ],
)
def test_se06_addresses_that_nobody_is_shown(run, url, shown):
    """SE-06: https, or http of this machine; anything else is refused before the callback hears of it, in both eras."""

    async def main():
        asked = []

        def agree(params):
            asked.append(params.url)
            return True

        options = {"elicitation": agree, "elicitation_modes": ["url"]}
        question = {"method": URL["method"], "params": {**URL["params"], "url": url}}
        got, _ = await answers_to(question, **options)
        assert got[0] == {"action": "accept"} if shown else got[0]["code"] == -32602
        rounds = [{"resultType": "input_required", "inputRequests": {"q": question}, "requestState": "s"}, {"content": []}]
        async with Script(discover=MODERN, tools_call=lambda *_: rounds.pop(0)) as peer, connect(peer.target, **options) as client:
            if shown:
                await client.call_tool("t")
            else:
                with pytest.raises(RemoteProtocolError, match="neither https nor"):
                    await client.call_tool("t")
        assert asked == [url] * (2 if shown else 0)

    run(main)


def test_cf23_refusals_and_failures_of_callbacks(run, caplog):
    """CF-23: -1 for a refusal; JR-38: -32603 without a word of an exception's text; errors of choice as they are."""

    def refuse(params):
        raise InputRefused("not today")

    def fail(params):
        raise ValueError("secret")

    def error_of_choice(params):
        raise RpcError(-32000, "busy", {"a": 1})

    async def main():
        got, _ = await answers_to(SAMPLE, sampling=refuse)
        assert got[0] == {"code": -1, "message": "not today"}
        got, _ = await answers_to(SAMPLE, sampling=lambda p: None)
        assert got[0]["code"] == -1
        got, _ = await answers_to(ELICIT, elicitation=refuse)
        assert got[0] == {"action": "decline"}
        got, _ = await answers_to(SAMPLE, ELICIT, sampling=fail, elicitation=fail)
        assert got[0] == got[1] == {"code": -32603, "message": "internal error"}
        got, _ = await answers_to(SAMPLE, sampling=error_of_choice)
        assert got[0] == {"code": -32000, "message": "busy", "data": {"a": 1}}
        got, _ = await answers_to(SAMPLE, sampling=lambda p: {"role": "assistant"})
        assert got[0]["code"] == -32603

    run(main)
    assert "secret" in caplog.text  # in our log only


@pytest.mark.parametrize(
    "request_",
    [
        {"method": "sampling/createMessage", "params": {"maxTokens": 1}},
        {"method": "elicitation/create", "params": {"message": 7}},
        {"method": "elicitation/create", "params": {"mode": "url", "message": "x"}},
        {"method": "elicitation/create"},
    ],
)
def test_malformed_questions_are_invalid_params(run, request_):
    async def main():
        got, _ = await answers_to(
            request_, sampling=print, elicitation=print, elicitation_modes=["form", "url"]
        )
        assert got[0]["code"] == -32602

    run(main)


def test_mx12_the_server_may_cancel_its_request(run):
    """MX-12: the callback's task is cancelled, no answer is sent."""
    ended = []

    async def main():
        entered = asyncio.Event()
        left = asyncio.Event()

        async def wait(params):
            entered.set()
            try:
                await asyncio.sleep(60)
            finally:
                ended.append(params)
                left.set()

        got, _ = await answers_to(ELICIT, cancel=0, until=left.wait, elicitation=wait)
        assert got == {}
        assert len(ended) == 1

    run(main)


def test_questions_at_once_are_bounded(run):
    """limits.max_server_requests: the others wait, in order; each has a task of its own."""

    async def main():
        running = peak = 0

        async def sampling(params):
            nonlocal running, peak
            running += 1
            peak = max(peak, running)
            await asyncio.sleep(0.01)
            running -= 1
            return "x"

        got, _ = await answers_to(*[SAMPLE] * 9, sampling=sampling, limits=Limits(max_server_requests=3))
        assert len(got) == 9
        assert peak == 3

    run(main)


def message(role, *blocks):
    return {"role": role, "content": list(blocks)}


USE = {"type": "tool_use", "id": "u1", "name": "n", "input": {}}
RESULT = {"type": "tool_result", "toolUseId": "u1", "content": []}
TEXT = {"type": "text", "text": "x"}


@pytest.mark.parametrize(
    ("messages", "good"),
    [
        ([message("user", TEXT), message("assistant", USE), message("user", RESULT)], True),
        ([message("assistant", USE)], False),
        ([message("assistant", USE), message("user", TEXT)], False),
        ([message("assistant", USE), message("user", RESULT, TEXT)], False),
        ([message("user", RESULT)], False),
        ([message("user", USE)], False),
        ([message("assistant", USE, {**USE, "id": "u2"}), message("user", RESULT)], False),
    ],
)
def test_cf22_tool_use_in_sampling_messages(run, messages, good):
    async def main():
        question = {"method": "sampling/createMessage", "params": {"messages": messages, "maxTokens": 1}}
        got, _ = await answers_to(question, sampling=lambda p: "ok", sampling_features=["tools"])
        assert ("role" in got[0]) is good
        if not good:
            assert got[0]["code"] == -32602

    run(main)


def test_cf22_tools_only_when_declared(run):
    async def main():
        tools = [{"name": "t", "inputSchema": {"type": "object"}}]
        question = {**SAMPLE, "params": {**SAMPLE["params"], "tools": tools}}
        got, _ = await answers_to(question, sampling=lambda p: "ok")
        assert got[0]["code"] == -32602
        got, _ = await answers_to(question, sampling=lambda p: p.tools[0].name, sampling_features=["tools"])
        assert got[0]["content"]["text"] == "t"
        got, _ = await answers_to(question, revision=R3, sampling=lambda p: "ok")
        assert "role" in got[0]  # unknown members of an older revision are ignored (JR-16)

    run(main)


def test_cf10_changes_of_roots_are_told(run):
    async def main():
        async with Script(discover=error(-32601), initialize=handshake(), ping={}) as peer:
            async with connect(peer.target, roots=["/a"]) as client:
                client.set_roots(["/b"])
                client.notify_roots_changed()
                await client.ping()
            assert peer.methods.count("notifications/roots/list_changed") == 2
            async with connect(peer.target) as client:
                with pytest.raises(UsageError, match="roots"):
                    client.set_roots(["/b"])
        async with Script(discover=MODERN, tools_call={"content": []}) as peer:
            async with connect(peer.target, roots=["/a"]) as client:
                client.notify_roots_changed()  # the modern era has no such notification
                await client.call_tool("t")
            assert "notifications/roots/list_changed" not in peer.methods

    run(main)


# --- the modern era ----------------------------------------------------------------------------------


def rounds(*results):
    """A handler that answers with one result after the other."""
    left = list(results)

    def answer(message, writer):
        return left.pop(0) if len(left) > 1 else left[0]

    return answer


def asks(state=None, **requests):
    found = {"resultType": "input_required"}
    if requests:
        found["inputRequests"] = requests
    if state is not None:
        found["requestState"] = state
    return found


DONE = {"resultType": "complete", "content": [{"type": "text", "text": "done"}]}


async def played(*results, calls=("t",), method="tools_call", call=None, **options):
    capabilities = {"capabilities": {"tools": {}, "prompts": {}, "resources": {}}}
    async with Script(discover={**MODERN, **capabilities}, **{method: rounds(*results)}) as peer:
        async with connect(peer.target, **options) as client:
            result = await (client.call_tool("t", {"a": 1}) if call is None else call(client))
        return result, [m for m in peer.seen if m["method"] == method.replace("_", "/")]


def test_mx32_rounds_of_input(run):
    """MX-32, MX-33, MX-34: original params, new ids, fresh tokens, only the latest answers and state."""
    progress = []

    async def main():
        result, seen = await played(
            asks("s1", who=ELICIT, where=ROOTS),
            asks(None, text=SAMPLE),
            asks("s3", who=ELICIT),
            DONE,
            call=lambda c: c.call_tool("t", {"a": 1}, on_progress=progress.append, meta={"k": "v"}),
            elicitation=lambda p: Elicited("accept", {"name": "Bob"}),
            sampling=lambda p: CreateMessageResult(role="assistant", content=TextContent(text="s"), model="m"),
            roots=["/r"],
        )
        assert result.text == "done"
        params = [m["params"] for m in seen]
        assert len({m["id"] for m in seen}) == 4
        assert len({p["_meta"]["progressToken"] for p in params}) == 4
        for p in params:
            assert (p["name"], p["arguments"], p["_meta"]["k"]) == ("t", {"a": 1}, "v")
        form = {"action": "accept", "content": {"name": "Bob", "age": 30, "color": "r"}}
        assert "inputResponses" not in params[0] and "requestState" not in params[0]
        assert params[1]["inputResponses"] == {"who": form, "where": {"roots": [{"uri": "file:///r"}]}}
        assert params[1]["requestState"] == "s1"
        sampled = {"role": "assistant", "content": {"type": "text", "text": "s"}, "model": "m"}
        assert params[2]["inputResponses"] == {"text": sampled}
        assert "requestState" not in params[2]
        assert (params[3]["inputResponses"], params[3]["requestState"]) == ({"who": form}, "s3")

    run(main)


@pytest.mark.parametrize(
    ("method", "call", "done"),
    [
        ("prompts_get", lambda c: c.get_prompt("p", {"x": "y"}), {"messages": []}),
        ("resources_read", lambda c: c.read_resource("x://a"), {"contents": []}),
    ],
)
def test_mx30_prompts_and_resources_ask_as_well(run, method, call, done):
    async def main():
        _, seen = await played(
            asks("s", who=ELICIT), done, method=method, call=call, elicitation=lambda p: Elicited("decline")
        )
        first, second = (m["params"] for m in seen)
        assert second["inputResponses"] == {"who": {"action": "decline"}}
        assert second["requestState"] == "s"
        for key in ("name", "arguments", "uri"):
            assert first.get(key) == second.get(key)

    run(main)


def test_mx33_the_state_goes_back_as_the_very_same_bytes(run):
    """MX-33: escapes of the server's JSON text survive, however odd."""
    token = rb'"a\u00e9\/\ud83d\ude00 x"'

    async def main():
        raw = []
        server = None

        async def serve(reader, writer):
            while line := await reader.readline():
                message = json.loads(line)
                raw.append(line)
                if message["method"] == "server/discover":
                    body = json.dumps(MODERN).encode()
                elif len(raw) < 3:
                    body = b'{"resultType":"input_required","requestState":%b}' % token
                else:
                    body = json.dumps(DONE).encode()
                writer.write(b'{"jsonrpc":"2.0","id":%d,"result":%b}\n' % (message["id"], body))
            writer.close()

        server = await asyncio.start_server(serve, "127.0.0.1", 0)
        async with server:
            port = server.sockets[0].getsockname()[1]
            async with connect(f"tcp:127.0.0.1:{port}") as client:
                assert (await client.call_tool("t")).text == "done"
        assert b'"requestState":' + token in raw[-1]

    run(main)


def test_mx32_without_questions_the_request_is_repeated_after_a_pause(run):
    async def main():
        result, seen = await played(asks("w1"), asks("w2"), DONE)
        assert result.text == "done"
        assert [m["params"].get("requestState") for m in seen] == [None, "w1", "w2"]
        assert all("inputResponses" not in m["params"] for m in seen)

    run(main)


def test_mx34_rounds_and_their_time_are_bounded(run):
    async def main():
        yes = {"elicitation": lambda p: {"name": "Bob"}}
        with pytest.raises(RemoteProtocolError, match="after 3 rounds"):
            await played(asks("s", who=ELICIT), limits=Limits(max_input_rounds=3), **yes)
        with pytest.raises(RequestTimeout, match="client input"):
            await played(asks("s"), limits=Limits(max_input_time=0.3))
        with pytest.raises(RequestTimeout, match="client input"):
            await played(asks("s"), call=lambda c: c.call_tool("t", max_total_timeout=0.3))

    run(main)


def test_mx38_refused_sampling_ends_the_call_and_declines_travel(run):
    async def main():
        seen = []

        def refuse(params):
            seen.append(params)
            raise InputRefused("no models here")

        with pytest.raises(InputRefused, match="no models here"):
            await played(asks("s", a=SAMPLE), sampling=refuse)
        with pytest.raises(InputRefused, match="ValueError: boom"):
            await played(asks("s", a=ROOTS), roots=lambda: (_ for _ in ()).throw(ValueError("boom")))
        with pytest.raises(InputRefused, match="busy"):
            await played(asks("s", a=SAMPLE), sampling=lambda p: (_ for _ in ()).throw(RpcError(-5, "busy")))
        _, messages = await played(asks("s", a=ELICIT), DONE, elicitation=refuse)
        assert messages[1]["params"]["inputResponses"] == {"a": {"action": "decline"}}

    run(main)


def test_mx31_questions_without_a_callback_can_be_answered_by_hand(run):
    """InputRequired carries what is needed; no callback is called when one of several is missing."""

    async def main():
        asked = []
        capabilities = {"elicitation": {}}
        async with Script(discover=MODERN, tools_call=rounds(asks("st\u00e9", a=ELICIT, b=ROOTS), DONE)) as peer:
            async with connect(peer.target, roots=asked.append, capabilities=capabilities) as client:
                with pytest.raises(InputRequired, match="elicitation/create") as caught:
                    await client.call_tool("t", {"a": 1})
                assert asked == []
                assert caught.value.requests == {"a": ELICIT, "b": {**ROOTS, "params": {}}}
                assert caught.value.request_state == "st\u00e9"
                result = await client.call_tool(
                    "t",
                    {"a": 1},
                    input_responses={"a": Elicited("accept", {"name": "Eve"}), "b": {"roots": []}},
                    request_state=caught.value.request_state,
                )
                assert result.text == "done"
            params = peer.seen[-1]["params"]
            assert params["inputResponses"] == {
                "a": {"action": "accept", "content": {"name": "Eve"}},
                "b": {"roots": []},
            }
            assert params["requestState"] == "st\u00e9"
        async with Script(discover=error(-32601), initialize=handshake()) as peer, connect(peer.target) as client:
            with pytest.raises(LocalProtocolError, match="input_responses"):
                await client.call_tool("t", request_state="s")

    run(main)


@pytest.mark.parametrize(
    ("result", "text"),
    [
        ({"resultType": "input_required"}, "neither"),
        ({"resultType": "input_required", "inputRequests": {}, "requestState": None}, "neither"),
        ({"resultType": "input_required", "inputRequests": [1]}, "inputRequests is not an object"),
        ({"resultType": "input_required", "inputRequests": {"a": 7}}, "input request 'a'"),
        ({"resultType": "input_required", "inputRequests": {"a": {}}}, "input request 'a'"),
        ({"resultType": "input_required", "inputRequests": {"a": {"method": "tools/call"}}}, "no kind of client input"),
        ({"resultType": "input_required", "inputRequests": {"a": {**ROOTS, "params": []}}}, "params is not"),
        ({"resultType": "input_required", "requestState": 7}, "requestState is not a string"),
        ({"resultType": "unheard_of"}, "unknown resultType 'unheard_of'"),
        (asks("s", a={"method": "elicitation/create", "params": {}}), "question is not valid"),
    ],
)
def test_jr11_mx30_odd_results_are_told_in_plain_words(run, result, text):
    async def main():
        with pytest.raises(RemoteProtocolError, match=text) as caught:
            await played(result, elicitation=print, roots=[])
        assert "\n" not in str(caught.value)

    run(main)


def test_mx30_other_methods_never_ask(run):
    async def main():
        with pytest.raises(RemoteProtocolError, match="where it must not"):
            await played(asks("s", a=ROOTS), method="tools_list", call=lambda c: c.list_tools(), roots=[])

    run(main)


def test_cf30_answers_that_do_not_fit_the_form_do_not_leave(run):
    async def main():
        for content, text in (({}, "'name' is required"), ({"name": "x"}, "at least 2"), ({"name": "xy", "z": 1}, "no field")):
            with pytest.raises(UsageError, match=text):
                await played(asks("s", a=ELICIT), elicitation=lambda p, content=content: Elicited("accept", content))

    run(main)


def test_b75_giving_up_in_a_round_cancels_the_callbacks(run):
    async def main():
        entered = asyncio.Event()
        ended = []

        async def wait(params):
            entered.set()
            try:
                await asyncio.sleep(60)
            finally:
                ended.append(1)

        peer = Script(discover=MODERN, tools_call=rounds(asks("s", a=ELICIT, b=SAMPLE)))
        async with peer, connect(peer.target, elicitation=wait, sampling=wait) as client:
            task = asyncio.ensure_future(client.call_tool("t"))
            await entered.wait()
            await asyncio.sleep(0)
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task
        assert ended == [1, 1]

    run(main)


# --- forms -------------------------------------------------------------------------------------------


def test_cf30_enum_forms_of_all_revisions():
    titled = [{"const": "a", "title": "A"}, {"const": "b", "title": "B"}]
    assert choices({"type": "string", "enum": ["a"]}) == [("a", "a")]
    assert choices({"type": "string", "enum": ["a"], "enumNames": ["A"]}) == [("a", "A")]
    assert choices({"type": "string", "oneOf": titled}) == [("a", "A"), ("b", "B")]
    assert choices({"type": "array", "items": {"type": "string", "enum": ["a", "b"]}}) == [("a", "a"), ("b", "b")]
    assert choices({"type": "array", "items": {"anyOf": titled}}) == [("a", "A"), ("b", "B")]
    assert choices({"type": "string"}) is None


GOOD = [
    ({"type": "string", "maxLength": 3}, "abc"),
    ({"type": "string", "format": "email"}, "a@b.example"),
    ({"type": "string", "format": "uri"}, "https://x.example"),
    ({"type": "string", "format": "date"}, "2026-07-28"),
    ({"type": "string", "format": "date-time"}, "2026-07-28T01:02:03Z"),
    ({"type": "number", "minimum": 0}, 0.5),
    ({"type": "integer", "maximum": 7}, 7),
    ({"type": "boolean"}, False),
    ({"type": "string", "oneOf": [{"const": "a", "title": "A"}]}, "a"),
    ({"type": "array", "items": {"enum": ["a", "b"]}, "maxItems": 2}, ["a", "b"]),
    ({"type": "array", "items": {"anyOf": [{"const": "a", "title": "A"}]}, "minItems": 1}, ["a"]),
]
BAD = [
    ({"type": "string"}, 7),
    ({"type": "string", "maxLength": 3}, "abcd"),
    ({"type": "string", "format": "email"}, "a b"),
    ({"type": "string", "format": "uri"}, "no"),
    ({"type": "string", "format": "date"}, "20260728"),
    ({"type": "string", "format": "date-time"}, "2026-07-28"),
    ({"type": "number"}, "1"),
    ({"type": "number"}, True),
    ({"type": "number", "minimum": 0}, -1),
    ({"type": "integer"}, 1.5),
    ({"type": "integer", "maximum": 7}, 8),
    ({"type": "boolean"}, 1),
    ({"type": "string", "enum": ["a"]}, "b"),
    ({"type": "string", "oneOf": [{"const": "a"}]}, "b"),
    ({"type": "array", "items": {"enum": ["a"]}}, ["b"]),
    ({"type": "array", "items": {"enum": ["a"]}}, "a"),
    ({"type": "array", "items": {"enum": ["a"]}, "minItems": 1}, []),
    ({"type": "array", "items": {"enum": ["a", "b"]}, "maxItems": 1}, ["a", "b"]),
]


@pytest.mark.parametrize(("rule", "value"), GOOD, ids=str)
def test_cf30_good_values(rule, value):
    check_content({"type": "object", "properties": {"f": rule}}, {"f": value})


@pytest.mark.parametrize(("rule", "value"), BAD, ids=str)
def test_cf30_bad_values_name_their_field(rule, value):
    with pytest.raises(UsageError, match="field 'f'"):
        check_content({"type": "object", "properties": {"f": rule}}, {"f": value})


def test_cf30_defaults():
    assert form_defaults(FORM) == {"age": 30, "color": "r"}
    assert with_defaults(FORM, {"name": "x", "age": 1, "color": None}) == {"name": "x", "age": 1, "color": "r"}
    assert form_defaults({"properties": {"a": 7}}) == form_defaults({}) == form_defaults({"properties": []}) == {}


def test_mx13_a_call_does_not_time_out_while_its_user_thinks(run):
    """MX-13: a question of the server stops the clock of our calls, never beyond their absolute limit."""

    async def slow(params):
        await asyncio.sleep(0.5)
        return {"name": "Ann"}

    async def main():
        def call(message, writer):
            call.id = message["id"]
            writer.write(json.dumps({"jsonrpc": "2.0", "id": "q", **ELICIT}).encode() + b"\n")

        def answered(message, writer):
            answer = {"jsonrpc": "2.0", "id": call.id, "result": {"content": []}}
            writer.write(json.dumps(answer).encode() + b"\n")

        answers = {"discover": error(-32601), "initialize": handshake(), "tools_call": call, "": answered}
        async with Script(**answers) as peer, connect(peer.target, elicitation=slow) as client:
            assert (await client.call_tool("t", timeout=0.15)).content == []
            with pytest.raises(RequestTimeout, match="absolute limit"):
                await client.call_tool("t", timeout=0.15, max_total_timeout=0.3)
            limits = Limits(max_input_time=0.1)
            async with connect(peer.target, elicitation=slow, limits=limits) as hasty:
                with pytest.raises(RequestTimeout, match="absolute limit"):
                    await hasty.call_tool("t", timeout=0.15)

    run(main)


def test_cf32_the_end_of_a_url_elicitation_is_told(run):
    """CF-32: notifications/elicitation/complete reaches its callback; malformed ones are ignored. The error that
    asks for such an elicitation (-32042) keeps its data."""

    async def main():
        def call(message, writer):
            for params in ({"elicitationId": "e1"}, {"elicitationId": 7}, {}, [], {"elicitationId": "e2"}):
                note = {"jsonrpc": "2.0", "method": "notifications/elicitation/complete", "params": params}
                writer.write(json.dumps(note).encode() + b"\n")
            return error(-32042, {"elicitations": [URL["params"]]})

        got = []
        answers = {"discover": error(-32601), "initialize": handshake(), "tools_call": call}
        async with Script(**answers) as peer, connect(peer.target, on_elicitation_complete=got.append) as client:
            with pytest.raises(RpcError) as caught:
                await client.call_tool("t")
            assert caught.value.data["elicitations"][0]["elicitationId"] == "e1"
        assert got == ["e1", "e2"]

    run(main)


ODD_FORMS = [
    ({"required": [["a"]], "properties": {"a": {"default": {"x": 1}}}}, {}, None),
    ({"properties": {"a": {"type": "integer", "minimum": 10**400}}}, {"a": 1}, "at least 1000"),
    ({"properties": {"a": {"type": "integer", "maximum": 1}}}, {"a": 10**400}, "at most 1"),
    ({"properties": {"a": {"type": "string", "minLength": 10**400}}}, {"a": "x"}, "at least 1000"),
    ({"properties": {"a": {"type": "string", "format": ["date"]}}}, {"a": "x"}, None),
    ({"properties": [], "required": "a"}, {}, None),
]


@pytest.mark.parametrize(("schema", "content", "text"), ODD_FORMS, ids=range(len(ODD_FORMS)))
def test_cf30_odd_forms_are_checked_in_plain_words(schema, content, text):
    if text is None:
        check_content(schema, content)
    else:
        with pytest.raises(UsageError, match=text):
            check_content(schema, content)
