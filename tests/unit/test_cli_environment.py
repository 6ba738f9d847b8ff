"""`headrace serve` from the environment: every option as HEADRACE_ and its name; bounds of one caller from the command
line."""

import pytest
from test_cli import ENV, headrace, plain_failure, serving

from headrace import RpcError, connect

SERVER = """
from headrace import Server

app = Server("t", version="1")

@app.tool
def echo(text: str) -> str:
    return text

async def web(scope, receive, send):
    pass
"""


@pytest.fixture
def place(tmp_path):
    (tmp_path / "t.py").write_text(SERVER)
    return tmp_path


@pytest.mark.parametrize(
    ("variables", "arguments", "text"),
    [
        ({"MAX_DEPTH": "deep"}, ["--http", "0"], r"HEADRACE_MAX_DEPTH: 'deep': a whole number of at least 1 and at most 1024"),
        ({"KEEP_ALIVE_TIMEOUT": "0"}, [], r"HEADRACE_KEEP_ALIVE_TIMEOUT: '0': a number of seconds above 0"),
        ({"RATE_LIMIT": "10/d"}, [], r"HEADRACE_RATE_LIMIT: '10/d': a number of requests per second .* 600/m"),
        ({}, ["--rate-limit", "-1"], r"'--rate-limit': '-1': a number of requests per second"),
        ({"RATE_BURST": "5"}, ["--http", "0"], r"HEADRACE_RATE_BURST bounds nothing without --rate-limit"),
        ({}, ["--http", "0", "--rate-burst", "5"], r"--rate-burst bounds nothing without --rate-limit"),
        ({"PATH": "/x"}, [], r"HEADRACE_PATH is for HTTP"),
        ({"JSON_ONLY": "perhaps"}, ["--http", "0"], r"HEADRACE_JSON_ONLY"),
        ({"LOG_LEVEL": "loud"}, [], r"HEADRACE_LOG_LEVEL.*'loud'.*debug"),
        ({"RETRY_INTERVAL": "1e9"}, ["--http", "0"], r"HEADRACE_RETRY_INTERVAL.*0<=x<=3600"),
        ({"LOOP": "fast"}, [], r"HEADRACE_LOOP.*'fast'.*uvloop"),
    ],
)  # fmt: skip
def test_a_wrong_value_names_its_variable(place, variables, arguments, text):
    env = ENV | {f"HEADRACE_{name}": value for name, value in variables.items()}
    assert plain_failure(headrace("serve", "t.py", *arguments, cwd=place, env=env), 2, text)


def test_an_asgi_application_has_no_callers_to_bound(place):
    done = headrace("serve", "t:web", "--http", "0", "--rate-limit", "5", cwd=place)
    assert plain_failure(done, 2, "--rate-limit is for MCP servers")


def test_options_come_from_the_environment_and_what_is_typed_counts(run, place, monkeypatch):
    monkeypatch.setitem(ENV, "HEADRACE_HTTP", "nowhere.invalid:1")
    monkeypatch.setitem(ENV, "HEADRACE_PATH", "/from-there")
    monkeypatch.setitem(ENV, "HEADRACE_RATE_LIMIT", "1/h")
    monkeypatch.setitem(ENV, "HEADRACE_RATE_BURST", "1000")
    with serving("t.py", "--http", "127.0.0.1:0", "--rate-burst", "3", cwd=place) as (_, (url,)):
        assert url.endswith("/from-there")
        run(refused_from_the_third_on, url)


async def refused_from_the_third_on(url):
    """One request of the three is that of connecting."""
    async with connect(url, revision="2026-07-28") as client:
        results = []
        for _ in range(4):
            try:
                results.append((await client.call_tool("echo", {"text": "x"})).text)
            except RpcError as exc:
                assert exc.http_status == 429 and exc.retry_after > 60
                results.append("refused")
        assert results == ["x", "x", "refused", "refused"]
