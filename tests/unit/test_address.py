"""Addresses of HTTP servers as people write them, and sockets that were made by somebody else."""

import os
import socket
import subprocess
import sys
import textwrap

import pytest

from headrace.errors import UsageError
from headrace.transports import systemd
from headrace.transports.address import HttpAddress, http_address
from headrace.transports.passed import passed_sockets


@pytest.mark.parametrize(
    ("text", "address", "shown"),
    [
        ("127.0.0.1:8000", HttpAddress("tcp", "127.0.0.1", 8000), "127.0.0.1:8000"),
        ("[::1]:8000", HttpAddress("tcp", "::1", 8000), "[::1]:8000"),
        ("8000", HttpAddress("tcp", "127.0.0.1", 8000), "127.0.0.1:8000"),
        (8000, HttpAddress("tcp", "127.0.0.1", 8000), "127.0.0.1:8000"),
        (("::", 80), HttpAddress("tcp", "::", 80), "[::]:80"),
        ("unix:/run/a b.sock", HttpAddress("unix", path="/run/a b.sock"), "unix:/run/a b.sock"),
        ("fd:7", HttpAddress("fd", fd=7), "fd:7"),
        ("fd:web", HttpAddress("fd", name="web"), "fd:web"),
        ("systemd", HttpAddress("systemd"), "systemd"),
    ],
)
def test_every_form_of_an_http_address(text, address, shown):
    assert http_address(text) == address
    assert str(address) == shown


@pytest.mark.parametrize("text", ["", "unix:", "fd:", "fd:-1", "fd:a:b", "host", "a:b:c", "[::1]", "1:99999", "x:y"])
def test_a_wrong_http_address_says_which_forms_there_are(text):
    with pytest.raises(UsageError) as failed:
        http_address(text)
    assert repr(text) in str(failed.value) and "\n" not in str(failed.value)


def test_inherited_descriptors_are_looked_at():
    """fd:N is a bound stream socket; everything else is refused in one line that says what it is."""
    bound = socket.create_server(("127.0.0.1", 0))
    [got] = passed_sockets(HttpAddress("fd", fd=os.dup(bound.fileno())))
    assert got.getsockname() == bound.getsockname() and not got.getblocking()
    assert not os.get_inheritable(got.fileno())
    got.close()
    reader, writer = os.pipe()
    loose = socket.socket()
    packets = socket.socket(type=socket.SOCK_DGRAM)
    packets.bind(("127.0.0.1", 0))
    calling = socket.create_connection(bound.getsockname())
    cases = [(reader, "not an open socket"), (loose.fileno(), "not bound"), (packets.fileno(), "ListenStream="),
             (calling.fileno(), "Accept=no"), (9999, "not an open socket")]  # fmt: skip
    for fd, text in cases:
        with pytest.raises(UsageError, match=text):
            passed_sockets(HttpAddress("fd", fd=fd))
    assert loose.fileno() >= 0  # none of them was closed
    for each in (bound, loose, packets, calling):
        each.close()
    os.close(reader)
    os.close(writer)


def test_what_systemd_did_not_pass_is_said(monkeypatch):
    monkeypatch.setattr(systemd, "_passed", [])
    for address in (HttpAddress("systemd"), HttpAddress("fd", name="web")):
        with pytest.raises(UsageError, match="no socket was passed"):
            passed_sockets(address)
    monkeypatch.setattr(systemd, "_passed", [systemd.PassedSocket(3, "metrics")])
    with pytest.raises(UsageError, match="there are metrics"):
        passed_sockets(HttpAddress("fd", name="web"))


def test_listen_fds_are_taken_once_and_from_the_right_process():
    """sd_listen_fds(3): LISTEN_PID must be ours; the variables do not reach programs started later."""
    script = textwrap.dedent("""
        import os, sys
        from headrace.transports.systemd import listen_fds
        pid = str(os.getpid()) if sys.argv[1] == "own" else "1"
        os.environ |= {"LISTEN_PID": pid, "LISTEN_FDS": sys.argv[2], "LISTEN_FDNAMES": sys.argv[3]}
        first = listen_fds()
        print([tuple(each) for each in first], listen_fds() == first, sorted(k for k in os.environ if "LISTEN" in k))
    """)

    def said(*arguments):
        return subprocess.run(
            [sys.executable, "-c", script, *arguments], capture_output=True, text=True, check=True
        ).stdout.strip()

    assert said("own", "2", "web") == "[(3, 'web'), (4, 'unknown')] True []"
    assert said("other", "2", "web") == "[] True ['LISTEN_FDNAMES', 'LISTEN_FDS', 'LISTEN_PID']"
    assert said("own", "nine", "") == "[] True ['LISTEN_FDNAMES', 'LISTEN_FDS', 'LISTEN_PID']"


@pytest.mark.parametrize("abstract", [False, True])
def test_the_service_manager_is_told(monkeypatch, tmp_path, abstract):
    """sd_notify(3), also over an abstract socket; without a socket, or with a dead one, nothing happens."""
    name = f"@headrace-{os.getpid()}" if abstract else str(tmp_path / "notify")
    monkeypatch.delenv("NOTIFY_SOCKET", raising=False)
    assert systemd.notify("READY=1") is False
    monkeypatch.setenv("NOTIFY_SOCKET", name)
    assert systemd.notify("READY=1") is False
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as manager:
        manager.bind(name.replace("@", "\0"))
        assert systemd.notify("READY=1\nSTATUS=serving") is True
        assert manager.recv(100) == b"READY=1\nSTATUS=serving"
        assert systemd.reloading() is True
        lines = manager.recv(100).decode().split("\n")
        assert lines[0] == "RELOADING=1" and int(lines[1].removeprefix("MONOTONIC_USEC=")) > 0


def test_the_watchdog_is_asked_for_by_two_variables(monkeypatch):
    for usec, pid, seconds in [("", None, None), ("0", None, None), ("3000000", None, 3.0), ("x", None, None),
                               ("500000", str(os.getpid()), 0.5), ("500000", "1", None)]:  # fmt: skip
        monkeypatch.setenv("WATCHDOG_USEC", usec)
        monkeypatch.delenv("WATCHDOG_PID", raising=False)
        if pid is not None:
            monkeypatch.setenv("WATCHDOG_PID", pid)
        assert systemd.watchdog_interval() == seconds
