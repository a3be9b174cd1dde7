"""``MPASocket``: FPDUs over a TCP socket on which the startup frames have been exchanged (RFC 5044 §4, §7.1).

It counts the octets of Full Operation in both directions, so it knows where Markers stand; which direction
has them, and whether CRCs are in use, was negotiated, and it is handed both.  ``MPASocket.connect`` and
``MPASocket.accept`` negotiate it themselves, by an :class:`~scapy_mpa.live.endpoint.MPAEndpoint`.
"""

from __future__ import annotations

import select
import socket
import time
from typing import Any

from scapy.error import log_runtime
from scapy.packet import Packet
from scapy.supersocket import StreamSocket

from scapy_mpa.framing import MARKER_INTERVAL, Origin, header_offset, plain_length, wire_length
from scapy_mpa.framing.markers import LENGTH_FIELD_LENGTH
from scapy_mpa.layers.uppers import ConnectionUpper
from scapy_mpa.live.blocking import establish
from scapy_mpa.live.endpoint import MPAEndpoint
from scapy_mpa.live.errors import RemoteProtocolError
from scapy_mpa.live.events import Established
from scapy_mpa.live.settings import EndpointSettings
from scapy_mpa.packet.fpdu import FPDU
from scapy_mpa.packet.mpa import fpdu_packet
from scapy_mpa.packet.rdmap import RDMAPReadResponse, RDMAPWrite, without_ddp
from scapy_mpa.ulp.identify import PORTS

_AT_ONCE = 1 << 16


