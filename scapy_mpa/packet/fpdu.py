"""FPDUs as Scapy packets, with the Markers that fall among them (RFC 5044 §4).

    FPDU / DDPUntagged / RDMAPSend / b"data"

What is None is computed when the packet is built, what is given is kept: ULPDU_Length, PAD, CRC, and FPDUPTR
of each Marker. Four fields are not on the wire:

* ``marker_offset``: octets from the FPDU's first octet to the first Marker position, 0 to 508 (0: it begins with a
  Marker, 508: one stands right after 508 octets); None in a stream without Markers.
* ``markers``: the Markers in their order, one for each position; None: all are computed. ``Marker()`` stands for one
  that is computed: another number of Markers than there are positions is an error, and so are Markers where
  ``marker_offset`` is None.
* ``origin``: what a computed FPDUPTR counts from, "header" (RFC 5044) or "first-octet" (both drafts).
* ``crc_in_use``: False leaves a computed CRC zero and an FPDU's CRC unjudged; None if that is not known.

An FPDU after another, as in ``FPDU()/b"one"/FPDU()/b"two"``, is the next of the stream, not its ULPDU.

Octets alone do not show where Markers stand, so say it: ``FPDU(octets, marker_offset=...)``. If that was left out,
``summary()`` and ``show()`` say which ``marker_offset`` makes an FPDU of the octets.  They also say what is wrong:
``crc_good`` and ``markers_good``.
"""

from __future__ import annotations

import struct
from typing import Any

from scapy.config import conf
from scapy.fields import ConditionalField, RawVal, ShortField, XShortField
from scapy.layers.inet import TCP
from scapy.packet import NoPayload, Packet, Raw

from scapy_mpa.errors import FramingError
from scapy_mpa.framing import (
    CRC_LENGTH,
    MARKER_INTERVAL,
    MARKER_LENGTH,
    MAX_ULPDU_LENGTH,
    Origin,
    decode_fpdu,
    decode_marker,
    marker_positions,
    pad_length,
    remove_markers,
)
from scapy_mpa.framing.fpdu import (
    FPDUPlace,
    conformant,
    crc_octets,
    marker_agrees,
    read_fpdu,
    right_fpduptr,
    write_fpdu,
)
from scapy_mpa.framing.markers import LENGTH_FIELD_LENGTH
from scapy_mpa.packet.captured import _CapturedPacket
from scapy_mpa.packet.ddp import SUMMARIZED_BELOW, DDPTagged, DDPUntagged
from scapy_mpa.packet.fields import CRCField, NotOnWireField, NotOnWireListField, TrailingOctets
from scapy_mpa.packet.upper import put_upper, upper_of

#: No FPDU begins inside a Marker, so the first Marker position after its first octet is no further away.
LAST_MARKER_OFFSET = MARKER_INTERVAL - MARKER_LENGTH

_TAGGED = 0x80
#: The two low bits of FPDUPTR, which a receiver reads as zero (RFC 5044 §4.2).
_IGNORED_BITS = 3


class Marker(Packet):
    """A Marker (RFC 5044 §4.2). FPDUPTR left None is computed by the FPDU that holds it."""

    name = "Marker"
    fields_desc = [XShortField("reserved", 0), ShortField("fpduptr", None)]

    @classmethod
    def dispatch_hook(cls, _pkt: Any = None, *args: Any, **fields: Any) -> type[Packet]:
        return conf.raw_layer if _pkt and len(_pkt) < MARKER_LENGTH else cls

    def extract_padding(self, s: bytes) -> tuple[bytes, bytes | None]:
        return b"", s

    def mysummary(self) -> str:
        return self.sprintf("Marker FPDUPTR %fpduptr%")


class FPDUCRCField(CRCField):
    """The CRC of an FPDU, shown with the one that would be right if it is bad."""

    def i2repr(self, pkt: Packet | None, x: Any) -> str:
        text = super().i2repr(pkt, x)
        right = pkt.right_crc() if isinstance(pkt, FPDU) else None
        return text if right is None else f"{text} (bad: {right:#010x} would be right)"


