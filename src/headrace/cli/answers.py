"""What a server asks of the person at the command line: forms and URLs (CF-30..CF-34).

Answers come from ``--answer NAME=VALUE``, and at a terminal from the person; what is asked is shown before
anything is sent, and can be declined (``!``) or left alone (Ctrl-D). Without either the client does not say
that it can be asked, so that servers do not ask. An ``--answer`` that does not fit, or is missing, cancels the
form and makes the command end with status 2: whatever the server does then, it is not what was wanted.
"""

from __future__ import annotations

import asyncio
import json
import sys
import threading
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeVar
from urllib.parse import urlsplit

import click

from headrace.cli.app import complain
from headrace.cli.nearest import nearest

if TYPE_CHECKING:
    from headrace.client.inputs import ElicitParams
    from headrace.protocol.elicited import Elicited

__all__ = ("Answers", "answer_options", "answered", "answers_of")

T = TypeVar("T")

_DECLINE = "!"
_TRUE = frozenset(("y", "yes", "true", "1", "on"))
_FALSE = frozenset(("n", "no", "false", "0", "off"))


class _Stop(Exception):
    """The person ends the form. ``action`` is what the server is told."""

    def __init__(self, action: str) -> None:
        super().__init__(action)
        self.action = action


def answer_options(function: Callable[..., Any]) -> Callable[..., Any]:
    """The options of commands whose server may ask back."""
    for option in reversed(
        (
            click.option(
                "--answer", metavar="NAME=VALUE", multiple=True, help="Answer to a field a tool asks for. Repeatable."
            ),
            click.option("--decline", is_flag=True, help="Decline whatever the server asks."),
            click.option("--root", metavar="PATH", multiple=True, help="A folder the server may use. Repeatable."),
        )
    ):
        function = option(function)
    return function


def answers_of(options: dict[str, Any]) -> dict[str, Any]:
    """Options of ``connect`` for what was typed; takes them out of ``options``. Raises click.UsageError."""
    given = {}
    for text in options.pop("answer"):
        name, equals, value = text.partition("=")
        if not equals or not name:
            raise click.UsageError(f"--answer {text!r}: use NAME=VALUE")
        given[name] = value
    decline = options.pop("decline")
    more: dict[str, Any] = {}
    if roots := options.pop("root"):
        more["roots"] = list(roots)
    person = sys.stdin is not None and sys.stdin.isatty() and sys.stderr.isatty()
    if given or decline or person:
        more["elicitation"] = Answers(given, decline=decline, person=person)
        more["elicitation_modes"] = ("form", "url")
    return more


def answered(more: dict[str, Any], status: int = 0) -> int:
    """The exit status of a command that ran with ``more`` of :func:`answers_of`: 2 where an answer was wrong or
    missing. Answers that nothing asked for are told."""
    answers = more.get("elicitation")
    if not isinstance(answers, Answers):
        return status
    if answers.failed:
        return 2
    if unasked := answers.leftover():
        complain(f"--answer {', '.join(unasked)}: the server did not ask for that")
    return status


class Answers:
    """The elicitation callback of a client. ``given`` are values by field; ``person``: ask at the terminal."""

    def __init__(self, given: dict[str, str], *, decline: bool, person: bool) -> None:
        self._given = given
        self._decline = decline
        self._person = person
        self._turn = asyncio.Lock()
        self._who = "the server"
        self._used: set[str] = set()
        self.failed = False
        """Whether an answer was wrong or missing; people have been told."""

    def meet(self, name: str) -> None:
        """Says what the server calls itself: people are told who asks (CF-34)."""
        self._who = f"the server {_plain(name)[:80]!r}"

    def leftover(self) -> list[str]:
        """Names of answers that nothing asked for."""
        return [] if self._decline else [name for name in self._given if name not in self._used]

    def _wrong(self, text: str) -> _Stop:
        """Says what is wrong with the answers; the form is cancelled."""
        complain(text)
        self.failed = True
        return _Stop("cancel")

    async def __call__(self, params: ElicitParams) -> Elicited:
        from headrace.protocol.elicited import Elicited

        async with self._turn:  # one form at a time
            if self._decline:
                return Elicited("decline")
            try:
                if params.mode == "url":
                    return await self._url(params)
                return Elicited("accept", await self._form(params))
            except _Stop as stop:
                return Elicited(stop.action)  # type: ignore[arg-type]

    async def _url(self, params: ElicitParams) -> Elicited:
        from headrace.protocol.elicited import Elicited

        url = params.url or ""
        if not self._person:
            complain(f"{self._who} asks to open {url}: declined, there is nobody to agree")
            return Elicited("decline")
        _say(f"{_capital(self._who)} asks: {_plain(params.message)}")
        _say(f"It wants you to open this address, at the host {click.style(_host(url), bold=True)}:\n  {url}")
        if _host(url).startswith("xn--") or ".xn--" in _host(url):
            _say("The host's name is written in another script: look twice.")
        answer = await _in_thread(lambda: _line("Open it in the browser? [y/N] "))
        if answer.lower() not in _TRUE:
            raise _Stop("decline")
        import webbrowser

        await _in_thread(lambda: webbrowser.open(url))
        return Elicited("accept")

    async def _form(self, params: ElicitParams) -> dict[str, Any]:
        from headrace.client.forms import check_content, form_defaults
        from headrace.errors import UsageError

        schema = params.requested_schema
        fields = schema.get("properties")
        fields = fields if isinstance(fields, dict) else {}
        required = schema.get("required")
        required = required if isinstance(required, list) else []
        defaults = form_defaults(schema)
        if self._person:
            _say(f"{_capital(self._who)} asks: {_plain(params.message)}")
            _say(f"(Enter takes what stands in brackets, {_DECLINE} declines, Ctrl-D leaves it unanswered)")
        # A slip of the pen must not let a default stand for the answer.
        for name in self.leftover():
            if name not in fields and (near := nearest(name, [each for each in fields if each not in self._given])):
                raise self._wrong(f"--answer {name}: the server asks for no such field{near}")
        content: dict[str, Any] = {}
        for name, rule in fields.items():
            rule = rule if isinstance(rule, dict) else {}
            value = await self._field(name, rule, defaults.get(name), name in required)
            if value is not None:
                content[name] = value
        try:
            check_content(schema, content)
        except UsageError as exc:
            raise self._wrong(f"the answer does not fit what the server asks: {exc}") from None
        if self._person and not self._given:
            shown = json.dumps(content, ensure_ascii=False)
            if (await _in_thread(lambda: _line(f"Send {shown}? [Y/n] "))).lower() in _FALSE:
                raise _Stop("decline")
        return content

    async def _field(self, name: str, rule: dict[str, Any], default: Any, required: bool) -> Any:
        from headrace.client.forms import choices

        options = choices(rule)
        if name in self._given:
            self._used.add(name)
            try:
                return _value(self._given[name], rule, options)
            except ValueError as exc:
                raise self._wrong(f"--answer {name}: {exc}") from None
        if not self._person:
            if default is not None or not required:
                return default
            raise self._wrong(f"the server asks for {name}: say --answer {name}=VALUE")
        title = rule.get("title")
        _say(f"  {_plain(str(title or name))}{_about(rule)}")
        for number, (_, label) in enumerate(options or (), 1):
            _say(f"    {number}. {_plain(label)}")
        shown = "" if default is None else f" [{_plain(_text_of(default))}]"
        while True:
            text = await _in_thread(lambda: _line(f"  {_plain(name)}{shown}{'' if required else ' (optional)'}: "))
            if text == _DECLINE:
                raise _Stop("decline")
            if not text:
                if default is not None or not required:
                    return default
                _say("    a value is needed")
                continue
            try:
                return _value(text, rule, options)
            except ValueError as exc:
                _say(f"    {exc}")


