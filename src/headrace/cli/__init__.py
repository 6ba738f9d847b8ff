"""The ``headrace`` command. Nothing heavy is imported before it is known to be needed."""

from __future__ import annotations

import sys

__all__ = ("main",)


def main(argv: list[str] | None = None) -> None:
    """Runs the command line and ends the process: status 0, 1 when it failed, 2 on bad usage."""
    arguments = sys.argv[1:] if argv is None else argv
    if arguments in (["--version"], ["-V"]):
        from headrace._version import __version__

        print(f"headrace {__version__}")
        sys.exit(0)
    try:
        try:
            import click  # noqa: F401
        except ImportError:
            print("headrace: the command line needs its extra: pip install 'headrace[cli]'", file=sys.stderr)
            sys.exit(1)
        from headrace.cli.app import run

        status = run(arguments)
    except KeyboardInterrupt:  # so early that nothing else knows what to do about it
        status = 130
    sys.exit(status)
