"""Captured runs: any handler on behalf of a request, with its answer as bytes (contract of middleware and tasks)."""

import asyncio
import json

import pytest
from mux_support import Bench, StubLoop

from headrace.errors import RpcError
from headrace.mux import FunctionHandler, capture


class NestingLoop(StubLoop):
    """Starts tasks within tasks, as the real spawner does."""

    def spawn(self, coro):
        current = asyncio.current_task(self)
        if current is None:
            return super().spawn(coro)
        asyncio.tasks._leave_task(self, current)
        try:
            return super().spawn(coro)
        finally:
            asyncio.tasks._enter_task(self, current)


class Capturing(Bench):
    """A bench whose method "outer" runs the handler `inner` captured and keeps the run."""

    def __init__(self, inner, params=None, **limits):
        super().__init__(loop=NestingLoop(), **limits)
        self.inner = inner if not callable(inner) else FunctionHandler(inner)
        self.params = params
        self.run = None
        self.method("outer", self.outer)

    async def outer(self, ex):
        self.run = capture(ex, self.inner, ex.params if self.params is None else self.params)
        answer = await self.run
        if isinstance(answer, RpcError):
            raise answer
        return {"captured": json.loads(answer)}


def later(bench):
    """A handler that waits for the test."""

    async def inner(ex):
        bench.exchanges["inner"] = ex
        future = bench.waits["inner"] = bench.loop.create_future()
        try:
            return await future
        finally:
            bench.log.append("inner ended")

    return inner


def test_a_synchronous_answer_is_captured_and_the_request_answered_once():
    bench = Capturing(lambda ex: b'{"a":1}')
    bench.request(7, "outer")
    assert bench.answers == {7: {"captured": {"a": 1}}}
    assert bench.run.state == 1 and bench.at_rest()


def test_an_asynchronous_handler_counts_once():
    bench = Capturing(None)
    bench.inner = FunctionHandler(later(bench))
    bench.request(7, "outer")
    assert bench.mux.in_flight == 1 and bench.runtime.in_flight == 1
    bench.done("inner", b'{"b":2}')
    assert bench.answers == {7: {"captured": {"b": 2}}} and bench.at_rest()


def test_what_the_handler_holds_or_answers_by_itself_is_captured():
    bench = Capturing(lambda ex: ex.answer({"by": "itself"}))
    bench.request(1, "outer")
    bench.inner = FunctionHandler(bench.hold)
    bench.request(2, "outer")
    bench.done(2, b'{"held":true}')
    assert bench.answers == {1: {"captured": {"by": "itself"}}, 2: {"captured": {"held": True}}}
    assert bench.at_rest()


def test_an_error_comes_back_as_the_error_that_would_have_been_sent():
    bench = Capturing(bench_fail)
    bench.request(1, "outer")
    assert bench.answers == {1: {"code": -32050, "message": "no", "data": {"why": 1}}}

    def bug(ex):
        raise ZeroDivisionError("text that must not leak")

    bench.inner = FunctionHandler(bug)
    bench.request(2, "outer")
    assert bench.answers[2] == {"code": -32603, "message": "internal error"}
    assert isinstance(bench.faults[0][1], ZeroDivisionError)
    bench.faults.clear()
    assert bench.at_rest()


def bench_fail(ex):
    raise RpcError(-32050, "no", {"why": 1})


def test_a_result_without_a_json_form_is_an_error_like_any_other():
    bench = Capturing(lambda ex: object())
    bench.request(1, "outer")
    assert bench.answers[1]["code"] == -32603 and bench.at_rest()


@pytest.mark.parametrize("params", [b"[1]", b"7", b"{", b'{"a":1}}', b"", b'{"x":' + b"[" * 600 + b"]" * 600 + b"}"])
def test_params_that_are_no_object_are_refused(params):
    bench = Capturing(lambda ex: b"{}", params)
    bench.request(1, "outer")
    assert bench.answers[1]["code"] == -32602 and bench.at_rest()


def test_notifications_and_progress_leave_as_the_request():
    def inner(ex):
        assert ex.request_id == "out" and ex.progress_token == b'"tok"'
        ex.notify(b"notifications/message", b'{"n":1}')
        ex.progress(1)
        ex.progress(1)
        ex.progress(2, 4, "half")
        return b"{}"

    bench = Capturing(inner)
    bench.request("out", "outer", _meta={"progressToken": "tok"})
    assert [m.get("params") for m in bench.sent[:-1]] == [
        {"n": 1},
        {"progressToken": "tok", "progress": 1},
        {"progressToken": "tok", "progress": 2, "total": 4, "message": "half"},
    ]
    assert bench.answers == {"out": {"captured": {}}} and bench.at_rest()


