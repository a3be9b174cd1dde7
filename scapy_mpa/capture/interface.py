"""Packets of a network interface, as the kernel hands them out (Linux, packet(7)).

In: the name of an interface. Out: the octets of a pcap file with times in nanoseconds, which the reader of pcap files
reads. What the kernel had no room for is counted. A VLAN tag that the kernel has taken off is left off.
"""

from __future__ import annotations

import errno
import os
import socket
import time
from collections.abc import Iterator
from struct import Struct
from typing import Final

from scapy_mpa.capture.ongoing import Origin, Polling
from scapy_mpa.capture.source import Octets
from scapy_mpa.errors import CaptureError
from scapy_mpa.system.names import printable

#: From the kernel's headers: if_ether.h, socket.h, if_packet.h, if_arp.h.
_ETH_P_ALL, _SO_TIMESTAMPNS, _SO_RCVBUFFORCE, _SOL_PACKET, _PACKET_STATISTICS = 3, 35, 33, 263, 6
_PACKET_OUTGOING: Final = 4
_ARPHRD_ETHER, _ARPHRD_LOOPBACK, _ARPHRD_NONE = 1, 772, 0xFFFE
#: Link types of pcap files by the kernel's: Ethernet, which the loopback interface has too, and raw IP.
_LINK_TYPES: Final = {_ARPHRD_ETHER: 1, _ARPHRD_LOOPBACK: 1, _ARPHRD_NONE: 101}
_NANOSECOND_MAGIC: Final = 0xA1B23C4D
_FILE_HEADER, _RECORD_HEADER = Struct("=IHHiIII"), Struct("=IIII")
_TIME, _STATISTICS = Struct("@qq"), Struct("@II")
_SECOND: Final = 1_000_000_000
#: Octets of the longest packet: what offloads segmentation hands out 64 KiB and headers, or more (BIG TCP).
_LONGEST: Final = 1 << 18
#: Octets that the kernel keeps for a reader that is late, if it may.
_ROOM: Final = 64 << 20
#: Octets that are handed on at a time.
_ENOUGH: Final = 1 << 18


class InterfaceOrigin(Origin):
    """An interface, read from now on; takes root, or the capability CAP_NET_RAW.

    Args:
        name: of the interface.
        polling: how more is waited for.

    Raises:
        CaptureError: There is no such interface, it is of a kind that is not read, or this user must not read it.
    """

    def __init__(self, name: str, polling: Polling) -> None:
        self.name = name
        self._polling = polling
        #: Packets that the kernel had no room for, and all of them.
        self._dropped = self._seen = 0
        #: When polling was over, in nanoseconds since the epoch.
        self._until = 0
        try:
            self._socket = _open(name)
        except OSError as error:
            raise CaptureError(f"interface {printable(name)}: {_why(error)}") from error
        hardware = self._socket.getsockname()[3]
        if hardware not in _LINK_TYPES:
            self._socket.close()
            raise CaptureError(f"interface {printable(name)}: hardware type {hardware} is not supported")
        self._is_loopback = hardware == _ARPHRD_LOOPBACK
        self._head = _FILE_HEADER.pack(_NANOSECOND_MAGIC, 2, 4, 0, 0, _LONGEST, _LINK_TYPES[hardware])
        self._ready = b""
        self._buffer = bytearray(_LONGEST)

    def parts(self) -> Iterator[tuple[str, Octets]]:
        """Yield the interface."""
        self._ready = self._head
        yield self.name, self

    def read(self, size: int, /) -> bytes:
        """Return up to this many octets, at least one; none at the end. Raises OSError."""
        while not self._ready:
            if self._polling.is_over:
                # What came before is still there; what comes now goes on for as long as there is traffic.
                self._until = self._until or time.time_ns()
                self._ready = b"".join(self._records())
                return self._ready_octets(size)
            if self._polling.pause(self._socket.fileno()):
                self._ready = b"".join(self._records())
                self._count()
        return self._ready_octets(size)

    def _ready_octets(self, size: int) -> bytes:
        octets, self._ready = self._ready[:size], self._ready[size:]
        return octets

    def seek(self, place: int, /) -> int:
        """Raises OSError: what was read is gone."""
        raise OSError("an interface can be read only once")

    def remarks(self) -> list[str]:
        """A line about the packets that the kernel had no room for, if there were any."""
        self._count()
        if not self._dropped:
            return []
        return [f"interface {printable(self.name)}: the kernel dropped {self._dropped} of {self._seen} packets"]

    def close(self) -> None:
        """Release the socket."""
        self._socket.close()

    def _records(self) -> Iterator[bytes]:
        """Yield the packets that are there, as records of a pcap file."""
        there, buffer = 0, self._buffer
        receive, view = self._socket.recvmsg_into, memoryview(buffer)
        while there < _ENOUGH:
            try:
                length, ancillary, _, address = receive([view], 64, socket.MSG_DONTWAIT | socket.MSG_TRUNC)
            except BlockingIOError:
                return
            # The loopback interface hands out each packet twice, as it goes and as it comes.
            if self._is_loopback and address[2] == _PACKET_OUTGOING:
                continue
            captured = min(length, _LONGEST)
            seconds, nanoseconds = _TIME.unpack_from(ancillary[0][2])
            if self._until and seconds * _SECOND + nanoseconds > self._until:
                return
            there += captured
            yield _RECORD_HEADER.pack(seconds & 0xFFFFFFFF, nanoseconds, captured, length)
            yield bytes(view[:captured])

    def _count(self) -> None:
        """Ask the kernel for its counters, which begin again then."""
        seen, dropped = _STATISTICS.unpack(self._socket.getsockopt(_SOL_PACKET, _PACKET_STATISTICS, _STATISTICS.size))
        self._seen += seen
        self._dropped += dropped


def _open(name: str) -> socket.socket:
    """A socket that takes all packets of an interface. Raises OSError."""
    if not hasattr(socket, "AF_PACKET"):
        raise OSError(errno.EAFNOSUPPORT, os.strerror(errno.EAFNOSUPPORT))
    # Nothing comes before it is bound: else packets of all interfaces would be among the first.
    found = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, 0)
    try:
        found.setsockopt(socket.SOL_SOCKET, _SO_TIMESTAMPNS, 1)
        try:
            found.setsockopt(socket.SOL_SOCKET, _SO_RCVBUFFORCE, _ROOM)
        except PermissionError:
            found.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, _ROOM)
        found.bind((name, _ETH_P_ALL))
    except BaseException:
        found.close()
        raise
    return found


def _why(error: OSError) -> str:
    """Return what is wrong, and what helps."""
    if error.errno == errno.EPERM:
        return "reading its packets needs root or the capability CAP_NET_RAW"
    if error.errno == errno.EAFNOSUPPORT:
        return "this works only on Linux; elsewhere use tcpdump -i IFACE -U -w - | scapy-mpa ... --follow -"
    if error.errno == errno.ENODEV:
        return "there is no interface with this name"
    return error.strerror or str(error)
