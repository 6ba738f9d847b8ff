"""The bench tools on headrace: `headrace_server.py stdio` or `headrace_server.py PORT`."""

import sys

from headrace import Context, Limits, Server
from tools import TOOLS

# Tools that hold 10,000 calls at once need more than the usual 4,096 in flight on one pipe.
app = Server("bench", version="1.0.0", limits=Limits(max_in_flight=20_000))
for tool in TOOLS:
    app.tool(tool)


@app.tool(inline=True)
def echo_inline(text: str, n: int) -> str:
    """The text, by a function that runs on the event loop itself."""
    return text


@app.tool
async def echo_noted(ctx: Context, text: str, n: int) -> str:
    """The text, after one progress note."""
    await ctx.progress(1, 1)
    return text


if __name__ == "__main__":
    where = sys.argv[1]
    app.run() if where == "stdio" else app.run(http=f"127.0.0.1:{where}")
