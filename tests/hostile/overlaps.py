"""Captures in which segments overlap and bring other octets for the same place, in every way that may cost much.

:func:`conflicting` is one of them, of any length.  What it is made of stands in tables: where in a connection's life
the segments come (:data:`STATES`), how they lie (:data:`SHAPES`), where their octets differ (:data:`DIFFERENCES`) and
which TCP checksums are wrong (:data:`CHECKSUMS`).
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterator
from functools import cache, partial
from typing import NamedTuple

from scapy_mpa.framing.startup import startup_frame
from tests.hostile.flow import Flow, file_of
from tests.laying import lay_stream

#: Where the TCP checksum stands in a frame, and where the payload begins.
_CHECKSUM, _PAYLOAD = 50, 54
#: The octets of Full Operation that segments are cut from, over and over.
_STREAM = 1 << 20
#: Octets missing before those beyond a hole.
_HOLE = 4096


class State(NamedTuple):
    """The point in a connection's life at which segments overlap.

    ``frames`` are the startup frames seen, ``acknowledges`` says that the peer acknowledges each segment at once.
    """

    opened: bool = True
    frames: str = "both"
    markers: bool = False
    crc: bool = True
    acknowledges: bool = False


STATES = {
    "a Request without Reply": State(frames="request"),
    "no startup frame": State(frames=""),
    "Full Operation": State(),
    "Full Operation acknowledged": State(acknowledges=True),
    "Full Operation with Markers": State(markers=True),
    "Full Operation without CRC": State(crc=False),
    "Full Operation with Markers without CRC": State(markers=True, crc=False),
    "a capture from the middle": State(opened=False, frames=""),
    "a capture from the middle with Markers": State(opened=False, frames="", markers=True),
}


def _twice(size: int) -> Iterator[tuple[int, int]]:
    at = 0
    while True:
        yield at, at + size
        yield at, at + size
        at += size


def _many_times(size: int) -> Iterator[tuple[int, int]]:
    at = 0
    while True:
        for _ in range(20):
            yield at, at + size
        at += size


def _shifted(size: int, by: int = 1) -> Iterator[tuple[int, int]]:
    at = 0
    while True:
        yield at, at + size
        at += by


def _shifted_back(size: int) -> Iterator[tuple[int, int]]:
    at = _STREAM - size
    while True:
        yield at, at + size
        at -= 1


def _shifted_and_again(size: int) -> Iterator[tuple[int, int]]:
    """As many pieces as a segment has octets; then all of them, over and over."""
    for at in range(0, min(size, 3000), 2):
        yield at, at + size
    while True:
        yield 0, size


def _with_one_octet(size: int) -> Iterator[tuple[int, int]]:
    number, middle = 0, 1 << 17
    while True:
        first = middle - number * 7 % size
        yield first, first + size
        number += 1


def _growing(size: int) -> Iterator[tuple[int, int]]:
    at = 0
    while True:
        for length in range(size // 2, size, max(1, size // 2000)):
            yield at, at + length
        at += size


def _from_both_sides(size: int) -> Iterator[tuple[int, int]]:
    middle = size
    while True:
        yield middle, middle + size
        for by in range(1, 9):
            yield middle - size + by, middle + by
            yield middle + size - by, middle + 2 * size - by
        middle += 4 * size


def _over_octets(size: int) -> Iterator[tuple[int, int]]:
    """Octets one by one, with holes between them, and long segments over all of them."""
    for at in range(0, 60_000, 2):
        yield at, at + 1
    while True:
        for at in range(0, 60_000, size):
            yield at, at + size


#: How segments of a size lie: their first and last offsets.
SHAPES: dict[str, Callable[[int], Iterator[tuple[int, int]]]] = {
    "twice": _twice,
    "twenty times": _many_times,
    "shifted by an octet": _shifted,
    "shifted back by an octet": _shifted_back,
    "shifted by half": lambda size: _shifted(size, size // 2),
    "shifted, then the first again": _shifted_and_again,
    "one octet in all": _with_one_octet,
    "one start, other ends": _growing,
    "from both sides": _from_both_sides,
    "over single octets": _over_octets,
}


def _no_difference(octets: bytearray, _number: int) -> None:
    """A repeat."""


def _first_differs(octets: bytearray, number: int) -> None:
    octets[0] ^= 1 + number % 255


def _last_differs(octets: bytearray, number: int) -> None:
    octets[-1] ^= 1 + number % 255


def _middle_differs(octets: bytearray, number: int) -> None:
    octets[len(octets) // 2] ^= 1 + number % 255


def _all_differ(octets: bytearray, number: int) -> None:
    octets[:] = octets.translate(_others(1 + number % 255))


@cache
def _others(difference: int) -> bytes:
    return bytes(octet ^ difference for octet in range(256))


#: Where the octets of the n-th segment, from 1 on, differ from the stream.
DIFFERENCES: dict[str, Callable[[bytearray, int], None]] = {
    "nowhere": _no_difference,
    "first": _first_differs,
    "middle": _middle_differs,
    "last": _last_differs,
    "all": _all_differ,
}

#: Which checksum the n-th segment has: "right", "wrong" or "zero".
CHECKSUMS: dict[str, Callable[[int], str]] = {
    "right": lambda _: "right",
    "wrong": lambda _: "wrong",
    "zero": lambda _: "zero",
    "wrong first": lambda number: "wrong" if number < 40 else "right",
    "wrong behind": lambda number: "right" if number < 40 else "wrong",
    "every other wrong": lambda number: "wrong" if number % 2 else "right",
}


@cache
def _stream(markers: bool, crc: bool) -> bytes:
    sizes = [900, 1300, 60_000, 16, 4000]
    count = _STREAM // sum(sizes) + 3
    laid = lay_stream([b"\x41\x47" + bytes(size) for size in sizes * count], markers=markers, crc=crc)[0]
    return laid[: _STREAM + (1 << 16)]


def _with_checksum(frame: bytes, checksum: str) -> bytes:
    if checksum == "right":
        return frame
    found = 0 if checksum == "zero" else int.from_bytes(frame[_CHECKSUM : _CHECKSUM + 2], "big") ^ 0x5555
    return frame[:_CHECKSUM] + struct.pack("!H", found) + frame[_CHECKSUM + 2 :]


def conflicting(
    state: str, shape: str, difference: str, checksum: str, size: int, octets: int, *, hole: bool = False
) -> bytes:
    """A capture of ``octets`` octets of overlapping segments of ``size`` octets each, behind a hole if so."""
    opened, frames, markers, crc, acknowledges = STATES[state]
    flow = Flow()
    if opened:
        flow.open()
    if frames == "request":
        flow.say("a", startup_frame("request", m=markers, c=crc).encode())
        flow.at = {**flow.at, "a": 1001 + 20}
    elif opened and not frames:
        flow.at = {"a": 1001, "b": 5001}
    else:
        flow.start(markers=markers, crc=crc, request=bool(frames), reply=bool(frames))
    stream = _stream(markers, crc)
    differ, checksum_of = DIFFERENCES[difference], CHECKSUMS[checksum]
    # What is missing begins with the first FPDU, or behind a little of it.
    left = _HOLE if hole else 0
    brought = 0
    for number, (start, end) in enumerate(SHAPES[shape](size)):
        if brought >= octets:
            break
        start, end = start + left, end + left
        at = start % _STREAM
        payload = bytearray(stream[at : at + end - start])
        if number:
            differ(payload, number)
        flow.put("a", flow.at["a"] + start, bytes(payload))
        flow.frames[-1] = _with_checksum(flow.frames[-1], checksum_of(number))
        brought += len(payload) + _PAYLOAD
        if acknowledges:
            flow.put("b", flow.at["b"], ack=flow.at["a"] + end)
    return file_of(flow.frames)


def every(size: int, octets: int) -> Iterator[tuple[str, Callable[[], bytes]]]:
    """Each combination by name."""
    for state in STATES:
        for shape in SHAPES:
            for difference in DIFFERENCES:
                for checksum in CHECKSUMS:
                    for hole in (False, True):
                        name = f"{state}, {shape}, differing {difference}, {checksum}, {size}{', hole' * hole}"
                        yield name, partial(conflicting, state, shape, difference, checksum, size, octets, hole=hole)
