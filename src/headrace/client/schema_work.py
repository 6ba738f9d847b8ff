"""How much work a schema can make (JR-52): a few references can stand for billions of schemas.

Strategy: a table of the schemas of one document says which others apply to the same value, and which to its members.
What applies to members of different names never meets, so only the worst name counts. References are resolved as far
as the document goes; those that lead out of it apply to nothing here.
"""

from __future__ import annotations

from typing import Any
from urllib.parse import unquote, urljoin

__all__ = ("SchemaTable", "measure", "patterns_of", "size_of")

_IN_PLACE_LISTS = ("allOf", "anyOf", "oneOf")
_IN_PLACE = ("not", "if", "then", "else", "propertyNames")
_IN_PLACE_MAPS = ("dependentSchemas", "dependencies")
_REFERENCES = ("$ref", "$dynamicRef", "$recursiveRef")
_ANY_MEMBER = ("additionalProperties", "unevaluatedProperties")
_ANY_ITEM = ("items", "additionalItems", "unevaluatedItems", "contains")
_ITEMS = ("items", "prefixItems")

Node = dict[str, Any]
Slots = tuple[list[list[Node]], list[Node]]


def measure(schema: Any, most: int) -> int:
    """Objects and arrays of a schema; more than ``most`` when there are more than that."""
    count = 0
    left = [schema]
    while left and count <= most:
        node = left.pop()
        if isinstance(node, dict | list):
            count += 1
            left += _inner(node)
    return count


def size_of(value: Any) -> tuple[int, int, int]:
    """Values within a JSON value, its depth, and the sum of the squares of its texts' lengths."""
    count = depth = squares = 0
    level = [value]
    while level:
        depth += 1
        count += len(level)
        below: list[Any] = []
        for one in level:
            if isinstance(one, dict):
                below += one.values()
                squares += sum(len(key) ** 2 for key in one)
            elif isinstance(one, list):
                below += one
            elif isinstance(one, str):
                squares += len(one) ** 2
        level = below
    return count, depth, squares


def patterns_of(schema: Any) -> int:
    """How many patterns a schema has."""
    count = 0
    left = [schema]
    while left:
        node = left.pop()
        if isinstance(node, dict):
            found = node.get("patternProperties")
            count += ("pattern" in node) + (len(found) if isinstance(found, dict) else 0)
        left += _inner(node)
    return count


def _inner(node: Any) -> list[Any]:
    if isinstance(node, dict):
        return [each for each in node.values() if isinstance(each, dict | list)]
    return [each for each in node if isinstance(each, dict | list)] if isinstance(node, list) else []


def _dicts(values: Any) -> list[Node]:
    return [each for each in values if isinstance(each, dict)] if isinstance(values, list) else []


