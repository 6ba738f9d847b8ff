"""From a JSON Schema of MCP to a model of Structs and aliases (the rules are in generate_types.py)."""

from __future__ import annotations

import json
from typing import Any

from typegen_ir import (
    ANY,
    NUMBER,
    OPEN,
    SCALARS,
    Alias,
    Atom,
    Class,
    Member,
    Model,
    Type,
    pascal,
    repr_json,
    snake,
    union,
)

__all__ = ("build",)

Node = dict[str, Any]

FAMILIES = ("PrimitiveSchemaDefinition", "ElicitRequestParams")
"""Union definitions that become the base class of their alternatives."""
INLINE_FAMILIES = {frozenset({"TextResourceContents", "BlobResourceContents"}): "ResourceContents"}
"""The same for a union that has no definition; the base is an existing definition."""
OPEN_MEMBERS = {"_meta", "capabilities", "requiredCapabilities", "inputSchema", "outputSchema"}
OPEN_DEFINITIONS = {"JSONValue": ANY, "JSONObject": OPEN, "JSONArray": (("list", ANY),), "MetaObject": OPEN}
SHARED = {"annotations": "Annotations"}
"""Inline objects that 2024-11-05 repeats at every place, named as in the later revisions."""
TAGS = ("type", "method")
NULLABLE = {
    ("JSONRPCError", "id"), ("JSONRPCErrorResponse", "id"),  # JR-13: absent and null both occur
    ("*", "cursor"), ("*", "nextCursor"),  # SF-50: absence and null both end a list
    ("CallToolRequestParams", "arguments"), ("GetPromptRequestParams", "arguments"),  # B84: null means none
}  # fmt: skip
WIDENED: dict[tuple[str, str], Type] = {
    # The schema generator wrote "integer" where the protocol says number.
    ("NumberSchema", "minimum"): NUMBER,
    ("NumberSchema", "maximum"): NUMBER,
    ("NumberSchema", "default"): NUMBER,
}
WIDENED_VALUES = {("ElicitResult", "content"): (("float",),)}
"""Atoms added to the values of a map: a form may ask for a fraction, the schema names integers only."""
ADDED: dict[str, dict[str, tuple[Type, str]]] = {
    "SubscriptionFilter": {
        "taskIds": ((("list", (("str",),)),), "Tasks whose status is asked for (tasks extension, SEP-2663)."),
    },
}


