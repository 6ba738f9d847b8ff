from collections.abc import Callable
from typing import Any, Final

from headrace.mux import Handler

__all__ = ("ASYNC", "INLINE", "THREAD", "NamedHandler", "ToolHandler")

INLINE: Final[int]
ASYNC: Final[int]
THREAD: Final[int]

class ToolHandler(Handler):
    @property
    def name(self) -> str: ...
    def __init__(
        self,
        name: str,
        function: Callable[..., Any],
        *,
        decode: Callable[[Any], Any],
        repair: Callable[[bytes, Any], Any],
        describe: Callable[[Any, bytes], str],
        render: Callable[[Any, str], Any],
        positional: tuple[str, ...],
        keyword: tuple[str, ...] = (),
        context_type: Callable[[Any], Any] | None = None,
        context_at: int = -1,
        context_keyword: str | None = None,
        mode: int = ...,
        keep_bytes: bool = False,
        plain_text: bool = True,
        promised: type | None = None,
        timeout: float = 0,
    ) -> None: ...

class NamedHandler(Handler):
    guard: Callable[[Any, str], Exception | None] | None
    @property
    def handlers(self) -> dict[bytes, Handler]: ...
    def __init__(self, handlers: dict[bytes, Handler], missing: Callable[[str], Exception]) -> None: ...
    def changed(self) -> None: ...
