"""The HTTP side of the load generator: every right answer counts, every wrong one is told by its kind."""

import asyncio
import re

import pytest
from bench_http_support import NOTE, Server, answer, drive, events, http, kinds, operation, plan_for, step

from headrace.bench._http_load import HttpSide
from headrace.bench._load import Load
from headrace.bench.plan import Step
from headrace.errors import LocalProtocolError
from headrace.limits import Limits

RIGHT = {
    "json": lambda i: http(answer(i)),
    "json_charset": lambda i: http(answer(i), kind="application/json; charset=utf-8"),
    "events": lambda i: events(answer(i)),
    "events_with_notes": lambda i: events(NOTE, NOTE, answer(i)),
    "ping_on_the_stream": lambda i: events('{"jsonrpc":"2.0","id":1,"method":"ping"}', answer(i)),
    "interim": lambda i: b"HTTP/1.1 103 Early Hints\r\nLink: x\r\n\r\n" + http(answer(i)),
    "chunked_json": lambda i: (
        b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\n"
        + b"".join(b"%x\r\n%b\r\n" % (len(x), x) for x in re.findall(b".{1,9}", answer(i).encode()))
        + b"0\r\n\r\n"
    ),
}

BAD = {
    "garbage": ("bad_http", lambda i: b"\x16\x03\x01 no HTTP\r\n\r\n"),
    "status_500": ("http_status", lambda i: http("oops", status="500 Internal Server Error", kind="text/plain")),
    "status_202": ("http_status", lambda i: http("", status="202 Accepted")),
    "error_with_400": (
        "rpc_error",
        lambda i: http(
            f'{{"jsonrpc":"2.0","id":{i},"error":{{"code":-32602,"message":"no"}}}}', status="400 Bad Request"
        ),
    ),
    "error": ("rpc_error", lambda i: http(f'{{"jsonrpc":"2.0","id":{i},"error":{{"code":-32603,"message":"no"}}}}')),
    "error_event": ("rpc_error", lambda i: events(f'{{"jsonrpc":"2.0","id":{i},"error":{{"code":1,"message":""}}}}')),
    "is_error": ("is_error", lambda i: http(answer(i, '{"content":[],"isError" : true}'))),
    "is_error_escaped": ("is_error", lambda i: http(answer(i, '{"is\\u0045rror":true}'))),
    "wrong_id": ("wrong_id", lambda i: http(answer(i + 1))),
    "text_id": ("wrong_id", lambda i: http(answer(f'"{i}"'))),
    "wrong_id_event": ("wrong_id", lambda i: events(answer(i + 1))),
    "twice": ("wrong_id", lambda i: events(answer(i), answer(i))),
    "note_as_body": ("wrong_id", lambda i: http(NOTE)),
    "no_json": ("not_json", lambda i: http("{]")),
    "empty": ("not_json", lambda i: http("")),
    "batch": ("not_json", lambda i: http(f"[{answer(i)}]")),
    "result_is_text": ("not_json", lambda i: http(answer(i, '"x"'))),
    "cut_event": ("not_json", lambda i: events('{"jsonrpc":')),
    "stream_without_answer": ("bad_sse", lambda i: events(NOTE)),
    "endless_event_name": (
        "bad_sse",
        lambda i: events().replace(b"0\r\n\r\n", b"%x\r\n%b\r\n" % (1006, b"event:" + b"x" * 1000)),
    ),
    "input_required": ("unfinished", lambda i: http(answer(i, '{"resultType":"input_required"}'))),
    "asked": ("asked", lambda i: events('{"jsonrpc":"2.0","id":1,"method":"roots/list"}', answer(i))),
    "text": ("bad_http", lambda i: http(answer(i), kind="text/plain")),
    "no_type": ("bad_http", lambda i: b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}"),
    "gzip": ("bad_http", lambda i: http(answer(i), more="Content-Encoding: gzip\r\n")),
    "more_bytes": ("bad_http", lambda i: http(answer(i)) + b"HTTP/1.1 200 OK\r\n"),
    "two_lengths": ("bad_http", lambda i: http(answer(i), more="Content-Length: 1\r\n")),
    "bad_chunk": ("bad_http", lambda i: events().replace(b"0\r\n\r\n", b"zz\r\n")),
    "switching": ("bad_http", lambda i: b"HTTP/1.1 101 Switching Protocols\r\n\r\n"),
    "endless_interim": ("bad_http", lambda i: b"HTTP/1.1 100 Continue\r\n\r\n" * 100),
    "endless_head": ("bad_http", lambda i: b"HTTP/1.1 200 OK\r\n" + b"X: yyyyyyyyyyyyyy\r\n" * 4000),
}


