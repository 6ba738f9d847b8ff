"""``connect``: from what names a server to a negotiated client, bounded as a whole (B116)."""

from __future__ import annotations

import asyncio
import logging
import os
import re
from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from types import TracebackType
from typing import TYPE_CHECKING, Any

from headrace._version import __version__
from headrace.client.arguments import seconds
from headrace.client.channels import Channel, CommandTarget, HttpTarget, LineTarget, MemoryTarget, Target
from headrace.client.client import Client
from headrace.client.core import Options
from headrace.client.failures import connect_failure
from headrace.client.inputs import Inputs
from headrace.client.middleware import check_layers
from headrace.client.negotiation import Offer, Phase
from headrace.client.opening import close_quietly, open_server
from headrace.client.session import ClientSession
from headrace.client.tasks import TASKS_EXTENSION
from headrace.errors import (
    HeadraceError,
    RequestTimeout,
    UsageError,
)
from headrace.jsonrpc import LOG_LEVELS, MODERN_REVISIONS
from headrace.limits import DEFAULT, Limits
from headrace.transports.address import parse_address

if TYPE_CHECKING:
    import ssl as ssl_module

    from headrace.client.cache import SharedCache
    from headrace.client.inputs import ElicitParams
    from headrace.client.middleware import ClientMiddleware
    from headrace.mux import Observer
    from headrace.server.app import Server
    from headrace.transports.tap import Tap
    from headrace.types.v2026_07_28 import CreateMessageRequestParams, LoggingMessageNotificationParams

__all__ = ("connect", "parse_target")