class Builder:
    """Holds the definitions of one schema while its model grows."""

    def __init__(self, schema: Node) -> None:
        self.defs: dict[str, Node] = schema.get("$defs") or schema["definitions"]
        self.model = Model()
        self.member_of: dict[str, str] = {}  # definition -> family base
        self.families: dict[str, list[str]] = {}
        for base in FAMILIES:
            if base in self.defs:
                self.family(base, self.leaves(base))
        for names, base in INLINE_FAMILIES.items():
            if names <= self.defs.keys():
                self.family(base, [n for n in self.defs if n in names])

    def family(self, base: str, names: list[str]) -> None:
        self.families[base] = names
        self.member_of.update(dict.fromkeys(names, base))

    def leaves(self, name: str) -> list[str]:
        """The object definitions behind a definition that is a union of references."""
        node = self.defs[name]
        if "anyOf" not in node:
            return [name]
        found = [leaf for n in node["anyOf"] for leaf in self.leaves(ref_name(n))]
        return list(dict.fromkeys(found))

    def run(self) -> Model:
        for name in self.defs:
            if name not in self.families:
                self.definition(name)
        for base, names in self.families.items():
            self.family_base(base, names)
        mark_untracked(self)
        return self.model

    # One definition.

    def definition(self, name: str) -> None:
        if name in self.model.classes or name in self.model.aliases:
            return
        node = flatten(self.defs, self.defs[name])
        doc = node.get("description", "")
        if name in OPEN_DEFINITIONS:
            self.alias(name, doc, OPEN_DEFINITIONS[name])
        elif is_closed_object(node):
            self.struct(name, node)
        elif "anyOf" in node and self.covered(name) is None:
            self.union_definition(name, node)
        else:
            base = self.covered(name) if "anyOf" in node else None
            self.alias(name, doc, (("struct", base),) if base else self.type_of(node, name, ""))

    def covered(self, name: str) -> str | None:
        """The family that holds every alternative of a union definition."""
        bases = (
            {self.member_of.get(leaf) for leaf in self.leaves(name)}
            if self.all_refs(self.defs[name])
            else {None}
        )
        return bases.pop() if len(bases) == 1 else None

    def all_refs(self, node: Node) -> bool:
        """Whether every alternative, at any depth, is a reference."""
        names = [ref_name(n) for n in node["anyOf"] if "$ref" in n]
        nested = [self.defs[n] for n in names if "anyOf" in self.defs[n]]
        return len(names) == len(node["anyOf"]) and all(self.all_refs(n) for n in nested)

    def union_definition(self, name: str, node: Node) -> None:
        doc = node.get("description", "")
        objects, rest = self.split(node["anyOf"])
        nodes = [self.defs[n] for n in objects]
        if not objects or self.tagged(objects):
            self.alias(name, doc, self.type_of(node, name, ""))
            return
        merged = name if not rest else name + "Object"
        if all(is_closed_object(flatten(self.defs, n)) for n in nodes) and self.merge(merged, objects, doc):
            if rest:
                lists = [n["items"]["anyOf"] for n in rest]
                assert all(set(self.split(n)[0]) <= set(objects) for n in lists), name
                self.alias(name, doc, (("struct", merged), ("list", (("struct", merged),))))
            return
        static = union(*[self.type_of(n, name, "") for n in node["anyOf"]], OPEN)
        self.alias(name, doc, OPEN, static)

    def alias(self, name: str, doc: str, kind: Type, static: Type | None = None) -> None:
        self.model.aliases[name] = Alias(name, doc, kind, static)

    # One Struct.

    def struct(self, name: str, node: Node) -> Class:
        node = flatten(self.defs, node)
        made = Class(name, node.get("description", ""))
        if name in self.model.classes:
            raise SystemExit(f"two classes named {name}")
        self.model.classes[name] = made
        properties: dict[str, Node] = dict(node.get("properties", {}))
        required = set(node.get("required", ()))
        method = properties.get("method", {}).get("const")
        made.tag = self.tag_of(name)
        if made.tag:
            del properties[made.tag[0]]
        for wire, prop in properties.items():
            if (
                wire == "params"
                and method
                and is_closed_object(prop)
                and "_meta" not in prop.get("properties", {})
            ):
                prop = with_meta(prop)
            made.members[wire] = self.member(name, wire, prop, wire in required)
        if method and "jsonrpc" not in properties:
            self.envelope(made)
        for wire, (kind, doc) in ADDED.get(name, {}).items():
            made.members[wire] = Member(wire, snake(wire), kind, False, None, doc)
        return made

    def envelope(self, made: Class) -> None:
        """Revisions up to 2025-06-18 leave ``jsonrpc`` and ``id`` out of requests; a frame has them."""
        if (
            "JSONRPCRequest" not in self.defs
            or "CreateTaskResult" in self.defs
            or "DiscoverRequest" in self.defs
        ):
            return  # later revisions name them where they belong
        made.members["jsonrpc"] = Member("jsonrpc", "jsonrpc", (("lit", ("2.0",)),), False, None, "")
        if not made.name.endswith("Notification"):
            made.members["id"] = Member("id", "id", (("ref", "RequestId"),), False, None, "")

    def member(self, owner: str, wire: str, prop: Node, required: bool) -> Member:
        kind = self.member_type(owner, wire, prop)
        default = None
        if required and "const" in prop:
            default = repr_json(prop["const"])
        elif required and wire == "resultType":
            default = '"input_required"' if owner == "InputRequiredResult" else '"complete"'  # JR-10, JR-11
        if {(owner, wire), ("*", wire)} & NULLABLE:
            kind, required = union(kind, (("none",),)), False
        return Member(wire, snake(wire), kind, required, default, prop.get("description", ""))

    def member_type(self, owner: str, wire: str, prop: Node) -> Type:
        if (owner, wire) in WIDENED:
            return WIDENED[owner, wire]
        if wire in OPEN_MEMBERS:
            return OPEN
        if wire in SHARED and is_closed_object(prop):
            name = SHARED[wire]
            if name not in self.model.classes:
                self.struct(name, prop)
            assert set(self.model.classes[name].members) == set(prop["properties"]), (owner, wire)
            return (("struct", name),)
        kind = self.type_of(prop, owner, wire)
        if (owner, wire) in WIDENED_VALUES:
            kind = (("dict", union(kind[0][1], WIDENED_VALUES[owner, wire])),)
        return kind

    def type_of(self, node: Node | bool, owner: str, wire: str) -> Type:
        """The type of a schema node at a member of a Struct, or at a definition with an empty ``wire``."""
        if isinstance(node, bool) or not (node.keys() - {"description"}):
            return ANY
        if "$ref" in node:
            return self.reference(ref_name(node))
        if "const" in node:
            return (("lit", (node["const"],)),)
        if "enum" in node:
            return (("lit", tuple(node["enum"])),)
        if "anyOf" in node:
            return self.inline_union(node["anyOf"], owner, wire)
        if "allOf" in node:
            return (("struct", self.struct(owner + pascal(wire), flatten(self.defs, node)).name),)
        kind = node["type"]
        if isinstance(kind, list):
            return union(*[SCALARS[k] for k in kind])
        if kind == "array":
            return (("list", self.type_of(node.get("items", {}), owner, wire if wire else "item")),)
        if kind == "object":
            return self.object_type(node, owner, wire)
        return SCALARS[kind]

    def object_type(self, node: Node, owner: str, wire: str) -> Type:
        if is_closed_object(node):
            return (("struct", self.struct(owner + pascal(wire), node).name),)
        if node.get("properties"):
            return OPEN
        return (("dict", self.type_of(node.get("additionalProperties", True), owner, wire)),)

    def reference(self, name: str) -> Type:
        node = flatten(self.defs, self.defs[name])
        if name in self.families or is_closed_object(node):
            return (("struct", name),)
        if name in ("JSONValue", "JSONObject", "JSONArray"):
            return OPEN_DEFINITIONS[name]
        return (("ref", name),)

    # Unions.

    def split(self, nodes: list[Node]) -> tuple[list[str], list[Node]]:
        """The names of the object alternatives, and the other alternatives."""
        objects, rest = [], []
        for n in nodes:
            if "$ref" in n:
                objects += self.leaves(ref_name(n))
            else:
                rest.append(n)
        return list(dict.fromkeys(objects)), rest

    def tag_of(self, name: str) -> tuple[str, str] | None:
        """The discriminator of a definition; inline objects and members of a family have none."""
        if name not in self.defs or name in self.member_of:
            return None
        node = flatten(self.defs, self.defs[name])
        for tag in TAGS:
            const = node.get("properties", {}).get(tag, {}).get("const")
            if isinstance(const, str) and tag in node.get("required", ()):
                return tag, const
        return None

    def tagged(self, names: list[str]) -> bool:
        tags = [self.tag_of(n) for n in names]
        found = {t for t in tags if t}
        return len(found) == len(names) and len({t[0] for t in found}) == 1

    def inline_union(self, nodes: list[Node], owner: str, wire: str) -> Type:
        objects, rest = self.split(nodes)
        bases = {self.member_of.get(n) for n in objects}
        others = [self.type_of(n, owner, wire) for n in rest]
        base = bases.pop() if len(bases) == 1 else None
        if base:
            return union((("struct", base),), *others)
        if len(objects) > 1 and not self.tagged(objects):
            merged = owner + pascal(wire or "item")
            if not self.merge(merged, objects, ""):
                raise SystemExit(f"cannot join the alternatives of {merged}")
            return union((("struct", merged),), *others)
        return union(*[(("struct", n),) for n in objects], *others)

    def merge(self, name: str, alternatives: list[str], doc: str) -> bool:
        """One Struct for several; False when msgspec could not hold a member of it."""
        parts = [self.struct_of(n) for n in alternatives]
        wires = list(dict.fromkeys(w for p in parts for w in p.members))
        made = Class(name, doc or "Any of " + ", ".join(alternatives) + ": the members of all of them.")
        for wire in wires:
            having = [p.members[wire] for p in parts if wire in p.members]
            kind = union(*[m.type for m in having])
            if not self.holdable(kind):
                return False
            required = len(having) == len(parts) and all(m.required for m in having)
            default = having[0].default if required and len({m.type for m in having}) == 1 else None
            default = '"complete"' if wire == "resultType" else default
            made.members[wire] = Member(wire, having[0].name, kind, required, default, having[0].doc)
        self.model.classes[name] = made
        return True

    def struct_of(self, name: str) -> Class:
        return self.model.classes.get(name) or self.struct(name, self.defs[name])

    def expand(self, kind: Type) -> Type:
        """``kind`` with the names of unions replaced by what they stand for."""
        out: list[Atom] = []
        for atom in kind:
            if atom[0] != "ref":
                out.append(atom)
                continue
            self.definition(atom[1])
            alias = self.model.aliases.get(atom[1])
            out += self.expand(alias.type) if alias else [("struct", atom[1])]
        return tuple(out)

    def holdable(self, kind: Type) -> bool:
        """Whether msgspec can decode this union: one kind of object, or objects told apart by one tag."""
        atoms = self.expand(kind)
        structs = [a[1] for a in atoms if a[0] == "struct"]
        objects = len(structs) + sum(a[0] == "dict" for a in atoms)
        return objects <= 1 or (objects == len(structs) and self.tagged(structs))

    def family_base(self, base: str, names: list[str]) -> None:
        doc = self.defs[base].get("description", "")
        plain = self.struct(base, self.defs[base]) if "properties" in self.defs[base] else None
        own = dict(plain.members) if plain else {}
        if plain:
            del self.model.classes[base]
        if not self.merge_family(base, names, doc):
            raise SystemExit(f"cannot join the family {base}")
        made = self.model.classes[base]
        made.members = {**own, **{w: m for w, m in made.members.items() if w not in own}}

    def merge_family(self, base: str, names: list[str], doc: str) -> bool:
        """As :meth:`merge`, and the alternatives become subclasses, inline objects of one member likewise."""
        classes = self.model.classes
        nested: dict[str, list[tuple[Member, str]]] = {}
        for wire in dict.fromkeys(w for n in names for w in classes[n].members):
            having = [classes[n].members[wire] for n in names if wire in classes[n].members]
            structs = [(m, a[1]) for m in having for a in m.type if a[0] == "struct"]
            if len({s for _, s in structs}) > 1:
                nested[wire] = structs
        for wire, structs in nested.items():
            joined = base + pascal(wire)
            if not self.merge_family(joined, [s for _, s in structs], ""):
                return False
            for m, _ in structs:
                m.type = (("struct", joined),)
        ok = self.merge(base, names, doc)
        for structs in nested.values():
            for m, struct in structs:
                m.type = (("struct", struct),)
        for n in names:
            self.model.classes[n].base = base
        return ok


