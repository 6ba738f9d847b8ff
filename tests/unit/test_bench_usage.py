"""CPU and memory of process trees (issue 4, part A)."""

import os
import subprocess
import sys
import time

import pytest

from headrace.bench.usage import Usage

pytestmark = pytest.mark.skipif(not sys.platform.startswith("linux"), reason="/proc")

SPIN = "import time\nend = time.process_time() + 0.3\nwhile time.process_time() < end: pass\n"


def started(code):
    child = subprocess.Popen([sys.executable, "-c", code], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    assert child.stdout.readline() == "ready\n"
    return child


def ended(child):
    child.stdin.close()
    child.wait(20)
    child.stdout.close()


def test_wrapper_commands_are_covered():
    """npx and uv start the server as a child: its CPU and memory belong to the command."""
    inner = SPIN + "import sys\nprint('ready', flush=True)\nsys.stdin.read()"
    child = started(f"import subprocess, sys\nsys.exit(subprocess.call([sys.executable, '-c', {inner!r}]))")
    try:
        usage = Usage([child.pid])
        look = usage.look()
        assert look.processes == 2 == usage.most
        assert look.cpu_s >= 0.25 and look.rss > 2_000_000
        assert usage.pids == [child.pid]
    finally:
        ended(child)
    after = usage.look()
    assert after.processes == 0 and after.rss == 0 and after.cpu_s >= look.cpu_s


def test_an_orphan_stays_with_its_command():
    inner = "import sys\nprint('ready', flush=True)\nsys.stdin.read()"
    # Ended by a signal: a line for one of the two could be read by the other, which has the same standard input.
    child = started(
        f"import signal, subprocess, sys\nsubprocess.Popen([sys.executable, '-c', {inner!r}])\nsignal.pause()"
    )
    usage = Usage([child.pid])
    assert usage.look().processes == 2
    child.terminate()
    child.wait(20)
    assert usage.look().processes == 1
    child.stdin.close()
    child.stdout.close()
    for _ in range(200):
        if usage.look().processes == 0:
            break
        time.sleep(0.05)
    assert usage.look().processes == 0


def test_nothing_to_look_at():
    assert Usage().look() is None
    assert Usage([2**22 + 1]).look() is None
    usage = Usage()
    usage.add([os.getpid()])
    assert usage.look().processes >= 1
