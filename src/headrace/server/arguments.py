"""Tool arguments that do not fit: what is still accepted, and what the caller is told.

A call whose arguments do not fit is answered with an error result, never with a protocol error (JR-36),
so that the model can read it and try again. The text is one line below 1 KiB that names the argument
and what was expected and repeats nothing of what was sent except the name of an unknown argument (B84).
"""

import re
from typing import TYPE_CHECKING, Any

import msgspec

if TYPE_CHECKING:
    from headrace.server.signature import ToolSignature

__all__ = ("describe_argument_error", "describe_value_error", "retry_arguments")

MAX_TEXT = 1000
_MAX_NAMES = 10
_MAX_ALLOWED = 20

_WHERE = re.compile(r"^(?P<what>.*?)(?: - at (?P<key>`key` in )?`\$(?P<path>.*)`)?$", re.DOTALL)
_GOT = re.compile(r"Expected `(?P<expected>[^`]*)`, got `(?P<got>[^`]*)`")
_MISSING = re.compile(r"^Object missing required field `(?P<name>.*)`$", re.DOTALL)
_UNKNOWN = re.compile(r"^Object contains unknown field `(?P<name>.*)`$", re.DOTALL)
_STEP = re.compile(r"\.([^.\[]+)|\[(\d+|\.\.\.)\]")
_SAFE_FLOAT = 2.0**53


# --- a second look -------------------------------------------------------------------------------


def retry_arguments(signature: "ToolSignature", raw: bytes, exc: msgspec.ValidationError) -> Any:
    """The arguments when only their spelling was in the way; otherwise ``exc`` is raised again.

    Accepted on this second look, because clients send it and JSON Schema or common sense allow it:

    - ``3.0`` for an integer: JSON Schema counts it as one, and clients that keep every number as a
      double send nothing else;
    - a list or object sent as a string with JSON inside, for a top-level parameter that takes no string.

    ``raw`` is the JSON text of the arguments. Never called for arguments that fit.
    """
    if signature.has_raw:
        raise exc
    for _ in range(len(signature.parameters) + 1):
        match = _WHERE.match(str(exc))
        got = _GOT.search(match["what"]) if match else None
        if match is None or got is None:
            break
        if got["got"] == "float" and "int" in got["expected"].split(" | "):
            raw = msgspec.json.encode(_whole(msgspec.json.decode(raw)))
        elif got["got"] == "str" and (match["path"] or "").startswith("."):
            again = _unquote(raw, match["path"][1:])
            if again is None:
                break
            raw = again
        else:
            break
        try:
            return signature.decoder.decode(raw)
        except msgspec.ValidationError as next_exc:
            if str(next_exc) == str(exc):
                break
            exc = next_exc
    raise exc


def _whole(value: Any) -> Any:
    if isinstance(value, float):
        return int(value) if value.is_integer() and abs(value) < _SAFE_FLOAT else value
    if isinstance(value, list):
        return [_whole(item) for item in value]
    if isinstance(value, dict):
        return {key: _whole(item) for key, item in value.items()}
    return value


def _unquote(raw: bytes, name: str) -> bytes | None:
    """``raw`` with the string member ``name`` replaced by the list or object written inside it."""
    members = msgspec.json.decode(raw, type=dict[str, msgspec.Raw])
    if name not in members:
        return None
    try:
        text = msgspec.json.decode(members[name], type=str)
        inner = msgspec.json.decode(text)
    except (msgspec.DecodeError, RecursionError):
        return None
    if not isinstance(inner, (list, dict)):
        return None
    members[name] = msgspec.Raw(text.encode())
    return msgspec.json.encode(members)


# --- what the caller is told -----------------------------------------------------------------------


def describe_argument_error(
    exc: msgspec.ValidationError, signature: "ToolSignature", raw: bytes = b""
) -> str:
    """One line such as ``invalid arguments for tool 'add': b: expected int, got str``.

    ``raw`` (the JSON text of the arguments) serves to name every missing argument, not only the first.
    Text of a ``ValueError`` raised by the author's own ``__post_init__`` or validator is kept.
    """
    match = _WHERE.match(str(exc))
    assert match is not None  # every text matches
    what = _describe(exc, match["what"], match["path"] or "", bool(match["key"]), signature, raw)
    return _clip(f"invalid arguments for tool {signature.name!r}: {what}")


