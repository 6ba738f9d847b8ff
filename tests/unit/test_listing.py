"""Pages and cursors: order, changes in between, bad cursors, five thousand entries (SF-02, SF-50, SF-53, B110, B113)."""

import json
import threading

import pytest

from headrace.errors import RpcError, UsageError
from headrace.server.features import CacheHint
from headrace.server.listing import Listing

R4, R5 = "2025-11-25", "2026-07-28"


def listing(n, size=2):
    made = Listing("tools/list", "tools", size)
    for k in range(n):
        made.put(f"t{k}", lambda revision, k=k: {"name": f"t{k}", "r": revision}, "tool")
    return made


def walk(made, revision=R5, meanwhile=lambda page: None):
    names, cursor, pages = [], None, 0
    while True:
        page = json.loads(made.page(revision, cursor))
        names += [tool["name"] for tool in page["tools"]]
        cursor = page.get("nextCursor")
        pages += 1
        if cursor is None:
            return names, pages
        meanwhile(pages)


def test_sf02_order_and_pages_per_revision():
    made = listing(5)
    assert walk(made) == ([f"t{n}" for n in range(5)], 3)
    assert json.loads(made.page(R4))["tools"][0]["r"] == R4
    assert "ttlMs" not in json.loads(made.page(R4)) and json.loads(made.page(R5))["cacheScope"] == "private"
    assert made.page(R5) is made.page(R5)  # prepared
    assert walk(listing(0)) == ([], 1)
    assert walk(listing(4)) == ([f"t{n}" for n in range(4)], 2)


def test_b113_cursors_outlive_changes():
    """What is there from the beginning to the end is listed once, whatever comes and goes meanwhile."""
    made = listing(6)

    def meanwhile(page):
        if page == 1:
            made.drop("t1")  # the entry that the cursor names
            made.drop("t0")
            made.put("new", lambda r: {"name": "new"}, "tool")

    names, _ = walk(made, meanwhile=meanwhile)
    assert names == ["t0", "t1", "t2", "t3", "t4", "t5", "new"]
    made = listing(4)
    cursor = json.loads(made.page(R5))["nextCursor"]
    for n in range(4):
        made.drop(f"t{n}")
    assert json.loads(made.page(R5, cursor)) == {"tools": [], "ttlMs": 0, "cacheScope": "private"}


def test_a_cursor_means_the_same_in_every_process():
    assert json.loads(listing(5).page(R5))["nextCursor"] == json.loads(listing(5).page(R4))["nextCursor"]
    other = Listing("tools/list", "tools", 2)
    for name in "abc":
        other.put(name, lambda revision, name=name: {"name": name}, "tool")
    with pytest.raises(RpcError):
        other.page(R5, json.loads(listing(5).page(R5))["nextCursor"])


@pytest.mark.parametrize("cursor", ["", "x", "AAAA", "é", "AAAAAAAAAAAA", "a" * 10_000, "AAAAAAAAAAA=", "\ud800", " "])
def test_sf50_jr35_bad_cursors(cursor):
    with pytest.raises(RpcError) as caught:
        listing(5).page(R5, cursor)
    assert caught.value.code == -32602


def test_cursors_of_other_lists_are_bad():
    other = Listing("prompts/list", "prompts", 2)
    for n in range(3):
        other.put(f"t{n}", lambda revision: {}, "prompt")
    with pytest.raises(RpcError):
        listing(5).page(R5, json.loads(other.page(R5))["nextCursor"])


def test_five_thousand_entries_are_encoded_once():
    made = Listing("tools/list", "tools", 1000)
    counts = []
    for n in range(5000):
        made.put(f"t{n}", lambda revision, n=n: counts.append(n) or {"name": f"t{n}"}, "tool")
    assert len(counts) == 5000
    assert walk(made) == ([f"t{n}" for n in range(5000)], 5)
    made.drop("t2500")
    names, pages = walk(made)
    assert len(names) == 4999 and pages == 5
    assert len(counts) == 5000  # a change joins bytes, it encodes nothing again


def test_odd_cursors_do_not_fill_the_memory():
    made = listing(100, size=10)
    for n in range(99):
        made.page(R5, made._cursor(list(made._items.values())[n]).decode())
    assert len(made._pages) <= 10


def test_sf53_one_hint_for_all_pages():
    made = listing(5)
    made.page(R5)
    made.hint = CacheHint(2, "public")
    pages = [json.loads(made.page(R5)), json.loads(made.page(R5, json.loads(made.page(R5))["nextCursor"]))]
    assert [(p["ttlMs"], p["cacheScope"]) for p in pages] == [(2000, "public")] * 2


def test_b110_a_definition_that_is_no_json_is_refused_alone():
    made = listing(2)
    with pytest.raises(UsageError, match="tool 'bad': its definition"):
        made.put("bad", lambda revision: {"meta": object()}, "tool 'bad'")
    assert len(made) == 2 and walk(made)[0] == ["t0", "t1"]
    with pytest.raises(KeyError):
        made.drop("bad")


def test_pages_while_another_thread_changes_the_list():
    made = listing(300, size=50)
    done = threading.Event()

    def change():
        for n in range(300):
            made.drop(f"t{n}")
            made.put(f"u{n}", lambda revision, n=n: {"name": f"u{n}"}, "tool")
        done.set()

    thread = threading.Thread(target=change)
    thread.start()
    while not done.is_set():
        names, _ = walk(made)
        assert len(set(names)) == len(names)
    thread.join()
    assert walk(made)[0] == [f"u{n}" for n in range(300)]
