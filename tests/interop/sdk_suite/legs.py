"""The legs that headrace adds to the interaction suite: each connects a client to a server object over one transport.

They take what the suite's own factories take. On line transports the client is the SDK's on our dispatcher; over HTTP
it is the SDK's over our transport, and over its own.
"""

import contextlib
import os
import socket
from collections.abc import Callable
from dataclasses import dataclass

import anyio
from dual_era import serve_dispatcher
from mcp.client.client import Client
from mcp.server.mcpserver import MCPServer
from mcp_types.version import LATEST_HANDSHAKE_VERSION, MODERN_PROTOCOL_VERSIONS

from headrace.integrations.mcp_sdk import HeadraceDispatcher, links, memory_dispatchers

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
        raise NotImplementedError

    async def __aexit__(self, *_):
        raise NotImplementedError


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
async def _pair(server, client, served, spec_version, options):
    async with anyio.create_task_group() as tg:
        tg.start_soon(serve_dispatcher, lowlevel(server), served)
        async with client_on(client, spec_version, **options) as connected:
            yield connected


INLINE = frozenset({"initialize"})


@leg("headrace-memory", like="in-memory")
@contextlib.asynccontextmanager
async def over_memory(server, *, spec_version=LATEST_HANDSHAKE_VERSION, **options):
    client, served = memory_dispatchers(server={"inline_methods": INLINE})
    async with _pair(server, client, served, spec_version, options) as connected:
        yield connected


@leg("headrace-stdio", like="in-memory")
@contextlib.asynccontextmanager
async def over_stdio(server, *, spec_version=LATEST_HANDSHAKE_VERSION, **options):
    """Two pipes within one process."""
    from_client, to_server = os.pipe()
    from_server, to_client = os.pipe()
    client = HeadraceDispatcher(links.pipes(from_server, to_server, serves=False))
    served = HeadraceDispatcher(links.pipes(from_client, to_client), inline_methods=INLINE)
    async with _pair(server, client, served, spec_version, options) as connected:
        yield connected


@leg("headrace-unix", like="in-memory")
@contextlib.asynccontextmanager
async def over_unix(server, *, spec_version=LATEST_HANDSHAKE_VERSION, **options):
    ours, theirs = socket.socketpair()
    client = HeadraceDispatcher(links.sock(ours, serves=False))
    served = HeadraceDispatcher(links.sock(theirs), inline_methods=INLINE)
    async with _pair(server, client, served, spec_version, options) as connected:
        yield connected
