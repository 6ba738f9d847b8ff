"""Observers of a runtime: told of every message, changing none; what they raise changes nothing."""

import asyncio
import contextlib
import contextvars
import gc

import pytest

import headrace
from headrace.errors import LocalProtocolError, RpcError
from headrace.mux import Meter, Observed, Observer, Observers
from headrace.mux.observer import joined
from headrace.transports.runtime import observe_all

REVISIONS = ["2026-07-28", "2025-11-25", "2025-06-18"]
PLACE = contextvars.ContextVar("place", default="outside")


class Diary(Observer):
    """Writes down what it is told."""

    def __init__(self):
        self.ends = []
        self.refusals = []
        self.notes = []
        self.sent = []
        self.left = 0
        self.answers = []

    def begin(self, request):
        return PLACE.set(f"{request.what} {request.target}")

    def leave(self, request, seen):
        self.left += 1
        PLACE.reset(seen)

    def end(self, request, seen):
        cause = None if request.cause is None else type(request.cause).__name__
        code = None if request.error is None else request.error.code
        self.ends.append((request.what, request.target, request.outcome, code, cause))

    def refused(self, mux, sink, method, id, meta, error):
        self.refusals.append((method, id, error.code))

    def notified(self, mux, sink, method, meta):
        return method

    def noted(self, seen):
        self.notes.append(seen)

    def answered(self, call, failed):
        self.answers.append((call.method, failed))

    def sending(self, mux, call, params, name):
        self.sent.append((call.method, name))
        return params


def make_server():
    app = headrace.Server("watched", version="1")

    @app.tool
    def thread() -> str:
        """Says where it runs."""
        return PLACE.get()

    @app.tool(inline=True)
    def inline() -> str:
        """Says where it runs."""
        return PLACE.get()

    @app.tool
    async def waits() -> str:
        """Says where it runs, before and after a pause."""
        before = PLACE.get()
        await asyncio.sleep(0)
        return f"{before}|{PLACE.get()}|{await asyncio.create_task(place())}"

    @app.tool
    async def breaks() -> str:
        """Fails."""
        raise ValueError("secret")

    @app.tool
    async def refuses() -> str:
        """Refuses."""
        raise headrace.ToolError("no")

    @app.tool
    async def errs() -> str:
        """Answers an error."""
        raise RpcError(-32050, "no such luck")

    @app.tool
    async def mentions() -> dict:
        """Has a member that only looks like a failure."""
        return {"isError": True}

    @app.tool
    async def hangs() -> str:
        """Never ends."""
        await asyncio.sleep(60)
        return ""

    return app


async def place():
    return PLACE.get()


@pytest.mark.parametrize("revision", REVISIONS)
def test_every_outcome_is_told_once(run, revision):
    """One end for one request, whatever becomes of it; the handler runs inside of what begin() set."""
    app = make_server()
    diary = Diary()
    app.observe(diary)

    async def trial():
        async with headrace.connect(app, revision=revision) as client:
            said = {}
            for name in ("thread", "inline", "waits"):
                said[name] = (await client.call_tool(name)).content[0].text
            assert said["thread"] == "tools/call thread"
            assert said["inline"] == "tools/call inline"
            assert said["waits"] == "|".join(["tools/call waits"] * 3)
            assert PLACE.get() == "outside"
            assert (await client.call_tool("breaks")).is_error
            assert (await client.call_tool("refuses")).is_error
            assert not (await client.call_tool("mentions")).is_error
            with pytest.raises(RpcError):
                await client.call_tool("errs")
            with pytest.raises(RpcError):
                await client.call_tool("unknown")
            task = asyncio.create_task(client.call_tool("hangs"))
            await asyncio.sleep(0.01)
            task.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await task
            for _ in range(100):
                if any(end[1] == "hangs" for end in diary.ends):
                    break
                await asyncio.sleep(0.01)

    run(trial)
    calls = [end for end in diary.ends if end[0] == "tools/call"]
    assert calls == [
        ("tools/call", "thread", "ok", None, None),
        ("tools/call", "inline", "ok", None, None),
        ("tools/call", "waits", "ok", None, None),
        ("tools/call", "breaks", "tool_error", None, "ValueError"),
        ("tools/call", "refuses", "tool_error", None, "ToolError"),
        ("tools/call", "mentions", "ok", None, None),
        ("tools/call", "errs", "error", -32050, "RpcError"),
        ("tools/call", "unknown", "error", -32602, "RpcError"),
        ("tools/call", "hangs", "cancelled", None, None),
    ]
    opening = "server/discover" if revision == "2026-07-28" else "initialize"
    assert diary.ends[0][:3] == (opening, None, "ok")
    assert ("notifications/initialized" in diary.notes) == (revision != "2026-07-28")
    assert "notifications/cancelled" in diary.notes
    assert diary.left == len(diary.ends)