@pytest.mark.parametrize("name", RIGHT)
def test_right_answers_count(run, name):
    async def body():
        async with Server(lambda r: RIGHT[name](r["id"])) as server:
            tally = await drive(plan_for(server.port))
            assert (tally.ok_total, tally.failed_total) == (5, 0), tally.error_list
            assert server.connections == 1 and tally.reconnects == 0 and tally.requests == 5
            assert len({r["id"] for r in server.requests}) == 5
            assert tally.bytes_in > 0 and tally.latency().count == 5

    run(body)


@pytest.mark.parametrize("name", RIGHT)
def test_answers_may_come_byte_by_byte(run, name):
    async def body():
        def reply(request):
            return [bytes([c]) for c in RIGHT[name](request["id"])]

        async with Server(reply) as server:
            tally = await drive(plan_for(server.port, requests=2))
            assert (tally.ok_total, tally.failed_total) == (2, 0), tally.error_list

    run(body)


@pytest.mark.parametrize("split", [False, True], ids=["whole", "split"])
@pytest.mark.parametrize("name", BAD)
def test_wrong_answers_never_look_good(run, name, split):
    kind, make = BAD[name]

    async def body():
        def reply(request):
            out = make(request["id"])
            return [out[i : i + 7] for i in range(0, min(len(out), 2000), 7)] + [out[2000:]] if split else out

        async with Server(reply) as server:
            tally = await drive(plan_for(server.port, requests=3, timeout_s=1.0))
            found = kinds(tally)
            assert kind in found, tally.error_list
            # A second answer, or bytes behind one, may come after the call has counted.
            if not (split and name in ("twice", "more_bytes")):
                assert tally.ok_total == 0 and found[kind] == 3, tally.error_list
            assert all(len(sample) <= 300 for _, _, sample in tally.error_list)

    run(body)


def test_every_half_answer_is_a_failure(run):
    async def body():
        whole = http(answer(1_000_000_000)).replace(b"\r\n\r\n", b"\r\nConnection: close\r\n\r\n")
        cuts = iter(range(len(whole)))

        def reply(request):
            request["close"] = True
            return http(answer(request["id"]))[: next(cuts)] or None

        async with Server(reply) as server:
            size = len(http(answer(1_000_000_000)))
            tally = await drive(plan_for(server.port, requests=size, timeout_s=3.0))
            assert tally.ok_total == 0 and kinds(tally) == {"closed": size}, tally.error_list
            assert tally.reconnects == size - 1

    run(body)


def test_expected_text_must_be_in_the_result(run):
    async def body():
        async with Server(lambda r: http(answer(r["id"], '{"content":[{"type":"text","text":"five"}]}'))) as server:
            good = await drive(plan_for(server.port, operation(step(expects=b'"five"'))))
            bad = await drive(plan_for(server.port, operation(step(expects=b'"jsonrpc"'))))
            assert good.ok_total == 5 and kinds(bad) == {"wrong_content": 5}

    run(body)


def test_a_stream_needs_notes(run):
    async def body():
        notes = [NOTE]
        async with Server(lambda r: events(*notes, answer(r["id"]))) as server:
            good = await drive(plan_for(server.port, operation(step(answer="stream"))))
            notes.clear()
            bad = await drive(plan_for(server.port, operation(step(answer="stream"))))
            assert good.ok_total == 5 and good.notes == 5 and kinds(bad) == {"no_notes": 5}

    run(body)


def test_connection_close_is_followed(run):
    async def body():
        def reply(request):
            request["close"] = True
            return http(answer(request["id"]), more="Connection: close\r\n")

        async with Server(reply) as server:
            tally = await drive(plan_for(server.port))
            assert tally.ok_total == 5 and tally.failed_total == 0 and tally.reconnects in (4, 5)
            assert server.connections == 5

    run(body)


def test_body_until_the_end_of_the_connection(run):
    async def body():
        def reply(request):
            request["close"] = True
            return b"HTTP/1.0 200 OK\r\nContent-Type: application/json\r\n\r\n" + answer(request["id"]).encode()

        async with Server(reply) as server:
            tally = await drive(plan_for(server.port))
            assert tally.ok_total == 5 and tally.failed_total == 0, tally.error_list

    run(body)


def session_steps():
    return (
        step("initialize", opens_session=True),
        Step(
            before=b'{"jsonrpc":"2.0","method":"notifications/initialized"}',
            method="notifications/initialized",
            answer="accepted",
        ),
        step(),
        Step(before=b"", method="DELETE", answer="ended"),
    )


