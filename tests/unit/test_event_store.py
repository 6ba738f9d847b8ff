"""The event stores of sessions: ids, replay, bounds of one and of all (HO-20, HO-21, SE-08)."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headrace.limits import Limits
from headrace.protocol._event_memory import EventPool
from headrace.protocol.event_store import EventStore, Replay


class Clock:
    def __init__(self):
        self.now = 100.0

    def __call__(self):
        return self.now


def pool(clock=None, **limits):
    return EventPool(Limits(**limits), clock or Clock())


def test_ho20_ids_are_unique_in_the_session_and_name_their_stream():
    store = pool().open()
    ids = [store.append(f"p{i % 3}", b"{}") for i in range(30)]
    assert len(set(ids)) == 30
    assert all(each.split(".")[1] == f"p{i % 3}" for i, each in enumerate(ids))
    assert all(0x21 <= ord(c) <= 0x7E for each in ids for c in each)
    assert not set(ids) & {pool().open().append("p0", b"{}")}


def test_ho21_replay_is_what_followed_on_that_stream_alone():
    store = pool().open()
    a = [store.append("p1", b"a%d" % i) for i in range(3)]
    b = [store.append("p2", b"b%d" % i) for i in range(3)]
    a.append(store.append("p1", b"a3"))
    assert store.replay(a[1]) == Replay("p1", [(a[2], b"a2"), (a[3], b"a3")])
    assert store.replay(b[2]) == Replay("p2", [])
    store.end("p1")
    assert store.replay(a[0]).events[-1] == (a[3], b"a3")


def test_events_without_data_are_not_replayed():
    store = pool().open()
    first = store.append("p1", b"")
    second = store.append("p1", b"{}")
    store.append("p1", b"")
    assert store.replay(first).events == [(second, b"{}")]


@pytest.mark.parametrize(
    "bad", ["", "x", "..", "a.b.c", "TAG.p1.0", "TAG.p1.99", "TAG.p1.-1", "TAG.p1.1x", "TAG.p1.\u0661", "TAG.p1.1.1",
            "TAG.p1." + "9" * 5000, "TAG.p1.1\0", "\0", "TAG.p1", "x" * 10_000],
)  # fmt: skip
def test_b43_ids_that_were_never_given_are_unknown(bad):
    store = pool().open()
    store.append("p1", b"{}")
    assert store.replay(bad.replace("TAG", store.tag)) is None


def test_b43_ids_of_another_session_are_unknown():
    both = pool()
    one, two = both.open(), both.open()
    id_ = one.append("p1", b"{}")
    two.append("p1", b"{}")
    assert one.replay(id_) is not None and two.replay(id_) is None
    # nor does the number of one stream name an event of another
    a, b = one.append("p2", b"{}"), one.append("p1", b"{}")
    assert one.replay(a.replace("p2", "p1")) is None and one.replay(b.replace("p1", "p2")) is None


def test_se08_one_session_is_bounded_in_events_and_bytes():
    store = pool(max_resume_events=10).open()
    ids = [store.append("p1", b"%d" % i) for i in range(50)]
    assert len(store) == 10
    # what is left is given, the last event among it
    assert [data for _, data in store.replay(ids[0]).events] == [b"%d" % i for i in range(40, 50)]
    store = pool(max_resume_bytes=10_000).open()
    for _ in range(50):
        store.append("p1", b"x" * 1000)
    assert store.size <= 10_000 and len(store) == 8
    last = store.append("p1", b"x" * 20_000)
    assert len(store) == 0 and store.replay(last).events == []
    store.end("p1")
    assert store.replay(last).lost


def test_se08_all_sessions_together_are_bounded_oldest_first():
    everybody = pool(max_resume_total_bytes=10_000)
    stores = [everybody.open() for _ in range(5)]
    ids = [stores[i % 5].append("p1", b"x" * 800) for i in range(30)]
    assert everybody.size <= 10_000 and everybody.size == sum(each.size for each in stores)
    assert sum(len(each) for each in stores) == 10
    assert [data for each, first in zip(stores, ids, strict=False) for _, data in each.replay(first).events] == [
        b"x" * 800
    ] * 10


def test_se08_events_age():
    clock = Clock()
    everybody = pool(clock, resume_age=10.0)
    store = everybody.open()
    first = store.append("p1", b"1")
    clock.now += 6
    second = store.append("p1", b"2")
    store.append("p2", b"3")
    clock.now += 6
    everybody.sweep()
    assert store.replay(first).events == [(second, b"2")]
    store.end("p1")
    clock.now += 6
    everybody.sweep()
    assert store.replay(first).lost and everybody.size == 0 and len(store) == 0


def test_a_stream_that_goes_on_after_its_end_gives_new_ids():
    clock = Clock()
    everybody = pool(clock, resume_age=10.0)
    store = everybody.open()
    first = store.append("g1", b"1")
    store.end("g1")
    clock.now += 20
    everybody.sweep()
    second = store.append("g1", b"2")
    assert second != first and store.replay(first).events == [(second, b"2")]


def test_closing_a_store_gives_everything_back():
    everybody = pool()
    one, two = everybody.open(), everybody.open()
    for i in range(500):
        one.append(f"p{i}", b"x" * 100)
        two.append("p1", b"y")
    one.close()
    assert everybody.size == two.size and len(one) == 0
    two.close()
    assert everybody.size == 0
    assert len(everybody) < 200  # places in the order come back


def test_the_interface_has_defaults_for_what_a_store_need_not_know():
    class Nothing(EventStore):
        def append(self, stream, data):
            return super().append(stream, data) or "x"

        def replay(self, last_id):
            return super().replay(last_id)

    store = Nothing()
    assert store.append("p1", b"") == "x" and store.replay("x") is None
    assert store.end("p1") is None and store.close() is None


@settings(max_examples=60, deadline=None)
@given(st.lists(st.tuples(st.integers(0, 3), st.integers(0, 3), st.integers(0, 400), st.booleans()), max_size=80))
def test_bounds_and_replay_against_a_plain_list(steps):
    """Model: every event ever given; what a store has is a run of the newest, and replay cuts it by stream."""
    everybody = pool(max_resume_events=8, max_resume_bytes=3000, max_resume_total_bytes=5000)
    stores = [everybody.open() for _ in range(4)]
    given_ = [[] for _ in stores]
    for which, stream, size, ends in steps:
        store, name = stores[which], f"p{stream}"
        given_[which].append((name, store.append(name, b"z" * size), b"z" * size))
        if ends:
            store.end(name)
        assert everybody.size == sum(each.size for each in stores) <= 5000
        for each, history in zip(stores, given_, strict=True):
            assert len(each) <= 8 and each.size <= 3000
            kept = history[len(history) - len(each) :]
            for position, (stream_, id_, _) in enumerate(history):
                found = each.replay(id_)
                after = {e[1] for e in history[position + 1 :]}
                wanted = [(e[1], e[2]) for e in kept if e[0] == stream_ and e[1] in after and e[2]]
                assert found is not None and found.events == wanted
                assert not (found.lost and any(e[0] == stream_ for e in kept))
