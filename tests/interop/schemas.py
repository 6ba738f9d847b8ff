"""What headrace sent, against the official JSON schema of the revision: requests, notifications, results and errors.

The definition of a message is found by its method, that of a result by the request it answers. Methods that no schema
knows (extensions, nonsense of tests) are checked as JSON-RPC only.
"""

import functools
import json

import jsonschema

from interop.support import TOP

SCHEMAS = TOP / "tools" / "schemas"
MODERN = "2026-07-28"
HANDSHAKE = "2025-11-25"
VERSION = "io.modelcontextprotocol/protocolVersion"
# Results whose definition is not named after the request's.
RESULTS = {"GetTaskPayloadRequest": "Result"}


@functools.cache
def _load(revision):
    schema = json.loads((SCHEMAS / f"{revision}.json").read_text())
    where = "$defs" if "$defs" in schema else "definitions"
    methods = {}
    for name, each in schema[where].items():
        method = each.get("properties", {}).get("method", {}).get("const")
        if method is not None and name.endswith(("Request", "Notification")):
            methods[method] = name
    return schema, where, methods


@functools.cache
def _validator(revision, name):
    schema, where, _ = _load(revision)
    assert name in schema[where], f"{revision} has no {name}"
    kind = jsonschema.Draft202012Validator if where == "$defs" else jsonschema.Draft7Validator
    return kind({"$schema": schema["$schema"], where: schema[where], "$ref": f"#/{where}/{name}"})


def _valid(revision, name, message):
    _validator(revision, name).validate(message)


def _flat(messages):
    """Batches of 2025-03-26 are lists."""
    for message in messages:
        if isinstance(message, list):
            yield from message
        else:
            yield message


def _key(message):
    return type(message["id"]), message["id"]


def _revision_of(message, negotiated):
    """A probe or a modern request among others names its revision itself."""
    meta = (message.get("params") or {}).get("_meta") or {}
    return MODERN if negotiated == MODERN or meta.get(VERSION) == MODERN else negotiated


def _result_names(revision, method, result):
    """The definitions that a result of `method` may fit."""
    _, where, methods = _load(revision)
    schema = _load(revision)[0]
    request = methods.get(method)
    if result.get("resultType") == "input_required":
        return ["InputRequiredResult"]
    if request is None:
        return ["Result"]
    name = RESULTS.get(request, request.removesuffix("Request") + "Result")
    names = [name] if name in schema[where] else ["EmptyResult"]
    if "task" in result and "CreateTaskResult" in schema[where]:
        names = ["CreateTaskResult"]
    return names


def agreed(answers, requests=()):
    """The revision of a talk: what `initialize` was answered with, else the modern one if anything in it is modern."""
    for message in _flat(answers):
        result = message.get("result")
        if isinstance(result, dict) and isinstance(version := result.get("protocolVersion"), str) and "serverInfo" in result:
            return version
    if any("resultType" in (message.get("result") or {}) for message in _flat(answers)):
        return MODERN
    if any(VERSION in ((message.get("params") or {}).get("_meta") or {}) for message in _flat(requests)):
        return MODERN
    return HANDSHAKE


def check(revision, peer, ours, *, strict=True):
    """Validates every message in `ours`, which answers those in `peer`; gives how many there were of each kind.

    `revision` is the one that was agreed on. Not `strict`: answers to requests that are not in `peer`, which came over
    another connection, are checked as JSON-RPC only.
    """
    asked = {}
    for message in _flat(peer):
        if "method" in message and "id" in message:
            asked.setdefault(_key(message), (_revision_of(message, revision), message["method"]))
    kinds = {}
    for message in _flat(ours):
        assert message.get("jsonrpc") == "2.0", message
        if "method" in message:
            kind = message["method"]
            mine = _revision_of(message, revision)
            name = _load(mine)[2].get(kind)
            _valid(mine, name or ("JSONRPCRequest" if "id" in message else "JSONRPCNotification"), message)
        elif "error" in message:
            kind = "error"
            mine, _ = asked.get(_key(message), (revision, None)) if message.get("id") is not None else (revision, None)
            _valid(mine, "JSONRPCErrorResponse" if mine >= "2025-11-25" else "JSONRPCError", message)
        else:
            mine, kind = asked[_key(message)] if strict else asked.get(_key(message), (revision, "another's"))
            _valid(mine, "JSONRPCResultResponse" if mine >= "2025-11-25" else "JSONRPCResponse", message)
            for name in _result_names(mine, kind, message["result"]):
                _valid(mine, name, message["result"])
        kinds[kind] = kinds.get(kind, 0) + 1
    return kinds
