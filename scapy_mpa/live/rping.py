"""rping, of rdma-core: in each iteration the server reads from, and writes to, buffers that the client names.

The client sends a Send that names its source (TO, STag, size, big-endian), the server reads that and sends 16 octets of
zero, which mean "go on"; the client names its sink, the server writes there what it read and says "go on" again. After
the last iteration the client closes the connection. The server writes up to the first octet of zero, as rping does.
"""

from __future__ import annotations

from typing import Literal

from scapy_mpa.live.buffers import RegisteredBuffer
from scapy_mpa.live.rdmap import RDMAPEndpoint, RDMAPEvent, ReadCompleted, SendDelivered
from scapy_mpa.live.speaker import NOT_THE_SAME, UpperLayerError
from scapy_mpa.ulp.tools import rping_header, rping_message, rping_text
from scapy_mpa.values.words import plural

#: Octets of rping's buffers, if nothing else is said; and the most that our server reads at the wish of a client.
SIZE, MOST = 64, 1 << 20
#: Of our buffers, as rping's are addresses: never 0, which would mean "go on" with an STag of 0.
_TO = 0x1000


class RpingClient:
    """The side that begins: the Initiator.

    Args:
        rdmap: sends its messages.
        count: iterations; None: until somebody ends it.
        size: octets of an iteration.
        buffers: source and sink, of ``size`` octets each; made and registered, if not given.
    """

    def __init__(
        self,
        rdmap: RDMAPEndpoint,
        count: int | None = None,
        size: int = SIZE,
        buffers: tuple[RegisteredBuffer, RegisteredBuffer] | None = None,
    ) -> None:
        if not 1 <= size <= MOST:
            raise ValueError(f"rping moves 1 to {MOST} octets, not {size}")
        self._rdmap = rdmap
        self._count = count
        self._size = size
        self._source, self._sink = buffers or (
            rdmap.register(bytearray(size), to=_TO),
            rdmap.register(bytearray(size), to=_TO + size),
        )
        self._waits_for: Literal["read", "write", "nothing"] = "nothing"
        self.iterations = 0

    @property
    def is_done(self) -> bool:
        """All iterations were made."""
        return self._count is not None and self.iterations >= self._count

    @property
    def doubt(self) -> str:
        """Why a peer may fall silent, or close early."""
        return NOT_THE_SAME

    @property
    def summary(self) -> str:
        """What it did, in a phrase."""
        return f"rping: {plural(self.iterations, 'iteration')} of {plural(self._size, 'octet')}"

    def begin(self) -> None:
        """Name the source of the first iteration."""
        if not self.is_done:
            self._source.put(self._source.to, rping_text(self.iterations, self._size))
            self._name(self._source)
            self._waits_for = "read"

    def take(self, event: RDMAPEvent) -> None:
        """Go on when the server says so."""
        if not isinstance(event, SendDelivered):
            return
        if len(event.payload) != len(rping_message()):
            raise UpperLayerError(
                f"rping: a message of {len(event.payload)} octets, not {len(rping_message())}{NOT_THE_SAME}"
            )
        if self._waits_for == "read":
            self._name(self._sink)
            self._waits_for = "write"
        elif self._waits_for == "write":
            self._compare()
            self.iterations += 1
            self._waits_for = "nothing"
            self.begin()
        else:
            raise UpperLayerError("rping: the server sent a message before the client had named a buffer")

    def go_on(self, _now: float) -> float | None:
        """Do nothing: it sends only after an answer."""
        return None

    def _name(self, buffer: RegisteredBuffer) -> None:
        self._rdmap.send(rping_message(buffer.stag, buffer.to, self._size))

    def _compare(self) -> None:
        """Check that what was written is what was read, up to the first zero octet."""
        source, sink = bytes(self._source.octets), bytes(self._sink.octets)
        written = source.index(0) + 1
        if source[:written] != sink[:written]:
            first = next(at for at in range(written) if source[at] != sink[at])
            raise UpperLayerError(
                f"rping: iteration {self.iterations}: octet {first} came back as {sink[first]:#04x}, "
                f"not {source[first]:#04x}"
            )
        self._sink.put(self._sink.to, bytes(self._size))


class RpingServer:
    """The side that reads and writes: the Responder.

    Args:
        rdmap: sends its messages.
        most: octets of the largest buffer that it reads.
        buffer: where it reads to; another one is registered for a client that moves more or fewer octets.
    """

    def __init__(self, rdmap: RDMAPEndpoint, most: int = MOST, buffer: RegisteredBuffer | None = None) -> None:
        self._rdmap = rdmap
        self._most = most
        self._buffer = buffer or rdmap.register(bytearray(SIZE), to=_TO)
        self._waits_for: Literal["source", "octets", "sink"] = "source"
        self.iterations = 0

    @property
    def is_done(self) -> bool:
        """Never: the client ends it."""
        return False

    @property
    def doubt(self) -> str:
        """Why a peer may fall silent, or close early."""
        return NOT_THE_SAME

    @property
    def summary(self) -> str:
        """What it did, in a phrase."""
        return f"rping: {plural(self.iterations, 'iteration')} as the server"

    def begin(self) -> None:
        """The client speaks first."""

    def take(self, event: RDMAPEvent) -> None:
        """Read what the client names, then write it where the client says."""
        if isinstance(event, ReadCompleted) and self._waits_for == "octets":
            self._waits_for = "sink"
            self._rdmap.send(rping_message())
        elif isinstance(event, SendDelivered):
            self._take_buffer(event.payload)

    def go_on(self, _now: float) -> float | None:
        """Do nothing: it sends only in reply."""
        return None

    def _take_buffer(self, payload: bytes) -> None:
        if not payload:
            return  # the ready-to-receive message (RFC 6581 §9.2)
        header = rping_header(payload, len(payload))
        if header is None or not header.named:
            raise UpperLayerError(f"rping: {len(payload)} octets, which name no buffer{NOT_THE_SAME}")
        (named,) = header.named
        if not 0 < named.length <= self._most:
            raise UpperLayerError(f"rping: a buffer of {named.length} octets; only 1 to {self._most} are accepted")
        if self._waits_for == "source":
            if len(self._buffer.octets) != named.length:
                self._rdmap.deregister(self._buffer.stag)
                self._buffer = self._rdmap.register(bytearray(named.length), to=_TO)
            self._waits_for = "octets"
            self._rdmap.read(self._buffer, named.length, named.stag, named.to)
        elif self._waits_for == "sink":
            octets = bytes(self._buffer.octets)
            text, _, _ = octets.partition(b"\0")
            self._rdmap.write(named.stag, named.to, octets[: len(text) + 1][: named.length])
            self._rdmap.send(rping_message())
            self.iterations += 1
            self._waits_for = "source"
        else:
            raise UpperLayerError("rping: the client names a buffer while its source is still being read")
