"""Resources of a server: fixed URIs and templates, reading, and subscriptions (SF-20..SF-24, SF-51).

A URI is looked up by its exact text first, then tried on the templates in the order of registration. What
does not exist is the error of the revision, never an empty result.
"""

from __future__ import annotations

import functools
from collections.abc import Awaitable, Callable, Mapping, Sequence
from pathlib import Path, PurePath
from typing import TYPE_CHECKING, Any, Protocol

import msgspec

from headrace.errors import RpcError, UsageError
from headrace.jsonrpc import INVALID_PARAMS, R5, RESOURCE_NOT_FOUND
from headrace.mux import Exchange, FunctionHandler, Handler
from headrace.protocol.context import Context
from headrace.protocol.urls import uri_bytes
from headrace.server.contents import MissingResource, guess_type, render_contents
from headrace.server.definitions import check_meta, resource_definition
from headrace.server.features import PRIVATE_NOW, CacheHint, Registry, with_meta
from headrace.server.hints import decode_custom
from headrace.server.invoke import Invoker
from headrace.server.listing import Listing
from headrace.server.signature import ToolSignature, inspect_tool
from headrace.server.uri_template import UriTemplate, has_scheme

if TYPE_CHECKING:
    from headrace.limits import Limits
    from headrace.protocol.subscriptions import Hub

__all__ = ("ResourceOptions", "ResourceRegistry")


class _UriParams(msgspec.Struct):
    uri: str


_decode_uri = msgspec.json.Decoder(_UriParams).decode


class ResourceOptions(msgspec.Struct, kw_only=True):
    """What a registration may say beside the content; see :meth:`headrace.Server.resource`."""

    name: str | None = None
    title: str | None = None
    description: str | None = None
    mime_type: str | None = None
    size: int | None = None
    annotations: Any = None
    icons: Sequence[Any] | None = None
    meta: dict[str, Any] | None = None
    cache: CacheHint | None = None
    complete: Mapping[str, Any] | None = None
    inline: bool = False
    timeout: float | None = None


class _Host(Protocol):
    """What the registry needs of its server."""

    limits: Limits
    info: dict[str, Any]
    hub: Hub


class _Entry:
    """One resource or template: where it is, and how it is read."""

    __slots__ = ("bodies", "constant", "directory", "invoker", "name", "options", "signature", "template", "uri")

    def __init__(self, uri: str, content: Any, options: ResourceOptions) -> None:
        self.uri = uri
        self.options = options
        self.template = UriTemplate(uri) if "{" in uri else None
        self.signature: ToolSignature | None = None
        self.invoker: Invoker | None = None
        self.constant: Any = None
        self.bodies: dict[tuple[str, CacheHint], Any] = {}
        """Prepared results of a constant."""
        self.directory: Path | None = None
        what = f"resource {uri!r}"
        if not has_scheme(uri):
            raise UsageError(f"{what}: a URI begins with a scheme, such as file:// or config://")
        if callable(content) and not isinstance(content, (str, bytes, PurePath)):
            self._prepare(content, what)
        elif self.template is None:
            self.constant = self._constant(content, what)
        else:
            self._serve_directory(content, what)
        self.name = options.name or (self.signature.name if self.signature is not None else _last_part(uri))

    def _prepare(self, function: Any, what: str) -> None:
        options = self.options
        signature = inspect_tool(
            function,
            name=options.name or _name_of(function, self.uri),
            description=options.description,
            context_type=Context,
            kind="resource",
        )
        variables = self.template.variables if self.template is not None else ()
        given = {parameter.name for parameter in signature.parameters}
        for variable in variables:
            if variable not in given:
                raise UsageError(f"{what}: the function has no parameter {variable!r}")
        for parameter in signature.parameters:
            if parameter.required and parameter.name not in variables:
                raise UsageError(f"{what}: the parameter {parameter.name!r} is no variable of it: give it a default")
        self.signature = signature
        self.invoker = Invoker(signature, what, inline=options.inline, timeout=options.timeout)

    def _constant(self, content: Any, what: str) -> Any:
        if isinstance(content, (bytearray, memoryview)):
            content = bytes(content)
        if isinstance(content, PurePath):
            return Path(content)
        if content is None:
            raise UsageError(f"{what}: its content is None; pass text, bytes, a path, a JSON value or a function")
        return content

    def _serve_directory(self, content: Any, what: str) -> None:
        assert self.template is not None
        if not isinstance(content, PurePath):
            raise UsageError(f"{what}: a template takes a function, or the path of a directory")
        if len(self.template.variables) != 1:
            raise UsageError(f"{what}: for a directory it must have one variable, such as {{+path}}")
        if not Path(content).is_dir():
            raise UsageError(f"{what}: {str(content)!r} is no directory")
        self.directory = Path(content).resolve()

    def definition(self, revision: str) -> dict[str, Any]:
        """Its object in the list."""
        options = self.options
        size = options.size
        if size is None and isinstance(self.constant, (str, bytes)):
            size = len(self.constant.encode() if isinstance(self.constant, str) else self.constant)
        description = options.description
        if description is None and self.signature is not None:
            description = self.signature.description
        return resource_definition(
            self.uri,
            self.name,
            revision,
            is_template=self.template is not None,
            title=options.title,
            description=description,
            mime_type=self.mime_type,
            size=size,
            annotations=options.annotations,
            icons=options.icons,
            meta=options.meta,
        )

    @property
    def mime_type(self) -> str | None:
        """What the registration says, or the name of a file."""
        if self.options.mime_type is None and isinstance(self.constant, Path):
            return guess_type(self.constant.name)
        return self.options.mime_type

    def arguments(self, values: dict[str, Any]) -> Any:
        """The function's arguments. Raises msgspec.ValidationError for values that do not fit."""
        assert self.signature is not None
        return msgspec.convert(values, self.signature.arguments, strict=False, dec_hook=decode_custom)


