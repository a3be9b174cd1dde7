"""A case as a program of its own, for a bug report: it sends the same octets to a peer, by a plain socket.

The steps are those of a script (``probe/script.py``), those of the messages of a fuzzed case, or what a side sent on a
recorded connection. The program needs Python alone, and nothing of this package.
"""

from __future__ import annotations

import base64
import io
import textwrap
import zlib
from collections.abc import Iterable, Iterator
from dataclasses import replace
from typing import Literal, TypeAlias

from scapy_mpa.capture.files import Captures
from scapy_mpa.catalogue.case import clause_of
from scapy_mpa.craft.sent import Repairable
from scapy_mpa.errors import MPAError
from scapy_mpa.framing.role import Role
from scapy_mpa.framing.startup import REPLY_KEY, REQUEST_KEY
from scapy_mpa.probe.aim import aim, needs_memory
from scapy_mpa.probe.case import ProbeCase
from scapy_mpa.probe.fitting import Clean, plan_of
from scapy_mpa.probe.judge import expected_words
from scapy_mpa.probe.script import Await, Finish, Step, script_of
from scapy_mpa.system.names import printable
from scapy_mpa.tuples import NamedTuple
from scapy_mpa.values.segment import ACK_FLAG, FIN, RST, SYN, Segment
from scapy_mpa.values.words import plural
from scapy_mpa.version import __version__

#: Octets of a segment that are written in hexadecimal; more are compressed, so that a program fits on two screens.
_MOST_IN_HEX = 512
_WIDTH = 112


class SentOctets(NamedTuple):
    """What is sent by one write, and what it is called in the program, "" for its length alone."""

    octets: bytes
    name: str = ""


Act: TypeAlias = "SentOctets | Await | Finish"


def reproducer(title: str, notes: Iterable[str], by: Role, acts: Iterable[Act], timeout: float = 2.0) -> str:
    """Return the source of a program that does what a side does: connects as Initiator, or listens as Responder.

    Args:
        title: what it reproduces, in a line.
        notes: further lines for people, such as the clause and what a conforming peer does.
        by: the side that it plays.
        acts: what that side does, in order.
        timeout: seconds for each answer of the peer.
    """
    text = "\n\n".join("\n".join(textwrap.wrap(_plain(part), 100)) for part in (title, " ".join(notes)) if part)
    peer = _CONNECTS if by == "initiator" else _LISTENS
    steps = "".join(map(_source_of, acts))
    return _PROGRAM.format(text=text, version=__version__, timeout=timeout, steps=steps, peer=peer)


def case_reproducer(case: ProbeCase, left: Repairable | None = None, recorded: bytes | None = None) -> str:
    """Return the program of a case of the catalogue, or of a conformant one.

    Args:
        case: which.
        left: what the case leaves as it was, of CRC and lengths.
        recorded: the capture of a connection on which it was given, whose octets are sent then; None: those that the
            case has for a peer that agrees as that of the catalogue does.

    Raises:
        MPAError: A socket cannot send it.
    """
    if case.reach.carriage != "tcp":
        raise MPAError(f"{case.name} cannot be sent over the kernel's TCP: {case.reach.why}")
    by = case.case.by
    if recorded is None:
        plan = plan_of(case.case, Clean(), left)
        if not needs_memory(plan):
            # Nothing is known of the peer's memory.
            aim(plan, None)
        steps = script_of(plan.sent(), by)
        acts = acts_of(step for step in steps if case.case.ends_by_itself or not isinstance(step, Finish))
    else:
        acts = recorded_acts(recorded, by, ends=case.case.ends_by_itself)
    clause, sent = clause_of(case.case), replace(case.case, peer=case.case.outcome(left).peer)
    notes = [f"{clause}: " * bool(clause) + f"what a conforming peer does: {expected_words(sent)}."]
    return reproducer(f"{case.name}: {case.case.purpose}.", notes, by, acts)


def acts_of(steps: Iterable[Step]) -> list[Act]:
    """Return the acts of a script."""
    return [step if isinstance(step, (Await, Finish)) else SentOctets(step.octets) for step in steps]


def message_acts(messages: Iterable[SentOctets], by: Role) -> list[Act]:
    """Return the acts of a side that sends its startup frame, waits for the peer, and sends the rest."""
    first, *rest = messages
    if by == "initiator":
        return [first, Await("startup"), *rest]
    return [Await("startup"), first, Await("fpdu"), *rest]


