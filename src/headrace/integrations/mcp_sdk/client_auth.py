"""What an httpx client and an auth object give to requests that headrace sends itself.

Strategy: headers, cookies, timeouts and a Basic user are read once. Event hooks and auth flows need a request and
an answer to look at, so where there are such ones each message is put before them as a request of httpx that is never
sent: what they put into its headers goes out with ours, and they are given the head of our answer. Requests that a
flow makes itself go through httpx. An OAuth provider of the SDK with a valid token is asked for nothing but that.

Private names of others that are looked at, each with a way on where it is missing: ``_initialized`` of the provider
(its flow is run instead); ``_transport_for_url``, ``_transport``, ``_pool`` and ``_ssl_context`` of an httpx client (it
is taken for an ordinary one).
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping
from importlib import import_module
from typing import Any, TypeVar

from headrace._version import __version__
from headrace.errors import HttpStatusError, LocalProtocolError, RpcError, UsageError
from headrace.integrations.mcp_sdk.require import GENERATION
from headrace.transports.http_dial import OWN_FIELDS
from headrace.wire._http1 import header_line

httpx: Any = import_module("httpx2" if GENERATION == 2 else "httpx")

__all__ = ("Bridge", "httpx")

T = TypeVar("T")

_OURS = OWN_FIELDS | {"accept-encoding", "host"}  # header fields that a client of httpx has no say in


class Bridge:
    """The headers of one transport's requests, and who has a say in them.

    ``target`` is the endpoint's URL without a user, ``url`` the one that flows see; ``timeout`` httpx's timeouts or
    None, ``ssl`` the TLS context that the client verifies with, or None.
    """

    def __init__(self, url: str, *, headers: Mapping[str, str] | None, http_client: Any, auth: Any) -> None:
        self._client = http_client
        self._owned: Any = None
        self._lines: dict[tuple[str, str], bytes] = {}
        self._heads: dict[int, asyncio.Future[tuple[int, bytes]]] = {}
        if http_client is not None and getattr(http_client, "is_closed", False):
            raise RuntimeError("the http_client is closed")
        plain = url.startswith(("unix:", "http+unix:"))  # httpx knows no such URLs
        shown = "http://localhost/mcp" if plain else url
        build = httpx.Request if http_client is None else http_client.build_request
        request = build("POST", shown, headers=dict(headers or {}))
        self.url = str(request.url.copy_with(userinfo=b"", fragment=None))
        self.target = url if plain else self.url
        if http_client is not None:
            _check_transport(http_client, request.url)
        self.timeout = None if http_client is None else http_client.timeout
        self.ssl = _tls_context(http_client)
        self._cookies = httpx.Cookies() if http_client is None else http_client.cookies
        self._headers = httpx.Headers(
            [(k, v) for k, v in request.headers.multi_items() if _theirs(k) and k.lower() != "cookie"]
        )
        self._headers.setdefault("User-Agent", f"headrace/{__version__}")
        given = [headers or {}] + ([] if http_client is None else [http_client.headers])
        self._host = next((value for each in given for name, value in each.items() if name.lower() == "host"), None)
        names = {name.lower() for name in self._headers} | {"authorization", "cookie"}
        self._names = names | {name.title() for name in names}
        if auth is None and http_client is not None:
            auth = http_client.auth
        if auth is None and request.url.userinfo:
            auth = httpx.BasicAuth(request.url.username, request.url.password)
        self.auth = _auth_of(auth)
        if type(self.auth) is httpx.BasicAuth:
            signed = next(self.auth.auth_flow(httpx.Request("POST", shown)))
            self._headers["Authorization"] = signed.headers["Authorization"]
            self.auth = None
        self._provider = self.auth if _is_provider(self.auth) else None
        hooks = {} if http_client is None else http_client.event_hooks
        self._on_request = list(hooks.get("request") or ())
        self._on_response = list(hooks.get("response") or ())
        self._token: str | None = None
        self.channel: Any = None

    def attach(self, channel: Any) -> None:
        """The channel whose answers are watched."""
        self.channel = channel
        channel.watcher = self._watch
        self._renew()

    async def aclose(self) -> None:
        """Closes the client that was made for a flow's own requests."""
        owned, self._owned = self._owned, None
        if owned is not None:
            await owned.aclose()

    # --- header lines ---------------------------------------------------------------------------------

    def line(self, name: str, value: str) -> bytes:
        """One prepared header line. Raises LocalProtocolError for what is none."""
        line = self._lines.get((name, value))
        if line is None:
            if len(self._lines) > 1000:
                self._lines.clear()
            line = self._lines[name, value] = header_line(name, value)
        return line

    def fields(self) -> list[tuple[str, str]]:
        """The user's header fields with the cookies of now."""
        fields = list(self._headers.multi_items())
        request = httpx.Request("POST", self.url)
        self._cookies.set_cookie_header(request)
        if "cookie" in request.headers:
            fields.append(("Cookie", request.headers["cookie"]))
        if self._host is not None:
            fields.append(("Host", self._host))
        if self._token is not None:
            fields = [field for field in fields if field[0].lower() != "authorization"]
            fields.append(("Authorization", f"Bearer {self._token}"))
        return fields

    def replaces(self, headers: Mapping[str, str]) -> bool:
        """Whether a message's own headers stand in place of the user's."""
        return not self._names.isdisjoint(headers)

    def own(self, headers: Mapping[str, str]) -> bytes:
        """The user's header lines without those that ``headers`` replace."""
        replaced = {name.lower() for name in headers}
        return self._join([field for field in self.fields() if field[0].lower() not in replaced | {"host"}])

    def _join(self, fields: list[tuple[str, str]]) -> bytes:
        return b"".join(self.line(name, value) for name, value in fields) + b""

    def _renew(self) -> None:
        if self.channel is not None:
            self.channel.set_headers(self.fields())

    # --- answers --------------------------------------------------------------------------------------

    def _watch(self, request: Any, status: int, lines: bytes) -> None:
        """The head of an answer came."""
        head = self._heads.pop(id(request.own), None)
        if head is not None and not head.done():
            head.set_result((status, lines))
        fields = _parse(lines)
        if any(name.lower() == b"set-cookie" for name, _ in fields):
            answer = httpx.Response(status, headers=fields, request=httpx.Request("POST", self.url))
            self._cookies.extract_cookies(answer)
            self._renew()

    # --- flows ----------------------------------------------------------------------------------------

    @property
    def direct(self) -> bool:
        """Whether a message may go out as it is: nobody wants to see it, or the token is at hand."""
        if self._on_request or self._on_response:
            return False
        if self.auth is None:
            return True
        provider = self._provider
        if provider is None or not getattr(provider, "_initialized", False):
            return False
        context = provider.context
        if not context.is_token_valid():
            return False
        token: str = context.current_tokens.access_token
        if token != self._token:
            self._token = token
            self._renew()
        return True

    def disputes(self, exc: BaseException) -> bool:
        """Whether the auth flow has something to say to this failure of a message that went out directly."""
        return self.auth is not None and _status_of(exc) in (401, 403)

    async def send(
        self,
        verb: str,
        headers: Mapping[str, str],
        body: bytes | None,
        attempt: Callable[[bytes], Awaitable[T]],
        failed: BaseException | None = None,
    ) -> T:
        """Sends one message under the hooks and the flow; ``attempt(own)`` sends it with those header lines in place of
        the user's, and is awaited for what it gives or raises. ``failed`` is the outcome of a first attempt that
        has been made already.
        """
        request = httpx.Request(verb, self.url, headers=[*self.fields(), *headers.items()], content=body)
        # An attempt that a flow leaves behind for another one is over: its status was none of success.
        last: asyncio.Task[T] | None = None
        used = self._token
        original = failed
        flow: AsyncGenerator[Any, Any] | None = None if self.auth is None else self.auth.async_auth_flow(request)
        try:
            outgoing = request if flow is None else await flow.__anext__()
            while True:
                if outgoing is not request and (outgoing.url != request.url or outgoing.method != verb):
                    response = await self._elsewhere(outgoing)
                elif failed is not None and outgoing.headers.get("authorization") in (None, f"Bearer {used}"):
                    response, failed = _answer_of(failed, outgoing), None
                else:
                    failed = None
                    last, response = await self._try(outgoing, attempt)
                if flow is None:
                    break
                try:
                    outgoing = await flow.asend(response)
                except StopAsyncIteration:
                    break
                if last is not None and response.status_code < 400:
                    last.cancel()
        except BaseException:
            if last is not None:
                last.cancel()
            raise
        finally:
            if flow is not None:
                await flow.aclose()
            if self._provider is not None and (tokens := self._provider.context.current_tokens) is not None:
                self._token = tokens.access_token
                self._renew()
        if last is None:
            raise original or RuntimeError("the auth flow ended without sending the request")
        try:
            return await last
        except asyncio.CancelledError:
            last.cancel()
            raise

    async def _try(self, request: Any, attempt: Callable[[bytes], Awaitable[T]]) -> tuple[asyncio.Task[T], Any]:
        """One attempt; gives its task, and the answer as soon as its head is there and is none of failure."""
        for hook in self._on_request:
            await hook(request)
        own = b"".join(self.line(name, value) for name, value in request.headers.multi_items() if _theirs(name))
        loop = asyncio.get_running_loop()
        head: asyncio.Future[tuple[int, bytes]] = loop.create_future()
        self._heads[id(own)] = head

        async def run() -> T:
            return await attempt(own)

        task = loop.create_task(run())
        try:
            await asyncio.wait((task, head), return_when=asyncio.FIRST_COMPLETED)
            if head.done() and head.result()[0] >= 300:
                await asyncio.wait((task,))
            if task.done() and not task.cancelled() and (exc := task.exception()) is not None:
                response = _answer_of(exc, request)
            elif head.done():
                status, lines = head.result()
                response = httpx.Response(status, headers=_parse(lines), request=request, content=b"")
            else:
                response = httpx.Response(200, request=request, content=b"")
        except BaseException:
            task.cancel()
            raise
        finally:
            self._heads.pop(id(own), None)
        for hook in self._on_response:
            await hook(response)
        return task, response

    async def _elsewhere(self, request: Any) -> Any:
        """A request that the flow makes itself."""
        client = self._client or self._owned
        if client is None:
            client = self._owned = httpx.AsyncClient(cookies=self._cookies, timeout=httpx.Timeout(30.0, read=300.0))
        response = await client.send(request, auth=None, follow_redirects=False)
        await response.aread()
        return response


