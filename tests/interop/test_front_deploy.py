"""docs/deploy for systemd, containers and Kubernetes: the very commands of the files are run, their paths and addresses
replaced, and the probes are asked as an orchestrator asks them.
"""

import contextlib
import json
import os
import re
import shlex
import shutil
import signal
import socket
import subprocess
import sys
import urllib.error
import urllib.request
from pathlib import Path

import pytest
from hosting.redis_support import redis_server
from ports import free_port
from test_cli_front import ACTIVATE, CALL, HEADERS

from interop.front_support import DEPLOY, deployed
from interop.support import SOURCE, TOP

pytestmark = pytest.mark.interop

ENV = {**os.environ, "PYTHONPATH": str(SOURCE)}
HEADRACE = [sys.executable, "-m", "headrace"]
APP = "from headrace import Server\napp = Server('deployed', version='1')\n\n@app.tool\ndef echo(text: str) -> str:\n    return text\n"


@pytest.fixture
def app(tmp_path):
    (tmp_path / "app.py").write_text(APP)
    return str(tmp_path / "app.py")


@contextlib.contextmanager
def started(command, env=(), **options):
    """The process, and the lines of stderr up to the one that says that it serves."""
    process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True, env=ENV | dict(env), **options)
    lines = []
    try:
        for line in process.stderr:
            lines.append(line.strip())
            if re.search(r" on http\S+/mcp$", line.strip()):
                break
        else:
            raise AssertionError(lines)
        yield process, lines
        process.send_signal(signal.SIGTERM)
        assert process.wait(20) == 0
    finally:
        if process.poll() is None:
            process.kill()
            process.wait(10)
        process.stderr.close()


def get(url, **headers):
    try:
        with urllib.request.urlopen(urllib.request.Request(url, headers=headers), timeout=20) as answer:
            return answer.status
    except urllib.error.HTTPError as exc:
        return exc.code


def post(url, body, **headers):
    return urllib.request.urlopen(urllib.request.Request(url, body, HEADERS | {"Host": "mcp.example.com"} | headers), timeout=20)


def call(url, host, **headers):
    with post(url, CALL, Host=host, **headers) as answer:
        return json.load(answer)["result"]["content"][0]["text"]


def open_session(url):
    """A handshake of 2025-11-25; gives the session id."""
    params = {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "pod", "version": "1"}}
    opening = {"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": params}
    said = {"MCP-Protocol-Version": "2025-11-25"}
    with post(url, json.dumps(opening).encode(), **said) as answer:
        sid = answer.headers["Mcp-Session-Id"]
    note = json.dumps({"jsonrpc": "2.0", "method": "notifications/initialized"}).encode()
    with post(url, note, **said, **{"Mcp-Session-Id": sid}) as answer:
        assert answer.status == 202
    return sid


def setting(text, name):
    return re.findall(rf"^{name}=(.*)$", text.replace("\\\n", ""), re.M)


def test_systemd_units_are_units(tmp_path):
    """systemd's own check, where it is there."""
    verify = shutil.which("systemd-analyze")
    if verify is None:
        pytest.skip("systemd-analyze is not installed")
    binary = shutil.which("true")
    (tmp_path / "headrace.service").write_text(deployed("headrace.service", program=("/opt/headrace/bin/headrace", binary)))
    (tmp_path / "headrace.socket").write_text(deployed("headrace.socket"))
    units = [str(tmp_path / name) for name in ("headrace.service", "headrace.socket")]
    done = subprocess.run([verify, "verify", "--man=no", *units], capture_output=True, text=True, timeout=50)
    own = [line for line in done.stderr.splitlines() if "headrace" in line]
    assert [line for line in own if re.search(r"Unknown|Failed to parse|Invalid|not executable", line)] == [], done.stderr