def session_server(made):
    def reply(request):
        message = request["message"]
        if message is not None and message["method"] == "initialize":
            assert "mcp-session-id" not in request["fields"]
            made.append(f"s{len(made)}")
            return http(answer(request["id"]), more=f"Mcp-Session-Id: {made[-1]}\r\n")
        if request["fields"].get("mcp-session-id") not in made:
            return http("no session", status="404 Not Found", kind="text/plain")
        if request["verb"] == "DELETE":
            made.remove(request["fields"]["mcp-session-id"])
            made.insert(0, "gone")
            return b"HTTP/1.1 204 No Content\r\n\r\n"
        if request["id"] is None:
            return http("", status="202 Accepted")
        return http(answer(request["id"]))

    return reply


def test_whole_sessions_are_operations(run):
    async def body():
        made = []
        async with Server(session_server(made)) as server:
            tally = await drive(plan_for(server.port, operation(*session_steps(), name="session")))
            assert tally.ok_total == 5 and tally.failed_total == 0, tally.error_list
            assert tally.requests == 20 and made == ["gone"] * 5

    run(body)


def test_opening_makes_one_session_a_connection_and_a_lost_one_is_made_anew(run):
    async def body():
        made = []
        async with Server(session_server(made)) as server:
            plan = plan_for(server.port, requests=20, connections=2, opening=session_steps()[:2])
            tally = await drive(plan)
            assert tally.ok_total == 20 and len(made) == 2
            tally = await drive(plan, during=lambda load: made.__setitem__(slice(None), ["x"] * len(made)))
            assert kinds(tally) == {"http_status": 2} and tally.ok_total == 18

    run(body)


def test_silence_is_a_timeout(run):
    async def body():
        async with Server(lambda r: []) as server:
            tally = await drive(plan_for(server.port, requests=2, timeout_s=0.1))
            assert kinds(tally) == {"timeout": 2} and tally.ok_total == 0

    run(body)


def test_slow_drips_are_a_timeout(run):
    async def body():
        def reply(request):
            return (
                b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n\r\n" if n == 0 else b": still here\n"
                for n in range(1_000_000)
            )

        async with Server(reply) as server:
            tally = await drive(plan_for(server.port, requests=1, timeout_s=0.2))
            assert kinds(tally) == {"timeout": 1}

    run(body)


def test_an_answer_over_the_limit_ends(run):
    async def body():
        async with Server(lambda r: http(answer(r["id"], '{"x":"' + "y" * 5000 + '"}'))) as server:
            tally = await drive(plan_for(server.port), limits=Limits(max_message_bytes=4096))
            assert kinds(tally) == {"bad_http": 5}
        async with Server(lambda r: events(answer(r["id"], '{"x":"' + "y" * 5000 + '"}'))) as server:
            tally = await drive(plan_for(server.port), limits=Limits(max_message_bytes=4096))
            assert kinds(tally) == {"bad_sse": 5}

    run(body)


def test_nobody_listens(run):
    async def body():
        async with Server(lambda r: None) as server:
            port = server.port
        tally = await drive(plan_for(port, requests=2, timeout_s=1.0))
        assert set(kinds(tally)) == {"connect"} and tally.ok_total == 0

    run(body)


def test_killed_server_comes_back(run):
    async def body():
        async with Server(lambda r: http(answer(r["id"])) if len(server.requests) % 3 else None) as server:
            tally = await drive(plan_for(server.port, requests=9))
            assert tally.ok_total == 6 and kinds(tally) == {"closed": 3} and tally.reconnects in (2, 3)

    run(body)


def test_listen_is_held_and_its_end_by_the_server_is_a_failure(run):
    async def body():
        async with Server(lambda r: [events(NOTE, NOTE, end=False)]) as server:
            tally = await drive(
                plan_for(server.port, operation(step("subscriptions/listen", answer="listen", hold_s=0.05)), requests=2)
            )
            assert tally.ok_total == 2 and tally.failed_total == 0 and tally.notes == 4, tally.error_list
        async with Server(lambda r: [events(NOTE), b""]) as server:
            tally = await drive(
                plan_for(server.port, operation(step("subscriptions/listen", answer="listen", hold_s=9)), requests=2)
            )
            assert kinds(tally) == {"closed": 2}

    run(body)


