"""The official conformance suite, server and client, on every wire: everything but authorization passes."""

import pytest

from interop.conformance import run

pytestmark = [pytest.mark.interop, pytest.mark.timeout(400)]


@pytest.fixture(scope="module")
def found(node):
    return run.run_all()


def test_b117_every_check_passes(found, capsys):
    """B117: the suite is a floor; warnings count as failures, and what is expected to fail must fail."""
    with capsys.disabled():
        print("\n" + run.table(found))
    assert run.problems(found) == []


@pytest.mark.parametrize("side", run.SIDES)
def test_the_suite_has_run(found, side):
    """Scenarios that are skipped or never start do not pass by silence."""
    ours = [each for each in found if each.side == side and not each.authorization]
    assert {each.wire for each in ours} >= set(run.WIRES) - ({"2025-03-26"} if side == "client" else set())
    passed = sum(each.count("SUCCESS") for each in ours)
    assert passed >= {"server": 550, "client": 160}[side]
    assert all(each.count("SUCCESS") for each in ours if each.name not in run.ALL_SKIPPED)
