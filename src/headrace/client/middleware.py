"""Middleware of a client: code around its requests, at its one seam.

A middleware is ``async def mw(call, next) -> value | None``, given to :func:`headrace.connect`. ``await
next(call)`` gives what the method of the client will give (a ``CallResult``, a page of a list), after all
rounds of client input and to the end of a task. What the middleware returns takes its place; None keeps it.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from headrace.client.arguments import as_object, encode, members
from headrace.client.results import decode_any
from headrace.errors import UsageError
from headrace.jsonrpc import NAMED

if TYPE_CHECKING:
    from headrace.client.request import Request

__all__ = ("ClientCall", "ClientMiddleware", "Next", "check_layers", "run_layers")


class ClientCall:
    """One request of this client, before it leaves."""

    __slots__ = ("_params", "_request")

    def __init__(self, request: Request) -> None:
        self._request = request
        self._params: dict[str, Any] | None = None

    def __repr__(self) -> str:
        return f"<ClientCall of {self.method} {self.name or ''}>"

    @property
    def method(self) -> str:
        """The method, such as ``"tools/call"``."""
        return self._request.method

    @property
    def params(self) -> dict[str, Any]:
        """The params without ``_meta``; change them in place or set others."""
        if self._params is None:
            self._params = decode_any(b"{" + self._request.body + b"}")
        return self._params

    @params.setter
    def params(self, params: Mapping[str, Any]) -> None:
        self._params = dict(params)

    @property
    def name(self) -> str | None:
        """Which tool, prompt or resource (URI) is meant; None for other methods."""
        value = self.params.get(NAMED.get(self.method, ""))
        return value if isinstance(value, str) else None

    @property
    def arguments(self) -> dict[str, Any]:
        """The arguments of a tool or prompt, empty without any."""
        value = self.params.get("arguments")
        return value if isinstance(value, dict) else {}

    @property
    def meta(self) -> dict[str, Any]:
        """A copy of the members of ``_meta`` that the caller gave."""
        return decode_any(b"{" + self._request.meta + b"}")  # type: ignore[no-any-return]

    def _ready(self) -> Request:
        """A request to send: a new one each time, as rounds of input add to it."""
        request = self._request.copy()
        if self._params is not None:
            request.body = members(as_object(self._params, "params"))
            if request.method in NAMED:
                request.name = self.name
            if request.method == "tools/call":
                request.arguments = encode(self.arguments)
        return request


Next = Callable[[ClientCall], Awaitable[Any]]
ClientMiddleware = Callable[[ClientCall, Next], Awaitable[Any]]


def check_layers(layers: Sequence[ClientMiddleware]) -> tuple[ClientMiddleware, ...]:
    """The layers as a tuple, the first one outermost. Raises :class:`UsageError` for what is no list of functions."""
    if callable(layers) or not all(callable(layer) for layer in layers):
        raise UsageError("middleware must be a list of functions: async def mw(call, next)")
    return tuple(layers)


async def run_layers(
    layers: tuple[ClientMiddleware, ...], request: Request, send: Callable[[Request], Awaitable[Any]]
) -> Any:
    """The value of ``request`` through all layers; ``send`` is what they are around."""
    return await _step(layers, 0, ClientCall(request), send)


async def _step(
    layers: tuple[ClientMiddleware, ...], at: int, call: ClientCall, send: Callable[[Request], Awaitable[Any]]
) -> Any:
    if at == len(layers):
        return await send(call._ready())
    last: Any = None

    async def following(call: ClientCall) -> Any:
        nonlocal last
        last = await _step(layers, at + 1, call, send)
        return last

    value = await layers[at](call, following)
    return last if value is None else value
