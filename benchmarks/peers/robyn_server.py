"""The bench tools on robyn's MCP endpoint: `robyn_server.py PORT`. One process, one worker."""

import sys

port = int(sys.argv[1])
sys.argv = [sys.argv[0], "--log-level", "ERROR"]

from robyn import Robyn  # noqa: E402  (it reads the command line when it is imported)

from tools import TOOLS  # noqa: E402

app = Robyn(__file__)
for tool in TOOLS:
    app.mcp.tool()(tool)

if __name__ == "__main__":
    app.start(host="127.0.0.1", port=port)
