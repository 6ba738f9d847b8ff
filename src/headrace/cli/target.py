"""The TARGET of ``headrace serve``: finds the Server object that a module or a file holds."""

from __future__ import annotations

import os
import sys
import traceback
from importlib import import_module, util
from types import ModuleType
from typing import TYPE_CHECKING, Any

import click

from headrace.cli.app import Failure

if TYPE_CHECKING:
    from headrace.server.app import Server

__all__ = ("load_server",)


def load_server(target: str, *, with_traceback: bool = False) -> Server:
    """The server named by ``module:attr``, ``file.py`` or ``file.py:attr`` (attr defaults to ``app``).

    attr may be dotted, and may be a function without arguments that makes the server. Raises
    click.UsageError for a target that does not exist, Failure when its code raises.
    """
    place, attribute = _split(target)
    try:
        module = _import(place)
    except (click.UsageError, KeyboardInterrupt):
        raise
    except BaseException as exc:
        if with_traceback:
            traceback.print_exception(exc)
        raise Failure(f"importing {place} failed: {_describe(exc)}") from exc
    return _find(module, place, attribute, with_traceback)


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


def _find(module: ModuleType, place: str, attribute: str | None, with_traceback: bool) -> Server:
    from headrace.server.app import Server

    found: Any = module
    for part in (attribute or "app").split("."):
        found = getattr(found, part, _MISSING)
        if found is _MISSING:
            servers = [name for name, value in vars(module).items() if isinstance(value, Server)]
            have = f"it has {', '.join(servers)}: use {place}:{servers[0]}" if servers else "it has no Server at all"
            raise click.UsageError(f"{place} has no {attribute or 'app'!r}; {have}")
    if callable(found) and not isinstance(found, Server):
        try:
            found = found()
        except KeyboardInterrupt:
            raise
        except BaseException as exc:
            if with_traceback:
                traceback.print_exception(exc)
            raise Failure(f"{place}:{attribute or 'app'} raised: {_describe(exc)}") from exc
    if not isinstance(found, Server):
        raise click.UsageError(f"{place}:{attribute or 'app'} is a {type(found).__name__}, not a headrace.Server")
    return found


_MISSING = object()


def _describe(exc: BaseException) -> str:
    if isinstance(exc, SystemExit):
        return f"it exited with status {exc.code}"
    if isinstance(exc, SyntaxError):
        return f"{exc.msg} ({exc.filename}, line {exc.lineno})"
    return f"{type(exc).__name__}: {exc}" if str(exc) else type(exc).__name__
