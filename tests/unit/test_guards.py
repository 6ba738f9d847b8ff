"""Host and Origin checks, CORS fields (SE-01, SE-12, B59, B60)."""

import pytest

from headrace.errors import UsageError
from headrace.transports.guards import Guards, parse_host, parse_origin


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("Example.COM", ("example.com", "")), ("example.com:80", ("example.com", "80")), ("a.:1", ("a", "1")),
        ("[::1]", ("[::1]", "")), ("[::1]:8000", ("[::1]", "8000")), ("example.com:", ("example.com", "")),
        ("a:*", ("a", "*")), ("", None), (".", None), ("::1", None), ("a:b", None), ("a b", None), ("a/b", None),
        ("u@h", None), ("[::1", None), ("[x]", None), ("a:123456", None), ("a:80:80", None),
    ],
)  # fmt: skip
def test_parse_host(text, expected):
    assert parse_host(text) == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("http://A.com", ("http", "a.com", "")), ("http://a.com:80", ("http", "a.com", "")),
        ("https://a.com:443", ("https", "a.com", "")), ("https://a.com:80", ("https", "a.com", "80")),
        ("vscode-webview://x1", ("vscode-webview", "x1", "")), ("http://[::1]:3", ("http", "[::1]", "3")),
        ("null", None), ("", None), ("http://a.com/", None), ("http://u@a.com", None), ("a.com", None),
        ("http://a.com http://b.com", None), ("http://", None),
    ],
)  # fmt: skip
def test_parse_origin(text, expected):
    assert parse_origin(text) == expected


LOCAL_HOSTS = ("localhost", "localhost:8000", "[::1]:8000", "127.0.0.1", "LOCALHOST:8000", "localhost.", "[::1]")
FOREIGN_HOSTS = ("localhost.evil.com", "evil.com", "", "127.0.0.1.evil.com", "evil.com:8000", "127.0.0.2", "0.0.0.0",
                 "localhost:*", "localhost@evil.com")  # fmt: skip


@pytest.mark.parametrize("bind", ["127.0.0.1", "localhost", "::1"])
def test_b59_loopback_binds_know_their_names(bind):
    guards = Guards(bind)
    assert guards.checks_hosts
    for host in LOCAL_HOSTS:
        assert guards.host_ok(host.encode()), host
        if not host.endswith("."):
            assert guards.origin_ok(f"http://{host}") and guards.origin_ok(f"https://{host}")
    for host in FOREIGN_HOSTS:
        assert not guards.host_ok(host.encode()), host
        assert not guards.origin_ok(f"http://{host}"), host
    for origin in ("null", "http://127.0.0.1@evil.com", "ftp://localhost", "http://localhost/x"):
        assert not guards.origin_ok(origin)


def test_b59_another_loopback_address_counts_as_its_own_name():
    assert Guards("127.0.0.5").host_ok(b"127.0.0.5:81")


def test_b59_allow_list_with_ports():
    guards = Guards("127.0.0.1", allowed_hosts=["api.example.com:*", "b.example.com", "c.example.com:8443"])
    for host in (b"api.example.com", b"api.example.com:1", b"API.example.com.:443", b"b.example.com",
                 b"b.example.com:443", b"c.example.com:8443", b"localhost"):  # fmt: skip
        assert guards.host_ok(host), host
    for host in (b"b.example.com:8443", b"c.example.com", b"x.api.example.com", b"api.example.com.evil.com"):
        assert not guards.host_ok(host), host


def test_b59_other_binds_check_origins_but_hosts_only_when_told():
    guards = Guards("0.0.0.0")
    assert not guards.checks_hosts and guards.host_ok(b"anything")
    assert not guards.origin_ok("http://localhost:3000") and not guards.origin_ok("https://app.example.com")
    guards = Guards("0.0.0.0", allowed_hosts=["a.example.com"], allowed_origins=["https://app.example.com:*"])
    assert guards.host_ok(b"a.example.com") and not guards.host_ok(b"localhost")
    assert guards.origin_ok("https://app.example.com:1") and not guards.origin_ok("http://app.example.com")


def test_stars_switch_checks_off():
    guards = Guards("127.0.0.1", allowed_hosts=["*"], allowed_origins=["*"])
    assert guards.host_ok(b"evil.com") and guards.origin_ok("null")
    assert guards.cors_fields("https://evil.com") is None


def test_unix_sockets_take_any_host():
    guards = Guards(None)
    assert guards.host_ok(b"") and guards.host_ok(b"x") and not guards.origin_ok("http://evil.com")


def test_b60_cors_fields_name_the_origin_and_never_credentials():
    guards = Guards("127.0.0.1", cors_origins=["https://app.example.com"])
    fields = guards.cors_fields("https://app.example.com")
    assert b"Access-Control-Allow-Origin: https://app.example.com\r\n" in fields and b"Vary: Origin\r\n" in fields
    assert guards.origin_ok("https://app.example.com")
    assert guards.cors_fields("http://localhost:1") is None
    star = Guards("127.0.0.1", cors_origins=["*"])
    assert b"Allow-Origin: *\r\n" in star.cors_fields("https://any.example.com")
    assert b"redentials" not in star.cors_fields("https://any.example.com") + star.preflight_fields()


def test_b60_preflight_echoes_only_parameter_headers():
    fields = Guards("127.0.0.1", cors_origins=["*"]).preflight_fields(b"mcp-param-region, x-evil, mcp-param-a\rb")
    assert b"mcp-param-region" in fields and b"x-evil" not in fields and fields.count(b"\r") == 3


@pytest.mark.parametrize(
    "options",
    [{"allowed_hosts": ["http://a"]}, {"allowed_hosts": [""]}, {"allowed_origins": ["a.com"]},
     {"cors_origins": ["null"]}, {"allowed_origins": ["https://a.com/x"]}],
)  # fmt: skip
def test_wrong_entries_are_named(options):
    with pytest.raises(UsageError):
        Guards("127.0.0.1", **options)
