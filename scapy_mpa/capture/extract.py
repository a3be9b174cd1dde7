"""The frames of captures that belong to one TCP connection: both directions, and all IP fragments of its datagrams.

:mod:`scapy_mpa.capture.copying` copies them.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterator, Mapping, Sequence, Set
from itertools import chain
from typing import TYPE_CHECKING

from scapy_mpa.capture.files import Captures
from scapy_mpa.capture.fragments import Datagram, Fragment, Fragments
from scapy_mpa.capture.index import rewind
from scapy_mpa.capture.named import CaptureSource
from scapy_mpa.capture.packet import FRAGMENT, segment_of_fragment
from scapy_mpa.framing.sequence import SEQ_MASK
from scapy_mpa.tuples import NamedTuple
from scapy_mpa.values.limits import DEFAULT_LIMITS, Limits
from scapy_mpa.values.segment import ACK_FLAG, SYN, KeyedPath, Segment, path_of, reverse_key

if TYPE_CHECKING:
    from scapy_mpa.capture.esp import Decryption


class Syn(NamedTuple):
    """A SYN: its frame, whose key it has, its sequence number, and the one it acknowledges, None if none."""

    frame: int
    is_reverse: bool
    seq: int
    answers: int | None


class ConnectionFrames(NamedTuple):
    """The frames between two addresses and ports, in order.

    ``fragments`` are, by the frame that completed a datagram, all frames that brought fragments of it.
    """

    frames: array[int]
    fragments: dict[int, list[int]]
    syns: list[Syn]

    def between(self, first: int, last: int | None) -> Iterator[int]:
        """The frames from ``first`` on, up to ``last``, with all fragments of their datagrams, in order."""
        chosen = (frame for frame in self.frames if first <= frame and (last is None or frame <= last))
        if not self.fragments:
            return chosen
        return iter(sorted({*chain.from_iterable(self.fragments.get(frame, (frame,)) for frame in chosen)}))

    def begin_of(self, frame: int, after: int) -> int:
        """The first frame of the connection that is known to be there at ``frame``, and not before ``after``.

        That of its SYN, where that was captured, else of its first segment: the last SYN before ``frame``, or the
        first copy of it, or the one that it answers.  0 if there is no SYN after ``after``.
        """
        syns = [syn for syn in self.syns if after < syn.frame <= frame]
        if not syns:
            return 0
        last = syns[-1]
        same = {(last.is_reverse, last.seq)}
        if last.answers is not None:
            same.add((not last.is_reverse, last.answers))
        return min(syn.frame for syn in syns if (syn.is_reverse, syn.seq) in same)


class _Remembering(Fragments):
    """Puts datagrams together, and remembers the frames that brought their fragments.

    ``current`` is the frame at hand; when its fragment has completed a datagram, all frames of that.
    """

    def __init__(self, limits: Limits, esp: Decryption | None, udp_ports: Mapping[int, str]) -> None:
        super().__init__(limits, esp=esp, udp_ports=udp_ports)
        self.current: list[int] = []
        self._frames: dict[bytes, array[int]] = {}
        self._dropped = array("Q")

    def add(self, fragment: Fragment, frame: int, time: int) -> Datagram | None:
        datagram = super().add(fragment, frame, time)
        if datagram is not None:
            self.current = sorted({*self._dropped, *self.current})
        elif fragment.key in self._incomplete:
            self._frames.setdefault(fragment.key, array("Q")).extend(self.current)
        return datagram

    def _drop(self, key: bytes) -> None:
        self._dropped = self._frames.pop(key, array("Q"))
        super()._drop(key)


def conversation(
    sources: CaptureSource | Sequence[CaptureSource],
    key: bytes,
    *,
    without: Set[KeyedPath] = frozenset(),
    frames: tuple[int, int | None] | None = None,
    limits: Limits = DEFAULT_LIMITS,
) -> ConnectionFrames:
    """The frames that hold TCP segments of a key, or of the opposite direction; of ``frames`` only, if given.

    ``without`` has the paths of segments on the same addresses and ports that are in another network.
    Raises :class:`~scapy_mpa.errors.CaptureError` if the captures cannot be read (again).
    """
    rewind(sources)
    peer = reverse_key(key)
    first, last = frames or (1, None)
    found = ConnectionFrames(array("Q"), {}, [])
    with Captures(sources, limits=limits) as captures:
        fragments = _Remembering(limits, captures.fragments.esp, captures.fragments.udp_ports)
        for seg in captures.records():
            frame, whole = seg.frame, seg
            if seg.tcp == FRAGMENT:
                fragments.current = [frame]
                completed = segment_of_fragment(seg, fragments)
                if completed is None:
                    continue
                whole = completed
            if whole.key not in (key, peer) or frame < first or (last is not None and frame > last):
                continue
            if without and (whole.key, path_of(whole)) in without:
                continue
            found.frames.append(frame)
            if seg.tcp == FRAGMENT:
                found.fragments[frame] = fragments.current
            if whole.flags & SYN:
                found.syns.append(_syn(whole, whole.key == peer))
    return found


def _syn(seg: Segment, is_reverse: bool) -> Syn:
    answers = seg.ack - 1 & SEQ_MASK if seg.flags & ACK_FLAG else None
    return Syn(seg.frame, is_reverse, seg.seq, answers)
