"""The tools that every Python peer serves: the same functions, registered in each library's own way."""

import asyncio

__all__ = ("TOOLS", "add", "blob", "echo", "sleep")


async def echo(text: str, n: int) -> str:
    """The text."""
    return text


async def add(a: int, b: int) -> int:
    """The sum."""
    return a + b


async def sleep(seconds: float) -> str:
    """An answer after some time."""
    await asyncio.sleep(seconds)
    return "slept"


async def blob(size: int) -> str:
    """A text of this size."""
    return "x" * size


TOOLS = (echo, add, sleep, blob)
