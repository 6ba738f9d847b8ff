"""headrace.server.signature: functions as tools."""

import dataclasses
import datetime
import decimal
import enum
import functools
import pathlib
import subprocess
import sys
import uuid
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Annotated, Any, Literal, NamedTuple, TypedDict

import deferred_tools
import msgspec
import pytest

from headrace.errors import UsageError
from headrace.server.schema import Header
from headrace.server.signature import ToolSignature, inspect_tool


class Context:
    """Stands for headrace.Context."""


class Point(msgspec.Struct):
    x: float
    y: float = 0.0


@dataclasses.dataclass
class Box:
    width: int
    height: int = 1


class Options(TypedDict, total=False):
    depth: int


class Pair(NamedTuple):
    a: int
    b: str


class Colour(enum.Enum):
    RED = "red"
    BLUE = "blue"


def call(signature: ToolSignature, raw: str, context: Any = None) -> Any:
    """Calls a tool the way the compiled caller does."""
    arguments = signature.decoder.decode(raw.encode())
    positional = [getattr(arguments, name) for name in signature.positional]
    keyword = {name: getattr(arguments, name) for name in signature.keyword}
    if signature.context_parameter is not None:
        if signature.context_position is None:
            keyword[signature.context_parameter] = context
        else:
            positional.insert(signature.context_position, context)
    return signature.function(*positional, **keyword)


# --- calling -------------------------------------------------------------------------------------


def test_a_plain_function() -> None:
    def add(a: int, b: int = 2) -> int:
        """Adds."""
        return a + b

    signature = inspect_tool(add)
    assert call(signature, '{"a":1}') == 3
    assert (signature.name, signature.description, signature.keyword) == ("add", "Adds.", ())
    assert signature.input_schema == {
        "type": "object",
        "properties": {"a": {"type": "integer"}, "b": {"type": "integer", "default": 2}},
        "required": ["a"],
    }
    assert not signature.is_async and not signature.has_raw and signature.context_parameter is None


def test_positional_only_keyword_only_and_order() -> None:
    def f(a: int, /, b: str = "b", *, c: bool, d: float = 0.5) -> Any:
        return [a, b, c, d]

    signature = inspect_tool(f)
    assert signature.positional == ("a", "b") and signature.keyword == ("c", "d")
    assert call(signature, '{"c":true,"a":1}') == [1, "b", True, 0.5]
    assert signature.input_schema["required"] == ["a", "c"]


def test_mutable_defaults_are_copied_for_every_call() -> None:
    def f(tags: list[str] = ["a"], nested: dict[str, list[int]] = {"k": [1]}) -> Any:  # noqa: B006
        tags.append("more")
        nested["k"].append(2)
        return tags, nested

    signature = inspect_tool(f)
    assert call(signature, "{}") == call(signature, "{}") == (["a", "more"], {"k": [1, 2]})
    assert signature.input_schema["properties"]["tags"]["default"] == ["a"]


def test_a_default_without_json_form_is_not_shown() -> None:
    marker = object()

    def f(value: Any = marker) -> bool:
        return value is marker

    signature = inspect_tool(f)
    assert "default" not in signature.input_schema["properties"]["value"]

    def g(root: pathlib.Path = pathlib.Path("/srv"), when: datetime.date = datetime.date(2024, 1, 2)) -> Any:
        return root, when

    signature = inspect_tool(g)
    assert call(signature, "{}") == (pathlib.Path("/srv"), datetime.date(2024, 1, 2))
    assert signature.input_schema["properties"]["root"] == {
        "type": "string", "format": "path", "default": "/srv",
    }  # fmt: skip


@pytest.mark.parametrize("name", ["_x", "name", "cls", "class_", "__x", "__struct_fields__", "ünï", "type"])
def test_any_parameter_name_keeps_its_wire_name(name: str) -> None:
    scope: dict[str, Any] = {}
    exec(f"def f({name}: int, other: int = 0): return {name}", scope)
    signature = inspect_tool(scope["f"])
    assert call(signature, f'{{"{name}":7}}') == 7
    assert list(signature.input_schema["properties"]) == [name, "other"]


def test_none_as_default_accepts_null() -> None:
    def f(city: str = None, days: Annotated[int, msgspec.Meta(ge=1)] = None) -> Any:  # type: ignore[assignment]  # noqa: RUF013
        return city, days

    signature = inspect_tool(f)
    assert call(signature, '{"city":null,"days":null}') == (None, None)
    assert call(signature, '{"city":"Oslo","days":2}') == ("Oslo", 2)
    with pytest.raises(msgspec.ValidationError):
        signature.decoder.decode(b'{"days":0}')


