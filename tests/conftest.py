"""Fixtures shared by every test: `loop_name` picks the event loop, `run` runs a coroutine function on it."""

import asyncio
import gc
import os
import signal
import socket
import sys
from pathlib import Path

import pytest

try:
    import uvloop
except ImportError:
    uvloop = None

# A run in the background of a script ignores SIGINT, and one under nohup SIGHUP, and so would the children that tests
# send them to.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)
if hasattr(signal, "SIGHUP") and signal.getsignal(signal.SIGHUP) is signal.SIG_IGN:
    signal.signal(signal.SIGHUP, signal.SIG_DFL)

HERE = Path(__file__).resolve().parent
CAP = 30.0  # seconds one test may spend on its loop

# Files that keep a worker busy for long go first, the longest in front, so that all workers end at about the same time.
LONG = (
    "hosting/test_supervisor_roll.py", "hosting/test_supervisor",
    "interop/test_fastmcp_hosting.py", "interop/test_fastmcp_hosting_faults.py", "interop/test_sdk1_hosting.py",
    "interop/test_conformance.py", "unit/test_cli.py", "interop/test_sdk_client_trials.py",
    "interop/test_first_generation.py", "interop/test_serve_guests.py", "test_instructions.py",
    "interop/test_python_sdk_server.py", "leak/test_leaks.py", "unit/test_stdio_fds.py", "unit/test_http_server.py",
    "interop/test_asgi_hosts.py", "interop/test_python_sdk_client.py", "unit/test_short_sessions.py",
    "interop/test_fastmcp.py", "unit/test_cli_features.py", "field/", "interop/", "unit/test_bench_page.py", "unit/test_bench_run.py",
    "test_readme.py", "unit/test_client.py", "unit/test_http_resume.py", "unit/test_http", "unit/test_sealed_sessions.py",
)  # fmt: skip


@pytest.fixture(params=["asyncio", "uvloop"])
def loop_name(request):
    if request.param == "uvloop" and uvloop is None:
        pytest.skip("uvloop is not installed")
    return request.param


@pytest.fixture
def run(loop_name):
    """Runs `fn(*args)` on the loop named by `loop_name` and gives its result; TimeoutError after 30 s."""

    def runner(fn, *args):
        async def capped():
            return await asyncio.wait_for(fn(*args), CAP)

        factory = uvloop.new_event_loop if loop_name == "uvloop" else asyncio.new_event_loop
        with asyncio.Runner(loop_factory=factory) as r:
            return r.run(capped())

    return runner


@pytest.fixture(autouse=True, scope="module")
def quick_collections():
    """The many full collections of the tests need not look at thirteen thousand collected tests each time (half a
    second): what exists before a module is no garbage. Once more per module, as a server that ends unfreezes all."""
    gc.collect()
    gc.freeze()


@pytest.fixture(autouse=True)
def servers_are_strangers():
    """What one test's servers spoke says nothing about the next ones, which may get the same ports (VN-50)."""
    yield
    eras = sys.modules.get("headrace.client.eras")
    if eras is not None:
        eras.clear()


# Every way of hosting every generation of every SDK, each beside the SDK's own: `make test-wide`. What of it is no
# repetition on another transport, era or generation is in the other files.
WIDE = (
    "interop/test_fastmcp_hosting.py", "interop/test_fastmcp_hosting_faults.py", "interop/test_sdk1_hosting.py",
    "interop/test_sdk_client.py", "interop/test_sdk_client_trials.py", "interop/test_sdk_hosting_conformance.py",
    "interop/test_sdk_hosting_settings.py", "interop/test_asgi_hosts.py", "interop/test_asgi_applications.py",
)  # fmt: skip


def pytest_addoption(parser):
    parser.addoption("--wide", action="store_true", help="run the files of the wide matrix too, see tests/conftest.py")


def pytest_collection_modifyitems(config, items):
    def place(item):
        return item.path.relative_to(HERE).as_posix()

    def rank(item):
        path = place(item)
        return next((n for n, name in enumerate(LONG) if path.startswith(name)), len(LONG))

    if not config.getoption("--wide"):
        # A file that is named on the command line is meant.
        named = {Path(arg.partition("::")[0]).name for arg in config.args}
        left_out = [item for item in items if place(item) in WIDE and item.path.name not in named]
        config.hook.pytest_deselected(items=left_out)
        gone = set(left_out)
        items[:] = [item for item in items if item not in gone]
    items.sort(key=rank)


def pytest_sessionstart(session):
    """Workers tell the main process of every test in two small messages in a row, over TCP: with Nagle's algorithm
    the second one waits 40 ms for the acknowledgement of the first, which is most of the time of most tests."""
    sock = getattr(getattr(session.config, "failures_db", None), "sock", None)
    if sock is not None:
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item, call):
    """Captured logs may hold lone surrogates, which no test worker can send to the main process."""
    report = yield
    report.sections = [
        (name, text.encode("utf-8", "backslashreplace").decode()) for name, text in report.sections
    ]
    return report


if os.environ.get("HEADRACE_DEBUG") == "1":
    from headrace.mux import live_objects

    @pytest.fixture(autouse=True)
    def no_live_objects(caplog):
        """In debug builds: every exchange, call, sink and queued byte of a test is gone after it."""
        before = live_objects()
        yield
        for record in caplog.get_records("call"):
            record.exc_info = None  # a traceback holds everything
        gc.collect()
        after = live_objects()
        assert all(after[kind] <= before[kind] for kind in after), f"left behind: {before} -> {after}"
