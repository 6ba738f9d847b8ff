"""The bench tools on headrace: `headrace_server.py stdio` or `headrace_server.py PORT`."""

import sys

from headrace import Server

app = Server("bench", version="1.0.0")


@app.tool
async def echo(text: str, n: int) -> str:
    return text


@app.tool
async def add(a: int, b: int) -> int:
    return a + b


if __name__ == "__main__":
    where = sys.argv[1]
    app.run() if where == "stdio" else app.run(http=f"127.0.0.1:{where}")
