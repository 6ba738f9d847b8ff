"""stdio_transport and http_transport under the official SDK: trials that run in its Python, on both loops."""

import ast

import pytest

from interop.support import HERE, SOURCE, run_json

pytestmark = pytest.mark.interop

SCRIPTS = ("sdk_stdio_trials.py", "sdk_http_trials.py")


def trials(script):
    """Names of the trials in a script."""
    tree = ast.parse((HERE / "peers" / script).read_text())
    return [node.name for node in tree.body if isinstance(node, ast.AsyncFunctionDef) and node.name.startswith("trial_")]


@pytest.fixture(scope="module", params=["asyncio", "uvloop"])
def outcomes(request, peers):
    """What came of each trial of a script; the whole script runs once a loop."""
    kept = {}

    def of(script):
        if script not in kept:
            command = [peers, HERE / "peers" / script, request.param]
            kept[script] = run_json(command, timeout=240, env={"PYTHONPATH": str(SOURCE)})
        return kept[script]

    return of


@pytest.mark.parametrize(("script", "trial"), [(script, trial) for script in SCRIPTS for trial in trials(script)])
def test_trial(outcomes, script, trial):
    """See the script's trial of that name."""
    found = {name: text for name, text in outcomes(script).items() if name.partition("[")[0] == trial}
    assert found
    for name, outcome in found.items():
        assert outcome == "ok", f"{name}: {outcome}"