def connect(
    target: str | Sequence[str | os.PathLike[str]] | os.PathLike[str] | Mapping[str, Any] | Server,
    name: str | None = None,
    *,
    inputs: Mapping[str, str] | None = None,
    revision: str | None = None,
    timeout: float | None = None,
    headers: Mapping[str, str] | None = None,
    ssl: ssl_module.SSLContext | None = None,
    env: Mapping[str, str] | None = None,
    inherit_env: bool = False,
    cwd: str | os.PathLike[str] | None = None,
    stderr: Callable[[bytes], object] | int | None = None,
    limits: Limits | None = None,
    client_info: Mapping[str, Any] | None = None,
    log_level: str | None = None,
    on_log: Callable[[LoggingMessageNotificationParams], Any] | None = None,
    on_list_changed: Callable[[str], Any] | None = None,
    tap: Tap | None = None,
    transport: str | None = None,
    on_resource_updated: Callable[[str], Any] | None = None,
    roots: Sequence[Any] | Callable[[], Any] | None = None,
    sampling: Callable[[CreateMessageRequestParams], Any] | None = None,
    sampling_features: Sequence[str] = (),
    elicitation: Callable[[ElicitParams], Any] | None = None,
    elicitation_modes: Sequence[str] = ("form",),
    on_elicitation_complete: Callable[[str], Any] | None = None,
    extensions: Mapping[str, Mapping[str, Any]] | None = None,
    capabilities: Mapping[str, Any] | None = None,
    reset_timeout_on_progress: bool = False,
    max_total_timeout: float | None = None,
    cache: bool | SharedCache = True,
    validate: bool = True,
    middleware: Sequence[ClientMiddleware] = (),
    tasks: bool = False,
    ping_interval: float | None = None,
    retries: int = 0,
    observer: Observer | None = None,
) -> AbstractAsyncContextManager[Client]:
    """Connects to a server: ``async with connect("http://127.0.0.1:8000/mcp") as client:``.

    :param target: ``http://`` or ``https://`` URL of a Streamable HTTP endpoint; ``unix:PATH`` or
        ``tcp:HOST:PORT`` of a line server; a command as a list (program and arguments), started and
        spoken to over its standard streams; a :class:`headrace.Server` of this process; or the
        configuration of a host: a mapping, the path of a ``.json`` file, or any path together with ``name``.
    :param name: which server of the configuration (:mod:`headrace.client.config`); may be left out when
        there is only one. Options given here go over those of its entry.
    :param inputs: values of ``${input:ID}`` in the configuration.
    :param revision: force one protocol revision, such as ``"2025-11-25"`` or ``"2026-07-28"``, instead of
        finding out (VN-40..50).
    :param timeout: seconds each request may take unless it says otherwise (``limits.request_timeout``);
        infinity for no limit. Opening the connection, negotiation included, has ``limits.connect_timeout``.
    :param headers: HTTP header fields to send with every request.
    :param ssl: TLS settings of ``https`` URLs.
    :param env, inherit_env: variables for a command, over the safe few it inherits or over all of ours.
    :param cwd: working directory of a command.
    :param stderr: what gets a copy of a command's stderr: a function that takes bytes, or a descriptor.
    :param limits: bounds, see :class:`headrace.limits.Limits`.
    :param client_info: how the client names itself: ``{"name": ..., "version": ...}``.
    :param log_level: ask for log messages from this level on (default ``"info"`` with ``on_log`` in the
        modern era; the server's choice in the handshake era).
    :param on_log: called with each log message (``level``, ``data``, ``logger``).
    :param on_list_changed: called with ``"tools"``, ``"resources"`` or ``"prompts"`` when that list has
        changed; a burst of changes is one call.
    :param tap: called with each message both ways, as :class:`headrace.transports.tap.Traffic`, for people
        who look for a fault; costs nothing when absent.
    :param on_resource_updated: called with the URI of each resource that the server reports as updated, after
        :meth:`Client.subscribe`.
    :param roots: what the server may work on: a list of paths, ``file://`` URIs or
        :class:`headrace.types.Root` objects, or a function that gives one (CF-10).
    :param sampling: called with the params of each sampling request; gives a
        :class:`headrace.types.CreateMessageResult`, a dict of its shape, or a text. ``None`` or
        :class:`InputRefused` refuses (CF-20..CF-23).
    :param sampling_features: what of ``"tools"`` and ``"context"`` the callback understands (CF-22).
    :param elicitation: called with each :class:`headrace.client.inputs.ElicitParams`; gives
        :class:`headrace.Elicited`, the form's values as a dict, ``None`` (the user made no choice), or for a
        URL ``True`` or ``False``. Defaults are filled in and the values checked before they leave (CF-30).
    :param elicitation_modes: ``"form"``, ``"url"`` or both: what the callback can show (CF-32).
    :param on_elicitation_complete: called with the ``elicitation_id`` of each URL that the server says was dealt
        with (2025-11-25 only, CF-32).
    :param extensions: identifiers and settings of extensions that the client understands (VN-31).
    :param capabilities: further members of the declared capabilities, for what is answered by hand.
    :param reset_timeout_on_progress: progress of any request restarts the clock of its timeout (B80).
    :param max_total_timeout: seconds that any request may take in all, whatever its progress (default one hour
        with ``reset_timeout_on_progress``, else none).
    :param cache: use results again as long as the server allows (2026-07-28, SF-52). ``False``: never; a
        :class:`headrace.client.cache.SharedCache`: share those that are public with other clients.
    :param validate: check structured content against the output schemas of the tools that were listed (SF-06);
        needs the package ``jsonschema-rs`` (``headrace[schema]``).
    :param middleware: functions around every request, ``async def mw(call, next) -> value | None``, the first
        one outermost; see :mod:`headrace.client.middleware`.
    :param tasks: calls may become tasks: declares the extension in 2026-07-28 (TK-20), uses the server's in
        2025-11-25. :meth:`Client.call_tool` follows them, :meth:`Client.start_tool` gives their handles.
    :param ping_interval: seconds between two pings of a handshake-era connection (MX-20), which also keep its HTTP
        session alive; one that is not answered within as long ends the connection. Never by default, and never in
        2026-07-28, which has no ping.
    :param retries: how often a request that failed on the way is repeated, where that does no harm
        (:mod:`headrace.client.retries`): of tools those with ``readOnlyHint`` or ``idempotentHint``.
    :param observer: is told of every message both ways, see :class:`headrace.mux.Observer`; such as
        :class:`headrace.hosting.tracing.Tracing`.
    :param transport: of an ``http://`` or ``https://`` URL: ``"http"`` for Streamable HTTP only, ``"sse"`` for
        the HTTP+SSE of 2024-11-05 only; found out by default (VN-48).

    Callbacks may be async; calls of one kind run one after the other. Their exceptions are logged.

    Entering raises :class:`ConnectFailed` (also a ConnectionError) or :class:`RequestTimeout` naming the
    phase; nothing is left behind then. Wrong arguments raise :class:`UsageError` at once.
    """
    if log_level is not None and log_level not in LOG_LEVELS:
        raise UsageError(f"log level {log_level!r}: use one of {', '.join(LOG_LEVELS)}")
    if _is_config(target, name):
        from headrace.client.config import read_config

        entry = read_config(target).entry(name, inputs=inputs)  # type: ignore[arg-type]
        target = entry.target
        headers = {**entry.options.get("headers", {}), **(headers or {})} or None
        env = {**entry.options.get("env", {}), **(env or {})} or None
        cwd = cwd if cwd is not None else entry.options.get("cwd")
        transport = transport or entry.options.get("transport")
    elif name is not None or inputs is not None:
        raise UsageError("name and inputs are for configurations: a mapping or the path of a file")
    parsed = parse_target(
        target,
        headers=headers,
        ssl=ssl,
        env=env,
        inherit_env=inherit_env,
        cwd=cwd,
        stderr=stderr,
        transport=transport,
    )
    if parsed.transport == "sse" and revision in MODERN_REVISIONS:
        raise UsageError(f"HTTP+SSE does not carry {revision}")
    info = {"name": "headrace", "version": __version__} if client_info is None else dict(client_info)
    if not isinstance(info.get("name"), str) or not isinstance(info.get("version"), str):
        raise UsageError("client_info needs a name and a version")
    parsed.tap = tap
    bounds = limits or DEFAULT
    inputs_offered = Inputs(
        limits=bounds,
        roots=roots,
        sampling=sampling,
        sampling_parts=sampling_features,
        elicitation=elicitation,
        elicitation_modes=elicitation_modes,
        declared=capabilities,
        extensions=extensions,
    )
    modern = inputs_offered.capabilities(modern=True)
    if tasks:
        modern["extensions"] = {TASKS_EXTENSION: {}, **modern.get("extensions", {})}
    offer = Offer(info, inputs_offered.capabilities(modern=False), revision, modern)
    options = Options(
        offer=offer,
        limits=bounds,
        inputs=inputs_offered,
        timeout=seconds(timeout, bounds.request_timeout),
        extend=reset_timeout_on_progress,
        cache=cache,
        validate=validate,
        latest=max_total_timeout if max_total_timeout is None else seconds(max_total_timeout, 0),
        layers=check_layers(middleware),
        tasks=tasks,
        retries=_check_retries(retries),
    )
    return _Connect(
        parsed,
        options,
        log_level,
        on_log,
        on_list_changed,
        on_resource_updated,
        on_elicitation_complete,
        seconds(ping_interval, 0) or None,
        observer,
    )


