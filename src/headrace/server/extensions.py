"""Extensions with methods of their own (VN-31, VN-32).

``Server(extensions={...})`` advertises identifiers with settings. An :class:`Extension` also serves methods,
rendered for each revision like those of the core.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any, TypeVar

import msgspec

from headrace.errors import RpcError, UsageError
from headrace.jsonrpc import INVALID_PARAMS, METHOD_NOT_FOUND, MISSING_CLIENT_CAPABILITY, R5, REVISIONS
from headrace.mux import Exchange, FunctionHandler, Handler
from headrace.protocol.context import Context
from headrace.server.features import CacheHint, check_extensions
from headrace.server.hints import decode_custom
from headrace.server.invoke import Invoker
from headrace.server.results import encode_json
from headrace.server.signature import inspect_tool

__all__ = ("Extension",)

_F = TypeVar("_F", bound=Callable[..., Any])


class Extension:
    """One extension, to be given to :meth:`headrace.Server.add_extension` once its methods are there.

    :param identifier: ``vendor/name``.
    :param settings: what the capabilities say of it.
    :param revisions: those under which it is offered.
    :param needs_client: clients that do not declare it are refused with -32021, before 2026-07-28 with -32601.

    Raises :class:`UsageError` for an identifier without prefix.
    """

    def __init__(
        self,
        identifier: str,
        settings: Mapping[str, Any] | None = None,
        *,
        revisions: Iterable[str] = REVISIONS,
        needs_client: bool = False,
    ) -> None:
        self._capability = check_extensions({identifier: settings or {}})
        self.identifier = identifier
        self.revisions = frozenset(revisions)
        self.needs_client = needs_client
        self._handlers: dict[bytes, Handler] = {}

    def __repr__(self) -> str:
        return f"<Extension {self.identifier}, {len(self._handlers)} methods>"

    def method(
        self, name: str, *, cache: CacheHint | None = None, inline: bool = False, timeout: float | None = None
    ) -> Callable[[_F], _F]:
        """Registers a function as the method ``name``.

        It takes the params (as the type of its annotation, a dict without one) and the context, each only if it has a
        parameter for it, and returns the result object. ``cache`` makes the result cacheable (SF-51);
        ``inline`` and ``timeout`` (seconds) as for tools. Raises :class:`UsageError` for what cannot be one.
        """

        def register(function: _F) -> _F:
            what = f"method {name!r}"
            if name.encode() in self._handlers:
                raise UsageError(f"{what} is registered already")
            self._handlers[name.encode()] = FunctionHandler(
                _Method(self, function, what, cache=cache, inline=inline, timeout=timeout)
            )
            return function

        return register

    def methods(self, revision: str) -> dict[bytes, Handler]:
        """Its handlers under ``revision``."""
        return dict(self._handlers) if revision in self.revisions else {}

    def capability(self, revision: str) -> dict[str, Any]:
        """Its entry in ``extensions``."""
        return {"extensions": self._capability} if revision in self.revisions else {}

    def check_client(self, exchange: Exchange) -> None:
        """Raises the answer to a client that does not speak it, if that is needed (VN-29, VN-31)."""
        if not self.needs_client or self.identifier in Context(exchange).client_extensions:
            return
        if not exchange.revision.modern:
            raise RpcError(METHOD_NOT_FOUND, f"the client does not speak the extension {self.identifier}")
        required: dict[str, Any] = {"extensions": {self.identifier: {}}}
        raise RpcError(
            MISSING_CLIENT_CAPABILITY,
            f"the client must speak the extension {self.identifier}",
            {"requiredCapabilities": required},
            http_status=400,
        )


class _Method:
    """The function behind one method, for :class:`FunctionHandler`."""

    __slots__ = ("_cache", "_decoder", "_extension", "_invoker", "_parameter", "_signature", "_what")

    def __init__(
        self,
        extension: Extension,
        function: Callable[..., Any],
        what: str,
        *,
        cache: CacheHint | None,
        inline: bool,
        timeout: float | None,
    ) -> None:
        signature = self._signature = inspect_tool(function, context_type=Context, kind="method")
        if len(signature.parameters) > 1:
            raise UsageError(f"{what}: the function takes the params and the context, nothing else")
        self._extension = extension
        self._what = what
        self._cache = cache
        self._parameter = signature.parameters[0] if signature.parameters else None
        tp: Any = self._parameter.type if self._parameter is not None else Any
        self._decoder = msgspec.json.Decoder(dict[str, Any] if tp is Any else tp, dec_hook=decode_custom)
        self._invoker = Invoker(signature, what, inline=inline, timeout=timeout)

    def __call__(self, exchange: Exchange) -> Any:
        self._extension.check_client(exchange)
        values = {}
        if self._parameter is not None:
            try:
                values[self._parameter.attribute] = self._decoder.decode(exchange.params or b"{}")
            except msgspec.ValidationError as exc:
                raise RpcError(INVALID_PARAMS, f"{self._what}: {exc}") from None
        revision = exchange.revision.name
        return self._invoker.call(
            exchange, self._signature.arguments(**values), lambda result: self._finish(result, revision)
        )

    def _finish(self, result: Any, revision: str) -> bytes:
        body = encode_json({} if result is None else result)
        if body[:1] != b"{":
            raise TypeError(f"{self._what} must return an object, not {type(result).__name__}")
        if self._cache is None or revision != R5:
            return body
        return body[:-1] + (b"," if len(body) > 2 else b"") + self._cache.members + b"}"
