"""CORS as one switch (B60): the whole trial, on and off, with refusals of every kind."""

import pytest
from http_support import R5, make_server, site, tiny

from headrace.errors import HttpRefusal

NAMES = "mcp-protocol-version,mcp-session-id,authorization,last-event-id,mcp-method,mcp-name"
APP = "https://app.example"


async def authenticate(request):
    if request.header(b"authorization") != b"Bearer x":
        raise HttpRefusal(401, [("WWW-Authenticate", "Bearer")])


def trial(place):
    """(request, status) of everything a page may meet."""
    ok = {"authorization": "Bearer x", "origin": APP}
    echo = {"text": "x"}
    return [
        (place.call("echo", echo, origin=APP), 401),
        (place.call("echo", echo, **ok), 200),
        (place.call("echo", echo, target="/x", **ok), 404),
        (place.legacy_call("unknown", "echo", echo, **ok), 404),
        (place.request("PUT", **ok), 405),
        (place.request("GET", mcp_protocol_version=R5, **ok), 405),
        (place.call("echo", echo, **ok | {"accept": "text/html"}), 406),
        (place.call("echo", echo, **ok | {"content_type": "text/plain"}), 415),
        (place.call("echo", echo, **ok | {"expect": "tea"}), 417),
        (place.call("echo", echo, **ok | {"mcp_method": "tools/list"}), 400),
        (place.call("progress", {"n": 1}, meta={"progressToken": 1}, **ok), 200),
        (place.request("DELETE", mcp_session_id="unknown", **ok), 404),
    ]


@pytest.mark.parametrize("origins", [[APP], ["*"]], ids=["one", "any"])
def test_b60_on(run, origins):
    async def main():
        async with site(make_server(), tiny(), cors_origins=origins, authenticate=authenticate) as place:
            peer = await place.connect()
            allowed = "*" if origins == ["*"] else APP
            preflight = place.request("OPTIONS", origin=APP, access_control_request_method="DELETE",
                                      access_control_request_headers=NAMES)  # fmt: skip
            answer = await peer.ask(preflight)  # before any authentication
            assert answer.status == 204 and answer.get("access-control-allow-origin") == allowed
            names = [each.strip().lower() for each in answer.get("access-control-allow-headers").split(",")]
            assert set(NAMES.split(",")) <= set(names)
            methods = [each.strip() for each in answer.get("access-control-allow-methods").split(",")]
            assert {"GET", "POST", "DELETE"} <= set(methods)
            for data, status in trial(place):
                answer = await peer.ask(data)
                assert (answer.status, answer.get("access-control-allow-origin"), answer.get("vary")) == (status, allowed, "Origin"), data
                readable = answer.get("access-control-expose-headers").split(", ")
                assert {"Mcp-Session-Id", "WWW-Authenticate", "Retry-After"} <= set(readable)
                assert "access-control-allow-credentials" not in answer.headers
                if answer.get("connection") == "close":
                    peer = await place.connect()

    run(main)


def test_b60_off(run):
    """Not one of the headers; a preflight is a method that is not allowed."""

    async def main():
        async with site(make_server(), tiny(), allowed_origins=[APP], authenticate=authenticate) as place:
            for data, status in [*trial(place), (place.request("OPTIONS", origin=APP), 405)]:
                peer = await place.connect()
                answer = await peer.ask(data)
                assert answer.status == status, data
                assert not [name for name in answer.headers if name.startswith("access-control") or name == "vary"]

    run(main)
