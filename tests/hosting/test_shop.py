"""examples/shop.py as docs and README host it: every command line that names it is run, and what they promise is tried."""

import asyncio
import contextlib
import os
import re
import urllib.request
from pathlib import Path

import pytest
from chaos.machines import Hosted, Redis
from ports import free_port
from prometheus_client.parser import text_string_to_metric_families

from headrace import connect

TOP = Path(__file__).parents[2]
SHOP = TOP / "examples" / "shop.py"
PAGES = [TOP / "README.md", TOP / "docs" / "hosting.md", TOP / "docs" / "scaling.md", SHOP]
COMMANDS = sorted({
    " ".join(found.split())
    for page in PAGES
    for found in re.findall(r"headrace serve (examples/shop\.py[^\n]*)", page.read_text().replace("\\\n", " "))
})  # fmt: skip
pytestmark = pytest.mark.timeout(120)


def test_there_are_commands():
    assert len(COMMANDS) == 3 and sum("--backplane" in each for each in COMMANDS) == 1
    for page in PAGES:
        assert "headrace serve examples/shop.py" in page.read_text(), page


def agree(params):
    assert "for" in params.message
    return {"yes": True}


async def use(url, workers, processes):
    """One round of a shop's day, in both eras; the processes that answered."""
    seen = set()
    for revision in ("2026-07-28", "2025-11-25"):
        shared = workers == 1 or revision == "2026-07-28"
        async with connect(url, revision=revision, elicitation=agree) as client:
            assert (await client.call_tool("price", {"name": "plum", "quantity": 2})).content[0].text == "30"
            found = await client.call_tool("search", {"word": "pear"})
            assert '"name":"pear"' in found.content[0].text
            if shared:
                bought = await client.call_tool("buy", {"name": "pear", "quantity": 1})
                assert bought.content[0].text == "bought 1 pear for 0.40"
            wrong = await client.call_tool("price", {"name": "brick"})
            assert wrong.is_error and "there is no 'brick'" in wrong.content[0].text
    for _ in range(100):
        async with connect(url, revision="2026-07-28") as client:
            seen.add((await client.call_tool("worker")).structured_content)
        if len(seen) == processes:
            break
        await asyncio.sleep(0.05)  # one may still be starting
    return seen


@pytest.mark.parametrize("command", COMMANDS)
def test_commands(command, tmp_path):
    async def main():
        words = command.split()
        assert words[:3] == ["examples/shop.py", "--http", "127.0.0.1:8000"]
        options = words[3:]
        workers = int(options[options.index("--workers") + 1]) if "--workers" in options else 1
        env = {"SHOP_DB": str(tmp_path / "shop.db")}
        if "--backplane" not in options:
            async with Hosted(*options, target=SHOP, env=env) as hosted:
                seen = await use(hosted.url, workers, workers)
                assert len(seen) == workers
            assert hosted.status == 0
            return
        if not Redis.installed():
            pytest.skip("redis-server is not installed")
        async with Redis() as redis:
            metrics = free_port()
            options = [each.replace(":6379", f":{redis.port}").replace(":9100", f":{metrics}") for each in options]
            async with Hosted(*options, target=SHOP, env=env) as hosted:
                await hosted.all_up(workers)
                seen = await use(hosted.url, 1, workers)
                assert len(seen) == workers
                await shared(hosted.url)
                page = await asyncio.to_thread(read, f"http://127.0.0.1:{metrics}/metrics")
                families = {family.name: family for family in text_string_to_metric_families(page)}
                tools = {sample.labels["tool"] for sample in families["headrace_requests"].samples}
                assert {"price", "search", "buy", "restock", "inventory"} <= tools
                assert await asyncio.to_thread(read, f"http://127.0.0.1:{metrics}/readyz") == "ok\n"
            assert hosted.status == 0

    asyncio.run(main())


def read(url):
    with urllib.request.urlopen(url, timeout=10) as answer:
        return answer.read().decode()


async def shared(url):
    """What takes a backplane: news reach a client whichever process they come from, a task is followed from any."""
    for revision in ("2026-07-28", "2025-11-25"):
        news = asyncio.Queue()
        async with connect(url, revision=revision, on_resource_updated=news.put_nowait) as listener:
            await listener.subscribe("shop://stock/quince")
            answered = set()
            async with contextlib.AsyncExitStack() as stack:
                # Side by side, so that both workers have some of them.
                others = [await stack.enter_async_context(connect(url)) for _ in range(6)]
                for other in others:
                    answered.add((await other.call_tool("worker")).content[0].text)
                    await other.call_tool("restock", {"name": "quince", "quantity": 1})
                    assert await asyncio.wait_for(news.get(), 10) == "shop://stock/quince"
            assert len(answered) == 2
    async with connect(url, tasks=True) as client:
        handle = await client.start_tool("inventory", {"pause": 0.2})
        assert handle.id
    results = []
    for _ in range(3):
        async with connect(url, tasks=True) as client:
            results.append((await client.task(handle.id).result()).structured_content)
    assert results[0] == results[1] == results[2] and [item["name"] for item in results[0]] == [
        "pear",
        "plum",
        "quince",
        "walnut",
    ]


def test_the_stock_is_shared_by_processes(tmp_path):
    """Sells what is there and no more, over four processes at once."""

    async def main():
        env = {"SHOP_DB": str(tmp_path / "shop.db")}
        async with Hosted("--workers", "2", target=SHOP, env=env) as hosted:
            await hosted.all_up(2)

            async def buyer():
                async with connect(hosted.url, revision="2026-07-28", elicitation=agree) as client:
                    got = 0
                    for _ in range(3):
                        result = await client.call_tool("buy", {"name": "walnut", "quantity": 100})
                        got += 0 if result.is_error else 100
                    return got

            assert sum(await asyncio.gather(*(buyer() for _ in range(6)))) == 1000

    asyncio.run(main())


assert os.name == "posix"