def test_a_parameter_without_annotation_takes_anything() -> None:
    def f(value, other=1):  # type: ignore[no-untyped-def]
        return value

    signature = inspect_tool(f)
    assert call(signature, '{"value":[1,{"a":null}]}') == [1, {"a": None}]
    assert signature.input_schema["properties"]["value"] == {}


def test_unknown_arguments_are_ignored_unless_forbidden() -> None:
    def f(a: int = 0) -> int:
        return a

    assert call(inspect_tool(f), '{"a":1,"b":2}') == 1
    strict = inspect_tool(f, forbid_unknown=True)
    assert strict.input_schema["additionalProperties"] is False
    with pytest.raises(msgspec.ValidationError) as info:
        strict.decoder.decode(b'{"b":2}')
    assert strict.describe(info.value) == "invalid arguments for tool 'f': unknown argument 'b'"


def test_sf04_a_tool_without_arguments_says_so() -> None:
    def now(ctx: Context) -> str:
        return "now"

    signature = inspect_tool(now, context_type=Context)
    assert signature.input_schema == {"type": "object", "additionalProperties": False}
    assert call(signature, "{}") == "now"


# --- the context ---------------------------------------------------------------------------------


@pytest.mark.parametrize("annotation", [Context, Context | None, Annotated[Context, "injected"]], ids=str)
@pytest.mark.parametrize("shape", ["ctx, a, b", "a, ctx, b", "a, b, ctx", "a, b, *, ctx"])
def test_the_context_is_left_out_of_the_arguments(annotation: Any, shape: str) -> None:
    scope: dict[str, Any] = {}
    exec(f"def f({shape}): return a, b, ctx", scope)
    scope["f"].__annotations__ = {"a": int, "b": int, "ctx": annotation}
    signature = inspect_tool(scope["f"], context_type=Context)
    assert call(signature, '{"a":1,"b":2,"ctx":3}', "context") == (1, 2, "context")
    assert list(signature.input_schema["properties"]) == ["a", "b"]
    assert signature.context_position == (None if "*" in shape else shape.split(", ").index("ctx"))


def test_a_context_imported_for_type_checkers_only() -> None:
    signature = inspect_tool(deferred_tools.type_checking_only, context_type=Context)
    assert signature.context_parameter == "ctx"


def test_two_contexts_are_refused() -> None:
    def f(a: Context, b: Context) -> None: ...

    with pytest.raises(UsageError, match="both 'a' and 'b'"):
        inspect_tool(f, context_type=Context)


# --- kinds of callables --------------------------------------------------------------------------


class Service:
    def __init__(self, factor: int) -> None:
        self.factor = factor

    def scale(self, value: int) -> int:
        """Scales."""
        return value * self.factor

    async def wait(self, value: int) -> int:
        return value

    @staticmethod
    def double(value: int) -> int:
        return value * 2

    @classmethod
    def make(cls, value: int) -> str:
        return f"{cls.__name__}{value}"

    def __call__(self, value: int) -> int:
        """Calls."""
        return value + self.factor


class AsyncCallable:
    """An object that is called."""

    async def __call__(self, value: int) -> int:
        return value


def test_methods_partials_and_callable_objects() -> None:
    service = Service(3)
    assert call(inspect_tool(service.scale), '{"value":2}') == 6
    assert inspect_tool(service.wait).is_async
    assert call(inspect_tool(Service.double), '{"value":2}') == 4
    assert call(inspect_tool(Service.__dict__["double"]), '{"value":2}') == 4
    assert call(inspect_tool(Service.make), '{"value":2}') == "Service2"
    signature = inspect_tool(service)
    assert (signature.name, signature.description) == ("Service", "Calls.")
    assert call(signature, '{"value":2}') == 5
    signature = inspect_tool(AsyncCallable())
    assert signature.is_async and signature.description == "An object that is called."

    def power(base: int, exponent: int, *, modulus: int = 0) -> int:
        return base**exponent

    signature = inspect_tool(functools.partial(power, exponent=3))
    assert signature.name == "power" and signature.input_schema["required"] == ["base"]
    assert call(signature, '{"base":2}') == 8
    signature = inspect_tool(functools.partial(power, 10), name="tens")
    assert list(signature.input_schema["properties"]) == ["exponent", "modulus"]
    assert call(signature, '{"exponent":2}') == 100

    async def later(a: int) -> int:
        return a

    assert inspect_tool(functools.partial(later, a=1)).is_async