def _theirs(name: str) -> bool:
    low = name.lower()
    return low not in _OURS and not low.startswith("mcp-param-")


def _parse(lines: bytes) -> list[tuple[bytes, bytes]]:
    fields = []
    for line in lines.split(b"\r\n"):
        name, colon, value = line.partition(b":")
        if colon and name.lower() not in (b"content-encoding", b"content-length", b"transfer-encoding"):
            fields.append((name, value.strip()))
    return fields


def _status_of(exc: BaseException) -> int | None:
    if isinstance(exc, HttpStatusError):
        return exc.status
    return exc.http_status if isinstance(exc, RpcError) else None


def _answer_of(exc: BaseException, request: Any) -> Any:
    """The answer that a failure stands for, as httpx has them. Raises ``exc`` where it is no answer."""
    if isinstance(exc, HttpStatusError):
        return httpx.Response(exc.status, headers=exc.headers, request=request, content=exc.body.encode())
    if isinstance(exc, RpcError):
        return httpx.Response(exc.http_status or 200, request=request, content=b"")
    raise exc


def _auth_of(auth: Any) -> Any:
    if auth is None or isinstance(auth, httpx.Auth):
        return auth
    if isinstance(auth, tuple):
        return httpx.BasicAuth(*auth)
    if callable(auth):
        return httpx.FunctionAuth(auth) if hasattr(httpx, "FunctionAuth") else httpx._auth.FunctionAuth(auth)
    raise TypeError(f"auth is an {httpx.__name__}.Auth, not {type(auth).__name__}")