def test_answers_are_the_same_bytes(run):
    """Watched or not, the peer reads the same."""

    async def trial(watched):
        app = make_server()
        if watched:
            app.observe(Diary())
        seen = []

        def tap(traffic):
            seen.append((traffic.direction, bytes(traffic.data)))

        async with headrace.connect(app, revision="2025-11-25", tap=tap) as client:
            await client.list_tools()
            for name in ("breaks", "refuses", "mentions"):
                await client.call_tool(name)
            with pytest.raises(RpcError):
                await client.call_tool("errs")
        return seen

    assert run(trial, True) == run(trial, False)


def test_requests_that_never_begin_are_told(run):
    """An unknown method, and a request over the bounds, have no handler: they are told as refused."""
    app = make_server()
    diary = Diary()
    app.observe(diary)

    async def trial():
        async with headrace.connect(app, revision="2025-11-25") as client:
            with pytest.raises(RpcError):
                await client.request("no/such")

    run(trial)
    assert [(method, code) for method, _, code in diary.refusals] == [("no/such", -32601)]


def test_both_sides_are_told_of_a_question(run):
    """The server's own requests leave through sending(); the client's callback is a request it is told of."""
    app = headrace.Server("asks", version="1")

    @app.tool
    async def ask(ctx: headrace.Context) -> str:
        """Asks its client."""
        return (await ctx.sample("hello", max_tokens=9)).content.text

    there, here = Diary(), Diary()
    app.observe(there)

    async def trial():
        async def sampling(params):
            return PLACE.get()

        async with headrace.connect(app, revision="2025-11-25", sampling=sampling, observer=here) as client:
            return (await client.call_tool("ask")).content[0].text

    assert run(trial) == "sampling/createMessage None"
    assert there.sent == [("sampling/createMessage", None)]
    assert [end[:3] for end in here.ends] == [("sampling/createMessage", None, "ok")]
    assert ("initialize", None) in here.sent and ("tools/call", "ask") in here.sent


class Broken(Observer):
    def begin(self, request):
        raise ZeroDivisionError

    def leave(self, request, seen):
        raise ZeroDivisionError

    def end(self, request, seen):
        raise ZeroDivisionError

    def refused(self, mux, sink, method, id, meta, error):
        raise ZeroDivisionError

    def notified(self, mux, sink, method, meta):
        raise ZeroDivisionError

    def sending(self, mux, call, params, name):
        raise ZeroDivisionError

    def answered(self, call, failed):
        raise ZeroDivisionError


def test_an_observer_that_fails_changes_nothing(run, caplog):
    app = make_server()
    app.observe(Broken())

    async def trial():
        async with headrace.connect(app, revision="2025-11-25", observer=Broken()) as client:
            with pytest.raises(RpcError):
                await client.request("no/such")
            return (await client.call_tool("inline")).content[0].text

    assert run(trial) == "outside"
    assert "an observer failed at the beginning of a request" in caplog.text
    assert "an observer failed on a request that was refused" in caplog.text


def test_several_nest_and_none_counts_twice():
    first, second = Observer(), Observer()
    assert joined(None, first) is first
    assert joined(first, first) is first
    both = joined(first, second)
    assert isinstance(both, Observers) and both.observers == (first, second)
    assert joined(both, second) is both
    assert joined(both, third := Observer()).observers == (first, second, third)


def test_everything_of_a_process_can_be_observed(run):
    diary = Diary()
    end = observe_all(diary)
    try:

        async def trial():
            async with headrace.connect(make_server()) as client:
                await client.call_tool("inline")

        run(trial)
    finally:
        end()
    # Both sides are told: the client's requests leave, the server's begin and end.
    assert ("tools/call", "inline") in diary.sent
    assert ("tools/call", "inline", "ok", None, None) in diary.ends
    before = len(diary.sent)
    run(trial)
    assert len(diary.sent) == before


