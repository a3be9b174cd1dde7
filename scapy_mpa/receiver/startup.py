"""Startup frames in what a direction sends: found in octets that come in any order (RFC 5044 §7.1.1).

Besides those that are whole and right, there are the part of one of which no more came, octets that were meant for one,
and one whose PD_Length does not count its Private Data: what follows it shows whether its receiver accepted it.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Final

from scapy_mpa.framing.sequence import SEQ_MASK
from scapy_mpa.framing.startup import (
    KEY_LENGTH,
    KEY_PREFIX,
    REPLY_KEY,
    REQUEST_KEY,
    SHORT,
    STARTUP_HEADER_LENGTH,
    Kind,
    StartupFrame,
    decode_startup_frame,
    extension_length,
)
from scapy_mpa.stream.connection import TCPHalf
from scapy_mpa.stream.drop_reason import LARGEST_WINDOW, DropReason
from scapy_mpa.stream.peer_state import NEVER
from scapy_mpa.tuples import NamedTuple
from scapy_mpa.values.startup import PartOfFrame

#: Places at which a startup frame may begin that are remembered: a bound of memory.
MOST_CANDIDATES: Final = 64
#: In the midst of other octets only what no receiver would refuse begins a startup frame: Rev (RFC 6581 §9).
LARGEST_REV: Final = 2
#: The same for PD_Length (RFC 5044 §7.1.1).
LARGEST_PD_LENGTH: Final = 512
#: Octets of a Key that may be wrong where one was meant: by chance no more than one header in 2^80 begins like that.
MOST_WRONG: Final = 4
#: A larger octet where Rev should be is text (a tab, a line feed) rather than a revision of MPA.
LARGEST_MEANT_REV: Final = 8
#: Octets of a Key with which a connection begins that show a startup frame: by chance one connection in 2^64 begins so,
#: which is what inference asks for, too (:data:`~scapy_mpa.infer.inference.CONNECTION_BITS`).
FEWEST_AT_FIRST: Final = 8
_REV_AT: Final = KEY_LENGTH + 1


class FoundFrame:
    """A startup frame: its fields, the offsets [start, end) of its octets, the moment at which it was complete.

    ``seq`` is the sequence number of its first octet, ``end_seq`` that after its last one; ``ack`` the acknowledgement
    number of the segment that completed it, None without one; ``under_way`` how many octets before it its peer had not
    acknowledged by then.  ``key`` are the octets in place of its Key, empty if that is right.  ``is_damaged``: a
    segment that brought some of it has a wrong TCP checksum, for which its receiver drops it.
    """

    __slots__ = ("ack", "end", "end_seq", "frame", "is_damaged", "key", "seq", "start", "startup", "time", "under_way")

    def __init__(
        self,
        startup: StartupFrame,
        start: int,
        end: int,
        frame: int,
        time: int,
        seq: int = 0,
        ack: int | None = None,
        under_way: int = 0,
        key: bytes = b"",
        is_damaged: bool = False,
    ) -> None:
        self.startup = startup
        self.start = start
        self.end = end
        self.frame = frame
        self.time = time
        self.seq = seq
        self.end_seq = (seq + end - start) & SEQ_MASK
        self.ack = ack
        self.under_way = under_way
        self.key = key
        self.is_damaged = is_damaged

    @property
    def counted_end(self) -> int:
        """The offset at which it ends by its PD_Length."""
        return self.start + STARTUP_HEADER_LENGTH + len(self.startup.extension) + self.startup.pd_length

    def shifted(self, origin: int) -> FoundFrame:
        """Return it with offsets counted from what is now ``origin``."""
        where = self.start - origin, self.end - origin, self.frame, self.time, self.seq
        return FoundFrame(self.startup, *where, self.ack, self.under_way, self.key, self.is_damaged)


class OtherOctets(NamedTuple):
    """Octets in place of a startup frame: the first KEY_LENGTH of them, the offset and moment of the first."""

    offset: int
    frame: int
    time: int
    beginning: bytes

    def shifted(self, origin: int) -> OtherOctets:
        """Return it with offsets counted from what is now ``origin``."""
        return self._replace(offset=self.offset - origin)


class KeySearch:
    """Looks for the startup frame of one direction.

    Args:
        half: its octets.
        begin: the offset before which none begins, None if that is the first octet after the SYN.

    Attributes:
        candidates: the offsets at which a Key begins whose frame is not complete, and of each where the contiguous
            octets end that hold it.
    """

    __slots__ = ("_begin", "_edge", "candidates", "half")

    def __init__(self, half: TCPHalf, begin: int | None = None) -> None:
        self.half = half
        self._begin = begin
        self.candidates: dict[int, int] = {}
        #: Where the octets end that follow the SYN, as far as was looked at.
        self._edge = -NEVER

    @property
    def begin(self) -> int | None:
        """The offset before which no startup frame begins, None if it is not known."""
        return self.half.start if self._begin is None else self._begin

    def receive(self, start: int, end: int, is_over: bool = False) -> FoundFrame | None:
        """Look whether the octets [start, end), held just now, complete a startup frame.

        Where the SYN was captured, all octets between it and the frame must have been, unless nothing more comes.
        """
        copies, begin = self.half.copies, self.begin
        if copies.next_start(start) != start:
            return None
        if begin is not None and start < begin + STARTUP_HEADER_LENGTH:
            self._choose_frame(begin)
        reach = len(KEY_PREFIX) - 1
        low = max(copies.run_start(start, start - reach), start - reach, -NEVER if begin is None else begin)
        high = min(copies.edge(start, end + reach), end + reach)
        high = copies.captured_end(low, high) if low < high else low
        if low < high:
            octets = copies.copied(low, high)
            index = octets.find(KEY_PREFIX)
            while index >= 0:
                key = octets[index : index + KEY_LENGTH]
                is_key = REQUEST_KEY.startswith(key) or REPLY_KEY.startswith(key)
                if is_key and len(self.candidates) < MOST_CANDIDATES:
                    self.candidates.setdefault(low + index, low + index)
                index = octets.find(KEY_PREFIX, index + 1)
        covered = -NEVER
        for offset in sorted(self.candidates):
            # What stands in a startup frame begins none.
            found = self._frame_at(offset, is_over) if offset >= covered else None
            if found is not None:
                return found
            header = self.header_at(offset) if offset in self.candidates and offset >= covered else None
            if header is not None:
                covered = offset + _counted_length(header)
        return None

    def _choose_frame(self, offset: int) -> None:
        """Of copies of a header at an offset that compete, choose what its receiver would not refuse.

        As the CRC does for an FPDU, the Key tells which copy was accepted (RFC 5044 §7.1.1).
        """
        copies, end = self.half.copies, offset + STARTUP_HEADER_LENGTH
        if copies.has_rivals(offset, end) and not self._valid_end(offset):
            copies.make_valid(offset, end, lambda: self._valid_end(offset))

    def _valid_end(self, offset: int) -> int:
        """Return where the header of a startup frame at an offset ends, 0 if its receiver would refuse it."""
        header = self.header_at(offset)
        if header is None or header[:KEY_LENGTH] not in (REQUEST_KEY, REPLY_KEY) or _is_refused(header):
            return 0
        return offset + STARTUP_HEADER_LENGTH

    def _frame_at(self, offset: int, is_over: bool) -> FoundFrame | None:
        copies, begin = self.half.copies, self.begin
        if copies.next_start(offset) != offset:
            del self.candidates[offset]  # a limit let go of it
            return None
        edge = copies.edge(self.candidates[offset], offset + STARTUP_HEADER_LENGTH)
        if begin is not None:
            self._edge = copies.edge(max(self._edge, begin, self.half.needed), offset)
            if offset < begin or (offset > self._edge and not is_over):
                return None
        header = self.header_at(offset)
        if header is not None:
            key = header[:KEY_LENGTH]
        else:
            stop = min(edge, offset + KEY_LENGTH)
            key = copies.copied(offset, stop) if copies.is_captured(offset, stop) else b""
        if not (REQUEST_KEY.startswith(key) or REPLY_KEY.startswith(key)):
            del self.candidates[offset]
            return None
        if header is None:
            return None
        if copies.run_start(offset, offset - 1) != offset and (begin is None or offset != begin):
            begins_piece = offset in copies.segment_starts(offset, offset + 1, 1)
            if _is_refused(header) or (begin is None and not begins_piece):
                del self.candidates[offset]
                return None
        end = offset + _counted_length(header)
        edge = self.candidates[offset] = copies.edge(edge, end)
        if end > edge:
            return None
        if begin is not None and offset > self._edge and copies.weakest_reason(offset, end) != DropReason.NONE:
            return None  # beyond a hole it is a late duplicate rather than a startup frame
        copies.settle(offset, end)
        captured = copies.captured_end(offset, end)
        startup = _with_private_data(header, self._private_data(offset, captured))
        return self._found(startup if captured == end else startup._replace(cut=end - captured), offset, end)

    def frame_again(self, found: FoundFrame) -> FoundFrame | None:
        """Return the startup frame that begins where one was found, of the copies chosen now; None if there is none."""
        return self._frame_at(found.start, is_over=True) if found.start in self.candidates else None

    def header_at(self, offset: int) -> bytes | None:
        """Return the octets of a header at an offset, None if not all of them were captured."""
        copies, end = self.half.copies, offset + STARTUP_HEADER_LENGTH
        if copies.next_start(offset) != offset or copies.edge(offset, end) < end or not copies.is_captured(offset, end):
            return None
        return copies.copied(offset, end)

    def cut_header(self) -> OtherOctets | None:
        """Return what is left of a header that a snapshot length cut, None if there is none."""
        copies = self.half.copies
        for offset in sorted(self.candidates):
            if copies.next_start(offset) != offset:
                continue
            edge = copies.edge(offset, offset + STARTUP_HEADER_LENGTH)
            captured = copies.captured_end(offset, edge)
            if captured < edge:
                return OtherOctets(offset, *copies.moment_at(offset), bytes(copies.octets(offset, captured)))
        return None

    def _found(self, startup: StartupFrame, offset: int, end: int, key: bytes = b"") -> FoundFrame:
        _, frame, time = self.half.copies.frames(offset, end)
        seq, is_damaged = self.half.space.seq_of(offset), self.half.is_damaged(offset, end)
        return FoundFrame(startup, offset, end, frame, time, seq, None, 0, key, is_damaged)

    # --- frames that are wrong ---

    def frame_that_ends_at(self, end: int) -> FoundFrame | None:
        """Return the startup frame whose receiver took it for whole at an offset, whatever its PD_Length counts."""
        copies = self.half.copies
        for offset in sorted(self.candidates):
            header = self.header_at(offset)
            if header is None or not offset + STARTUP_HEADER_LENGTH <= end <= copies.edge(offset, end):
                continue
            if header[:KEY_LENGTH] in (REQUEST_KEY, REPLY_KEY) and copies.is_captured(offset, end):
                return self._found(_with_private_data(header, self._private_data(offset, end)), offset, end)
        return None

    def frame_with_garbled_key(self, offset: int, kind: Kind) -> FoundFrame | None:
        """Return the startup frame at an offset that has nearly the Key of its kind, None if there is none."""
        header = self.header_at(offset)
        if header is None or not is_garbled_key(header, kind):
            return None
        end = offset + _counted_length(header)
        if self.half.copies.edge(offset, end) < end or not self.half.copies.is_captured(offset, end):
            return None
        key = REQUEST_KEY if kind == "request" else REPLY_KEY
        startup = _with_private_data(key + header[KEY_LENGTH:], self._private_data(offset, end))
        return self._found(startup, offset, end, header[:KEY_LENGTH])

    def _private_data(self, offset: int, end: int) -> bytes:
        first = offset + STARTUP_HEADER_LENGTH
        return self.half.copies.copied(first, end) if first < end else b""

    def part(self, due: int | None) -> PartOfFrame | None:
        """Return the startup frame of which a part was sent, and that last, None if octets are missing after it.

        ``due`` is the offset at which a Reply must begin: nothing else can come there, so any part of one is enough.
        At the first octet after the SYN it takes FEWEST_AT_FIRST; after other data, which may be text about MPA, the
        header as far as Rev, whose value no text has.
        """
        half, copies = self.half, self.half.copies
        if not len(copies):
            return None
        last, fin = copies.end, half.fin_captured
        sent = [one.offset for one in half.resets if one.place != "outside"] + ([fin[0]] if fin is not None else [])
        if half.peer.last_ack_sent is not None and fin is None:
            sent.append(half.peer.last_ack_sent)
        if any(0 < offset - last < LARGEST_WINDOW for offset in sent):
            return None
        first = copies.run_start(last - 1)
        for offset in (*sorted(self.candidates), last - self._tail(last)):
            if not first <= offset < last or not copies.is_captured(offset, last):
                continue
            octets = bytes(copies.octets(offset, last))
            is_meant = len(octets) > _REV_AT and octets[_REV_AT] <= LARGEST_MEANT_REV
            if offset == half.start:
                is_meant = len(octets) >= FEWEST_AT_FIRST
            if offset == due or is_meant:
                moment = copies.frames(offset, last)[1:]
                return PartOfFrame(octets, half.space.seq_of(offset), *moment, half.is_damaged(offset, last))
        return None

    # --- what is needed no more ---

    def needed_from(self, end: int) -> int:
        """Return the offset from which octets may still belong to a startup frame, of those that end at ``end``."""
        return min(end - self._tail(end), min(self.candidates, default=end))

    def _tail(self, end: int) -> int:
        """Return how many octets before ``end``, at which held octets end, may be the beginning of a Key."""
        copies = self.half.copies
        low = max(copies.run_start(end - 1, end - len(KEY_PREFIX)), end - len(KEY_PREFIX))
        return beginning_of_key(bytes(copies.octets(low, end))) if copies.is_captured(low, end) else 0


def _with_private_data(header: bytes, private_data: bytes) -> StartupFrame:
    """Return the startup frame of a header with as many octets of Private Data as were sent."""
    return (_decoded if len(private_data) <= SHORT else _decoded.__wrapped__)(header, private_data)


# Those of a thousand connections mostly say the same.
@lru_cache(maxsize=256)
def _decoded(header: bytes, private_data: bytes) -> StartupFrame:
    startup = decode_startup_frame(header[: STARTUP_HEADER_LENGTH - 2] + bytes(2))
    assert startup is not None
    size = extension_length(startup.rev)
    pd_length, extension = int.from_bytes(header[18:20], "big"), private_data[:size]
    return startup._replace(pd_length=pd_length, private_data=private_data[size:], extension=extension)


def _counted_length(header: bytes) -> int:
    """Return how many octets a startup frame has by its header."""
    return STARTUP_HEADER_LENGTH + extension_length(header[17]) + (header[18] << 8 | header[19])


def _is_refused(header: bytes) -> bool:
    """Return True if Rev or PD_Length of a header are such that its receiver refuses it (RFC 5044 §7.1.1)."""
    rev, pd_length = header[17], int.from_bytes(header[18:20], "big")
    return rev > LARGEST_REV or (rev > 0 and pd_length > LARGEST_PD_LENGTH)


def beginning_of_key(octets: bytes) -> int:
    """Return how many octets at the end of ``octets`` may be the beginning of a Key."""
    lengths = range(min(len(KEY_PREFIX) - 1, len(octets)), 0, -1)
    return next((length for length in lengths if octets.endswith(KEY_PREFIX[:length])), 0)


def is_garbled_key(header: bytes, kind: Kind | None = None) -> bool:
    """Return True if a header begins with what was meant for a Key and is none: but for a few octets, or for case."""
    key = header[:KEY_LENGTH]
    if len(header) < STARTUP_HEADER_LENGTH or header[_REV_AT] > LARGEST_MEANT_REV or key in (REQUEST_KEY, REPLY_KEY):
        return False
    meant = {"request": (REQUEST_KEY,), "reply": (REPLY_KEY,), None: (REQUEST_KEY, REPLY_KEY)}[kind]
    return any(
        key.lower() == right.lower() or sum(a != b for a, b in zip(key, right, strict=True)) <= MOST_WRONG
        for right in meant
    )
