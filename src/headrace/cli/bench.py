"""``headrace bench``: how fast a server answers, with every answer checked."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import shlex
import signal
import sys
from typing import IO, TYPE_CHECKING, Any

import click

from headrace.cli.app import Failure, complain
from headrace.cli.arguments import arguments_of, check_names, parse_pair
from headrace.cli.bench_values import COUNT, RATE, SECONDS, SIZE, WARMUP
from headrace.cli.call import base_arguments
from headrace.cli.nearest import nearest
from headrace.cli.peers import peer_of, plain_failures

if TYPE_CHECKING:
    from headrace.bench.operations import Prepared
    from headrace.bench.report import Report
    from headrace.bench.run import Stop
    from headrace.bench.scenario import Entry
    from headrace.cli.bench_table import Live

__all__ = ("command",)

_HELP = """Measure SERVER, or the command behind "--": calls per second, latency, errors, the server's CPU per call.

\b
  headrace bench http://127.0.0.1:8000/mcp                 lists tools, to have a look
  headrace bench http://127.0.0.1:8000/mcp --tool echo --args '{"text": "x"}' --connections 64
  headrace bench http://127.0.0.1:8000/mcp echo text=x --expect x
  headrace bench echo text=x --in-flight 1000 -- headrace serve demo.py
  headrace bench --tool echo --args '{"text": "x"}' -- library.py:mcp     hosted by serve
  headrace bench http://127.0.0.1:8000/mcp --tool echo --payload 64k --requests 10k
  headrace bench http://127.0.0.1:8000/mcp --tool echo --rate 2000/s --duration 1m
  headrace bench http://127.0.0.1:8000/mcp --scenario mix.toml --pid 4242 --html report.html

Before and after a change, and what of it is noise:

\b
  headrace bench URL --tool echo --json before.json
  headrace bench URL --tool echo --compare before.json
  headrace bench --compare before.json after.json --html report.html

Without --rate a call leaves when the one before it is answered (closed loop). With --rate calls are due by the
clock, and one that had to wait counts from when it was due: that is what users of a server wait.

