"""Figures as Prometheus reads them, of one process and summed over several."""

import asyncio
import re
from pathlib import Path

import pytest
from http_support import make_server, site
from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.openmetrics.parser import text_string_to_metric_families as openmetrics

from headrace import Context, Server, ToolError, connect
from headrace.hosting.metrics import Lag, Metrics, Numbers, Totals
from headrace.hosting.metrics_page import EXPORTED, Page, Unreadable, text_of
from headrace.mux import BUCKETS
from headrace.transports.health import Health
from headrace.transports.stream import serve_lines
from hosting.metrics_support import parsed, total


def make_app():
    app = Server("m", version="1")

    @app.tool
    async def echo(text: str) -> str:
        return text

    @app.tool
    async def fails() -> str:
        raise ToolError("no")

    @app.tool
    async def waits(ctx: Context, ms: int) -> str:
        await asyncio.sleep(ms / 1000)
        return "done"

    return app


def test_a_server_as_prometheus_sees_it(run):
    """Calls, failures, refusals, connections, sessions and streams of a server over HTTP and lines."""

    async def main():
        app = make_server()
        metrics = Metrics(app)
        async with site(app, health=True) as place:
            lines = await serve_lines(app)
            try:
                port = int(lines.addresses[0].rpartition(":")[2])
                _, writer = await asyncio.open_connection("127.0.0.1", port)
                peer = await place.connect()
                for _ in range(3):
                    await peer.ask(place.call("echo", {"text": "a"}))
                await peer.ask(place.call("echo", {"wrong": 1}))
                await peer.ask(place.call("made up"))
                await peer.ask(place.request("GET", "/nowhere"))
                sid = await place.open_session(peer)
                await peer.ask(place.legacy_call(sid, "echo", {"text": "a"}))
                await place.open_stream(sid)
                busy = await place.connect()
                busy.send(place.call("sleep", {"ms": 60_000}))
                await place.settled(lambda: app.seen.started == 1 and lines.connections == 1)
                samples, families = parsed(text_of(Totals.alone(metrics.figures()))[0])
                writer.close()
                await place.settled(lambda: lines.connections == 0)
            finally:
                await lines.close()
        requests = "headrace_requests_total"
        call = {"method": "tools/call", "tool": "echo"}
        assert total(samples, requests, **call, revision="2026-07-28", status="ok") == 3
        assert total(samples, requests, **call, revision="2026-07-28", status="tool_error") == 1
        assert total(samples, requests, **call, revision="2025-11-25", status="ok") == 1
        assert total(samples, requests, **call, status="error") == 0
        assert total(samples, requests, tool="(unknown)", status="error") == 1
        assert total(samples, requests, method="initialize", status="ok") == 1
        assert "made up" not in {dict(labels)["tool"] for labels in samples[requests]}
        assert samples["headrace_errors_total"] == {(("code", "-32602"),): 1}
        assert total(samples, "headrace_refusals_total", kind="http_404") == 1
        assert total(samples, "headrace_request_duration_seconds_count", **call) == 5
        assert total(samples, "headrace_requests_in_flight") == 1
        assert samples["headrace_connections"] == {(("transport", "http"),): 3, (("transport", "lines"),): 1}
        assert samples["headrace_sessions"] == {(("transport", "http"),): 1, (("transport", "lines"),): 1}
        assert total(samples, "headrace_streams") == 1
        assert total(samples, "headrace_worker_connections", worker="0") == 4
        assert total(samples, "headrace_worker_cpu_seconds_total", worker="0") > 0
        for exported in EXPORTED:
            name = exported.name.removesuffix("_total")
            if "workers" in exported.name or "restarts" in exported.name:
                assert name not in families  # there are none
                continue
            family = families[name]
            assert (family.type, family.documentation) == (exported.kind, exported.help)

    run(main)


def test_histograms_are_cumulative(run):
    """As Prometheus wants them: every bucket includes those below, the last one is all."""

    async def main():
        app = make_app()
        metrics = Metrics(app)
        async with connect(app) as client:
            for _ in range(5):
                await client.call_tool("echo", {"text": "a"})
            await client.call_tool("waits", {"ms": 50})
            samples, _ = parsed(text_of(Totals.alone(metrics.figures()))[0])
        name = "headrace_request_duration_seconds"
        for tool, number in (("echo", 5), ("waits", 1)):
            labels = {"method": "tools/call", "tool": tool}
            buckets = [total(samples, f"{name}_bucket", **labels, le=str(bound)) for bound in (*BUCKETS, "+Inf")]
            assert buckets == sorted(buckets) and buckets[-1] == number
            assert total(samples, f"{name}_count", **labels) == number
        assert total(samples, f"{name}_sum", tool="waits") > 0.04
        assert total(samples, f"{name}_bucket", tool="waits", le="0.025") == 0

    run(main)


