"""Context: what a handler can know about its request and send while it runs."""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Any

import msgspec

from headrace.jsonrpc import CLIENT_INFO, LOG_LEVEL, LOG_LEVELS, R4
from headrace.protocol._context import SENT, ContextBase

if TYPE_CHECKING:
    from headrace.mux import Exchange
    from headrace.protocol.input_needed import Answers

__all__ = ("REQUESTS", "Context", "RequestScope", "ThreadContext", "scope_of")

_encode = msgspec.json.Encoder().encode
_decode = msgspec.json.Decoder().decode
_LEVELS = {level: rank for rank, level in enumerate(LOG_LEVELS)}
_LOG_METHOD = b"notifications/message"


class RequestScope:
    """One request that hooks are around. ``state`` is what they keep for the handler, ``kept`` what the end of the
    hooks waits for beside it: each is an async function."""

    __slots__ = ("kept", "state")

    def __init__(self) -> None:
        self.state: dict[str, Any] = {}
        self.kept: list[Callable[[], Awaitable[Any]]] = []


REQUESTS: dict[Exchange, RequestScope] = {}
"""Requests that hooks are around now. Empty where there are no hooks."""


def scope_of(exchange: Exchange | None) -> RequestScope | None:
    """The hooked request that ``exchange`` is, or runs a part of."""
    while exchange is not None and REQUESTS:
        found = REQUESTS.get(exchange)
        if found is not None:
            return found
        exchange = getattr(exchange, "origin", None)
    return None


def _read_meta(raw: bytes) -> dict[str, Any]:
    """``_meta`` as a dict; numbers beyond what Python's floats and int() take do not fail the request (B105)."""
    try:
        meta = _decode(raw)
    except ValueError:
        meta = json.loads(raw, parse_int=lambda digits: int(digits) if len(digits) < 1000 else float(digits))
    return dict(meta)


async def _start_task(exchange: Exchange) -> bool:
    if getattr(exchange, "detached", False):
        return True
    starter = getattr(exchange, "starter", None)
    return starter is not None and bool(await starter.promote())


