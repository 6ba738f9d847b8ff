"""What one message costs may not grow unnoticed: instructions and allocations against what was recorded."""

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

BENCHMARKS = Path(__file__).parent.parent / "benchmarks"

pytestmark = [
    pytest.mark.skipif(
        shutil.which("valgrind") is None or not Path("/usr/include/valgrind/callgrind.h").exists(),
        reason="there is no valgrind with its headers",
    ),
    pytest.mark.skipif(not BENCHMARKS.exists(), reason="the benchmarks are not part of this copy"),
    pytest.mark.timeout(600),
]


def test_no_call_costs_more_instructions_or_allocations_than_recorded():
    """Over 3 % more instructions, or any more allocations, than benchmarks/results/instructions.json says for this
    Python, compiler and libraries. A change that is worth its price records the new numbers: `make guard-record`."""
    done = subprocess.run(
        [sys.executable, str(BENCHMARKS / "callgrind_calls.py"), "--guard"], capture_output=True, text=True, timeout=540
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert "client call_tool over memory" in done.stdout, done.stdout


def test_growth_is_found(tmp_path):
    """The guard itself: recorded numbers that are a little lower than the truth make it fail."""
    sys.path.insert(0, str(BENCHMARKS))
    try:
        from callgrind_calls import GUARDED, REFERENCE, Growth
    finally:
        sys.path.remove(str(BENCHMARKS))
    here = {"python": "x"}
    instructions = {name: 10_000 for name in GUARDED} | {REFERENCE: 50_000}
    allocations = {name: 5.0 for name in instructions}
    entry = {"fingerprint": here, "instructions": instructions, "allocations": allocations}
    same = Growth([entry], here)
    same.check(instructions, allocations)
    assert same.problems == []
    grown = instructions | {GUARDED[0]: 10_301}
    same.check(grown, allocations | {GUARDED[1]: 5.1})
    assert [p.split(":")[0] for p in same.problems] == [GUARDED[0], GUARDED[1]]
    elsewhere = Growth([entry], {"python": "another"})
    elsewhere.check(grown, allocations | {GUARDED[1]: 99})
    assert elsewhere.problems == []
    elsewhere.check(instructions | {GUARDED[2]: 12_501}, allocations)
    assert len(elsewhere.problems) == 1 and "25%" in elsewhere.problems[0]


def test_recording_keeps_what_was_recorded():
    """A new record moves the one before to the history of its fingerprint, and keeps the guarded cases of it."""
    sys.path.insert(0, str(BENCHMARKS))
    try:
        from callgrind_calls import GUARDED, REFERENCE, entry_for
    finally:
        sys.path.remove(str(BENCHMARKS))
    numbers = {name: 10 for name in (*GUARDED, REFERENCE, "another case")}
    first = entry_for({"python": "x"}, {"commit": "a"}, numbers, numbers, None)
    assert first["history"] == []
    second = entry_for({"python": "x"}, {"commit": "b"}, numbers, numbers, first)
    third = entry_for({"python": "x"}, {"commit": "c"}, numbers, numbers, second)
    assert third["recorded"] == {"commit": "c"}
    assert [one["recorded"]["commit"] for one in third["history"]] == ["a", "b"]
    assert set(third["history"][0]["instructions"]) == {*GUARDED, REFERENCE}
