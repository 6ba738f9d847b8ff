"""TLS of HTTP servers: certificates from files and what is wrong with them, reload, versions, time limits.

Strategy: files made by openssl; raw sockets and ssl clients against a served endpoint on both loops.
"""

import asyncio
import errno
import os
import socket
import ssl
import warnings
from pathlib import Path

import pytest
from http_support import Peer, make_server, site, tiny
from tls_support import client_context, make_certificate

from headrace.transports import arrivals
from headrace.transports.tls import Certificate, CertificateError


def why(*arguments):
    with pytest.raises(CertificateError) as failed:
        Certificate(*(None if each is None else str(each) for each in arguments))
    text = str(failed.value)
    assert "\n" not in text and "secret" not in text
    return text


def test_files_that_cannot_be_used_are_named_in_one_line(tmp_path):
    cert, key = make_certificate(tmp_path)
    _, other = make_certificate(tmp_path, "other")
    _, sealed = make_certificate(tmp_path, "sealed", "secret")
    nothing, password = tmp_path / "nothing.pem", tmp_path / "password"
    nothing.write_text("just text\n")
    password.write_text("wrong secret\n")
    assert why(tmp_path / "no.crt", key) == f"certfile {tmp_path}/no.crt: No such file or directory"
    assert why(cert, tmp_path / "no.key") == f"keyfile {tmp_path}/no.key: No such file or directory"
    assert why(tmp_path, key) == f"certfile {tmp_path}: Is a directory"
    assert why(nothing, key).startswith(f"certfile {nothing}: there is no certificate in it")
    assert why(cert, nothing).startswith(f"keyfile {nothing}: there is no private key in it")
    assert why(cert, None) == f"certfile {cert}: there is no private key in it (PEM is expected); is keyfile missing?"
    assert why(cert, other) == f"keyfile {other}: this is not the key of the certificate in {cert}"
    assert why(cert, sealed) == f"keyfile {sealed}: it is encrypted, and no keyfile password file is given"
    assert why(cert, sealed, password) == f"keyfile {sealed}: the password in {password} does not fit"
    assert why(cert, sealed, tmp_path / "none").startswith(f"keyfile password file {tmp_path}/none: No such file")
    broken = tmp_path / "broken.crt"
    broken.write_text("-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n")
    assert why(broken, key).startswith(f"keyfile {key}: it cannot be used with {broken}")


def test_a_key_that_may_not_be_read_is_named(tmp_path, monkeypatch):
    cert, key = make_certificate(tmp_path)
    os.chmod(key, 0)
    if os.geteuid() == 0:  # root reads everything
        read = Path.read_bytes

        def refuse(path):
            if str(path) == key:
                raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), key)
            return read(path)

        monkeypatch.setattr(Path, "read_bytes", refuse)
    assert why(cert, key) == f"keyfile {key}: Permission denied"


def test_a_key_may_be_encrypted_or_stand_with_its_certificate(tmp_path):
    cert, key = make_certificate(tmp_path, "sealed", "secret")
    (tmp_path / "password").write_text("secret\r\nmore\n")
    assert isinstance(Certificate(cert, key, str(tmp_path / "password")).context, ssl.SSLContext)
    cert, key = make_certificate(tmp_path)
    both = tmp_path / "both.pem"
    both.write_bytes((tmp_path / "site.key").read_bytes() + (tmp_path / "site.crt").read_bytes())
    assert isinstance(Certificate(str(both)).context, ssl.SSLContext)


def subject(peer):
    return dict(pair[0] for pair in peer.writer.get_extra_info("peercert")["subject"])["commonName"]


def test_a_new_certificate_is_for_new_connections(run, tmp_path):
    """Reload: open connections go on, new ones get the new certificate; files that cannot be used change nothing."""
    one, two = make_certificate(tmp_path, "one"), make_certificate(tmp_path, "two")
    live = tmp_path / "live.crt", tmp_path / "live.key"

    def install(pair):
        for source, target in zip(pair, live, strict=True):
            with open(source, "rb") as file:
                target.write_bytes(file.read())

    install(one)
    certificate = Certificate(str(live[0]), str(live[1]))

    async def main():
        async with site(ssl=certificate) as place:
            first = await place.connect(ssl=client_context(one[0]))
            assert subject(first) == "one"
            install((two[0], one[1]))
            with pytest.raises(CertificateError, match="this is not the key"):
                certificate.reload()
            again = await place.connect(ssl=client_context(one[0]))
            assert subject(again) == "one"
            install(two)
            certificate.reload()
            second = await place.connect(ssl=client_context(two[0]))
            assert subject(second) == "two"
            with pytest.raises(ssl.SSLCertVerificationError):
                await place.connect(ssl=client_context(one[0]))
            for peer in (first, again, second):
                assert (await peer.ask(place.call("echo", {"text": "x"}))).status == 200
            [link, *_] = place.endpoint.links
            assert (link.peer, link.scheme) == ("127.0.0.1", "https")

    run(main)


def test_tls_1_2_is_the_oldest(run, tmp_path):
    cert, key = make_certificate(tmp_path)

    async def main():
        async with site(ssl=Certificate(cert, key)) as place:
            for version, served in [(ssl.TLSVersion.TLSv1_1, False), (ssl.TLSVersion.TLSv1_2, True), (ssl.TLSVersion.TLSv1_3, True)]:
                context = client_context(cert)
                with warnings.catch_warnings():
                    warnings.simplefilter("ignore")
                    context.minimum_version = context.maximum_version = version
                context.set_ciphers("DEFAULT:@SECLEVEL=0")
                context.set_alpn_protocols(["h2", "http/1.1"])
                if not served:
                    with pytest.raises((ssl.SSLError, ConnectionError)):
                        await place.connect(ssl=context)
                    assert place.server.runtime.refusals == {"tls_handshake": 1}
                    continue
                peer = await place.connect(ssl=context)
                assert peer.writer.get_extra_info("ssl_object").selected_alpn_protocol() == "http/1.1"
                assert (await peer.ask(place.call("echo", {"text": "x"}))).status == 200

    run(main)