class MPASocket(StreamSocket):
    """A StreamSocket that sends and receives FPDUs with Markers and CRCs as negotiated.

    Received Sends are dissected by the upper layer that the startup frames or the ports name, as in ``MPASession``.

    Args:
        sock: A connected TCP socket; the next octet in either direction is the first of Full Operation, unless an
            offset is given.
        send_markers: The peer asked for Markers by M.
        recv_markers: We asked for Markers by M.
        crc: CRCs are in use.
        origin: What FPDUPTR counts from.
        send_offset: Octets from SeqStart to the next octet that is sent.
        recv_offset: The same for the next octet that is received.

    Attributes:
        established: what was agreed on, with both startup frames; None if it was given.
    """

    desc = "sends and receives MPA FPDUs on a TCP socket"

    def __init__(
        self,
        sock: socket.socket,
        send_markers: bool = False,
        recv_markers: bool = False,
        crc: bool = True,
        *,
        origin: Origin = "header",
        send_offset: int = 0,
        recv_offset: int = 0,
    ) -> None:
        super().__init__(sock, FPDU)
        self.send_markers = send_markers
        self.recv_markers = recv_markers
        self.crc = crc
        self.origin: Origin = origin
        self.send_offset = send_offset
        self.recv_offset = recv_offset
        self.established: Established | None = None
        self._upper, self._is_initiator = _upper_by_port(sock)
        self._received = bytearray()
        self._selected = False

    @classmethod
    def connect(cls, host: str, port: int, *, timeout: float | None = 10.0, **parameters: Any) -> MPASocket:
        """Connect to a Responder, and enter Full Operation as Initiator.

        ``parameters`` are those of ``EndpointSettings``: ``m=1``, ``c=1``, ``private_data=...``, ``enhanced=...``;
        ``timeout`` is for the TCP connection, in seconds. In the peer-to-peer model, the ready-to-receive message is
        sent too. Raises RemoteProtocolError if Full Operation is not reached, and OSError if there is no connection.
        """
        settings: EndpointSettings | None = EndpointSettings(**parameters)
        while True:
            assert settings is not None
            sock = socket.create_connection((host, port), timeout)
            endpoint = MPAEndpoint("initiator", settings)
            try:
                return cls._established(sock, endpoint)
            except RemoteProtocolError:
                settings = endpoint.fallback
                if settings is None:
                    raise

    @classmethod
    def accept(cls, port: int | socket.socket, host: str = "127.0.0.1", **parameters: Any) -> MPASocket:
        """Wait for an Initiator, and enter Full Operation as Responder.

        Accepts one connection on a port of this host, loopback by default, or from a listening socket, which stays
        open.  ``parameters`` are those of ``EndpointSettings``; raises as ``connect`` does.
        """
        if isinstance(port, socket.socket):
            return cls.respond(port.accept()[0], **parameters)
        with socket.create_server((host, port)) as listener:
            return cls.respond(listener.accept()[0], **parameters)

    @classmethod
    def respond(cls, sock: socket.socket, **parameters: Any) -> MPASocket:
        """Enter Full Operation as Responder on a connected TCP socket, which is closed if that fails."""
        settings = EndpointSettings(**{**parameters, "automatic": True})
        return cls._established(sock, MPAEndpoint("responder", settings))

    @classmethod
    def _established(cls, sock: socket.socket, endpoint: MPAEndpoint) -> MPASocket:
        try:
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            established = establish(sock, endpoint)
        except BaseException:
            sock.close()
            raise
        agreement = established.agreement
        ours, theirs = agreement.markers_from_initiator, agreement.markers_from_responder
        if endpoint.role == "responder":
            ours, theirs = theirs, ours
        origin = agreement.profile.fpduptr_origin
        made = cls(sock, bool(ours), bool(theirs), bool(agreement.crc), origin=origin, send_offset=endpoint.sent)
        made.established = established
        made._is_initiator = endpoint.role == "initiator"
        port = _port(sock.getpeername() if made._is_initiator else sock.getsockname())
        made._upper = ConnectionUpper(established.request, established.reply, port)
        return made

    def send(self, x: Packet) -> int:
        """Send a complete packet, and return its octets.

        An ``FPDU`` gets what it leaves open: Markers where the stream has them, and a CRC. What it specifies is sent
        unchanged. So is a packet that is not an FPDU, with a warning: the peer will take its first octets for a length.
        So is an RDMAP message without a DDP header below it, also with a warning.
        """
        pkt = x.copy() if isinstance(x, FPDU) else x
        if not isinstance(pkt, FPDU):
            log_runtime.warning("MPASocket sends octets that are not an FPDU: the peer reads the first two as a length")
        if isinstance(pkt, FPDU):
            if self.send_markers and pkt.getfieldval("marker_offset") is None:
                pkt.marker_offset = -self.send_offset % MARKER_INTERVAL
                if "origin" not in pkt.fields:
                    pkt.origin = self.origin
            if (bare := without_ddp(pkt)) is not None:
                below = "DDPTagged" if isinstance(bare, (RDMAPWrite, RDMAPReadResponse)) else "DDPUntagged"
                log_runtime.warning(
                    "MPASocket sends an FPDU without a DDP header: the peer reads the octets of %s as one; "
                    "write FPDU()/%s()/%s()",
                    bare.name, below, type(bare).__name__,
                )  # fmt: skip
            if pkt.getfieldval("crc_in_use") is None:
                pkt.crc_in_use = self.crc
        octets = bytes(pkt)
        if isinstance(pkt, FPDU) and self._upper is not None:
            # What we say first may tell what the peer says then.
            self._upper.put(pkt, is_from_initiator=self._is_initiator)
        self.ins.sendall(octets)
        self.send_offset += len(octets)
        if isinstance(x, Packet):
            x.sent_time = time.time()
        return len(octets)

    def recv(self, x: int | None = None, **kwargs: Any) -> Packet | None:
        """Return the next FPDU; wait for one as long as the timeout of the socket allows.

        Raises EOFError when the connection is closed, and says so if that is inside an FPDU. An FPDU with a bad CRC is
        returned anyway, with a warning: its ``crc_good`` is False, and neither its length nor what follows can be
        trusted. When called by ``sniff`` or ``sr1``, it returns None rather than wait for the rest of an FPDU.
        """
        wait, self._selected = not self._selected, False
        while (missing := self._missing()) > 0:
            if not wait and not _is_readable(self.ins):
                return None
            octets = self.ins.recv(min(missing, _AT_ONCE))
            if not octets:
                raise EOFError(self._closed())
            self._received += octets
        marker_offset = -self.recv_offset % MARKER_INTERVAL if self.recv_markers else None
        pkt = fpdu_packet(bytes(self._received), marker_offset, self.crc, self.origin)
        pkt.time = time.time()
        if pkt.crc_good is False:
            log_runtime.warning("FPDU at stream offset %d: bad CRC (RFC 5044 §8, code 2)", self.recv_offset)
        elif self._upper is not None:
            self._upper.put(pkt, is_from_initiator=not self._is_initiator)
        self.recv_offset += len(self._received)
        self._received.clear()
        return pkt

    def _missing(self) -> int:
        """Return how many more octets the FPDU needs, as far as is known: the rest of it once its length is known."""
        have = self._received
        header = header_offset(self.recv_offset) - self.recv_offset if self.recv_markers else 0
        if len(have) < header + LENGTH_FIELD_LENGTH:
            return header + LENGTH_FIELD_LENGTH - len(have)
        ulpdu_length = int.from_bytes(have[header : header + LENGTH_FIELD_LENGTH], "big")
        total = wire_length(ulpdu_length, self.recv_offset) if self.recv_markers else plain_length(ulpdu_length)
        return total - len(have)

    def _closed(self) -> str:
        if self._received:
            return f"connection closed {len(self._received)} octets into an FPDU (RFC 5044 §8, code 1)"
        return "connection closed"

    @staticmethod
    def select(sockets: list[Any], remain: float | None = None) -> list[Any]:
        """Return which sockets have something to read, for ``sniff`` and ``sr1``."""
        ready = StreamSocket.select(sockets, remain)
        for sock in ready:
            if isinstance(sock, MPASocket):
                sock._selected = True
        return ready


def _port(address: Any) -> int:
    """The TCP port of an address; 0 if it has none."""
    return address[1] if isinstance(address, tuple) and len(address) > 1 else 0


def _upper_by_port(sock: socket.socket) -> tuple[ConnectionUpper | None, bool]:
    """The upper layer of a connected socket whose startup frames are not known, and whether we are the Initiator.

    The ports say both; where neither is that of an upper layer, nothing does.
    """
    for address, is_initiator in ((sock.getpeername, True), (sock.getsockname, False)):
        try:
            port = _port(address())
        except OSError:
            port = 0  # it is no longer connected
        if port in PORTS:
            return ConnectionUpper(None, None, port), is_initiator
    return None, True


def _is_readable(sock: socket.socket) -> bool:
    return bool(select.select([sock], [], [], 0)[0])
