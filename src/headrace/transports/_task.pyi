from asyncio import AbstractEventLoop, Task
from collections.abc import Callable, Coroutine
from typing import Any, Final, TypeVar

_T = TypeVar("_T")

__all__ = ["EAGER", "spawner"]

EAGER: Final[bool]

def spawner(loop: AbstractEventLoop) -> Callable[[Coroutine[Any, Any, _T]], Task[_T]]: ...
