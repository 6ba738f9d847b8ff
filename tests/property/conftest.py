"""Hypothesis for a crowded machine: an example takes as long as it takes, and data may come slowly."""

from hypothesis import HealthCheck, settings

settings.register_profile("crowded", deadline=None, suppress_health_check=[HealthCheck.too_slow])


def pytest_collectstart(collector):
    """At import of the test modules, as hypothesis' own plugin sets its default after this file was read."""
    settings.load_profile("crowded")
