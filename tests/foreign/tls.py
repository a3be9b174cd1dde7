"""TLS, by Python's own: a handshake, then records. Its keys are not the same again."""

from __future__ import annotations

import shutil
import ssl
import subprocess
import tempfile
from collections.abc import Callable
from functools import lru_cache
from pathlib import Path

from scapy_mpa.craft.talk import Side
from tests.foreign.data import Data, Message, Talk


@lru_cache(maxsize=1)
def _certificate() -> bytes | None:
    """A certificate and its key, if there is openssl to make them."""
    if shutil.which("openssl") is None:
        return None
    command = "openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -days 2 -subj /CN=example.org"
    made = subprocess.run([*command.split(), "-keyout", "-"], check=True, capture_output=True)
    return made.stdout


def _contexts(version: ssl.TLSVersion) -> tuple[ssl.SSLContext, ssl.SSLContext]:
    """Client and server; without a certificate they agree on an anonymous key, which TLS 1.2 has."""
    client, server = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT), ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    client.check_hostname = False
    client.verify_mode = ssl.CERT_NONE
    certificate = _certificate()
    if certificate is not None:
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "certificate.pem"
            path.write_bytes(certificate)
            server.load_cert_chain(path)
    else:
        version = ssl.TLSVersion.TLSv1_2
    for context in (client, server):
        context.maximum_version = version
        if certificate is None:
            context.set_ciphers("AECDH-AES256-SHA:@SECLEVEL=0")
    return client, server


def tls(version: ssl.TLSVersion) -> Callable[[Data], Talk]:
    """A handshake and records, by Python's own TLS."""

    def talk(data: Data) -> Talk:
        contexts = _contexts(version)
        wires = [ssl.MemoryBIO() for _ in range(4)]  # what each side hears, then says
        client = contexts[0].wrap_bio(wires[0], wires[1], server_hostname="example.org")
        server = contexts[1].wrap_bio(wires[2], wires[3], server_side=True)

        def said(side: Side) -> Message:
            mine, other = (1, 2) if side == "client" else (3, 0)
            octets = wires[mine].read()
            wires[other].write(octets)
            return side, octets

        shaking = {"client": client, "server": server}
        sides: tuple[Side, Side] = ("client", "server")
        while shaking:
            for side in sides:
                if side in shaking:
                    try:
                        shaking[side].do_handshake()
                        del shaking[side]
                    except ssl.SSLWantReadError:
                        pass
                if wires[1 if side == "client" else 3].pending:
                    yield said(side)
        while True:
            client.write(data.content(data.between(20, 900)))
            yield said("client")
            server.read(1 << 20)
            server.write(data.content(data.size() * 2))
            yield said("server")
            while wires[0].pending:
                client.read(1 << 20)

    return talk