def test_the_units_start_a_server(app, tmp_path):
    """What systemd does with them: sockets bound before, READY from the service, calls on both sockets, SIGHUP by
    ExecReload, STOPPING and status 0 at the end."""
    service, unit = deployed("headrace.service"), deployed("headrace.socket")
    assert setting(service, "Type") == ["notify"] and setting(service, "WatchdogSec") == ["30"]
    [start] = setting(service, "ExecStart")
    words = shlex.split(start)
    assert words[:3] == ["/opt/headrace/bin/headrace", "serve", "/opt/headrace/app.py"]
    streams = setting(unit, "ListenStream")
    assert streams == ["127.0.0.1:8000", "/run/headrace/mcp.sock"]
    path = str(tmp_path / "mcp.sock")
    with contextlib.ExitStack() as stack:
        tcp = stack.enter_context(socket.create_server(("127.0.0.1", 0)))
        local = stack.enter_context(socket.socket(socket.AF_UNIX))
        local.bind(path)
        local.listen()
        manager = stack.enter_context(socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM))
        manager.bind(str(tmp_path / "notify"))
        manager.settimeout(20)
        import fcntl

        copies = [fcntl.fcntl(each, fcntl.F_DUPFD, 50) for each in (tcp, local)]
        for fd in copies:
            stack.callback(os.close, fd)
        command = [sys.executable, "-c", ACTIVATE, "headrace.socket:headrace.socket", *HEADRACE, "serve", app, *words[3:]]
        env = {"PASS": " ".join(map(str, copies)), "NOTIFY_SOCKET": str(tmp_path / "notify"), "WATCHDOG_USEC": "30000000"}
        with started(command, env, pass_fds=copies) as (process, lines):
            url = re.search(r"http://\S+", lines[0])[0]
            said = [manager.recv(1000).decode()]
            while not said[-1].startswith("READY=1"):
                said.append(manager.recv(1000).decode())
            assert "WATCHDOG=1" in said
            assert call(url, "mcp.example.com") == "hi"
            assert get(url.replace("/mcp", "/readyz")) == 200
            with socket.socket(socket.AF_UNIX) as peer:
                peer.connect(path)
                peer.sendall(b"GET /healthz HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")
                assert peer.recv(100).startswith(b"HTTP/1.1 200")
            process.send_signal(signal.SIGHUP)
            assert manager.recv(1000).startswith(b"RELOADING=1")
            assert manager.recv(1000) == b"READY=1"
            assert call(url, "mcp.example.com") == "hi"
        assert manager.recv(1000).startswith(b"STOPPING=1")
        assert os.path.exists(path)


def test_the_container_starts_a_server(app):
    """ENTRYPOINT and CMD are lists, so that no shell stands between the runtime's signals and the server."""
    text = (DEPLOY / "Containerfile").read_text()
    words = [json.loads(re.search(rf"^{name} (\[.*\])$", text, re.M)[1]) for name in ("ENTRYPOINT", "CMD")]
    command = words[0] + words[1]
    assert command[:3] == ["/opt/headrace/bin/headrace", "serve", "/opt/headrace/app.py"]
    rest = [word.replace("0.0.0.0:8000", "127.0.0.1:0") for word in command[3:]]
    with started([*HEADRACE, "serve", app, *rest]) as (_, lines):
        assert call(re.search(r"http://\S+", lines[-1])[0], "mcp.example.com") == "hi"
    extras = re.search(r"headrace\[([\w,]+)\]", text)[1].split(",")
    known = re.findall(r"^(\w+) = \[", (TOP / "pyproject.toml").read_text().partition("[project.optional-dependencies]")[2], re.M)
    assert set(extras) <= set(known) and "cli" in extras  # without it there is no command line


