"""Write ``src/headrace/types/v*.py`` from the official JSON Schemas in ``tools/schemas``.

Usage: ``python tools/generate_types.py`` rewrites the modules, ``--check`` only says whether they are
current (exit status 1 when not). The output depends on nothing but the schemas and this file, so a second
run gives the same bytes.

Rules, from schema to msgspec:

1. An object definition is a keyword-only ``Struct``. Python names are snake_case, the wire name is kept by
   ``rename``. Inline objects get the name of their place (``CompleteRequest.params.argument`` ->
   ``CompleteRequestParamsArgument``).
2. Optional members are ``T | UnsetType = UNSET``: absent, ``null``, ``0`` and ``""`` stay apart.
   ``omit_defaults`` is never used, so a constant member is always on the wire.
3. A required string constant called ``type`` or ``method`` is the tag of its Struct, and unions of such
   Structs are msgspec's tagged unions. The constant is also a class variable, so ``block.type`` reads well.
   Other required constants are fields with the constant as default (a peer that leaves one out is
   understood).
4. Objects that are open in the schema (``additionalProperties``), every ``_meta``, every ``capabilities``
   and every tool schema are ``dict[str, Any]``: unknown members survive a round trip (JR-16, JR-53). For
   ``_meta`` and capabilities the typed definition exists too; ``msgspec.convert(value,
   ServerCapabilities)`` gives the typed view.
5. A union without a tag cannot be told apart by msgspec. It becomes one Struct with the members of all
   alternatives, each required only where every alternative requires it, so any alternative decodes and
   encodes back exactly:
   a. the unions people build values for (``FAMILIES``) become the base class of their alternatives, so that
      ``StringSchema(...)`` is accepted where ``PrimitiveSchemaDefinition`` is asked for;
   b. other unions become a Struct of their own, named after their definition or place;
   c. where two alternatives give one member types that msgspec cannot hold together, or one alternative is
      open, the union is ``dict[str, Any]``, and for a type checker also any of the alternatives.
6. ``number`` is ``int | float`` (100 stays 100, 0.5 stays 0.5), ``integer`` is ``int``; neither takes a
   boolean. Lower and upper bounds are not checked: SF-52 asks to read a negative ``ttlMs``, not to refuse
   it.
7. Base64 stays text, exactly as it came. ``format`` is not checked.
8. Where the published schema is known to be narrower than the protocol, ``WIDENED``, ``ADDED`` and
   ``NULLABLE`` say so.
9. ``gc=False`` on Structs that hold JSON data only: that is a tree, and a tree has no cycles. A member of
   type Any may be given any object by its user and keeps the Struct tracked.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from typegen_emit import emit_module
from typegen_model import build

ROOT = Path(__file__).resolve().parent.parent
SCHEMAS = ROOT / "tools" / "schemas"
TARGET = ROOT / "src" / "headrace" / "types"


def module_name(revision: str) -> str:
    """``2025-11-25`` -> ``v2025_11_25``."""
    return "v" + revision.replace("-", "_")


def generate() -> dict[Path, str]:
    """The text of every generated module by path."""
    found = sorted(SCHEMAS.glob("*.json"))
    return {TARGET / f"{module_name(p.stem)}.py": emit_module(p.stem, build(p.read_bytes())) for p in found}


def main(argv: list[str] | None = None) -> int:
    """Write or check the modules; the exit status."""
    parser = argparse.ArgumentParser(description="Generate the message types from the official schemas.")
    parser.add_argument(
        "--check", action="store_true", help="write nothing, exit 1 when a module is not current"
    )
    check: bool = parser.parse_args(argv).check
    stale = 0
    for path, text in generate().items():
        if path.is_file() and path.read_text("utf-8") == text:
            continue
        stale += 1
        if check:
            print(f"not current: {path.name}", file=sys.stderr)
        else:
            path.write_text(text, "utf-8")
            print(f"wrote {path.name}")
    return 1 if check and stale else 0


if __name__ == "__main__":
    sys.exit(main())