class NotOnWireOffsetField(NotOnWireField):
    """Shown with the value that makes an FPDU of octets with Markers, if it was left out."""

    def i2repr(self, pkt: Packet | None, x: Any) -> str:
        found = pkt.likely_marker_offset() if x is None and isinstance(pkt, FPDU) else None
        return repr(x) if found is None else f"None (but the octets fit marker_offset={found})"


def _with_markers(pkt: Packet) -> bool:
    return pkt.getfieldval("marker_offset") is not None


def _stream_offset(marker_offset: int) -> int:
    """A stream offset at which an FPDU can begin that has its first Marker position there."""
    if not 0 <= marker_offset <= LAST_MARKER_OFFSET:
        raise FramingError(f"marker_offset {marker_offset} is not within 0 to {LAST_MARKER_OFFSET}")
    return -marker_offset % MARKER_INTERVAL


def _said(marker: Marker | bytes) -> tuple[int, int | None]:
    """RESERVED and FPDUPTR of a Marker that is given, None if that is to be computed."""
    if not isinstance(marker, Marker):
        return decode_marker(bytes(marker).ljust(MARKER_LENGTH, b"\0"))
    fpduptr = marker.getfieldval("fpduptr")
    return int(marker.reserved), None if fpduptr is None else int(fpduptr)


