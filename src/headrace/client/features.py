"""Resources, prompts, completion and roots of a client (SF-21..SF-31, CF-10)."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from headrace.client.arguments import as_object, encode
from headrace.client.core import ProgressCallback
from headrace.client.lists import Lists
from headrace.client.results import CallResult, CompletionResult, PromptResult, ResourceResult, decoder
from headrace.client.rounds import continuation, given_answers, read_asked
from headrace.client.tasks import read_made
from headrace.errors import ConnectionClosed, LocalProtocolError, ResourceNotFound, RpcError, UsageError
from headrace.jsonrpc import INVALID_PARAMS, R1, R3
from headrace.types.v2026_07_28 import PromptReference, ResourceTemplateReference

if TYPE_CHECKING:
    from headrace.types import CompleteResultCompletion

__all__ = ("Features",)

NOT_FOUND = -32002
"""How servers of the handshake era say that a resource does not exist; read in both eras (JR-31)."""


class Features(Lists):
    """Everything of a client but tools and subscriptions. Use :class:`headrace.Client`."""

    _decoders: dict[type[Any], Callable[[bytes], Any]] | None = None

    async def read_resource(
        self,
        uri: str,
        *,
        timeout: float | None = None,
        on_progress: ProgressCallback | None = None,
        meta: Mapping[str, Any] | None = None,
        input_responses: Mapping[str, Any] | None = None,
        request_state: str | None = None,
        refresh: bool = False,
    ) -> ResourceResult:
        """Reads a resource (SF-21): ``.text``, ``.data`` (bytes), or its ``.contents`` one by one.

        ``refresh`` asks the server also for what it allowed to use again (SF-52); the other options are those
        of :meth:`headrace.Client.call_tool`. Raises :class:`ResourceNotFound` when the
        server has no such resource, else as :meth:`headrace.Client.call_tool` does.
        """
        self._needs("resources")
        body = b'"uri":' + encode(uri)
        more = self._by_hand(input_responses, request_state)
        try:
            result: ResourceResult
            read = self._reader(ResourceResult, asks=True)
            if more or meta is not None:  # a retry, or a question of its own: never kept (MX-37)
                result = await self._request(
                    "resources/read", body + more, read, timeout, name=uri, on_progress=on_progress, meta=meta
                )
            else:
                result = await self._fetch(
                    "resources/read",
                    body,
                    read,
                    timeout,
                    refresh=refresh,
                    uri=uri,
                    asks=True,
                    name=uri,
                    on_progress=on_progress,
                )
        except RpcError as exc:
            if not self._says_not_found(exc):
                raise
            raise ResourceNotFound(exc.code, exc.message, exc.data, uri=uri, http_status=exc.http_status) from None
        return result

    def _says_not_found(self, exc: RpcError) -> bool:
        """SF-22: the URI is the only thing in ``resources/read`` that can be invalid; in the handshake era
        -32602 counts only when the error names the URI."""
        if exc.code == NOT_FOUND:
            return True
        return exc.code == INVALID_PARAMS and (self._modern or (isinstance(exc.data, dict) and "uri" in exc.data))

    async def get_prompt(
        self,
        name: str,
        arguments: Mapping[str, str] | None = None,
        *,
        timeout: float | None = None,
        on_progress: ProgressCallback | None = None,
        meta: Mapping[str, Any] | None = None,
        input_responses: Mapping[str, Any] | None = None,
        request_state: str | None = None,
    ) -> PromptResult:
        """Gets a prompt's messages (SF-30). ``arguments`` are strings by name.

        The options are those of :meth:`headrace.Client.call_tool`. Raises :class:`RpcError` (-32602) for an
        unknown prompt or a missing argument, else as :meth:`headrace.Client.call_tool` does.
        """
        self._needs("prompts")
        body = b'"name":' + encode(name)
        if arguments is not None:
            for key, value in arguments.items():
                if not isinstance(value, str):
                    raise UsageError(f"prompt argument {key!r} must be a string, not {type(value).__name__}")
            body += b',"arguments":' + as_object(dict(arguments), "arguments")
        result: PromptResult = await self._request(
            "prompts/get",
            body + self._by_hand(input_responses, request_state),
            self._reader(PromptResult, asks=True),
            timeout,
            name=name,
            on_progress=on_progress,
            meta=meta,
        )
        return result

    async def complete(
        self,
        ref: PromptReference | ResourceTemplateReference | Mapping[str, Any] | str,
        argument: str,
        value: str,
        *,
        context: Mapping[str, str] | None = None,
        timeout: float | None = None,
    ) -> CompleteResultCompletion:
        """Completions for ``value`` of one argument of a prompt or resource template (SF-31).

        :param ref: a reference; or as a string the name of a prompt, or (with ``://`` or ``{`` in it) the URI
            template of a resource.
        :param context: values of other arguments that are known already (not sent before 2025-06-18).

        Gives ``values`` (at most 100), ``total`` and ``has_more``. Raises :class:`NotOffered` when the server
        does not declare completions (2024-11-05 had no such capability: there it is asked).
        """
        if self.protocol_version != R1:
            self._needs("completions")
        if isinstance(ref, str):
            resource = "://" in ref or "{" in ref
            ref = ResourceTemplateReference(uri=ref) if resource else PromptReference(name=ref)
        body = b'"ref":%b,"argument":%b' % (
            as_object(ref, "ref"),
            as_object({"name": argument, "value": value}, "argument"),
        )
        if context is not None and self.protocol_version >= R3:
            body += b',"context":{"arguments":' + as_object(dict(context), "context") + b"}"
        result: CompletionResult = await self._request(
            "completion/complete", body, self._reader(CompletionResult), timeout
        )
        return result.completion

    def clear_cache(self) -> None:
        """Forgets the results that are kept for this client; for when it acts for somebody else from now on,
        with another token for example (SF-53)."""
        if self._cache is not None:
            self._cache.clear()

    # --- roots ---------------------------------------------------------------------------------------

    def set_roots(self, roots: Any) -> None:
        """Replaces the roots given to :func:`headrace.connect` and tells the server (CF-10).

        Raises :class:`UsageError` when none were declared.
        """
        self._inputs.set_roots(roots)
        self.notify_roots_changed()

    def notify_roots_changed(self) -> None:
        """Tells the server that the list of roots has changed; needed when ``roots`` is a function. The
        modern era has no such notification: servers ask when they need to know.

        Raises :class:`UsageError` when no roots were declared, :class:`ConnectionClosed` when the connection
        is gone.
        """
        if not self._inputs.has_roots:
            raise UsageError("roots were not declared: pass roots=[...] to connect()")
        if self._modern:
            return
        if self._mux.closed or not self._mux.notify(b"notifications/roots/list_changed", None, self._sink):
            raise ConnectionClosed(self._mux.close_reason or "the connection does not take the notification")

    # --- how -----------------------------------------------------------------------------------------

    def _reader(self, kind: type[Any], *, asks: bool = False) -> Callable[[bytes], Any]:
        """What reads a result of ``kind``; ``asks``: it may ask for client input instead (MX-30)."""
        if self._decoders is None:
            self._decoders = {}
        found = self._decoders.get(kind)
        if found is None:
            extra: dict[str, Callable[[bytes], Any]] = {"input_required": read_asked} if asks else {}
            if self._tasks and kind is CallResult:
                extra["task"] = read_made  # of no other method (TK-21)
            found = self._decoders[kind] = decoder(kind, modern=self._modern, extra=extra)
        return found

    def _by_hand(self, input_responses: Mapping[str, Any] | None, request_state: str | None) -> bytes:
        """The members of a request that goes on after :class:`InputRequired`."""
        if input_responses is None and request_state is None:
            return b""
        if not self._modern:
            raise LocalProtocolError(f"{self.protocol_version} has no input_responses and request_state")
        return b"," + continuation(given_answers(input_responses), request_state)
