"""Octets without packets: what each side of one TCP connection sent, in files of their own.

In: raw octets, as a driver logs them or ``tcpflow`` writes them. Out: segments of one connection that nobody captured,
so that all that reads captures reads these too. Octet 0 of a file has sequence number 0. Blocks of the files stand for
frames: first the startup frame of each file, if it begins with one, then blocks of 64 KiB of both files in turn. Who
sent what first is not known, nor are addresses, times, segments and how the connection ended; the rules that need these
are :data:`~scapy_mpa.rules.octets.NEED_PACKETS`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, BinaryIO, Final

from scapy_mpa.capture.named import CaptureSource, Sources
from scapy_mpa.capture.pcap import MAGIC_NUMBERS
from scapy_mpa.capture.pcapng import PCAPNG_MAGIC
from scapy_mpa.capture.reader import Reader
from scapy_mpa.capture.source import MAGIC_LENGTH, read_exactly
from scapy_mpa.errors import CaptureError
from scapy_mpa.framing.role import Role
from scapy_mpa.framing.sequence import SEQ_MASK
from scapy_mpa.framing.startup import KEY_LENGTH, REPLY_KEY, REQUEST_KEY, STARTUP_HEADER_LENGTH
from scapy_mpa.values.segment import ACK_FLAG, STREAM_KEYS, Segment, reverse_key

if TYPE_CHECKING:
    from scapy_mpa.capture.fragments import Fragments
    from scapy_mpa.capture.source import Octets

#: Octets of a block.
STREAM_BLOCK: Final = 1 << 16


class Streams(Sources):
    """The octets of one connection, instead of captures; one side is enough.

    Args:
        initiator: the octets that the Initiator sent: a path, ``-`` for standard input, or an open file.
        responder: the same for the Responder.

    Raises:
        CaptureError: neither is named, or both are standard input.
    """

    def __init__(self, initiator: CaptureSource | None = None, responder: CaptureSource | None = None) -> None:
        given: dict[Role, CaptureSource | None] = {"initiator": initiator, "responder": responder}
        named = {direction: source for direction, source in given.items() if source is not None}
        if not named:
            raise CaptureError("no stream is given: use initiator=FILE, responder=FILE or both")
        if [*named.values()] == ["-", "-"]:
            raise CaptureError("standard input can be the stream of only one side")
        super().__init__(named.values())
        self.directions: tuple[Role, ...] = tuple(named)

    def reader(self, index: int, file: BinaryIO | Octets, name: str, fragments: Fragments) -> StreamReader:
        """Return what reads the octets of one side; raises OSError, and CaptureError if there are none."""
        return StreamReader(file, name, fragments, self.directions[index])

    def as_dict(self, names: Sequence[str]) -> dict[str, str | None]:
        """The names of the files by who sent the octets in them, None where they are not given."""
        given = dict(zip(self.directions, names, strict=True))
        return {"initiator": given.get("initiator"), "responder": given.get("responder")}

    @property
    def joined(self) -> None:
        """None: these are not captures that are combined."""
        return


def answered(batches: Iterable[list[Segment]]) -> Iterator[list[Segment]]:
    """Yield blocks with acknowledgements: nothing of a file comes again, so none of it is waited for."""
    reach = dict.fromkeys(STREAM_KEYS.values(), 0)
    for batch in batches:
        found: list[Segment] = []
        for seg in batch:
            key, peer = seg.key, reverse_key(seg.key)
            found.append(seg.replace(ack=reach[peer]))
            reach[key] = seg.seq + seg.length & SEQ_MASK
            found.append(seg.replace(key=peer, seq=reach[peer], ack=reach[key], start=seg.end, length=0))
        yield found


class StreamReader(Reader):
    """Reads the octets of one side. Where segments are to be merged, their times are their turns; else these are 0.

    Args:
        octets: the file.
        name: what it is called.
        fragments: as any reader has them; there are none.
        direction: whose octets they are.
    """

    unit = "block"

    def __init__(self, octets: BinaryIO | Octets, name: str, fragments: Fragments, direction: Role) -> None:
        super().__init__(octets, name, fragments)
        self._key = STREAM_KEYS[direction]
        self._head = read_exactly(octets, STARTUP_HEADER_LENGTH)
        #: True if the octets begin with a startup frame.
        self.is_from_start = self._head[:KEY_LENGTH] in (REQUEST_KEY, REPLY_KEY)
        if not self._head:
            raise CaptureError(f"{name}: the file is empty")
        if self._head[:MAGIC_LENGTH] in (*MAGIC_NUMBERS, PCAPNG_MAGIC):
            raise CaptureError(f"{name}: this is a capture, not the octets of a stream; give it without --stream")

    def batches(self, every_record: bool = False) -> Iterator[list[Segment]]:
        """Yield each block as a segment, in a list of its own."""
        for turn, (place, octets) in enumerate(self._pieces()):
            self.frames += 1
            yield [self._segment(self.frames, turn if every_record else 0, place, octets)]

    def positions(self) -> Iterator[tuple[int, int]]:
        """Yield (turn, place in the file) of each block, as far as the file can be read."""
        try:
            for turn, (place, _) in enumerate(self._pieces()):
                yield turn, place
        except OSError:
            return

    def segment_at(self, position: int) -> Segment | None:
        """The block at a place in the file. Raises as that of any reader does."""
        return self._segment(0, 0, position, self.record_at(position))

    def _segment(self, frame: int, turn: int, place: int, octets: bytes) -> Segment:
        size = len(octets)
        seq = place & SEQ_MASK
        return Segment(frame, turn, self._key, seq, 0, ACK_FLAG, memoryview(octets), 0, size, -1, size)

    def _pieces(self) -> Iterator[tuple[int, bytes]]:
        """Yield place and octets of each block."""
        place, head = 0, self._head
        octets = head + read_exactly(self._octets, self._first - len(head))
        while octets:
            yield place, octets
            place += len(octets)
            octets = read_exactly(self._octets, STREAM_BLOCK)

    @property
    def _first(self) -> int:
        """Octets of the first block: a startup frame has one of its own, for no FPDU comes before that of the peer."""
        head = self._head
        if len(head) == STARTUP_HEADER_LENGTH and self.is_from_start:
            return STARTUP_HEADER_LENGTH + int.from_bytes(head[-2:], "big")
        return STREAM_BLOCK

    def _raw_at(self, position: int) -> bytes:
        octets = read_exactly(self._octets, STREAM_BLOCK if position else self._first)
        if not octets:
            raise ValueError("the file ends before")
        return octets

    def _record_in(self, octets: memoryview, at: int, position: int) -> tuple[int, int, bytes, int]:
        raise NotImplementedError("a stream has no records")

    def _record_at(self, position: int) -> tuple[int, int, bytes, int]:
        octets = self._raw_at(position)
        return 0, 0, octets, len(octets)

    def _records(self, octets: memoryview, batch: list[Segment], every_record: bool) -> int:
        raise NotImplementedError("a stream has no records")

    def _places(self, octets: memoryview, place: int, found: list[tuple[int, int]]) -> int:
        raise NotImplementedError("a stream has no records")
