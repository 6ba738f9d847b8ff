"""headrace.server.signature: functions as tools."""

import msgspec

from headrace.server.signature import inspect_tool


def test_a_plain_function() -> None:
    def add(a: int, b: int = 2) -> int:
        """Adds."""
        return a + b

    signature = inspect_tool(add)
    arguments = signature.decoder.decode(b'{"a":1}')
    assert add(*[getattr(arguments, name) for name in signature.positional]) == 3
    assert (signature.name, signature.description, signature.keyword) == ("add", "Adds.", ())
    assert signature.input_schema == {
        "type": "object",
        "properties": {"a": {"type": "integer"}, "b": {"type": "integer", "default": 2}},
        "required": ["a"],
    }
    assert issubclass(signature.arguments, msgspec.Struct)
