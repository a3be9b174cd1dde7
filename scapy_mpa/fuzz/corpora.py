"""The messages of baselines and cases one by one, as other fuzzers take them.

* libFuzzer: a folder of files, each an input, here one folder for each kind of message, and a dictionary;
* AFLNet: a folder of files, each all that a client sends on a connection; for ``aflnet-replay`` the same with a length
  (32 bits, in the order of the machine) before each message;
* boofuzz: it has no format for messages; a module that defines its requests, from a file of their fields.

Of messages that are alike but for their numbers one is kept.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from hashlib import sha1
from importlib.resources import files
from itertools import accumulate, chain
from pathlib import Path
from typing import Any

from scapy_mpa.craft.exchange import Exchange, Unit
from scapy_mpa.craft.setup import Setup
from scapy_mpa.errors import FramingError
from scapy_mpa.framing.ddp import header_length, is_tagged
from scapy_mpa.framing.fpdu import decode_fpdu, encode_fpdu
from scapy_mpa.framing.markers import Origin
from scapy_mpa.framing.role import ROLES, Role
from scapy_mpa.framing.startup import KEY_LENGTH, REPLY_KEY, REQUEST_KEY, STARTUP_HEADER_LENGTH
from scapy_mpa.fuzz.case import said
from scapy_mpa.fuzz.recipe import Recipe
from scapy_mpa.fuzz.run import Fuzzer
from scapy_mpa.system.whole import write_whole
from scapy_mpa.tuples import NamedTuple
from scapy_mpa.values.words import plural

#: Octets of a session: AFL takes files up to 1 MiB.
_MOST_OCTETS = 1 << 18
_TAGGED_FIELDS = (("stag", 4), ("to", 8))
_UNTAGGED_FIELDS = (("rsvdulp", 4), ("qn", 4), ("msn", 4), ("mo", 4))
_BOOFUZZ_MODULE = "mpa_messages.py"

#: What a dictionary has of MPA, DDP and RDMAP.
_WORDS = {
    "request_key": REQUEST_KEY,
    "reply_key": REPLY_KEY,
    "flags_m_c": b"\xc0\x01",
    "flags_c": b"\x40\x01",
    "rev_2_s": b"\x50\x02",
    "pd_length_512": b"\x02\x00",
    "pd_length_513": b"\x02\x01",
    "longest_ulpdu": b"\xfd\x00",
    "rtr_write": b"\x00\x0e\xc1\x40",
    "send": b"\x41\x43",
    "write": b"\xc1\x40",
    "read_request": b"\x41\x41",
    "read_response": b"\xc1\x42",
    "terminate": b"\x41\x47",
    "marker_512": b"\x00\x00\x01\xfc",
}

_README = """\
# Seeds for other fuzzers

Messages of MPA (RFC 5044), written by `scapy-mpa fuzz --split`.

* `libfuzzer/KIND`: one input per file. `request`, `reply`: a startup frame; `fpdu`: an FPDU without Markers; `ulpdu`:
  what it carries; `stream`: all that one side sends, startup frame and Markers included.
  `./target -dict=libfuzzer/mpa.dict libfuzzer/fpdu`
* `aflnet/raw`: what an Initiator sends on one connection, a file each: `afl-fuzz -i aflnet/raw -x aflnet/mpa.dict -N
  tcp://127.0.0.1/PORT -P ...`. AFLNet cuts them into messages by a function of its own for each protocol, and has none
  for MPA: a startup frame has 20 octets and as many as its octets 18 and 19 say; an FPDU has ULPDU_Length + 6, rounded
  up to a multiple of four, and four for every 512th octet of Full Operation where Markers are in use.
* `aflnet/replay`: the same for `aflnet-replay FILE PROTOCOL PORT`, a length of four octets, little-endian, before each
  message.
