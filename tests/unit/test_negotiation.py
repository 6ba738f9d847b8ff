"""Negotiation against scripted line servers: what a server answers decides what the client does next."""

import asyncio
import json

import pytest
from scripted_peer import MODERN, Script, error, handshake

from headrace import ConnectFailed, Limits, RequestTimeout, UsageError, connect
from headrace.jsonrpc import (
    CLIENT_CAPABILITIES,
    CLIENT_INFO,
    PROTOCOL_VERSION,
    R1,
    R2,
    R3,
    R4,
    R5,
)


async def agreed(script, **options):
    async with connect(script.target, **options) as client:
        outcome = client.protocol_version, client.server_info, client.instructions
    await script.ended()
    return outcome


def test_vn40a_discover_result_is_modern(run):
    async def main():
        async with Script(discover=MODERN) as script:
            version, info, instructions = await agreed(script)
            assert (version, info.name, instructions) == (R5, "m", "be kind")
            assert script.methods == ["server/discover"]
            meta = script.seen[0]["params"]["_meta"]
            assert meta[PROTOCOL_VERSION] == R5 and meta[CLIENT_CAPABILITIES] == {}
            assert meta[CLIENT_INFO]["name"] == "headrace" and meta[CLIENT_INFO]["version"]
            await script.ended()

    run(main)


def test_vn20_every_modern_request_carries_meta(run):
    async def main():
        async with Script(discover=MODERN, tools_list={"tools": []}, tools_call={"content": []}) as script:
            async with connect(script.target, client_info={"name": "n", "version": "v"}) as client:
                await client.list_tools()
                await client.call_tool("t", {"a": 1}, meta={"traceparent": "00-x"})
                await client.request("tools/list", {"_meta": {"k": 1}})
            for message in script.seen:
                assert message["params"]["_meta"][CLIENT_INFO] == {"name": "n", "version": "v"}
                assert message["params"]["_meta"][PROTOCOL_VERSION] == R5
            assert script.seen[2]["params"]["_meta"]["traceparent"] == "00-x"
            assert script.seen[3]["params"]["_meta"]["k"] == 1

    run(main)


@pytest.mark.parametrize("answer", [-32601, -32602, -32600, -32001, -32004, -32603, 7])
def test_vn41_jr33_any_other_error_is_legacy(run, answer):
    """VN-41 and JR-33: the code does not matter, the numbers of drafts least of all."""

    async def main():
        async with Script(discover=error(answer), initialize=handshake(), tools_list={"tools": []}) as script:
            async with connect(script.target) as client:
                assert client.protocol_version == R4
                assert await client.list_tools() == []
            assert script.methods == [
                "server/discover",
                "initialize",
                "notifications/initialized",
                "tools/list",
            ]
            params = script.seen[1]["params"]
            assert params["protocolVersion"] == R4 and "_meta" not in params  # VN-08, VN-49
            assert "params" not in script.seen[3]  # no modern _meta in the handshake era

    run(main)


@pytest.mark.parametrize("version", [R1, R2, R3, R4])
def test_vn02_every_handshake_revision_is_accepted(run, version):
    async def main():
        async with Script(discover=error(-32601), initialize=handshake(version)) as script:
            assert (await agreed(script))[0] == version

    run(main)


@pytest.mark.parametrize("version", ["2099-01-01", R5, 7, None])
def test_vn03_unknown_revision_in_the_answer_disconnects(run, version):
    async def main():
        async with Script(discover=error(-32601), initialize=handshake(version)) as script:
            with pytest.raises(ConnectFailed, match="no common protocol revision"):
                await agreed(script)
            await script.ended()

    run(main)


def test_vn40c_silence_leads_to_the_handshake(run):
    async def main():
        async with Script(initialize=handshake()) as script:
            assert (await agreed(script, limits=Limits(connect_timeout=3)))[0] == R4
            assert script.methods == ["server/discover", "initialize", "notifications/initialized"]

    run(main)


