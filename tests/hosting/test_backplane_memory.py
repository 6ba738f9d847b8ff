"""The backplane in memory: the model that the others are held against."""

import asyncio

import pytest

from headrace import Server
from headrace.hosting.backplane import MemoryBackplane, MemoryHub
from headrace.protocol.backplane import BackplaneLost
from hosting.backplane_support import Heard, until


def test_b96_what_is_told_while_cut_off_arrives_when_it_is_mended(run):
    async def scene():
        hub = MemoryHub()
        a, b = [await Heard(MemoryBackplane(hub)).start() for _ in range(2)]
        hub.cut()
        await until(lambda: a.changes == [False])
        a.backplane.tell_all("note", b"one")
        a.backplane.tell(b.backplane.worker, "note", b"two")
        a.backplane.append("log", 1, b"event", most=10, seconds=60)
        for asked in (
            a.backplane.get("key"), a.backplane.put("key", b"", 1), a.backplane.flushed(), a.backplane.read("log", 0, 1),
            a.backplane.count("group", "m", 1), a.backplane.alive(b.backplane.worker), a.backplane.parts("key"),
        ):  # fmt: skip
            with pytest.raises(BackplaneLost):
                await asked
        assert not a.backplane.available and b.texts == []
        hub.mend()
        await until(lambda: b.texts == [b"one", b"two"])
        await until(lambda: a.changes == [False, True])
        assert await b.backplane.read("log", 0, 10) == [(1, b"event")]
        assert (a.gaps, b.gaps, a.emptied) == (0, 0, 0)

    run(scene)


def test_b96_a_hub_that_comes_back_empty_says_so(run):
    async def scene():
        hub = MemoryHub()
        a = await Heard(MemoryBackplane(hub)).start()
        await a.backplane.put("key", b"value", 60)
        hub.cut()
        hub.mend(empty=True)
        await until(lambda: a.emptied == 1)
        assert a.gaps == 1
        assert await a.backplane.get("key") is None

    run(scene)


def test_b95_the_death_of_a_process_is_told_when_its_lease_ends(run):
    async def scene():
        hub = MemoryHub(lease=0.2)
        a, b, c = [await Heard(MemoryBackplane(hub)).start() for _ in range(3)]
        name = b.backplane.worker
        b.backplane.die()
        assert await a.backplane.alive(name)
        await until(lambda: a.dead == [name] and c.dead == [name])
        assert not await a.backplane.alive(name)
        await c.backplane.stop()
        await asyncio.sleep(0.3)
        assert a.dead == [name]  # who leaves is not dead
        name = a.backplane.worker
        d = await Heard(MemoryBackplane(hub)).start()
        a.backplane.die()
        await d.backplane.bury(name)
        await until(lambda: d.dead == [name])

    run(scene)


def test_a_server_starts_and_stops_its_backplane(run):
    async def scene():
        hub = MemoryHub()
        backplane = MemoryBackplane(hub)
        app = Server("shared", version="1")
        app.set_backplane(backplane)
        for _ in range(2):
            async with app.running():
                assert backplane.available
                assert list(hub.members) == [backplane.worker]
                with pytest.raises(RuntimeError, match="running"):
                    app.set_backplane(None)
            assert hub.members == {} and not backplane.available
        hub.cut()
        with pytest.raises(BackplaneLost):
            async with app.running():
                pass
        assert app.backplane is backplane

    run(scene)
