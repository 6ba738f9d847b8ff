"""Builds the extension modules.

Every ``.pyx`` below ``src/headrace`` is one small extension module; the plain C of ``csrc/`` is
compiled once and linked into each of them (it has no state, so copies are harmless).

``HEADRACE_BUILD`` chooses the mode: ``release`` (default), ``debug`` (asserts, live-object
counters) or ``asan`` (debug plus AddressSanitizer and UndefinedBehaviorSanitizer).
"""

import os
import sys
from pathlib import Path

from Cython.Build import cythonize
from setuptools import Extension, setup
from setuptools.command.build_ext import build_ext
from setuptools.command.build_py import build_py

ROOT = Path(__file__).parent
MODES = ("release", "debug", "asan")
MODE = os.environ.get("HEADRACE_BUILD", "release")
if MODE not in MODES:
    sys.exit(f"HEADRACE_BUILD={MODE!r}: use one of {', '.join(MODES)}")

COMMON = ["-std=c11", "-Wall", "-Wextra", "-fvisibility=hidden", "-ffunction-sections", "-fno-strict-aliasing"]
# Cython's generated code trips these; hand-written C is compiled without them by `make test-c`.
QUIET = ["-Wno-unused-parameter", "-Wno-unused-function", "-Wno-sign-compare", "-Wno-cast-function-type",
         "-Wno-missing-field-initializers", "-Wno-deprecated-declarations"]
CFLAGS = {
    "release": ["-O2", "-DNDEBUG"],
    "debug": ["-O0", "-g", "-UNDEBUG"],  # compiles in a third of the time of -O1
    "asan": ["-O1", "-g", "-UNDEBUG", "-fno-omit-frame-pointer", "-fsanitize=address,undefined"],
}[MODE]
LDFLAGS = {
    "release": ["-Wl,--gc-sections"] if sys.platform == "linux" else [],
    "debug": [],
    "asan": ["-fsanitize=address,undefined"],
}[MODE]
MACROS = [("HR_DEBUG", "1" if MODE != "release" else "0")]


def extensions() -> list[Extension]:
    found = []
    for pyx in sorted((ROOT / "src").glob("headrace/**/*.pyx")):
        relative = pyx.relative_to(ROOT / "src").with_suffix("")
        found.append(
            Extension(
                ".".join(relative.parts),
                [str(pyx.relative_to(ROOT))],
                include_dirs=["csrc"],
                define_macros=MACROS,
                extra_compile_args=COMMON + QUIET + CFLAGS,
                extra_link_args=LDFLAGS,
                depends=[str(p.relative_to(ROOT))
                         for p in [*sorted((ROOT / "csrc").glob("*.[ch]")), *sorted(pyx.parent.glob("*.pxi"))]],
            )
        )
    return found


class BuildExtensions(build_ext):
    """Compiles ``csrc/*.c`` once and links the objects into every extension."""

    def build_extensions(self) -> None:
        sources = [str(p.relative_to(ROOT)) for p in sorted((ROOT / "csrc").glob("*.c"))]
        objects = self.compiler.compile(
            sources,
            output_dir=self.build_temp,
            macros=MACROS,
            include_dirs=["csrc"],
            extra_preargs=COMMON + CFLAGS,
            depends=[str(p.relative_to(ROOT)) for p in sorted((ROOT / "csrc").glob("*.h"))],
        )
        for extension in self.extensions:
            extension.extra_objects = [*(extension.extra_objects or []), *objects]
        super().build_extensions()


class BuildPackage(build_py):
    """Keeps generated C out of the installed package."""

    def find_data_files(self, package: str, src_dir: str) -> list[str]:
        return [f for f in super().find_data_files(package, src_dir) if not f.endswith((".c", ".html"))]


setup(
    ext_modules=cythonize(
        extensions(),
        include_path=["src"],
        quiet="-q" in sys.argv,
        nthreads=min(os.cpu_count() or 1, 4) if sys.platform == "linux" else 0,
        compiler_directives={
            "language_level": "3",
            "boundscheck": False,
            "wraparound": False,
            "cdivision": True,
            "embedsignature": True,
            "freethreading_compatible": False,
            "legacy_implicit_noexcept": False,
        },
    ),
    cmdclass={"build_ext": BuildExtensions, "build_py": BuildPackage},
)