def test_mx15_a_cancel_of_the_request_reaches_the_handler_and_silences_it():
    bench = Capturing(None)
    bench.inner = FunctionHandler(later(bench))
    bench.request(3, "outer")
    bench.cancel(3)
    inner = bench.exchanges["inner"]
    inner.notify(b"notifications/message", b"{}")
    bench.loop.turn()
    assert inner.cancelled and not inner.open and bench.log == ["inner ended"]
    assert bench.sent == [] and bench.at_rest()


def test_a_handler_that_ignores_its_cancel_counts_until_it_has_ended():
    bench = Capturing(None)
    go = []

    async def stubborn(ex):
        future = bench.waits["stubborn"] = bench.loop.create_future()
        while not future.done():
            try:
                await asyncio.shield(future)
            except asyncio.CancelledError:
                go.append(1)
        return b"{}"

    bench.inner = FunctionHandler(stubborn)
    bench.request(3, "outer")
    bench.cancel(3)
    bench.loop.turn()
    assert go == [1] and bench.mux.in_flight == 1 and bench.runtime.in_flight == 1
    bench.waits["stubborn"].set_result(None)
    assert bench.at_rest() and bench.runtime.in_flight == 0 and bench.sent == []


def test_cancelling_the_run_alone_leaves_the_request_to_answer():
    bench = Capturing(None)
    handler = FunctionHandler(later(bench))

    async def impatient(ex):
        run = capture(ex, handler, None)
        run.cancel()
        try:
            await run
        except asyncio.CancelledError:
            return {"gave": "up"}

    bench.method("impatient", impatient)
    bench.request(1, "impatient")
    bench.loop.turn()
    assert bench.answers == {1: {"gave": "up"}} and bench.log == ["inner ended"] and bench.at_rest()


def test_a_detached_run_outlives_its_request_and_sends_through_its_outlet():
    bench = Bench()
    said = []
    handler = FunctionHandler(later(bench))
    runs = []

    def outer(ex):
        run = capture(ex, handler, ex.params, detach=lambda run: run.detach(lambda *what: said.append(what)))
        runs.append(run)
        return {"accepted": True}

    bench.method("outer", outer)
    bench.request(1, "outer", _meta={"progressToken": 5})
    assert bench.answers == {1: {"accepted": True}} and bench.mux.in_flight == 0
    inner = bench.exchanges["inner"]
    assert inner.open
    inner.notify(b"notifications/message", b'{"n":1}')
    inner.progress(1)  # MX-04: no progress without being asked to keep the token
    assert said == [(b"notifications/message", b'{"n":1}')] and len(bench.frames) == 1
    bench.mux.cancel_all()
    assert not inner.cancelled
    bench.done("inner", b'{"late":1}')
    assert runs[0].future.result()[:9] == b'{"late":1' and bench.at_rest()


def test_mx04_a_detached_run_may_keep_the_progress_token():
    bench = Bench()
    said = []
    handler = FunctionHandler(later(bench))

    def outer(ex):
        run = capture(ex, handler, ex.params)
        run.detach(lambda method, params: said.append(params), progress=True)
        return {"accepted": True}

    bench.method("outer", outer)
    bench.request(1, "outer", _meta={"progressToken": 5})
    inner = bench.exchanges["inner"]
    inner.progress(1, 2)
    inner.progress(0.5)
    assert said == [b'{"progressToken":5,"progress":1,"total":2}']
    bench.done("inner")
    inner.progress(2)
    assert len(said) == 1 and bench.at_rest()


def test_a_bound_of_in_flight_holds_with_captured_runs():
    bench = Capturing(None, max_in_flight=1)
    bench.inner = FunctionHandler(later(bench))
    bench.request(1, "outer")
    bench.request(2, "echo")
    assert 2 not in bench.answers
    bench.done("inner")
    assert set(bench.answers) == {1, 2} and bench.at_rest()


def test_the_client_is_gone_and_the_run_still_ends():
    bench = Capturing(None)
    bench.inner = FunctionHandler(later(bench))
    bench.request(1, "outer")
    bench.sink.finish()
    bench.done("inner")
    assert bench.run.future.done() and bench.sent == [] and bench.at_rest()
