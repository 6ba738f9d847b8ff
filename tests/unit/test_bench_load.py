"""The pace of a load run: weights, quotas, warm-up, the schedule of an open loop and what stalls cost in it."""

import asyncio

import msgspec
import pytest
from bench_http_support import Server, answer, drive, http, operation, plan_for, step

from headrace.bench._http_load import HttpSide
from headrace.bench._load import Load
from headrace.bench.plan import Plan


def serve(**more):
    return Server(lambda r: http(answer(r["id"])), **more)


def test_plans_travel_as_json():
    plan = plan_for(1, operation(step(expects=b"\x00x", answer="stream")), rate=5.0, headers=(("A", "b"),))
    assert msgspec.json.decode(msgspec.json.encode(plan), type=Plan) == plan


def test_operations_come_by_weight_and_seed(run):
    async def body():
        ops = (operation(name="a", weight=1), operation(name="b", weight=9))
        async with serve() as server:
            first = await drive(plan_for(server.port, *ops, requests=400, seed=1))
            again = await drive(plan_for(server.port, *ops, requests=400, seed=1))
        assert first.ok_total == 400 and 10 <= first.ok_of(0) <= 90
        assert (again.ok_of(0), again.ok_of(1)) == (first.ok_of(0), first.ok_of(1))

    run(body)


@pytest.mark.parametrize("rate", [None, 2000.0])
@pytest.mark.parametrize("connections", [1, 7])
def test_no_more_than_the_requests_asked_for(run, rate, connections):
    async def body():
        async with serve() as server:
            tally = await drive(plan_for(server.port, requests=23, connections=connections, rate=rate))
            assert tally.ok_total == len(server.requests) == 23 and tally.unsent == 0

    run(body)


def test_a_stall_is_seen_by_every_call_it_delayed(run):
    """Coordinated omission: one stall of half a second delays all calls that were due meanwhile."""

    async def body():
        async def late():
            await asyncio.sleep(0.5)
            stall.set()

        def reply(request):
            return http(answer(request["id"]))

        class Stalling(Server):
            async def speak(self, reader, writer):
                await stall.wait()
                await super().speak(reader, writer)

        for rate, least in ((100.0, 20), (None, 1)):
            stall = asyncio.Event()
            async with Stalling(reply) as server:
                waker = asyncio.ensure_future(late())
                tally = await drive(plan_for(server.port, requests=60, rate=rate))
                await waker
            delayed = sum(count for up_to, count in tally.latency().buckets() if up_to > 200_000_000)
            assert tally.ok_total == 60 and delayed >= least
            if rate is None:
                assert delayed < 30  # a closed loop hides it

    run(body)


def test_what_was_due_and_never_sent_is_told(run):
    async def body():
        loop = asyncio.get_running_loop()
        async with Server(lambda r: []) as server:
            tally = await drive(
                plan_for(server.port, requests=None, rate=200.0, timeout_s=0.5),
                during=lambda load: loop.call_later(0.3, load.drain),
            )
        assert tally.ok_total == 0 and tally.failed_total == 1 and tally.unsent > 10

    run(body)


def test_warm_up_does_not_count(run):
    async def body():
        async with serve() as server:
            load = Load(plan_for(server.port, requests=None), asyncio.get_running_loop())
            side = HttpSide(load)
            await side.open()
            load.begin(recording=False)
            while len(server.requests) < 5:
                await asyncio.sleep(0.01)
            assert load.tally.ok_total == 0 and load.in_flight == 1
            load.record()
            while load.tally.ok_total < 5:
                await asyncio.sleep(0.01)
            load.drain()
            await load.wait()
            await side.close()
            assert load.finished and load.tally.ok_total < len(server.requests)
            assert load.tally.requests <= load.tally.ok_total

    run(body)


def test_impossible_plans_are_refused(run):
    async def body():
        loop = asyncio.get_running_loop()
        with pytest.raises(ValueError, match="at least one operation"):
            Load(Plan(target=plan_for(1).target, operations=(), revision="x"), loop)
        with pytest.raises(ValueError, match="weight"):
            Load(plan_for(1, operation(weight=0)), loop)

    run(body)
