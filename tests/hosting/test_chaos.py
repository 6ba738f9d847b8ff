"""The trials of `make chaos`, small: what callers see while workers and Redis are killed."""

import asyncio

import pytest
from chaos import scenarios
from chaos.machines import Redis

needs_redis = pytest.mark.skipif(not Redis.installed(), reason="redis-server is not installed")
pytestmark = pytest.mark.timeout(180)


@needs_redis
def test_b95_no_session_is_lost_and_only_calls_in_flight_on_a_dead_worker_fail():
    outcome = asyncio.run(scenarios.sessions_outlive_workers(sessions=40, calls=8, workers=3, pause=0.5))
    assert outcome.faults == []
    assert outcome.counts["sessions lost"] == outcome.counts["connections refused"] == 0


@needs_redis
def test_streams_go_on_at_any_worker():
    outcome = asyncio.run(scenarios.streams_go_on_anywhere(streams=20, steps=10, workers=3))
    assert outcome.faults == []


def test_b95_safe_calls_never_fail():
    outcome = asyncio.run(scenarios.safe_calls_never_fail(clients=8, seconds=4.0, workers=3))
    assert outcome.faults == []
    assert outcome.counts["failures"] == 0


def test_a_rolling_restart_fails_nothing():
    outcome = asyncio.run(scenarios.rolling_restart_fails_nothing(rate=200, seconds=3.0, clients=8, rolls=1))
    assert outcome.faults == []
    assert outcome.counts["failures"] == 0


@needs_redis
def test_b96_redis_may_go_for_a_while():
    outcome = asyncio.run(scenarios.redis_may_go(outage=2.0, clients=2, measured=False))
    assert outcome.faults == []
