"""Reports of load runs: as data, as figures people read, compared, and as a page."""

import json
import re
from html.parser import HTMLParser

import msgspec
import pytest
from bench_samples import sample

from headrace.bench import charts, units
from headrace.bench._histogram import Histogram
from headrace.bench._tally import ERROR_KINDS
from headrace.bench.compare import compare
from headrace.bench.html import page
from headrace.bench.report import BadReport, Latency, encode, latency_of, machine, read_report

HOSTILE = '</style><script>alert("x")</script><img src=http://example.com/x onerror=y> & \u202e\x1b[2J'


def test_a_report_is_read_as_it_was_written():
    report = sample(errors=[("timeout", 3, "no answer")])
    data = encode(report)
    assert read_report(data) == report
    assert encode(read_report(data)) == data
    row = report.latency.histogram[0]
    assert f"[{row[0]}, {row[1]}]".encode() in data  # one line a row
    shape = json.loads(data)
    assert shape["headrace_bench"] == 1
    assert {"machine", "target", "load", "totals", "latency", "operations", "errors", "over_time", "server", "generator"} <= set(shape)


def test_texts_of_a_report_survive_the_layout():
    report = sample(seconds=1, errors=[("rpc_error", 1, "[\n  1.5,\n  2\n]")])
    assert read_report(encode(report)).errors[0].sample == "[\n  1.5,\n  2\n]"


@pytest.mark.parametrize(
    "data, says",
    [
        (b"{", "a.json is not JSON"),
        (b"\xff\xfe", "a.json is not JSON"),
        (b"[]", "a.json is no report"),
        (b'{"x":1}', "a.json is no report"),
        (b'{"headrace_bench":2}', "a.json has version 2 .* reads 1"),
        (b'{"headrace_bench":1,"started":"x"}', "a.json is no whole report: .*machine"),
    ],
)
def test_what_is_no_report_is_said(data, says):
    with pytest.raises(BadReport, match=says):
        read_report(data, "a.json")


def test_members_of_later_versions_are_ignored():
    shape = json.loads(encode(sample(seconds=1)))
    shape["more"] = {"x": 1}
    assert read_report(json.dumps(shape)).totals.ok


def test_latencies_are_those_of_the_histogram_in_microseconds():
    histogram = Histogram()
    for us in range(1, 5001):
        histogram.record(us * 1000)
    latency = latency_of(histogram, corrected=True)
    assert latency.corrected
    assert latency.p50 == pytest.approx(2500, rel=2e-3)
    assert latency.p99 == pytest.approx(4950, rel=2e-3)
    assert latency.p99_99 == pytest.approx(5000, rel=2e-3)
    assert len(latency.histogram) <= 400
    assert sum(count for _, count in latency.histogram) == 5000
    edges = [edge for edge, _ in latency.histogram]
    assert edges == sorted(set(edges))
    assert latency_of(Histogram()) == Latency()


def test_the_machine_is_named():
    found = machine()
    assert found.cores >= 1 and found.cpu and found.python and found.headrace


@pytest.mark.parametrize(
    "made, text",
    [
        (units.latency(0.4), "400 ns"), (units.latency(12.34), "12.3 us"), (units.latency(999.6), "1.00 ms"),
        (units.latency(1_500_000), "1.50 s"), (units.latency(0), "0 us"), (units.latency(99.97), "100 us"),
        (units.size(512), "512 B"), (units.size(31_100_000), "31.1 MB"), (units.size(-2000), "-2.00 kB"),
        (units.size(3e12), "3.00 TB"), (units.count(1234567), "1,234,567"), (units.per_second(61234.4), "61,234"),
        (units.percent(0.0341), "+3.4 %"), (units.percent(-0.0001), "0.0 %"), (units.percent(3.127), "+313 %"),
        (units.duration(0.5), "500 ms"), (units.duration(125), "2 min 5 s"), (units.duration(3780), "1 h 3 min"),
        (units.amount(2500), "2.5k"), (units.amount(1.2e6), "1.2M"), (units.amount(0), "0"), (units.cores(0.984), "0.98"),
    ],
)  # fmt: skip
def test_figures_for_people(made, text):
    assert made == text


# --- comparisons ---------------------------------------------------------------------------------------


def verdicts(compared):
    return {delta.name: delta.verdict for delta in compared.deltas}


def test_equal_runs_differ_by_noise_only():
    for seed in range(2, 12):
        compared = compare(sample(seed=1), sample(seed=seed))
        assert compared.verdict == "noise", compared
        assert compared.says == "No difference beyond noise."
        assert set(verdicts(compared).values()) <= {"noise", "shown"}


def test_a_faster_run_is_better_in_both_directions():
    slow, fast = sample(seed=1), sample(seed=2, speed=1.3)
    better = compare(slow, fast, ("a", "b"))
    assert better.verdict == "better" and better.before == "a"
    assert verdicts(better)["calls per second"] == verdicts(better)["latency, p50"] == "better"
    assert verdicts(better)["server CPU per call"] == "better"
    assert verdicts(better)["latency, max"] == "shown"  # one value is never judged
    assert "calls per second +" in better.says
    assert compare(fast, slow).verdict == "worse"


def test_noisy_runs_are_not_called_different():
    compared = compare(sample(seed=1, noise=0.3), sample(seed=2, noise=0.3, speed=1.1))
    assert verdicts(compared)["calls per second"] == "noise"
    assert compared.deltas[0].noise > 0.1


def test_wrong_answers_come_before_any_speed():
    compared = compare(sample(), sample(speed=3, errors=[("is_error", 5, "x")]), ("a", "b"))
    assert compared.verdict == "wrong"
    assert re.search(r"5 of [\d,]+ calls failed in b: speed means nothing", compared.says)


