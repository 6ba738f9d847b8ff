"""What the envelope scan must find: a recursive-descent JSON reader, one byte at a time."""

import re
from dataclasses import dataclass, field

META = "io.modelcontextprotocol/"
MESSAGE = {"id": "id", "method": "method", "params": "params", "result": "result", "error": "error"}
PARAMS = {
    "name": "name", "uri": "uri", "arguments": "arguments", "cursor": "cursor", "_meta": "meta",
    "requestId": "request_id", "progressToken": "note_token", "taskId": "task_id",
}  # fmt: skip
META_MEMBERS = {
    "progressToken": "progress_token",
    META + "protocolVersion": "protocol_version",
    META + "clientCapabilities": "client_capabilities",
    META + "clientInfo": "client_info",
    META + "logLevel": "log_level",
    META + "subscriptionId": "subscription_id",
}
TOKENS = (*MESSAGE.values(), *PARAMS.values(), *META_MEMBERS.values())

_NUMBER = re.compile(rb"-?(?:0|[1-9][0-9]*)((?:\.[0-9]+)?(?:[eE][+-]?[0-9]+)?)")
_LITERALS = {b"true": "true", b"false": "false", b"null": "null"}
_SIMPLE = dict(zip(b'"\\/bfnrt', '"\\/\b\f\n\r\t', strict=True))


class Fault(Exception):
    def __init__(self, what: str, at: int) -> None:
        super().__init__(what, at)
        self.what = what
        self.at = at


@dataclass
class Found:
    kind: str = "invalid"
    reason: str | None = None
    fault: str | None = None
    """"json", "utf8" or "deep"."""
    at: int | None = None
    """Offset of the fault."""
    tokens: dict[str, bytes] = field(default_factory=dict)
    types: dict[str, str] = field(default_factory=dict)
    id_usable: bool = False


class _Reader:
    def __init__(self, text: bytes, max_depth: int) -> None:
        self.text = text
        self.max_depth = max_depth

    def bad(self, at: int, what: str = "json") -> Fault:
        return Fault(what, min(at, len(self.text)))

    def peek(self, i: int) -> bytes:
        return self.text[i : i + 1]

    def space(self, i: int) -> int:
        while self.peek(i) and self.peek(i) in b" \t\r\n":
            i += 1
        return i

    def unit(self, i: int) -> int:
        digits = self.text[i : i + 4]
        if not re.fullmatch(rb"[0-9a-fA-F]{4}", digits):
            raise self.bad(i)
        return int(digits, 16)

    def string(self, i: int) -> tuple[int, str]:
        """`i` is at the opening quote. The position behind the string, and its value."""
        if self.peek(i) != b'"':
            raise self.bad(i)
        i += 1
        value = []
        while True:
            c = self.peek(i)
            if not c or c < b" ":
                raise self.bad(i)
            if c == b'"':
                return i + 1, "".join(value)
            if c == b"\\":
                kind = self.peek(i + 1)
                if kind == b"u":
                    unit = self.unit(i + 2)
                    i += 6
                    if 0xDC00 <= unit < 0xE000:
                        raise self.bad(i)
                    if 0xD800 <= unit < 0xDC00:
                        if self.text[i : i + 2] != b"\\u":
                            raise self.bad(i)
                        low = self.unit(i + 2)
                        if not 0xDC00 <= low < 0xE000:
                            raise self.bad(i)
                        unit = 0x10000 + ((unit - 0xD800) << 10) + low - 0xDC00
                        i += 6
                    value.append(chr(unit))
                elif kind and kind[0] in _SIMPLE:
                    value.append(_SIMPLE[kind[0]])
                    i += 2
                else:
                    raise self.bad(i)
            elif c < b"\x80":
                value.append(c.decode())
                i += 1
            else:
                for n in (2, 3, 4):
                    try:
                        value.append(self.text[i : i + n].decode("utf-8"))
                    except UnicodeDecodeError:
                        continue
                    if len(value[-1]) != 1:
                        raise self.bad(i, "utf8")
                    i += n
                    break
                else:
                    raise self.bad(i, "utf8")

    def value(self, i: int, depth: int) -> tuple[int, str]:
        """`depth` levels are open around the value at `i`. The position behind it, and its type."""
        c = self.peek(i)
        if c == b'"':
            return self.string(i)[0], "string"
        if c == b"{":
            return self.members(i, depth, lambda key, at: self.value(at, depth + 1)[0]), "object"
        if c == b"[":
            return self.array(i, depth), "array"
        for literal, kind in _LITERALS.items():
            if self.text.startswith(literal, i):
                return i + len(literal), kind
        number = _NUMBER.match(self.text, i)
        if not number:
            raise self.bad(i)
        # what looks like the beginning of a fraction or an exponent is one
        if self.peek(number.end()) in (b".", b"e", b"E"):
            raise self.bad(number.end())
        return number.end(), "number" if number[1] else "int"

    def array(self, i: int, depth: int) -> int:
        if depth >= self.max_depth:
            raise self.bad(i, "deep")
        i = self.space(i + 1)
        if self.peek(i) == b"]":
            return i + 1
        while True:
            i = self.space(self.value(i, depth + 1)[0])
            if self.peek(i) == b"]":
                return i + 1
            if self.peek(i) != b",":
                raise self.bad(i)
            i = self.space(i + 1)

    def members(self, i: int, depth: int, read, done=lambda key: None) -> int:
        """`read(key, at)` gives the position behind the value; `done(key)` once the member is complete."""
        if depth >= self.max_depth:
            raise self.bad(i, "deep")
        i = self.space(i + 1)
        if self.peek(i) == b"}":
            return i + 1
        while True:
            i, key = self.string(i)
            i = self.space(i)
            if self.peek(i) != b":":
                raise self.bad(i)
            i = self.space(read(key, self.space(i + 1)))
            end = self.peek(i)
            if end not in (b",", b"}"):
                raise self.bad(i)
            done(key)
            if end == b"}":
                return i + 1
            i = self.space(i + 1)

    def skip(self, i: int, depth: int) -> tuple[int, str]:
        """By structure only."""
        c = self.peek(i)
        if c == b'"':
            return self.skip_string(i), "string"
        if c not in (b"{", b"["):
            return self.value(i, depth)
        stack = []
        while c := self.peek(i):
            if c == b'"':
                i = self.skip_string(i)
                continue
            if c in b"{[":
                if depth + len(stack) >= self.max_depth:
                    raise self.bad(i, "deep")
                stack.append(b"}" if c == b"{" else b"]")
            elif c in b"}]":
                if c != stack.pop():
                    raise self.bad(i)
                if not stack:
                    return i + 1, "object" if c == b"}" else "array"
            elif c == b"\\":
                raise self.bad(i)
            i += 1
        raise self.bad(i)

    def skip_string(self, i: int) -> int:
        i += 1
        while c := self.peek(i):
            if c == b'"':
                return i + 1
            i += 2 if c == b"\\" else 1
        raise self.bad(i)


