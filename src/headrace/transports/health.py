"""Whether a server lives, and whether it is ready for requests: what orchestrators and balancers ask for.

``/healthz`` is 200 as long as the process answers at all. ``/readyz`` is 200 between the end of the start (lifespan,
listening) and the beginning of the drain, and 503 otherwise, and while somebody holds it.
"""

from __future__ import annotations

__all__ = ("LIVE", "PATHS", "READY", "Health", "health_of")

LIVE = "/healthz"
READY = "/readyz"
PATHS = (LIVE, READY)
"""What a Health answers."""


class Health:
    """The state of one server, which is ``"starting"`` at first.

    :param yields: where an ASGI application has all other paths of an endpoint, it has these as well.
    """

    def __init__(self, *, yields: bool = False) -> None:
        self.yields = yields
        self.state = "starting"
        self._reasons: dict[str, None] = {}

    def __repr__(self) -> str:
        return f"<Health {self.state}{', '.join(['', *self._reasons])}>"

    @property
    def reasons(self) -> list[str]:
        """Why it is not ready; empty when it is."""
        return [*([] if self.state == "ready" else [self.state]), *self._reasons]

    @property
    def ready(self) -> bool:
        """Whether new requests may come."""
        return not self.reasons

    def started(self) -> None:
        """The server accepts connections."""
        self.state = "ready"

    def draining(self) -> None:
        """The server ends: what is in flight is answered, nothing new shall come."""
        self.state = "draining"

    def hold(self, reason: str) -> None:
        """Not ready for a reason of the program's own (a cache that fills, a backend that is gone), until it is
        taken back."""
        self._reasons[reason] = None

    def release(self, reason: str) -> None:
        """Takes a reason back."""
        self._reasons.pop(reason, None)

    def answer(self, path: str) -> tuple[int, str] | None:
        """(HTTP status, text) for one of the two paths; None for any other."""
        if path == LIVE:
            return 200, "ok\n"
        if path != READY:
            return None
        reasons = self.reasons
        return (503, ", ".join(reasons) + "\n") if reasons else (200, "ok\n")


def health_of(value: bool | Health | None) -> Health | None:
    """The option ``health`` of an endpoint as what answers, or None."""
    return value if isinstance(value, Health) else Health() if value else None
