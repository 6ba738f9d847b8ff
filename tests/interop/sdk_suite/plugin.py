"""pytest plugin for a checkout of the official SDK: its own tests, with headrace as one more implementation."""

import pytest
from mcp.shared.transport_context import TransportContext

from headrace.integrations.mcp_sdk import memory_dispatchers


def headrace_pair(*, can_send_request=True):
    """Two connected dispatchers, as the pair factories of the checkout give them."""

    def builder(metadata):
        return TransportContext(kind="headrace", can_send_request=can_send_request)

    client, server = memory_dispatchers(transport_builder=builder)

    def close():
        client.close()
        server.close()

    return client, server, close


@pytest.hookimpl(tryfirst=True)
def pytest_generate_tests(metafunc):
    if "pair_factory" in metafunc.fixturenames:
        fixture = metafunc._arg2fixturedefs["pair_factory"][-1]
        if not any(param.id == "headrace" for param in fixture.params):
            fixture.params = (*fixture.params, pytest.param(headrace_pair, id="headrace"))
