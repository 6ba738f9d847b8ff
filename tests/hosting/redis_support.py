"""Redis servers for tests: started on free loopback ports in directories of their own, stopped by process id.

Where there is no redis-server, tests that ask for one are skipped.
"""

import contextlib
import datetime
import ipaddress
import os
import shutil
import signal
import subprocess
import tempfile
import time
from pathlib import Path

import pytest
from ports import free_port

START = 30.0  # seconds that a server may take until it answers


def certificates(directory):
    """A key and a self-signed certificate for 127.0.0.1."""
    from cryptography import x509
    from cryptography.hazmat.primitives import hashes, serialization
    from cryptography.hazmat.primitives.asymmetric import ec
    from cryptography.x509.oid import NameOID

    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "127.0.0.1")])
    now = datetime.datetime.now(datetime.UTC)
    made = (
        x509.CertificateBuilder().subject_name(name).issuer_name(name).public_key(key.public_key())
        .serial_number(x509.random_serial_number()).not_valid_before(now - datetime.timedelta(days=1))
        .not_valid_after(now + datetime.timedelta(days=1))
        .add_extension(x509.SubjectAlternativeName([x509.IPAddress(ipaddress.ip_address("127.0.0.1"))]), False)
        .sign(key, hashes.SHA256())
    )  # fmt: skip
    keyfile, certfile = Path(directory) / "key.pem", Path(directory) / "cert.pem"
    keyfile.write_bytes(
        key.private_bytes(
            serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
        )
    )
    certfile.write_bytes(made.public_bytes(serialization.Encoding.PEM))
    return str(keyfile), str(certfile)


class RedisServer:
    """One redis-server. ``options`` are those of its command line, without the dashes."""

    def __init__(self, *, password=None, tls=False, unix=False, keeps=True, sentinel=None, options=()):
        self.program = shutil.which("redis-server")
        if self.program is None:
            pytest.skip("there is no redis-server")
        self.directory = tempfile.mkdtemp(prefix="redis-")
        self.port = free_port()
        self.password = password
        self.tls = tls
        self.keeps = keeps
        self.unix = str(Path(self.directory) / "redis.sock") if unix else None
        self.sentinel = sentinel
        self.options = list(options)
        if tls:
            self.keyfile, self.certfile = certificates(self.directory)
        self.process = None

    @property
    def url(self):
        if self.unix:
            return f"unix://{self.unix}"
        user = f":{self.password}@" if self.password else ""
        if self.tls:
            return f"rediss://{user}127.0.0.1:{self.port}?ssl_ca_certs={self.certfile}"
        return f"redis://{user}127.0.0.1:{self.port}"

    def start(self):
        args = ["--port", "0" if self.tls or self.unix else str(self.port), "--bind", "127.0.0.1", "--save", ""]
        args += ["--dir", self.directory, "--daemonize", "no", "--loglevel", "warning"]
        if self.sentinel is not None:
            conf = Path(self.directory) / "sentinel.conf"
            conf.write_text(self.sentinel)
            args = [str(conf), "--sentinel", "--port", str(self.port), "--bind", "127.0.0.1"]
            args += ["--dir", self.directory]
        elif self.keeps:
            args += ["--appendonly", "yes", "--appendfsync", "always"]
        if self.password:
            args += ["--requirepass", self.password]
        if self.unix:
            args += ["--unixsocket", self.unix]
        if self.tls:
            args += ["--tls-port", str(self.port), "--tls-cert-file", self.certfile, "--tls-key-file", self.keyfile]
            args += ["--tls-ca-cert-file", self.certfile, "--tls-auth-clients", "no"]
        self.process = subprocess.Popen(
            [self.program, *args, *self.options], stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL, start_new_session=True,
        )  # fmt: skip
        until = time.monotonic() + START
        while time.monotonic() < until:
            if self.process.poll() is not None:
                raise RuntimeError(f"redis-server ended with {self.process.returncode}")
            with contextlib.suppress(Exception):
                if self.ask("PING"):
                    return self
            time.sleep(0.02)
        self.kill()
        raise RuntimeError("redis-server does not answer")

    def client(self):
        """A blocking client of redis-py."""
        import redis

        return redis.Redis.from_url(self.url, socket_timeout=5)

    def ask(self, *command):
        """The answer to one command."""
        client = self.client()
        try:
            return client.execute_command(*command)
        finally:
            client.close()

    def kill(self):
        """SIGKILL, at once."""
        if self.process is not None:
            with contextlib.suppress(ProcessLookupError):
                self.process.kill()
            self.process.wait()
            self.process = None

    def restart(self, *, empty=False):
        """Starts it again on the same port, with what it kept or with nothing."""
        self.kill()
        if empty:
            for each in Path(self.directory).glob("appendonlydir*"):
                shutil.rmtree(each)
        return self.start()

    def pause(self):
        """SIGSTOP: it holds its connections and answers nothing."""
        os.kill(self.process.pid, signal.SIGSTOP)

    def resume(self):
        os.kill(self.process.pid, signal.SIGCONT)

    def close(self):
        self.kill()
        shutil.rmtree(self.directory, ignore_errors=True)


