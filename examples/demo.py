"""The demo server: `headrace serve examples/demo.py --http 127.0.0.1:8000`."""

import asyncio

import msgspec

from headrace import Context, Server

app = Server("demo", version="1.0.0", instructions="Small tools to try a client with.")


class Forecast(msgspec.Struct):
    city: str
    days: int
    summary: str


@app.tool
async def add(a: int, b: int) -> int:
    """Adds two integers."""
    return a + b


@app.tool
async def echo(text: str) -> str:
    """Returns the text it is given."""
    return text


@app.tool
async def forecast(city: str, days: int = 3) -> Forecast:
    """Forecast for a city."""
    return Forecast(city=city, days=days, summary=f"{days} sunny days in {city}")


@app.tool
async def count(ctx: Context, to: int, pause: float = 0.0) -> str:
    """Counts upwards and reports progress at every step.

    Args:
        to: the last number
        pause: seconds between two numbers
    """
    for number in range(1, to + 1):
        await ctx.progress(number, to, f"at {number}")
        if pause:
            await asyncio.sleep(pause)
    await ctx.log("info", f"counted to {to}")
    return f"counted to {to}"


if __name__ == "__main__":
    app.run()
