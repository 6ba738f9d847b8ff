"""Messages as lines for people and machines: when, which way, what, how long the answer took, the JSON."""

from __future__ import annotations

import contextlib
import shutil
from typing import IO, Any

import click
import msgspec

__all__ = ("TrafficPrinter",)

_PIECE = 65_536
_MAX_OPEN = 10_000  # requests whose answers are awaited: beyond that times are not told


class _Message(msgspec.Struct):
    """What a line says of a message; everything may be missing or odd."""

    id: Any = msgspec.UNSET
    method: Any = None
    result: msgspec.Raw = msgspec.Raw(b"")
    error: Any = msgspec.UNSET


_decode = msgspec.json.Decoder(_Message).decode


class TrafficPrinter:
    """Prints each message to ``file``: one line for people, or with ``as_json`` one JSON object a line.

    ``short`` cuts lines to the width of the terminal, ``pretty`` indents the JSON.
    """

    def __init__(self, file: IO[str], *, as_json: bool = False, short: bool = False, pretty: bool = False) -> None:
        self._file = file
        self._as_json = as_json
        self._width = shutil.get_terminal_size().columns if short else 0
        self._pretty = pretty
        self._color = file.isatty()
        self._start: float | None = None
        self._open: dict[tuple[bool, str], tuple[str, float]] = {}
        self.count = 0

    def show(self, time: float, sent: bool, message: bytes | None, http: str | None) -> None:
        """One message, or an HTTP exchange without one. ``time`` in seconds; ``sent``: from client to server."""
        if self._start is None:
            self._start = time
        since = time - self._start
        self.count += message is not None
        what, took, bad = self._what(time, sent, message)
        if self._as_json:
            self._json(since, sent, message, http, took)
            return
        head = f"{since:9.4f} {'->' if sent else '<-'} {what}"
        if took is not None:
            head += f" ({took * 1000:.1f} ms)"
        if http is not None:
            head += f" [{http}]"
        text = _one_line(message)
        if self._pretty and message is not None:
            with contextlib.suppress(msgspec.DecodeError, UnicodeDecodeError):
                text = "\n" + msgspec.json.format(message, indent=2).decode()
        if self._width and len(head) + len(text) + 2 > self._width:
            text = text[: max(0, self._width - len(head) - 5)] + "..."
        if self._color:
            head = click.style(head, fg="red" if bad else "cyan" if sent else "green", bold=True)
        print(f"{head}  {text}" if text else head, file=self._file, flush=True)

    def _what(self, time: float, sent: bool, message: bytes | None) -> tuple[str, float | None, bool]:
        """The message in words, how long its request waited, and whether it tells of a failure."""
        if message is None:
            return "(no message)", None, False
        try:
            parsed = _decode(message)
        except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
            kind = "batch" if message.lstrip()[:1] == b"[" else "not a message"
            return kind, None, kind != "batch"
        key = repr(parsed.id)
        if isinstance(parsed.method, str):
            if parsed.id is msgspec.UNSET:
                return parsed.method, None, False
            if len(self._open) < _MAX_OPEN:
                self._open[sent, key] = (parsed.method, time)
            return f"{parsed.method} #{parsed.id}", None, False
        method, began = self._open.pop((not sent, key), ("", None))
        bad = parsed.error is not msgspec.UNSET
        number = "" if parsed.id is msgspec.UNSET else f" #{parsed.id}"
        took = time - began if began is not None else None
        return f"{'error' if bad else 'result'}{number}{f' of {method}' if method else ''}", took, bad

    def _json(self, since: float, sent: bool, message: bytes | None, http: str | None, took: float | None) -> None:
        line: dict[str, Any] = {"time": round(since, 6), "direction": "to-server" if sent else "to-client"}
        if http is not None:
            line["http"] = http
        if took is not None:
            line["seconds"] = round(took, 6)
        if message is not None:
            try:
                msgspec.json.decode(message)
                line["message"] = msgspec.Raw(message)
            except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
                line["text"] = message.decode("utf-8", "replace")
        print(msgspec.json.encode(line).decode(), file=self._file, flush=True)


def _one_line(message: bytes | None) -> str:
    if message is None:
        return ""
    text = message.decode("utf-8", "replace")
    # In pieces: a list of all characters of a long message would take twenty times its size.
    return "".join([_plain(text[at : at + _PIECE]) for at in range(0, len(text), _PIECE)])


def _plain(text: str) -> str:
    if text.isprintable():
        return text
    return "".join(c if c.isprintable() else f"\\u{ord(c):04x}" if c not in "\r\n\t" else " " for c in text)