class SchemaTable:
    """The schemas of one document and what they apply to the same value, and to the members of it."""

    def __init__(self, root: Any) -> None:
        self._root = root
        self._bases: dict[int, str] = {}
        self._named: dict[str, Node] = {}
        dialect = root.get("$schema") if isinstance(root, dict) else None
        self._id = "id" if isinstance(dialect, str) and "draft-04" in dialect else "$id"
        self._nodes = self._walk()
        self._in_place = {id(node): self._applied(node) for node in self._nodes}
        self._slots = {id(node): self._below(node) for node in self._nodes}

    def __len__(self) -> int:
        return len(self._nodes)

    # --- the work ------------------------------------------------------------------------------------

    def overlap(self, most: int, *, below: bool) -> int:
        """The most schemas that apply to one value, or to the values of one path with ``below``; more than
        ``most`` when there are more than that. A schema inside of itself counts once: the validator knows it."""
        costs: dict[int, int] = {}
        worst = 0
        for start in self._nodes:
            cost = self._settle(start, costs, self._slots if below else None, most)
            worst = max(worst, cost)
            if worst > most:
                break
        return worst

    def unrolled(self, depth: int, most: int) -> int:
        """The same for values of a depth, every schema counted as often as it is met; for what finds the errors,
        which does not remember. More than ``most`` also where finding out would be too much work itself."""
        if len(self._nodes) * depth > most * 50:
            return most + 1
        before: dict[int, int] = {}
        for _ in range(depth):
            costs: dict[int, int] = {}
            for node in self._nodes:
                if self._settle(node, costs, None, most, before) > most:
                    return most + 1
            if costs == before:
                break
            before = costs
        return before.get(id(self._root), 1)

    def _settle(
        self,
        start: Node,
        costs: dict[int, int],
        slots: dict[int, Slots] | None,
        most: int,
        before: dict[int, int] | None = None,
    ) -> int:
        """The cost of one schema, depth first without recursion: a chain of references may be as long as the
        document. ``before`` holds the costs of what applies to members, one level less deep."""
        if id(start) in costs:
            return costs[id(start)]
        costs[id(start)] = 0  # inside of itself
        stack = [(start, self._needed(start, slots))]
        while stack:
            node, parts = stack[-1]
            while parts and id(parts[-1]) in costs:
                parts.pop()
            if parts:
                part = parts.pop()
                costs[id(part)] = 0
                stack.append((part, self._needed(part, slots)))
                continue
            stack.pop()
            cost = 1 + sum(costs[id(part)] for part in self._in_place[id(node)])
            known = costs if slots is not None else before
            if known is not None:
                own, every = self._slots[id(node)]
                always = sum(known.get(id(part), 0) for part in every)
                cost += always + max((sum(known.get(id(part), 0) for part in group) for group in own), default=0)
            costs[id(node)] = cost
            if cost > most:
                return cost
        return costs[id(start)]

    def _needed(self, node: Node, slots: dict[int, Slots] | None) -> list[Node]:
        parts = list(self._in_place[id(node)])
        if slots is not None:
            own, every = slots[id(node)]
            parts += every
            for group in own:
                parts += group
        return parts

    # --- the table -----------------------------------------------------------------------------------

    def _walk(self) -> list[Node]:
        """All objects of the document, with the base URI of each."""
        found = []
        left: list[tuple[Any, str]] = [(self._root, "")]
        while left:
            node, base = left.pop()
            if isinstance(node, dict):
                name = node.get(self._id)
                if isinstance(name, str):
                    base = _join(base, name).partition("#")[0]
                    self._named.setdefault(base, node)
                for word in ("$anchor", "$dynamicAnchor"):
                    anchor = node.get(word)
                    if isinstance(anchor, str):
                        self._named.setdefault(f"{base}#{anchor}", node)
                if isinstance(name, str) and name.startswith("#"):
                    self._named.setdefault(f"{base}{name}", node)  # how older drafts name anchors
                self._bases[id(node)] = base
                found.append(node)
            left += [(each, base) for each in _inner(node)]
        if isinstance(self._root, dict):
            self._named.setdefault("", self._root)
        return found

    def _applied(self, node: Node) -> list[Node]:
        """The schemas that apply to the same value as ``node``."""
        parts: list[Any] = []
        for key in _IN_PLACE_LISTS:
            parts += _dicts(node.get(key))
        parts += [node.get(key) for key in _IN_PLACE]
        for key in _IN_PLACE_MAPS:
            inner = node.get(key)
            if isinstance(inner, dict):
                parts += inner.values()
        for key in _REFERENCES:
            ref = node.get(key)
            if isinstance(ref, str):
                parts.append(self._target(ref, self._bases[id(node)]))
        return [part for part in parts if isinstance(part, dict) and id(part) in self._bases]

    def _below(self, node: Node) -> Slots:
        """The schemas that apply to members: those of one name or place each, and those of any."""
        own: list[list[Node]] = []
        properties = node.get("properties")
        if isinstance(properties, dict):
            own += [[part] for part in properties.values() if isinstance(part, dict)]
        for key in _ITEMS:
            own += [[part] for part in _dicts(node.get(key))]
        every = [part for key in (*_ANY_MEMBER, *_ANY_ITEM) if isinstance(part := node.get(key), dict)]
        patterns = node.get("patternProperties")
        if isinstance(patterns, dict):
            every += [part for part in patterns.values() if isinstance(part, dict)]
        return own, every

    def _target(self, ref: str, base: str) -> Any:
        where, _, fragment = _join(base, ref).partition("#")
        fragment = unquote(fragment)
        if fragment and not fragment.startswith("/"):
            return self._named.get(f"{where}#{fragment}")
        node: Any = self._named.get(where)
        for step in fragment.split("/")[1:]:
            step = step.replace("~1", "/").replace("~0", "~")
            if isinstance(node, dict):
                node = node.get(step)
            elif isinstance(node, list) and step.isdecimal() and len(step) < 10 and int(step) < len(node):
                node = node[int(step)]
            else:
                return None
        return node


def _join(base: str, ref: str) -> str:
    if ref.startswith("#"):
        return base + ref
    try:
        return urljoin(base, ref)
    except ValueError:
        return ref
