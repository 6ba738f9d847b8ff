"""What a load run has seen: counts, errors with a sample, and adding up load processes."""

import pytest

from headrace.bench._tally import ERROR_KINDS, SAMPLE_MAX, Tally


def test_calls_and_errors_are_counted_by_operation():
    tally = Tally(["a", "b"])
    tally.add(0, 1000)
    tally.add(1, 3000)
    tally.add(1, kind="timeout", sample="first")
    tally.add(1, kind="timeout", sample="second")
    tally.add(0, kind="closed", sample="x" * 1000)
    assert (tally.ok_of(0), tally.ok_of(1), tally.failed_of(0), tally.failed_of(1)) == (1, 1, 1, 2)
    assert (tally.ok_total, tally.failed_total, tally.latency().count) == (2, 3, 2)
    assert tally.error_list[0] == ("timeout", 2, "first")
    kind, count, sample = tally.error_list[1]
    assert (kind, count, len(sample)) == ("closed", 1, SAMPLE_MAX)


def test_samples_are_made_only_for_the_first_of_a_kind():
    tally, made = Tally(["a"]), []
    for _ in range(3):
        tally.add(0, kind="closed", sample=lambda: made.append(1) or "once")
    assert made == [1] and tally.error_list == [("closed", 3, "once")]


def test_processes_add_up():
    one, two = Tally(["a", "b"]), Tally(["a", "b"])
    for n in range(100):
        one.add(0, n * 1000)
        two.add(1, n * 1000)
    two.add(0, kind="rpc_error", sample="no")
    one.merge(Tally.load(two.dump()))
    assert (one.ok_total, one.failed_total, one.latency().count) == (200, 1, 200)
    assert one.error_list == [("rpc_error", 1, "no")] and Tally.load(one.dump()).dump() == one.dump()


def test_a_second_is_taken_away_once():
    tally = Tally(["a"])
    tally.add(0, 5)
    tally.add(0, kind="closed")
    ok, failed, data = tally.tick()
    assert (ok, failed) == (1, 1) and data
    assert tally.tick()[:2] == (0, 0) and tally.ok_total == 1


def test_what_does_not_fit_is_refused():
    tally = Tally(["a"])
    with pytest.raises(IndexError):
        tally.add(1, 5)
    with pytest.raises(ValueError, match="no kind of error"):
        tally.add(0, kind="bad_luck")
    with pytest.raises(ValueError, match="different operations"):
        tally.merge(Tally(["b"]))
    for data in (b"", b"\x93", Tally(["a"]).dump()[:-3]):
        with pytest.raises(ValueError):
            Tally.load(data)


def test_every_kind_is_explained():
    assert all(kind and text and kind == kind.lower() for kind, text in ERROR_KINDS.items())
