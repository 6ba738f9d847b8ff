"""Sealed values: integrity, expiry, binding, rotation, and the secret's rules (MX-35)."""

import math
import os
import subprocess
import sys
import threading

import pytest
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.kdf.hkdf import HKDF

from headrace import Server
from headrace.errors import UsageError
from headrace.protocol import seal
from headrace.protocol.seal import SealBroken, Sealer, SealError, SealExpired

SECRET = b"0123456789abcdef-test"


def test_mx35_round_trip_in_visible_ascii():
    sealer = Sealer(SECRET)
    for payload in (b"", b"x", bytes(range(256)), os.urandom(5000)):
        token = sealer.seal("state", payload, bind=b"alice", lifetime=60)
        assert token.isascii() and token.isprintable() and set(token).isdisjoint("+/= ")
        assert sealer.unseal("state", token, bind=b"alice") == payload
        assert sealer.unseal("state", token.encode(), bind=b"alice") == payload
        assert payload not in token.encode() or len(payload) < 2
    assert sealer.seal("state", b"a", lifetime=1) != sealer.seal("state", b"a", lifetime=1)


def test_mx35_every_altered_byte_is_found():
    sealer = Sealer(SECRET)
    token = sealer.seal("state", b"payload", bind=b"b", lifetime=60)
    for at in range(len(token)):
        for replacement in ("A", "B", "_", "=", "é", "\n", ""):
            altered = token[:at] + replacement + token[at + 1 :]
            if altered != token:
                with pytest.raises(SealBroken):
                    sealer.unseal("state", altered, bind=b"b")
    for cut in range(len(token)):
        with pytest.raises(SealBroken):
            sealer.unseal("state", token[:cut], bind=b"b")
    for longer in (token + "A", token + "=", token + "AAAA", " " + token, token + "\n"):
        with pytest.raises(SealBroken):
            sealer.unseal("state", longer, bind=b"b")


@pytest.mark.parametrize("token", ["", "A", "????", b"\xff\xfe", "\ud800", "AQ" * 40, "0" * 100_000])
def test_mx35_garbage_is_broken_never_a_crash(token):
    with pytest.raises(SealBroken):
        Sealer(SECRET).unseal("state", token)


def test_mx35_wrong_purpose_and_wrong_binding():
    sealer = Sealer(SECRET)
    token = sealer.seal("state", b"p", bind=b"alice", lifetime=60)
    for purpose, bind in (
        ("session", b"alice"),
        ("state", b"bob"),
        ("state", b""),
        ("statea", b"lice"),
        ("stat", b"ealice"),
    ):
        with pytest.raises(SealBroken):
            sealer.unseal(purpose, token, bind=bind)


def test_mx35_expiry():
    now = [1000.0]
    sealer = Sealer(SECRET, clock=lambda: now[0])
    token = sealer.seal("state", b"p", lifetime=10)
    endless = sealer.seal("state", b"p", lifetime=math.inf)
    now[0] = 1009.9
    assert sealer.unseal("state", token) == b"p"
    now[0] = 1010.0
    with pytest.raises(SealExpired):
        sealer.unseal("state", token)
    # Altered and expired: the tag decides first.
    with pytest.raises(SealBroken):
        sealer.unseal("other", token)
    now[0] = 1e12
    assert sealer.unseal("state", endless) == b"p"
    assert issubclass(SealExpired, SealError) and issubclass(SealBroken, SealError)
    for lifetime in (0, -1, math.nan):
        with pytest.raises(ValueError, match="lifetime"):
            sealer.seal("state", b"p", lifetime=lifetime)


def test_rotation_the_first_seals_and_all_open():
    old, new = "old-secret-of-16-bytes", "new-secret-of-16-bytes"
    before, during, after = Sealer(old), Sealer(f" {new} , {old} "), Sealer(new)
    token = before.seal("s", b"1", lifetime=60)
    fresh = during.seal("s", b"2", lifetime=60)
    assert during.unseal("s", token) == b"1"
    assert during.unseal("s", fresh) == after.unseal("s", fresh) == b"2"
    with pytest.raises(SealBroken, match="another secret"):
        before.unseal("s", fresh)
    with pytest.raises(SealBroken, match="another secret"):
        after.unseal("s", token)
    assert Sealer([new.encode(), old]).unseal("s", token) == b"1"