def test_a_decorated_function_shows_what_it_wraps() -> None:
    def logged(fn: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(fn)
        def wrapper(*args: Any, **kwargs: Any) -> Any:
            return fn(*args, **kwargs)

        return wrapper

    @logged
    def f(a: int, *, b: Point) -> Any:
        """Wrapped."""
        return a, b

    signature = inspect_tool(f)
    assert signature.description == "Wrapped."
    assert call(signature, '{"a":1,"b":{"x":2}}') == (1, Point(2.0))


def _generator(a: int) -> Any:
    yield a


async def _async_generator(a: int) -> Any:
    yield a


@pytest.mark.parametrize(
    ("fn", "text"),
    [
        (lambda a: a, "a lambda has no name"),
        (Service, "not the class Service"),
        (Service.scale, "not bound"),
        (Service.__dict__["make"], "classmethod"),
        (5, "not int"),
        (_generator, "a generator cannot be a tool"),
        (_async_generator, "a generator cannot be a tool"),
    ],
)
def test_callables_that_cannot_be_tools(fn: Any, text: str) -> None:
    with pytest.raises(UsageError, match=text):
        inspect_tool(fn)


# --- types ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("hint", "raw", "value"),
    [
        (str, '"a"', "a"),
        (int, "5", 5),
        (float, "5", 5.0),
        (bool, "true", True),
        (None, "null", None),
        (Any, "[1]", [1]),
        (object, '{"a":1}', {"a": 1}),
        (list, "[1]", [1]),
        (list[int], "[1]", [1]),
        (tuple[int, str], '[1,"a"]', (1, "a")),
        (tuple[int, ...], "[1,2]", (1, 2)),
        (set[str], '["a"]', {"a"}),
        (frozenset[int], "[1]", frozenset({1})),
        (dict[str, int], '{"a":1}', {"a": 1}),
        (dict[int, str], '{"1":"a"}', {1: "a"}),
        (Sequence[int], "[1]", [1]),
        (Iterable[int], "[1]", [1]),
        (Mapping[str, Point], '{"p":{"x":1}}', {"p": Point(1.0)}),
        (Point, '{"x":1}', Point(1.0)),
        (Box, '{"width":1}', Box(1)),
        (Options, '{"depth":1}', {"depth": 1}),
        (Pair, '[1,"a"]', Pair(1, "a")),
        (Colour, '"red"', Colour.RED),
        (Literal["a", 1], "1", 1),
        (int | str | None, "null", None),
        (Annotated[int, msgspec.Meta(ge=1)], "1", 1),
        (datetime.datetime, '"2024-01-02T03:04:05"', datetime.datetime(2024, 1, 2, 3, 4, 5)),
        (datetime.date, '"2024-01-02"', datetime.date(2024, 1, 2)),
        (datetime.time, '"03:04:05"', datetime.time(3, 4, 5)),
        (datetime.timedelta, '"PT1M"', datetime.timedelta(minutes=1)),
        (uuid.UUID, '"00000000-0000-0000-0000-000000000001"', uuid.UUID(int=1)),
        (decimal.Decimal, '"1.50"', decimal.Decimal("1.50")),
        (bytes, '"YQ=="', b"a"),
        (pathlib.Path, '"/a"', pathlib.Path("/a")),
        (list[pathlib.PurePosixPath] | None, '["/a"]', [pathlib.PurePosixPath("/a")]),
    ],
    ids=str,
)
def test_types_of_parameters(hint: Any, raw: str, value: Any) -> None:
    def f(x):  # type: ignore[no-untyped-def]
        return x

    f.__annotations__ = {"x": hint}
    got = call(inspect_tool(f), f'{{"x":{raw}}}')
    assert got == value and type(got) is type(value)


class Circle(msgspec.Struct):
    radius: int
    label: str = ""


class Square(msgspec.Struct):
    side: int
    label: str = ""


@pytest.mark.parametrize(
    ("hint", "raw", "value"),
    [
        (Circle | Square, '{"side":1,"label":"a"}', Square(1, "a")),
        (Circle | Square | None, "null", None),
        (list[Circle | Square], '[{"radius":1},{"side":2}]', [Circle(1), Square(2)]),
        (datetime.date | str, '"2024-01-02"', datetime.date(2024, 1, 2)),
        (str | datetime.date, '"2024-01-02"', datetime.date(2024, 1, 2)),
        (str | datetime.date, '"soon"', "soon"),
        (Literal["auto"] | uuid.UUID, '"auto"', "auto"),
        (dict[str, int] | Point, '{"x":1}', Point(1.0)),
        (Point | dict[str, int], '{"z":1}', {"z": 1}),
        (list[int] | set[str], '["a"]', {"a"}),
        (dict[str, Circle | Square], '{"a":{"side":1}}', {"a": Square(1)}),
        (pathlib.Path | int, "1", 1),
    ],
    ids=str,
)
def test_unions_that_msgspec_refuses(hint: Any, raw: str, value: Any) -> None:
    def f(x):  # type: ignore[no-untyped-def]
        return x

    f.__annotations__ = {"x": hint}
    assert call(inspect_tool(f), f'{{"x":{raw}}}') == value


