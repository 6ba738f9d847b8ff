"""headrace.server.docstring: parameter sections."""

import inspect

import pytest

from headrace.server.docstring import split_docstring

GOOGLE = """
    Does it.

    Args:
        a: First
            and more.
        b (int, optional): Second: with a colon.

    Raises:
        ValueError: never.
"""
NUMPY = """
    Does it.

    Parameters
    ----------
    a : int
        First
        and more.
    b, c
        Both.

    Raises
    ------
    ValueError
"""
SPHINX = """
    Does it.

    :param a: First
        and more.
    :type a: int
    :param int b: Second: with a colon.
    :raises ValueError: never.
"""


@pytest.mark.parametrize(
    ("text", "names", "left", "found"),
    [
        (
            GOOGLE,
            "ab",
            "Raises:\n    ValueError: never.",
            {"a": "First and more.", "b": "Second: with a colon."},
        ),
        (NUMPY, "abc", "Raises\n------\nValueError", {"a": "First and more.", "b": "Both.", "c": "Both."}),
        (SPHINX, "ab", ":raises ValueError: never.", {"a": "First and more.", "b": "Second: with a colon."}),
    ],
)
def test_sections_move_out_of_the_text(text: str, names: str, left: str, found: dict[str, str]) -> None:
    rest, got = split_docstring(inspect.cleandoc(text), tuple(names))
    assert got == found
    assert rest == f"Does it.\n\n{left}"


@pytest.mark.parametrize("text", [GOOGLE, NUMPY])
def test_a_section_that_names_something_else_stays(text: str) -> None:
    clean = inspect.cleandoc(text)
    assert split_docstring(clean, ("a",)) == (clean, {})


@pytest.mark.parametrize(
    "text",
    [
        "",
        "One line.",
        "Args:",
        "Args:\n",
        "Args:\n    free text\n",
        "Parameters\n---",
        "Parameters",
        "Args:\n  a",
    ],
)
def test_odd_docstrings_are_left_alone(text: str) -> None:
    assert split_docstring(text, ("a",)) == (text, {})


def test_only_parameters_gives_an_empty_text() -> None:
    assert split_docstring("Args:\n    a: First.", ("a",)) == ("", {"a": "First."})
