"""What may be spent on finding out what senders do wrong."""

from __future__ import annotations

from typing import Protocol

from scapy_mpa.tcp.half import Half

#: A half connection is idle that brought nothing for so many frames.
_IDLE = 1 << 14


class Keeper(Protocol):
    """Who keeps the beginning of a half connection, because it may have to be read again."""

    @property
    def half(self) -> Half:
        """Whose beginning it is."""

    @property
    def kept_until(self) -> int:
        """The frame of the last segment kept."""

    def keep_no_longer(self) -> None:
        """What is kept goes, and nothing more will be kept."""


class DiagnosisBudget:
    """What may be spent on finding out what senders do wrong.

    How many FPDUs may still be read by hypotheses: some, and more as the capture goes on.  And how much may be kept of
    the beginnings of half connections, because they may have to be read again.

    Args:
        readings: FPDUs that may be read.
        room: octets of memory for beginnings.
    """

    def __init__(self, readings: int = 20_000, room: int = 1 << 20) -> None:
        self._left = readings
        self._room = room
        #: What each takes that keeps something, the one first that kept nothing for longest.
        self._keepers: dict[Keeper, int] = {}
        self._frames = 0

    def earn(self, frame: int) -> None:
        """So many frames of the capture have been read."""
        self._left += 8 * max(0, frame - self._frames)
        self._frames = max(frame, self._frames)

    def take_room(self, keeper: Keeper, weight: int, frame: int) -> bool:
        """Whether so much more may be kept of a half connection; what is over, or idle before ``frame``, gives way."""
        while weight > self._room:
            passive = next(iter(self._keepers), keeper)
            if passive is keeper or not (passive.half.is_over or passive.kept_until < frame - _IDLE):
                return False
            passive.keep_no_longer()
        self._room -= weight
        self._keepers[keeper] = self._keepers.pop(keeper, 0) + weight
        return True

    def give_room(self, keeper: Keeper) -> None:
        """Nothing of it is kept any longer."""
        self._room += self._keepers.pop(keeper, 0)

    def pay(self, readings: int = 1) -> bool:
        """Whether there is enough for so many readings more."""
        self._left -= readings
        return self._left >= 0
