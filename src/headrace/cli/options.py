"""Options that are made from the limits, and help that groups them."""

from __future__ import annotations

import ast
import inspect
import itertools
import re
from collections.abc import Callable
from typing import Any

import click

from headrace import limits
from headrace.limits import Limits

__all__ = ("GroupedCommand", "limit_options", "limits_of")


class GroupedCommand(click.Command):
    """Shows the options of limits apart from the others."""

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        explained = _explanations()
        main, bounds = [], []
        for parameter in self.get_params(ctx):
            if parameter.name in explained and isinstance(parameter, _LimitOption):
                parameter.help = explained[parameter.name]
                record = parameter.get_help_record(ctx)
                if record is not None:
                    bounds.append(record)
            elif isinstance(parameter, click.Option):
                record = parameter.get_help_record(ctx)
                if record is not None:
                    main.append(record)
        with formatter.section("Options"):
            formatter.write_dl(main)
        if bounds:
            with formatter.section("Limits (times in seconds, sizes in bytes)"):
                formatter.write_dl(bounds)


class _LimitOption(click.Option):
    pass


_ALSO = {"drain_timeout": ("--grace",)}
"""Other names of limits."""


def limit_options(function: Callable[..., Any]) -> Callable[..., Any]:
    """Adds one option for every bound of :class:`headrace.limits.Limits`."""
    for name, kind, default in reversed(limits.describe()):
        function = click.option(
            f"--{name.replace('_', '-')}",
            *_ALSO.get(name, ()),
            name,
            cls=_LimitOption,
            type=kind,
            metavar="N" if kind is int else "SECONDS",
            help=f"default {default:g}",
        )(function)
    return function


def limits_of(options: dict[str, Any], base: Limits) -> Limits:
    """``base`` with what the options say; takes them out of ``options``. Raises click.UsageError."""
    import msgspec

    given = {name: options.pop(name) for name, _, _ in limits.describe()}
    changed = {name: value for name, value in given.items() if value is not None}
    try:
        return msgspec.structs.replace(base, **changed) if changed else base
    except ValueError as exc:
        raise click.UsageError(str(exc)) from None


_REFERENCES = re.compile(r" \([A-Z]+-?\d[^)]*\)")


def _explanations() -> dict[str, str]:
    """What stands below each bound in limits.py, and its default."""
    texts: dict[str, str] = {}
    try:
        tree = ast.parse(inspect.getsource(Limits))
    except OSError:
        tree = ast.Module([], [])
    body = tree.body[0].body if tree.body and isinstance(tree.body[0], ast.ClassDef) else []
    for field, text in itertools.pairwise(body):
        if (
            isinstance(field, ast.AnnAssign)
            and isinstance(field.target, ast.Name)
            and isinstance(text, ast.Expr)
            and isinstance(text.value, ast.Constant)
        ):
            words = " ".join(str(text.value.value).split())
            texts[field.target.id] = _REFERENCES.sub("", words).replace("``", "")
    return {name: f"{texts.get(name, '')} [{default:,.10g}]".strip() for name, _, default in limits.describe()}
