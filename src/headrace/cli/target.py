"""The TARGET of ``headrace serve``: finds the server that a module or a file holds, of headrace or of another SDK."""

from __future__ import annotations

import inspect
import os
import re
import shutil
import sys
import traceback
from importlib import import_module, util
from types import ModuleType
from typing import TYPE_CHECKING, Any

import click

from headrace.cli.app import Failure
from headrace.cli.guest import AsgiGuest, Guest, guest_of, is_guest

if TYPE_CHECKING:
    from headrace.server.app import Server

__all__ = ("command_of", "load_application", "load_server")

_TARGET = re.compile(r"(?:.*\.py|[A-Za-z_][\w.]*(?=:))(?::[A-Za-z_][\w.]*)?")


def command_of(command: list[str]) -> list[str]:
    """The command of a server as typed behind ``--``. A single word that is ``file.py``, ``file.py:attr`` or
    ``module:attr``, and no program, means that ``headrace serve`` hosts it, on this Python."""
    if len(command) != 1 or not _TARGET.fullmatch(command[0]) or shutil.which(command[0]) is not None:
        return command
    return [sys.executable, "-m", "headrace", "serve", command[0]]


def load_server(target: str, *, with_traceback: bool = False) -> Server | Guest | AsgiGuest:
    """The server named by ``module:attr``, ``file.py`` or ``file.py:attr``.

    attr may be dotted, and may be a function without arguments that makes the server. Without it, it is ``app``
    where this is an MCP server or a function; else ``mcp`` or ``server``; else the only MCP server of the module.
    Raises click.UsageError for a target that does not exist, Failure when its code raises.
    """
    module, place, attribute = _module(target, with_traceback)
    return _find(module, place, attribute, with_traceback)


def load_application(target: str, *, with_traceback: bool = False) -> Any:
    """The ASGI application named by ``module:attr`` or ``file.py:attr``; attr is ``app`` where none is named, and may
    be a function without arguments that makes it. Raises as :func:`load_server` does."""
    from headrace.integrations.hosts import is_asgi

    module, place, attribute = _module(target, with_traceback)
    name = f"{place}:{attribute or 'app'}"
    found: Any = module
    for part in (attribute or "app").split("."):
        found = getattr(found, part, _MISSING)
        if found is _MISSING:
            raise click.UsageError(f"{place} has no {attribute or 'app'!r}")
    if not is_asgi(found) and inspect.isfunction(found) and not inspect.signature(found).parameters:
        found = _made(found, name, with_traceback)
    if not callable(found) or inspect.isclass(found):
        raise click.UsageError(f"{name} is a {type(found).__name__}, not an ASGI application")
    return found


def _module(target: str, with_traceback: bool) -> tuple[ModuleType, str, str | None]:
    place, attribute = _split(target)
    try:
        return _import(place), place, attribute
    except (click.UsageError, KeyboardInterrupt):
        raise
    except BaseException as exc:
        if with_traceback:
            traceback.print_exception(exc)
        raise Failure(f"importing {place} failed: {_describe(exc)}") from exc


def _split(target: str) -> tuple[str, str | None]:
    place, colon, attribute = target.rpartition(":")
    if not colon:
        return target, None
    if not place or not attribute.replace(".", "").isidentifier():
        raise click.UsageError(f"TARGET {target!r}: use module:attr, file.py or file.py:attr")
    return place, attribute


def _import(place: str) -> ModuleType:
    if place.endswith(".py") or os.sep in place:
        return _import_file(place)
    if not all(part.isidentifier() for part in place.split(".")):
        raise click.UsageError(f"TARGET {place!r} is neither a module nor a .py file")
    sys.path.insert(0, os.getcwd())
    try:
        return import_module(place)
    except ModuleNotFoundError as exc:
        if exc.name is not None and (place == exc.name or place.startswith(exc.name + ".")):
            hint = f"; did you mean {place}.py?" if os.path.exists(place + ".py") else ""
            raise click.UsageError(f"there is no module {place!r}{hint}") from None
        raise


def _import_file(place: str) -> ModuleType:
    path = os.path.abspath(place)
    if not os.path.isfile(path):
        raise click.UsageError(f"there is no file {place!r}")
    sys.path.insert(0, os.path.dirname(path))
    name = os.path.splitext(os.path.basename(path))[0]
    if name in sys.modules or not name.isidentifier():
        name = f"_headrace_target_{abs(hash(path))}"
    spec = util.spec_from_file_location(name, path)
    if spec is None or spec.loader is None:
        raise click.UsageError(f"{place!r} is not a Python file")
    module = util.module_from_spec(spec)
    sys.modules[name] = module
    try:
        spec.loader.exec_module(module)
    except BaseException:
        sys.modules.pop(name, None)
        raise
    return module


def _find(module: ModuleType, place: str, attribute: str | None, with_traceback: bool) -> Server | Guest | AsgiGuest:
    found: Any = module
    attribute = attribute or _default(module)
    for part in attribute.split("."):
        found = getattr(found, part, _MISSING)
        if found is _MISSING:
            servers = list(_servers(module))
            have = f"it has {', '.join(servers)}: use {place}:{servers[0]}" if servers else "it has no server at all"
            raise click.UsageError(f"{place} has no {attribute!r}; {have}")
    name = f"{place}:{attribute}"
    server = _hosted(found, name)
    if server is None and callable(found):
        found = _made(found, name, with_traceback)
        server = _hosted(found, name)
    if inspect.iscoroutine(found):
        found.close()
        raise click.UsageError(f"{name} is an async function: the function that makes a server must be a plain one")
    if server is None:
        raise click.UsageError(
            f"{name} is a {type(found).__name__}, not a headrace.Server, a server of the official SDK or of FastMCP, "
            "or an ASGI application"
        )
    return server


def _made(function: Any, name: str, with_traceback: bool) -> Any:
    try:
        return function()
    except KeyboardInterrupt:
        raise
    except BaseException as exc:
        if with_traceback:
            traceback.print_exception(exc)
        raise Failure(f"{name} raised: {_describe(exc)}") from exc


def _default(module: ModuleType) -> str:
    """The attribute that is meant when none is named. An ASGI ``app`` beside an MCP server is what its SDK would host
    it by: the server is meant."""
    app = getattr(module, "app", _MISSING)
    if _is_server(app) or inspect.isroutine(app):
        return "app"
    servers = _servers(module)
    for name in ("mcp", "server"):
        if name in servers:
            return name
    return next(iter(servers)) if len(servers) == 1 else "app"


def _servers(module: ModuleType) -> dict[str, Any]:
    """The MCP servers of a module by name, each under its first one."""
    found: dict[str, Any] = {}
    for name, value in vars(module).items():
        if _is_server(value) and all(value is not other for other in found.values()):
            found[name] = value
    return found


def _is_server(obj: Any) -> bool:
    from headrace.server.app import Server

    return isinstance(obj, Server) or is_guest(obj)


def _hosted(obj: Any, name: str) -> Server | Guest | AsgiGuest | None:
    from headrace.server.app import Server

    return obj if isinstance(obj, Server) else guest_of(obj, name)


_MISSING = object()


def _describe(exc: BaseException) -> str:
    if isinstance(exc, SystemExit):
        return f"it exited with status {exc.code}"
    if isinstance(exc, SyntaxError):
        return f"{exc.msg} ({exc.filename}, line {exc.lineno})"
    text = f"{type(exc).__name__}: {exc}" if str(exc) else type(exc).__name__
    if isinstance(exc, ModuleNotFoundError) and exc.name in ("mcp", "fastmcp"):
        text += f" (pip install 'headrace[{exc.name}]')"
    return text