def recorded_acts(capture: bytes, by: Role, *, ends: bool) -> list[Act]:
    """Return what a side did on the one connection of a recording; its FIN only if it ``ends`` the connection."""
    acts: list[Act] = []
    waits: list[Literal["startup", "fpdu"]] = ["startup"] if by == "initiator" else ["startup", "fpdu"]
    has_heard = False
    for seg, is_own in _of_sides(capture, by):
        octets = bytes(seg.buffer[seg.start : seg.end])
        has_heard = has_heard or (bool(octets) and not is_own)
        if is_own and octets:
            if has_heard and waits:
                acts.append(Await(waits.pop(0)))
            has_heard = False
            acts.append(SentOctets(octets))
        if is_own and (seg.flags & RST or (ends and seg.flags & FIN)):
            acts.append(Finish("rst" if seg.flags & RST else "fin"))
    return acts


def _of_sides(capture: bytes, by: Role) -> Iterator[tuple[Segment, bool]]:
    """The segments of a recording up to the peer's end, each with whether the side sent it."""
    own = b""
    with Captures(io.BytesIO(capture)) as captures:
        for seg in (seg for batch in captures.batches() for seg in batch):
            if seg.flags & SYN:
                own = seg.key if bool(seg.flags & ACK_FLAG) == (by == "responder") else own
            elif seg.key != own and seg.flags & (FIN | RST):
                return
            else:
                yield seg, seg.key == own


def _plain(text: str) -> str:
    """Text that may stand in a docstring."""
    return printable(text).replace("\\", "/").replace('"""', "'''")


def _source_of(act: Act) -> str:
    if isinstance(act, Await):
        return f'    ("await", "{act.what}"),\n'
    if isinstance(act, Finish):
        return f'    ("end", "{act.how}"),\n'
    octets = act.octets
    name = act.name or {REQUEST_KEY: "MPA Request", REPLY_KEY: "MPA Reply"}.get(octets[: len(REQUEST_KEY)], "")
    kind, text = "send", octets.hex()
    if len(octets) > _MOST_IN_HEX:
        packed = base64.b85encode(zlib.compress(octets, 9)).decode()
        kind, text = "unpack and send", packed
    lines = [text[at : at + _WIDTH] for at in range(0, len(text), _WIDTH)]
    written = f'"{text}"' if len(lines) < 2 else '"""\n{}\n    """'.format("\n".join(lines))
    comment = f"    # {plural(len(octets), 'octet')}{': ' * bool(name)}{_plain(name)}\n"
    return f'{comment}    ("{kind}", {written}),\n'


_CONNECTS = """try:
    peer = socket.create_connection((host, port), TIMEOUT)
except OSError as error:
    sys.exit(f"{host} port {port}: {error}")
talk(peer)"""
_LISTENS = """family = socket.AF_INET6 if ":" in host else socket.AF_INET
with socket.create_server((host, port), family=family) as listener:
    print("waiting for an Initiator", flush=True)
    with listener.accept()[0] as peer:
        talk(peer)"""

_PROGRAM = '''#!/usr/bin/env python3
"""{text}

Made by scapy-mpa {version}. It needs Python 3 alone.
"""

import base64
import socket
import struct
import sys
import time
import zlib

TIMEOUT = {timeout:g}  # seconds to connect, and for each answer
STEPS = [
{steps}]


def receive(peer, came, enough):
    """Read until ``enough(came)`` octets are there; False if the peer ends the connection or TIMEOUT passes."""
    until = time.monotonic() + TIMEOUT
    while len(came) < enough(came):
        peer.settimeout(max(until - time.monotonic(), 0.001))
        try:
            octets = peer.recv(65536)
        except socket.timeout:
            return False
        if not octets or time.monotonic() > until:
            return False
        came += octets
    return True


def frame_length(came):
    """Octets of the peer's startup frame."""
    return 20 + (int.from_bytes(came[18:20], "big") if len(came) >= 20 else 0)


def talk(peer):
    peer.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    came = bytearray()
    try:
        for kind, value in STEPS:
            if kind == "await":
                # An FPDU is what follows the startup frame.
                if not receive(peer, came, lambda all: frame_length(all) + (value == "fpdu")):
                    print(f"the peer sent no {{value}}")
            elif kind == "end" and value == "rst":
                peer.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            elif kind == "end":
                peer.shutdown(socket.SHUT_WR)
            else:
                text = "".join(value.split())
                octets = bytes.fromhex(text) if kind == "send" else zlib.decompress(base64.b85decode(text))
                peer.sendall(octets)
                print(f"sent {{len(octets)}} octets")
        if STEPS[-1:] != [("end", "rst")]:
            receive(peer, came, lambda all: len(all) + 1)
    except OSError as error:
        print(f"the connection is over: {{error}}")
    print(f"received {{len(came)}} octets: {{came.hex()}}")


if len(sys.argv) != 3:
    sys.exit(f"usage: {{sys.argv[0]}} HOST PORT")
host, port = sys.argv[1], int(sys.argv[2])
{peer}
'''
