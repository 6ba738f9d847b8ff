"""Limits: their form, the ways to set them, bounds that belong to no one part, and that every one of them is named by a
test (SE-08)."""

import asyncio
import inspect
import re
from pathlib import Path

import click
import pytest
from asking_support import AskPipe
from http_support import make_server, site, tiny
from server_pipe import META, Pipe

from headrace import Context, Limits, RequestTimeout, Server, UsageError, connect
from headrace.cli.options import explanations, limits_of
from headrace.cli.serve import command
from headrace.limits import DEFAULT, MAY_BE_ZERO, describe, parse, variable
from headrace.transports.refusals import KINDS

TESTS = Path(__file__).resolve().parents[1]
PAGE = TESTS.parent / "docs" / "limits.md"


def test_se08_every_bound_has_a_test():
    """As a keyword of Limits or as an option of the command line, in a test that is not this one."""
    texts = [path.read_text() for path in TESTS.rglob("test_*.py") if path != Path(__file__).resolve()]
    texts.append("\n".join(inspect.getsource(test) for test in OWN))
    unnamed = []
    for name, _, _ in describe():
        used = re.compile(rf"\b{name}=|\.{name}\b|[\"']{name}[\"']|--{name.replace('_', '-')}\b")
        if not any(used.search(text) for text in texts):
            unnamed.append(name)
    assert unnamed == []


def test_values_that_bound_nothing_are_refused():
    for name, kind, _ in describe():
        wanted = "0 or more" if name in MAY_BE_ZERO else "positive"
        for bad in (-1,) if name in MAY_BE_ZERO else (0, -1, float("nan")):
            with pytest.raises(UsageError, match=f"limit {name} must be {wanted}"):
                Limits(**{name: kind(bad) if bad == bad else bad})
        if name in MAY_BE_ZERO:
            assert getattr(Limits(**{name: kind(0)}), name) == getattr(DEFAULT, name) == 0
    with pytest.raises(ValueError, match="max_depth must be at most 1024"):
        Limits(max_depth=1025)
    with pytest.raises(AttributeError):
        DEFAULT.max_depth = 3


@pytest.mark.parametrize(("name", "kind", "default"), describe(), ids=[name for name, _, _ in describe()])
def test_se08_every_bound_is_set_in_every_way(monkeypatch, name, kind, default):
    """In code, by an option, by the environment: what is typed counts before that, and that before the code; docs and
    help say what it is."""
    monkeypatch.delenv(variable(name), raising=False)
    low, high, code = kind(3), kind(4), Limits(**{name: kind(5)})
    option = f"--{name.replace('_', '-')}"

    def served(*arguments):
        with command.make_context("serve", ["target", *arguments]) as ctx:
            return getattr(limits_of(dict(ctx.params), code), name)

    assert served() == 5
    assert served(option, str(low)) == low
    assert Limits.from_environment(base=code) is code
    monkeypatch.setenv(variable(name), str(high))
    assert served() == high
    assert served(option, str(low)) == low
    assert getattr(Limits.from_environment(), name) == high
    assert getattr(Limits.from_environment(base=code), name) == high
    assert Limits.from_environment({}) == DEFAULT
    for bad in ("x", "-1", "nan", "inf", "0" if name not in MAY_BE_ZERO else "1e"):
        monkeypatch.setenv(variable(name), bad)
        with pytest.raises(UsageError, match=f"^{variable(name)}='{bad}': a (whole )?number of .*(needed|none)$"):
            Limits.from_environment()
        with pytest.raises(click.UsageError) as caught:
            served()
        text = caught.value.format_message()
        assert variable(name) in text and repr(bad) in text and "needed" in text and option not in text
        with pytest.raises(click.UsageError) as caught:
            served(f"{option}={bad}")
        text = caught.value.format_message()
        assert option in text and repr(bad) in text and "needed" in text and "\n" not in text


def test_rates_are_written_as_people_write_them():
    written = {"100": 100.0, "100/s": 100.0, "600/m": 10.0, "36000/H": 10.0, "0.5 / s": 0.5, "0": 0.0, "1e3": 1000.0}
    assert {text: parse("rate_limit", text) for text in written} == written
    for bad in ("/s", "10/d", "10/", "1.2.3/s", "10/s/s", "-1/s", ""):
        with pytest.raises(ValueError, match="requests per second is needed"):
            parse("rate_limit", bad)
    with pytest.raises(ValueError, match="at most 1024"):
        parse("max_depth", "1025")


def test_the_page_of_limits_is_complete():
    """docs/limits.md has a row for every bound: option, default, and what limits.py says of it. README and help name
    the variables."""
    rows = dict(re.findall(r"^\| `--([a-z-]+)` \| (.+) \|$", PAGE.read_text(), re.M))
    texts = explanations()
    for name, _, default in describe():
        row = rows.pop(name.replace("_", "-"))
        assert row == f"{default:,.10g} | {texts[name].rpartition(' [')[0]}", name
    assert rows == {}


def test_the_page_of_limits_explains_every_kind_of_refusal():
    assert dict(re.findall(r"^\| `([a-z0-9_]+)` \| (.+) \|$", PAGE.read_text(), re.M)) == KINDS