def test_vn42_a_late_probe_answer_is_dropped(run):
    """The late answer arrives while initialize is unanswered: the era does not change."""

    async def main():
        probe = []

        def late(message, writer):
            late_answer = json.dumps({"jsonrpc": "2.0", "id": probe[0]["id"], "result": MODERN}).encode() + b"\n"
            writer.write(late_answer)
            return handshake()

        async with (
            Script(discover=lambda m, w: probe.append(m), initialize=late, tools_list={"tools": []}) as script,
            connect(script.target, limits=Limits(connect_timeout=3)) as client,
        ):
            assert client.protocol_version == R4
            assert await client.list_tools() == []

    run(main)


def test_vn42_unsupported_initialize_after_a_late_probe_probes_again(run):
    async def main():
        probes = []

        def discover(message, writer):
            probes.append(message)
            return MODERN if len(probes) == 2 else None

        refused = error(-32022, {"supported": [R5], "requested": R4})
        async with Script(discover=discover, initialize=refused) as script:
            assert (await agreed(script, limits=Limits(connect_timeout=3)))[0] == R5
            assert script.methods == ["server/discover", "initialize", "server/discover"]

    run(main)


def test_vn23_unsupported_version_that_lists_ours_is_tried_once_more(run):
    async def main():
        answers = [error(-32022, {"supported": [R5]}), MODERN]
        async with Script(discover=lambda m, w: answers.pop(0)) as script:
            assert (await agreed(script))[0] == R5
            assert script.seen[0]["id"] != script.seen[1]["id"]

        async with Script(discover=error(-32022, {"supported": [R5]})) as script:
            with pytest.raises(ConnectFailed):
                await agreed(script)
            assert script.methods == ["server/discover"] * 2
            await script.ended()

    run(main)


def test_vn43_only_legacy_versions_lead_to_the_handshake(run):
    async def main():
        for probe in (error(-32022, {"supported": [R4, R3]}), {**MODERN, "supportedVersions": [R3]}):
            async with Script(discover=probe, initialize=handshake()) as script:
                assert (await agreed(script))[0] == R4

    run(main)


def test_vn23_no_common_version_is_an_error_naming_both(run):
    async def main():
        for probe in (
            error(-32022, {"supported": ["2030-01-01"]}),
            {**MODERN, "supportedVersions": ["2030-01-01"]},
        ):
            async with Script(discover=probe, initialize=handshake()) as script:
                with pytest.raises(ConnectFailed, match=r"2030-01-01.*2026-07-28"):
                    await agreed(script)
                assert script.methods == ["server/discover"]

    run(main)


@pytest.mark.parametrize("code", [-32020, -32021])
def test_vn40b_other_modern_errors_do_not_lead_to_the_handshake(run, code):
    async def main():
        async with Script(discover=error(code), initialize=handshake()) as script:
            with pytest.raises(ConnectFailed, match=str(code)):
                await agreed(script)
            assert "initialize" not in script.methods

    run(main)


def test_a_server_that_closes_at_the_probe_gets_a_fresh_connection(run):
    """Some servers end the connection when the first message is not initialize."""

    async def main():
        async with Script(discover=lambda m, w: w.close(), initialize=handshake()) as script:
            assert (await agreed(script))[0] == R4
            assert script.connections == 2
            assert script.methods == ["server/discover", "initialize", "notifications/initialized"]
            await script.ended()

    run(main)


def test_b66_the_first_failure_is_part_of_the_message(run):
    async def main():
        async with Script(discover={"code": -32000, "message": "enable X at Y"}, initialize=error(-32603)) as script:
            with pytest.raises(ConnectFailed, match=r"initialize failed: no \(-32603\).*enable X at Y"):
                await agreed(script)
            await script.ended()

    run(main)


