"""Fixtures of the interop tests: the counterparts, and servers that live as long as one test module."""

import os
import shutil

import pytest

from interop import support


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


@pytest.fixture(scope="module")
def toolbox():
    """URL of the toolbox, hosted by headrace for one test module."""
    with support.hosted() as url:
        yield url


@pytest.fixture(scope="module")
def paged():
    """URL of the server that lists three tools a page."""
    with support.hosted(f"{support.TOOLBOX}:paged") as url:
        yield url
