"""The numbers of README.md and docs/performance.md, and the plots, are those of the committed results."""

import json
import sys
import xml.etree.ElementTree as ET
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
sys.path.insert(0, str(ROOT / "benchmarks"))

import render  # noqa: E402

RUN = json.loads(render.RESULTS.read_text())
EMBED = json.loads(render.EMBED.read_text())


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


def test_a_changed_number_of_embedding_makes_them_stale():
    run = json.loads(render.EMBED.read_text())
    for table in run["tables"]:
        table["rows"][0]["cpu_us"] *= 2
    changed = {path for path, text in render.outputs(RUN, run).items() if (ROOT / path).read_text() != text}
    assert changed == {"README.md", "docs/performance.md", "docs/integrations.md"}


def test_losses_are_said():
    text = (ROOT / "docs" / "performance.md").read_text()
    for mark in RUN["marks"] + EMBED["marks"]:
        assert f"{mark['group']}: {mark['what']}" in text
        if mark["ok"] is False:
            assert f"| {mark['reached']} | {mark['asked']} | **missed**" in text
    for line in RUN["left_out"] + EMBED["left_out"]:
        assert line in text


def test_servers_under_both_hosts():
    """What stands in the tables is their own median and ours, and the median of the rounds' ratios."""

    def row(name, *rounds):
        return {"name": name, "cpu_us": sorted(rounds)[1], "cpu_us_rounds": list(rounds)}

    rows = [row("A: its own host", 100, 120, 400), row("A: headrace", 10, 30, 20), row("B: its own host", 1, 1, 1)]
    run = {"tables": [{"id": "embed-http", "title": "t", "rows": rows}], "marks": [{"group": "g", "what": "A: more", "asked": ">= 4 x"}]}
    assert "| A | 120 us | 20.0 us | 10.0 x | >= 4 x |\n" in render.hosts(run, "embed-http", "g")
    assert "| B" not in render.hosts(run, "embed-http", "g")
    assert render.embedding({"tables": []}) == render.clients({"tables": []}) == "Not measured in this run.\n"
    assert "MCPServer, default mode, 2025-11-25 in a session" in [what for what, _, _ in render.against(EMBED, "embed-http", render.OWN_HOST)]


def test_shares_of_a_profile():
    """What is built in and the standard library count with their callers; the rest of headrace does not count."""
    import profile_embed

    theirs, ours, validated = ("/x/mcp/run.py", 1, "run"), ("/x/headrace/integrations/k.py", 1, "k"), ("~", 0, "<pydantic_core>")
    library, built_in, carrying = (f"{profile_embed.STANDARD}/contextlib.py", 1, "c"), ("~", 0, "<len>"), ("/x/headrace/mux.py", 1, "m")
    stats = {
        carrying: (1, 1, 9.0, 30.0, {}),
        ours: (1, 1, 1.0, 20.0, {carrying: (1, 1, 1.0, 20.0)}),
        theirs: (1, 1, 2.0, 19.0, {ours: (1, 1, 2.0, 19.0)}),
        validated: (1, 1, 4.0, 4.0, {theirs: (1, 1, 4.0, 4.0)}),
        library: (4, 4, 2.0, 4.0, {theirs: (3, 3, 1.5, 3.0), ours: (1, 1, 0.5, 1.0)}),
        built_in: (4, 4, 1.0, 1.0, {library: (4, 4, 1.0, 1.0)}),
    }
    assert profile_embed.shares(stats) == {
        profile_embed.DISPATCH: pytest.approx(4.25 / 10), profile_embed.VALIDATION: pytest.approx(4 / 10),
        profile_embed.OWN: pytest.approx(1.75 / 10),
    }  # fmt: skip


def test_plots_are_well_formed_and_shown():
    text = (ROOT / "docs" / "performance.md").read_text()
    drawn = render.plots(RUN)
    assert drawn
    for path, svg in drawn.items():
        assert ET.fromstring(svg).tag.endswith("svg")
        assert Path(path).name in text