def describe_value_error(exc: msgspec.ValidationError, name: str, signature: "ToolSignature") -> str:
    """The same of one argument that was read by itself, such as ``tone: not one of the allowed values: "kind"``."""
    match = _WHERE.match(str(exc))
    assert match is not None
    return _clip(_describe(exc, match["what"], f".{name}{match['path'] or ''}", bool(match["key"]), signature, b""))


def _describe(
    exc: BaseException, what: str, path: str, in_key: bool, signature: "ToolSignature", raw: bytes
) -> str:  # fmt: skip
    place = path.lstrip(".")
    prefix = f"{'key of ' if in_key else ''}{place}: " if place else ""
    if exc.__cause__ is not None and not what.startswith("Expected `"):
        return prefix + what.replace("`", "")
    thing = "member" if place else "argument"
    if missing := _MISSING.match(what):
        names = [missing["name"]] if place else _missing(signature, raw) or [missing["name"]]
        listed = ", ".join(repr(name[:64]) for name in names[:_MAX_NAMES])
        return f"{prefix}missing required {thing}{'s' if len(names) > 1 else ''} {listed}"
    if unknown := _UNKNOWN.match(what):
        return f"{prefix}unknown {thing} {unknown['name'][:64]!r}"
    if what.startswith(("Invalid enum value", "Invalid value")):
        allowed = _allowed(signature.input_schema, path) if not in_key else []
        listed = ", ".join(msgspec.json.encode(value).decode()[:64] for value in allowed[:_MAX_ALLOWED])
        more = ", ..." if len(allowed) > _MAX_ALLOWED else ""
        return f"{prefix}not one of the allowed values{f': {listed}{more}' if listed else ''}"
    text = what.replace("`", "")
    return prefix + text[:1].lower() + text[1:]


def _missing(signature: "ToolSignature", raw: bytes) -> list[str]:
    try:
        given = msgspec.json.decode(raw, type=dict[str, msgspec.Raw])
    except msgspec.DecodeError:
        return []
    return [name for name in signature.input_schema.get("required", []) if name not in given]


def _allowed(schema: dict[str, Any], path: str) -> list[Any]:
    """The values an input schema allows at ``path`` (msgspec's notation without ``$``)."""
    nodes = [schema]
    for match in _STEP.finditer(path):
        name, index = match.groups()
        following = []
        for node in _expand(nodes, schema):
            if name is not None:
                following.append(node.get("properties", {}).get(name))
            elif index == "...":
                following += [node.get("additionalProperties"), node.get("items")]
            else:
                prefix = node.get("prefixItems", [])
                following.append(prefix[int(index)] if int(index) < len(prefix) else node.get("items"))
        nodes = [node for node in following if isinstance(node, dict)]
    allowed: list[Any] = []
    for node in _expand(nodes, schema):
        allowed += [value for value in node.get("enum", []) if value not in allowed]
    return allowed


def _expand(nodes: list[Any], root: dict[str, Any]) -> list[dict[str, Any]]:
    """``nodes`` with references followed and alternatives laid out; bounded for recursive schemas."""
    found: list[dict[str, Any]] = []
    queue = list(nodes)
    while queue and len(found) < 256:
        node = queue.pop(0)
        if not isinstance(node, dict) or any(node is seen for seen in found):
            continue
        found.append(node)
        if isinstance(ref := node.get("$ref"), str):
            queue.append(root.get("$defs", {}).get(ref.rpartition("/")[2]))
        for keyword in ("anyOf", "oneOf", "allOf"):
            queue += node.get(keyword, [])
    return found


def _clip(text: str) -> str:
    text = "".join(c if c.isprintable() else " " for c in text)
    if len(text.encode("utf-8", "replace")) <= MAX_TEXT:
        return text
    return text.encode("utf-8", "replace")[: MAX_TEXT - 3].decode("utf-8", "ignore") + "..."
