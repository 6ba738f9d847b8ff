"""One ``Server.run`` of mcp 1.x and the messages in front of it.

Strategy: a request goes into the read stream, and its record waits here under its id, in the place of a task.
What the server writes comes back in the call stack of its ``send``: an answer is written to the wire at once,
a notification and a question of the server go on the stream of the request that they name.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Coroutine
from typing import TYPE_CHECKING, Any

import msgspec
from mcp.server.lowlevel.server import request_ctx
from mcp.shared.message import ServerMessageMetadata, SessionMessage
from mcp.types import JSONRPCError, JSONRPCNotification, JSONRPCRequest, JSONRPCResponse

from headrace.errors import ConnectionClosed, HeadraceError, RpcError, internal_error
from headrace.integrations.mcp_sdk_1 import messages
from headrace.integrations.mcp_sdk_1.streams import ReadStream, WriteStream
from headrace.jsonrpc import INTERNAL_ERROR
from headrace.transports.plain.exchange import decode

if TYPE_CHECKING:
    from headrace.protocol.session import ServerSession
    from headrace.transports.plain import PlainExchange

__all__ = ("RunningServer", "encode")

_encode = msgspec.json.Encoder().encode

Run = Callable[[Any, Any, bool], Coroutine[Any, Any, None]]
"""``run(read_stream, write_stream, stateless)``: the server's own."""


def encode(value: Any) -> bytes:
    """JSON of what pydantic dumped; integers of any size keep their digits (B105)."""
    try:
        return _encode(value)
    except (msgspec.MsgspecError, OverflowError, ValueError):
        return json.dumps(value, ensure_ascii=False, separators=(",", ":")).encode("utf-8", "surrogatepass")


class _Waiting:
    """A request that the server has not answered: what the multiplexer holds instead of a task."""

    __slots__ = ("_done", "id", "owner", "plain", "state")

    def __init__(self, owner: RunningServer, id: str | int, plain: PlainExchange) -> None:
        self.owner = owner
        self.id = id
        self.plain = plain
        self.state = 0
        """0 while it waits, 1 answered, 2 cancelled."""
        self._done: Any = None

    def add_done_callback(self, function: Any) -> None:
        self._done = function

    def cancel(self) -> bool:
        """The client gave it up, or its session is over: the server is told as its own transports tell it, and
        answers once its handler has ended; that answer is for nobody."""
        if self.state:
            return False
        self.state = 2
        self.owner.reader.feed(messages.note("notifications/cancelled", {"requestId": self.id}))
        if self.owner.over:
            self.end()
        return True

    def cancelled(self) -> bool:
        return self.state == 2

    def done(self) -> bool:
        return self.state != 0

    def exception(self) -> None:
        return None

    def result(self) -> Any:
        return None

    def end(self) -> None:
        """It counts as in flight no longer."""
        done, self._done = self._done, None
        if done is not None:
            done(self)

    def answered(self, result: Any, error: BaseException | None) -> None:
        if self.state == 0:
            self.state = 1
            exchange: Any = self.plain.exchange
            if error is not None:
                exchange.answer_error(error)
            else:
                exchange.answer(result)
        self.end()


class _Opening:
    """``initialize``, whose result the host looks at before the client gets it."""

    __slots__ = ("future", "plain")

    def __init__(self, future: asyncio.Future[Any], plain: PlainExchange) -> None:
        self.future = future
        self.plain = plain

    def answered(self, result: Any, error: BaseException | None) -> None:
        if self.future.done():
            return
        if error is not None:
            self.future.set_exception(error)
        else:
            self.future.set_result(result)


