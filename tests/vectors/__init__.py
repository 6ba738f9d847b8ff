"""Reads the vector files: stanzas of `== name ids`, then `key value` lines; `#` begins a comment.

In a value %XX is a byte and %(N*TEXT) is TEXT repeated N times, so that any bytes fit on a line.
tests/csrc/vectors.h reads the same format.
"""

import re
from pathlib import Path
from typing import NamedTuple

HERE = Path(__file__).parent
_ESCAPE = re.compile(rb"%(?:([0-9A-F]{2})|\((\d+)\*([^)]*)\))")


class Vector(NamedTuple):
    name: str
    ids: tuple[str, ...]
    """Requirements and field faults it stands for."""
    fields: list[tuple[str, bytes]]
    """Key and value of each line, in order."""

    def all(self, key: str) -> list[bytes]:
        return [value for k, value in self.fields if k == key]

    def get(self, key: str) -> bytes | None:
        return next(iter(self.all(key)), None)


def _value(text: bytes) -> bytes:
    return _ESCAPE.sub(
        lambda m: bytes([int(m[1], 16)]) if m[1] else _value(m[3]) * int(m[2]),
        text,
    )


def load(name: str) -> list[Vector]:
    vectors: list[Vector] = []
    for line in (HERE / f"{name}.txt").read_bytes().split(b"\n"):
        if line.startswith(b"== "):
            title, *ids = line[3:].decode().split()
            vectors.append(Vector(title, tuple(ids), []))
        elif line and not line.startswith(b"#"):
            key, _, value = line.partition(b" ")
            vectors[-1].fields.append((key.decode(), _value(value)))
    assert vectors, name
    assert len({v.name for v in vectors}) == len(vectors), "two vectors of one name"
    return vectors
