"""The stream of a sender that deviates: laid by its dialect (framing/dialect.py), for traffic that is to be wrong."""

from __future__ import annotations

from collections.abc import Iterable

from scapy_mpa.craft.setup import ConversationError
from scapy_mpa.craft.stream import HalfStream, LaidFPDU
from scapy_mpa.craft.tcppacket import SentHalf
from scapy_mpa.framing.dialect import Dialect
from scapy_mpa.framing.senders import Bases, spoken


class DeviatingStream:
    """The counterpart of :class:`~scapy_mpa.craft.stream.HalfStream` for a deviating sender; ``names`` are joined by +.

    The half is set to deviate as soon as its octets are not those of a conformant sender.
    """

    def __init__(self, half: SentHalf, agreed: Dialect, names: str) -> None:
        self._half = half
        self._agreed = agreed
        self._names = names
        self._right = HalfStream(agreed)
        self._stream: HalfStream | None = None

    @property
    def offset(self) -> int:
        """The offset of the next FPDU, in octets from SeqStart."""
        return self._stream.offset if self._stream is not None else 0

    def lay(self, ulpdus: Iterable[bytes]) -> tuple[bytes, list[LaidFPDU]]:
        """Append one FPDU for each ULPDU; return their octets and their places.

        Raises ConversationError for deviations that do not go together, or that cannot show here.
        """
        if self._stream is None:
            self._stream = HalfStream(self._dialect())
        ulpdus = [*ulpdus]
        octets, laid = self._stream.lay(ulpdus)
        if self._half.deviation is None and octets != self._right.lay(ulpdus)[0]:
            self._half.deviation = self._names
        return octets, laid

    def _dialect(self) -> Dialect:
        half = self._half
        assert half.origin is not None
        startup = half.origin - half.startup[0] if half.startup is not None else None
        # Offsets of the TCP stream count from the octet after the SYN.
        candidate = spoken(self._names.split("+"), self._agreed, Bases(half.origin + 1, startup))
        if candidate is None:
            raise ConversationError(f"the {half.role} cannot deviate in {self._names}: that would have no effect here")
        return candidate.dialect
