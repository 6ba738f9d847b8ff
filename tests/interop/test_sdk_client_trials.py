"""HeadraceDispatcher, stdio_transport and http_transport under the official SDK: trials in its Python, on both loops."""

import ast

import pytest

from interop.support import HERE, SOURCE, run_json

pytestmark = pytest.mark.interop

SCRIPTS = (
    ("peers", "sdk_dispatcher_trials.py"),
    ("peers", "sdk_stdio_trials.py"),
    ("peers", "sdk_http_trials.py"),
    ("peers", "sdk_oauth_trials.py"),
    ("peers_1", "sdk_oauth_trials.py"),
)


def trials(script):
    """Names of the trials in a script."""
    tree = ast.parse((HERE / "peers" / script).read_text())
    return [node.name for node in tree.body if isinstance(node, ast.AsyncFunctionDef) and node.name.startswith("trial_")]


@pytest.fixture(scope="module", params=["asyncio", "uvloop"])
def outcomes(request):
    """What came of each trial of a script; the whole script runs once a loop and generation of the SDK."""
    kept = {}

    def of(python, script):
        if (python, script) not in kept:
            command = [request.getfixturevalue(python), HERE / "peers" / script, request.param]
            kept[python, script] = run_json(command, timeout=240, env={"PYTHONPATH": str(SOURCE)})
        return kept[python, script]

    return of


@pytest.mark.parametrize(
    ("python", "script", "trial"), [(python, script, trial) for python, script in SCRIPTS for trial in trials(script)]
)
def test_trial(outcomes, python, script, trial):
    """See the script's trial of that name."""
    found = {name: text for name, text in outcomes(python, script).items() if name.partition("[")[0] == trial}
    assert found
    for name, outcome in found.items():
        assert outcome == "ok", f"{name}: {outcome}"
