"""pytest plugin for a checkout of the official SDK: its own tests, with headrace as one more implementation.

The dispatcher contract tests get a pair of our dispatchers, the matrix of the interaction suite a leg per transport. Writes
what came of each test to the file named by HEADRACE_SUITE_JSON.
"""

import fnmatch
import json
import os

import pytest
from exclusions import EXCLUSIONS
from legs import LEGS
from mcp.shared.transport_context import TransportContext

from headrace.integrations.mcp_sdk import memory_dispatchers

CONTRACT = "headrace-dispatcher"


def headrace_pair(*, can_send_request=True):
    """Two connected dispatchers, as the pair factories of the checkout give them."""

    def builder(metadata):
        return TransportContext(kind="headrace", can_send_request=can_send_request)

    client, server = memory_dispatchers(transport_builder=builder)

    def close():
        client.close()
        server.close()

    return client, server, close


class _Factories(dict):
    """The suite's own factories; ours are found in it, but not counted."""

    def __missing__(self, name):
        return LEGS[name].factory


def _add_legs(conftest):
    theirs = conftest.compute_cells

    def compute_cells(requirements, **options):
        cells = theirs(requirements, **options)
        for leg in LEGS.values():
            for cell in theirs(requirements, **options | {"transports": [leg.like]}):
                _, version = cell.values[0]
                cells.append(pytest.param((leg.name, version), id=f"{leg.name}-{version}", marks=cell.marks))
        return cells

    conftest.compute_cells = compute_cells
    conftest._FACTORIES = _Factories(conftest._FACTORIES)


@pytest.hookimpl(tryfirst=True)
def pytest_generate_tests(metafunc):
    if "pair_factory" in metafunc.fixturenames:
        fixture = metafunc._arg2fixturedefs["pair_factory"][-1]
        if not any(param.id == CONTRACT for param in fixture.params):
            fixture.params = (*fixture.params, pytest.param(headrace_pair, id=CONTRACT))
    if "connect" in metafunc.fixturenames and metafunc.module.__name__.startswith("tests.interaction."):
        import tests.interaction.conftest as conftest

        if not isinstance(conftest._FACTORIES, _Factories):
            _add_legs(conftest)


def leg_of(nodeid):
    """The implementation that a test is about: one of our legs, or `sdk` for what the checkout has itself."""
    values = nodeid.rpartition("[")[2].rstrip("]")
    names = [name for name in (*LEGS, CONTRACT) if values.startswith(name) or f"-{name}-" in f"-{values}-"]
    return max(names, key=len, default="sdk")


def _exclusion(nodeid):
    leg = leg_of(nodeid)
    for pattern, of, reason in EXCLUSIONS:
        if leg != "sdk" and fnmatch.fnmatch(leg, of) and fnmatch.fnmatch(nodeid.partition("[")[0], f"*{pattern}"):
            return reason
    return None


def pytest_collection_modifyitems(config, items):
    only = os.environ.get("HEADRACE_SUITE_ONLY") == "1"
    kept, excluded, left = [], [], []
    for item in items:
        reason = _exclusion(item.nodeid)
        if reason is not None:
            excluded.append((item, reason))
        elif only and leg_of(item.nodeid) == "sdk":
            left.append(item)
        else:
            kept.append(item)
    items[:] = kept
    config.stash[_EXCLUDED] = [(item.nodeid, reason) for item, reason in excluded]
    gone = [item for item, _ in excluded] + left
    if gone:
        config.hook.pytest_deselected(items=gone)


_EXCLUDED = pytest.StashKey[list]()


class _Results:
    """What came of every test; in the process that workers report to."""

    def __init__(self, path):
        self.path = path
        self.outcomes = {}
        self.excluded = {}

    def pytest_runtest_logreport(self, report):
        outcome = report.outcome
        if hasattr(report, "wasxfail"):
            outcome = "xfailed" if report.skipped else "failed"
        known = self.outcomes.get(report.nodeid)
        if known is None or outcome == "failed" or (known[0] == "passed" and outcome != "passed"):
            text = str(report.longrepr or "")
            self.outcomes[report.nodeid] = (outcome, text.strip().splitlines()[-1][:300] if text.strip() else "")

    def pytest_testnodedown(self, node, error):
        self.excluded.update(node.workeroutput.get("headrace_excluded", {}) if hasattr(node, "workeroutput") else {})

    def pytest_sessionfinish(self, session):
        self.excluded.update(session.config.stash.get(_EXCLUDED, []))
        rows = [
            {"test": test, "leg": leg_of(test), "outcome": outcome, "text": text}
            for test, (outcome, text) in sorted(self.outcomes.items())
        ]
        rows += [
            {"test": test, "leg": leg_of(test), "outcome": "excluded", "text": reason}
            for test, reason in sorted(self.excluded.items())
        ]
        with open(self.path, "w", encoding="utf-8") as file:
            json.dump(rows, file, indent=1)


class _Worker:
    def pytest_sessionfinish(self, session):
        session.config.workeroutput["headrace_excluded"] = dict(session.config.stash.get(_EXCLUDED, []))


def pytest_configure(config):
    path = os.environ.get("HEADRACE_SUITE_JSON")
    if hasattr(config, "workeroutput"):
        config.pluginmanager.register(_Worker(), "headrace-worker")
    elif path:
        config.pluginmanager.register(_Results(path), "headrace-results")