class RunningServer:
    """One run of a server: of a connection, of an HTTP session, or of a single request (``stateless``).

    ``metadata(exchange)`` gives what the server's handlers find with their request. ``on_over(running,
    exception)`` is called when the run has ended.
    """

    def __init__(
        self,
        session: ServerSession | None,
        *,
        run: Run,
        spawn: Callable[[Coroutine[Any, Any, None]], Any],
        metadata: Callable[[PlainExchange], ServerMessageMetadata | None],
        report: Callable[[str, BaseException], None],
        on_over: Callable[[RunningServer, BaseException | None], None],
    ) -> None:
        self.session = session
        self.stateless = session is None
        self.reader = ReadStream()
        self.writer = WriteStream(self._take)
        self.over = False
        self._waiting: dict[str | int, _Waiting | _Opening] = {}
        self._metadata = metadata
        self._report = report
        self._on_over = on_over
        self.task = spawn(self._run(run))

    async def _run(self, run: Run) -> None:
        failure: BaseException | None = None
        try:
            await run(self.reader, self.writer, self.stateless)
        except (asyncio.CancelledError, SystemExit, KeyboardInterrupt):
            raise
        except BaseException as exc:
            failure = exc
            self._report("a session of the hosted server failed", exc)
        finally:
            self.over = True
            self.reader.close()
            self.writer.close()
            waiting, self._waiting = self._waiting, {}
            for record in waiting.values():
                record.answered(None, internal_error())
            self._on_over(self, failure)

    # --- from the client --------------------------------------------------------------------------------

    def request(self, method: str, params: Any, plain: PlainExchange) -> None:
        """Hands a request to the server, which answers it by itself."""
        exchange: Any = plain.exchange
        id = exchange.request_id
        record = _Waiting(self, id, plain)
        exchange.hold(record)
        if self.over:
            record.answered(None, internal_error())
            return
        self._waiting[id] = record
        self.reader.feed(messages.request(id, method, params, self._metadata(plain)))

    async def opening(self, params: Any, plain: PlainExchange) -> Any:
        """Hands ``initialize`` to the server and gives its result. Raises its error."""
        if self.over:
            raise internal_error()
        id: Any = plain.request_id
        future = asyncio.get_running_loop().create_future()
        self._waiting[id] = _Opening(future, plain)
        self.reader.feed(messages.request(id, "initialize", params, self._metadata(plain)))
        return await future

    def notified(self, method: str, params: Any, plain: PlainExchange) -> None:
        """Hands a notification to the server."""
        self.reader.feed(messages.note(method, params, self._metadata(plain)))

    def end(self) -> None:
        """The session is over: the server reads the end, and its run ends."""
        self.reader.end()

    # --- from the server --------------------------------------------------------------------------------

    def _take(self, message: SessionMessage) -> Any:
        root = message.message.root
        if isinstance(root, JSONRPCResponse):
            self._answered(root.id, root.result, None)
        elif isinstance(root, JSONRPCError):
            error = root.error
            self._answered(root.id, None, RpcError(error.code, error.message, error.data))
        elif isinstance(root, JSONRPCRequest):
            self._ask(root, self._related(message))
        elif isinstance(root, JSONRPCNotification):
            return self._tell(root, self._related(message))
        return None

    def _answered(self, id: str | int, result: Any, error: BaseException | None) -> None:
        record = self._waiting.pop(id, None)
        if record is None:
            return
        record.answered(None if result is None else encode(result), error)
        if self.stateless:
            self.reader.end()

    def _related(self, message: SessionMessage) -> PlainExchange | None:
        """The request that a message of the server belongs to, if it names one that is not answered."""
        metadata = message.metadata
        if not isinstance(metadata, ServerMessageMetadata) or metadata.related_request_id is None:
            return None
        return self._plain_of(metadata.related_request_id)

    def _plain_of(self, id: str | int) -> PlainExchange | None:
        record = self._waiting.get(id)
        if record is None:
            # Layers above name requests by the text of their ids.
            other: Any = str(id) if isinstance(id, int) else int(id) if id.isdecimal() else None
            record = self._waiting.get(other)
        return None if record is None else record.plain

    def _tell(self, root: JSONRPCNotification, plain: PlainExchange | None) -> Any:
        body = None if root.params is None else encode(root.params)
        method = root.method.encode()
        if plain is not None:
            exchange: Any = plain.exchange
            if exchange.tell(method, body):
                return exchange.sink.wait_drained()
        session = self.session
        if session is None or session.mux is None:
            return None
        sink = session.sink
        if session.id is None and sink is not None:
            # A line connection carries all there is.
            return sink.wait_drained() if session.mux.notify(method, body, sink) else None
        if plain is None and session.announce(method, body) and sink is not None:
            return sink.wait_drained()
        return None

    def _ask(self, root: JSONRPCRequest, plain: PlainExchange | None) -> None:
        params = root.params
        meta = params.get("_meta") if isinstance(params, dict) else None
        follows = isinstance(meta, dict) and meta.get("progressToken") == root.id
        id = root.id
        try:
            mux, sink = self._way(plain)
            call = mux.call(
                root.method,
                None if params is None else encode(params),
                sink,
                decode=decode,
                on_progress=self._progress_of(id) if follows else None,
                id=id,
            )
        except (HeadraceError, ValueError) as exc:
            self.reader.feed(messages.refusal(id, INTERNAL_ERROR, str(exc)))
            return

        def done(future: asyncio.Future[Any]) -> None:
            if future.cancelled():
                return
            exc = future.exception()
            if exc is None:
                self.reader.feed(messages.answer(id, future.result()))
            elif isinstance(exc, RpcError):
                self.reader.feed(messages.refusal(id, exc.code, exc.message, exc.data))
            else:
                self.reader.feed(messages.refusal(id, INTERNAL_ERROR, str(exc)))

        call.future.add_done_callback(done)

    def _way(self, plain: PlainExchange | None) -> tuple[Any, Any]:
        """Where a question of the server goes. One that names no request goes on the session's own stream; as
        long as the client has none open, on that of the request whose handler asks."""
        session = self.session
        if plain is None and session is not None and session.sink is None and (context := request_ctx.get(None)):
            plain = self._plain_of(context.request_id)
        if plain is not None:
            exchange: Any = plain.exchange
            return exchange.mux, exchange.sink
        if session is None or session.mux is None:
            raise ConnectionClosed("there is no session in which the client could be asked")
        if session.sink is None:
            raise ConnectionClosed("the client has no stream open for requests that belong to none of its own")
        return session.mux, session.sink

    def _progress_of(self, token: str | int) -> Callable[[float, float | None, str | None], None]:
        def progress(done: float, total: float | None, message: str | None) -> None:
            params: dict[str, Any] = {"progressToken": token, "progress": done}
            if total is not None:
                params["total"] = total
            if message is not None:
                params["message"] = message
            self.reader.feed(messages.note("notifications/progress", params))

        return progress