def test_a_union_that_does_not_fit_is_described() -> None:
    def f(x: list[Circle | Square]) -> None: ...

    signature = inspect_tool(f)
    with pytest.raises(msgspec.ValidationError) as info:
        signature.decoder.decode(b'{"x":[{"radius":"secret"}]}')
    assert signature.describe(info.value) == (
        "invalid arguments for tool 'f': x[0]: expected Circle | Square, got object"
    )


class Opaque:
    pass


@pytest.mark.parametrize(
    ("hint", "text"),
    [
        (Opaque, r"tool 'f': parameter 'x' has type Opaque, which cannot be read from JSON: use"),
        (list[Opaque], r"parameter 'x' has type Opaque \(in list\[.*Opaque\]\)"),
        (Opaque | int, "Opaque"),
        (complex, "complex"),
        (Callable[[], int], "Callable"),
        (type, "type"),
        (Annotated[str, msgspec.Meta(ge=1)], "Can only set `ge` on a numeric type"),
        (list["Nowhere"], "Nowhere"),  # type: ignore[name-defined]  # noqa: F821
    ],
    ids=str,
)
def test_types_that_cannot_be_parameters(hint: Any, text: str) -> None:
    def f(x):  # type: ignore[no-untyped-def]
        return x

    f.__annotations__ = {"x": hint}
    with pytest.raises(UsageError, match=text):
        inspect_tool(f)


def test_star_parameters_are_refused_with_a_cure() -> None:
    def f(*items: str) -> None: ...
    def g(**options: str) -> None: ...
    def h(*, __x: int) -> None: ...

    with pytest.raises(UsageError, match=r"tool 'f': \*items .* items: list\[str\]"):
        inspect_tool(f)
    with pytest.raises(UsageError, match=r"tool 'g': \*\*options .* dict\[str, Any\]"):
        inspect_tool(g)
    with pytest.raises(UsageError, match="two underscores"):
        inspect_tool(h)


class WithRaw(msgspec.Struct):
    inner: dict[str, msgspec.Raw]


class Node(msgspec.Struct):
    value: int
    children: "list[Node]" = []


def test_raw_anywhere_asks_for_bytes_of_its_own() -> None:
    def f(a: int, b: WithRaw | None = None) -> None: ...
    def g(a: Node) -> None: ...

    assert inspect_tool(f).has_raw
    assert not inspect_tool(g).has_raw


# --- names of types ------------------------------------------------------------------------------


def test_deferred_annotations_at_module_level() -> None:
    signature = inspect_tool(deferred_tools.module_level)
    assert call(signature, '{"item":{"name":"a"}}') == deferred_tools.Item("a")


def test_deferred_annotations_with_local_classes() -> None:
    signature, item = deferred_tools.local_class(inspect_tool)
    assert call(signature, '{"item":{"size":1},"many":[{"size":2}]}') == [item(1), item(2)]
    signature, item = deferred_tools.closure_class(inspect_tool)
    assert call(signature, '{"item":{"size":1}}') == item(1)


def test_a_name_that_cannot_be_found() -> None:
    with pytest.raises(UsageError, match=r"tool 'unknown_name': .*'Missing'.*define it at module level"):
        inspect_tool(deferred_tools.unknown_name)


# --- descriptions --------------------------------------------------------------------------------


def test_docstrings_describe_parameters_and_metadata_wins() -> None:
    def forecast(
        city: str,
        days: Annotated[int, msgspec.Meta(description="From the type.", ge=1)] = 3,
        unit: Annotated[str, "C or F"] = "C",
    ) -> str:
        """Forecast for a city.

        Args:
            city: Name of
                the city.
            days: From the docstring.
            unit (str): Unit.

        Returns:
            Text.
        """
        return ""

    signature = inspect_tool(forecast)
    assert signature.description == "Forecast for a city.\n\nReturns:\n    Text."
    properties = signature.input_schema["properties"]
    assert properties["city"] == {"description": "Name of the city.", "type": "string"}
    assert properties["days"]["description"] == "From the type." and properties["days"]["minimum"] == 1
    assert properties["unit"]["description"] == "C or F"
    assert inspect_tool(forecast, description="  Mine.\n").description == "Mine."
    assert inspect_tool(forecast, description="").description == ""


