"""Changes on one process reach the listens of all (SF-23, SF-60, SF-70, TK-27), and none is lost unnoticed (B96)."""

import asyncio
import contextlib
import json

from headrace.hosting.backplane import MemoryBackplane, MemoryHub
from headrace.limits import Limits
from headrace.mux import FrameSink
from headrace.protocol.shared.fanout import _MOST_URIS
from headrace.server.app import Server
from hosting.backplane_support import until as until_true

META = {
    "io.modelcontextprotocol/protocolVersion": "2026-07-28",
    "io.modelcontextprotocol/clientCapabilities": {},
}
TOOLS = "notifications/tools/list_changed"
UPDATED = "notifications/resources/updated"


async def until(check):
    await until_true(lambda: bool(check()))


class Worker:
    """A server of several, and a listen of a peer of its own."""

    def __init__(self, hub, limits):
        self.app = app = Server("t", version="1", limits=limits)
        app.add_tool(lambda: "x", name="tool", inline=True)
        app.add_resource("a://1", "x")
        app.add_resource("a://2", "x")
        app.set_backplane(MemoryBackplane(hub))
        self.heard = []

    def listen(self, **wanted):
        """Opens a listen; what it is told is appended to `heard`."""
        session, mux = self.app.new_session()
        sink = session.sink = FrameSink(lambda frame: self.heard.append(json.loads(frame)))
        params = {"notifications": wanted, "_meta": META}
        frame = {"jsonrpc": "2.0", "id": 1, "method": "subscriptions/listen", "params": params}
        mux.receive_frame(json.dumps(frame).encode(), sink)
        assert self.heard[-1]["method"] == "notifications/subscriptions/acknowledged", self.heard

    def of(self, method):
        return [message["params"] for message in self.heard if message.get("method") == method]

    @property
    def uris(self):
        return sorted(params["uri"] for params in self.of(UPDATED))


@contextlib.asynccontextmanager
async def workers(count, hub=None, limits=None):
    hub = hub or MemoryHub()
    limits = limits or Limits(notify_interval=0.01)
    async with contextlib.AsyncExitStack() as stack:
        found = [Worker(hub, limits) for _ in range(count)]
        for each in found:
            await stack.enter_async_context(each.app.running())
        yield found


def test_sf60_a_list_that_changes_on_one_is_told_on_all(run):
    async def scene():
        async with workers(3) as (a, b, c):
            for each in (a, b, c):
                each.listen(toolsListChanged=True, promptsListChanged=True)
            a.app.add_tool(lambda: "x", name="new", inline=True)
            await until(lambda: all(each.of(TOOLS) for each in (a, b, c)))
            await asyncio.sleep(0.05)
            assert [len(each.of(TOOLS)) for each in (a, b, c)] == [1, 1, 1]  # and nobody tells it on
            assert not b.of("notifications/prompts/list_changed")

    run(scene)


def test_sf23_updates_reach_those_who_follow_the_resource_on_any_process(run):
    async def scene():
        async with workers(3) as (a, b, c):
            b.listen(resourceSubscriptions=["a://1"])
            c.listen(resourceSubscriptions=["a://1", "a://2"])
            for _ in range(50):
                a.app.notify_resource_updated("a://2")  # nobody of its own follows it
            a.app.notify_resource_updated("a://1")
            a.app.notify_resource_updated("a://3")
            await until(lambda: b.uris == ["a://1"] and len(c.uris) >= 2)
            await asyncio.sleep(0.05)
            assert c.uris == ["a://1", "a://2"] and b.uris == ["a://1"]

    run(scene)


def test_b113_a_burst_of_changes_is_few_messages(run):
    async def scene():
        hub = MemoryHub()
        async with workers(2, hub, Limits(notify_interval=0.05)) as (a, b):
            b.listen(toolsListChanged=True)
            told = []
            plain = b.app.backplane._put_in
            b.app.backplane._put_in = lambda *message: (told.append(message), plain(*message))
            for n in range(200):
                a.app.hub.changed("tools")
                a.app.notify_resource_updated(f"a://{n % 7}")
                await asyncio.sleep(0)
            await until(lambda: b.of(TOOLS))
            await asyncio.sleep(0.2)
            assert 1 <= len(told) <= 4 and 1 <= len(b.of(TOOLS)) <= 4

    run(scene)