def test_every_option_of_serve_comes_from_the_environment(monkeypatch):
    for parameter in command.params:
        if isinstance(parameter, click.Option):
            for option in parameter.opts:
                assert "HEADRACE_" + option[2:].upper().replace("-", "_") in parameter.envvar
    for name, text in {"HTTP": "8000", "JSON_ONLY": "1", "TRACEBACK": "yes", "ALLOW_HOST": "a.example b.example"}.items():
        monkeypatch.setenv(f"HEADRACE_{name}", text)
    with command.make_context("serve", ["target"]) as ctx:
        assert (ctx.params["http"], ctx.params["json_only"], ctx.params["with_traceback"]) == ("8000", True, True)
        assert list(ctx.params["allow_host"]) == ["a.example", "b.example"]
    monkeypatch.setenv("HEADRACE_RETRY_INTERVAL", "soon")
    with pytest.raises(click.UsageError) as caught:
        command.make_context("serve", ["target"])
    text = caught.value.format_message()
    assert "HEADRACE_RETRY_INTERVAL: 'soon'" in text and "0<=x<=3600" in text and "--retry" not in text
    with pytest.raises(click.UsageError) as caught:
        command.make_context("serve", ["target", "--retry-interval", "9999"])
    text = caught.value.format_message()
    assert "'--retry-interval'" in text and "9999" in text and "0<=x<=3600" in text


def test_mx13_request_timeout_is_the_default_of_every_call(run):
    """A call that names no time limit has this one; one that names its own, that."""
    app = Server("t", version="1")

    @app.tool
    async def slow(ms: int) -> str:
        await asyncio.sleep(ms / 1000)
        return "slept"

    async def main():
        async with connect(app, limits=Limits(request_timeout=0.05)) as client:
            with pytest.raises(RequestTimeout):
                await client.call_tool("slow", {"ms": 5000})
            assert (await client.call_tool("slow", {"ms": 150}, timeout=10)).text == "slept"

    run(main)


def test_mx35_input_lifetime_ends_a_state(run):
    app = Server("t", version="1", limits=Limits(input_lifetime=1.0))

    @app.tool
    async def t(ctx: Context) -> str:
        return (await ctx.elicit("Sure?")).action

    async def main():
        async with app.running():
            pipe = AskPipe(app)
            first = await pipe.answer_to(pipe.request("tools/call", {"name": "t", "arguments": {}}))
            more = {"requestState": first["result"]["requestState"], "inputResponses": {"q1": {"action": "accept"}}}
            again = await pipe.answer_to(pipe.request("tools/call", {"name": "t", "arguments": {}}, **more))
            assert again["result"]["content"][0]["text"] == "accept"
            now = app.sealer._clock
            app.sealer._clock = lambda: now() + 2.5
            late = await pipe.answer_to(pipe.request("tools/call", {"name": "t", "arguments": {}}, **more))
            assert late["error"]["code"] == -32602 and "expired" in late["error"]["message"]
            pipe.mux.close()

    run(main)


@pytest.mark.parametrize(("wish", "given"), [(None, 60_000), (10**12, 60_000), (30_000, 30_000)])
def test_tk05_max_task_ttl_cuts_what_is_wished(run, wish, given):
    """TK-05: also when the server itself wishes nothing; 2025-11-25 and 2026-07-28 alike."""
    app = Server("t", version="1", limits=Limits(max_task_ttl=60.0))
    app.tasks()

    @app.tool(task="optional")
    async def job() -> str:
        return "done"

    async def main():
        async with app.running():
            pipe = Pipe(app)
            pipe.handshake()
            task = {} if wish is None else {"ttl": wish}
            made = await pipe.ask(1, "tools/call", {"name": "job", "arguments": {}, "task": task})
            assert made["result"]["task"]["ttl"] == given
            if wish is None:
                extension = {"extensions": {"io.modelcontextprotocol/tasks": {}}}
                modern = META | {"io.modelcontextprotocol/clientCapabilities": extension}
                made = await pipe.ask(2, "tools/call", {"name": "job", "arguments": {}}, meta=modern)
                assert made["result"]["ttlMs"] == given
            pipe.mux.close()

    run(main)


def test_linger_timeout_ends_a_refused_connection(run):
    """What a refused client still sends is read and dropped so that the answer arrives, but not for ever."""

    async def main():
        async with site(make_server(), limits=tiny(linger_timeout=0.3, body_timeout=60.0, body_total_timeout=60.0)) as s:
            peer = await s.connect()
            peer.send(s.request(body=b"", content_length="1000000000", target="/nowhere"))
            dripping = asyncio.ensure_future(drip(peer))
            answer = await peer.answer()
            assert (answer.status, answer.get("connection")) == (413, "close") or answer.status == 404
            assert await peer.ended(10)
            dripping.cancel()
            await s.settled(lambda: s.listener.connections == 0)

    async def drip(peer):
        while True:
            peer.send(b"x")
            await asyncio.sleep(0.02)

    run(main)


OWN = (
    test_mx13_request_timeout_is_the_default_of_every_call,
    test_mx35_input_lifetime_ends_a_state,
    test_tk05_max_task_ttl_cuts_what_is_wished,
    test_linger_timeout_ends_a_refused_connection,
)