* `boofuzz`: `mpa_messages.py` defines requests out of `messages.json`; it needs the packages boofuzz and crc32c.
"""


class Session(NamedTuple):
    """The octets that one side sent on a connection: its startup frame and FPDUs."""

    name: str
    role: Role
    markers: bool
    crc: bool
    origin: Origin
    messages: tuple[Unit, ...]

    def ulpdu(self, unit: Unit) -> bytes | None:
        """Return the content of an FPDU; None for a startup frame, and for what cannot be read."""
        if unit.offset is None:
            return None
        try:
            found = decode_fpdu(unit.octets, unit.offset if self.markers else None, check_crc=False)
        except FramingError:  # it begins in what should be a Marker
            return None
        return found and found.ulpdu

    def encoded(self, unit: Unit, ulpdu: bytes) -> bytes:
        """The FPDU of a ULPDU in the place of a unit, as it should be."""
        place = unit.offset if self.markers else None
        return encode_fpdu(ulpdu, place, origin=self.origin, crc=self.crc, allow_oversize=True)


def write_corpora(folder: Path, fuzzer: Fuzzer, numbers: Iterable[int] = ()) -> str:
    """Write the messages of all baselines of a fuzzer, and of its cases of these numbers, into a folder.

    Returns what was written, in words. Raises OSError.
    """
    exchanges = fuzzer.baselines.exchanges()
    # Captures in different folders may have one name.
    names = [f"{index:03}-{_file_name(one.source)}-{one.connection}" for index, one in enumerate(exchanges)]
    recipes = chain(
        ((name, Recipe(0, 0, one)) for name, one in zip(names, exchanges, strict=True)),
        ((f"case-{number:06}", fuzzer.recipe(number)) for number in numbers),
    )
    sessions = [session for name, one in recipes for session in _sessions(name, said(one)[0])]
    inputs = _write_inputs(folder / "libfuzzer", sessions)
    clients = [one for one in sessions if one.role == "initiator"]
    _write_sessions(folder / "aflnet", clients)
    requests = _write_requests(folder / "boofuzz", sessions)
    for name in ("libfuzzer", "aflnet"):
        write_whole(folder / name / "mpa.dict", _dictionary().encode())
    write_whole(folder / "README.md", _README.encode())
    counted = plural(inputs, "input"), plural(len(clients), "session"), plural(requests, "request")
    return "{} for libFuzzer, {} for AFLNet, {} for boofuzz".format(*counted)


def _file_name(name: str) -> str:
    return "".join(letter if letter.isalnum() or letter in "-." else "_" for letter in Path(name).name)


def _sessions(name: str, exchange: Exchange) -> Iterator[Session]:
    """Yield what either side sent."""
    setup = Setup(**exchange.setup)
    for role in ROLES:
        units = exchange.units(role)
        sizes = accumulate(len(unit.octets) for unit in units)
        messages = tuple(unit for unit, size in zip(units, sizes, strict=True) if unit.octets and size <= _MOST_OCTETS)
        if messages:
            yield Session(name, role, setup.has_markers(role), setup.crc, setup.origin, messages)


# --- libFuzzer ---


def _write_inputs(folder: Path, sessions: Iterable[Session]) -> int:
    """One file an input, called after its digest, as libFuzzer itself calls them."""
    seen: set[tuple[object, ...]] = set()
    count = 0
    for session in sessions:
        for kind, shape, octets in _inputs(session):
            if (kind, shape) in seen:
                continue
            seen.add((kind, shape))
            (folder / kind).mkdir(parents=True, exist_ok=True)
            write_whole(folder / kind / sha1(octets, usedforsecurity=False).hexdigest(), octets)
            count += 1
    return count


def _inputs(session: Session) -> Iterator[tuple[str, object, bytes]]:
    """Kind, shape and octets: of those of one kind and shape one will do."""
    plain = session._replace(markers=False)
    for unit in session.messages:
        if unit.offset is None:
            yield ("reply" if unit.octets.startswith(REPLY_KEY) else "request"), unit.octets, unit.octets
        elif (ulpdu := session.ulpdu(unit)) is not None:
            octets = plain.encoded(unit, ulpdu) if session.markers else unit.octets
            yield "fpdu", (session.crc, *_shape(session, unit, ulpdu)), octets
            yield "ulpdu", _shape(session, unit, ulpdu), ulpdu
    yield "stream", session.name + session.role, b"".join(unit.octets for unit in session.messages)


def _shape(session: Session, unit: Unit, ulpdu: bytes) -> tuple[object, ...]:
    """Return what an FPDU is apart from its numbers: control octets, rough length, PAD, and whether it is valid."""
    size = len(ulpdu)
    return ulpdu[:2], size.bit_length(), size % 4, unit.octets == session.encoded(unit, ulpdu)


def _dictionary() -> str:
    """Words in the form that AFL and libFuzzer have in common."""
    lines = []
    for name, octets in _WORDS.items():
        escaped = "".join(f"\\x{octet:02x}" for octet in octets)
        lines.append(f'{name}="{escaped}"\n')
    return "".join(lines)


# --- AFLNet ---


def _write_sessions(folder: Path, sessions: Iterable[Session]) -> None:
    for form in ("raw", "replay"):
        (folder / form).mkdir(parents=True, exist_ok=True)
    for session in sessions:
        messages = [unit.octets for unit in session.messages]
        write_whole(folder / "raw" / f"{session.name}.raw", b"".join(messages))
        lengths = (len(octets).to_bytes(4, "little") + octets for octets in messages)
        write_whole(folder / "replay" / f"{session.name}.replay", b"".join(lengths))


# --- boofuzz ---


def _write_requests(folder: Path, sessions: Iterable[Session]) -> int:
    """A file of fields, and the module that reads it; sessions that show nothing new are left out."""
    folder.mkdir()
    seen: set[tuple[object, ...]] = set()
    told, count = [], 0
    for session in sessions:
        fpdus = []
        for unit in session.messages:
            if (ulpdu := session.ulpdu(unit)) is None:
                continue
            key = (session.role, session.markers, session.crc, session.origin, *_shape(session, unit, ulpdu))
            if key not in seen:
                seen.add(key)
                fpdus.append({"name": unit.name.replace(" ", "-"), "fields": _fields(ulpdu)})
        startup = session.messages[0].octets if session.messages[0].offset is None else b""
        if len(startup) >= STARTUP_HEADER_LENGTH and fpdus:
            told.append(_told(session, startup, fpdus))
            count += 1 + len(fpdus)
    write_whole(folder / "messages.json", (json.dumps(told, indent=1) + "\n").encode())
    write_whole(folder / _BOOFUZZ_MODULE, (files(__package__) / "for_boofuzz.py").read_bytes())
    return count


def _told(session: Session, startup: bytes, fpdus: list[dict[str, Any]]) -> dict[str, Any]:
    frame = {
        "key": startup[:KEY_LENGTH].hex(),
        "flags": startup[KEY_LENGTH],
        "rev": startup[KEY_LENGTH + 1],
        "private_data": startup[STARTUP_HEADER_LENGTH:].hex(),
    }
    name = f"{session.name}-{session.role}"
    way = {"markers": session.markers, "crc": session.crc, "origin": session.origin}
    return {"name": name, "role": session.role, **way, "startup": frame, "fpdus": fpdus}


def _fields(ulpdu: bytes) -> list[tuple[str, str]]:
    """The fields of a ULPDU, each with its octets; what is too short for a header is one."""
    if len(ulpdu) < header_length(ulpdu):
        return [("payload", ulpdu.hex())]
    fields, at = [], 0
    layout = (("ddp_control", 1), ("rdmap_control", 1), *(_TAGGED_FIELDS if is_tagged(ulpdu) else _UNTAGGED_FIELDS))
    for name, size in layout:
        fields.append((name, ulpdu[at : at + size].hex()))
        at += size
    return [*fields, ("payload", ulpdu[at:].hex())]
