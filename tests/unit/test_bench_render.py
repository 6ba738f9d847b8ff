"""benchmarks/render.py: what the documents say below a table is what the table holds."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path
from typing import Any

import pytest

RENDER = Path(__file__).parents[2] / "benchmarks" / "render.py"


@pytest.fixture(scope="module")
def render() -> Any:
    if not RENDER.exists():
        pytest.skip("the benchmarks are not part of this distribution")
    path = list(sys.path)
    try:
        spec = importlib.util.spec_from_file_location("bench_render", RENDER)
        assert spec is not None and spec.loader is not None
        module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
    finally:
        sys.path[:] = path
    return module


def run_of(http: dict[str, float], lines: dict[str, float]) -> dict[str, Any]:
    tables = [("pythons-http", http), ("pythons-stdio", lines)]
    return {"tables": [{"id": id, "rows": [{"name": n, "cpu_us": us} for n, us in of.items()]} for id, of in tables]}


def test_pythons_names_the_cheapest_of_each_wire(render: Any) -> None:
    text = render.pythons(run_of({"old": 11.5, "new": 8.6}, {"old": 1.28, "new": 2.01}))
    assert "Cheapest over HTTP: new; over stdio: old." in text


def test_pythons_names_one_that_is_cheapest_on_both(render: Any) -> None:
    text = render.pythons(run_of({"old": 9.0, "new": 8.6}, {"old": 2.5, "new": 2.01}))
    assert text.endswith("new was the cheapest on both.\n")


def test_pythons_of_a_run_without_them(render: Any) -> None:
    assert render.pythons({"tables": []}) == "Not measured in this run.\n"
