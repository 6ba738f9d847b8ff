"""The parts of ``headrace serve``: one file for each group of options, in the order of the help."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from headrace.cli.serving import backplane, endpoint, front, logs, rates, tracing, watch, where, workers
from headrace.cli.serving.plan import Group, Plan

__all__ = ("GROUPS", "Group", "Plan", "serve_options")

GROUPS: tuple[Group, ...] = (
    where.group,
    endpoint.group,
    front.group,
    workers.group,
    backplane.group,
    watch.group,
    tracing.group,
    logs.group,
    rates.group,
)


def serve_options(function: Callable[..., Any]) -> Callable[..., Any]:
    """Adds the options of all groups to a command."""
    for group in reversed(GROUPS):
        for option in reversed(group.options):
            function = option(function)
    return function