def ref_name(node: Node) -> str:
    """The definition a node refers to."""
    return str(node["$ref"]).rsplit("/", 1)[-1]


def is_closed_object(node: Node) -> bool:
    """An object with named members and no index signature."""
    return node.get("type") == "object" and bool(node.get("properties")) and not is_open(node)


def is_open(node: Node) -> bool:
    """Whether the object has an index signature (``{}`` and ``true`` allow any value)."""
    return node.get("additionalProperties", False) is not False


def flatten(defs: dict[str, Node], node: Node) -> Node:
    """``allOf`` of objects as one object; later parts win, an index signature of a base is not inherited."""
    if "allOf" not in node:
        return node
    properties: Node = {}
    required: list[str] = []
    for part in node["allOf"]:
        part = flatten(defs, defs[ref_name(part)] if "$ref" in part else part)
        properties |= part.get("properties", {})
        required += [r for r in part.get("required", ()) if r not in required]
    made: Node = {"type": "object", "properties": properties, "required": required}
    return {**made, "description": node["description"]} if "description" in node else made


def with_meta(params: Node) -> Node:
    """``params`` may always carry ``_meta`` (its base type says so); inline params have lost it."""
    meta: Node = {"type": "object", "description": "Metadata of the message, such as the progress token."}
    return {**params, "properties": {**params["properties"], "_meta": meta}}


def mark_untracked(builder: Builder) -> None:
    """Decide ``gc`` for every class (rule 9); a class on a cycle of types stays tracked."""
    classes = builder.model.classes

    def safe(name: str, above: frozenset[str]) -> bool:
        if name in above:
            return False
        made = classes[name]
        types = [m.type for m in made.members.values()]
        below = above | {name}
        if made.base and not safe(made.base, below):
            return False
        return all(safe_type(t, below) for t in types)

    def safe_type(kind: Type, above: frozenset[str]) -> bool:
        for atom in builder.expand(kind):
            if atom == ("any",):
                return False
            if atom[0] == "struct" and not safe(atom[1], above):
                return False
            if atom[0] in ("list", "dict") and atom[1] != ANY and not safe_type(atom[1], above):
                return False
        return True

    for name, made in classes.items():
        made.gc = not safe(name, frozenset())


def build(raw: bytes) -> Model:
    """The model of one schema."""
    return Builder(json.loads(raw)).run()