class FPDU(_CapturedPacket):
    """Framed Protocol Data Unit."""

    name = "FPDU"
    fields_desc = [
        ShortField("ulpdu_length", None),
        TrailingOctets("pad"),
        FPDUCRCField("crc"),
        NotOnWireOffsetField("marker_offset"),
        ConditionalField(NotOnWireListField("markers", Marker), _with_markers),
        ConditionalField(NotOnWireField("origin", "header"), _with_markers),
        ConditionalField(NotOnWireField("crc_in_use"), lambda pkt: pkt.getfieldval("crc_in_use") is not None),
    ]
    __slots__ = ["_following", "_told"]

    def __init__(self, _pkt: bytes = b"", *args: Any, **fields: Any) -> None:
        told = {}
        if _pkt:  # what only the caller can know about octets has to be there before they are dissected
            told = {name: fields.pop(name) for name in ("marker_offset", "origin", "crc_in_use") if name in fields}
        self._told = told
        super().__init__(_pkt, *args, **fields)

    # Octets -> fields

    def dissect(self, s: bytes) -> None:
        told, self._told = self._told, {}
        self.explicit = 1
        self.fields.update({name: value for name, value in told.items() if value is not None})
        marker_offset = told.get("marker_offset")
        octets = bytes(s)
        fpdu = None
        if marker_offset is None:
            fpdu = decode_fpdu(octets, check_crc=False)
        elif 0 <= marker_offset <= LAST_MARKER_OFFSET:
            fpdu = decode_fpdu(octets, _stream_offset(marker_offset), check_crc=False)
        if fpdu is None:
            self._dissect_cut(octets, marker_offset)
            return
        self.fields.update(ulpdu_length=fpdu.ulpdu_length, pad=fpdu.pad, crc=fpdu.crc)
        if marker_offset is not None:
            self.fields["markers"] = [
                Marker(reserved=reserved, fpduptr=fpduptr) for _, reserved, fpduptr in fpdu.markers
            ]
        self.do_dissect_payload(fpdu.ulpdu)
        if len(octets) > fpdu.wire_length and conf.padding:
            self.add_payload(conf.padding_layer(octets[fpdu.wire_length :]))

    def _dissect_cut(self, octets: bytes, marker_offset: int | None) -> None:
        """Not a whole FPDU: what is there of ULPDU, PAD and CRC; if that cannot be known, Raw."""
        wire = octets
        if marker_offset is not None and 0 <= marker_offset <= LAST_MARKER_OFFSET:
            offset = _stream_offset(marker_offset)
            octets = remove_markers(wire, offset)
            places = [position - offset for position in marker_positions(offset, offset + len(wire))]
            self.fields["markers"] = [Marker(wire[at : at + MARKER_LENGTH]) for at in places]
            is_known = all(at + MARKER_LENGTH < len(wire) for at in places)
        else:
            is_known = marker_offset is None
        if not is_known or len(octets) < LENGTH_FIELD_LENGTH:
            self.fields.pop("marker_offset", None)
            self.fields.pop("markers", None)
            self.fields.update(ulpdu_length=RawVal(b""), pad=b"", crc=b"")
            self.add_payload(conf.raw_layer(wire))
            return
        ulpdu_length = int.from_bytes(octets[:LENGTH_FIELD_LENGTH], "big")
        ulpdu_end = LENGTH_FIELD_LENGTH + ulpdu_length
        crc_at = ulpdu_end + pad_length(ulpdu_length)
        self.fields.update(ulpdu_length=ulpdu_length, pad=octets[ulpdu_end:crc_at], crc=octets[crc_at:])
        self.do_dissect_payload(octets[LENGTH_FIELD_LENGTH:ulpdu_end])

    def guess_payload_class(self, payload: bytes) -> type[Packet]:
        return DDPTagged if payload[0] & _TAGGED else DDPUntagged

    @classmethod
    def dispatch_hook(cls, _pkt: Any = None, *args: Any, **fields: Any) -> type[Packet]:
        """Return Raw for fewer octets than a ULPDU_Length has."""
        cut = _pkt and len(_pkt) < LENGTH_FIELD_LENGTH and fields.get("marker_offset") is None
        return conf.raw_layer if cut else cls

    @classmethod
    def tcp_reassemble(cls, data: bytes, metadata: dict[str, Any], session: dict[str, Any]) -> Packet | None:
        """For Scapy's StreamSocket and TCPSession: an FPDU without Markers, once it is complete."""
        return cls(data) if decode_fpdu(data, check_crc=False) else None

    # Fields -> octets

    def do_build_payload(self) -> bytes:
        """Build the ULPDU, without the FPDU that ``/`` has put after this one."""
        self._following = b""
        below: Packet = self
        following = self.payload
        while following and not isinstance(following, FPDU):
            below, following = following, following.payload
        if not following:
            return super().do_build_payload()
        below.payload = NoPayload()
        try:
            return super().do_build_payload()
        finally:
            below.payload = following
            self._following = following.do_build()

    def post_build(self, pkt: bytes, pay: bytes) -> bytes:
        crc = self.getfieldval("crc")
        return self._lay(pay, None if crc is None else CRCField.octets(crc))[0] + self._following

    def _lay(self, ulpdu: bytes, crc: bytes | None) -> tuple[bytes, FPDUPlace]:
        """Return the octets of the FPDU, and where it lies; a CRC that is None is computed."""
        marker_offset, origin = self.getfieldval("marker_offset"), self.getfieldval("origin")
        has_markers = marker_offset is not None
        length, pad = self.getfieldval("ulpdu_length"), self.getfieldval("pad")
        if length is None:
            length = len(ulpdu)
            if length > MAX_ULPDU_LENGTH:
                limit = f"above the limit of {MAX_ULPDU_LENGTH}; give ulpdu_length to send it all the same"
                raise FramingError(f"a ULPDU of {length} octets is {limit}")
        field = bytes(length) if isinstance(length, RawVal) else int(length).to_bytes(LENGTH_FIELD_LENGTH, "big")
        given = [_said(marker) for marker in self.getfieldval("markers") or ()]
        if given and not has_markers:
            raise FramingError("markers are given without marker_offset, which says where they stand")
        octets, place = write_fpdu(
            conformant(has_markers, self.getfieldval("crc_in_use") is not False, origin if has_markers else "header"),
            ulpdu,
            *((_stream_offset(marker_offset), marker_offset) if has_markers else (0, 0)),
            length_field=field,
            pad=None if pad is None else bytes(pad),
            crc=crc,
            markers=given,
        )
        if given and len(given) != len(place.markers):
            have = f"{len(given)} Marker{'s' if len(given) > 1 else ''} for {len(place.markers)} positions"
            raise FramingError(f"{have}: give Marker() where one is to be computed, or none at all")
        return octets, place

    @property
    def crc_good(self) -> bool | None:
        """True if the CRC is right; None if CRCs are not in use, or it was cut off.

        Where ``crc_in_use`` is None nobody knows whether they are: a wrong field of zeros may mean either, and is None.
        """
        crc = self.getfieldval("crc")
        if self.getfieldval("crc_in_use") is False:
            return None
        if crc is None:
            return True
        if self.original and len(CRCField.octets(crc)) < CRC_LENGTH:
            return None
        octets, place = self._lay(self.do_build_payload(), None)
        given = CRCField.octets(crc)
        may_be_none = self.getfieldval("crc_in_use") is None and given == bytes(CRC_LENGTH)
        return given == crc_octets(place, octets) or (None if may_be_none else False)

    @property
    def markers_good(self) -> bool | None:
        """True if each Marker names the start of the FPDU, counted from ``origin``; None in a stream without Markers.

        RESERVED and the low two bits of FPDUPTR do not count (RFC 5044 §4.2).
        """
        return not self._wrong_markers() if _with_markers(self) else None

    def _wrong_markers(self) -> dict[int, int]:
        """The Markers whose FPDUPTR is wrong, by their number, and the FPDUPTR that would be right."""
        given = self.getfieldval("markers") or ()
        if not given:
            return {}
        crc = self.getfieldval("crc")
        _, place = self._lay(self.do_build_payload(), bytes(CRC_LENGTH) if crc is None else CRCField.octets(crc))
        wrong = {}
        for number, (marker, at) in enumerate(zip(given, place.markers, strict=True)):
            right, (_, fpduptr) = right_fpduptr(place, at, self.getfieldval("origin")), _said(marker)
            if fpduptr is not None and (fpduptr ^ right) & ~_IGNORED_BITS:
                wrong[number] = right
        return wrong

    def right_crc(self) -> int | None:
        """The right CRC if :attr:`crc_good` is False, else None."""
        try:
            if self.crc_good is not False:
                return None
            octets, place = self._lay(self.do_build_payload(), None)
        except FramingError:
            return None
        return int.from_bytes(crc_octets(place, octets), "little")

    def likely_marker_offset(self) -> int | None:
        """The ``marker_offset`` of octets that were dissected without one, if they are an FPDU with Markers.

        They are if they do not form an FPDU without Markers, each Marker names the start of the FPDU, and the CRC is
        good or, where CRCs are not in use, the FPDU has as many octets as there are.
        """
        octets = self.original
        if not octets or _with_markers(self):
            return None
        plain = decode_fpdu(octets)
        if plain is not None and (plain.crc_good or (plain.wire_length == len(octets) and not plain.crc)):
            return None
        for marker_offset in range(0, min(LAST_MARKER_OFFSET + 1, len(octets)), MARKER_LENGTH):
            _, fpduptr = decode_marker(
                octets[marker_offset : marker_offset + MARKER_LENGTH].ljust(MARKER_LENGTH, b"\0")
            )
            if fpduptr & ~_IGNORED_BITS == marker_offset and self._is_fpdu(octets, marker_offset):
                return marker_offset
        return None

    def _is_fpdu(self, octets: bytes, marker_offset: int) -> bool:
        """Are these octets an FPDU with Markers at a place?"""
        offset, dialect = _stream_offset(marker_offset), conformant(True, True)
        found = decode_fpdu(octets, offset)
        if found is None or not found.markers:
            return False
        place = read_fpdu(dialect, octets, offset, marker_offset)
        if place is None or not all(marker_agrees(dialect, place, octets, marker) for marker in place.markers):
            return False
        return bool(found.crc_good) or (not found.crc and found.wire_length == len(octets))

    # The person at the prompt

    def mysummary(self) -> Any:
        length, markers = self.getfieldval("ulpdu_length"), self.getfieldval("markers")
        text = "FPDU" if length is None else f"FPDU {length} octets"
        if markers and _with_markers(self):
            try:
                wrong = len(self._wrong_markers())
            except FramingError as error:
                return f"{text}, {error}", [TCP]
            text += f", {len(markers)} Marker{'s' if len(markers) > 1 else ''}"
            if wrong:
                text += f" ({wrong} wrong)"
        if self.right_crc() is not None:
            text += ", CRC bad"
        found = self.likely_marker_offset()
        if found is not None:
            text += f"; the octets fit marker_offset={found}"
        return text, [TCP]

    def _show_or_dump(self, *args: Any, **named: Any) -> Any:
        """Show as Scapy does; computed Markers are shown as they will be, and wrong ones as wrong."""
        if not _with_markers(self):
            return super()._show_or_dump(*args, **named)
        given = self.fields.get("markers")
        self.fields["markers"] = self._computed_markers() if given is None else self._marked_markers(given)
        try:
            return super()._show_or_dump(*args, **named)
        finally:
            if given is None:
                del self.fields["markers"]
            else:
                self.fields["markers"] = given

    def _marked_markers(self, given: Any) -> list[Any]:
        """The Markers that are given, those that are wrong named so."""
        try:
            wrong = self._wrong_markers()
        except FramingError:
            return list(given)
        marked = [marker if isinstance(marker, Marker) else Marker(bytes(marker)) for marker in given]
        for number, right in wrong.items():
            marked[number] = marked[number].copy()
            marked[number].name = f"Marker, wrong: FPDUPTR {right} would be right"
        return marked

    def _computed_markers(self) -> list[Marker]:
        """The Markers that building puts into the FPDU; none, if it cannot be built."""
        alone: Packet = self.copy()
        below = alone
        while below.payload and not isinstance(below.payload, FPDU):
            below = below.payload
        below.remove_payload()
        try:
            built = self._again(bytes(alone))
        except (FramingError, ValueError, TypeError, struct.error):
            return []
        return list(built.getfieldval("markers") or ()) if isinstance(built, FPDU) else []

    def show2(self, dump: bool = False, indent: int = 3, lvl: str = "", label_lvl: str = "") -> Any:
        """Show the packet as it is after building, with what was computed."""
        return self._again(bytes(self)).show(dump, indent, lvl, label_lvl)

    def _again(self, octets: bytes) -> Packet:
        return fpdu_of(octets, *self._beside())

    def _beside(self) -> tuple[Any, ...]:
        """Return what octets alone do not show."""
        return (*(self.getfieldval(name) for name in ("marker_offset", "origin", "crc_in_use")), upper_of(self))

    def __reduce__(self) -> tuple[Any, ...]:
        octets, state = bytes(self), super().__reduce__()[2:]
        return (fpdu_of, (octets, *self._beside()), *state)

    # Which FPDU answers which

    def hashret(self) -> bytes:
        return b"FPDU"

    def answers(self, other: Packet) -> int:
        if not isinstance(other, FPDU):
            return 0
        if not self.payload or isinstance(other.payload, Raw):
            return 1
        return self.payload.answers(other.payload)


def fpdu_of(
    octets: bytes,
    marker_offset: int | None,
    origin: Origin,
    crc_in_use: bool | None,
    upper: type[Packet] | None = None,
) -> Packet:
    """Dissect octets with all that octets alone do not show of a ``FPDU`` (how it is pickled).

    ``upper`` is the layer of what a Send in it carries.
    """
    packet = FPDU(octets, marker_offset=marker_offset, origin=origin, crc_in_use=crc_in_use)
    if upper is not None:
        put_upper(packet, upper)
    return packet


SUMMARIZED_BELOW.append(FPDU)