class Context(ContextBase):
    """Given to a handler through a parameter annotated with this class.

    Belongs to one request; after the answer its methods do nothing. In a tool that runs in a worker
    thread (plain ``def``) the methods may be called from that thread and need no ``await``.
    """

    __slots__ = ()

    def __repr__(self) -> str:
        return f"<Context of request {self.request_id!r}>"

    @property
    def request_id(self) -> str | int:
        """The id that the client gave the request, with its JSON type (JR-04)."""
        return self._exchange.request_id

    @property
    def protocol_version(self) -> str:
        """The revision this request is served under, such as ``"2026-07-28"``."""
        return self._exchange.revision.name

    @property
    def meta(self) -> dict[str, Any]:
        """The request's ``_meta``, empty when it has none."""
        if self._meta is None:
            raw = self._exchange.meta
            self._meta = _read_meta(raw) if raw is not None else {}
        return self._meta

    @property
    def headers(self) -> Mapping[str, str]:
        """Header fields of the HTTP request, names in lower case; empty on other transports."""
        return self._exchange.sink.headers

    @property
    def client_info(self) -> dict[str, Any] | None:
        """What the client says of itself, or None. Self-declared: decide nothing by it (JR-43)."""
        if self._exchange.revision.modern:
            info = self.meta.get(CLIENT_INFO)
            return info if isinstance(info, dict) else None
        seen: dict[str, Any] | None = self._exchange.mux.gate.client_info
        return seen

    @property
    def principal(self) -> Any:
        """The authenticated caller, or None."""
        return self._exchange.principal

    @property
    def cancelled(self) -> bool:
        """True once the client gave the request up; threads should look at it now and then."""
        return self._exchange.cancelled

    @property
    def lifespan(self) -> Any:
        """What the server's ``lifespan`` yielded, or None."""
        return self._exchange.mux.gate.server.lifespan_state

    @property
    def session_state(self) -> dict[str, Any]:
        """What the hooks of :meth:`headrace.Server.on_session` keep for the requests of this session; empty without
        hooks, and for a request without a session (2026-07-28 over HTTP)."""
        hooked = getattr(self._exchange.mux.gate, "hooked", None)
        return {} if hooked is None else hooked.state

    @property
    def state(self) -> dict[str, Any]:
        """What the hooks of :meth:`headrace.Server.on_request` keep for this request; empty without hooks."""
        scope = scope_of(self._exchange)
        return {} if scope is None else scope.state

    def log(self, level: str, data: Any, logger: str | None = None) -> Any:
        """Sends a log message to the client when it wants this ``level`` (SF-40, SF-41).

        ``level`` is one of debug, info, notice, warning, error, critical, alert, emergency; ``data``
        any JSON value; ``logger`` a name. Raises ValueError for another level.
        """
        rank = _LEVELS.get(level)
        if rank is None:
            raise ValueError(f"log level {level!r}: use one of {', '.join(LOG_LEVELS)}")
        exchange = self._exchange
        wanted = self.meta.get(LOG_LEVEL) if exchange.revision.modern else exchange.mux.gate.log_level
        if wanted is None or rank < _LEVELS.get(wanted, 99):
            return self._sent()
        body: dict[str, Any] = {"level": level, "data": data}
        if logger is not None:
            body["logger"] = logger
        return self._send(_LOG_METHOD, _encode(body))

    def close_stream(self, retry: float | None = None) -> bool:
        """Ends the connection of this request's event stream, while the handler works on (HO-23).

        The client comes back after ``retry`` seconds (by default the server's ``retry_interval``, or 1) and
        gets what was sent meanwhile, the answer included: a long call then holds no connection. False, and
        nothing happens, where the client could not come back: only sessions of revision 2025-11-25 over
        HTTP with an event store can. Raises ValueError for a negative ``retry``.
        """
        if retry is not None and not 0 <= retry < 1e6:
            raise ValueError(f"retry must be a number of seconds, not {retry!r}")
        return self._exchange.sink.close_stream(retry)

    def start_task(self) -> Any:
        """Turns this call into a task: its client gets the handle now, the handler goes on behind it (TK-22).

        Await it. For tools registered with ``task_start="handler"``: what is asked before is asked in the call
        itself. True when the handler runs as a task from here on, False when the call stays a call, because
        its client knows no tasks. Raises RpcError when there is no room for another task.
        """
        return self._ask(_start_task(self._exchange))

    # --- questions to the client (docs/asking.md) --------------------------------------------------------

    @property
    def client_capabilities(self) -> dict[str, Any]:
        """What the client declared that it can do, such as ``{"elicitation": {"form": {}}}``."""
        from headrace.protocol.asking import client_capabilities

        return client_capabilities(self._exchange)

    @property
    def client_extensions(self) -> dict[str, Any]:
        """Extensions that the client speaks, identifier to settings (VN-31, VN-32); empty without any.

        An extension is used only with a client that is in here; without it a handler does with the core.
        """
        found = self.client_capabilities.get("extensions")
        return found if isinstance(found, dict) else {}

    def elicit(self, message: str, schema: Any = None, *, timeout: float | None = None) -> Any:
        """Shows the client's user a form; gives :class:`headrace.Elicited` with the action and the content.

        ``schema`` is a Struct, dataclass, TypedDict or pydantic model with text, number, boolean and choice
        fields, whose instance ``content`` will be, or a JSON Schema; without it the user is only asked to
        accept or decline. ``timeout`` is in seconds, ``limits.ask_timeout`` without it. Never ask for
        secrets this way (CF-33).

        Raises :class:`~headrace.errors.ClientCapabilityMissing` when the client takes no such question,
        :class:`~headrace.errors.CannotAsk` when there is no way to it, UsageError for a schema that is no
        form, :class:`~headrace.errors.InvalidAnswer`, :class:`~headrace.errors.ClientRefused` and
        :class:`~headrace.errors.RequestTimeout` for what came of it. Clients of 2026-07-28 answer with a
        retry, which runs the handler anew.
        """
        from headrace.protocol.questions import elicit

        return self._ask(elicit(self._exchange, message, schema, timeout))

    def elicit_url(
        self, message: str, url: str, elicitation_id: str | None = None, *, timeout: float | None = None
    ) -> Any:
        """Asks the client's user to open ``url``; gives :class:`headrace.Elicited` (CF-32).

        Accepting means consent to open it, not that anything was done there. ``elicitation_id`` goes to
        clients of 2025-11-25, see :meth:`elicitation_complete`; one is made up when it is needed. The URL
        must be absolute http(s), and hold neither credentials nor personal data. Raises as :meth:`elicit`.
        """
        from headrace.protocol.questions import elicit_url

        return self._ask(elicit_url(self._exchange, message, url, elicitation_id, timeout))

    def elicitation_complete(self, elicitation_id: str) -> Any:
        """Tells a client of 2025-11-25 that what it was sent to a URL for is done; does nothing on other
        revisions. May be called after the request, too, while its session lasts (CF-32)."""
        exchange = self._exchange
        if exchange.revision.name == R4:
            self._complete(b"notifications/elicitation/complete", _encode({"elicitationId": elicitation_id}))
        return self._sent()

    def sample(
        self,
        messages: Any,
        *,
        max_tokens: int,
        system: str | None = None,
        temperature: float | None = None,
        stop_sequences: Iterable[str] | None = None,
        model_preferences: Any = None,
        include_context: str | None = None,
        metadata: dict[str, Any] | None = None,
        tools: Iterable[Any] | None = None,
        tool_choice: Any = None,
        timeout: float | None = None,
    ) -> Any:
        """Lets the client's model continue ``messages``; gives a :class:`headrace.types.CreateMessageResult`.

        ``messages`` is a text (of the user) or SamplingMessages, as Structs or dicts. ``tools`` are Tool
        Structs or dicts, ``tool_choice`` ``"auto"``, ``"required"`` or ``"none"``; both need the client's
        ``sampling.tools`` (CF-22). Raises as :meth:`elicit`; :class:`~headrace.errors.Declined` when the
        user said no; UsageError for messages that break the rules of tool use.
        """
        from headrace.protocol.questions import sample

        return self._ask(
            sample(
                self._exchange,
                messages,
                timeout,
                max_tokens=max_tokens,
                system=system,
                temperature=temperature,
                stop_sequences=stop_sequences,
                model_preferences=model_preferences,
                include_context=include_context,
                metadata=metadata,
                tools=tools,
                tool_choice=tool_choice,
            )
        )

    def list_roots(self, *, timeout: float | None = None) -> Any:
        """The directories and files that the client works on, as a list of :class:`headrace.types.Root`.

        Advisory: no access control (CF-10). Raises as :meth:`elicit`.
        """
        from headrace.protocol.questions import list_roots

        return self._ask(list_roots(self._exchange, timeout))

    def record(self, key: str, make: Callable[[], Any] | Awaitable[Any]) -> Any:
        """Gives ``make()``, or what it gave in an earlier run of this request: for steps that must not happen
        twice, or differ from run to run. ``make`` may be async, or an awaitable.

        The value must have a JSON form, and is given as that JSON reads (a tuple is a list). It is kept
        from when a question leaves; it travels through the client, sealed. LocalProtocolError when ``key``
        is used twice in one run.
        """
        from headrace.protocol.asking import asker_of

        return asker_of(self._exchange).record(self._exchange, key, make)

    @property
    def input_responses(self) -> Answers | None:
        """Answers to the :class:`headrace.InputNeeded` that the last run ended with; None in the first run."""
        from headrace.protocol.input_needed import Answers

        found = self._asker().responses
        return None if found is None else Answers(found)

    @property
    def request_state(self) -> Any:
        """The ``state`` of the :class:`headrace.InputNeeded` that the last run ended with, or None."""
        state = self._asker().own_state
        return None if state is msgspec.UNSET else state

    @property
    def raw_request_state(self) -> str | None:
        """The same where it was given as ``state_raw``: anybody may have written it (MX-35)."""
        found: str | None = self._asker().raw_state
        return found

    def _asker(self) -> Any:
        from headrace.protocol.asking import asker_of

        asker = asker_of(self._exchange)
        asker.load(self._exchange)
        return asker

    def _ask(self, question: Any) -> Any:
        return question

    def _complete(self, method: bytes, params: bytes) -> None:
        exchange = self._exchange
        if exchange.open:
            exchange.notify(method, params)
        elif (announce := getattr(exchange.mux.gate, "announce", None)) is not None:
            announce(method, params)

    def _send(self, method: bytes, params: bytes) -> Any:
        return self._exchange.notify(method, params) or self._sent()