def descriptors():
    return len(os.listdir("/proc/self/fd"))


def test_a_handshake_that_does_not_come_ends_in_time(run, tmp_path):
    """What connects and is silent, drips, speaks HTTP, or goes away costs a descriptor for handshake_timeout seconds
    at most, and nothing later."""
    cert, key = make_certificate(tmp_path)

    async def main():
        async with site(limits=tiny(handshake_timeout=0.4), ssl=Certificate(cert, key)) as place:
            warm = await place.connect(ssl=client_context(cert))
            assert (await warm.ask(place.call("echo", {"text": "x"}))).status == 200
            before = descriptors()

            async def silent(data):
                peer = Peer(*await asyncio.open_connection(place.host, place.port))
                for byte in data:
                    if peer.writer.transport.is_closing():
                        break
                    peer.send(bytes([byte]))
                    await asyncio.sleep(0.02)
                assert await peer.ended()
                peer.close()

            hello = bytes.fromhex("16030102000100") + b"\x00" * 50
            await asyncio.gather(silent(b""), silent(hello[:1]), silent(hello), *(silent(b"") for _ in range(5)))
            assert place.server.runtime.refusals["handshake_timeout"] >= 7
            http = Peer(*await asyncio.open_connection(place.host, place.port))
            http.send(b"POST /mcp HTTP/1.1\r\n\r\n")
            await http.ended()
            http.close()
            await place.settled(lambda: place.server.runtime.refusals.get("tls_handshake", 0) >= 1)
            for _ in range(10):
                gone = socket.create_connection((place.host, place.port))
                gone.close()
            await place.settled(lambda: place.listener.arrivals.pending == 0 and descriptors() <= before)
            assert (await warm.ask(place.call("echo", {"text": "x"}))).status == 200
            assert place.listener.connections == 1

    run(main)


def test_connections_in_their_handshake_count(run, tmp_path):
    """max_connections bounds them too, and closing the listener does not wait for them."""
    cert, key = make_certificate(tmp_path)

    async def main():
        async with site(make_server(), tiny(max_connections=3), ssl=Certificate(cert, key)) as place:
            peers = [Peer(*await asyncio.open_connection(place.host, place.port)) for _ in range(6)]
            await place.settled(lambda: place.listener.arrivals.pending == 6)
            seventh = Peer(*await asyncio.open_connection(place.host, place.port))
            assert await seventh.ended()
            assert place.server.runtime.refusals == {"max_connections": 1}
            await place.listener.close()
            for peer in peers:
                assert await peer.ended()
                peer.close()
            seventh.close()

    run(main)


def test_an_end_that_is_not_confirmed_is_an_end(run, tmp_path):
    """The peer of an idle connection that is closed does not answer the farewell of TLS: linger_timeout, not more."""
    cert, key = make_certificate(tmp_path)

    async def main():
        limits = tiny(keep_alive_timeout=0.2, linger_timeout=0.3)
        async with site(limits=limits, ssl=Certificate(cert, key)) as place:
            def silent():
                sock = socket.create_connection((place.host, place.port))
                return client_context(cert).wrap_socket(sock, server_hostname="localhost")

            peers = [await asyncio.to_thread(silent) for _ in range(3)]
            await place.settled(lambda: place.listener.connections == 3)
            await place.settled(lambda: place.listener.connections == 0)
            assert all(peer.fileno() >= 0 for peer in peers)  # none of them has closed
            for peer in peers:
                peer.close()

    run(main)


def test_over_a_unix_socket(run, tmp_path):
    cert, key = make_certificate(tmp_path)
    path = str(tmp_path / "s")

    async def main():
        from headrace.transports.http_server import serve_http

        app = make_server()
        async with app.running():
            listener = await serve_http(app, unix=path, ssl=Certificate(cert, key))
            assert listener.addresses == [f"unix:{path}"]
            reader, writer = await asyncio.open_unix_connection(path, ssl=client_context(cert), server_hostname="localhost")
            writer.write(b"GET /mcp HTTP/1.1\r\nHost: x\r\n\r\n")
            assert (await reader.readline()).startswith(b"HTTP/1.1 405")
            [link] = listener.endpoint.links
            assert (link.peer, link.client, link.scheme) == ("unix", None, "https")
            writer.transport.abort()
            await listener.close()
        assert not os.path.exists(path)

    run(main)


def test_without_descriptors_accepting_pauses(run, tmp_path, monkeypatch, caplog):
    """The system has none left: one line of the log, no busy loop, and connections that waited are served later."""
    cert, key = make_certificate(tmp_path)
    monkeypatch.setattr(arrivals, "PAUSE", 0.2)

    class Exhausted:
        tries = 0

        def accept(self):
            self.tries += 1
            raise OSError(errno.EMFILE, os.strerror(errno.EMFILE))

    async def main():
        async with site(ssl=Certificate(cert, key)) as place:
            door, full = place.listener.arrivals, Exhausted()
            door._accept(full)
            door._accept(full)  # another socket of the same listener
            waiting = asyncio.create_task(place.connect(ssl=client_context(cert)))
            await asyncio.sleep(0.05)
            assert not waiting.done() and full.tries == 2
            peer = await waiting
            assert (await peer.ask(place.call("echo", {"text": "x"}))).status == 200
            door._accept(full)  # closed while it pauses
        assert len([each for each in caplog.records if "no connection can be accepted" in each.getMessage()]) >= 1

    run(main)