@contextlib.contextmanager
def redis_server(**settings):
    """A started :class:`RedisServer`, stopped in the end."""
    server = RedisServer(**settings)
    try:
        yield server.start()
    finally:
        server.close()


@contextlib.contextmanager
def redis_sentinel():
    """A server, a replica of it, and a sentinel that watches them: (url, sentinel, server, replica)."""
    with (
        redis_server() as server,
        redis_server(options=["--replicaof", "127.0.0.1", str(server.port)]) as replica,
    ):
        conf = (
            f"sentinel monitor main 127.0.0.1 {server.port} 1\nsentinel down-after-milliseconds main 500\n"
            "sentinel failover-timeout main 2000\n"
        )
        with redis_server(sentinel=conf) as sentinel:
            yield f"redis+sentinel://127.0.0.1:{sentinel.port}/main", sentinel, server, replica


@contextlib.contextmanager
def redis_cluster():
    """A cluster of two nodes, each with half of the slots: (url, nodes)."""
    options = ["--cluster-enabled", "yes", "--cluster-node-timeout", "2000"]
    with contextlib.ExitStack() as stack:
        nodes = []
        for _ in range(2):
            for _ in range(20):
                node = RedisServer(options=options)
                if node.port + 10_000 < 65_536:
                    break
                node.close()
            stack.callback(node.close)
            nodes.append(node.start())
        nodes[0].ask("CLUSTER", "ADDSLOTSRANGE", 0, 8191)
        nodes[1].ask("CLUSTER", "ADDSLOTSRANGE", 8192, 16383)
        nodes[1].ask("CLUSTER", "SET-CONFIG-EPOCH", 2)
        nodes[0].ask("CLUSTER", "MEET", "127.0.0.1", nodes[1].port)
        until = time.monotonic() + START
        while time.monotonic() < until:
            if all("cluster_state:ok" in _text(n.ask("CLUSTER", "INFO")) for n in nodes) and all(
                _text(n.ask("CLUSTER", "INFO")).count("cluster_known_nodes:2") for n in nodes
            ):
                break
            time.sleep(0.05)
        else:
            raise RuntimeError("the cluster does not form")
        yield f"redis+cluster://127.0.0.1:{nodes[0].port},127.0.0.1:{nodes[1].port}", nodes


def _text(answer):
    if isinstance(answer, dict):
        return "\n".join(f"{key}:{value}" for key, value in answer.items())
    return answer.decode() if isinstance(answer, bytes) else str(answer)


@pytest.fixture(scope="module")
def redis_one():
    """A redis-server that the tests of a file share: each test uses a prefix of its own."""
    with redis_server(keeps=False) as server:
        yield server
