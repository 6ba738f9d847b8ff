"""The prototype that tells how little an echo can cost: ``serve.py MODE PORT`` over HTTP, ``serve.py stdio`` on pipes.

MODE is ``cparse`` (a protocol of uvloop), ``bparse`` (the same that reads into its own buffer) or ``engine`` (an
epoll of its own). It is compiled on demand, into build/bench/prototype. ``serve.py build`` does only that.
"""

from __future__ import annotations

import asyncio
import contextlib
import fcntl
import importlib.util
import os
import socket
import subprocess
import sys
import sysconfig
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent
BUILD = HERE.parents[1] / "build" / "bench" / "prototype"
NAME = "echo_prototype"
MODES = ("cparse", "bparse", "engine")


def _target() -> Path:
    return BUILD / (NAME + str(sysconfig.get_config_var("EXT_SUFFIX")))


def build() -> None:
    from Cython.Build import cythonize
    from setuptools import Distribution, Extension

    BUILD.mkdir(parents=True, exist_ok=True)
    extension = Extension(
        NAME, [str(HERE / f"{NAME}.pyx"), str(HERE / "scan.c")], include_dirs=[str(HERE)], extra_compile_args=["-O3"]
    )
    folders = {"build_lib": str(BUILD), "build_temp": str(BUILD / "objects")}
    options = {"build_ext": {**folders, "force": True}}
    modules = cythonize([extension], build_dir=str(BUILD), quiet=True)
    Distribution({"name": NAME, "ext_modules": modules, "options": options}).run_command("build_ext")


def built() -> Any:
    """The compiled module, built first where it is missing or older than its sources."""
    target = _target()
    newest = max((HERE / name).stat().st_mtime for name in (f"{NAME}.pyx", "scan.c", "scan.h"))
    if not target.exists() or target.stat().st_mtime < newest:
        # Its own process: the compiler's words must not end up in a server's output.
        done = subprocess.run([sys.executable, __file__, "build"], capture_output=True, text=True)
        if done.returncode:
            raise SystemExit(f"the prototype cannot be built: {done.stderr.strip()[-300:]}")
    spec = importlib.util.spec_from_file_location(NAME, target)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def answers(module: Any) -> Any:
    import msgspec

    class Arguments(msgspec.Struct):
        text: str
        n: int

    class Text(msgspec.Struct, tag="text"):
        text: str

    class Result(msgspec.Struct):
        content: list[Text]
        isError: bool = False

    def echo(arguments: Arguments) -> Result:
        return Result([Text(arguments.text)])

    return module.Answers({"echo": (msgspec.json.Decoder(Arguments).decode, echo)}, msgspec.json.Encoder().encode_into)


async def on_pipes(module: Any) -> None:
    loop = asyncio.get_running_loop()
    for fd in (0, 1):
        os.set_blocking(fd, False)
        with contextlib.suppress(OSError):
            fcntl.fcntl(fd, 1031, 1 << 18)  # F_SETPIPE_SZ: a large line takes fewer turns
    lines = module.Lines(answers(module), loop)
    loop.add_reader(0, lines.readable)
    await lines.closed


async def on_port(module: Any, mode: str, port: int) -> None:
    loop = asyncio.get_running_loop()
    made = answers(module)
    if mode == "engine":
        listening = socket.create_server(("127.0.0.1", port), backlog=1024)
        listening.setblocking(False)
        engine = module.Engine(made, listening.fileno())
        loop.add_reader(engine.epoll, engine.ready)
    else:
        protocol = {"cparse": module.Plain, "bparse": module.Buffered}[mode]
        await loop.create_server(lambda: protocol(made), "127.0.0.1", port, backlog=1024)
    await asyncio.Event().wait()


def main() -> int:
    arguments = sys.argv[1:]
    if arguments == ["build"]:
        build()
        return 0
    if not arguments or arguments[0] not in (*MODES, "stdio") or len(arguments) != 1 + (arguments[0] != "stdio"):
        print(f"serve.py {{{'|'.join(MODES)}}} PORT | serve.py stdio | serve.py build", file=sys.stderr)
        return 2
    import uvloop

    module = built()
    if arguments[0] == "stdio":
        uvloop.run(on_pipes(module))
    else:
        uvloop.run(on_port(module, arguments[0], int(arguments[1])))
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
