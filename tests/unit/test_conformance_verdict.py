"""How results of the conformance suite are judged: the verdict must not pass what the suite calls a warning or a skip."""

import pytest
from interop.conformance import run as suite
from interop.conformance.run import Check, Scenario
from interop.exercise import exercise

from headrace import Server, ToolError, connect


def scenario(name="tools-list", *statuses, side="server", wire="default"):
    return Scenario(side, wire, name, [Check(f"c{n}", "C", status) for n, status in enumerate(statuses)])


@pytest.fixture
def expected(monkeypatch, tmp_path):
    def write(text):
        monkeypatch.setattr(suite, "EXPECTED", tmp_path / "expected_failures.txt")
        suite.EXPECTED.write_text(text)

    return write


def test_b117_failures_and_warnings_are_problems(expected):
    """B117: each one is told, skips are not."""
    expected("# nothing\n")
    found = [scenario("a", "SUCCESS", "SKIPPED"), scenario("b", "SUCCESS", "WARNING"), scenario("c", "FAILURE")]
    lines = suite.problems(found)
    assert [line.split(":")[0] for line in lines] == ["server default b", "server default c"]


def test_expected_failures_are_for_authorization_only(expected):
    expected("server tools-list\n")
    with pytest.raises(AssertionError, match="no authorization scenario"):
        suite.problems([])


def test_an_expected_failure_that_passes_is_stale(expected):
    expected("client auth/a\nclient auth/b\n")
    found = [scenario("auth/a", "FAILURE", side="client"), scenario("auth/b", "SUCCESS", side="client")]
    assert suite.problems(found) == ["expected_failures.txt: client auth/b passes"]
    assert suite.problems(found[:1]) == []  # what was not run is not stale


def test_a_scenario_that_did_not_run_fails(tmp_path, expected):
    expected("")
    found = suite._collect("server", "default", tmp_path, {"tools-list"})
    assert [each.count("FAILURE") for each in found] == [1]


def test_results_are_read_from_their_folders(tmp_path, expected):
    """Names with slashes, and clients that did not come to their end."""
    expected("")
    for folder, said in (("tools_call", "client: done"), ("initialize", ""), ("auth/x", "")):
        place = tmp_path / f"{folder}-2026-01-02T03-04-05-678Z"
        place.mkdir(parents=True)
        (place / "checks.json").write_text('[{"id":"a","name":"A","status":"SUCCESS"},{"id":"b","name":"B","status":"INFO"}]')
        (place / "stdout.txt").write_text(said)
        (place / "stderr.txt").write_text("Traceback")
    found = {each.name: each for each in suite._collect("client", "default", tmp_path, set())}
    assert set(found) == {"tools_call", "initialize", "auth/x"}
    assert not found["tools_call"].failed and not found["auth/x"].failed
    assert [check.id for check in found["initialize"].checks] == ["a", "client-ended"]


def test_totals_leave_authorization_out():
    found = [scenario("a", "SUCCESS", "FAILURE"), scenario("auth/x", "FAILURE", "FAILURE")]
    assert suite.table(found).splitlines()[-1] == "server: 1 of 2 checks passed"


def test_b117_our_own_trials_fail_a_server_that_only_fails(run):
    """B117: the suite takes "isError" for a tool call that works; what we do with counterparts must not."""

    async def trial():
        app = Server("wrong", version="1")
        for name in ("add", "echo", "count", "point", "fail"):

            async def tool(a: int = 0, b: int = 0) -> str:
                raise ToolError("tool not found")

            app.add_tool(tool, name=name)
        async with connect(app) as client:
            with pytest.raises(AssertionError):
                await exercise(client, cancels=False)

    run(trial)
