"""What of FPDUs in order is shown to the watches: only what is not as it has to be next.

An RDMA Write of one segment, or the next segment of one, with PAD of zero and no longer than those before it, breaks no
rule: the paths of FPDUs in order see that by what ``expects`` tells them.  Nor does the first or the last segment of
one, or a whole Send, that is as it has to be (:meth:`~scapy_mpa.receive.watch.ddp.DDPWatch.glance`).  Whatever else
comes is looked into by :class:`~scapy_mpa.receive.watch.ddp.DDPWatch` and its like.
"""

from __future__ import annotations

from struct import Struct

from scapy_mpa.framing.ddp import TAGGED_HEADER_LENGTH, UNTAGGED_HEADER_LENGTH
from scapy_mpa.framing.markers import MARKER_INTERVAL, MARKER_LENGTH, Octets, remove_markers
from scapy_mpa.framing.mulpdu import MIN_MULPDU
from scapy_mpa.receive.half import Moment
from scapy_mpa.receive.operation import FullOperation
from scapy_mpa.receive.reader import Extent
from scapy_mpa.receive.shapes import PAD_BITS
from scapy_mpa.receive.watch.ddp import WATCHED_OCTETS
from scapy_mpa.receive.watch.fpdu import pad_detail

#: ULPDU_Length and the control octets; STag and TO behind these; all that is before TO, and TO; four octets, such as
#: those before the CRC, or a Marker.
head = Struct(">HH").unpack_from
place = Struct(">IQ").unpack_from
begins_alike = Struct(">QQ").unpack_from
word = Struct(">I").unpack_from
#: These bits where there is none.
NO_PAD = 2
#: Octets of ULPDU_Length and a tagged header.
HEAD_OCTETS = 2 + TAGGED_HEADER_LENGTH
#: Octets of ULPDU_Length and an untagged header.
UNTAGGED_HEAD_OCTETS = 2 + UNTAGGED_HEADER_LENGTH
#: TO counts modulo 2^64.
TO_MASK = (1 << 64) - 1

#: Octets at the beginning of an FPDU that are looked at, Markers included; and at its end: PAD, a Marker, CRC.
LOOKED_AT = 2 + WATCHED_OCTETS + 2 * MARKER_LENGTH
LONGEST_TAIL = 12


class WatchedOperation(FullOperation):
    """Full Operation whose FPDUs in order are watched."""

    __slots__ = ("_writes", "expects", "repeated_begin", "repeated_length")

    def _set_up(self) -> None:
        super()._set_up()
        #: What nothing more has to be looked at of: control octets, whether an RDMA Write goes on, its STag, and
        #: between what ULPDU_Lengths.
        self.expects: tuple[int, bool, int, int, int] = (-1, False, 0, 0, 0)
        #: The same while the RDMA Write of several DDP Segments that came last went on.
        self._writes = self.expects
        #: Of a segment that holds just one FPDU, which is a part of that RDMA Write but not the last: how long it is
        #: (with Markers, ULPDU_Length), and what is before TO; 0 if there was none.
        self.repeated_length = self.repeated_begin = 0

    def expect(self) -> None:
        """Learn what comes next from the watches, after they were shown something."""
        watch, longest = self.ddp, self.sizes.longest
        if watch.is_writing:
            part = watch.longest_part
            expects = watch.quiet, True, watch.stag, MIN_MULPDU, part if part < longest else longest
            if expects != self._writes:
                self._writes, self.repeated_length = expects, 0
            self.expects = self._writes
        else:
            self.expects = watch.quiet, False, 0, TAGGED_HEADER_LENGTH, longest

    def write_again(self) -> None:
        """An RDMA Write of several DDP Segments begins as the last one went on."""
        self.expects = control, _, stag, _, _ = self._writes
        self.ddp.write_again(control, stag)

    def watch_whole(self, octets: bytes, base: int, extent: Extent, known: Moment) -> None:
        """Watch an FPDU that ``octets``, which begin at offset ``base`` of the stream, hold."""
        watch = self.ddp
        quiet, writing, stag, shortest, longest = self.expects
        offset, header, ulpdu_length, end, _ = extent
        index, after = header - base, end - base
        at = after - 8 if not self.markers or end - 8 & 511 else after - 12
        control = head(octets, index)[1]
        unbroken = -header & 511 if self.markers else UNTAGGED_HEAD_OCTETS
        if shortest <= ulpdu_length <= longest and (
            ulpdu_length & 3 == NO_PAD or not word(octets, at)[0] & PAD_BITS[ulpdu_length & 3]
        ):
            if control == quiet and unbroken >= HEAD_OCTETS and not writing:
                return
            if control == quiet and unbroken >= HEAD_OCTETS and place(octets, index + 4) == (stag, watch.to):
                watch.to = watch.to + ulpdu_length - TAGGED_HEADER_LENGTH & TO_MASK
                return
            if unbroken >= UNTAGGED_HEAD_OCTETS and watch.glance(octets, index + 2, control, ulpdu_length, watch.to):
                if watch.quiet != quiet:
                    self.expect()
                return
        begin = octets[offset - base : offset - base + LOOKED_AT]
        self.watch(offset, begin, octets[after - LONGEST_TAIL : after], end, known)
        self.expect()

    def watch(self, offset: int, octets: Octets, last: Octets, end: int, known: Moment) -> None:
        """Watch an FPDU: its first octets, its last ones, and where it ends; it was placed at ``known``."""
        plain = remove_markers(octets, offset) if self.markers else octets
        ulpdu_length = plain[0] << 8 | plain[1]
        if ulpdu_length > self.sizes.longest:
            self.sizes.grows(ulpdu_length, end - offset, offset, *known)
        self.ddp.follow(plain, 2, ulpdu_length, offset, *known)
        pad = -(ulpdu_length + 2) & 3
        at = len(last) - (MARKER_LENGTH + 4 if self.markers and not (end - 8) % MARKER_INTERVAL else 4)
        if any(last[at - pad : at]):
            self.find("pad", offset, *known, pad_detail(ulpdu_length, last[at - pad : at]))
