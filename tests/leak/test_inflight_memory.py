"""What a request in flight costs, measured by the benchmark script in a process of its own."""

import json
import os
import subprocess
import sys
from pathlib import Path

SCRIPT = Path(__file__).parents[2] / "benchmarks" / "micro_inflight_memory.py"


def test_10_000_requests_in_flight_cost_under_1500_bytes_each():
    done = subprocess.run(
        [sys.executable, str(SCRIPT), "--json"], capture_output=True, text=True, timeout=120,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(p for p in sys.path if p)},
    )
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    assert found["requests"] == 10_000
    assert 0 < found["bytes_beyond_coroutine"] < 1500