def test_a_listen_is_no_latency(run):
    """A subscription lasts as long as its client likes."""

    async def main():
        app = make_server()
        metrics = Metrics(app)
        async with site(app) as place:
            peer = await place.connect()
            peer.send(place.modern("subscriptions/listen", {"notifications": {"toolsListChanged": True}}))
            await place.settled(lambda: len(app.hub.listens) == 1)
            samples, _ = parsed(text_of(Totals.alone(metrics.figures()))[0])
            assert total(samples, "headrace_listens") == 1
            assert total(samples, "headrace_streams") == 1
            peer.close()
            await place.settled(lambda: not app.hub.listens)
            samples, _ = parsed(text_of(Totals.alone(metrics.figures()))[0])
        assert total(samples, "headrace_requests_total", method="subscriptions/listen", status="cancelled") == 1
        assert total(samples, "headrace_request_duration_seconds_count", method="subscriptions/listen") == 0
        assert total(samples, "headrace_listens") == 0

    run(main)


def figures(**changes):
    """What a worker tells."""
    buckets = [0] * (len(BUCKETS) + 1)
    buckets[1] = 3
    told = {
        "requests": [("tools/call", "echo", "2026-07-28", [2, 1, 0, 0], buckets, 0.5)],
        "errors": {"-32602": 1},
        "refusals": {"http_404": 2},
        "lag": [[1] + [0] * 11, 0.25],
        "now": {"in_flight": 1, "http": 4, "lines": 1},
        "process": {"cpu": 1.5, "memory": 1000, "descriptors": 9, "started": 1.0},
    }
    return told | changes


def test_sums_over_workers():
    """Counters of a worker that died stay, what it held is gone; what is told again replaces what was told."""
    totals = Totals()
    totals.serving = 2
    totals.take("0", figures())
    totals.take("1", figures())
    totals.take("1", figures())
    totals.workers["1"].name = "1"
    samples, _ = parsed(text_of(totals)[0])
    assert total(samples, "headrace_requests_total", tool="echo", status="ok") == 4
    assert total(samples, "headrace_request_duration_seconds_sum", tool="echo") == 1.0
    assert total(samples, "headrace_requests_in_flight") == 2
    assert total(samples, "headrace_workers") == 2
    assert total(samples, "headrace_loop_lag_seconds_count") == 2
    totals.gone("1")
    totals.gone("never there")
    totals.restarts = 1
    totals.take("2", figures(requests=[], errors={}, refusals={}))
    totals.workers["2"].name = "1"
    samples, _ = parsed(text_of(totals)[0])
    assert total(samples, "headrace_requests_total", tool="echo", status="ok") == 4
    assert total(samples, "headrace_request_duration_seconds_count", tool="echo") == 6
    assert total(samples, "headrace_errors_total", code="-32602") == 2
    assert total(samples, "headrace_refusals_total") == 4
    assert total(samples, "headrace_requests_in_flight") == 2
    assert total(samples, "headrace_connections", transport="http") == 8
    assert total(samples, "headrace_worker_restarts_total") == 1
    assert {dict(labels)["worker"] for labels in samples["headrace_worker_memory_bytes"]} == {"0", "1"}


def test_a_message_with_changes_alone_keeps_the_rest():
    """Workers tell every second only what changed."""
    mine = Numbers()
    mine.take(figures())
    told = figures(requests=[("tools/call", "other", "2026-07-28", [1, 0, 0, 0], [0] * (len(BUCKETS) + 1), 0.0)])
    del told["now"], told["process"]
    mine.take(told)
    assert {tool for _, tool, _ in mine.requests} == {"echo", "other"}
    assert mine.now["http"] == 4


def test_names_that_are_no_text():
    """Quotes, line breaks and halves of surrogate pairs in the name of a tool do not break a scrape."""
    buckets = [0] * (len(BUCKETS) + 1)
    totals = Totals.alone(
        figures(requests=[("tools/call", 'a"b\n\\c\ud800', "2026-07-28", [1, 0, 0, 0], buckets, 0.0)])
    )
    samples, _ = parsed(text_of(totals)[0])
    assert {dict(labels)["tool"] for labels in samples["headrace_requests_total"]} == {'a"b\n\\c?'}