def test_begun_again_after_client_input(run):
    """Era M asks by answering: each round is a request of its own, and each is told of."""
    app = headrace.Server("rounds", version="1")

    @app.tool
    async def ask(ctx: headrace.Context) -> str:
        """Asks its client."""
        return (await ctx.sample("hello", max_tokens=9)).content.text

    diary = Diary()
    app.observe(diary)

    async def trial():
        async with headrace.connect(app, revision="2026-07-28", sampling=lambda params: "fine") as client:
            return (await client.call_tool("ask")).content[0].text

    assert run(trial) == "fine"
    assert [end[:3] for end in diary.ends if end[0] == "tools/call"] == [("tools/call", "ask", "ok")] * 2


def test_answers_are_told_as_they_come(run):
    """A tool that failed is told apart from one that did not; error answers are told, too."""
    diary = Diary()

    async def trial():
        async with headrace.connect(make_server(), observer=diary) as client:
            await client.call_tool("inline")
            await client.call_tool("refuses")
            with pytest.raises(RpcError):
                await client.call_tool("errs")

    run(trial)
    assert diary.answers[-3:] == [("tools/call", False), ("tools/call", True), ("tools/call", False)]


def test_numbers_are_the_same_whether_somebody_watches(run):
    """Metrics count what an observed request becomes exactly as they count any other."""

    async def trial(watched):
        app = make_server()
        if watched:
            app.observe(Diary())
        meter = Meter()
        async with app.running():
            app.runtime.measure(meter)
            async with headrace.connect(app, revision="2025-11-25") as client:
                for name in ("thread", "inline", "waits", "breaks", "refuses", "mentions"):
                    await client.call_tool(name)
                for name in ("errs", "unknown"):
                    with pytest.raises(RpcError):
                        await client.call_tool(name)
                task = asyncio.create_task(client.call_tool("hangs"))
                await asyncio.sleep(0.01)
                task.cancel()
                with contextlib.suppress(asyncio.CancelledError):
                    await task
                await asyncio.sleep(0.01)
        return sorted(entry[:4] for entry in meter.requests())

    counted = run(trial, True)
    assert len(counted) >= 9
    assert counted == run(trial, False)


def test_nothing_of_a_request_stays(run):
    """An observed request is gone when it is over, however it ended."""
    app = make_server()
    app.observe(Diary())

    async def trial():
        async with headrace.connect(app, revision="2025-11-25") as client:
            for name in ("thread", "inline", "waits", "breaks", "refuses"):
                await client.call_tool(name)
            with pytest.raises(RpcError):
                await client.call_tool("errs")
            task = asyncio.create_task(client.call_tool("hangs"))
            await asyncio.sleep(0.01)
            task.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await task
            await asyncio.sleep(0.01)
            gc.collect()
            return [each.what for each in gc.get_objects() if type(each) is Observed]

    assert run(trial) == []


def test_a_request_that_cannot_leave_ends(run):
    """Whoever was told that a request leaves is told that it did not: its future is over."""
    futures = []

    class Futures(Observer):
        def sending(self, mux, call, params, name):
            futures.append(call.future)
            return params

    async def trial():
        from headrace.mux import Sink

        async with headrace.connect(make_server(), observer=Futures()) as client:
            with pytest.raises(LocalProtocolError):
                client._mux.call("tools/call", None, Sink())

    run(trial)
    assert futures[-1].cancelled()


def test_one_that_fails_does_not_disturb_the_others(run, caplog):
    """Whichever comes first: the other one is told of everything, and the context is put back."""

    async def trial(observers):
        app, diary = make_server(), Diary()
        for observer in observers:
            app.observe(diary if observer is Diary else observer())
        async with headrace.connect(app, revision="2025-11-25", sampling=lambda params: "x") as client:
            assert (await client.call_tool("inline")).text == "tools/call inline"
            assert (await client.call_tool("waits")).text.startswith("tools/call waits|")
            with pytest.raises(RpcError):
                await client.request("no/such")
        return [end[:3] for end in diary.ends], diary.refusals[0][2], diary.notes, diary.left == len(diary.ends)

    first = run(trial, (Diary, Broken))
    assert first == run(trial, (Broken, Diary)) == run(trial, (Diary,))
    assert ("tools/call", "waits", "ok") in first[0] and first[1] == -32601 and first[3]
    assert "an observer failed" in caplog.text
