"""Config files that name servers, as MCP hosts have them: ``{"mcpServers": {NAME: {...}}}``."""

from __future__ import annotations

import json
import os
from typing import Any

import click

__all__ = ("configured", "read_config")


def read_config(path: str) -> dict[str, Any]:
    """The entries of a config file by name; ``servers`` instead of ``mcpServers`` is taken as well.

    Raises click.UsageError for what is no such file.
    """
    try:
        with open(path, encoding="utf-8") as file:
            content = json.load(file)
    except OSError as exc:
        raise click.UsageError(f"--config {path}: {exc.strerror}") from None
    except ValueError as exc:
        raise click.UsageError(f"--config {path} is not JSON: {exc}") from None
    if isinstance(content, dict):
        for word in ("mcpServers", "servers"):
            if isinstance(content.get(word), dict):
                found: dict[str, Any] = content[word]
                return found
    raise click.UsageError(f'--config {path} has no {{"mcpServers": {{NAME: ...}}}}')


def configured(name: str, path: str) -> tuple[Any, dict[str, Any], dict[str, str]]:
    """The target, options and headers of ``connect`` for an entry. Raises click.UsageError."""
    servers = read_config(path)
    where = f"--config {path}: server {name!r}"
    if name not in servers:
        raise click.UsageError(f"--config {path} has no server {name!r}; it has {', '.join(servers) or 'no servers'}")
    entry = servers[name]
    if not isinstance(entry, dict) or not isinstance(entry.get("url", entry.get("command")), str):
        raise click.UsageError(f"{where} needs a command or a url")
    if "url" in entry:
        return entry["url"], {}, _texts(entry, "headers", where)
    args = entry.get("args")
    if args is None:
        args = []
    if not isinstance(args, list) or any(isinstance(arg, dict | list) for arg in args):
        raise click.UsageError(f'{where}: "args" must be a list of texts')
    more: dict[str, Any] = {"env": _texts(entry, "env", where)}
    cwd = entry.get("cwd")
    if cwd:
        if not isinstance(cwd, str):
            raise click.UsageError(f'{where}: "cwd" must be a text')
        more["cwd"] = os.path.expanduser(cwd)
    return [entry["command"], *(str(arg) for arg in args)], more, {}


def _texts(entry: dict[str, Any], word: str, where: str) -> dict[str, str]:
    value = entry.get(word) or {}
    if not isinstance(value, dict):
        raise click.UsageError(f'{where}: "{word}" must be an object')
    return {str(k): str(v) for k, v in value.items()}