class ThreadContext(Context):
    """The same inside a worker thread: what is sent goes through the event loop, in order."""

    __slots__ = ()

    def progress(self, done: float, total: float | None = None, message: str | None = None) -> Any:
        self._exchange.mux.runtime.post(self._exchange.progress, done, total, message)
        return SENT

    def close_stream(self, retry: float | None = None) -> bool:
        """As in Context; whether the client can come back is not known yet: True says it was asked for."""
        if retry is not None and not 0 <= retry < 1e6:
            raise ValueError(f"retry must be a number of seconds, not {retry!r}")
        self._exchange.mux.runtime.post(self._exchange.sink.close_stream, retry)
        return True

    def _ask(self, question: Any) -> Any:
        from headrace.protocol.questions import ask_from_thread

        return ask_from_thread(self._exchange, question)

    def record(self, key: str, make: Callable[[], Any] | Awaitable[Any]) -> Any:
        """The same; ``make`` is a plain function and runs in this thread."""
        asker = self._asker()
        known = asker.memos.get(key)
        return _decode(known) if known is not None else asker.keep(key, make())  # type: ignore[operator]

    def _complete(self, method: bytes, params: bytes) -> None:
        self._exchange.mux.runtime.post(super()._complete, method, params)

    def _send(self, method: bytes, params: bytes) -> Any:
        self._exchange.mux.runtime.post(self._exchange.notify, method, params)
        return SENT
