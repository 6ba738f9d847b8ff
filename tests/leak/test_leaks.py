"""Memory over many calls and connections, each in a process of its own (B94, T12)."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

SCRIPTS = Path(__file__).parent
NAMES = ["calls", "cancelled", "errors", "memory_connections", "unix_connections"]


@pytest.mark.parametrize("loop", ["asyncio", "uvloop"])
@pytest.mark.parametrize("name", NAMES)
def test_b94_memory_stays_flat(name, loop):
    if loop == "uvloop":
        pytest.importorskip("uvloop")
    done = subprocess.run(
        [sys.executable, str(SCRIPTS / "leak_script.py"), name, loop], capture_output=True, text=True, timeout=240,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(p for p in sys.path if p)},
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.startswith("flat:")
