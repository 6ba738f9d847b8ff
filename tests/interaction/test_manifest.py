"""The requirements manifest: every MUST and SHOULD is cited by a test or listed with a reason, and every cited id exists.

A test cites a requirement in its name (`test_vn62_...`, also `ho30_31`) or in its docstring or that of its class
(`VN-62`, `HN-30..32`). requirements.txt lists all of them, manifest.txt those that are not ours.
"""

import ast
import functools
import re
from pathlib import Path

HERE = Path(__file__).resolve().parent
TESTS = HERE.parent
AREAS = "AU|CF|HN|HO|JR|LS|MX|SE|SF|ST|TK|VN"


def lines(name):
    return [line for line in (HERE / name).read_text().splitlines() if line and not line.startswith("#")]


def read_requirements():
    """{id: set of levels}"""
    return {each[0]: set(each[1].split("+")) for each in (line.split(" ", 3) for line in lines("requirements.txt"))}


def spread(area, first, last):
    return {f"{area}-{number:02}" for number in range(int(first), int(last or first) + 1)}


def read_manifest():
    """{id or range: (ids, reason)}"""
    found = {}
    for line in lines("manifest.txt"):
        entry, _, reason = line.partition(" ")
        match = re.fullmatch(rf"({AREAS})-(\d\d)(?:\.\.(\d\d))?", entry)
        assert match, f"manifest.txt: {line!r}"
        found[entry] = (spread(*match.groups()), reason)
    return found


def cited_by_name(name):
    ids = set()
    for area, numbers in re.findall(rf"(?<![a-z0-9])({AREAS.lower()})((?:\d\d(?!\d)(?:_(?=\d\d(?:_|$)))?)+)", name):
        ids |= {f"{area.upper()}-{number}" for number in re.findall(r"\d\d", numbers)}
    return ids


def cited_by_text(text):
    """(ids that are cited for themselves, ends of ranges included; ids that a range covers)"""
    single, ranged = set(), set()
    for area, first, last in re.findall(rf"\b({AREAS})-(\d\d)\b(?:\.\.(\d\d)\b)?", text or ""):
        single |= {f"{area}-{first}"} | ({f"{area}-{last}"} if last else set())
        ranged |= spread(area, first, last)
    return single, ranged


@functools.cache
def citations():
    """{id: the tests that cite it}; ids inside of a range count, whether they exist or not is up to its ends."""
    singles, covered = {}, {}

    def visit(node, file, texts):
        for child in ast.iter_child_nodes(node):
            if isinstance(child, ast.ClassDef):
                visit(child, file, [*texts, child.name, ast.get_docstring(child) or ""])
            elif isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef) and child.name.startswith("test"):
                place = f"{file.relative_to(TESTS)}::{child.name}"
                for text in [*texts, ast.get_docstring(child) or ""]:
                    single, ranged = cited_by_text(text)
                    for table, ids in ((singles, single), (covered, ranged)):
                        for each in ids:
                            table.setdefault(each, set()).add(place)
                for each in cited_by_name(child.name):
                    singles.setdefault(each, set()).add(place)
                    covered.setdefault(each, set()).add(place)

    for file in sorted(TESTS.rglob("test_*.py")):
        if file != Path(__file__):
            visit(ast.parse(file.read_text()), file, [])
    return singles, covered


def test_every_requirement_has_a_test_or_a_reason():
    requirements = read_requirements()
    assert len(requirements) > 270
    _, covered = citations()
    excused = set().union(*(ids for ids, _ in read_manifest().values()))
    wanted = {each for each, levels in requirements.items() if levels & {"MUST", "SHOULD"}}
    assert sorted(wanted - set(covered) - excused) == []


def test_every_cited_requirement_exists():
    requirements = read_requirements()
    singles, _ = citations()
    assert {each: sorted(places) for each, places in singles.items() if each not in requirements} == {}


def test_the_manifest_is_true():
    """Reasons are given, entries name something, and nothing is excused that has a test (AU- apart: some is done)."""
    requirements = read_requirements()
    _, covered = citations()
    for entry, (ids, reason) in read_manifest().items():
        assert len(reason.split()) >= 3, f"{entry}: no reason"
        assert ids & set(requirements), f"{entry}: there is no such requirement"
        if ".." not in entry:
            assert not ids & set(covered), f"{entry}: has a test by now"


def test_citations_are_found():
    assert cited_by_name("test_vn62_era_by_header") == {"VN-62"}
    assert cited_by_name("test_ho30_31_sessions_and_jr04") == {"HO-30", "HO-31", "JR-04"}
    assert cited_by_name("test_jr22_202_without_a_body") == {"JR-22"}
    assert cited_by_name("test_b105_nan") == set()
    assert cited_by_text("(HN-30..32, VN-62)") == ({"HN-30", "HN-32", "VN-62"}, {"HN-30", "HN-31", "HN-32", "VN-62"})
