"""Embedding: the same server object of another SDK under its own host and under headrace, and the official SDK's client
on its own transports and on ours. Every answer is checked first; the two hosts take turns in every round."""

from __future__ import annotations

import contextlib
import json
import os
import sys
from collections.abc import Callable
from dataclasses import dataclass

from contenders import PEERS, PEERS_1_PYTHON, Peer, ours
from harness import HERE, PEERS_PYTHON, Subject, interleave, one_line, peer_version
from messages import modern_call, open_session, session_call
from profile_embed import shares_of
from record import Record
from rows_client import run_client
from rows_http import ARGUMENTS, subject
from rows_lines import subject as line_subject
from verify import over_http, over_pipes

IN_FLIGHT = 100
WARM = 100
"""Calls before the measured ones on stdio, where every round is a process of its own: what is imported at the first call
is no part of a call."""
ERAS = {"session": "2025-11-25 in a session", "modern": "2026-07-28"}
HOSTS = {"theirs": "its own host", "ours": "headrace"}


@dataclass(frozen=True)
class Guest:
    """A server of another SDK in one of its modes, in one era of the protocol."""

    name: str
    script: str
    mode: str
    era: str
    level: str = ""
    package: str = "mcp"
    python: str = PEERS_PYTHON
    http: float | None = None
    """How many times less CPU headrace is asked to need over HTTP."""
    stdio: float | None = None
    """The same on stdio, 0 for a row without a mark; None: not measured there."""

    @property
    def title(self) -> str:
        return f"{self.name}, {'fastest' if self.mode == 'fast' else 'default'} mode, {ERAS[self.era]}"

    def peer(self, by: str) -> Peer:
        """The guest as the other benchmarks know servers."""
        more = tuple(filter(None, (self.mode, self.level, by)))
        return Peer(
            f"{self.title}: {HOSTS[by]}", f"{self.title}: {HOSTS[by]}", lambda: [self.python, str(PEERS / self.script)],
            lambda: peer_version(self.package, self.python), http=more, stdio=more, era=self.era,
        )  # fmt: skip


def _sdk(level: str, name: str, mode: str, era: str, **marks: float | None) -> Guest:
    return Guest(name, "sdk_server.py", mode, era, level, **marks)  # type: ignore[arg-type]


GUESTS = [
    _sdk("high", "MCPServer", "default", "session", http=4, stdio=5),
    _sdk("high", "MCPServer", "default", "modern", http=4, stdio=5),
    _sdk("high", "MCPServer", "fast", "modern", http=1.6),
    _sdk("low", "low-level Server", "default", "session", http=4, stdio=5),
    _sdk("low", "low-level Server", "default", "modern", http=4, stdio=5),
    _sdk("low", "low-level Server", "fast", "modern", http=1.6),
    Guest("FastMCP 4", "fastmcp_server.py", "default", "session", package="fastmcp", http=4, stdio=5),
    Guest("FastMCP 4", "fastmcp_server.py", "default", "modern", package="fastmcp", http=4),
    Guest("FastMCP of SDK 1", "sdk1_server.py", "default", "session", "high", python=PEERS_1_PYTHON, stdio=0),
    Guest("low-level Server of SDK 1", "sdk1_server.py", "default", "session", "low", python=PEERS_1_PYTHON, stdio=0),
]  # fmt: skip


def _both(record: Record, guest: Guest, make: Callable[[Peer], Subject]) -> tuple[Subject, Subject] | None:
    """The guest under both hosts; what cannot be started or answers wrongly is one line."""
    found = []
    for by in HOSTS:
        peer = guest.peer(by)
        try:
            found.append(make(peer))
        except (RuntimeError, OSError, ValueError) as error:
            record.leave_out(f"{peer.name}: {one_line(error)}")
    return (found[0], found[1]) if len(found) == 2 else None


def _compared(record: Record, group: str, pairs: list[tuple[Guest, tuple[Subject, Subject] | None, float | None]]) -> None:
    for guest, pair, limit in pairs:
        what = f"{guest.title}: its own host needs more by"
        if limit and pair is None:
            record.unmeasured(group, what, f">= {limit:g} x")
        elif limit and pair is not None:
            record.ratio(group, what, *pair, limit, least=True)


def http(record: Record) -> None:
    """64 connections, tools/call of about 150 bytes."""
    with contextlib.ExitStack() as stack:

        def make(peer: Peer) -> Subject:
            place = stack.enter_context(peer.listening())
            over_http(peer, place)
            modern = peer.era == "modern"
            request = modern_call("echo", ARGUMENTS) if modern else session_call(open_session(place.port), "echo", ARGUMENTS)
            group = "headrace" if peer.name.endswith(HOSTS["ours"]) else "peer"
            return subject(peer.name, place, request, connections=64, seconds=record.seconds, group=group)

        for guest in GUESTS:
            if version := guest.peer("ours").version():
                record.versions[{"mcp": "official Python SDK"}.get(guest.package, guest.package) + (" 1" if "SDK 1" in guest.name else "")] = version
        pairs = [(guest, _both(record, guest, make), guest.http) for guest in GUESTS]
        record.measure("embed-http", "HTTP tools/call of about 150 B, 64 connections", [s for _, pair, _ in pairs for s in pair or ()])
    _compared(record, "Embedding, HTTP", pairs)


