"""The legs that headrace adds to the interaction suite: each connects a client to a server object over one transport.

They take what the suite's own factories take. On line transports the client is the SDK's on our dispatcher; over HTTP
it is the SDK's over our transport, and over its own.
"""

import asyncio
import contextlib
import os
import socket
import tempfile
from collections.abc import Callable
from dataclasses import dataclass

import anyio
import uvicorn
from dual_era import serve_dispatcher
from mcp.client.client import Client
from mcp.client.streamable_http import streamable_http_client
from mcp.server.mcpserver import MCPServer
from mcp_types.version import LATEST_HANDSHAKE_VERSION, MODERN_PROTOCOL_VERSIONS

from headrace.integrations.mcp_sdk import (
    HeadraceDispatcher,
    connect,
    host_of,
    http_transport,
    links,
    memory_dispatchers,
    serve,
)
from headrace.transports._fdio import FdTransport
from headrace.transports._link import LineLink

LEGS = {}


@dataclass(frozen=True)
class Leg:
    """A leg: its factory, and the suite's own leg whose requirements hold for it."""

    name: str
    like: str
    factory: Callable


def leg(name, like):
    def add(factory):
        LEGS[name] = Leg(name, like, factory)
        return factory

    return add


def lowlevel(server):
    return server._lowlevel_server if isinstance(server, MCPServer) else server


class _Unused:
    """Stands where a client wants a transport; it gets a dispatcher instead."""

    async def __aenter__(self):
        raise AssertionError("the client opened a transport of its own")

    async def __aexit__(self, *_):
        """Never entered."""


def client_on(dispatcher, spec_version, **options):
    """A client of the SDK whose session speaks through `dispatcher`."""
    client = Client(_Unused(), mode=mode_of(spec_version), **options)

    async def connector(exit_stack, mode, raise_exceptions):
        return dispatcher

    client._connect = connector
    return client


def mode_of(spec_version):
    return spec_version if spec_version in MODERN_PROTOCOL_VERSIONS else "legacy"


@contextlib.asynccontextmanager
async def _hosted(server, **options):
    """`serve(server, ...)` in a task; gives the first address."""

    async def hosting(*, task_status):
        await serve(server, on_ready=lambda addresses: task_status.started(addresses[0]), **options)

    async with anyio.create_task_group() as tg:
        yield await tg.start(hosting)
        tg.cancel_scope.cancel()


@leg("headrace-memory", like="in-memory")
@contextlib.asynccontextmanager
async def over_memory(server, *, spec_version=LATEST_HANDSHAKE_VERSION, **options):
    """Our dispatcher on both sides."""
    client, served = memory_dispatchers(server={"inline_methods": frozenset({"initialize"})})
    async with anyio.create_task_group() as tg:
        tg.start_soon(serve_dispatcher, lowlevel(server), served)
        async with client_on(client, spec_version, **options) as connected:
            yield connected


@leg("headrace-stdio", like="in-memory")
@contextlib.asynccontextmanager
async def over_stdio(server, *, spec_version=LATEST_HANDSHAKE_VERSION, **options):
    """Two pipes within one process, a hosted server at the other end."""
    from_client, to_server = os.pipe()
    from_server, to_client = os.pipe()
    host = host_of(server)
    async with host.running():
        session, mux = host.new_session()
        session.sink = link = LineLink(mux, host.limits)
        FdTransport(asyncio.get_running_loop(), link, from_client, to_client).start()
        client = HeadraceDispatcher(links.pipes(from_server, to_server, serves=False))
        try:
            async with client_on(client, spec_version, **options) as connected:
                yield connected
        finally:
            link.abort()


@leg("headrace-unix", like="in-memory")
@contextlib.asynccontextmanager
async def over_unix(server, *, spec_version=LATEST_HANDSHAKE_VERSION, **options):
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "socket")
        client = HeadraceDispatcher(links.unix(path))
        async with _hosted(server, unix=path), client_on(client, spec_version, **options) as connected:
            yield connected


@contextlib.asynccontextmanager
async def _their_host(server, **options):
    """The SDK's own web application under uvicorn."""
    app = lowlevel(server).streamable_http_app(**options)
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        config = uvicorn.Config(app, log_level="error", lifespan="on", timeout_graceful_shutdown=1)
        web = uvicorn.Server(config)
        web.install_signal_handlers = lambda: None
        web.capture_signals = contextlib.nullcontext
        async with anyio.create_task_group() as tg:
            tg.start_soon(web.serve, [listener])
            while not web.started:
                await anyio.sleep(0.005)
            try:
                yield f"http://127.0.0.1:{listener.getsockname()[1]}/mcp"
            finally:
                web.should_exit = True


def _over_http(name, like, client, host=_hosted, **settings):
    @leg(name, like=like)
    @contextlib.asynccontextmanager
    async def over_http(server, *, spec_version=LATEST_HANDSHAKE_VERSION, **options):
        async with (
            host(server, **settings) as url,
            client(url, mode=mode_of(spec_version), **options) as connected,
        ):
            yield connected


def _streams(url, **options):
    return Client(http_transport(url), **options)


def _theirs(url, **options):
    return Client(streamable_http_client(url), **options)


OURS = {"http": "127.0.0.1:0"}
_over_http("headrace-http", "streamable-http", connect, **OURS)
_over_http("headrace-http-streams", "streamable-http", _streams, **OURS)
_over_http("headrace-http-their-client", "streamable-http", _theirs, **OURS)
_over_http("headrace-http-their-host", "streamable-http", connect, _their_host)
_over_http("headrace-http-stateless", "streamable-http-stateless", connect, **OURS, stateless=True)
_over_http("headrace-http-stateless-their-client", "streamable-http-stateless", _theirs, **OURS, stateless=True)
