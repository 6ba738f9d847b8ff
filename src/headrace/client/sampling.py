"""The rules for messages of a sampling request that hold tool use (CF-22)."""

from __future__ import annotations

from typing import Any

from headrace.errors import RpcError
from headrace.jsonrpc import INVALID_PARAMS
from headrace.types.v2026_07_28 import SamplingMessage, ToolResultContent, ToolUseContent

__all__ = ("check_messages",)


def check_messages(messages: list[SamplingMessage]) -> None:
    """Raises :class:`RpcError` (-32602) unless every tool use is answered by its result in the next message,
    and messages with tool results hold nothing else."""
    open_uses: set[str] = set()
    for message in messages:
        blocks = message.content if isinstance(message.content, list) else [message.content]
        results = [block for block in blocks if isinstance(block, ToolResultContent)]
        if results and (len(results) != len(blocks) or message.role != "user"):
            raise _refusal("a user message with tool results holds nothing else")
        answered = {block.tool_use_id for block in results}
        if open_uses != answered:
            raise _refusal(_mismatch(open_uses, answered))
        open_uses = {block.id for block in blocks if isinstance(block, ToolUseContent)}
        if open_uses and message.role != "assistant":
            raise _refusal("tool use is part of assistant messages only")
    if open_uses:
        raise _refusal(_mismatch(open_uses, set()))


def _mismatch(asked: set[str], answered: set[str]) -> str:
    missing = sorted(asked - answered)
    if missing:
        return f"tool use {missing[0][:64]!r} is not followed by its result"
    return f"tool result {min(answered - asked)[:64]!r} answers no tool use"


def _refusal(text: str) -> Any:
    return RpcError(INVALID_PARAMS, f"sampling/createMessage: {text} (CF-22)")