Exit status: 0 every answer right, 1 some call failed, 2 bad usage, 130 ended by Ctrl-C and 143 by SIGTERM (what was
measured is shown).
"""

_OPTIONS = (
    click.option("--tool", metavar="NAME", help="Call this tool. Default: list the tools."),
    click.option("--args", "args_json", metavar="JSON", help="Its arguments as a JSON object, or @FILE."),
    click.option("--scenario", metavar="FILE", help="A weighted mix of operations, TOML or JSON (docs/bench.md)."),
    click.option("--expect", metavar="TEXT", help="Text that every answer of the tool must hold."),
    click.option("--payload", type=SIZE, metavar="BYTES", help="Fill the tool's first text argument: 1000, 64k, 1m."),
    click.option("-c", "--connections", type=COUNT, metavar="N", help="Connections. Default 32 over HTTP, else 1."),
    click.option("--in-flight", type=COUNT, metavar="N", help="Calls in flight on each (not HTTP). Default 32."),
    click.option("-d", "--duration", type=SECONDS, metavar="TIME", help="500ms, 10s, 2m, 1h. Default 10s."),
    click.option("-n", "--requests", type=COUNT, metavar="N", help="End after this many, such as 5000 or 10k."),
    click.option("-r", "--rate", type=RATE, metavar="N[/s]", help="Calls a second over all connections (open loop)."),
    click.option("--warmup", type=WARMUP, metavar="TIME", help="Not measured, before. Default 1s, 0 with --requests."),
    click.option("--processes", type=COUNT, metavar="N", default="1", help="Load processes. Default 1."),
    click.option("--seed", type=int, metavar="N", default=0, help="Of the order of operations. Default 0."),
    click.option("--pid", type=int, metavar="PID", help="The server's process on this machine: its CPU and memory."),
    click.option("-H", "--header", metavar="NAME=VALUE", multiple=True, help="HTTP header of each request."),
    click.option("--timeout", type=SECONDS, metavar="TIME", help="Limit of each call. Default 30s."),
    click.option("--revision", metavar="DATE", help="Speak this protocol revision instead of finding out."),
    click.option("--config", metavar="FILE", help='JSON with {"mcpServers": {NAME: ...}}; SERVER may be a NAME.'),
    click.option("--input", metavar="ID=VALUE", multiple=True, help="What ${input:ID} of a --config file is."),
    click.option("--json", "json_file", metavar="FILE", help="Write the report as JSON; - is standard output."),
    click.option("--html", "html_file", metavar="FILE", help="Write it as a page with charts; - is standard output."),
    click.option("--compare", metavar="FILE", multiple=True, help="Compare with this report, or two with each other."),
    click.option("--progress/--no-progress", default=None, help="Show a live line (default: on a terminal)."),
    click.option("--stderr", "show_stderr", is_flag=True, help="Show what a command writes to its stderr."),
    click.option("--traceback", "with_traceback", is_flag=True, help="Show tracebacks of failures."),
)  # fmt: skip


@click.command("bench", help=_HELP, short_help="Measure how fast a server answers.")
@click.argument("words", nargs=-1, metavar="[SERVER] [TOOL] [KEY=VALUE]...")
@click.pass_context
def command(ctx: click.Context, /, words: tuple[str, ...], **options: Any) -> int:
    files = list(options.pop("compare"))
    rest = list(words)
    if files and ctx.obj is None and all(_is_report(word) for word in rest):
        files, rest = [*files, *rest], []
    if options["json_file"] == "-" and options["html_file"] == "-":
        raise click.UsageError("--json and --html cannot both be standard output", ctx)
    if len(files) > 2:
        raise click.UsageError(f"--compare takes one or two reports, not {len(files)}", ctx)
    reports = [_read(path) for path in files]
    if not rest and ctx.obj is None:
        if len(reports) == 2:
            return _compare_files(reports, files, options)
        if reports:
            raise click.UsageError("--compare: name the second report, or a server to measure", ctx)
    if len(reports) > 1:
        raise click.UsageError("--compare with a server takes one report: that of the run before", ctx)
    return _Bench(ctx, rest, options).measure(reports[0] if reports else None, files[0] if files else "")


for _option in _OPTIONS:
    command = _option(command)


def _is_report(word: str) -> bool:
    return word.endswith(".json") or (os.path.isfile(word) and not word.endswith(".py"))


def _read(path: str) -> Report:
    from headrace.bench.report import BadReport, read_report

    try:
        with open(path, "rb") as file:
            return read_report(file.read(), path)
    except OSError as exc:
        raise click.UsageError(f"--compare {path}: {exc.strerror}") from None
    except BadReport as exc:
        raise click.UsageError(f"--compare {exc}") from None


def _compare_files(reports: list[Report], files: list[str], options: dict[str, Any]) -> int:
    from headrace.bench.compare import compare
    from headrace.cli.bench_table import show_comparison

    names = (_short(files[0]), _short(files[1])) if _short(files[0]) != _short(files[1]) else (files[0], files[1])
    compared = compare(reports[0], reports[1], names)
    _write(options, reports[1], reports[0], names)
    show_comparison(compared, _text_output(options))
    return 1 if compared.verdict == "wrong" else 0


def _short(path: str) -> str:
    return os.path.basename(path)


def _text_output(options: dict[str, Any]) -> IO[str]:
    """Where text goes: never where a machine reads."""
    return sys.stderr if "-" in (options["json_file"], options["html_file"]) else sys.stdout


def _write(options: dict[str, Any], report: Report, before: Report | None, names: tuple[str, str]) -> None:
    from headrace.bench.report import encode

    if options["json_file"] is not None:
        _put(options["json_file"], encode(report), "--json")
    if options["html_file"] is not None:
        from headrace.bench.html import page

        _put(options["html_file"], page(report, before, names).encode("utf-8", "replace"), "--html")


def _put(path: str, data: bytes, option: str) -> None:
    if path == "-":
        sys.stdout.flush()
        sys.stdout.buffer.write(data)
        sys.stdout.buffer.flush()
        return
    try:
        with open(path, "wb") as file:
            file.write(data)
    except OSError as exc:
        raise Failure(f"{option} {path}: {exc.strerror}") from None


def _sockets() -> int | None:
    """Connections that one process may have, once its limit is raised as far as it goes; None: no limit is known."""
    try:
        import resource
    except ImportError:  # not on Windows
        return None
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft != hard:
        with contextlib.suppress(ValueError, OSError):
            resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
            soft = hard
    return None if soft == resource.RLIM_INFINITY else max(soft - _OTHER_FILES, 1)


_OTHER_FILES = 40
"""Files that a process has open beside its connections."""


class _Bench:
    """One run: from what was typed to the report."""

    def __init__(self, ctx: click.Context, rest: list[str], options: dict[str, Any]) -> None:
        self.ctx = ctx
        self.options = options
        self.ended_by = signal.SIGINT
        """The signal that ended the run, if one did."""
        self.command: list[str] | None = ctx.obj
        self.server = None if self.command is not None or not rest else rest.pop(0)
        if self.server is not None and "=" in self.server and "://" not in self.server:
            raise click.UsageError(f"{self.server!r} stands where the server should be", ctx)
        tool = rest.pop(0) if rest and "=" not in rest[0] else None
        if tool is not None and options["tool"] is not None:
            raise click.UsageError(f"name one tool: {tool!r} or --tool {options['tool']}", ctx)
        self.tool: str | None = tool or options["tool"]
        self.pairs = [parse_pair(text) for text in rest]
        self.base = base_arguments(options["args_json"])
        self._check()
        self.timeout: float = options["timeout"] or 30.0
        options["timeout"] = self.timeout
        self.target, self.how = peer_of(self.server, self.command, options)
        self.name = self.server if self.command is None else shlex.join(self.command)
        http = isinstance(self.target, str) and not self.target.startswith(("unix:", "tcp:"))
        if http and (options["in_flight"] or 1) > 1:
            raise click.UsageError("--in-flight: HTTP/1.1 carries one call a connection; say --connections N", ctx)
        self.connections: int = options["connections"] or (32 if http else max(1, options["processes"]))
        if options["processes"] > self.connections:
            raise click.UsageError(
                f"--processes {options['processes']} need a connection each: say --connections "
                f"{options['processes']} or more", ctx,
            )  # fmt: skip

        per_process = -(-self.connections // options["processes"])
        if (most := _sockets()) is not None and per_process > most:
            raise click.UsageError(
                f"--connections {self.connections}: a process may have {most} here; raise ulimit -n, or say "
                "--processes N", ctx,
            )  # fmt: skip

    def _check(self) -> None:
        """Options that do not go together, before anything is opened. Raises click.UsageError."""
        options = self.options
        given = self.pairs or options["args_json"] is not None
        if options["scenario"] is not None and (self.tool is not None or given):
            raise click.UsageError("--scenario says what to call: leave the tool and its arguments away", self.ctx)
        for name, value in (("--expect", options["expect"]), ("--payload", options["payload"])):
            if value is not None and self.tool is None:
                where = "in the scenario file" if options["scenario"] is not None else "beside --tool NAME"
                raise click.UsageError(f"{name} stands {where}", self.ctx)
        if given and self.tool is None:
            raise click.UsageError("arguments need a tool: --tool NAME", self.ctx)
        if options["pid"] is not None and not os.path.exists(f"/proc/{options['pid']}"):
            raise click.UsageError(f"--pid {options['pid']}: there is no such process", self.ctx)
        cores = os.cpu_count() or 1
        if options["processes"] > cores * 8:
            raise click.UsageError(f"--processes {options['processes']}: this machine has {cores} cores", self.ctx)
        for option, path in (("--json", options["json_file"]), ("--html", options["html_file"])):
            folder = os.path.dirname(path) if path not in (None, "-") else ""
            if folder and not os.path.isdir(folder):
                raise click.UsageError(f"{option} {path}: there is no folder {folder}", self.ctx)
            if path not in (None, "-") and os.path.isdir(path):
                raise click.UsageError(f"{option} {path}: is a folder; name a file", self.ctx)
        if options["expect"] == "":
            raise click.UsageError("--expect '': use a text that is in every answer", self.ctx)

    def measure(self, before: Report | None, before_name: str) -> int:
        from headrace.bench.compare import compare
        from headrace.bench.run import Stop
        from headrace.cli.bench_table import Live, show_comparison, show_report

        logging.basicConfig(format="headrace: %(message)s")
        live = Live(self.options["progress"])
        stop = Stop()
        report = self._run(live, stop)
        live.clear()
        names = (_short(before_name), "this run")
        failure: Failure | None = None
        try:
            _write(self.options, report, before, names)
        except Failure as exc:  # a run of minutes is not lost with its file
            failure = exc
        file = _text_output(self.options)
        show_report(report, file)
        if before is not None:
            print(file=file)
            show_comparison(compare(before, report, names), file)
        if failure is not None:
            file.flush()
            raise failure
        if stop.requested:
            return 128 + self.ended_by
        return 0 if report.totals.ok and not report.totals.failed else 1

    # --- the run ----------------------------------------------------------------------------------------

    def _run(self, live: Live, stop: Stop) -> Report:
        from headrace.bench.operations import BadOperation
        from headrace.bench.run import About, LoadProcessFailed, run
        from headrace.bench.scenario import BadScenario
        from headrace.bench.worker import new_loop

        async def main() -> Report:
            entries = await self._entries()
            prepared = await self._prepared(entries)
            plan = prepared.plan(**self._load(prepared))
            about = About(
                name=self.name or "", server_name=prepared.server_name, server_version=prepared.server_version,
                payload=self.options["payload"], pid=self.options["pid"],
            )  # fmt: skip
            loop = asyncio.get_running_loop()
            # Until here a signal ends the process in its usual way; from here on there is something to show.
            loop.add_signal_handler(signal.SIGINT, stop.request)
            for number in (signal.SIGTERM, signal.SIGHUP):
                if signal.getsignal(number) is signal.SIG_DFL:
                    loop.add_signal_handler(number, self._ended_by, number, stop)
            return await run(plan, about=about, on_progress=live, stop=stop)

        try:
            with plain_failures(self.target, self.options), asyncio.Runner(loop_factory=new_loop) as runner:
                return runner.run(main())
        except BadScenario as exc:
            raise click.UsageError(str(exc), self.ctx) from None
        except BadOperation as exc:
            raise Failure(str(exc)) from exc
        except LoadProcessFailed as exc:
            raise Failure(str(exc)) from exc
        finally:
            live.clear()

    def _ended_by(self, number: signal.Signals, stop: Stop) -> None:
        """SIGTERM and SIGHUP end a run as Ctrl-C does: what was measured is shown."""
        self.ended_by = number
        stop.request()

    async def _entries(self) -> tuple[Entry, ...]:
        """What is to be measured."""
        from headrace.bench.operations import tool_entry
        from headrace.bench.scenario import read_scenario

        if self.options["scenario"] is not None:
            return read_scenario(self.options["scenario"])
        if self.tool is None:
            return (await self._default(),)
        arguments = await self._arguments(self.tool)
        return (tool_entry(self.tool, arguments, expect=self.options["expect"], payload=self.options["payload"]),)

    async def _default(self) -> Entry:
        """The first thing that the server can do and every server of its kind can; says what it is."""
        from headrace.bench.scenario import LISTS, Entry
        from headrace.client import connect
        from headrace.jsonrpc import R5

        async with connect(self.target, cache=False, **self.how) as client:
            offered = [what for what in LISTS if what != "templates" and what in client.capabilities]
            ping = client.protocol_version < R5
        if offered:
            what = offered[0]
            complain(f"no tool was named: measures {LISTS[what]} (--tool NAME, or --scenario FILE, for more)")
            return Entry(kind="list", what=what, name=f"list {what}", where="the server")
        if not ping:
            raise click.UsageError("the server has nothing to list: say --scenario FILE", self.ctx)
        complain("no tool was named, and the server has none: measures ping")
        return Entry(kind="ping", name="ping", where="the server")

    async def _arguments(self, tool: str) -> dict[str, Any]:
        """The arguments as typed; pairs are read with the help of the tool's schema."""
        if not self.pairs:
            return self.base
        from headrace.client import connect

        async with connect(self.target, cache=False, **self.how) as client:
            tools = {each.name: each.input_schema for each in await client.list_tools()}
        if tool not in tools:
            raise Failure(f"unknown tool: {tool}{nearest(tool, list(tools))} (headrace ls lists them)")
        arguments = arguments_of(self.pairs, self.base, tools[tool])
        check_names(tool, arguments, tools[tool])
        return arguments

    async def _prepared(self, entries: tuple[Entry, ...]) -> Prepared:
        from headrace.bench.operations import prepare

        return await prepare(self.target, entries, **self.how)

    def _load(self, prepared: Prepared) -> dict[str, Any]:
        """How the load is made, with the defaults of this kind of server."""
        from headrace.bench.plan import HttpTarget

        options = self.options
        http = isinstance(prepared.target, HttpTarget)
        requests, duration, warmup = options["requests"], options["duration"], options["warmup"]
        if duration is None and requests is None:
            duration = 10.0
        if warmup is None:
            warmup = 0.0 if requests is not None else min(1.0, duration or 1.0)
        connections = self.connections
        if requests is not None and options["connections"] is None:
            connections = max(min(connections, requests), options["processes"])
        return {
            "connections": connections,
            "in_flight": 1 if http else options["in_flight"] or 32,
            "duration_s": duration,
            "requests": requests,
            "rate": options["rate"],
            "warmup_s": warmup,
            "timeout_s": self.timeout,
            "seed": options["seed"],
            "processes": options["processes"],
        }