def test_schemas_written_by_hand() -> None:
    def f(a: int) -> dict[str, int]:
        return {}

    schema = {"type": "object", "properties": {"a": {"type": "integer", "x-vendor": 1}}}
    signature = inspect_tool(f, input_schema=schema, output_schema={"type": "object", "required": ["n"]})
    assert signature.input_schema is schema
    assert signature.output is not None and signature.output.schema == {"type": "object", "required": ["n"]}
    with pytest.raises(UsageError, match='tool \'f\': input_schema must have "type": "object"'):
        inspect_tool(f, input_schema={"type": "array"})


def test_hn22_a_bad_header_is_refused_at_registration() -> None:
    def f(region: Annotated[str, Header("Re gion")]) -> None: ...
    def g(ratio: Annotated[float, Header("Ratio")]) -> None: ...
    def h(region: Annotated[str, Header("Region")], n: Annotated[int | None, Header("N")] = None) -> None: ...

    with pytest.raises(UsageError, match="tool 'f': x-mcp-header of 'region' must be a header name"):
        inspect_tool(f)
    with pytest.raises(UsageError, match="only str, int and bool"):
        inspect_tool(g)
    signature = inspect_tool(h)
    assert signature.headers == (("Region", ("region",), "string"), ("N", ("n",), "integer"))
    assert call(signature, '{"region":"eu","n":null}') is None


# --- pydantic ------------------------------------------------------------------------------------


def test_pydantic_is_never_imported_without_need() -> None:
    code = (
        "import sys; from headrace.server.signature import inspect_tool\n"
        "from headrace.server.results import ResultRenderer\n"
        "def f(a: int, b: list[str] = []) -> dict[str, int]: ...\n"
        "s = inspect_tool(f); ResultRenderer('f', s.output).wire({'a': 1}, '2026-07-28')\n"
        "assert 'pydantic' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", code], check=True, timeout=30)


def test_pydantic_models_and_fields() -> None:
    pydantic = pytest.importorskip("pydantic")

    class User(pydantic.BaseModel):  # type: ignore[misc, name-defined]
        name: str
        age: Annotated[int, pydantic.Field(ge=0)] = 0

    class Team(pydantic.BaseModel):  # type: ignore[misc, name-defined]
        lead: User
        home: pydantic.AnyUrl | None = None

    def f(user, team=None, users=[], limit=pydantic.Field(3, ge=1, description="At most."), ids=(), loud="a"):  # type: ignore[no-untyped-def]  # noqa: B006, B008
        return user, team, users, limit, ids, loud

    f.__annotations__ = {
        "user": User,
        "team": Team | None,
        "users": dict[str, list[User]],
        "limit": int,
        "ids": list[Annotated[int, pydantic.Field(le=9)]],
        "loud": Annotated[str, pydantic.AfterValidator(str.upper)],
    }
    signature = inspect_tool(f)
    got = call(
        signature,
        '{"user":{"name":"a","age":"3"},"team":{"lead":{"name":"b"}},"loud":"x","users":{"k":[{"name":"c"}]}}',
    )
    assert got == (User(name="a", age=3), Team(lead=User(name="b")), {"k": [User(name="c")]}, 3, (), "X")
    properties = signature.input_schema["properties"]
    assert properties["limit"] == {"description": "At most.", "type": "integer", "minimum": 1, "default": 3}
    assert properties["ids"]["items"] == {"type": "integer", "maximum": 9}
    assert signature.input_schema["$defs"]["User"]["required"] == ["name"]
    with pytest.raises(msgspec.ValidationError) as info:
        signature.decoder.decode(b'{"user":{"name":"a","age":"secret"}}')
    text = signature.describe(info.value)
    assert text.startswith("invalid arguments for tool 'f': user: age: input should be a valid integer")
    assert "secret" not in text
    with pytest.raises(msgspec.ValidationError):
        signature.decoder.decode(b'{"user":{"name":"a"},"limit":0}')


def test_a_context_without_annotation_is_an_argument_and_warned_of(caplog):
    def tool(ctx, a: int) -> str: ...

    found = inspect_tool(tool, context_type=Context)
    assert found.input_schema["required"] == ["ctx", "a"]
    assert [r.getMessage() for r in caplog.records] == [
        "tool 'tool': the parameter 'ctx' has no annotation, so clients have to give it; is `ctx: Context` meant?"
    ]
    caplog.clear()

    def fine(ctx: Context, context: str) -> str: ...

    inspect_tool(fine, context_type=Context)
    assert not caplog.records