def test_forced_revisions(run):
    async def main():
        async with Script(discover=MODERN, initialize=handshake()) as script:
            assert (await agreed(script, revision=R4))[0] == R4
            assert script.methods == ["initialize", "notifications/initialized"]
        async with Script(discover=MODERN, initialize=handshake(R2)) as script:
            assert (await agreed(script, revision=R2))[0] == R2
            assert script.seen[0]["params"]["protocolVersion"] == R2
        async with Script(discover=error(-32601), initialize=handshake()) as script:
            with pytest.raises(ConnectFailed, match="does not speak 2026-07-28"):
                await agreed(script, revision=R5)
            assert script.methods == ["server/discover"]
        with pytest.raises(UsageError, match="2024-11-05"):
            connect("tcp:127.0.0.1:1", revision="1999-01-01")

    run(main)


@pytest.mark.parametrize("silent", ["discover", "initialize", "everything"])
def test_b116_the_whole_connect_is_bounded_and_names_the_phase(run, silent):
    async def main():
        answers = {"discover": {"initialize": error(-1)}, "initialize": {"discover": error(-32601)}}.get(silent, {})
        revision = R5 if silent == "discover" else None
        phase = "server/discover" if silent == "discover" else "initialize"
        async with Script(**answers) as script:
            with pytest.raises(RequestTimeout, match=f"within 0.4 s, while waiting for the answer to {phase}"):
                await agreed(script, revision=revision, limits=Limits(connect_timeout=0.4))
            await script.ended()
            if silent != "discover":
                assert all("cancelled" not in m for m in script.methods)  # VN-06

    run(main)


def test_b116_one_dead_server_does_not_delay_others(run):
    async def main():
        async with Script() as dead, Script(discover=MODERN) as fine:
            outcomes = await asyncio.gather(
                agreed(dead, limits=Limits(connect_timeout=0.5)),
                *(agreed(fine) for _ in range(9)),
                return_exceptions=True,
            )
            assert isinstance(outcomes[0], RequestTimeout)
            assert [o[0] for o in outcomes[1:]] == [R5] * 9

    run(main)


def test_cancelling_a_connect_leaves_nothing(run):
    async def main():
        async with Script() as script:
            task = asyncio.create_task(agreed(script))
            while not script.seen:
                await asyncio.sleep(0.01)
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task
            await script.ended()

    run(main)


def test_nobody_listens(run):
    async def main():
        async with Script() as script:
            target = script.target
        with pytest.raises(ConnectFailed, match=f"cannot connect to {target}"):
            async with connect(target):
                pass
        with pytest.raises(ConnectFailed, match="unix:/nonexistent/x"):
            async with connect("unix:/nonexistent/x"):
                pass

    run(main)


def test_b08b_b07c_junk_lines_are_skipped_and_never_answered(run, caplog):
    async def main():
        def initialize(message, writer):
            writer.write(b"Starting...\nnpm warn foo\n[1,2]\n{}\n\n")
            writer.write(b'{"jsonrpc":"2.0","id":null,"error":{"code":-32700,"message":"x"}}\n' * 100)
            return handshake()

        async with Script(discover=error(-32601), initialize=initialize, tools_list={"tools": []}) as script:
            async with connect(script.target) as client:
                assert await client.list_tools() == []
            assert script.methods == [
                "server/discover",
                "initialize",
                "notifications/initialized",
                "tools/list",
            ]

    run(main)
    assert [r.levelname for r in caplog.records if r.levelno >= 30] == ["WARNING"]


def test_odd_members_of_answers_are_tolerated(run):
    async def main():
        odd = {
            "protocolVersion": R4,
            "capabilities": None,
            "serverInfo": {"name": "h"},
            "instructions": None,
            "x": 1,
        }
        async with Script(discover={"hello": 1}, initialize=odd) as script:
            version, info, instructions = await agreed(script)
            assert (version, info.name, info.version, instructions) == (R4, "h", "", None)

    run(main)
