"""SMB Direct (MS-SMBD §2.2), fields little-endian: Negotiate Request and Response, Data Transfer.

The first Send of either side is a Negotiate message; all that follow are Data Transfers. The SMB2 READ and WRITE
Requests in them (MS-SMB2 §2.2.19, §2.2.21) name memory of the client by Buffer Descriptors (MS-SMBD §2.2.3.1); the
Token of one is an STag.
"""

from __future__ import annotations

from struct import Struct

from scapy_mpa.tuples import NamedTuple
from scapy_mpa.ulp.header import NamedMemory, Naming, UpperHeader

#: What stands where, by the names of the tuples below.
NEGOTIATE_REQUEST = Struct("<HHHHIII")
NEGOTIATE_RESPONSE = Struct("<HHHHHHIIIII")
DATA_TRANSFER = Struct("<HHHHIII")
_VERSION = 0x0100
#: A Data Transfer's data begins at a multiple of 8 octets (MS-SMBD §2.2.3).
ALIGNMENT = 8
#: An SMB2 header: its octets, where the command, the flags and the distance to the next one in a compound are.
SMB2_ID, _SMB2_LENGTH = b"\xfeSMB", 64
_COMMAND_AT, _FLAGS_AT = 12, 16
_SHORT, _TWO_WORDS = Struct("<H"), Struct("<II")
_RESPONSE_FLAG = 1
#: Requests with Buffer Descriptors: what the peer does with the memory; where Channel and the descriptors' place stand.
_WITH_DESCRIPTORS = {8: ("write", 36, 44), 9: ("read", 32, 40)}
#: SMB2_CHANNEL_RDMA_V1, and that the server invalidates the STag.
_RDMA_CHANNELS = (1, 2)
_CHANNEL, _PLACE, _DESCRIPTOR = Struct("<I"), Struct("<HH"), Struct("<QII")
_MOST_COMPOUNDED = 64


class NegotiateRequest(NamedTuple):
    """What the Initiator asks for; sizes are in octets."""

    min_version: int
    max_version: int
    reserved: int
    credits_requested: int
    preferred_send_size: int
    max_receive_size: int
    max_fragmented_size: int

    def encode(self) -> bytes:
        """The 20 octets."""
        return NEGOTIATE_REQUEST.pack(*self)


class NegotiateResponse(NamedTuple):
    """What the Responder answers; sizes are in octets."""

    min_version: int
    max_version: int
    negotiated_version: int
    reserved: int
    credits_requested: int
    credits_granted: int
    status: int
    max_readwrite_size: int
    preferred_send_size: int
    max_receive_size: int
    max_fragmented_size: int

    def encode(self) -> bytes:
        """The 32 octets."""
        return NEGOTIATE_RESPONSE.pack(*self)


class DataTransfer(NamedTuple):
    """The header of a message with data, or with credits alone."""

    credits_requested: int
    credits_granted: int
    flags: int
    reserved: int
    remaining_data_length: int
    data_offset: int
    data_length: int

    def encode(self) -> bytes:
        """The 20 octets."""
        return DATA_TRANSFER.pack(*self)


class SmbDirectLimits(NamedTuple):
    """What both sides agreed on, in octets: the largest Send to each of them (MS-SMBD §3.1.5).

    A side's Sends are no longer than what its peer can receive, whatever it prefers.
    """

    to_initiator: int
    to_responder: int
    max_readwrite_size: int
    max_fragmented_to_initiator: int
    max_fragmented_to_responder: int

    def most_received(self, direction: str) -> int:
        """Return the most octets that a Send of this direction ("initiator": sent by the Initiator) may have."""
        return self.to_responder if direction == "initiator" else self.to_initiator


def negotiate_request(octets: bytes) -> NegotiateRequest | None:
    """A Negotiate Request, or None for other octets."""
    if len(octets) != NEGOTIATE_REQUEST.size or int.from_bytes(octets[:2], "little") != _VERSION:
        return None
    found = NegotiateRequest(*NEGOTIATE_REQUEST.unpack(octets))
    is_one = found.max_version >= _VERSION and not found.reserved and found.max_receive_size
    return found if is_one else None


def negotiate_response(octets: bytes) -> NegotiateResponse | None:
    """A Negotiate Response, or None for other octets."""
    if len(octets) != NEGOTIATE_RESPONSE.size:
        return None
    found = NegotiateResponse(*NEGOTIATE_RESPONSE.unpack(octets))
    is_one = found.min_version <= found.negotiated_version <= found.max_version and not found.reserved
    return found if is_one and found.max_version >= _VERSION else None


