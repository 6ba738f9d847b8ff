"""A POST stream that goes on over another connection, on whichever process that connection is (HO-08, HO-21, B95).

Strategy: the process that works on the request writes a log whether anybody reads it or not. Whoever serves the
client reads that log behind the event that the client had last, and is poked when there is more; a poke carries no
event, so none can be lost, come twice or come too fast: a client that does not read is simply not read for. If no
poke comes for some seconds the other process is asked how far it is, and if it is dead, or does not know the request
any more, the client gets an error in its place: never silence.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol

from headrace.errors import RpcError
from headrace.jsonrpc import INTERNAL_ERROR, INVALID_REQUEST
from headrace.protocol.backplane import BackplaneLost
from headrace.protocol.shared.events import ANSWERED, GIVEN_UP, Entry, unpack

if TYPE_CHECKING:
    from headrace.protocol.shared.events import EventId
    from headrace.protocol.shared.session_streams import StreamSharing
    from headrace.protocol.shared.streams import SharedStreams

__all__ = ("DEAD", "DONE", "PAGE", "RUNNING", "SILENT", "Follower", "Relay", "read_log")

RUNNING = b"r"
"""The other process works on the request."""
DONE = b"d"
"""It has nothing to do with it any more."""
DEAD = b"x"
"""It has ended."""
SILENT = b"s"
"""It lives, and does not answer."""

PAGE = 128
"""Entries that are read at once."""

_ASK_AGAIN = 5.0  # seconds without a poke
_RETRY = 0.5  # seconds until what cannot be reached is tried again
_SOON = 0.01  # seconds until an entry that was announced is looked for again
_LOOKS = 8  # ... so many times, each twice as long

_LOST = b"the process that worked on this request has ended, and its answer is lost"
_GIVEN_UP = b"this request was given up: the server was shut down, or its session ended"


class Relay(Protocol):
    """The connection that carries the stream."""

    def send_event(self, id: str, data: bytes) -> None: ...

    def room(self) -> Any:
        """None, or a future to wait for until the peer has read."""

    def finish(self) -> None:
        """Ends the answer whole."""


async def read_log(shared: SharedStreams, at: EventId, after: int, most: int = PAGE) -> tuple[list[Entry], int, bool]:
    """Entries of one stream behind a number: (those, the number read up to, whether more may follow at once)."""
    page = await shared.backplane.read(at.log, after, most)
    found = [entry for number, raw in page if (entry := unpack(number, raw)).stream == at.stream]
    return found, page[-1][0] if page else after, len(page) >= most


class Follower:
    """One client's reading of the POST stream that ``at`` names, behind that event."""

    def __init__(self, shared: SharedStreams, session: StreamSharing, at: EventId) -> None:
        self.at = at
        self.shared = shared
        self.session = session
        self.token = shared.posts.new_token()
        self.number = at.number
        """Read up to here."""
        self.announced = at.number
        """The other process has written up to here."""
        self.state = RUNNING
        self.request = b""
        self._relay: Relay | None = None
        self._over = False
        self._woken: Any = None
        self._first: list[Entry] = []

    def __repr__(self) -> str:
        return f"<Follower of {self.at.local} on {self.at.worker}>"

    async def open(self) -> list[tuple[str, bytes]]:
        """What there is already. Raises the answer where the stream cannot be gone on with: RpcError (400, 503),
        BackplaneLost."""
        await self._ask()
        if self.state == SILENT:
            text = "the process that works on this request does not answer"
            raise RpcError(INTERNAL_ERROR, text, http_status=503, refusal="backplane")
        found, self.number, _ = await read_log(self.shared, self.at, self.number)
        if not found and self.state != RUNNING and not await self._known():
            raise RpcError(
                INVALID_REQUEST, "Last-Event-ID names a stream of which nothing is left", http_status=400
            )
        return self._events(found)

    async def _known(self) -> bool:
        """Something of the stream is left, and it can be ended with an error if it has no end."""
        await self._find_request()
        return self._over or bool(self.request)

    async def _find_request(self) -> None:
        after, more = 0, True
        while more and not self.request:
            found, after, more = await read_log(self.shared, self.at, after)
            if found and found[-1].data in (ANSWERED, GIVEN_UP) and found[-1].number <= self.at.number:
                self._over = True  # the client has seen the end
            self.request = next((entry.request for entry in found if entry.request), b"")

    def _events(self, found: list[Entry]) -> list[tuple[str, bytes]]:
        events = []
        prefix = f"{self.at.tag}.{self.at.stream}."
        for entry in found:
            self.request = entry.request or self.request
            if entry.data in (ANSWERED, GIVEN_UP):
                self._over = True
                if entry.data == GIVEN_UP and self.request:
                    events.append((f"{prefix}{entry.number}", self._error(_GIVEN_UP)))
            elif entry.data:
                events.append((f"{prefix}{entry.number}", entry.data))
        return events

    def _error(self, text: bytes) -> bytes:
        return b'{"jsonrpc":"2.0","id":%b,"error":{"code":%d,"message":"%b"}}' % (self.request, INTERNAL_ERROR, text)

    # --- going on -----------------------------------------------------------------------------------

    def poked(self, number: int, state: bytes) -> None:
        """The other process has written up to ``number``."""
        self.announced = max(self.announced, number)
        if state != RUNNING:
            self.state = state
        self._wake()

    def worker_died(self) -> None:
        """The other process has ended."""
        self.state = DEAD
        self._wake()

    def stop(self) -> None:
        """The connection is gone, or the stream goes on over another one. Says nothing to the client."""
        if not self._over:
            self._over = True
            self.shared.posts.unfollow(self)
        self._relay = None
        self._wake()

    def end(self) -> None:
        """The same, and the answer ends whole."""
        relay = self._relay
        self.stop()
        if relay is not None:
            relay.finish()

    def _wake(self) -> None:
        if self._woken is not None and not self._woken.done():
            self._woken.set_result(None)

    async def _wait(self, seconds: float) -> None:
        """Until it is woken, or the time is over."""
        runtime = self.shared.runtime
        self._woken = woken = runtime.create_future()
        handle = runtime.call_at(runtime.time() + seconds, self._wake)
        try:
            await woken
        finally:
            handle.cancel()
            self._woken = None

    async def run(self, relay: Relay) -> None:
        """Goes on until the stream has ended or the connection is gone; behind :meth:`open`."""
        self._relay = relay
        while not self._over and self._relay is not None:
            try:
                await self._step()
            except BackplaneLost:
                await self._wait(_RETRY)
        if self._relay is not None:
            self.shared.posts.unfollow(self)
            self._relay = None
            relay.finish()

    async def _step(self) -> None:
        relay = self._relay
        assert relay is not None
        room = relay.room()
        if room is not None:
            await room
            return
        ended = self.state != RUNNING
        found, self.number, more = await read_log(self.shared, self.at, self.number)
        events = self._events(found)
        if self._relay is None:
            return  # the connection went meanwhile
        for id, data in events:
            relay.send_event(id, data)
        if more or self._over:
            return
        if self.number < self.announced:
            if not found:
                await self._look_again()
        elif ended:
            await self._give_up(relay)
        elif self.state == RUNNING:
            await self._wait(_ASK_AGAIN)
            if self.number >= self.announced and self.state == RUNNING and self._relay is not None:
                await self._ask()

    async def _look_again(self) -> None:
        """It was announced and is not there yet, which takes moments; or it has been dropped."""
        pause = _SOON
        for _ in range(_LOOKS):
            await self._wait(pause)
            if self._relay is None or await self.shared.backplane.read(self.at.log, self.number, 1):
                return
            pause *= 2
        self.number = self.announced

    async def _give_up(self, relay: Relay) -> None:
        """Nobody will answer the request any more."""
        if not self.request:
            await self._find_request()
        if self._relay is None:
            return
        if self.request and not self.session.ended:
            relay.send_event(f"{self.at.tag}.{self.at.stream}.{self.number + 1}", self._error(_LOST))
        self._over = True

    async def _ask(self) -> None:
        """Asks the other process for the stream, or whether it still lives."""
        answer = await self.shared.posts.ask(self)
        if answer in (DEAD, DONE):
            self.state = answer
        elif answer == SILENT and self._relay is None:
            self.state = SILENT
