"""A shop as a tool server that runs in many processes: what it keeps is in a database, not in the process.

    headrace serve examples/shop.py --http 127.0.0.1:8000 --workers 2 --backplane redis://127.0.0.1:6379 \
        --metrics 127.0.0.1:9100

Stock and orders are in an SQLite file (SHOP_DB, by default in the temporary directory) that all workers share. Sessions,
subscriptions, questions to clients and tasks are headrace's matter: with a backplane every worker serves all of them.
"""

import asyncio
import os
import sqlite3
import tempfile
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, closing
from pathlib import Path
from typing import Annotated

import msgspec

from headrace import Context, Server, ToolError

DATABASE = Path(os.environ.get("SHOP_DB") or Path(tempfile.gettempdir()) / f"headrace-shop-{os.getuid()}.db")
GOODS = {"pear": 40, "plum": 15, "quince": 90, "walnut": 5}  # cents a piece


class Item(msgspec.Struct):
    """Something that is sold."""

    name: str
    cents: int
    left: int


class Consent(msgspec.Struct):
    """What a buyer says to the price."""

    yes: bool


def connection() -> sqlite3.Connection:
    """A connection for one thread and one step; SQLite keeps the steps of different processes apart."""
    made = sqlite3.connect(DATABASE, timeout=10, isolation_level=None)
    made.execute("pragma journal_mode = wal")
    return made


@asynccontextmanager
async def opened(server: Server) -> AsyncIterator[None]:
    """Once a process, before its first request: there is a table, and every item is in it."""
    with closing(connection()) as db:
        db.execute("create table if not exists stock (name text primary key, cents integer, left integer)")
        db.execute("create table if not exists orders (name text, quantity integer, cents integer)")
        db.executemany("insert or ignore into stock values (?, ?, 1000)", GOODS.items())
    yield


app = Server("shop", version="1.0", title="A shop", lifespan=opened)


def find(name: str) -> Item:
    with closing(connection()) as db:
        row = db.execute("select name, cents, left from stock where name = ?", (name,)).fetchone()
    if row is None:
        raise ToolError(f"there is no {name!r}; there are {', '.join(GOODS)}")
    return Item(*row)


def take(name: str, quantity: int) -> bool:
    """Sells, if there is enough; in one step, whichever process asks."""
    with closing(connection()) as db:
        db.execute("begin immediate")
        sold = db.execute(
            "update stock set left = left - ? where name = ? and left >= ?", (quantity, name, quantity)
        ).rowcount
        if sold:
            db.execute("insert into orders select name, ?, ? * cents from stock where name = ?", (quantity, quantity, name))
        db.execute("commit")
    return bool(sold)


@app.tool(annotations={"readOnlyHint": True, "idempotentHint": True}, inline=True)
def price(name: str, quantity: Annotated[int, msgspec.Meta(ge=1, le=1000)] = 1) -> int:
    """What so many of an item cost, in cents."""
    if name not in GOODS:
        raise ToolError(f"there is no {name!r}; there are {', '.join(GOODS)}")
    return GOODS[name] * quantity


@app.tool(annotations={"readOnlyHint": True, "idempotentHint": True})
def search(word: str = "") -> list[Item]:
    """Items whose name holds a word, and how many of them are left."""
    return [find(name) for name in GOODS if word in name]


@app.tool
async def buy(name: str, quantity: Annotated[int, msgspec.Meta(ge=1, le=1000)], ctx: Context) -> str:
    """Buys, once the buyer agrees to the price."""
    item = await asyncio.to_thread(find, name)
    cents = item.cents * quantity
    answer = await ctx.elicit(f"{quantity} {name} for {cents / 100:.2f}?", Consent)
    if answer.action != "accept" or not answer.content.yes:
        return "not bought"
    if not await asyncio.to_thread(take, name, quantity):
        raise ToolError(f"there are not enough {name}s left")
    app.notify_resource_updated(f"shop://stock/{name}")
    return f"bought {quantity} {name} for {cents / 100:.2f}"


@app.tool
async def restock(name: str, quantity: Annotated[int, msgspec.Meta(ge=1, le=1_000_000)]) -> int:
    """Puts more of an item on the shelf; how many there are now."""

    def put() -> int:
        with closing(connection()) as db:
            db.execute("update stock set left = left + ? where name = ?", (quantity, name))
        return find(name).left

    left = await asyncio.to_thread(put)
    app.notify_resource_updated(f"shop://stock/{name}")
    return left


@app.tool(task="optional")
async def inventory(ctx: Context, pause: Annotated[float, msgspec.Meta(ge=0, le=60)] = 0.5) -> list[Item]:
    """Counts everything, which takes a while: as a task for clients that follow tasks."""
    counted = []
    for done, name in enumerate(GOODS, 1):
        await asyncio.sleep(pause)
        counted.append(await asyncio.to_thread(find, name))
        await ctx.progress(done, len(GOODS), name)
    return counted


@app.tool(annotations={"readOnlyHint": True}, inline=True)
def worker() -> int:
    """The process that answers."""
    return os.getpid()


@app.resource("shop://stock/{name}", complete={"name": lambda typed: [name for name in GOODS if name.startswith(typed)]})
def stock(name: str) -> Item | None:
    """How many of an item are left."""
    return find(name) if name in GOODS else None