def test_b96_after_a_gap_everything_that_is_followed_counts_as_changed(run):
    async def scene():
        hub = MemoryHub()
        async with workers(2, hub) as (a, b):
            b.listen(toolsListChanged=True, resourceSubscriptions=["a://1", "a://2"])
            hub.cut()
            a.app.hub.changed("tools")
            await asyncio.sleep(0.03)
            assert not b.of(TOOLS)
            a.app.backplane._queue.clear()  # it was lost on the way
            hub.mend(empty=True)
            await until(lambda: b.of(TOOLS) and len(b.uris) == 2)
            assert b.uris == ["a://1", "a://2"]
            assert not b.of("notifications/prompts/list_changed")

    run(scene)


def test_b96_what_changes_while_the_backplane_is_down_is_told_afterwards(run):
    async def scene():
        hub = MemoryHub()
        async with workers(2, hub) as (a, b):
            a.listen(toolsListChanged=True)
            b.listen(toolsListChanged=True)
            hub.cut()
            a.app.hub.changed("tools")
            await until(lambda: a.of(TOOLS))  # those at home need nobody else
            hub.mend()
            await until(lambda: b.of(TOOLS))
            assert len(a.of(TOOLS)) == 1

    run(scene)


def test_more_resources_than_a_round_may_name_are_told_as_all(run):
    async def scene():
        async with workers(2) as (a, b):
            b.listen(resourceSubscriptions=["a://1", "a://2"])
            for n in range(_MOST_URIS + 10):
                a.app.notify_resource_updated(f"b://{n}")
            await until(lambda: len(b.uris) == 2)
            assert b.uris == ["a://1", "a://2"]

    run(scene)


def test_long_rounds_are_several_messages(run):
    async def scene():
        async with workers(2) as (a, b):
            names = [f"a://{n:04}/" + "x" * 500 for n in range(600)]
            b.listen(resourceSubscriptions=names)
            for name in names:
                a.app.notify_resource_updated(name)
            await until(lambda: len(b.uris) == 600)
            assert b.uris == names

    run(scene)


def test_tk27_a_task_of_another_process_is_followed(run):
    """The newest state is read from the store by whoever has somebody to tell, and only then."""

    async def scene():
        async with workers(3) as (a, b, c):
            states = {"t1": b'{"taskId":"t1","status":"completed"}'}
            reads = []

            def reader(name):
                async def read(task_id):
                    reads.append((name, task_id))
                    return states.get(task_id)

                return read

            for name, each in zip("abc", (a, b, c), strict=True):
                each.app.hub.task_reader = reader(name)
                each.app.hub.task_filter = lambda exchange, ids: ids
            b.listen(taskIds=["t1"])
            a.listen(taskIds=["t2"])
            a.app.hub.task("t1", b"{}")
            await until(lambda: b.of("notifications/tasks"))
            assert b.of("notifications/tasks")[0]["status"] == "completed"
            assert reads == [("b", "t1")] and not a.of("notifications/tasks")
            a.app.hub.task("t1", b"{}", everywhere=False)
            await asyncio.sleep(0.05)
            assert reads == [("b", "t1")]

    run(scene)


def test_b96_a_task_store_that_cannot_be_read_is_asked_again(run):
    async def scene():
        async with workers(2) as (a, b):
            tries = []

            async def read(task_id):
                tries.append(task_id)
                if len(tries) == 1:
                    raise OSError("gone")
                return b'{"taskId":"t1","status":"failed"}'

            b.app.hub.task_reader = read
            b.app.hub.task_filter = lambda exchange, ids: ids
            b.listen(taskIds=["t1"])
            a.app.hub.task("t1", b"{}")
            await until(lambda: b.of("notifications/tasks"))
            assert tries == ["t1", "t1"]

    run(scene)


def test_a_server_alone_tells_nobody_and_a_new_start_shares_again(run):
    async def scene():
        hub = MemoryHub()
        async with workers(1, hub) as (b,):
            b.listen(toolsListChanged=True)
            a = Worker(hub, Limits(notify_interval=0.01))
            backplane = a.app.backplane
            a.app.set_backplane(None)
            async with a.app.running():
                a.app.hub.changed("tools")
                await asyncio.sleep(0.05)
                assert not b.of(TOOLS)
            a.app.set_backplane(backplane)
            for n in (1, 2):
                async with a.app.running():
                    a.app.hub.changed("tools")
                    await until(lambda n=n: len(b.of(TOOLS)) == n)
            await asyncio.sleep(0.05)
            assert len(b.of(TOOLS)) == 2

    run(scene)
