"""The official conformance suite against one server of the official SDK under two hosts: nothing passes on theirs alone."""

import pytest

from interop.conformance import sdk_hosts

pytestmark = [pytest.mark.interop, pytest.mark.timeout(300)]


def test_no_check_passes_on_their_host_alone(node, peers):
    """Each scenario once, with the revision that the suite picks for it; `python -m interop.conformance.sdk_hosts` runs
    them on every wire."""
    theirs, ours = (sdk_hosts.outcomes(host, ("default",)) for host in sdk_hosts.HOSTS)
    assert sdk_hosts.totals(theirs)["SUCCESS"] > 100
    assert sdk_hosts.worse(theirs, ours) == []
