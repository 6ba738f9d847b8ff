"""The certificate of a server: read from files, read again while it serves, and what is wrong with it in one line.

TLS 1.2 is the oldest version that is spoken; of TLS 1.2 the ciphers are those that Python allows, all of them with
forward secrecy. New connections get what was read last; those that are open keep what they began with.
"""

from __future__ import annotations

import ssl
from pathlib import Path

from headrace.errors import HeadraceError

__all__ = ("Certificate", "CertificateError", "context_of")


class CertificateError(HeadraceError):
    """A certificate or key that cannot be used. The text names the file, and never holds anything of a key."""


class Certificate:
    """A certificate chain and its key, in PEM files.

    :param certfile: the server's certificate, then those between it and the authority.
    :param keyfile: its private key; None: it stands in ``certfile``.
    :param password_file: the first line of this file is the password of an encrypted key. Without it an encrypted key
        is refused: nothing is ever asked for at a terminal.

    Raises :class:`CertificateError` when they cannot be used.
    """

    def __init__(self, certfile: str, keyfile: str | None = None, password_file: str | None = None) -> None:
        self.certfile = certfile
        self.keyfile = keyfile
        self.password_file = password_file
        self._context = self._read()

    @property
    def context(self) -> ssl.SSLContext:
        """For connections that begin now."""
        return self._context

    def reload(self) -> None:
        """Reads the files anew. Raises :class:`CertificateError`, and goes on with what it had."""
        self._context = self._read()

    def _read(self) -> ssl.SSLContext:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.minimum_version = ssl.TLSVersion.TLSv1_2
        context.options |= ssl.OP_NO_RENEGOTIATION
        context.set_alpn_protocols(["http/1.1"])
        certificate = _contents("certfile", self.certfile)
        if b"-----BEGIN CERTIFICATE-----" not in certificate:
            raise CertificateError(f"certfile {self.certfile}: there is no certificate in it (PEM is expected)")
        keyfile = f"keyfile {self.keyfile}" if self.keyfile is not None else f"certfile {self.certfile}"
        key = certificate if self.keyfile is None else _contents("keyfile", self.keyfile)
        if b"PRIVATE KEY-----" not in key:
            hint = "; is keyfile missing?" if self.keyfile is None else ""
            raise CertificateError(f"{keyfile}: there is no private key in it (PEM is expected){hint}")
        password = None
        if self.password_file is not None:
            password = _contents("keyfile password file", self.password_file).split(b"\n", 1)[0].rstrip(b"\r")
        asked = False

        def give() -> bytes:
            nonlocal asked
            asked = True
            return password or b""

        try:
            context.load_cert_chain(self.certfile, self.keyfile, give)
        except (ssl.SSLError, ValueError) as exc:
            reason = getattr(exc, "reason", None) or ""
            if reason == "KEY_VALUES_MISMATCH":
                owner = f"the certificate in {self.certfile}"
                raise CertificateError(f"{keyfile}: this is not the key of {owner}") from None
            if asked and password is None:
                raise CertificateError(f"{keyfile}: it is encrypted, and no keyfile password file is given") from None
            if asked:
                raise CertificateError(f"{keyfile}: the password in {self.password_file} does not fit") from None
            what = reason.replace("_", " ").lower() or "it cannot be read as PEM"
            raise CertificateError(f"{keyfile}: it cannot be used with {self.certfile} ({what})") from None
        except OSError as exc:
            raise CertificateError(f"{keyfile}: {exc.strerror or exc}") from None
        return context


def context_of(tls: ssl.SSLContext | Certificate) -> ssl.SSLContext:
    """The context for a connection that begins now."""
    return tls.context if isinstance(tls, Certificate) else tls


def _contents(what: str, path: str) -> bytes:
    try:
        return Path(path).read_bytes()
    except OSError as exc:
        raise CertificateError(f"{what} {path}: {exc.strerror or exc}") from None
