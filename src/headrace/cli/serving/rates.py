"""Bounds of one caller: their options are those of the limits; here is what they need."""

from __future__ import annotations

from headrace.cli.serving.plan import Group, Plan

__all__ = ("group",)


class _Rates(Group):
    def prepare(self, plan: Plan) -> None:
        """What would bound nothing is refused."""
        from headrace.cli.guest import AsgiGuest

        assert plan.server is not None
        if isinstance(plan.server, AsgiGuest):
            for name in ("rate_limit", "rate_burst", "max_in_flight_per_principal"):
                if plan.typed(name):
                    raise plan.wrong(name, "is for MCP servers, and this is an ASGI application")
        if plan.typed("rate_burst") and not plan.server.limits.rate_limit:
            raise plan.wrong("rate_burst", "bounds nothing without --rate-limit N/s")


group = _Rates()