def _is_provider(auth: Any) -> bool:
    """Whether this is the SDK's OAuth provider with its own flow."""
    if auth is None:
        return False
    from mcp.client.auth import OAuthClientProvider

    return isinstance(auth, OAuthClientProvider) and all(
        getattr(type(auth), name, None) is getattr(OAuthClientProvider, name, None)
        for name in ("async_auth_flow", "_auth_flow", "_add_auth_header")
    )


def _transport_of(client: Any, url: Any) -> Any:
    find = getattr(client, "_transport_for_url", None)
    return find(url) if find is not None else getattr(client, "_transport", None)


def _check_transport(client: Any, url: Any) -> None:
    """A client that sends in a way of its own (a proxy, a mock, an application in memory) cannot be stood in for."""
    transport = _transport_of(client, url)
    if transport is None:
        return
    pool = getattr(transport, "_pool", None)
    if not isinstance(transport, httpx.AsyncHTTPTransport) or "Proxy" in type(pool).__name__:
        raise UsageError(
            "the http_client sends through a transport of its own or a proxy, and headrace opens its connections"
            " itself; use the SDK's streamable_http_client with such a client"
        )


def _tls_context(client: Any) -> Any:
    pool = getattr(getattr(client, "_transport", None), "_pool", None)
    return getattr(pool, "_ssl_context", None)


def check_headers(headers: Mapping[str, str] | None) -> None:
    """Raises UsageError for what no header can be."""
    for name, value in (headers or {}).items():
        try:
            header_line(name, value)
        except (LocalProtocolError, TypeError) as exc:
            raise UsageError(f"headers: {exc}") from None