def test_short_runs_say_so():
    compared = compare(sample(seconds=2), sample(seconds=2, speed=1.1, seed=2))
    assert compared.verdict == "unclear"
    assert any("Only 2 whole seconds" in text for text in compared.caveats)
    assert compare(sample(seconds=2), sample(seconds=2, speed=2)).verdict == "better"  # that much is seen at once


def test_unlike_runs_are_compared_with_a_warning():
    other = sample(names=("add",), limit=True)
    other.load.connections = 8
    other.machine.cpu = "another"
    text = " ".join(compare(sample(), other, ("a", "b")).caveats)
    assert "connections (64 and 8)" in text and "operations" in text
    assert "different machines" in text and "generator was the limit in b" in text


def test_an_open_loop_that_kept_its_pace_is_not_faster():
    a, b = sample(open_loop=30_000.0), sample(open_loop=30_000.0, seed=3)
    assert verdicts(compare(a, b))["calls per second"] == "shown"


def test_runs_without_a_right_answer_are_compared():
    empty = sample(seconds=1, errors=[("connect", 1, "refused")])
    empty.totals.ok, empty.totals.per_second, empty.latency = 0, 0.0, Latency()
    empty.totals.completed = 1
    assert compare(sample(), empty).verdict == "wrong"


# --- the page ------------------------------------------------------------------------------------------


class Tags(HTMLParser):
    """Checks that tags are closed in order and collects what a browser would fetch or run."""

    VOID = frozenset(("meta", "link"))

    def __init__(self):
        super().__init__()
        self.open, self.fetched, self.count = [], [], {}

    def handle_starttag(self, tag, attributes):
        self.count[tag] = self.count.get(tag, 0) + 1
        if tag not in self.VOID:
            self.open.append(tag)
        for name, value in attributes:
            if name.startswith("on") or (name in ("src", "href", "xlink:href", "action") and value != "data:,"):
                self.fetched.append((tag, name, value))

    def handle_startendtag(self, tag, attributes):
        self.count[tag] = self.count.get(tag, 0) + 1

    def handle_endtag(self, tag):
        assert self.open.pop() == tag


def parsed(text):
    tags = Tags()
    tags.feed(text)
    tags.close()
    assert tags.open == []
    return tags


def hostile():
    report = sample(name=HOSTILE, names=(HOSTILE, "b"), errors=[("rpc_error", 2, HOSTILE), (HOSTILE, 1, "x")])
    report.target.server.name = report.target.server.version = report.target.revision = report.started = HOSTILE
    report.machine.cpu = report.machine.headrace = report.generator.says = HOSTILE
    report.target.kind = HOSTILE
    report.generator.limit = True
    return report


def test_everything_on_the_page_is_escaped():
    text = page(hostile(), sample(), (HOSTILE, HOSTILE))
    tags = parsed(text)
    assert tags.fetched == []
    assert "script" not in tags.count and "img" not in tags.count and tags.count["style"] == 1
    assert "default-src 'none'" in text
    assert not re.search(r"url\(|@import|https?://(?!127|example)", text)
    assert "&lt;script&gt;" in text


@pytest.mark.parametrize(
    "report",
    [
        sample(), sample(seconds=1, server=False), sample(seconds=3), sample(seconds=700, rate=300), sample(open_loop=100.0),
        sample(errors=[(kind, i + 1, "x") for i, kind in enumerate(ERROR_KINDS)]),
    ],
    ids=["usual", "one second", "three seconds", "long", "open loop", "errors"],
)  # fmt: skip
def test_pages_of_all_kinds_of_runs(report):
    text = page(report)
    tags = parsed(text)
    assert tags.count["svg"] >= 4
    assert "NaN" not in text and "inf" not in re.findall(r'd="[^"]*"', text)
    assert ("Server CPU" in text) == (report.server is not None)
    assert len(text) < 400_000
    for error in report.errors:
        assert error.kind in text and ERROR_KINDS[error.kind] in text


def test_a_page_of_a_run_without_answers():
    report = sample(seconds=1, errors=[("connect", 1, "refused")])
    report.totals.ok, report.latency, report.over_time, report.operations = 0, Latency(), [], []
    assert "refused" in page(report) and parsed(page(report))


def test_the_page_of_a_comparison_shows_both_runs():
    text = page(sample(seed=2, speed=1.3), sample(), ("a.json", "b.json"))
    assert 'id="comparison"' in text and "a.json" in text and "b.json" in text
    assert text.count('class="line b"') >= 2  # both percentile curves
    assert '<span class="tag good">better</span>' in text
    assert "±" in text


def test_charts_keep_within_their_frame():
    wild = sample(noise=0.9)
    drawn = charts.percentiles([("x", "a", wild.latency)]) + charts.histogram(wild.latency)
    seconds = [row.second for row in wild.over_time]
    drawn += charts.over_time("t", seconds, [charts.Series("ok", "a", [row.ok for row in wild.over_time])], "rate")
    for path in re.findall(r'class="line a" d="M([^"]+)"', drawn):
        for x, y in (point.split() for point in path.split("L")):
            assert 0 <= float(x) <= charts.WIDTH and 0 <= float(y) <= charts.HEIGHT


def test_long_runs_become_few_points():
    assert len(charts.thinned(range(3600))) <= 150
    assert charts.thinned(range(3)) == [(0, 1), (1, 2), (2, 3)]
    assert msgspec.json.encode(sample(seconds=1))  # plain data all through
