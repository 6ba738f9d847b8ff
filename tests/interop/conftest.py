"""Fixtures of the interop tests: the counterparts, and servers that live as long as one test module.

Whatever headrace sends in these tests is validated: as a client by a tap on every `connect`, as the hosted toolbox by a
recorder in front of it, on standard streams where it is started by way of `serving`.
"""

import json
import os
import shutil

import pytest

from headrace.client import connector
from interop import schemas, support, wire


def pytest_configure(config):
    config.addinivalue_line("markers", "interop: talks to another implementation in a process of its own")


def _need(path):
    """A counterpart that CI must have and that may be missing where nothing can be installed."""
    if not path.exists():
        text = f"{path.name} is missing: make peers"
        if os.environ.get("CI"):
            pytest.fail(text)
        pytest.skip(text)
    return path


@pytest.fixture(scope="session")
def peers():
    """The Python of the counterparts."""
    return _need(support.PEERS)


@pytest.fixture(scope="session")
def peers_1():
    """The Python of the counterparts' first generation."""
    return _need(support.PEERS_1)


@pytest.fixture(scope="session")
def node():
    """Node, with its packages installed."""
    _need(support.EVERYTHING)
    return _need(support.NODE)


@pytest.fixture(scope="session")
def curl():
    """The program curl."""
    found = shutil.which("curl")
    if found is None:
        if os.environ.get("CI"):
            pytest.fail("curl is missing")
        pytest.skip("curl is missing")
    return found


class _Talk:
    """What went over one connection of ours: messages in their order."""

    def __init__(self):
        self.sent, self.received = [], []

    def __call__(self, traffic):
        if traffic.message is not None and traffic.message.startswith((b"{", b"[")):  # not HTTP+SSE's endpoint
            (self.sent if traffic.sent else self.received).append(json.loads(traffic.message))


@pytest.fixture(autouse=True)
def what_clients_send(monkeypatch):
    """Every message of our clients fits the schema of the revision they agreed on."""
    talks = []
    enter = connector._Connect.__init__

    def tapped(self, target, *args):
        own, talk = target.tap, _Talk()
        target.tap = talk if own is None else lambda traffic: (own(traffic), talk(traffic))
        talks.append(talk)
        enter(self, target, *args)

    monkeypatch.setattr(connector._Connect, "__init__", tapped)
    yield
    for talk in talks:
        schemas.check(schemas.agreed(talk.received), talk.received, talk.sent)


def _hosted(target):
    with support.hosted(target) as url, wire.HttpRecorder(url) as recorder:
        yield recorder.url
        for sent, received in recorder.connections():
            schemas.check(schemas.agreed(received, sent), sent, received, strict=False)


@pytest.fixture(scope="module")
def toolbox():
    """URL of the toolbox, hosted by headrace for one test module."""
    yield from _hosted(support.TOOLBOX)


@pytest.fixture(scope="module")
def paged():
    """URL of the server that lists three tools a page."""
    yield from _hosted(f"{support.TOOLBOX}:paged")


@pytest.fixture(scope="module")
def serving(tmp_path_factory):
    """Gives the command that hosts a target on standard streams; what it sent is validated at the end of the module."""
    folder = tmp_path_factory.mktemp("serving")
    yield lambda *target: wire.recorded_command_each_time(support.serve_command(*target), folder)
    talks = [wire.recorded_lines(each) for each in folder.iterdir()]
    assert any(received for _, received in talks) or not talks
    for sent, received in talks:
        schemas.check(schemas.agreed(received, sent), sent, received)
