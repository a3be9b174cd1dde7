"""Messages of the iWARP port mapper (iwpmd of rdma-core): the TCP port at which a service really listens.

Hosts ask each other over UDP port 3935. A request names the service's address and port, the answer the mapped ones; a
handle tells which request it answers. Both have: IP version and kind, a time, a port, the ports of the accepting and
the connecting side, a handle, and the addresses of both in 16 octets each.
"""

from __future__ import annotations

from struct import Struct
from typing import Final

PORT: Final = 3935
_MESSAGE: Final = Struct(">BBHHHQ16s16s")
_KIND, _KIND_SHIFT, _VERSION = 0x30, 4, 0x0F
_REQUEST, _ACCEPT = 0, 1
_ADDRESS_LENGTHS: Final = {4: 4, 6: 16}
#: Requests, and mapped ports, that are remembered.
_MOST: Final = 4096


class PortMappings:
    """The ports of services.

    Attributes:
        services: the port of the service by the address (its octets) and TCP port at which it really listens.
    """

    def __init__(self) -> None:
        self.services: dict[tuple[bytes, int], int] = {}
        self._asked: dict[int, int] = {}

    def take(self, octets: memoryview) -> None:
        """Take the payload of a UDP datagram."""
        if len(octets) < _MESSAGE.size:
            return
        magic, _, _, port, _, handle, _, address = _MESSAGE.unpack_from(octets)
        kind, length = (magic & _KIND) >> _KIND_SHIFT, _ADDRESS_LENGTHS.get(magic & _VERSION)
        if kind == _REQUEST and len(self._asked) < _MOST:
            self._asked[handle] = port
        elif kind == _ACCEPT and length is not None and len(self.services) < _MOST:
            service = self._asked.pop(handle, None)
            if service is not None:
                self.services[address[:length], port] = service
