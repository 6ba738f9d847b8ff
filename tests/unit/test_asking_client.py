"""Handlers that ask, against headrace's own client: both eras, both ends typed (MX-30..MX-39)."""

import pytest

from headrace import Context, Elicited, Server, connect


@pytest.mark.parametrize("revision", ["2025-11-25", "2026-07-28"])
def test_mx39_our_client_and_our_server(run, revision):
    app = Server("s", version="1")

    @app.tool
    async def trip(ctx: Context) -> str:
        form = {"properties": {"town": {"type": "string"}}, "required": ["town"]}
        place = await ctx.elicit("Where to?", form)
        said = await ctx.sample("Say hello", max_tokens=5)
        roots = await ctx.list_roots()
        return f"{place.content['town']} {said.content.text} {roots[0].uri}"

    @app.tool
    def plain(ctx: Context) -> str:
        return ctx.elicit("Sure?").action

    async def sampling(params):
        return "hello"

    async def elicitation(params):
        return Elicited("accept", {"town": "Rome"}) if "Where" in params.message else Elicited("decline")

    async def body():
        how = {"sampling": sampling, "elicitation": elicitation, "roots": ["file:///work"], "revision": revision}
        async with connect(app, **how) as client:
            assert (await client.call_tool("trip")).text == "Rome hello file:///work"
            assert (await client.call_tool("plain")).text == "decline"

    run(body)
