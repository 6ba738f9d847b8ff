"""Recorders between headrace and its counterpart: the messages of each connection in both directions, in order."""

import contextlib
import json
import socket
import threading
from pathlib import Path

import httptools


def recorded_command(command, folder: Path):
    """The command between two `tee`s: `in` and `out` in `folder` are what went through."""
    script = 'tee "$0/in" | "$@" | tee "$0/out"'
    return ["sh", "-c", script, str(folder), *command]


def recorded_command_each_time(command, folder: Path):
    """The same for a command that is started more than once: each time records into a folder of its own in `folder`."""
    script = 'd=$(mktemp -d "$0/XXXXXX") && tee "$d/in" | "$@" | tee "$d/out"'
    return ["sh", "-c", script, str(folder), *command]


def recorded_lines(folder: Path):
    """(sent to the server, sent by the server): lists of messages."""
    return tuple([json.loads(line) for line in (folder / name).read_bytes().splitlines()] for name in ("in", "out"))


class HttpRecorder:
    """A TCP relay in front of an HTTP server that keeps every byte; a context manager that gives itself."""

    def __init__(self, url):
        scheme, _, rest = url.partition("://")
        address, _, path = rest.partition("/")
        host, _, port = address.partition(":")
        self._target = (host, int(port))
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.url = f"{scheme}://127.0.0.1:{self._listener.getsockname()[1]}/{path}"
        self._streams = []
        self._threads = []

    def __enter__(self):
        self._start(self._accept)
        return self

    def __exit__(self, *_):
        self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        for thread in self._threads:
            thread.join(10)

    def _start(self, function, *args):
        thread = threading.Thread(target=function, args=args, daemon=True)
        self._threads.append(thread)
        thread.start()

    def _accept(self):
        while True:
            try:
                client, _ = self._listener.accept()
            except OSError:
                return
            server = socket.create_connection(self._target)
            pair = (bytearray(), bytearray())
            self._streams.append(pair)
            ends = threading.Semaphore(0)
            self._start(self._relay, client, server, pair[0], ends)
            self._start(self._relay, server, client, pair[1], ends)
            self._start(self._close, ends, client, server)

    @staticmethod
    def _relay(source, sink, kept, ends):
        try:
            while data := source.recv(65_536):
                kept += data
                sink.sendall(data)
            sink.shutdown(socket.SHUT_WR)
        except OSError:
            for end in (source, sink):
                with contextlib.suppress(OSError):
                    end.shutdown(socket.SHUT_RDWR)
        ends.release()

    @staticmethod
    def _close(ends, *sockets):
        for _ in sockets:
            ends.acquire()
        for each in sockets:
            each.close()

    def connections(self):
        """(sent to the server, sent by the server) of each connection: lists of messages."""
        for up, down in list(self._streams):
            yield _messages(httptools.HttpRequestParser, bytes(up)), _messages(httptools.HttpResponseParser, bytes(down))

    def messages(self):
        """The same of all connections together."""
        sent, received = [], []
        for up, down in self.connections():
            sent += up
            received += down
        return sent, received


class _Bodies:
    def __init__(self, nonsense=False):
        self.found = []
        self._nonsense = nonsense
        self._type = b""
        self._body = bytearray()

    def on_message_begin(self):
        self._type, self._body = b"", bytearray()

    def on_header(self, name, value):
        if name.lower() == b"content-type":
            self._type = value.lower()

    def on_body(self, body):
        self._body += body

    def on_message_complete(self):
        self.flush()

    def flush(self):
        body, self._body = bytes(self._body), bytearray()
        if self._type.startswith(b"application/json") and body:
            try:
                self.found.append(json.loads(body))
            except ValueError:
                assert self._nonsense, body
        elif self._type.startswith(b"text/event-stream"):
            for event in body.replace(b"\r\n", b"\n").split(b"\n\n")[:-1]:
                data = [line[5:] for line in event.split(b"\n") if line.startswith(b"data:")]
                text = b"\n".join(data).strip()
                if text.startswith((b"{", b"[")):  # others carry an id only, or the endpoint of HTTP+SSE
                    self.found.append(json.loads(text))


def _messages(parser, stream):
    bodies = _Bodies(nonsense=parser is httptools.HttpRequestParser)  # a counterpart may be told to send what is no JSON
    parser(bodies).feed_data(stream)
    bodies.flush()  # an event stream that was cut by its reader
    return bodies.found


@contextlib.contextmanager
def recorded(target):
    """(where to connect to, a function that gives what the client and the server sent): URLs only; commands pass
    unrecorded, and what was sent is then None."""
    if not isinstance(target, str):
        yield target, lambda: None
        return
    with HttpRecorder(target) as recorder:
        yield recorder.url, recorder.messages
