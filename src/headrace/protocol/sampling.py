"""Sampling requests: messages in, checked and fit for the client's revision (CF-20..CF-22)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import msgspec

from headrace.errors import CannotAsk, UsageError
from headrace.jsonrpc import R1, R4

__all__ = ("sampling_params",)

_encode = msgspec.json.Encoder().encode
_decode = msgspec.json.Decoder().decode
_SIMPLE = ("text", "image", "audio")
_WITH_TOOLS = (*_SIMPLE, "tool_use", "tool_result")
_CONTEXTS = ("none", "thisServer", "allServers")


def sampling_params(
    messages: Any,
    *,
    revision: str,
    max_tokens: int,
    system: str | None,
    temperature: float | None,
    stop_sequences: Iterable[str] | None,
    model_preferences: Any,
    include_context: str | None,
    metadata: dict[str, Any] | None,
    tools: Iterable[Any] | None,
    tool_choice: Any,
) -> dict[str, Any]:
    """Params of ``sampling/createMessage``. Raises UsageError for a request that is wrong in itself."""
    if isinstance(max_tokens, bool) or not isinstance(max_tokens, int) or max_tokens < 1:
        raise UsageError(f"sample: max_tokens must be a positive integer, not {max_tokens!r}")
    if include_context is not None and include_context not in _CONTEXTS:
        raise UsageError(f"sample: include_context must be one of {', '.join(_CONTEXTS)}")
    if isinstance(messages, str) or not isinstance(messages, (list, tuple)):
        messages = [messages]
    shown = [_message(message, revision) for message in messages]
    if not shown:
        raise UsageError("sample: give at least one message")
    _check_balance(shown)
    if isinstance(tool_choice, str):
        tool_choice = {"mode": tool_choice}
    optional = {
        "systemPrompt": system,
        "temperature": temperature,
        "stopSequences": None if stop_sequences is None else list(stop_sequences),
        "modelPreferences": None if model_preferences is None else _plain(model_preferences),
        "includeContext": include_context,
        "metadata": metadata,
        "tools": None if tools is None else [_plain(tool) for tool in tools],
        "toolChoice": None if tool_choice is None else _plain(tool_choice),
    }
    made = {"messages": shown, "maxTokens": max_tokens}
    return made | {key: value for key, value in optional.items() if value is not None}


def _plain(value: Any) -> Any:
    """A Struct, pydantic model or dict as the plain JSON value that goes on the wire."""
    if hasattr(value, "model_dump"):
        value = value.model_dump(mode="json", by_alias=True, exclude_none=True)
    try:
        return _decode(_encode(value))
    except TypeError as exc:
        raise UsageError(f"sample: {exc}") from None


def _message(given: Any, revision: str) -> dict[str, Any]:
    if isinstance(given, str):
        return {"role": "user", "content": {"type": "text", "text": given}}
    message = _plain(given)
    if not isinstance(message, dict) or message.get("role") not in ("user", "assistant"):
        raise UsageError("sample: a message is a text, a SamplingMessage, or has the role user or assistant")
    content = message.get("content")
    if isinstance(content, str):
        content = {"type": "text", "text": content}
    blocks = content if isinstance(content, list) else [content]
    for block in blocks:
        kind = block.get("type") if isinstance(block, Mapping) else None
        if kind not in _WITH_TOOLS:
            raise UsageError(f"sample: a message cannot have content of type {kind!r}")
        if (kind not in _SIMPLE and revision < R4) or (kind == "audio" and revision == R1):
            raise CannotAsk(f"clients of {revision} take no {kind} content in sampling")
    if revision < R4 and isinstance(content, list):
        # One block a message there.
        if len(content) != 1:
            raise CannotAsk(f"clients of {revision} take one content block a message in sampling")
        content = content[0]
    return {**message, "content": content}


def _blocks(message: dict[str, Any], kind: str) -> list[dict[str, Any]]:
    content = message["content"]
    return [b for b in (content if isinstance(content, list) else [content]) if b["type"] == kind]


def _check_balance(messages: list[dict[str, Any]]) -> None:
    """Every tool use is answered by the next message, which holds tool results alone (CF-22)."""
    waiting: list[Any] = []
    for number, message in enumerate(messages, 1):
        results = _blocks(message, "tool_result")
        where = f"sample: message {number}"
        if results:
            content = message["content"]
            if message["role"] != "user" or (isinstance(content, list) and len(content) != len(results)):
                raise UsageError(f"{where} has tool results beside other content, or is not the user's")
        given = [result.get("toolUseId") for result in results]
        if sorted(map(str, given)) != sorted(map(str, waiting)):
            raise UsageError(f"{where}: every tool use must be answered by a tool result right after it")
        uses = _blocks(message, "tool_use")
        if uses and message["role"] != "assistant":
            raise UsageError(f"{where} has a tool use and is not the assistant's")
        waiting = [use.get("id") for use in uses]
    if waiting:
        raise UsageError(f"sample: message {len(messages)} has a tool use that no tool result answers")
