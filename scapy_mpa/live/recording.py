"""A live session as a capture, without privileges: what was written and read, as packets with their times.

No packet is seen: TCP's headers are made up, as ``craft`` makes them. What was written in one piece is one segment, if
it fits, what was read is cut as it was read. SYN, FIN and RST, acknowledgements and all numbers are made up; a comment
says so on the packets that carry no octets.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import BinaryIO, Literal

from scapy_mpa.craft.packets import Endpoint
from scapy_mpa.craft.pcapfile import Packet, PcapWriter
from scapy_mpa.craft.pcapngfile import PcapngWriter
from scapy_mpa.craft.talk import Side, Talk, between, frames
from scapy_mpa.craft.tcppacket import TcpPacket
from scapy_mpa.errors import MPAError

#: Octets of IPv4 or IPv6, TCP and timestamps; and of the largest IP packet: with Ethernet's header it is as long as
#: the longest frame that Scapy reads.
_HEADERS_V4, _HEADERS_V6, _LARGEST = 20 + 20 + 12, 40 + 20 + 12, 65535 - 14
_LEAST_MSS = 88
_MADE_UP = "synthetic packet: scapy-mpa recorded what a socket sent and received"
_MACS = {"client": b"\x02\0\0\0\0\x01", "server": b"\x02\0\0\0\0\x02"}
_MASK = 0xFFFFFFFF
#: The sequence numbers of one connection lie this far from those of the next one.
_ISN_STEP = 0x9E3779B1


class Recording:
    """A capture of a session, written packet by packet.

    Args:
        file: a binary file that the caller opened; None: frames are counted and not written.
        is_classic: write classic pcap with nanoseconds, in which no comment says what is made up; else pcapng.
    """

    def __init__(self, file: BinaryIO | None = None, *, is_classic: bool = False) -> None:
        self._append: Callable[[Packet, str], object] | None = None
        if file is not None and is_classic:
            classic = PcapWriter(file, nanoseconds=True)
            self._append = lambda packet, _comment: classic.write((packet,))
        elif file is not None:
            writer = PcapngWriter(file)
            self._append = lambda packet, comment: writer.write((packet,), comment=comment)
        self._file = file
        #: Packets so far; the number of the last one, from 1.
        self.frames = 0
        self._connections = 0

    @property
    def is_written(self) -> bool:
        """True if there is a file."""
        return self._file is not None

    def write(self, packets: Iterator[Packet]) -> int:
        """Append packets; returns the number of the last that carries octets, of the last one if none does."""
        last = 0
        for packet in packets:
            self.frames += 1
            has_octets = _has_octets(packet[1])
            if has_octets or not last:
                last = self.frames
            if self._append is not None:
                self._append(packet, "" if has_octets else _MADE_UP)
        return last

    def passed(self, packet: Packet) -> int:
        """Append a packet that was seen on its way; returns its number."""
        self.frames += 1
        if self._append is not None:
            self._append(packet, "")
        return self.frames

    def count(self) -> int:
        """A packet that is not written."""
        self.frames += 1
        return self.frames

    def connection(self, client: tuple[str, int], server: tuple[str, int], mss: int) -> RecordedConnection:
        """A TCP connection between two addresses with their ports, whose segments take ``mss`` octets."""
        self._connections += 1
        return RecordedConnection(self, client, server, mss, self._connections)

    def flush(self) -> None:
        """Have what was written in the file."""
        if self._file is not None:
            self._file.flush()


def _has_octets(frame: bytes) -> bool:
    """Return True if a TCP segment of ours carries any."""
    at = 14 + (40 if frame[12:14] == b"\x86\xdd" else 20)
    return len(frame) > at + (frame[at + 12] >> 4) * 4


class RecordedConnection:
    """One connection of a recording; times are seconds since the epoch, and frame numbers are returned."""

    def __init__(
        self, recording: Recording, client: tuple[str, int], server: tuple[str, int], mss: int, number: int
    ) -> None:
        self._recording = recording
        self._time = 0
        self._talk: Talk | None = None
        if not recording.is_written:
            return
        try:
            ends = [
                Endpoint(address.partition("%")[0], port, _MACS[side])
                for side, (address, port) in (("client", client), ("server", server))
            ]
            self._talk = between(
                ends[0],
                ends[1],
                self._clock(),
                isns=(number * _ISN_STEP & _MASK, number * _ISN_STEP + (_MASK >> 1) & _MASK),
                mtu=min(_LARGEST, max(mss, _LEAST_MSS) + (_HEADERS_V6 if ":" in client[0] else _HEADERS_V4)),
            )
        except ValueError as error:
            raise MPAError(f"a connection between {client[0]} and {server[0]} cannot be recorded: {error}") from None

    def open(self, time: float) -> None:
        """The handshake."""
        self._write(time, self._talk.open() if self._talk is not None else None)

    def data(self, side: Side, octets: bytes, time: float) -> int:
        """Octets that a side sent; returns the frame of the last one."""
        if self._talk is None:
            return self._recording.count()
        room = self._talk.emss
        cuts = [(first, min(first + room, len(octets))) for first in range(0, len(octets), room)]
        return self._write(time, self._talk.transfer(side, octets, cuts))

    def close(self, side: Side, how: Literal["fin", "rst"], time: float) -> int:
        """A side ends its half connection, or resets the whole."""
        if self._talk is None:
            return self._recording.count()
        return self._write(time, self._talk.finish(side) if how == "fin" else self._talk.reset(side))

    def _write(self, time: float, packets: Iterator[TcpPacket] | None) -> int:
        # Times never go back, whatever the clock of the host does.
        self._time = max(self._time, round(time * 1e9))
        return self._recording.write(frames(packets)) if packets is not None else self._recording.count()

    def _clock(self) -> Iterator[int]:
        while True:
            yield self._time
            self._time += 1000
