"""The numbers of README.md and docs/performance.md, and the plots, are those of the committed results."""

import json
import sys
import xml.etree.ElementTree as ET
from pathlib import Path

ROOT = Path(__file__).parent.parent
sys.path.insert(0, str(ROOT / "benchmarks"))

import render  # noqa: E402

RUN = json.loads(render.RESULTS.read_text())


def test_documents_and_plots_are_not_stale():
    stale = [path for path, text in render.outputs(RUN).items() if (ROOT / path).read_text() != text]
    assert stale == [], "run benchmarks/render.py"


def test_rendering_is_repeatable():
    assert render.outputs(RUN) == render.outputs(RUN)


def test_a_changed_number_makes_them_stale():
    run = json.loads(render.RESULTS.read_text())
    run["tables"][0]["rows"][0]["cpu_us"] *= 2
    run["marks"][0]["reached"] = "77 x"
    changed = {path for path, text in render.outputs(run).items() if (ROOT / path).read_text() != text}
    assert {"README.md", "docs/performance.md", "docs/performance-http-small.svg"} <= changed


def test_losses_are_said():
    text = (ROOT / "docs" / "performance.md").read_text()
    for mark in RUN["marks"]:
        assert f"{mark['group']}: {mark['what']}" in text
        if mark["ok"] is False:
            assert f"| {mark['reached']} | {mark['asked']} | **missed**" in text
    for line in RUN["left_out"]:
        assert line in text


def test_plots_are_well_formed_and_shown():
    text = (ROOT / "docs" / "performance.md").read_text()
    drawn = render.plots(RUN)
    assert drawn
    for path, svg in drawn.items():
        assert ET.fromstring(svg).tag.endswith("svg")
        assert Path(path).name in text
