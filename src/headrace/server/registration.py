"""What a program registers on a server, and how: the decorators and their ``add_``/``remove_`` forms."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal, TypeVar, overload

from headrace.errors import UsageError
from headrace.server.completion import CompletionRegistry, Reference, enum_values
from headrace.server.features import CacheHint
from headrace.server.prompts import PromptOptions, PromptRegistry
from headrace.server.resources import ResourceOptions, ResourceRegistry
from headrace.server.tools import ToolOptions, ToolRegistry

if TYPE_CHECKING:
    from headrace.protocol.subscriptions import Hub
    from headrace.server.listing import Listing
    from headrace.server.schema import HeaderParameter
    from headrace.server.signature import ToolSignature

__all__ = ("Registration",)

_F = TypeVar("_F", bound=Callable[..., Any])


class Registration:
    """Base of :class:`headrace.Server`: everything here may also be called while the server runs, from any
    thread; clients are told (SF-60)."""

    tools: ToolRegistry
    resources: ResourceRegistry
    prompts: PromptRegistry
    completions: CompletionRegistry
    hub: Hub
    discover_hint: CacheHint

    # --- tools --------------------------------------------------------------------------------------

    @overload
    def tool(self, function: _F, /) -> _F: ...
    @overload
    def tool(
        self,
        *,
        name: str | None = ...,
        title: str | None = ...,
        description: str | None = ...,
        annotations: Any = ...,
        icons: Sequence[Any] | None = ...,
        meta: dict[str, Any] | None = ...,
        inline: bool = ...,
        timeout: float | None = ...,
        forbid_unknown: bool = ...,
        input_schema: dict[str, Any] | None = ...,
        output_schema: dict[str, Any] | None = ...,
        task: Literal["forbidden", "optional", "required"] = ...,
        task_after: float | None = ...,
        task_ttl: float | None = ...,
        task_start: Literal["call", "handler"] = ...,
    ) -> Callable[[_F], _F]: ...
    def tool(self, *function: Callable[..., Any], **options: Any) -> Any:
        """Registers a function as a tool; usable bare or with options.

        ``async def`` tools run on the event loop, plain ``def`` tools in worker threads, and with
        ``inline=True`` plain functions that cannot block run on the loop itself. ``timeout`` (seconds)
        ends a call with an error result. ``name``, ``title``, ``description``, ``annotations``,
        ``icons`` and ``meta`` are what ``tools/list`` shows. ``forbid_unknown`` refuses arguments that
        the function does not have; ``input_schema`` and ``output_schema`` are advertised instead of
        those made from the annotations.

        ``task`` says whether calls may become tasks (TK-01, TK-20): ``"optional"`` ones do for clients that
        know tasks, ``"required"`` ones are refused for others. With ``task_after`` (seconds) a call of an
        optional one is answered directly when it is done by then, in 2026-07-28. ``task_ttl`` (seconds) is
        how long its tasks are kept from their creation. With ``task_start="handler"`` the handler says when,
        by :meth:`Context.start_task`: what it asks before is asked in the call itself (2026-07-28). See
        :meth:`headrace.Server.tasks`.

        Raises :class:`headrace.errors.UsageError` for what cannot be a tool, with the cure.
        """
        if function:
            self.add_tool(*function, **options)
            return function[0]

        def register(target: _F) -> _F:
            self.add_tool(target, **options)
            return target

        return register

    def add_tool(self, function: Callable[..., Any], **options: Any) -> None:
        """Registers ``function`` with the options of :meth:`tool`; also while the server runs (SF-60)."""
        self.tools.add(function, _options(ToolOptions, "tool", options))

    def remove_tool(self, name: str) -> None:
        """Takes a tool away, also while the server runs. Raises KeyError for an unknown name."""
        self.tools.remove(name)

    def header_parameters(self, name: str) -> tuple[HeaderParameter, ...]:
        """The parameters of tool ``name`` that HTTP clients mirror as headers (HN-20)."""
        return self.tools.headers_of(name)

    @property
    def tools_with_headers(self) -> set[str]:
        """Names of the tools for which :meth:`header_parameters` is not empty; changes with them."""
        return self.tools.with_headers

    # --- resources ----------------------------------------------------------------------------------

    def resource(
        self,
        uri: str,
        *,
        name: str | None = None,
        title: str | None = None,
        description: str | None = None,
        mime_type: str | None = None,
        size: int | None = None,
        annotations: Any = None,
        icons: Sequence[Any] | None = None,
        meta: dict[str, Any] | None = None,
        cache: CacheHint | None = None,
        complete: Mapping[str, Any] | None = None,
        inline: bool = False,
        timeout: float | None = None,
    ) -> Callable[[_F], _F]:
        """Registers a function as the resource ``uri``, or, when it holds ``{...}``, as a template (RFC 6570).

        The parameters are the variables of the template, converted to the types of their annotations. What
        the function returns see :mod:`headrace.server.contents`; None says that there is no such resource.
        ``async def`` runs on the loop, ``def`` in a worker thread, with ``inline=True`` on the loop itself.

        ``name``, ``title``, ``description``, ``mime_type``, ``size`` (bytes), ``annotations``, ``icons`` and ``meta``
        are what the list shows; ``mime_type`` and ``meta`` also stand on contents that say nothing else.
        ``cache`` goes before the server's hint for reading (SF-51). ``complete`` maps variables to completers
        (see :meth:`completion`). ``timeout`` is in seconds.

        Raises :class:`headrace.errors.UsageError` for what cannot be served, with the cure.
        """
        options = {key: value for key, value in locals().items() if key not in ("self", "uri")}

        def register(target: _F) -> _F:
            self.add_resource(uri, target, **options)
            return target

        return register

    def add_resource(self, uri: str, content: Any, **options: Any) -> None:
        """Registers a function, or a constant: text, bytes, the path of a file, a JSON value; for a template with
        one variable also the path of a directory, out of which nothing leads (SF-24). Options as
        :meth:`resource`; also while the server runs (SF-60)."""
        made = _options(ResourceOptions, "resource", options)
        self.resources.add(uri, content, made)
        self._complete(Reference("resource", uri), self.resources.signature_of(uri), made.complete)

    def remove_resource(self, uri: str) -> None:
        """Takes a resource or a template away. Raises KeyError for one that is not there."""
        self.resources.remove(uri)
        self.completions.remove(Reference("resource", uri))

    def notify_resource_updated(self, uri: str) -> None:
        """Tells those that follow ``uri`` that it has new content (SF-23, SF-70); from any thread. Updates in quick
        succession are one notification."""
        self.hub.updated(uri)

    # --- prompts ------------------------------------------------------------------------------------

    @overload
    def prompt(self, function: _F, /) -> _F: ...
    @overload
    def prompt(
        self,
        *,
        name: str | None = ...,
        title: str | None = ...,
        description: str | None = ...,
        icons: Sequence[Any] | None = ...,
        meta: dict[str, Any] | None = ...,
        complete: Mapping[str, Any] | None = ...,
        inline: bool = ...,
        timeout: float | None = ...,
    ) -> Callable[[_F], _F]: ...
    def prompt(self, *function: Callable[..., Any], **options: Any) -> Any:
        """Registers a function as a prompt; usable bare or with options.

        The parameters are the arguments: strings on the wire, converted to the annotated types; those
        without default are required. The function returns a string, a content block, a
        ``PromptMessage`` (:func:`headrace.server.prompts.UserMessage`, ``AssistantMessage``), a list of
        these, or a ``PromptResult``. ``complete`` maps arguments to completers (see :meth:`completion`).

        Raises :class:`headrace.errors.UsageError` for what cannot be a prompt, with the cure.
        """
        if function:
            self.add_prompt(*function, **options)
            return function[0]

        def register(target: _F) -> _F:
            self.add_prompt(target, **options)
            return target

        return register

    def add_prompt(self, function: Callable[..., Any], **options: Any) -> None:
        """Registers ``function`` with the options of :meth:`prompt`; also while the server runs (SF-60)."""
        made = _options(PromptOptions, "prompt", options)
        entry = self.prompts.add(function, made)
        self._complete(Reference("prompt", entry.name), entry.signature, made.complete)

    def remove_prompt(self, name: str) -> None:
        """Takes a prompt away. Raises KeyError for an unknown name."""
        self.prompts.remove(name)
        self.completions.remove(Reference("prompt", name))

    # --- completion ---------------------------------------------------------------------------------

    @overload
    def completion(self, function: _F, /) -> _F: ...
    @overload
    def completion(
        self,
        *,
        prompt: str | None = ...,
        resource: str | None = ...,
        argument: str | None = ...,
        inline: bool = ...,
        timeout: float | None = ...,
    ) -> Callable[[_F], _F]: ...
    def completion(self, *function: Callable[..., Any], **options: Any) -> Any:
        """Registers a function that completes ``argument`` of ``prompt`` (its name) or of ``resource`` (a URI
        template as it was registered); bare, all arguments that have no other completer.

        Its parameters, by name: ``value`` (what was typed; also the first one of another name),
        ``arguments`` (values of the others, which clients send since 2025-06-18), ``argument`` (its name),
        ``ref`` (a :class:`headrace.server.completion.Reference`), and the context. It returns strings, or a
        ``Completion``; of more than 100 the first 100 are sent, with the total (SF-31).
        """
        if function:
            self.add_completion(*function, **options)
            return function[0]

        def register(target: _F) -> _F:
            self.add_completion(target, **options)
            return target

        return register

    def add_completion(
        self,
        completer: Any,
        *,
        prompt: str | None = None,
        resource: str | None = None,
        argument: str | None = None,
        inline: bool = False,
        timeout: float | None = None,
    ) -> None:
        """The same for a function or for a list of strings, of which those are offered that begin with what was
        typed."""
        self.completions.add(completer, _reference(prompt, resource), argument, inline=inline, timeout=timeout)

    def remove_completion(
        self, *, prompt: str | None = None, resource: str | None = None, argument: str | None = None
    ) -> None:
        """Takes the completer of one argument away, without ``argument`` all of the prompt or resource."""
        self.completions.remove(_reference(prompt, resource), argument)

    def _complete(
        self, ref: Reference, signature: ToolSignature | None, completers: Mapping[str, Any] | None
    ) -> None:
        known = {parameter.name for parameter in signature.parameters} if signature is not None else set()
        try:
            for argument, completer in (completers or {}).items():
                if argument not in known:
                    raise UsageError(f"complete: {ref.kind} {ref.name!r} has no argument {argument!r}")
                self.completions.add(completer, ref, argument)
        except BaseException:
            self.completions.remove(ref)
            (self.prompts if ref.kind == "prompt" else self.resources).remove(ref.name)
            raise
        if signature is not None and not self.completions.offered and enum_values(signature):
            self.completions.changed()

    # --- caching ------------------------------------------------------------------------------------

    def cache_hints(
        self,
        *,
        discover: CacheHint | None = None,
        tools: CacheHint | None = None,
        resources: CacheHint | None = None,
        templates: CacheHint | None = None,
        prompts: CacheHint | None = None,
        read: CacheHint | None = None,
    ) -> None:
        """How long clients of 2026-07-28 may keep ``server/discover``, each list, and what is read (SF-51).

        What is not given stays as it is; at first everything is stale at once and private.
        """
        if discover is not None:
            self.discover_hint = discover
        for listing, hint in zip(self._listings(), (tools, resources, templates, prompts), strict=True):
            if hint is not None:
                listing.hint = hint
        if read is not None:
            self.resources.read_hint = read

    def _listings(self) -> Iterator[Listing]:
        yield self.tools.listing
        yield self.resources.listing
        yield self.resources.template_listing
        yield self.prompts.listing


_O = TypeVar("_O", ToolOptions, ResourceOptions, PromptOptions)


def _options(kind: type[_O], what: str, options: dict[str, Any]) -> _O:
    known = kind.__struct_fields__
    if unknown := options.keys() - set(known):
        raise UsageError(f"unknown {what} option {min(unknown)!r}; there are {', '.join(sorted(known))}")
    return kind(**options)


def _reference(prompt: str | None, resource: str | None) -> Reference | None:
    if prompt is not None and resource is not None:
        raise UsageError("completion: give prompt=... or resource=..., not both")
    if prompt is not None:
        return Reference("prompt", prompt)
    return Reference("resource", resource) if resource is not None else None