class ResourceRegistry(Registry):
    """Resources by URI, templates in order."""

    kind = "resources"

    def __init__(self, host: _Host) -> None:
        super().__init__()
        self._host = host
        self._fixed: dict[str, _Entry] = {}
        self._templates: dict[str, _Entry] = {}
        size = host.limits.page_size
        self.listing = Listing("resources/list", "resources", size)
        self.template_listing = Listing("resources/templates/list", "resourceTemplates", size)
        self.read_hint = PRIVATE_NOW
        """For ``resources/read`` of resources that have no ``cache`` of their own."""
        self._handlers: dict[str, dict[bytes, Handler]] = {}

    def __len__(self) -> int:
        return len(self._fixed) + len(self._templates)

    def __contains__(self, uri: str) -> bool:
        return uri in self._fixed or uri in self._templates

    def uris(self) -> list[str]:
        """URIs and templates in the order of registration, fixed ones first."""
        return [*self._fixed, *self._templates]

    def variables(self, template: str) -> tuple[str, ...] | None:
        """The variables of a registered template, empty for a fixed URI, None for what is not registered."""
        entry = self._templates.get(template)
        if entry is not None and entry.template is not None:
            return entry.template.variables
        return () if template in self._fixed else None

    def signature_of(self, template: str) -> ToolSignature | None:
        """The signature of the function behind a template."""
        entry = self._templates.get(template)
        return entry.signature if entry is not None else None

    def add(self, uri: str, content: Any, options: ResourceOptions) -> None:
        """Registers a function or constant. Raises :class:`UsageError` for what cannot be served."""
        entry = _Entry(uri, content, options)
        what = f"resource {uri!r}"
        check_meta(options.meta, what)
        if uri_bytes(uri) > self._host.limits.max_uri_bytes:
            raise UsageError(f"resource {uri[:100]!r}...: the URI is longer than limit max_uri_bytes allows")
        with self.lock:
            if uri in self:
                raise UsageError(f"{what} is registered already; remove it first")
            if entry.template is not None:
                self.template_listing.put(uri, entry.definition, what)
                # A new table each time: a read that walks through the old one is not disturbed.
                self._templates = {**self._templates, uri: entry}
            else:
                self.listing.put(uri, entry.definition, what)
                self._fixed[uri] = entry
        self.changed()

    def remove(self, uri: str) -> None:
        """Takes a resource or template away. Raises KeyError for one that is not there."""
        with self.lock:
            if uri in self._templates:
                self.template_listing.drop(uri)
                self._templates = {key: entry for key, entry in self._templates.items() if key != uri}
            else:
                del self._fixed[uri]
                self.listing.drop(uri)
        self.changed()

    # --- what is offered ----------------------------------------------------------------------------

    def capability(self, revision: str) -> dict[str, Any]:
        """``resources``; templates are told of with ``resources/list_changed`` as well (SF-54)."""
        return {"resources": {"subscribe": True, "listChanged": True}} if self.offered else {}

    def methods(self, revision: str) -> dict[bytes, Handler]:
        """Lists and ``resources/read``; before 2026-07-28 also subscribing (SF-23)."""
        if not self.offered:
            return {}
        known = self._handlers.get(revision)
        if known is None:
            known = {
                b"resources/list": self.listing.handler(revision),
                b"resources/templates/list": self.template_listing.handler(revision),
                b"resources/read": FunctionHandler(self._read),
            }
            if revision != R5:
                known[b"resources/subscribe"] = FunctionHandler(self._subscribe)
                known[b"resources/unsubscribe"] = FunctionHandler(self._unsubscribe)
            self._handlers[revision] = known
        return known

    def _uri(self, exchange: Exchange, method: str) -> str:
        try:
            uri = _decode_uri(exchange.params or b"{}").uri
        except msgspec.ValidationError as exc:
            raise RpcError(INVALID_PARAMS, f"{method}: {exc}") from None
        if uri_bytes(uri) > self._host.limits.max_uri_bytes:
            text = f"{method}: the URI is longer than {self._host.limits.max_uri_bytes} bytes"
            raise RpcError(INVALID_PARAMS, text, refusal="max_uri_bytes")
        return uri

    def _subscribe(self, exchange: Exchange) -> Any:
        uri = self._uri(exchange, "resources/subscribe")
        return _answer(exchange.mux.gate.follow(uri, True))

    def _unsubscribe(self, exchange: Exchange) -> Any:
        uri = self._uri(exchange, "resources/unsubscribe")
        return _answer(exchange.mux.gate.follow(uri, False))

    # --- reading ------------------------------------------------------------------------------------

    def _read(self, exchange: Exchange) -> Any:
        uri = self._uri(exchange, "resources/read")
        entry = self._fixed.get(uri)
        if entry is None:
            return self._read_template(exchange, uri)
        if entry.invoker is not None:
            assert entry.signature is not None
            return entry.invoker.call(exchange, entry.signature.arguments(), self._finisher(exchange, uri, entry))
        if isinstance(entry.constant, Path):
            finish = self._finisher(exchange, uri, entry)
            return exchange.mux.runtime.run_thread(lambda: finish(entry.constant))
        key = (exchange.revision.name, self.read_hint)
        body = entry.bodies.get(key)
        if body is None:
            body = entry.bodies[key] = self._render(exchange, uri, entry, entry.constant)
        return body

    def _read_template(self, exchange: Exchange, uri: str) -> Any:
        misfit: msgspec.ValidationError | None = None
        for entry in self._templates.values():
            assert entry.template is not None
            if not uri.startswith(entry.template.prefix) and uri.isascii():
                continue
            values = entry.template.match(uri)
            if values is None or entry.template.climbs(values):
                continue
            if entry.directory is not None:
                (path,) = values.values()
                finish = functools.partial(self._below, exchange, uri, entry, path)
                return exchange.mux.runtime.run_thread(finish)
            try:
                arguments = entry.arguments(values)
            except msgspec.ValidationError as exc:
                misfit = misfit or exc
                continue
            assert entry.invoker is not None
            return entry.invoker.call(exchange, arguments, self._finisher(exchange, uri, entry))
        if misfit is not None:
            raise RpcError(INVALID_PARAMS, f"the URI does not fit its template: {misfit}", {"uri": uri})
        raise _not_found(uri, exchange.revision.name)

    def _below(self, exchange: Exchange, uri: str, entry: _Entry, path: Any) -> Any:
        """A file of a directory; what leads out of it, through links too, does not exist."""
        assert entry.directory is not None
        parts = path if isinstance(path, list) else [path]
        try:
            target = entry.directory.joinpath(*parts).resolve()
            found = target if target.is_relative_to(entry.directory) and target.is_file() else None
        except (OSError, ValueError, RuntimeError):
            found = None
        return self._render(exchange, uri, entry, found)

    def _finisher(self, exchange: Exchange, uri: str, entry: _Entry) -> Callable[[Any], Any]:
        return lambda value: self._render(exchange, uri, entry, value)

    def _render(self, exchange: Exchange, uri: str, entry: _Entry, value: Any) -> Any:
        revision = exchange.revision.name
        try:
            body, meta = render_contents(
                value,
                uri=uri,
                revision=revision,
                mime_type=entry.mime_type,
                meta=entry.options.meta,
                hint=entry.options.cache or self.read_hint,
                most=self._host.limits.max_resource_bytes,
            )
        except MissingResource:
            raise _not_found(uri, revision) from None
        return body if meta is None else with_meta(body, meta, revision, self._host.info)


def _not_found(uri: str, revision: str) -> RpcError:
    """SF-22: 2026-07-28 has no code of its own for it."""
    code = INVALID_PARAMS if revision == R5 else RESOURCE_NOT_FOUND
    return RpcError(code, "resource not found", {"uri": uri})


def _last_part(uri: str) -> str:
    bare = uri.partition("{")[0].rstrip("/")
    return bare.rpartition("/")[2] or bare.partition(":")[0] or uri


def _name_of(function: Any, uri: str) -> str | None:
    return _last_part(uri) if getattr(function, "__name__", "") == "<lambda>" else None


def _answer(kept: Awaitable[None] | None) -> Any:
    """An empty result, once what it says is kept."""
    return b"{}" if kept is None else _answered(kept)


async def _answered(kept: Awaitable[None]) -> bytes:
    await kept
    return b"{}"
