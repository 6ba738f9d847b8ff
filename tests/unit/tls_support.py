"""Certificates for tests, made by the openssl of the machine."""

import ssl
import subprocess

import pytest


def make_certificate(folder, name="site", password=None):
    """(certfile, keyfile) of a new self-signed certificate for localhost, as texts."""
    key, cert = folder / f"{name}.key", folder / f"{name}.crt"
    command = ["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-keyout", str(key),
               "-out", str(cert), "-days", "2", "-subj", f"/CN={name}", "-addext",
               "subjectAltName=DNS:localhost,IP:127.0.0.1"]  # fmt: skip
    command += ["-nodes"] if password is None else ["-passout", f"pass:{password}"]
    try:
        done = subprocess.run(command, capture_output=True, timeout=30)
    except FileNotFoundError:
        pytest.skip("openssl is not installed")
    assert done.returncode == 0, done.stderr
    return str(cert), str(key)


def client_context(certfile=None):
    """A client that checks the server against ``certfile``, or does not look."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    if certfile is None:
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
    else:
        context.load_verify_locations(certfile)
    return context
