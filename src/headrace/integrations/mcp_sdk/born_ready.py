"""The SDK's ``Connection`` of a request that stands for itself, made when somebody looks at it.

Few handlers ask who the client is, keep something for its next request (there is none) or push on the exit stack, and
what ``Connection.from_envelope`` does for that is a sixth of a call.
"""

from __future__ import annotations

from inspect import signature
from typing import Any

from mcp.server.connection import Connection

__all__ = ("BornReady", "in_use")


class BornReady(Connection):
    """``Connection.from_envelope(version, info, capabilities, outbound=outbound)``; without ``outbound`` it has no
    channel, as there."""

    def __init__(self, version: str, info: Any, capabilities: Any, outbound: Any = None) -> None:
        # What everybody looks at; for all the rest __getattr__ makes a connection and takes it from there.
        self.protocol_version = version
        self.session_id = None
        self._envelope = (info, capabilities)
        self.outbound = _NO_CHANNEL if outbound is None else outbound

    @property
    def initialize_accepted(self) -> bool:
        """There is no handshake to wait for."""
        return True

    def __getattr__(self, name: str) -> Any:
        own = self.__dict__
        if "_envelope" not in own or "_whole" in own:
            raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")
        own["_whole"] = True
        whole = Connection.from_envelope(self.protocol_version, *self._envelope, outbound=self.outbound)
        for key, value in whole.__dict__.items():
            own.setdefault(key, value)
        return getattr(self, name)


_NO_CHANNEL = signature(Connection.from_envelope).parameters["outbound"].default


def in_use(connection: Connection) -> bool:
    """Whether something was pushed on the exit stack of a connection."""
    stack = connection.__dict__.get("exit_stack")
    return stack is not None and bool(getattr(stack, "_exit_callbacks", True))
