"""Configuration files of MCP hosts: which servers there are and how each is reached.

Claude Desktop, Claude Code, Copilot CLI and Cursor write ``{"mcpServers": {NAME: ENTRY}}``, VS Code
``{"servers": {NAME: ENTRY}}`` (in its settings below ``"mcp"``), with comments and trailing commas. An
entry is a command (``command``, ``args``, ``env``, ``envFile``, ``cwd``) or an address (``url``,
``headers``, ``type``); placeholders in its texts are filled in:

====================================  ====================================================================
``${NAME}``, ``${NAME:-default}``     an environment variable; so is ``${env:NAME}``, empty when it is not set
``${workspaceFolder}``                the folder the file belongs to (the parent of ``.vscode``, ``.cursor``)
``${userHome}``                       the home directory
``${/}``, ``${pathSeparator}``        the separator of paths
``${input:ID}``                       what the host would ask for: taken from ``inputs``
====================================  ====================================================================
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Callable, Mapping
from typing import Any

from headrace.errors import UsageError

__all__ = ("Config", "Entry", "read_config")

_WORDS = ("mcpServers", "servers")
_HTTP = frozenset(("http", "https", "streamable-http", "streamableHttp", "streamable_http"))
_PROCESS = frozenset(("stdio", "local"))
_KINDS = _HTTP | _PROCESS | {"sse"}
_MAX_SIZE = 16 * 1024 * 1024  # bytes of a file: what is larger is none, or never ends
_COMMENT = re.compile(r'("(?:[^"\\]|\\.)*")|//[^\n]*|/\*.*?\*/', re.S)
_COMMA = re.compile(r'("(?:[^"\\]|\\.)*")|,(?=\s*[}\]])', re.S)
_PLACE = re.compile(r"\$\{([^{}]*)\}")
_VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")


class Entry:
    """How one server is reached: ``target`` and the keyword ``options`` of :func:`headrace.connect`."""

    def __init__(self, name: str, target: str | list[str], options: dict[str, Any]) -> None:
        self.name = name
        self.target = target
        self.options = options

    def __repr__(self) -> str:
        return f"<Entry {self.name}>"  # commands, addresses and headers may hold secrets


class Config:
    """The servers of one configuration. ``where`` names it in messages; ``folder`` is the workspace."""

    def __init__(self, servers: Mapping[str, Any], where: str, folder: str) -> None:
        self._servers = dict(servers)
        self._where = where
        self._folder = folder

    @property
    def names(self) -> list[str]:
        """The names of the servers, in the order of the file."""
        return list(self._servers)

    def __contains__(self, name: str) -> bool:
        return name in self._servers

    def inputs(self, name: str) -> list[str]:
        """The ids of ``${input:ID}`` in the entry of server ``name``, each once."""
        found = re.findall(r"\$\{input:([^{}]*)\}", json.dumps(self._servers.get(name), ensure_ascii=False))
        return list(dict.fromkeys(found))

    def entry(self, name: str | None = None, *, inputs: Mapping[str, str] | None = None) -> Entry:
        """The entry of server ``name``; without a name that of the only server.

        ``inputs`` are the values of ``${input:ID}``. Raises :class:`UsageError` in one plain line for an
        unknown name and for an entry that cannot be used.
        """
        if name is None:
            if len(self._servers) != 1:
                raise UsageError(f"{self._where}: name one of its servers: {self._names()}")
            name = next(iter(self._servers))
        if name not in self._servers:
            raise UsageError(f"{self._where} has no server {name!r}; it has {self._names()}")
        where = f"{self._where}: server {name!r}"
        entry = self._servers[name]
        if not isinstance(entry, dict):
            raise UsageError(f"{where} must be an object with a command or a url")
        if entry.get("disabled") is True:
            raise UsageError(f'{where} is switched off ("disabled": true)')
        url = entry.get("url", entry.get("serverUrl", entry.get("httpUrl")))
        kind = entry.get("type", entry.get("transport"))
        if kind is not None and (not isinstance(kind, str) or kind not in _KINDS):
            raise UsageError(f"{where}: type {kind!r} is not known; use stdio, http or sse")
        fill = _Filler(where, self._folder, inputs or {})
        if isinstance(url, str) and kind not in _PROCESS:
            options: dict[str, Any] = {"headers": fill.texts(entry, "headers")}
            if kind == "sse":
                options["transport"] = "sse"
            return Entry(name, fill(url), options)
        if not isinstance(entry.get("command"), str) or not entry["command"]:
            raise UsageError(f"{where} needs a command or a url")
        args = entry.get("args") or []
        if not isinstance(args, list) or any(isinstance(arg, dict | list) for arg in args):
            raise UsageError(f'{where}: "args" must be a list of texts')
        env = fill.texts(entry, "env")
        if entry.get("envFile"):
            env = self._env_file(fill(_text(entry, "envFile", where)), where) | env
        options = {"env": env}
        if entry.get("cwd"):
            options["cwd"] = self._path(fill(_text(entry, "cwd", where)))
        return Entry(name, [fill(entry["command"]), *(fill(str(arg)) for arg in args)], options)

    def _names(self) -> str:
        return ", ".join(self._servers) or "no servers"

    def _path(self, path: str) -> str:
        return os.path.join(self._folder, os.path.expanduser(path))

    def _env_file(self, path: str, where: str) -> dict[str, str]:
        """``NAME=value`` lines; quotes around a value and lines that begin with # are left out."""
        try:
            lines = _read(self._path(path), "utf-8").splitlines()
        except (OSError, ValueError) as exc:
            raise UsageError(f'{where}: "envFile" {path}: {getattr(exc, "strerror", None) or exc}') from None
        found = {}
        for line in lines:
            name, equals, value = line.strip().removeprefix("export ").partition("=")
            if equals and not name.startswith("#"):
                value = value.strip()
                if len(value) > 1 and value[0] == value[-1] and value[0] in "\"'":
                    value = value[1:-1]
                found[name.strip()] = value
        return found


