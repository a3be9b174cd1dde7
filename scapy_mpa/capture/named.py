"""The names of captures: one, or several and how these are combined.

Files of one rotation follow one another; captures of several taps overlap and are merged by time.
:mod:`~scapy_mpa.capture.joining` finds out which files are what.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, BinaryIO, Final, Literal, TypeAlias

if TYPE_CHECKING:
    from scapy_mpa.ipsec.associations import Associations

#: What names a capture: a path, ``-`` for standard input, or an open binary file.
CaptureSource: TypeAlias = "str | os.PathLike[str] | BinaryIO"

STANDARD_INPUT: Final = "-"

#: How captures become one: each after the one before, by the time of their records, or some so and some so.
Joined: TypeAlias = Literal["follow", "merge", "both"]


class Sources(list[CaptureSource]):
    """Several captures, and in which order they are read.

    Args:
        captures: what names them.
        groups: their indexes: groups are read one after the other, the captures of one merged by time.
        begins: the time of the first record of each, in nanoseconds since the epoch; None if it is not known.
        ends: the time of the last record of each.
        lenient: whether what cannot be read of one is reported, and the rest is read.
        skipped: a line for each file that was found and cannot be read.
        esp: the keys of what travels under ESP, if they were given.
        udp_ports: UDP ports of tunnels besides the usual ones, and which they are.
    """

    def __init__(
        self,
        captures: Iterable[CaptureSource],
        groups: Sequence[Sequence[int]] | None = None,
        begins: Sequence[int | None] | None = None,
        ends: Sequence[int | None] | None = None,
        *,
        lenient: bool = False,
        skipped: Sequence[str] = (),
        esp: Associations | None = None,
        udp_ports: Mapping[int, str] | None = None,
    ) -> None:
        super().__init__(captures)
        self.groups = [[*range(len(self))]] if groups is None else [[*group] for group in groups]
        self.begins = [None] * len(self) if begins is None else [*begins]
        self.ends = [None] * len(self) if ends is None else [*ends]
        self.lenient = lenient
        self.skipped = [*skipped]
        self.esp = esp
        self.udp_ports = {} if udp_ports is None else dict(udp_ports)

    @property
    def joined(self) -> Joined | None:
        """How they are combined, None unless there are several."""
        if len(self) < 2:
            return None
        if len(self.groups) == len(self):
            return "follow"
        return "merge" if len(self.groups) == 1 else "both"


def as_sources(sources: CaptureSource | Sequence[CaptureSource]) -> Sources:
    """The captures that were named, be it one or several: these are merged unless somebody has examined them."""
    if isinstance(sources, Sources):
        return sources
    if isinstance(sources, Sequence) and not isinstance(sources, str):
        return Sources(sources)
    return Sources([sources])


def name_of(source: CaptureSource) -> str:
    """Return the name of a capture."""
    if isinstance(source, (str, os.PathLike)):
        return os.fspath(source)
    name = getattr(source, "name", "<file>")
    return os.fsdecode(name) if isinstance(name, bytes) else str(name)
