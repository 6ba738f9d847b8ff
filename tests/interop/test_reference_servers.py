"""headrace's client against the reference servers of the npm registry: everything, filesystem, memory, thinking."""

import json
import os
import subprocess

import pytest
from ports import free_port

from headrace import RpcError, connect
from interop.support import EVERYTHING, NODE_PACKAGES, end, wait_for_port

pytestmark = pytest.mark.interop


def command(node, name, *arguments):
    return [str(node), str(NODE_PACKAGES / f"server-{name}" / "dist" / "index.js"), *arguments]


@pytest.fixture(scope="module", params=["stdio", "streamableHttp", "sse"])
def everything(request, node):
    """server-everything: a command, or the URL of its Streamable HTTP or HTTP+SSE endpoint."""
    if request.param == "stdio":
        yield command(node, "everything")
        return
    port = free_port()
    process = subprocess.Popen(
        [str(node), str(EVERYTHING), request.param],
        env={**os.environ, "PORT": str(port)},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    try:
        wait_for_port(port, process)
        yield f"http://127.0.0.1:{port}/{'sse' if request.param == 'sse' else 'mcp'}"
    finally:
        end(process, 5)


def test_everything(run, everything):
    """VN-40..50: found to be of the handshake era, also where it speaks HTTP+SSE."""

    async def trial():
        notes = []
        async with connect(everything) as client:
            assert client.protocol_version == "2025-11-25"
            assert client.server_info.name == "mcp-servers/everything"
            names = {tool.name for tool in await client.list_tools()}
            assert {"echo", "get-sum", "get-structured-content", "trigger-long-running-operation"} <= names
            assert (await client.call_tool("echo", {"message": "é€😀"})).text == "Echo: é€😀"
            assert "7" in (await client.call_tool("get-sum", {"a": 3, "b": 4})).text
            weather = await client.call_tool("get-structured-content", {"location": "Chicago"})
            assert weather.structured_content["temperature"]
            assert (await client.call_tool("get-tiny-image")).content[1].mime_type == "image/png"
            long = await client.call_tool(
                "trigger-long-running-operation",
                {"duration": 0.3, "steps": 3},
                on_progress=lambda *note: notes.append(note),
            )
            assert "completed" in long.text
            assert [note[0] for note in notes] == [1, 2, 3]
            bad = await client.call_tool("get-sum", {"a": "x"})
            assert bad.is_error
            with pytest.raises(RpcError) as caught:
                await client.request("no/such/method")
            assert caught.value.code == -32601

    run(trial)


def test_filesystem(run, node, tmp_path):
    (tmp_path / "hello.txt").write_text("hello é")
    outside = tmp_path.parent

    async def trial():
        async with connect(command(node, "filesystem", str(tmp_path))) as client:
            listing = await client.call_tool("list_directory", {"path": str(tmp_path)})
            assert "hello.txt" in listing.text
            read = await client.call_tool("read_text_file", {"path": str(tmp_path / "hello.txt")})
            assert read.text == "hello é"
            big = "x" * 2_000_000
            await client.call_tool("write_file", {"path": str(tmp_path / "big.txt"), "content": big})
            assert (await client.call_tool("read_text_file", {"path": str(tmp_path / "big.txt")})).text == big
            refused = await client.call_tool("list_directory", {"path": str(outside)})
            assert refused.is_error

    run(trial)


def test_memory(run, node, tmp_path):
    async def trial():
        env = {"MEMORY_FILE_PATH": str(tmp_path / "memory.json")}
        async with connect(command(node, "memory"), env=env) as client:
            entity = {"name": "Ada", "entityType": "person", "observations": ["wrote a program"]}
            await client.call_tool("create_entities", {"entities": [entity]})
            graph = await client.call_tool("read_graph")
            assert graph.structured_content["entities"][0]["name"] == "Ada"
        assert json.loads((tmp_path / "memory.json").read_text().splitlines()[0])["name"] == "Ada"

    run(trial)


def test_sequential_thinking(run, node):
    async def trial():
        async with connect(command(node, "sequential-thinking")) as client:
            step = {"thought": "one", "nextThoughtNeeded": True, "thoughtNumber": 1, "totalThoughts": 2}
            first = await client.call_tool("sequentialthinking", step)
            assert json.loads(first.text)["thoughtHistoryLength"] == 1
            second = await client.call_tool("sequentialthinking", step | {"thoughtNumber": 2, "nextThoughtNeeded": False})
            assert json.loads(second.text)["thoughtHistoryLength"] == 2

    run(trial)