def scan(text: bytes, max_depth: int = 256, loose: bool = False) -> Found:
    found = Found()
    reader = _Reader(text, max_depth)
    state = {"twice": False, "two_ids": False, "version": None}
    pending_id: list[tuple[bytes, str]] = []

    def keep(name: str, start: int, end: int, kind: str) -> None:
        if name in found.tokens:
            state["twice"] = True
        else:
            found.tokens[name] = text[start:end]
            found.types[name] = kind

    def passed(i: int, depth: int) -> tuple[int, str]:
        return reader.skip(i, depth) if loose else reader.value(i, depth)

    def in_meta(key: str, i: int) -> int:
        end, kind = reader.value(i, 3)
        if key in META_MEMBERS:
            keep(META_MEMBERS[key], i, end, kind)
        return end

    def in_params(key: str, i: int) -> int:
        name = PARAMS.get(key)
        if name == "arguments":
            end, kind = passed(i, 2)
        elif name == "meta" and reader.peek(i) == b"{" and "meta" not in found.tokens:
            end, kind = reader.members(i, 2, in_meta), "object"
        else:
            end, kind = reader.value(i, 2)
        if name:
            keep(name, i, end, kind)
        return end

    def in_message(key: str, i: int) -> int:
        if key == "params" and reader.peek(i) == b"{" and "params" not in found.tokens:
            end, kind = reader.members(i, 1, in_params), "object"
        elif key == "result":
            end, kind = passed(i, 1)
        elif key == "jsonrpc" and reader.peek(i) == b'"':
            end, value = reader.string(i)
            state["twice"] |= state["version"] is not None
            state["version"] = value if state["version"] is None else state["version"]
            return end
        else:
            end, kind = reader.value(i, 1)
        if key == "jsonrpc":
            state["twice"] |= state["version"] is not None
            state["version"] = "" if state["version"] is None else state["version"]
        elif key == "id":
            if "id" in found.tokens:
                state["two_ids"] = state["twice"] = True
            else:
                pending_id.append((text[i:end], kind))
        elif key in MESSAGE:
            keep(MESSAGE[key], i, end, kind)
        return end

    def after_member(key: str) -> None:
        if key == "id" and pending_id:
            found.tokens["id"], found.types["id"] = pending_id.pop()

    try:
        i = reader.space(0)
        top = reader.peek(i)
        i = reader.members(i, 0, in_message, after_member) if top == b"{" else reader.value(i, 0)[0]
        if reader.space(i) != len(text):
            raise reader.bad(reader.space(i))
    except Fault as fault:
        found.fault, found.at = fault.what, fault.at
    if state["two_ids"]:
        found.tokens.pop("id", None)
        found.types.pop("id", None)
    found.id_usable = found.types.get("id") in ("string", "int")
    if found.fault:
        return found
    if top == b"{":
        found.kind, found.reason = _judge(found, state)
    elif top == b"[":
        found.kind = "batch"
    else:
        found.reason = "a message must be an object"
    return found


def _judge(found: Found, state: dict) -> tuple[str, str | None]:
    types = found.types
    responses = [name for name in ("result", "error") if name in types]
    if state["twice"]:
        return "invalid", "a member occurs twice"
    if state["version"] != "2.0":
        return "invalid", 'jsonrpc must be "2.0"'
    # JR-13: an error may say that it could not read the id
    null_id = types.get("id") == "null" and "error" in types and "method" not in types
    if "id" in types and not found.id_usable and not null_id:
        return "invalid", "id must be a string or an integer"
    if "method" in types:
        if types["method"] != "string":
            return "invalid", "method must be a string"
        if responses:
            return "invalid", "a message has a method, a result or an error"
        return ("request" if "id" in types else "notification"), None
    if not responses:
        return "invalid", "a message must have a method, a result or an error"
    if len(responses) == 2:
        return "invalid", "a response has either a result or an error"
    kind = responses[0]
    if kind == "result" and "id" not in types:
        return "invalid", "a result must have an id"
    if types[kind] != "object":
        return "invalid", f"{kind} must be an object"
    return kind, None
