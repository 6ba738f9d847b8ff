"""Memory of quiet connections and listens against the marks, on a server in a process of its own.

The whole crowds (10,000 and 2,000) are benchmarks/hosting_memory.py and hosting_fanout.py.
"""

import sys
from pathlib import Path

import pytest

BENCHMARKS = Path(__file__).parents[2] / "benchmarks"


@pytest.fixture
def benchmarks(monkeypatch):
    if not sys.platform.startswith("linux"):
        pytest.skip("resident memory is read from /proc/PID/smaps_rollup")
    monkeypatch.syspath_prepend(str(BENCHMARKS))


@pytest.mark.parametrize("loop", ["asyncio", "uvloop"])
def test_quiet_connections_and_listens_stay_within_their_marks(benchmarks, loop):
    import hosting_memory

    found = hosting_memory.measure(loop, {"connection": 1_000, "listen": 500})
    assert found["connection"] <= hosting_memory.MARKS["connection"], found
    assert found["listen"] <= hosting_memory.MARKS["listen"], found


def test_b113_every_listen_of_many_hears_every_change(benchmarks):
    import hosting_fanout

    found = hosting_fanout.measure("asyncio", 500, 2)
    assert found["listens"] == 500 and found["last_ms"] >= found["first_ms"] > 0
