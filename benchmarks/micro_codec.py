"""What single pieces cost: `pytest benchmarks/micro_codec.py` (pytest-benchmark; part of `make bench`)."""

import asyncio
import json
import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))

from harness import META, call_body, http_request, modern_headers

from headrace import Server
from headrace.transports._link import LineLink
from headrace.transports._task import spawner
from headrace.wire import LineFramer, SseFramer, encode_event, parse_request, scan_envelope

SMALL = call_body("echo", '{"text":"a text of ordinary length","n":5}', modern=False).encode()
MODERN = call_body("echo", '{"text":"a text of ordinary length","n":5}', modern=True).encode()
LARGE = call_body("echo", json.dumps({"text": "0123456789abcdef" * 4096, "n": 5}), modern=False).encode()
HEAD = http_request(MODERN.decode(), modern_headers("tools/call", "echo"))


@pytest.mark.parametrize("frame", [SMALL, MODERN, LARGE], ids=["150 B", "350 B modern", "64 KB"])
def test_scan_envelope(benchmark, frame):
    assert benchmark(scan_envelope, frame).method == "tools/call"


def test_line_framer(benchmark):
    chunk = (SMALL + b"\n") * 400
    framer = LineFramer(1 << 20)
    assert len(benchmark(framer.feed, chunk)) == 400


def test_request_head(benchmark):
    assert benchmark(parse_request, HEAD).method == "POST"


def test_event_stream(benchmark):
    data = encode_event(SMALL) * 100
    assert len(benchmark(lambda: SseFramer().feed(data))) == 100


class _Sunk:
    """A transport that swallows output."""

    written = 0

    def write(self, data):
        self.written += len(data)

    def set_write_buffer_limits(self, high=None, low=None):
        pass

    def get_write_buffer_size(self):
        return 0

    def pause_reading(self):
        pass

    def resume_reading(self):
        pass

    def close(self):
        pass

    abort = close


@pytest.mark.parametrize("kind", ["async", "inline"])
@pytest.mark.parametrize("era", ["2026-07-28", "2025-11-25"])
def test_call_through_a_line_link(benchmark, kind, era):
    """400 tools/call frames in one chunk: framing, scan, dispatch, decode, handler, encode."""
    app = Server("bench", version="1")
    if kind == "async":

        @app.tool
        async def echo(text: str, n: int) -> str:
            return text
    else:

        @app.tool(inline=True)
        def echo(text: str, n: int) -> str:
            return text

    frame = MODERN if era == "2026-07-28" else SMALL
    with asyncio.Runner() as runner:

        async def main():
            async with app.running():
                _, mux = app.new_session()
                link = LineLink(mux, app.limits)
                transport = _Sunk()
                link.connection_made(transport)
                if era != "2026-07-28":
                    from harness import INITIALIZE

                    link.data_received(INITIALIZE.encode() + b"\n")
                benchmark(link.data_received, (frame + b"\n") * 400)
                assert transport.written
                link.connection_lost(None)

        runner.run(main())


def test_eager_start(benchmark):
    async def handler():
        return 1

    with asyncio.Runner() as runner:

        async def main():
            spawn = spawner(asyncio.get_running_loop())
            assert benchmark(lambda: spawn(handler()).result()) == 1

        runner.run(main())


assert META in MODERN.decode()
