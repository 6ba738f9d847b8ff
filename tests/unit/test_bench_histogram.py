"""The latency histogram against the reference implementation on PyPI, and what it keeps exactly."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headrace.bench._histogram import Histogram

HOUR = 3_600_000_000_000
PERCENTILES = (0.0, 1.0, 50.0, 75.0, 90.0, 99.0, 99.9, 99.99, 100.0)
values = st.lists(st.one_of(st.integers(1, 5_000), st.integers(1, HOUR)), min_size=1, max_size=200)


def filled(numbers):
    made = Histogram()
    for n in numbers:
        made.record(n)
    return made


@settings(max_examples=60, deadline=None)
@given(values)
def test_percentiles_are_those_of_hdrhistogram(numbers):
    hdr = pytest.importorskip("hdrh.histogram").HdrHistogram(1, HOUR, 3)
    ours = filled(numbers)
    for n in numbers:
        hdr.record_value(n)
    for p in PERCENTILES:
        theirs = hdr.get_value_at_percentile(p)
        assert abs(ours.value_at(p) - theirs) <= 2 + theirs // 500, p
    assert ours.count == hdr.get_total_count()
    assert ours.mean == pytest.approx(hdr.get_mean_value(), rel=2e-3, abs=1)


@settings(max_examples=60, deadline=None)
@given(values)
def test_percentiles_are_near_the_sorted_values(numbers):
    ours, ordered = filled(numbers), sorted(numbers)
    assert (ours.min, ours.max, ours.count) == (ordered[0], ordered[-1], len(ordered))
    assert ours.value_at(100) == ordered[-1]
    for p in PERCENTILES:
        at = max(1, min(len(ordered), int(len(ordered) * (p / 100) + 0.5)))
        exact = ordered[at - 1]
        assert exact <= ours.value_at(p) <= exact + exact // 1000 + 1
    assert ours.mean == pytest.approx(sum(numbers) / len(numbers))


@settings(max_examples=40, deadline=None)
@given(values, values)
def test_merging_and_dumping_lose_nothing(first, second):
    both = filled(first)
    both.merge(Histogram.load(filled(second).dump()))
    whole = filled(first + second)
    assert both.buckets() == whole.buckets()
    assert (both.count, both.min, both.max) == (whole.count, whole.min, whole.max)
    assert sum(count for _, count in both.buckets()) == len(first) + len(second)
    both.clear()
    assert both.count == both.max == both.min == 0 and both.buckets() == [] and both.value_at(99) == 0


def test_extremes_are_kept():
    ours = filled([-5, 0, 10**30])
    assert ours.count == 3 and ours.min == 0 and ours.value_at(100) == ours.max == 1 << 62
    assert Histogram().value_at(50) == 0 and Histogram().stdev == 0.0 and Histogram().mean == 0.0
    assert filled([1_000_000, 3_000_000]).stdev == pytest.approx(1_000_000)


@pytest.mark.parametrize("data", [b"", b"x" * 7, filled([5]).dump()[:-1], filled([5]).dump() + b"x"])
def test_other_bytes_are_no_histogram(data):
    with pytest.raises(ValueError):
        Histogram.load(data)