def _check_retries(retries: int) -> int:
    if isinstance(retries, bool) or not isinstance(retries, int) or retries < 0:
        raise UsageError(f"retries must be a number from 0 on, not {retries!r}")
    return retries


def _is_config(target: Any, name: str | None) -> bool:
    if isinstance(target, Mapping | os.PathLike):
        return True
    if not isinstance(target, str) or _SCHEME.match(target):
        return False
    return name is not None or target.endswith(".json")


def parse_target(
    target: Any,
    *,
    headers: Mapping[str, str] | None = None,
    ssl: Any = None,
    env: Mapping[str, str] | None = None,
    inherit_env: bool = False,
    cwd: str | os.PathLike[str] | None = None,
    stderr: Any = None,
    transport: str | None = None,
) -> Target:
    """What ``target`` names. Raises :class:`UsageError` in one plain line."""
    where: Target
    http = command = False
    if isinstance(target, str):
        kind, _, rest = target.partition(":")
        if kind.lower() in ("http", "https") and rest.startswith("//"):
            where = HttpTarget(target, headers=headers, ssl=ssl, transport=transport)
            http = True
        elif kind == "unix" and rest:
            where = LineTarget(target, unix=rest)
        elif kind == "tcp" and rest:
            host, port = parse_address(rest)
            where = LineTarget(target, host=host, port=port)
        else:
            text = f"cannot connect to {target[:100]!r}: "
            if _HOST_AND_PORT.fullmatch(target[:300]):
                raise UsageError(f"{text}did you mean http://{target[:100]} or tcp:HOST:PORT?")
            raise UsageError(
                f"{text}use an http:// or https:// URL, unix:PATH, tcp:HOST:PORT, or a list for a command"
            )
    elif isinstance(target, list | tuple):
        argv = [os.fspath(part) if isinstance(part, str | os.PathLike) else part for part in target]
        if not argv or not all(isinstance(part, str) and part for part in argv[:1]):
            raise UsageError("the command must be a list: the program and its arguments")
        for part in argv:
            if not isinstance(part, str):
                raise UsageError(f"arguments of a command must be strings, not {type(part).__name__}")
        where = CommandTarget(
            argv,
            env=env,
            inherit_env=inherit_env,
            cwd=os.fspath(cwd) if cwd is not None else None,
            stderr=stderr,
        )
        command = True
    elif hasattr(target, "new_session") and hasattr(target, "running"):
        where = MemoryTarget(target)
    else:
        what = type(target).__name__
        raise UsageError(f"cannot connect to a {what}: use an address, a command as a list, or a Server")
    if transport not in (None, "http", "sse"):
        raise UsageError(f'transport {transport!r}: use "http" or "sse"')
    if not http and (headers is not None or ssl is not None or transport is not None):
        raise UsageError("headers, ssl and transport are for http:// and https:// URLs")
    if not command and (env is not None or inherit_env or cwd is not None or stderr is not None):
        raise UsageError("env, inherit_env, cwd and stderr are for commands")
    return where