def data_transfer(octets: bytes, length: int) -> DataTransfer | None:
    """The Data Transfer that begins with ``octets`` and has ``length`` octets, or None if there is none."""
    if len(octets) < DATA_TRANSFER.size:
        return None
    found = DataTransfer(*DATA_TRANSFER.unpack_from(octets))
    if found.reserved or found.flags > 1:
        return None
    if not found.data_length:
        return found if not found.data_offset else None
    fits = found.data_offset % ALIGNMENT == 0 and found.data_offset + found.data_length <= length
    return found if fits and found.data_offset >= DATA_TRANSFER.size else None


def limits_of(request: NegotiateRequest, response: NegotiateResponse) -> SmbDirectLimits:
    """Return the limits that a Request and its Response agree on."""
    return SmbDirectLimits(
        request.max_receive_size,
        response.max_receive_size,
        response.max_readwrite_size,
        request.max_fragmented_size,
        response.max_fragmented_size,
    )


def header(octets: bytes, length: int, is_from_initiator: bool, is_first: bool) -> UpperHeader | None:
    """The SMB Direct header at the beginning of a Send of ``length`` octets, None if there is none."""
    if is_first:
        request = negotiate_request(octets[:length]) if is_from_initiator else None
        response = negotiate_response(octets[:length]) if not is_from_initiator else None
        negotiate = request or response
        if negotiate is None:
            return None
        kind = "Negotiate Request" if request is not None else "Negotiate Response"
        text = f"{kind}: at most {negotiate.max_receive_size} octets received"
        return UpperHeader("SMB Direct", {"message": kind, **negotiate._asdict()}, text=text)
    found = data_transfer(octets, length)
    if found is None:
        return None
    text = f"Data Transfer of {found.data_length} octets, credits {found.credits_granted} granted"
    if found.remaining_data_length:
        text += f", {found.remaining_data_length} octets to come"
    values = {"message": "Data Transfer", **found._asdict()}
    _, named, _, _, is_cut = _naming(octets, found)
    if named:
        values["named"] = [one.as_dict() for one in named]
    return UpperHeader("SMB Direct", values, named, text, is_cut=is_cut)


def naming(octets: bytes, length: int, is_from_initiator: bool, is_first: bool) -> Naming | UpperHeader | None:
    """Return what such a header says about memory, as :func:`header`."""
    if is_first:
        return header(octets, length, is_from_initiator, is_first)
    found = data_transfer(octets, length)
    return None if found is None else _naming(octets, found)


def _naming(octets: bytes, found: DataTransfer) -> Naming:
    """Return what a Data Transfer says about memory."""
    if not found.data_length:
        return Naming("SMB Direct")
    end = found.data_offset + found.data_length
    named, is_all = _descriptors(octets[found.data_offset : end])
    is_cut = not is_all or bool(found.remaining_data_length) or len(octets) < end
    return Naming("SMB Direct", tuple(named), is_cut=is_cut)


def _descriptors(octets: bytes) -> tuple[list[NamedMemory], bool]:
    """Return the memory that SMB2 messages name, and whether all of them can be read: encrypted ones cannot."""
    named: list[NamedMemory] = []
    at = 0
    for _ in range(_MOST_COMPOUNDED):
        message = octets[at:]
        if len(message) < _SMB2_LENGTH or not message.startswith(SMB2_ID):
            return named, False
        (command,) = _SHORT.unpack_from(message, _COMMAND_AT)
        flags, next_command = _TWO_WORDS.unpack_from(message, _FLAGS_AT)
        if next_command:
            message = message[:next_command]
        if command in _WITH_DESCRIPTORS and not flags & _RESPONSE_FLAG:
            use, channel_at, place_at = _WITH_DESCRIPTORS[command]
            if len(message) < _SMB2_LENGTH + place_at + _PLACE.size:
                return named, False
            (channel,) = _CHANNEL.unpack_from(message, _SMB2_LENGTH + channel_at)
            first, length = _PLACE.unpack_from(message, _SMB2_LENGTH + place_at)
            descriptors = message[first : first + length] if channel in _RDMA_CHANNELS else b""
            if channel in _RDMA_CHANNELS and len(descriptors) < length:
                return named, False
            whole = len(descriptors) // _DESCRIPTOR.size * _DESCRIPTOR.size
            found = (_DESCRIPTOR.unpack_from(descriptors, place) for place in range(0, whole, _DESCRIPTOR.size))
            named += [NamedMemory(token, offset, size, use) for offset, token, size in found if size]
        if not next_command:
            return named, True
        at += next_command
    return named, False