def stdio(record: Record) -> None:
    """100 calls in flight."""

    def make(peer: Peer) -> Subject:
        command = peer.on_pipes()
        over_pipes(command, {**os.environ, **peer.env})
        group = "headrace" if peer.name.endswith(HOSTS["ours"]) else "peer"
        return line_subject(peer.name, command, modern=peer.era == "modern", in_flight=IN_FLIGHT, seconds=record.seconds, group=group, warm=WARM)

    pairs = [(guest, _both(record, guest, make), guest.stdio) for guest in GUESTS if guest.stdio is not None]
    record.measure("embed-stdio", f"stdio tools/call of about 150 B, {IN_FLIGHT} in flight", [s for _, pair, _ in pairs for s in pair or ()])
    _compared(record, "Embedding, stdio", pairs)


WAYS = {"theirs": "its own transport", "streams": "headrace's transport", "dispatcher": "headrace's dispatcher"}


def client(record: Record) -> None:
    """`mcp.Client.call_tool` against a server of headrace: CPU of the client."""
    seconds = record.seconds if record.quick else max(record.seconds, 2.0)
    rows: dict[str, dict[str, Subject]] = {}
    with ours().listening() as place:
        command = ["env", f"PYTHONPATH={os.environ['PYTHONPATH']}", *ours().on_pipes()]
        targets = {"HTTP": {"url": f"http://127.0.0.1:{place.port}/mcp"}, "stdio": {"command": command}}
        for where, target in targets.items():
            for in_flight in (1, IN_FLIGHT):
                rows[f"mcp.Client over {where}, {in_flight} in flight"] = found = {}
                for how, way in WAYS.items():
                    job = json.dumps({"how": how, "in_flight": in_flight, "seconds": seconds, **target})
                    found[how] = _client(f"mcp.Client over {where}, {in_flight} in flight: {way}", job)
        subjects = [subject for found in rows.values() for subject in found.values()]
        interleave(subjects, record.rounds, record.until)
    title = "mcp.Client.call_tool against one server, CPU of the client"
    print(title)
    width = max(len(s.name) for s in subjects)
    lines = []
    for s in subjects:
        if s.failed:
            record.leave_out(f"{s.name}: {s.failed}")
        if s.rounds:
            lines.append({"name": s.name, "group": s.group, "rounds": len(s.rounds), "cpu_us": round(s.median("client_cpu_us"), 3),
                          "per_second": round(s.median("per_second"), 1),
                          "cpu_us_rounds": [round(r["client_cpu_us"], 3) for r in s.rounds]})  # fmt: skip
            print(f"  {s.name:<{width}}{lines[-1]['cpu_us']:>11,.2f} us CPU{lines[-1]['per_second']:>12,.0f} calls/s")
    record.tables.append({"id": "embed-client", "title": title, "rows": lines})
    print(flush=True)
    for what, found in rows.items():
        for how in ("streams", "dispatcher"):
            mark = f"{what}: its own transport needs more than {WAYS[how]} by"
            record.ratio("Embedding, client", mark, found["theirs"], found[how], 3, key="client_cpu_us", least=True)


def _client(name: str, job: str) -> Subject:
    command = [PEERS_PYTHON, str(HERE / "peers" / "embed_client.py"), job]
    return Subject(name, lambda: run_client(command), "peer" if name.endswith(WAYS["theirs"]) else "headrace")


PLAIN = "plain"
PROFILED = ("MCPServer", "FastMCP 4")
NOT_PROFILED = 3.5
"""Seconds of load before a profile begins, and some for the start: see peers/sdk_hosting.py."""


def profile(record: Record) -> None:
    """Where the time of a hosted call goes: what carrying costs is measured with a handler that does nothing, the rest is
    divided as cProfile sees it."""
    for name in PROFILED:
        guest = next(each for each in GUESTS if each.name == name and each.era == "session")
        for where in ("HTTP", "stdio"):
            _profile(record, where, guest)


def _profile(record: Record, where: str, guest: Guest) -> None:
    plain = Peer(PLAIN, "a handler that does nothing", lambda: [sys.executable, str(PEERS / "plain_host.py")], lambda: "")
    hosted = guest.peer("ours")
    with contextlib.ExitStack() as stack:
        both = [_loaded(stack, peer, where, record.seconds) for peer in (hosted, plain)]
        interleave(both, min(record.rounds, 2), record.until)
        total, carrying = (s.median("server_cpu_us") for s in both)

    def load(peer: Peer) -> None:
        with contextlib.ExitStack() as stack:
            _loaded(stack, peer, where, record.seconds + NOT_PROFILED).measure()

    rest = max(total - carrying, 0.0)
    rows = [{"name": "carrying: framing, JSON, session (headrace)", "cpu_us": round(carrying, 2)}]
    rows += [{"name": name, "cpu_us": round(rest * share, 2)} for name, share in shares_of(hosted, where, load).items()]
    rows.append({"name": "together", "cpu_us": round(total, 2)})
    title = f"Where the time of a call goes, {guest.title} on headrace, {where}"
    print(title)
    for row in rows:
        print(f"  {row['name']:<58}{row['cpu_us']:>11,.2f} us CPU")
    print(flush=True)
    record.tables.append({"id": "embed-profile", "of": f"{guest.name}, {where}", "title": title, "rows": rows})


def _loaded(stack: contextlib.ExitStack, peer: Peer, where: str, seconds: float) -> Subject:
    """A server under the load of its row, until ``stack`` ends."""
    if where == "stdio":
        return line_subject(peer.name, peer.on_pipes(), in_flight=IN_FLIGHT, seconds=seconds, env=peer.env, warm=WARM)
    place = stack.enter_context(peer.listening())
    if peer.key != PLAIN:
        over_http(peer, place)
    return subject(peer.name, place, session_call(open_session(place.port), "echo", ARGUMENTS), connections=64, seconds=seconds)