def yaml_of(text):
    """The documents of kubernetes.yaml as objects: the YAML that file uses (blocks, plain scalars, flow lists and maps
    on one line), and nothing else."""

    def scalar(value):
        value = value.strip()
        if value.startswith(("{", "[")):
            return flow(value)[0]
        if value.startswith('"'):
            return json.loads(value)
        return int(value) if value.isdigit() else {"true": True, "false": False}.get(value, value)

    def flow(value):
        close = {"{": "}", "[": "]"}[value[0]]
        made = {} if close == "}" else []
        rest = value[1:].lstrip()
        while not rest.startswith(close):
            if close == "}":
                name, _, rest = rest.partition(":")
                rest = rest.lstrip()
            if rest[0] in "{[":
                item, rest = flow(rest)
            else:
                match = re.match(r'("[^"]*"|[^,\]}]+)', rest)
                item, rest = scalar(match[0]), rest[match.end() :]
            if close == "}":
                made[name.strip()] = item
            else:
                made.append(item)
            rest = rest.lstrip().removeprefix(",").lstrip()
        return made, rest[1:]

    def block(lines, indent):
        made = [] if lines[0][1].startswith("- ") else {}
        while lines and lines[0][0] == indent:
            at, line = lines.pop(0)
            if line.startswith("- "):
                inner = line[2:]
                if re.match(r"[\w.]+:(\s|$)", inner):
                    lines.insert(0, (at + 2, inner))
                    made.append(block(lines, at + 2))
                else:
                    made.append(scalar(inner))
                continue
            name, colon, value = line.partition(":")
            assert colon, line
            made[name] = scalar(value) if value.strip() else block(lines, lines[0][0])
        return made

    documents = []
    for part in text.split("\n---\n"):
        lines = [(len(line) - len(line.lstrip()), line.strip()) for line in part.splitlines() if line.strip() and not line.strip().startswith("#")]
        documents.append(block(lines, 0))
        assert not lines
    return documents


def test_the_pod_starts_and_is_probed(app):
    """The arguments of the pod run, twice, and a session of one goes on in the other. The probes are asked by address,
    as a kubelet asks them."""
    deployment, service = yaml_of((DEPLOY / "kubernetes.yaml").read_text())
    pod = deployment["spec"]["template"]["spec"]
    [container] = pod["containers"]
    assert service["spec"]["selector"] == deployment["spec"]["template"]["metadata"]["labels"]
    assert service["spec"]["ports"][0]["targetPort"] in [each["name"] for each in container["ports"]]
    settings = dict(each.removeprefix("--").split("=", 1) for each in container["args"])
    drain = int(settings["drain-timeout"])
    pause = int(container["lifecycle"]["preStop"]["exec"]["command"][1])
    assert pod["terminationGracePeriodSeconds"] > drain + pause
    [secret] = [each["name"] for each in container["env"]]
    with contextlib.ExitStack() as stack:
        redis = stack.enter_context(redis_server())
        urls = []
        for _ in range(2):
            metrics = free_port()
            settings |= {"http": "127.0.0.1:0", "metrics": f"127.0.0.1:{metrics}", "backplane": redis.url}
            args = [f"--{name}={value}" for name, value in settings.items()]
            _, lines = stack.enter_context(started([*HEADRACE, "serve", app, *args], {secret: "s" * 43}))
            urls.append(re.search(r"http://[\d.:]+(?=/mcp)", lines[-1])[0])
        url, other = urls
        sid = open_session(url + "/mcp")
        assert call(other + "/mcp", "mcp.example.com", **{"Mcp-Session-Id": sid, "MCP-Protocol-Version": "2025-11-25"}) == "hi"
        for probe in ("livenessProbe", "readinessProbe", "startupProbe"):
            asked = container[probe]["httpGet"]
            assert asked["port"] == "http"
            assert get(url + asked["path"], Host="10.1.2.3:8000") == 200
        assert call(url + "/mcp", "mcp.example.com") == "hi"
        assert get(f"http://127.0.0.1:{metrics}/metrics") == 200
        assert get(url + "/mcp", Host="evil.example") == 421


def test_the_page_names_every_file():
    page = (TOP / "docs" / "proxies.md").read_text()
    for path in sorted(Path(DEPLOY).iterdir()):
        assert f"deploy/{path.name}" in page, path.name
