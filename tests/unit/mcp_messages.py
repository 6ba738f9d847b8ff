"""Hand-made messages of every revision: (definition, message) pairs for the tests of types and codecs."""

from __future__ import annotations

from typing import Any

from headrace.jsonrpc import R2, R3, R4, R5

__all__ = ("TOOL_SCHEMA", "messages")

INFO = {"name": "demo", "version": "1.2.3"}
META = {"progressToken": 0, "com.example/trace": {"a": [1, None, 2**64]}}
TEXT = {"type": "text", "text": "héllo"}
IMAGE = {"type": "image", "data": "aGVhZA==", "mimeType": "image/png"}
AUDIO = {"type": "audio", "data": "aGVhZA==", "mimeType": "audio/wav"}
LINK = {"type": "resource_link", "uri": "file:///a", "name": "a", "size": 10}
EMBEDDED = {"type": "resource", "resource": {"uri": "file:///a", "text": ""}}
BLOB = {"type": "resource", "resource": {"uri": "file:///a", "blob": "aGVhZA==", "mimeType": "image/png"}}
ANNOTATIONS = {"annotations": {"audience": ["user", "assistant"], "priority": 1}}
TOOL_SCHEMA = {
    "type": "object",
    "properties": {"n": {"type": "number", "minimum": 0.5, "x-unit": "m"}},
    "required": ["n"],
    "$defs": {"T": {"$anchor": "t", "const": 12345678901234567890123}},
    "allOf": [{"$ref": "#/$defs/T"}],
}


def request(method: str, params: dict[str, Any] | None = None) -> dict[str, Any]:
    made: dict[str, Any] = {"jsonrpc": "2.0", "id": 0, "method": method}
    return made if params is None else {**made, "params": params}


def note(method: str, params: dict[str, Any]) -> dict[str, Any]:
    return {"jsonrpc": "2.0", "method": method, "params": params}


def blocks(revision: str) -> list[dict[str, Any]]:
    found = [TEXT, IMAGE, EMBEDDED, BLOB, {**TEXT, **ANNOTATIONS}]
    found += [AUDIO] if revision >= R2 else []
    found += [LINK, {**TEXT, "_meta": META}] if revision >= R3 else []
    return found