def test_listen_without_an_end_is_right_when_the_run_ends(run):
    async def body():
        async with Server(lambda r: [events(NOTE, end=False)]) as server:
            loop = asyncio.get_running_loop()
            steps = operation(step("subscriptions/listen", answer="listen"))
            get = operation(Step(before=b"", method="GET", answer="listen"), name="get")
            tally = await drive(
                plan_for(server.port, steps, get, connections=6, requests=6),
                during=lambda load: loop.call_later(0.3, load.drain),
            )
            assert tally.ok_total == 6 and tally.failed_total == 0
            assert {r["verb"] for r in server.requests} <= {"GET", "POST"}

    run(body)


def test_an_event_stream_may_stay_open_after_its_answer(run):
    async def body():
        async with Server(lambda r: [events(answer(r["id"]), end=False)]) as server:
            tally = await drive(plan_for(server.port, requests=2))
            assert tally.ok_total == 2 and tally.failed_total == 0 and server.connections == 2

    run(body)


def test_large_requests_arrive_whole(run):
    async def body():
        large = Step(
            before=b'{"jsonrpc":"2.0","id":',
            after=b',"method":"m","params":{"x":"' + b"y" * 3_000_000 + b'"}}',
            method="m",
        )
        async with Server(
            lambda r: http(answer(r["id"], str({"n": len(r["message"]["params"]["x"])}).replace("'", '"')))
        ) as s:
            tally = await drive(plan_for(s.port, operation(large), requests=3))
            assert tally.ok_total == 3 and tally.failed_total == 0, tally.error_list
            assert tally.bytes_out > 9_000_000

    run(body)


def test_headers_of_target_and_step_are_sent_once(run):
    async def body():
        async with Server(lambda r: http(answer(r["id"]))) as server:
            await drive(
                plan_for(
                    server.port,
                    operation(step(headers=(("Mcp-Method", "tools/call"),))),
                    requests=1,
                    headers=(("accept", "application/json"), ("Authorization", "Bearer t")),
                )
            )
            fields = server.requests[0]["fields"]
            assert fields["mcp-method"] == "tools/call" and fields["authorization"] == "Bearer t"
            assert fields["accept"] == "application/json" and fields["host"] == f"127.0.0.1:{server.port}"

    run(body)


def test_headers_that_http_cannot_carry_are_refused(run):
    async def body():
        for name, value in (("X", "a\r\nY: b"), ("Content-Length", "3"), ("a b", "c")):
            with pytest.raises((ValueError, LocalProtocolError)):
                HttpSide(Load(plan_for(1, headers=((name, value),)), asyncio.get_running_loop()))

    run(body)


def test_fixed_id_is_still_checked(run):
    async def body():
        async with Server(lambda r: http(answer(7))) as server:
            good = await drive(plan_for(server.port, fixed_id=True))
            bad = await drive(plan_for(server.port))
            assert good.ok_total == 5 and kinds(bad) == {"wrong_id": 5}

    run(body)


# --- the sessions of connections are ended at the server --------------------------------------------------

SESSION = (step("initialize", opens_session=True),)
END = (Step(before=b"", method="DELETE", headers=(("MCP-Protocol-Version", "2025-11-25"),), answer="ended"),)


def with_sessions(seen, end):
    """A server that gives every ``initialize`` a session of its own; ``end`` answers a DELETE."""

    def reply(request):
        if request["verb"] == "DELETE":
            seen.append(request["fields"]["mcp-session-id"])
            return end
        if request["message"]["method"] == "initialize":
            count[0] += 1
            return http(answer(request["id"]), more=f"Mcp-Session-Id: s{count[0]}\r\n")
        return http(answer(request["id"]))

    count = [0]
    return reply


@pytest.mark.parametrize("end", [b"HTTP/1.1 204 No Content\r\n\r\n", http("no", status="405 Method Not Allowed"), b"garbage", None, []])
def test_ho33_sessions_of_a_run_are_ended_after_it(run, end):
    """Whatever the server says to it, or when it says nothing: the counts of the run are what they were."""

    async def body():
        seen = []
        async with Server(with_sessions(seen, end)) as server:
            async with asyncio.timeout(10):
                tally = await drive(plan_for(server.port, opening=SESSION, closing=END, connections=3, requests=9))
        assert sorted(seen) == ["s1", "s2", "s3"]
        assert (tally.ok_total, tally.failed_total, tally.error_list) == (9, 0, [])

    run(body)


def test_a_server_that_is_gone_is_not_waited_for_at_the_end(run):
    async def body():
        seen = []
        async with Server(with_sessions(seen, b"")) as server:
            load = Load(plan_for(server.port, opening=SESSION, closing=END, connections=2), asyncio.get_running_loop())
            side = HttpSide(load)
            await side.open()
        async with asyncio.timeout(5):
            await side.close()
        assert seen == []
        await side.close()

    run(body)
