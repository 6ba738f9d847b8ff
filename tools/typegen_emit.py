"""From the model of a schema to the text of a module (the rules are in generate_types.py)."""

from __future__ import annotations

import re
import textwrap

from typegen_ir import Class, Member, Model, Type, repr_json

__all__ = ("emit_module",)

WIDTH = 110
HEAD = '''"""Messages of MCP revision {revision} as msgspec Structs.

Written by tools/generate_types.py from tools/schemas/{revision}.json: change the generator, not this file.
"""

from __future__ import annotations

from typing import {typing}

from msgspec import UNSET, UnsetType

from headrace.types._base import Message

'''


def render(kind: Type) -> str:
    """A type as the source of an annotation."""
    return " | ".join(render_atom(a) for a in kind)


def render_atom(atom: tuple[object, ...]) -> str:
    match atom:
        case ("any",):
            return "Any"
        case ("none",):
            return "None"
        case ("lit", tuple() as values):
            return f"Literal[{', '.join(repr_json(v) for v in values)}]"
        case ("list", tuple() as kind):
            return f"list[{render(kind)}]"
        case ("dict", tuple() as kind):
            return f"dict[str, {render(kind)}]"
        case ("struct" | "ref", str() as name):
            return name
        case (str() as name,):
            return name
    raise ValueError(f"unknown atom {atom!r}")


def sentence(text: str, width: int) -> str:
    """The first sentence of a description on one line of at most ``width`` characters."""
    text = re.sub(r"\{@link\s+\w*?(?:Request|Notification)([a-z]\w*/[^}]*)\}", r"``\1``", text)
    text = re.sub(r"\{@link\s+\w+(`[^}]*)\}", r"\1", text)
    text = re.sub(r"\{@link\s+([^}]*?)\s*\}", r"\1", text)
    text = re.sub(r"\[([^\]]+)\]\([^)]*\)", r"\1", text).replace("\\", "/").replace('"', "'")
    text = " ".join(re.split(r"\n\s*\n", text.strip())[0].split())
    text = re.split(r"(?<=[a-z0-9)`'][.!?:]) (?=[A-Z`(])", text)[0]
    text = textwrap.shorten(text, width, placeholder=" ...") if len(text) > width else text
    return text.rstrip(":") + ("" if text.endswith((".", "!", "?", "...")) else ".") if text else ""


def ordered(members: list[Member]) -> list[Member]:
    """Required members, then optional ones, each in schema order; ``_meta`` last in its group."""
    return sorted(members, key=lambda m: (not m.required, m.wire == "_meta"))


def emit_class(made: Class, model: Model) -> str:
    base = model.classes[made.base].members if made.base else {}
    own = [m for m in ordered(list(made.members.values()))
           if m.wire not in base or (m.type, m.required, m.default) !=
           (base[m.wire].type, base[m.wire].required, base[m.wire].default)]  # fmt: skip
    options = [made.base or "Message", "kw_only=True"]
    if not made.gc:
        options.append("gc=False")
    if made.tag:
        options += [f'tag_field="{made.tag[0]}"', f'tag="{made.tag[1]}"']
    renamed = [f'"{m.name}": "{m.wire}"' for m in own if m.name != m.wire]
    if renamed:
        options.append("rename={" + ", ".join(renamed) + "}")
    head = f"class {made.name}({', '.join(options)}):"
    if len(head) > WIDTH:
        head = f"class {made.name}(\n    {', '.join(options[:-1])},\n    {options[-1]},\n):"
        if renamed and any(len(line) > WIDTH for line in head.splitlines()):
            inner = "".join(f"        {r},\n" for r in renamed)
            head = f"class {made.name}(\n    {', '.join(options[:-1])},\n    rename={{\n{inner}    }},\n):"
    lines = [head]
    doc = sentence(made.doc, WIDTH - 10) or f"``{made.name}`` of the schema."
    lines.append(f'    """{doc}"""')
    if made.tag or own:
        lines.append("")
    if made.tag:
        lines.append(f'    {made.tag[0]}: ClassVar[Literal["{made.tag[1]}"]] = "{made.tag[1]}"')
    for m in own:
        lines += emit_member(m)
    return "\n".join(lines) + "\n"


def emit_member(m: Member) -> list[str]:
    kind = render(m.type)
    if m.required:
        line = f"    {m.name}: {kind}" + (f" = {m.default}" if m.default else "")
    elif kind == "Any":
        line = f"    {m.name}: Any = UNSET"
    else:
        line = f"    {m.name}: {kind} | UnsetType = UNSET"
    doc = sentence(m.doc, WIDTH - 10)
    return [line, f'    """{doc}"""'] if doc else [line]


def emit_aliases(model: Model) -> list[str]:
    lines: list[str] = []
    done: set[str] = set()

    def needs(kind: Type) -> list[str]:
        found: list[str] = []
        for atom in kind:
            if atom[0] == "ref":
                found.append(atom[1])
            elif atom[0] in ("list", "dict"):
                found += needs(atom[1])
        return found

    def put(name: str) -> None:
        alias = model.aliases.get(name)
        if name in done or alias is None:
            return
        done.add(name)
        for other in needs(alias.type) + (needs(alias.static) if alias.static else []):
            put(other)
        if alias.static:
            lines.append("if TYPE_CHECKING:")
            lines.append(wrap(f"    {name}: TypeAlias = ", render(alias.static)))
            lines.append(f"else:\n    {name} = {render(alias.type)}")
        else:
            lines.append(wrap(f"{name}: TypeAlias = ", render(alias.type)))
        doc = sentence(alias.doc, WIDTH - 6)
        if doc:
            lines.append(f'"""{doc}"""')

    for name in sorted(model.aliases):
        put(name)
    return lines


def wrap(head: str, text: str) -> str:
    """``head`` and a union, over several lines when it is long."""
    if len(head) + len(text) <= WIDTH:
        return head + text
    indent = " " * (len(head) - len(head.lstrip()) + 4)
    body = textwrap.fill(text, WIDTH, initial_indent=indent, subsequent_indent=indent, break_long_words=False)
    return f"{head}(\n{body}\n{indent[4:]})"


def emit_module(revision: str, model: Model) -> str:
    """The whole text of the module of one revision."""
    done: list[str] = []

    def put(name: str) -> None:
        if name not in done:
            if base := model.classes[name].base:
                put(base)
            done.append(name)

    for name in sorted(model.classes):
        put(name)
    body = [emit_class(model.classes[n], model) for n in done]
    aliases = emit_aliases(model)
    text = "\n\n".join(body) + "\n\n" + "\n".join(aliases) + "\n"
    typing = ["Any", "ClassVar", "Literal", "TypeAlias"]
    if "if TYPE_CHECKING:" in aliases:
        typing.insert(0, "TYPE_CHECKING")
    names = sorted([*model.classes, *model.aliases])
    listed = textwrap.fill(", ".join(f'"{n}"' for n in names) + ",", WIDTH, initial_indent="    ",
                           subsequent_indent="    ", break_long_words=False)  # fmt: skip
    head = HEAD.format(revision=revision, typing=", ".join(typing))
    return f"{head}__all__ = (\n{listed}\n)\n\n\n{text}"
