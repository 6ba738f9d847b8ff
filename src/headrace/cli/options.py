"""Options that are made from the limits, options that the environment may give, and help that groups them.

Every option of a :class:`GroupedCommand` can be given as ``HEADRACE_`` and its name in capitals: what is typed counts
before it, and it before what the target says in code.
"""

from __future__ import annotations

import ast
import inspect
import itertools
import os
import re
from collections.abc import Callable
from typing import Any

import click
from click.core import ParameterSource

from headrace import limits
from headrace.limits import Limits, variable

__all__ = ("GroupedCommand", "explanations", "limit_options", "limits_of", "source_of")



def source_of(ctx: click.Context, name: str) -> str:
    """What messages call an option: the environment variable that gave it, else as it is typed."""
    if ctx.get_parameter_source(name) is ParameterSource.ENVIRONMENT:
        for parameter in ctx.command.params:
            if parameter.name == name and parameter.envvar:
                return next((each for each in parameter.envvar if os.environ.get(each)), parameter.envvar[0])
    return f"--{name.replace('_', '-')}"


class GroupedCommand(click.Command):
    """Takes options from the environment, and shows the options of limits apart from the others."""

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        for parameter in self.params:
            if isinstance(parameter, click.Option):
                parameter.envvar = [variable(text[2:].replace("-", "_")) for text in parameter.opts if text[:2] == "--"]

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        try:
            return super().parse_args(ctx, args)
        except click.BadParameter as exc:
            raise _explained(exc, ctx) from None

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        explained = explanations()
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


def _range(kind: click.IntRange | click.FloatRange) -> str:
    low = "" if kind.min is None else f"{kind.min:g}{'<' if kind.min_open else '<='}"
    high = "" if kind.max is None else f"{'<' if kind.max_open else '<='}{kind.max:g}"
    return f"{low}x{high}"


def _explained(exc: click.BadParameter, ctx: click.Context) -> click.BadParameter:
    """The same, naming the environment variable where that was wrong, and what is accepted."""
    parameter = exc.param
    if parameter is None or parameter.name is None or isinstance(exc, click.MissingParameter):
        return exc
    text, hint, kind = exc.message, exc.param_hint, parameter.type
    if ctx.get_parameter_source(parameter.name) is ParameterSource.ENVIRONMENT:
        hint = source_of(ctx, parameter.name)
        value = repr(os.environ.get(hint))
        if value not in text and kind is not click.STRING:  # a text may hold a password
            hint += f"={value}"
    if isinstance(kind, click.IntRange | click.FloatRange) and not {"<", ">"} & set(text):
        text = f"{text.rstrip('.')} {_range(kind)}."
    return click.BadParameter(text, ctx, parameter, hint)


class _LimitOption(click.Option):
    pass


_ALSO = {"drain_timeout": ("--grace",)}
"""Other names of limits."""


class _Bound(click.ParamType):  # type: ignore[type-arg,unused-ignore]
    """The value of one bound, read as the environment's is."""

    def __init__(self, bound: str, kind: type) -> None:
        self.bound = bound
        self.name = "integer" if kind is int else "float"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> float:
        try:
            return limits.parse(self.bound, str(value))
        except ValueError as exc:
            # click puts what was read before it only where it reads it itself
            self.fail(f"{value!r}: {exc}", param, ctx)


def limit_options(function: Callable[..., Any]) -> Callable[..., Any]:
    """Adds one option for every bound of :class:`headrace.limits.Limits`."""
    for name, kind, default in reversed(limits.describe()):
        function = click.option(
            f"--{name.replace('_', '-')}",
            *_ALSO.get(name, ()),
            name,
            cls=_LimitOption,
            type=_Bound(name, kind),
            metavar="N/s" if name == "rate_limit" else "N" if kind is int else "SECONDS",
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


def explanations() -> dict[str, str]:
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
