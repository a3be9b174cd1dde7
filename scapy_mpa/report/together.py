"""What connections of the same hosts show together: ends within a short time, and use of buffers that nobody offered.

Nothing is remembered for that while the capture is read: the connections are available anyway.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Sequence
from operator import itemgetter
from typing import Final

from scapy_mpa.framing.role import ROLES, Role, peer_of
from scapy_mpa.report.connection import Connection
from scapy_mpa.rules.findings import Findings
from scapy_mpa.values.segment import addresses_of
from scapy_mpa.values.words import plural
from scapy_mpa.watches.startup import FEWEST_OF_AN_ADDRESS

#: Nanoseconds within which ends may have one cause: as long as the RTO after a lost segment at first (RFC 6298 §2.1).
SHORT_TIME: Final = 1_000_000_000
#: This many others are named, the nearest in time.
MOST_NAMED: Final = 3
#: (layer, error type) of Terminates for a buffer that was not offered (RFC 5040 §4.8, RFC 5041 §7.2), and the error
#: among them that is about the DDP version.
_OF_BUFFERS, _OF_VERSION = ((0, 1), (1, 1)), (1, 1, 4)
_READ_RESPONSE = 2
_NANOSECONDS = 1_000_000_000


def mark_ended_together(connections: Sequence[Connection]) -> None:
    """Have connections name others of the same two hosts that were reset or terminated within SHORT_TIME.

    One that was reset before its work was done names the last one, too, that was closed within that time before it: a
    program that ends, or is killed, closes all that it has.
    """
    ends: dict[frozenset[bytes], list[tuple[int, Connection]]] = {}
    for one in connections:
        if _is_broken(one):
            ends.setdefault(_hosts(one), []).append((one.lifecycle.ended_time, one))
    closed: dict[frozenset[bytes], list[tuple[int, Connection]]] = {}
    for one in connections if ends else ():
        if one.lifecycle.ended == "fin" and not _is_broken(one) and _hosts(one) in ends:
            closed.setdefault(_hosts(one), []).append((one.lifecycle.ended_time, one))
    for hosts, some in ends.items():
        some.sort(key=itemgetter(0))
        times = [time for time, _ in some]
        ended = sorted(closed.get(hosts, ()), key=itemgetter(0))
        for index, (time, one) in enumerate(some):
            first, last = bisect_left(times, time - SHORT_TIME), bisect_right(times, time + SHORT_TIME)
            near = some[max(first, index - MOST_NAMED) : min(last, index + MOST_NAMED + 1)]
            others = sorted((other for other in near if other[1] is not one), key=lambda other: abs(other[0] - time))
            one.ended_with = _words(time, others[:MOST_NAMED], last - first - 1)
            if one.lifecycle.reset_by is not None and one.lifecycle.is_unfinished:
                before = bisect_left(ended, time, key=itemgetter(0))
                if before and ended[before - 1][0] >= time - SHORT_TIME:
                    one.ended_after = _closed_before(time, *ended[before - 1])


def _hosts(connection: Connection) -> frozenset[bytes]:
    return frozenset(addresses_of(connection.initiator.key))


def _is_broken(connection: Connection) -> bool:
    """Return True if a connection ended by a Terminate or a RST, or by a FIN, and a RST before all was acknowledged."""
    life = connection.lifecycle
    return life.ended in ("terminate", "rst") or (life.ended == "fin" and life.is_unfinished)


def _closed_before(time: int, at: int, closed: Connection) -> str:
    """Name the connection that was closed before one broke off."""
    life = closed.lifecycle
    assert life.ended_by is not None
    by = f"closed by its {life.ended_by.capitalize()} (FIN, frame {life.ended_frame})"
    return f"{_seconds(time - at)} earlier #{closed.number} of the same hosts had been {by}"


def _words(time: int, others: Sequence[tuple[int, Connection]], count: int) -> str:
    """Name other connections by when they ended, of ``count`` in all; "" if there are none."""
    named = []
    for at, one in others:
        how = "terminated" if one.lifecycle.ended == "terminate" else "reset"
        named.append(f"#{one.number} was {how} {_apart(time, at)}")
    if count > len(others):
        named[-1] += f", and {count - len(others)} more"
    return f"also of these hosts: {', '.join(named)}" if named else ""


def _apart(time: int, at: int) -> str:
    return f"{_seconds(abs(at - time))} {'later' if at >= time else 'earlier'}"


def _seconds(nanoseconds: int) -> str:
    return f"{nanoseconds / _NANOSECONDS:.3f} s"


def report_buffers_not_offered(connections: Sequence[Connection], findings: Findings) -> None:
    """Report hosts most of whose connections end as they name a buffer that their peer did not offer."""
    speaking: dict[bytes, int] = {}
    ended: dict[bytes, list[tuple[Connection, Role]]] = {}
    for one in connections:
        if one.lifecycle.initiator.terminated is not None or one.lifecycle.responder.terminated is not None:
            for role, host in _named_no_buffer(one):
                ended.setdefault(host, []).append((one, role))
    for one in connections if ended else ():
        for role, host in zip(ROLES, addresses_of(one.initiator.key), strict=True):
            speaking[host] = speaking.get(host, 0) + bool(one.half(role).counts.fpdus)
    for host, some in ended.items():
        if len(some) < FEWEST_OF_AN_ADDRESS or 2 * len(some) <= speaking[host]:
            continue
        places = sorted((one.lifecycle.ended_frame or 0, one.lifecycle.ended_time) for one, _ in some)
        first, role = some[0]
        address = first.half(role).endpoint.rpartition(":")[0].strip("[]")
        detail = f"{plural(len(some), 'connection')} of {address}, each ended by a Terminate about a buffer it named"
        seq = first.half(role).seq_start or 0
        findings.add("attack-buffer", None, *places[0], seq, detail, count=len(some), last_frame=places[-1][0])


def _named_no_buffer(connection: Connection) -> Iterator[tuple[Role, bytes]]:
    """Yield the side, and its address, that a Terminate of its peer says named a buffer which was not offered."""
    life = connection.lifecycle
    for role, host in zip(ROLES, addresses_of(connection.initiator.key), strict=True):
        found = life.half(peer_of(role)).terminated
        said = found.said if found is not None else None
        if found is None or said is None or said[:3] == _OF_VERSION or said[:2] not in _OF_BUFFERS:
            continue
        if found.header is None or found.header.opcode != _READ_RESPONSE:
            yield role, host
