"""What a program registers on a server, and how: the decorators and their ``add_``/``remove_`` forms."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, TypeVar, overload

from headrace.errors import UsageError
from headrace.server.tools import ToolOptions, ToolRegistry

if TYPE_CHECKING:
    from headrace.server.schema import HeaderParameter

__all__ = ("Registration",)

_F = TypeVar("_F", bound=Callable[..., Any])


class Registration:
    """Base of :class:`headrace.Server`: everything here may also be called while the server runs, from any
    thread; clients are told (SF-60)."""

    tools: ToolRegistry

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
    ) -> Callable[[_F], _F]: ...
    def tool(self, *function: Callable[..., Any], **options: Any) -> Any:
        """Registers a function as a tool; usable bare or with options.

        ``async def`` tools run on the event loop, plain ``def`` tools in worker threads, and with
        ``inline=True`` plain functions that cannot block run on the loop itself. ``timeout`` (seconds)
        ends a call with an error result. ``name``, ``title``, ``description``, ``annotations``,
        ``icons`` and ``meta`` are what ``tools/list`` shows. ``forbid_unknown`` refuses arguments that
        the function does not have; ``input_schema`` and ``output_schema`` are advertised instead of
        those made from the annotations.

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
        unknown = options.keys() - ToolOptions.__struct_fields__
        if unknown:
            raise UsageError(
                f"unknown tool option {min(unknown)!r}; there are {', '.join(sorted(ToolOptions.__struct_fields__))}"
            )
        self.tools.add(function, ToolOptions(**options))

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