def test_formats_a_scraper_may_ask_for():
    """OpenMetrics where the Accept header says so, the text format otherwise."""
    totals = Totals.alone(figures())
    text, content_type = text_of(totals, "application/openmetrics-text; version=1.0.0")
    assert content_type.startswith("application/openmetrics-text")
    assert "headrace_requests" in {family.name for family in openmetrics(text.decode())}
    assert text_of(totals)[1].startswith("text/plain")


async def ask_page(page, path, method="GET"):
    sent = []

    async def send(message):
        sent.append(message)

    scope = {"type": "http", "path": path, "method": method, "headers": [(b"accept", b"*/*")]}
    await page(scope, None, send)
    return sent[0]["status"], sent[1]["body"]


def test_the_page(run):
    async def main():
        async def ask(accept):
            if not told:
                raise Unreadable("nobody tells")
            return text_of(told[0], accept)

        async def beside(scope, receive, send):
            await send({"type": "http.response.start", "status": 299, "headers": []})
            await send({"type": "http.response.body", "body": b""})

        told = []
        health = Health()
        page = Page(ask, health=health)
        assert await ask_page(page, "/metrics") == (503, b"nobody tells\n")
        told.append(Totals.alone(figures()))
        assert (await ask_page(page, "/metrics"))[0] == 200
        assert (await ask_page(page, "/metrics", "HEAD")) == (200, b"")
        assert (await ask_page(page, "/metrics", "POST"))[0] == 405
        assert (await ask_page(page, "/"))[0] == 404
        assert (await ask_page(page, "/healthz")) == (200, b"ok\n")
        assert (await ask_page(page, "/readyz")) == (503, b"starting\n")
        assert (await ask_page(Page(ask, path="/m", beside=beside), "/metrics"))[0] == 299
        assert (await ask_page(Page(ask, path="/m", beside=beside), "/m"))[0] == 200

    run(main)


def test_beside_what_a_program_exports_already(run):
    """A collector for any registry, whether its server runs or not, and through several runs of it."""

    async def main():
        app = make_app()
        registry = CollectorRegistry()
        registry.register(Metrics(app))
        assert b"headrace_connections" in generate_latest(registry)
        for _ in range(2):
            async with connect(app) as client:
                await client.call_tool("echo", {"text": "a"})
        samples, _ = parsed(generate_latest(registry))
        assert total(samples, "headrace_requests_total", tool="echo", status="ok") == 2
        with pytest.raises(RuntimeError, match="another Metrics"):
            Metrics(app)

    run(main)


def test_a_server_that_runs_already(run):
    async def main():
        app = make_app()
        async with connect(app) as client:
            await client.call_tool("echo", {"text": "a"})
            metrics = Metrics(app)
            metrics.attach(app)
            await client.call_tool("echo", {"text": "a"})
            samples, _ = parsed(text_of(Totals.alone(metrics.figures()))[0])
        assert total(samples, "headrace_requests_total", tool="echo", status="ok") == 1

    run(main)


def test_loop_lag_is_sampled(run):
    """Each look falls into one bucket, and the looking ends with the server."""
    lag = Lag()
    for late in (0.0, 0.001, 0.02, 9.0):
        lag.add(late)
    assert (sum(lag.buckets), lag.buckets[0], lag.buckets[-1]) == (4, 2, 1)

    async def main():
        app = make_app()
        metrics = Metrics(app)
        async with app.running():
            for _ in range(500):
                if sum(metrics.figures()["lag"][0]):
                    break
                await asyncio.sleep(0.01)
            assert sum(metrics.figures()["lag"][0]) >= 1

    run(main)


def test_the_page_of_the_documentation_lists_what_is_exported():
    """Every metric with its type and labels, and nothing that is not exported."""
    text = (Path(__file__).parent.parent.parent / "docs" / "metrics.md").read_text()
    rows = re.findall(r"^\| `(headrace_\w+)` \| (\w+) \|([^|]*)\|", text, re.MULTILINE)
    listed = {name: (kind, tuple(re.findall(r"`(\w+)`", labels))) for name, kind, labels in rows}
    assert listed == {each.name: (each.kind, each.labels) for each in EXPORTED}
    suffixes = ("_bucket", "_sum", "_count")
    known = {each.name for each in EXPORTED}
    known |= {each.name + suffix for each in EXPORTED if each.kind == "histogram" for suffix in suffixes}
    assert set(re.findall(r"\bheadrace_\w+", text)) <= known
    assert ", ".join(f"{bound:g}" for bound in BUCKETS) in text
