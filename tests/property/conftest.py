"""Hypothesis for a crowded machine: an example takes as long as it takes, and data may come slowly."""

from hypothesis import HealthCheck, settings

settings.register_profile("crowded", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("crowded")
