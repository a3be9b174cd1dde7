"""Carries the Startup Phase over a blocking TCP socket, for callers that continue on their own (RFC 5044 §7.1.2).

No octet is read after the peer's startup frame, so the socket stands at the first of Full Operation afterwards.
"""

from __future__ import annotations

import socket
import time

from scapy_mpa.live.endpoint import MPAEndpoint
from scapy_mpa.live.errors import RemoteProtocolError
from scapy_mpa.live.events import Established, Event, Rejected


def establish(sock: socket.socket, endpoint: MPAEndpoint) -> Established:
    """Exchange startup frames on a connected socket, which is left blocking.

    Raises RemoteProtocolError if there is no Full Operation: for what the peer does, for a Reply with R (rule
    ``startup-rejected``), for a timeout; what the peer is to learn has been written then.  OSError is the socket's.
    """
    try:
        events = endpoint.start(time.monotonic())
        while True:
            _write(sock, endpoint)
            for event in events:
                if isinstance(event, Established):
                    return event
                if isinstance(event, Rejected):
                    told = f" with the Private Data {event.private_data!r}" if event.private_data else ""
                    by = "by our own settings" if endpoint.role == "responder" else "by the Responder"
                    raise RemoteProtocolError(f"the connection is rejected {by}{told}", "startup-rejected")
            events = _read(sock, endpoint)
    except RemoteProtocolError:
        _write(sock, endpoint)
        raise
    finally:
        sock.settimeout(None)


def _write(sock: socket.socket, endpoint: MPAEndpoint) -> None:
    sock.settimeout(None)
    for octets in endpoint.data_to_send():
        sock.sendall(octets)


def _read(sock: socket.socket, endpoint: MPAEndpoint) -> list[Event]:
    """Return what the next octets of the peer's startup frame mean."""
    deadline = endpoint.deadline
    now = time.monotonic()
    endpoint.expire(now)
    sock.settimeout(None if deadline is None else deadline - now)
    try:
        octets = sock.recv(endpoint.missing)
    except TimeoutError:
        endpoint.expire(time.monotonic())
        return []
    except ConnectionError:
        return endpoint.receive_reset(time.monotonic())
    now = time.monotonic()
    return endpoint.receive(octets, now) if octets else endpoint.receive_eof(now)