_SCHEME = re.compile(r"(?i:https?)://|unix:.|tcp:.")
_HOST_AND_PORT = re.compile(r"(\[[0-9a-fA-F:]+\]|[\w.-]+):\d+(/\S*)?|[\w-]+(\.[\w-]+)+/\S*")
"""A URL without its scheme."""


class _Connect:
    """What :func:`connect` returns."""

    def __init__(
        self,
        target: Target,
        options: Options,
        log_level: str | None,
        on_log: Callable[[LoggingMessageNotificationParams], Any] | None,
        on_list_changed: Callable[[str], Any] | None,
        on_resource_updated: Callable[[str], Any] | None,
        on_elicitation_complete: Callable[[str], Any] | None,
        ping_interval: float | None,
        observer: Observer | None,
    ) -> None:
        self._target = target
        self._options = options
        self._offer = options.offer
        self._limits = options.limits
        self._log_level = log_level
        self._on_log = on_log
        self._on_list_changed = on_list_changed
        self._on_resource_updated = on_resource_updated
        self._on_elicitation_complete = on_elicitation_complete
        self._ping_interval = ping_interval
        self._observer = observer
        self._client: Client | None = None

    def __getattr__(self, name: str) -> Any:
        hint = f"; then client.{name}" if hasattr(Client, name) else ""
        raise AttributeError(f"connect() is to be entered: `async with connect(...) as client:`{hint}")

    def __await__(self) -> Any:
        raise TypeError("connect() is entered, not awaited: `async with connect(...) as client:`")

    async def __aenter__(self) -> Client:
        if self._client is not None:
            raise RuntimeError("this connect() is in use already; call connect() again")
        phase = Phase()
        limit = self._limits.connect_timeout
        try:
            async with asyncio.timeout(limit):
                client = await self._open(phase)
        except TimeoutError as exc:
            if isinstance(exc, HeadraceError):
                raise
            raise RequestTimeout(
                f"cannot connect to {self._target.text}: not done within {limit:g} s, while {phase.name}"
            ) from None
        self._client = client
        # The event loop closes what is left of async generators: a client that is dropped without being
        # closed, or still open when its loop ends, goes the orderly way (B21).
        guard = _guard(client)
        await guard.asend(None)
        client._guard = guard
        return client

    async def __aexit__(
        self, kind: type[BaseException] | None, exc: BaseException | None, trace: TracebackType | None
    ) -> None:
        client, self._client = self._client, None
        if client is not None:
            await client.close()

    async def _open(self, phase: Phase) -> Client:
        session = ClientSession(
            logging.getLogger("headrace.client"),
            self._on_log,
            self._on_list_changed,
            self._on_resource_updated,
            self._options.inputs,
            self._on_elicitation_complete,
        )
        session.observer = self._observer
        channel: Channel | None = None
        try:
            channel, agreement = await open_server(self._target, session, self._offer, self._limits, phase)
            client = Client(channel, agreement, self._options)
            level = self._log_level
            if level is None and agreement.modern and self._on_log is not None:
                level = "info"
            if level is not None and (agreement.modern or "logging" in agreement.capabilities):
                phase.name = "setting the log level"
                await client.set_log_level(level)
            phase.name = "listening to changes"
            await client._start()
            if self._ping_interval is not None and not agreement.modern:
                from headrace.client.heartbeat import Heartbeat

                client._heartbeat = Heartbeat(client, self._ping_interval)
            return client
        except BaseException as exc:
            session.stop()
            if channel is not None:
                await close_quietly(channel)
            if not isinstance(exc, HeadraceError) or isinstance(exc, UsageError | RequestTimeout):
                raise
            raise connect_failure(self._target.text, exc) from exc


async def _guard(client: Client) -> AsyncGenerator[None, None]:
    try:
        yield
    finally:
        client._guard = None
        await client.close()
