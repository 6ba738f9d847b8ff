"""``headrace serve --otel``: spans of any MCP server go where OTEL_... variables say."""

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("opentelemetry.sdk", reason="the OpenTelemetry SDK is not installed")

import headrace
from headrace.jsonrpc import R5

ENV = {
    **{name: value for name, value in os.environ.items() if not name.startswith("OTEL_")},
    "PYTHONPATH": str(Path(headrace.__file__).parents[1]),
}
TRACE, PARENT = "4bf92f3577b34da6a3ce929d0e0e4736", "00f067aa0ba902b7"
META = {
    "io.modelcontextprotocol/protocolVersion": R5,
    "io.modelcontextprotocol/clientCapabilities": {},
    "traceparent": f"00-{TRACE}-{PARENT}-01",
}
CALL = json.dumps({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"name": "hi", "_meta": META}}) + "\n"
PROGRAM = '''
from opentelemetry import trace

import headrace

app = headrace.Server("greeter", version="4.2")


@app.tool
def hi() -> str:
    """Greets, with a span of its own."""
    with trace.get_tracer("mine").start_as_current_span("greeting"):
        return "hello"
'''


def serve(tmp_path, *options, program=PROGRAM, input=CALL, **more):
    (tmp_path / "app.py").write_text(program)
    return subprocess.run(
        [sys.executable, "-m", "headrace", "serve", "app.py", *options],
        input=input, capture_output=True, text=True, cwd=tmp_path, env={**ENV, **more}, timeout=60,
    )  # fmt: skip


def objects(text):
    """The JSON objects that stand behind one another in a text."""
    decoder, at, found = json.JSONDecoder(), 0, []
    while (at := text.find("{", at)) >= 0:
        value, at = decoder.raw_decode(text, at)
        found.append(value)
    return found


def test_spans_reach_the_exporter_of_the_environment(tmp_path):
    """On stdio the console exporter cannot spoil the protocol: what it prints is on stderr (B08)."""
    done = serve(tmp_path, "--otel", OTEL_TRACES_EXPORTER="console")
    assert done.returncode == 0, done.stderr
    (answer,) = done.stdout.splitlines()
    assert json.loads(answer)["result"]["content"][0]["text"] == "hello"
    spans = {span["name"]: span for span in objects(done.stderr)}
    served, inner = spans["tools/call hi"], spans["greeting"]
    assert served["context"]["trace_id"] == f"0x{TRACE}" and served["parent_id"] == f"0x{PARENT}"
    assert inner["parent_id"] == served["context"]["span_id"]
    resource = served["resource"]["attributes"]
    assert (resource["service.name"], resource["service.version"]) == ("greeter", "4.2")


def test_the_environment_names_the_service(tmp_path):
    done = serve(tmp_path, "--otel", OTEL_TRACES_EXPORTER="console", OTEL_SERVICE_NAME="shop")
    assert {span["resource"]["attributes"]["service.name"] for span in objects(done.stderr)} == {"shop"}


def test_a_provider_of_the_program_is_used(tmp_path):
    program = PROGRAM.replace(
        "app = ",
        "from opentelemetry.sdk.trace import TracerProvider\n"
        "from opentelemetry.sdk.trace.export import ConsoleSpanExporter, SimpleSpanProcessor\n"
        "import sys\n"
        "provider = TracerProvider()\n"
        "exporter = ConsoleSpanExporter(out=sys.stderr, formatter=lambda span: f'MINE {span.name}\\n')\n"
        "provider.add_span_processor(SimpleSpanProcessor(exporter))\n"
        "trace.set_tracer_provider(provider)\n"
        "app = ",
        1,
    )
    done = serve(tmp_path, "--otel", program=program)
    assert done.returncode == 0
    assert done.stderr.splitlines() == ["MINE greeting", "MINE tools/call hi"]


def test_without_the_option_nothing_is_traced(tmp_path):
    done = serve(tmp_path, OTEL_TRACES_EXPORTER="console")
    assert done.returncode == 0 and done.stderr == ""


def test_none_and_an_exporter_that_is_not_there(tmp_path):
    done = serve(tmp_path, "--otel", OTEL_TRACES_EXPORTER="none")
    assert done.returncode == 0 and done.stderr == ""
    done = serve(tmp_path, "--otel", OTEL_TRACES_EXPORTER="zipkin")
    assert done.returncode == 1
    assert done.stderr == "headrace: --otel: there is no exporter zipkin (OTEL_TRACES_EXPORTER names it)\n"


def test_what_is_not_installed_is_named(tmp_path):
    """One line that says what to install, status 1."""
    (tmp_path / "sitecustomize.py").write_text(
        "import sys\nsys.modules['opentelemetry'] = None\nsys.modules['opentelemetry.sdk'] = None\n"
    )
    path = f"{tmp_path}{os.pathsep}{ENV['PYTHONPATH']}"
    done = serve(tmp_path, "--otel", program="import headrace\napp = headrace.Server('x', version='1')", PYTHONPATH=path)
    assert done.returncode == 1
    assert done.stderr == "headrace: --otel needs OpenTelemetry: pip install 'headrace[otel]'\n"
    done = subprocess.run(
        [sys.executable, "-c", "import headrace.hosting.tracing"],
        capture_output=True, text=True, env={**ENV, "PYTHONPATH": path}, timeout=30,
    )  # fmt: skip
    assert re.search(r"ImportError: tracing needs OpenTelemetry: pip install 'headrace\[otel\]'\s*$", done.stderr)


def test_an_asgi_application_is_refused(tmp_path):
    program = "async def app(scope, receive, send):\n    pass\n"
    done = serve(tmp_path, "--otel", "--http", "127.0.0.1:0", program=program, OTEL_TRACES_EXPORTER="none")
    assert done.returncode == 2 and "--otel is for MCP servers" in done.stderr
