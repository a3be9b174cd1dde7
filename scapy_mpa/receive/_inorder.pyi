from array import array

from scapy_mpa.receive.segment import Segment

def fpdus(
    octets: memoryview,
    at: int,
    end: int,
    shift: int,
    starts: array[int],
    found: list[int] | None,
    crc_used: bool,
    layout: int,
    expects: tuple[int, bool, int, int, int],
    to: int,
    /,
) -> tuple[int, int, int, int, int]: ...
def segments(
    segments: list[Segment],
    index: int,
    key: bytes,
    peer_key: bytes,
    ack: int,
    peer_ack: int,
    next_seq: int,
    offset: int,
    consumed: list[Segment],
    starts: array[int],
    crc_used: bool,
    layout: int,
    expects: tuple[int, bool, int, int, int],
    to: int,
    /,
) -> tuple[int, int, int, int, int, int, int, int, int, int, int]: ...