def test_bytes_are_one_secret_even_with_a_comma():
    odd = b"0123456789abcde,"
    assert Sealer([odd]).unseal("s", Sealer(odd).seal("s", b"1", lifetime=9)) == b"1"


def test_short_secrets_are_refused_plainly(monkeypatch):
    with pytest.raises(UsageError, match=r"^secret: the secret has 15 bytes; use at least 16"):
        Sealer(b"x" * 15)
    with pytest.raises(UsageError, match="secret 2 of 2 has 5 bytes") as caught:
        Sealer("x" * 16 + ",short")
    assert "\n" not in str(caught.value) and "short" not in str(caught.value)
    with pytest.raises(UsageError, match="secret 2 of 2 has 0 bytes"):
        Sealer("x" * 16 + ",")
    with pytest.raises(UsageError, match="at least one"):
        Sealer([])
    monkeypatch.setenv("HEADRACE_SECRET", "abc")
    with pytest.raises(UsageError, match=r"^HEADRACE_SECRET: the secret has 3 bytes"):
        Sealer()
    assert "0123" not in repr(Sealer(SECRET))


def test_without_a_secret_each_sealer_has_its_own(monkeypatch):
    for value in (None, ""):
        if value is None:
            monkeypatch.delenv("HEADRACE_SECRET", raising=False)
        else:
            monkeypatch.setenv("HEADRACE_SECRET", value)
        first, second = Sealer(), Sealer()
        token = first.seal("s", b"1", lifetime=9)
        assert first.unseal("s", token) == b"1"
        with pytest.raises(SealBroken):
            second.unseal("s", token)


def test_two_processes_with_one_secret(monkeypatch):
    code = (
        "from headrace.protocol.seal import Sealer;"
        "print(Sealer().seal('state', b'from afar', bind=b'b', lifetime=60), end='')"
    )
    env = {**os.environ, "HEADRACE_SECRET": "shared-secret-0123", "PYTHONPATH": "src"}
    token = subprocess.run(
        [sys.executable, "-c", code], env=env, capture_output=True, text=True, timeout=30, check=True
    ).stdout
    monkeypatch.setenv("HEADRACE_SECRET", "shared-secret-0123")
    assert Sealer().unseal("state", token, bind=b"b") == b"from afar"


def test_key_derivation_is_hkdf_and_never_changes():
    # Servers of two releases run side by side during an update: these bytes are an interface.
    derived = seal._derive(SECRET, b"purpose state")
    assert derived == HKDF(SHA256(), 32, b"headrace seal", b"purpose state").derive(SECRET)
    token = "AQhqWIL__________yDTSX0zdDiSXhBNan8fa8URtZkCrlikQyv89uMhy0voF0QCckyM3irjFuaJFmk6Es4fEVWfCw73zWMW5w"
    assert Sealer(SECRET, clock=lambda: 0.0).unseal("state", token, bind=b"bind") == b"payload of release 1"


def test_many_threads_share_one_sealer():
    sealer, failures = Sealer(SECRET), []

    def work(name):
        try:
            for n in range(50):
                payload = b"%d %d" % (name, n)
                assert sealer.unseal(f"p{n % 3}", sealer.seal(f"p{n % 3}", payload, lifetime=60)) == payload
        except Exception as exc:
            failures.append(exc)

    threads = [threading.Thread(target=work, args=(n,)) for n in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(20)
    assert failures == []


def test_the_server_has_one_sealer_made_when_it_is_asked_for(monkeypatch):
    monkeypatch.setenv("HEADRACE_SECRET", "short")
    app = Server("s", version="1")
    with pytest.raises(UsageError, match="HEADRACE_SECRET"):
        _ = app.sealer
    monkeypatch.setenv("HEADRACE_SECRET", "long-enough-for-16")
    assert app.sealer is app.sealer
    assert Sealer("long-enough-for-16").unseal("s", app.sealer.seal("s", b"1", lifetime=9)) == b"1"
