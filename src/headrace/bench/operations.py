"""From what was asked for and a server to the bytes of a load run.

Strategy: the usual client connects once, finds out the revision and the tools, and makes one real call of everything
that is to be measured. What the server then answered is what every answer is compared with: an unknown tool, wrong
arguments or a text that does not come back is said before any load is made.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

import msgspec

from headrace.bench._http_load import fault_of
from headrace.bench.plan import HttpTarget, LineTarget, Operation, Plan, Step
from headrace.bench.scenario import LISTS, Entry
from headrace.client import connect
from headrace.client.arguments import as_object, encode, join_members
from headrace.errors import HeadraceError, RpcError
from headrace.jsonrpc import INVALID_PARAMS, NAMED, R5
from headrace.transports._http_request import encode_header_value
from headrace.transports.http_client import HttpChannel
from headrace.transports.http_dial import parse_url

if TYPE_CHECKING:
    from headrace.client import Client

__all__ = ("BadOperation", "Prepared", "prepare", "target_of", "tool_entry")

_TOKEN = b'"bench"'
"""The progress token over HTTP, where the answers of one request have a stream of their own."""
_LISTED = 12
_MEMBERS = {
    "tools/call": b"content",
    "tools/list": b"tools",
    "resources/list": b"resources",
    "resources/templates/list": b"resourceTemplates",
    "resources/read": b"contents",
    "prompts/list": b"prompts",
    "prompts/get": b"messages",
}
"""The list that a result must have: without it an answer is wrong, however fast it came."""


class BadOperation(ValueError):
    """The server cannot do what was asked for, or answers it wrongly; one plain line."""


class Prepared(msgspec.Struct, frozen=True, kw_only=True):
    """Everything of a plan that depends on the server."""

    target: HttpTarget | LineTarget
    revision: str
    operations: tuple[Operation, ...]
    opening: tuple[Step, ...]
    closing: tuple[Step, ...]
    server_name: str = ""
    server_version: str = ""

    def plan(self, **load: Any) -> Plan:
        """The plan; ``load`` are its other members: connections, in_flight, duration_s, ..."""
        return Plan(
            target=self.target,
            revision=self.revision,
            operations=self.operations,
            opening=self.opening,
            closing=self.closing,
            **load,
        )


def tool_entry(
    tool: str, arguments: dict[str, Any] | None = None, *, expect: str | None = None, payload: int | None = None
) -> Entry:
    """The entry of ``--tool``, ``--args``, ``--expect`` and ``--payload``."""
    name = f"call {tool}" + (f" {payload} B" if payload is not None else "")
    return Entry(
        kind="call", what=tool, name=name, arguments=arguments or {}, expect=expect, payload=payload, where="--tool"
    )


def target_of(target: Any, options: dict[str, Any]) -> HttpTarget | LineTarget:
    """The target of a plan for what ``headrace.connect`` takes. Raises UsageError for a bad URL."""
    if not isinstance(target, str):
        env = options.get("env")
        cwd = options.get("cwd")
        return LineTarget(
            command=tuple(str(part) for part in target),
            env=dict(env) if env else None,
            cwd=str(cwd) if cwd is not None else None,
        )
    if target.startswith("unix:"):
        return LineTarget(unix=target[5:])
    if target.startswith("tcp:"):
        host, _, port = target[4:].rpartition(":")
        return LineTarget(host=host.strip("[]") or "127.0.0.1", port=int(port))
    endpoint = parse_url(target)
    return HttpTarget(
        host=endpoint.host,
        port=endpoint.port,
        path=endpoint.target,
        tls=endpoint.scheme == "https",
        unix=endpoint.path,
        headers=tuple((options.get("headers") or {}).items()),
    )


async def prepare(target: Any, entries: Iterable[Entry], *, verify: bool = True, **options: Any) -> Prepared:
    """Connects once and prepares the operations.

    ``target`` and ``options`` are those of :func:`headrace.connect`. ``verify``: make one real call of every entry and
    compare its answer; without it only names are looked up. Raises :class:`BadOperation`, and what connecting raises.
    """
    where = target_of(target, options)
    async with connect(target, cache=False, validate=False, **options) as client:
        maker = _Maker(client, isinstance(where, HttpTarget), verify)
        operations = [await maker.operation(entry) for entry in entries]
        if not operations:
            raise BadOperation("there is nothing to measure: name a tool or a scenario")
        info = client.server_info
        return Prepared(
            target=_reached(where, client),
            revision=client.protocol_version,
            operations=tuple(operations),
            opening=maker.opening(),
            closing=(maker.ending(),) if maker.http and not maker.modern else (),
            server_name=info.name if info is not None else "",
            server_version=info.version if info is not None else "",
        )


def _reached(where: HttpTarget | LineTarget, client: Client) -> HttpTarget | LineTarget:
    """Where the calls have gone in the end: a load run follows no redirects."""
    http = client._http
    if not isinstance(where, HttpTarget) or http is None:
        return where
    if not isinstance(http, HttpChannel):
        raise BadOperation(
            "the server speaks the HTTP+SSE transport of 2024-11-05, which is not measured: name its Streamable HTTP "
            "endpoint"
        )
    return msgspec.structs.replace(where, path=http.target.decode("ascii"))


class _Maker:
    """Makes steps for one server."""

    def __init__(self, client: Client, http: bool, verify: bool) -> None:
        self.client = client
        self.http = http
        self.verify = verify
        self.revision = client.protocol_version
        self.modern = self.revision >= R5
        self._tools: dict[str, Any] | None = None

    # --- operations ---------------------------------------------------------------------------------

    async def operation(self, entry: Entry) -> Operation:
        if entry.kind == "listen":
            steps: tuple[Step, ...] = (self._listen(entry),)
        elif entry.kind == "session":
            if self.modern:
                raise BadOperation(f"{entry.where}: {self.revision} has no sessions; say --revision 2025-11-25")
            if not self.http:
                raise BadOperation(
                    f"{entry.where}: over stdio, unix and tcp the connection is the session; "
                    "sessions are measured over HTTP"
                )
            inner = [await self._step(one) for one in entry.calls]
            steps = (*self.opening(), *inner, self.ending())
        else:
            steps = (await self._step(entry),)
        return Operation(name=entry.name, weight=entry.weight, steps=steps)

    def ending(self) -> Step:
        """The end of a session."""
        return Step(before=b"", method="DELETE", headers=self._headers("", None), answer="ended")

    def opening(self) -> tuple[Step, ...]:
        """What a connection begins with: the handshake of a session. In the modern era there is none; a line server
        is asked what it speaks, so that the time a child takes to start is nobody's latency. HTTP servers run
        already."""
        if self.modern and self.http:
            return ()
        if self.modern:
            before, _, after = self._text("server/discover", b"", progress=False)
            return (Step(before=before, after=after, method="server/discover"),)
        offer = self.client._offer
        params = b'{"protocolVersion":%b,"capabilities":%b,"clientInfo":%b}' % (
            encode(self.revision),
            offer.capabilities,
            offer.client_info,
        )
        return (
            Step(
                before=b'{"jsonrpc":"2.0","id":',
                after=b',"method":"initialize","params":' + params + b"}",
                method="initialize",
                opens_session=True,
            ),
            Step(
                before=b'{"jsonrpc":"2.0","method":"notifications/initialized"}',
                method="notifications/initialized",
                headers=self._headers("notifications/initialized", None),
                answer="accepted",
            ),
        )

    async def _step(self, entry: Entry) -> Step:
        kind = entry.kind
        arguments = b"{}"
        name: str | None = None
        if kind == "ping":
            if self.modern:
                raise BadOperation(
                    f"{entry.where}: {self.revision} has no ping; say --revision 2025-11-25, or list tools"
                )
            method, body = "ping", b""
        elif kind == "list":
            method, body = LISTS[entry.what], b""
        elif kind == "read":
            method, name, body = "resources/read", entry.what, b'"uri":' + encode(entry.what)
        elif kind == "prompt":
            method, name, body = "prompts/get", entry.what, b'"name":' + encode(entry.what)
            if entry.arguments:
                body += b',"arguments":' + as_object(entry.arguments, "arguments")
        else:
            method, name = "tools/call", entry.what
            arguments = as_object(await self._arguments(entry), "arguments")
            body = b'"name":' + encode(entry.what) + b',"arguments":' + arguments
        expects = None if entry.expect is None else encode(entry.expect)[1:-1]
        member: bytes | None = None
        if self.verify:
            expects, member = await self._verified(entry, method, name, body, arguments)
        before, token, after = self._text(method, body, progress=entry.progress)
        return Step(
            before=before,
            token=token,
            after=after,
            method=method,
            headers=self._headers(method, name, arguments),
            answer="stream" if entry.progress else "result",
            expects=expects,
            member=member,
        )

    def _listen(self, entry: Entry) -> Step:
        if not self.modern:
            if not self.http:
                raise BadOperation(
                    f"{entry.where}: {self.revision} has no listen over stdio, unix and tcp; say --revision {R5}"
                )
            return Step(
                before=b"", method="GET", headers=self._headers("", None), answer="listen", hold_s=entry.hold_s
            )
        wanted: dict[str, Any] = {f"{one}ListChanged": True for one in entry.listen if one in LISTS}
        uris = [one for one in entry.listen if one not in LISTS]
        if uris:
            wanted["resourceSubscriptions"] = uris
        method = "subscriptions/listen"
        before, _, after = self._text(method, b'"notifications":' + encode(wanted), progress=False)
        return Step(
            before=before,
            after=after,
            method=method,
            headers=self._headers(method, None),
            answer="listen",
            hold_s=entry.hold_s,
        )

    # --- bytes --------------------------------------------------------------------------------------

    def _text(self, method: str, body: bytes, *, progress: bool) -> tuple[bytes, bytes, bytes]:
        """What stands before the id, between the id and the progress token where that is an id, and behind."""
        head = b',"method":' + encode(method)
        meta = self.client._offer.meta if self.modern else b""
        if progress and not self.http:
            rest = b"".join((b",", meta) if meta else ()) + b"}" + (b"," + body if body else b"") + b"}}"
            return b'{"jsonrpc":"2.0","id":', head + b',"params":{"_meta":{"progressToken":', rest
        if progress:
            meta = b",".join((*((meta,) if meta else ()), b'"progressToken":' + _TOKEN))
        parts = join_members(b'"_meta":{' + meta + b"}" if meta else b"", body)
        params = b"" if parts == b"{}" else b',"params":' + parts
        return b'{"jsonrpc":"2.0","id":', b"", head + params + b"}"

    def _headers(self, method: str, name: str | None, arguments: bytes = b"{}") -> tuple[tuple[str, str], ...]:
        if not self.http:
            return ()
        found = [("MCP-Protocol-Version", self.revision)]
        if self.modern and method:
            found.append(("Mcp-Method", method))
            if name is not None and method in NAMED:
                found.append(("Mcp-Name", encode_header_value(name).decode("ascii")))
            if method == "tools/call" and self.client._headers is not None:
                lines = self.client._headers.lines(name, arguments) or b""
                for line in lines.split(b"\r\n"):
                    if line:
                        key, _, value = line.partition(b":")
                        found.append((key.decode("ascii"), value.strip().decode("ascii")))
        return tuple(found)

    # --- the server ---------------------------------------------------------------------------------

    async def _arguments(self, entry: Entry) -> dict[str, Any]:
        """The arguments of a call, with the payload in place."""
        if self._tools is None:
            try:
                self._tools = {tool.name: tool for tool in await self.client.list_tools()}
            except HeadraceError as exc:
                raise BadOperation(f"the server does not list its tools: {exc}") from exc
        tool = self._tools.get(entry.what)
        if tool is None:
            raise BadOperation(f"{entry.where}: the server has no tool {entry.what!r}{_near(entry.what, self._tools)}")
        if entry.payload is None:
            return entry.arguments
        key = next((k for k, v in entry.arguments.items() if isinstance(v, str)), None)
        if key is None:
            properties = tool.input_schema.get("properties")
            if isinstance(properties, dict):
                free = [k for k in properties if k not in entry.arguments]
                key = next((k for k in free if _is_string(properties[k])), None)
        if key is None:
            raise BadOperation(f"{entry.where}: tool {entry.what!r} has no string argument that a payload could fill")
        return {**entry.arguments, key: _filler(entry.payload)}

    async def _verified(
        self, entry: Entry, method: str, name: str | None, body: bytes, arguments: bytes
    ) -> tuple[bytes | None, bytes | None]:
        """Makes the call once. Gives the text to look for as this server writes it in JSON, and the list that its
        results have."""
        try:
            raw: bytes = await self.client._request(method, body, _as_is, None, name=name, arguments=arguments)
        except RpcError as exc:
            more = f": {json.dumps(exc.data, ensure_ascii=False, default=str)[:200]}" if exc.data is not None else ""
            hint = await self._hint(entry) if exc.code in (INVALID_PARAMS, -32002) else ""
            raise BadOperation(f"{entry.where}: {entry.name}: the server answers {exc}{more}{hint}") from exc
        except HeadraceError as exc:
            raise BadOperation(f"{entry.where}: {entry.name}: {exc}") from exc
        result = msgspec.json.decode(raw)
        shown = raw[:300].decode("utf-8", "replace")
        if not isinstance(result, dict):
            raise BadOperation(f"{entry.where}: {entry.name}: the result is not an object: {shown}")
        if result.get("isError") is True:
            raise BadOperation(f"{entry.where}: {entry.name}: the tool fails: {_text_of(result) or shown}")
        if result.get("resultType", "complete") != "complete":
            raise BadOperation(
                f"{entry.where}: {entry.name}: the server asks for input or makes a task of it, "
                "which cannot be measured"
            )
        member = _MEMBERS.get(method)
        if member is not None and not isinstance(result.get(member.decode()), list):
            member = None
        if entry.expect is None:
            return None, member
        for form in _forms(entry.expect):
            if fault_of(raw, form) is None:
                return form, member
        raise BadOperation(f"{entry.where}: {entry.name}: {entry.expect!r} is not in the answer: {shown}")

    async def _hint(self, entry: Entry) -> str:
        try:
            if entry.kind == "prompt":
                return _near(entry.what, {p.name: p for p in await self.client.list_prompts()})
            if entry.kind == "read":
                return _near(entry.what, {r.uri: r for r in await self.client.list_resources()})
        except HeadraceError:
            pass
        return ""


def _as_is(raw: bytes) -> bytes:
    return raw


def _near(name: str, known: dict[str, Any]) -> str:
    if name in known:
        return ""
    import difflib

    near = difflib.get_close_matches(name, known, 3) or [one for one in known if one.lower() == name.lower()]
    if near:
        return f"; did you mean {' or '.join(repr(one) for one in near)}?"
    if not known:
        return "; it has none"
    more = f" and {len(known) - _LISTED} more" if len(known) > _LISTED else ""
    return f"; it has {', '.join(list(known)[:_LISTED])}{more}"


def _is_string(schema: Any) -> bool:
    kind = schema.get("type") if isinstance(schema, dict) else None
    return kind == "string" or (isinstance(kind, list) and "string" in kind)


def _filler(size: int) -> str:
    """``size`` bytes of text that no escape makes longer."""
    line = "The quick brown fox jumps over the lazy dog. "
    return (line * (size // len(line) + 1))[:size]


def _forms(text: str) -> tuple[bytes, ...]:
    """How a text may stand in JSON: as it is, with other letters escaped, inside of a JSON text that is a string."""
    once = encode(text)[1:-1]
    plain = json.dumps(text)[1:-1]
    return (once, plain.encode(), encode(once.decode())[1:-1], encode(plain)[1:-1], json.dumps(plain)[1:-1].encode())


def _text_of(result: dict[str, Any]) -> str:
    content = result.get("content")
    texts = [c.get("text") for c in content if isinstance(c, dict)] if isinstance(content, list) else []
    return " ".join(t for t in texts if isinstance(t, str))[:300]