def messages(revision: str) -> list[tuple[str, dict[str, Any]]]:
    """(definition, message) pairs."""
    modern = {"resultType": "complete"} if revision == R5 else {}
    cached = {"ttlMs": 0, "cacheScope": "private"} if revision == R5 else {}
    meta: dict[str, Any] = {"_meta": META}
    if revision == R5:
        meta["_meta"] = {
            **META,
            "io.modelcontextprotocol/protocolVersion": R5,
            "io.modelcontextprotocol/clientInfo": INFO,
            "io.modelcontextprotocol/clientCapabilities": {
                "elicitation": {"url": {}},
                "com.example/own": {"a": 1},
            },
        }
    tool: dict[str, Any] = {"name": "t", "description": "", "inputSchema": TOOL_SCHEMA}
    if revision >= R2:
        tool["annotations"] = {"title": "T", "readOnlyHint": False}
    if revision >= R3:
        tool |= {"title": "T", "outputSchema": TOOL_SCHEMA, "_meta": META}
    if revision >= R4:
        tool["icons"] = [{"src": "data:,", "sizes": ["48x48"], "theme": "dark"}]
    prompt_messages = [{"role": "user", "content": b} for b in blocks(revision)]
    sampled = [b for b in blocks(revision) if b["type"] in ("text", "image", "audio")]
    found: list[tuple[str, dict[str, Any]]] = [
        ("ListToolsRequest", request("tools/list", {**meta, "cursor": ""})),
        ("ListToolsResult", {**modern, **cached, "tools": [tool], "nextCursor": "", "_meta": {"x": 1.5}}),
        (
            "CallToolRequest",
            request("tools/call", {**meta, "name": "t", "arguments": {"n": 1, "deep": {"k": [None]}}}),
        ),
        ("CallToolResult", {**modern, "content": blocks(revision), "isError": False}),
        ("CallToolResult", {**modern, "content": []}),
        ("ReadResourceRequest", request("resources/read", {**meta, "uri": "file:///a"})),
        ("ReadResourceResult", {**modern, **cached, "contents": [EMBEDDED["resource"], BLOB["resource"]]}),
        ("GetPromptRequest", request("prompts/get", {**meta, "name": "p", "arguments": {"a": ""}})),
        ("GetPromptResult", {**modern, "description": "", "messages": prompt_messages}),
        (
            "CompleteRequest",
            request(
                "completion/complete",
                {**meta, "ref": {"type": "ref/prompt", "name": "p"}, "argument": {"name": "a", "value": ""}},
            ),
        ),
        (
            "CompleteRequest",
            request(
                "completion/complete",
                {
                    **meta,
                    "ref": {"type": "ref/resource", "uri": "x://{a}"},
                    "argument": {"name": "a", "value": ""},
                },
            ),
        ),
        ("CompleteResult", {**modern, "completion": {"values": ["a"], "total": 0, "hasMore": False}}),
        (
            "ProgressNotification",
            note("notifications/progress", {"progressToken": 0, "progress": 0.5, "total": 100}),
        ),
        ("ProgressNotification", note("notifications/progress", {"progressToken": "", "progress": 100})),
        ("CancelledNotification", note("notifications/cancelled", {"requestId": 0, "reason": ""})),
        (
            "LoggingMessageNotification",
            note("notifications/message", {"level": "info", "data": None, "logger": ""}),
        ),
        ("CreateMessageResult", {"model": "m", "role": "assistant", "content": TEXT, "stopReason": "other"}),
    ]
    sampling = {
        "maxTokens": 10,
        "messages": [{"role": "user", "content": b} for b in sampled],
        "temperature": 1,
        "modelPreferences": {"hints": [{"name": "x"}, {}], "costPriority": 0.5},
        "includeContext": "none",
        "metadata": {"k": {"n": 1.0}},
        "stopSequences": [""],
    }
    bare = (lambda m, p: {"method": m, "params": p}) if revision == R5 else request
    found.append(("CreateMessageRequest", bare("sampling/createMessage", sampling)))
    found.append(("ListRootsResult", {"roots": [{"uri": "file:///", "name": ""}]}))
    if revision >= R3:
        value: Any = {"v": [1, 2.5, 2**65]} if revision < R5 else None
        found.append(("CallToolResult", {**modern, "content": [], "structuredContent": value}))
        fields: dict[str, Any] = {
            "s": {"type": "string", "minLength": 0, "format": "email"},
            "n": {"type": "number", "minimum": 0, "maximum": 0.5 if revision >= R4 else 5},
            "b": {"type": "boolean", "default": False},
            "e": {"type": "string", "enum": ["a"], "enumNames": ["A"]},
        }
        if revision >= R4:
            fields |= {
                "t": {"type": "string", "oneOf": [{"const": "a", "title": "A"}], "default": "a"},
                "m": {"type": "array", "items": {"type": "string", "enum": ["a"]}, "minItems": 0},
                "x": {"type": "array", "items": {"anyOf": [{"const": "a", "title": "A"}]}, "default": []},
            }
        form = {"message": "", "requestedSchema": {"type": "object", "properties": fields, "required": []}}
        found.append(("ElicitRequest", bare("elicitation/create", form)))
        found.append(("ElicitResult", {"action": "accept", "content": {"s": "", "n": 0, "b": True}}))
    if revision >= R4:
        url: dict[str, Any] = {"mode": "url", "message": "", "url": "https://example.com"}
        url |= {"elicitationId": ""} if revision == R4 else {}
        found.append(("ElicitRequest", bare("elicitation/create", url)))
        use = {"type": "tool_use", "id": "", "name": "t", "input": {"a": 1}}
        got = {"type": "tool_result", "toolUseId": "", "content": [TEXT, LINK], "isError": True}
        for content in (TEXT, [use, got], []):
            found.append(("SamplingMessage", {"role": "user", "content": content}))
    if revision < R5:
        capabilities = {"experimental": {"x": {"y": 1}}, "com.example/own": {"a": None}}
        found += [
            (
                "InitializeRequest",
                request(
                    "initialize",
                    {
                        **meta,
                        "protocolVersion": revision,
                        "clientInfo": INFO,
                        "capabilities": {**capabilities, "roots": {"listChanged": False}},
                    },
                ),
            ),
            (
                "InitializeResult",
                {
                    "protocolVersion": revision,
                    "serverInfo": INFO,
                    "instructions": "",
                    "capabilities": {**capabilities, "tools": {"listChanged": True}, "logging": {}},
                },
            ),
            ("SetLevelRequest", request("logging/setLevel", {"level": "debug"})),
            ("PingRequest", request("ping")),
            ("JSONRPCRequest", request("x", {"_meta": META, "any": [1]})),
        ]
    else:
        capabilities = {
            "tools": {"listChanged": True},
            "extensions": {"com.example/x": {"a": 1.0}},
            "own": {},
        }
        answers = {"a": {"action": "accept", "content": {"n": 0.5}}, "b": {"roots": []}}
        found += [
            ("DiscoverRequest", request("server/discover", meta)),
            ("DiscoverResult", {**modern, **cached, "supportedVersions": [R5], "capabilities": capabilities}),
            (
                "CallToolResultResponse",
                {
                    "jsonrpc": "2.0",
                    "id": "",
                    "result": {
                        "resultType": "input_required",
                        "requestState": "",
                        "inputRequests": {
                            "r": {"method": "roots/list"},
                            "s": bare("sampling/createMessage", sampling),
                        },
                    },
                },
            ),
            (
                "ReadResourceRequest",
                request(
                    "resources/read",
                    {**meta, "uri": "x://", "inputResponses": {"b": answers["b"]}, "requestState": ""},
                ),
            ),
            ("InputResponses", answers),
            (
                "SubscriptionsListenRequest",
                request(
                    "subscriptions/listen",
                    {**meta, "notifications": {"toolsListChanged": False, "taskIds": ["t"]}},
                ),
            ),
        ]
    return found
