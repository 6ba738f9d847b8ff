"""What a load run sends: everything is prepared here, so that the load processes encode nothing per call.

A plan is plain data (msgspec), because it travels to the load processes as JSON.
"""

from typing import Literal

import msgspec

__all__ = ("Answer", "HttpTarget", "LineTarget", "Operation", "Plan", "Step")

Answer = Literal["result", "stream", "accepted", "ended", "listen"]
"""What a step waits for.

``result``: one answer with this id; over HTTP as JSON or as an event stream (notifications before it are counted).
``stream``: the same, but the answer must bring at least one notification.
``accepted``: HTTP 202 (or any 2xx) to a notification; over lines nothing is waited for.
``ended``: HTTP 200..204, 404 or 405 to the DELETE of a session; over lines nothing is sent.
``listen``: the answer is held open for ``hold_s`` after its acknowledgement (the first notification), or until the end
of the run; notifications are counted, its end is an error. Its latency is the time to the acknowledgement.
"""


class HttpTarget(msgspec.Struct, frozen=True, kw_only=True, tag="http"):
    """A Streamable HTTP endpoint."""

    host: str
    """Name or address; also the value of the Host header (with the port when it is not the default one)."""
    port: int
    path: str = "/mcp"
    tls: bool = False
    unix: str | None = None
    """Path of a unix socket to connect to instead of host and port."""
    headers: tuple[tuple[str, str], ...] = ()
    """Sent with every request, after the ones the protocol demands."""


class LineTarget(msgspec.Struct, frozen=True, kw_only=True, tag="lines"):
    """A line stream: exactly one of ``command``, ``unix`` and ``host`` is given."""

    command: tuple[str, ...] | None = None
    """Started once a connection; speaks on its standard input and output."""
    env: dict[str, str] | None = None
    """Added to the environment of the command."""
    cwd: str | None = None
    unix: str | None = None
    host: str | None = None
    port: int = 0


class Step(msgspec.Struct, frozen=True, kw_only=True):
    """One message. Its JSON text is ``before + id + after`` with an id that the connection makes."""

    before: bytes
    after: bytes = b""
    """For a notification ``before`` is the whole text and ``after`` is empty. Both are empty for ``ended``."""
    method: str
    headers: tuple[tuple[str, str], ...] = ()
    """HTTP headers of this step beyond those of every request (Mcp-Method, Mcp-Name, Mcp-Param-*, ...)."""
    token: bytes = b""
    """If not empty the text is ``before + id + token + id + after``: a progress token, unique on a line stream."""
    answer: Answer = "result"
    hold_s: float | None = None
    """Of ``listen``: how long it is held open once it was acknowledged; None: until the end of the run."""
    expects: bytes | None = None
    """Bytes that must stand in a string or number of the result, as JSON has them."""
    member: bytes | None = None
    """Name of a list that the result must have, such as ``content``."""
    opens_session: bool = False
    """The answer's Mcp-Session-Id (if any) goes with all later steps of this operation (or this connection, when the
    step is part of the plan's ``opening``)."""


class Operation(msgspec.Struct, frozen=True, kw_only=True):
    """One measured unit: its latency is from its first byte (or its intended start) to the last answer."""

    name: str
    steps: tuple[Step, ...]
    weight: int = 1


class Plan(msgspec.Struct, frozen=True, kw_only=True):
    """A whole run."""

    target: HttpTarget | LineTarget
    operations: tuple[Operation, ...]
    revision: str
    opening: tuple[Step, ...] = ()
    """Sent once on every connection before anything is measured: the handshake of a session, or the
    question that shows that a line server has started."""
    closing: tuple[Step, ...] = ()
    """Sent over HTTP for every session of a connection once everything is measured: it is ended at the server."""
    connections: int = 1
    in_flight: int = 1
    """Calls in flight on each connection; HTTP/1.1 carries one."""
    duration_s: float | None = 10.0
    requests: int | None = None
    """Operations in all; the run ends with whichever of the two comes first. At least one of them is given."""
    rate: float | None = None
    """Operations per second over all connections (open loop). None: as fast as answers come (closed loop)."""
    warmup_s: float = 0.0
    timeout_s: float = 30.0
    """For one step, for connecting, and for what is in flight at the end."""
    seed: int = 0
    """Of the choice of operations."""
    fixed_id: bool = False
    """All calls carry the id 7 (and the id is still checked): for servers that answer with canned bytes."""
    processes: int = 1