def _value(text: str, rule: dict[str, Any], options: list[tuple[str, str]] | None) -> Any:
    """What was typed as the value of a field. Raises ValueError that says what is wanted."""
    kind = rule.get("type")
    if kind == "array":
        parts = [part.strip() for part in text.split(",") if part.strip()]
        return [_chosen(part, options) if options is not None else part for part in parts]
    if options is not None:
        return _chosen(text, options)
    if kind == "boolean":
        if text.lower() in _TRUE:
            return True
        if text.lower() in _FALSE:
            return False
        raise ValueError("yes or no")
    if kind in ("integer", "number"):
        try:
            return int(text) if kind == "integer" else float(text) if not text.lstrip("-").isdigit() else int(text)
        except ValueError:
            raise ValueError(f"{'a whole' if kind == 'integer' else 'a'} number is wanted") from None
    return text


def _chosen(text: str, options: list[tuple[str, str]]) -> str:
    for value, label in options:
        if text in (value, label):
            return value
    if text.isdigit() and 1 <= int(text) <= len(options):
        return options[int(text) - 1][0]
    raise ValueError(f"one of {', '.join(str(value) for value, _ in options)}")


def _text_of(value: Any) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    return ", ".join(map(str, value)) if isinstance(value, list) else str(value)


def _about(rule: dict[str, Any]) -> str:
    parts = [str(rule["description"])] if rule.get("description") else []
    kind = rule.get("format") or rule.get("type")
    if kind == "array":
        parts.append("several, with commas")
    elif isinstance(kind, str) and kind != "string":
        parts.append(kind)
    return f": {_plain(', '.join(parts))}" if parts else ""


def _plain(text: str) -> str:
    """What a server wrote, unable to move the cursor or pose as something else."""
    return "".join(c if c.isprintable() else " " for c in text[:2000])


def _host(url: str) -> str:
    try:
        host = urlsplit(url).hostname or ""
        return host if host.isascii() else host.encode("idna").decode("ascii")
    except (ValueError, UnicodeError):
        return ""


def _capital(text: str) -> str:
    return text[:1].upper() + text[1:]


def _say(text: str) -> None:
    click.echo(text, err=True)


def _line(prompt: str) -> str:
    sys.stderr.write(prompt)
    sys.stderr.flush()
    line = sys.stdin.readline()
    if not line:
        sys.stderr.write("\n")
        raise _Stop("cancel")
    return line.strip()


async def _in_thread(function: Callable[[], T]) -> T:
    """Runs ``function`` in a thread that keeps nobody waiting: Ctrl-C ends the command at once."""
    loop = asyncio.get_running_loop()
    future: asyncio.Future[T] = loop.create_future()

    def settle(value: T | None, exc: BaseException | None) -> None:
        if not future.done():
            if exc is not None:
                future.set_exception(exc)
            else:
                future.set_result(value)  # type: ignore[arg-type]

    def work() -> None:
        try:
            value = function()
        except BaseException as exc:
            loop.call_soon_threadsafe(settle, None, exc)
        else:
            loop.call_soon_threadsafe(settle, value, None)

    threading.Thread(target=work, name="headrace-answer", daemon=True).start()
    return await future