class _Filler:
    """Fills in the placeholders of one entry's texts."""

    def __init__(self, where: str, folder: str, inputs: Mapping[str, str]) -> None:
        self._where = where
        self._folder = folder
        self._inputs = inputs

    def __call__(self, text: str) -> str:
        return _PLACE.sub(self._value, text)

    def texts(self, entry: dict[str, Any], word: str) -> dict[str, str]:
        """The member ``word`` of ``entry`` as texts by name."""
        value = entry.get(word) or {}
        if not isinstance(value, dict) or any(isinstance(each, dict | list) for each in value.values()):
            raise UsageError(f'{self._where}: "{word}" must be an object of texts')
        return {key: self(_plain(each)) for key, each in value.items() if each is not None}

    def _value(self, match: re.Match[str]) -> str:
        what = match[1]
        kind, colon, rest = what.partition(":")
        if what == "workspaceFolder" or kind == "workspaceFolder":
            return self._folder
        if what == "workspaceFolderBasename":
            return os.path.basename(self._folder)
        if what in ("userHome", "home"):
            return os.path.expanduser("~")
        if what in ("/", "pathSeparator"):
            return os.sep
        if kind == "input" and colon:
            if rest in self._inputs:
                return self._inputs[rest]
            raise UsageError(f"{self._where} asks for the input {rest!r}: pass inputs={{{rest!r}: ...}}")
        if kind == "env" and colon:
            return os.environ.get(rest, "")
        if _VARIABLE.fullmatch(kind) and (not colon or rest.startswith("-")):
            if os.environ.get(kind) or (not colon and kind in os.environ):
                return os.environ[kind]
            if colon:
                return rest[1:]
            raise UsageError(f"{self._where} needs the environment variable {kind}, which is not set")
        return match[0]


def read_config(source: str | os.PathLike[str] | Mapping[str, Any]) -> Config:
    """Reads a configuration: the path of a file, or its content as a mapping.

    Raises :class:`UsageError` in one plain line for what is no such file.
    """
    if isinstance(source, Mapping):
        return Config(_servers(source, "the configuration"), "the configuration", os.getcwd())
    path = os.path.expanduser(os.fspath(source))
    try:
        text = _read(path, "utf-8-sig")
    except UnicodeDecodeError:
        raise UsageError(f"{path}: not UTF-8 text") from None
    except (OSError, ValueError) as exc:
        raise UsageError(f"{path}: {getattr(exc, 'strerror', None) or exc}") from None
    try:
        content = _parse(text)
    except (ValueError, RecursionError) as exc:
        raise UsageError(f"{path} is not JSON: {exc}") from None
    folder = os.path.dirname(os.path.abspath(path))
    if os.path.basename(folder) in (".vscode", ".cursor", ".github", ".claude"):
        folder = os.path.dirname(folder)
    return Config(_servers(content, path), path, folder)


def _read(path: str, encoding: str) -> str:
    with open(path, "rb") as file:
        raw = file.read(_MAX_SIZE + 1)
    if len(raw) > _MAX_SIZE:
        raise ValueError(f"more than {_MAX_SIZE >> 20} MiB is no configuration")
    return raw.decode(encoding)


def _parse(text: str) -> Any:
    try:
        return json.loads(text)
    except ValueError:
        # With comments and trailing commas, as editors allow them.
        keep: Callable[[re.Match[str]], str] = lambda match: match[1] or " "  # noqa: E731
        return json.loads(_COMMA.sub(keep, _COMMENT.sub(keep, text)))


def _servers(content: Any, where: str) -> Mapping[str, Any]:
    if isinstance(content, Mapping):
        inner = content.get("mcp")
        for level in (content, inner if isinstance(inner, Mapping) else {}):
            for word in _WORDS:
                found = level.get(word)
                if isinstance(found, Mapping):
                    return found
    raise UsageError(f'{where} has no {{"mcpServers": {{NAME: ...}}}}')


def _text(entry: dict[str, Any], word: str, where: str) -> str:
    value = entry[word]
    if not isinstance(value, str):
        raise UsageError(f'{where}: "{word}" must be a text')
    return value


def _plain(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value)
