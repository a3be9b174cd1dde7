"""Which connection at one tap is which at the other, also through a NAT, and by how much sequence numbers differ."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from ipaddress import ip_address
from typing import TypeAlias
from zlib import crc32

from scapy_mpa.compare.tap import TapHalf
from scapy_mpa.errors import MPAError
from scapy_mpa.framing.sequence import seq_diff
from scapy_mpa.report.connection import Connection
from scapy_mpa.tuples import NamedTuple
from scapy_mpa.values.segment import addresses_of, endpoints, reverse_key

#: An address and a port, as octets.
Endpoint: TypeAlias = tuple[bytes, bytes]
#: Segments that are examined to find by how much sequence numbers differ, and how many must agree.
_VOTERS, _ENOUGH = 4096, 3
#: Shorter payloads are often the same by chance.
_TELLING = 24


def endpoints_of(key: bytes) -> tuple[Endpoint, Endpoint]:
    """Source and destination of a key."""
    source, destination = addresses_of(key)
    return (source, key[-4:-2]), (destination, key[-2:])


def _parse(text: str, whole: str) -> tuple[bytes, bytes | None]:
    """An address with or without a port: ``192.0.2.1``, ``192.0.2.1:4000``, ``2001:db8::1``, ``[2001:db8::1]:4000``."""
    host, port = text, ""
    if text.startswith("["):
        host, _, rest = text[1:].partition("]")
        port = rest.removeprefix(":")
        is_well = not rest or (rest.startswith(":") and bool(port))
    elif text.count(":") == 1:
        host, _, port = text.partition(":")
        is_well = bool(port)
    else:
        is_well = True
    try:
        if not is_well or (port and not (port.isascii() and port.isdigit() and int(port) < 1 << 16)):
            raise ValueError
        return ip_address(host).packed, int(port).to_bytes(2, "big") if port else None
    except ValueError:
        raise MPAError(
            f"{whole!r} is not a mapping such as 10.0.0.1=192.0.2.9 or 10.0.0.1:4000=192.0.2.9:6000"
        ) from None


class Mapping:
    """How a NAT maps addresses: those at the first tap, and those at the second."""

    def __init__(self, texts: Iterable[str] = ()) -> None:
        """Read ``A=B`` texts. Raises MPAError for an invalid mapping, and for an address that is mapped twice."""
        self._hosts: dict[bytes, bytes] = {}
        self._endpoints: dict[Endpoint, Endpoint] = {}
        for text in texts:
            before, _, after = text.partition("=")
            (host, port), (other, other_port) = _parse(before, text), _parse(after, text)
            if (port is None) != (other_port is None):
                raise MPAError(f"{text!r} names a port on only one side")
            if port is not None and other_port is not None:
                is_twice = (host, port) in self._endpoints
                self._endpoints[host, port] = other, other_port
            else:
                is_twice = host in self._hosts
                self._hosts[host] = other
            if is_twice:
                raise MPAError(f"{before} is mapped twice")

    def of(self, endpoint: Endpoint) -> tuple[bytes, bytes | None]:
        """An endpoint at the second tap; port None where a NAT may have chosen any."""
        if endpoint in self._endpoints:
            return self._endpoints[endpoint]
        host, port = endpoint
        return (self._hosts[host], None) if host in self._hosts else (host, port)


class Pair(NamedTuple):
    """A connection at both taps, None where one shows no MPA, and its initiator's key at each.

    ``is_certain`` is False of one whose ports at the second tap are not known: then octets must show which they are.
    """

    connections: tuple[Connection | None, Connection | None]
    keys: tuple[bytes, bytes]
    is_certain: bool = True

    def name(self, which: int) -> str:
        """Initiator and Responder at a tap; with the path, where two networks have their addresses and ports."""
        one = self.connections[which]
        return " > ".join(endpoints(self.keys[which])) + (one.network if one is not None else "")


def paired(first: Sequence[Connection], second: Sequence[Connection], mapping: Mapping) -> list[Pair]:
    """The connections of both taps, side by side, in the order of the first; then those of the second alone.

    Those with equal sequence numbers are paired before all others, so that none of these takes another's. Without
    them a NAT with free ports leaves a connection alone, for :func:`paired_by_octets`.
    """
    by_key: dict[bytes, list[Connection]] = {}
    by_number: dict[int, list[Connection]] = {}
    for one in second:
        by_key.setdefault(one.initiator.key, []).append(one)
        for number in set().union(*_numbers(one)):
            by_number.setdefault(number, []).append(one)
    taken: set[int] = set()
    pairs: dict[int, Pair] = {}
    for equal in (2, 1, 0):
        for place, one in enumerate(first):
            if place in pairs and pairs[place].connections[1] is not None:
                continue
            here = endpoints_of(one.initiator.key)
            ends = mapping.of(here[0]), mapping.of(here[1])
            key = _key(ends, here)
            is_certain = None not in (ends[0][1], ends[1][1])
            pairs[place] = Pair((one, None), (one.initiator.key, key), is_certain)
            if not is_certain and equal < 2:
                continue
            # Who began is not known about a connection that was captured from the middle on.
            for turned, way in ((False, ends), (True, ends[::-1])):
                near = by_key.get(reverse_key(key) if turned else key, [])
                if not is_certain:
                    near = [other for number in set().union(*_numbers(one)) for other in by_number.get(number, [])]
                free = (other for other in near if id(other) not in taken and _agree(other, way))
                found = next((other for other in free if _equal_numbers(one, other, turned) >= equal), None)
                if found is not None:
                    taken.add(id(found))
                    there = found.responder.key if turned else found.initiator.key
                    pairs[place] = Pair((one, found), (one.initiator.key, there))
                    break
    pairs_of_first = [pairs[place] for place in range(len(first))]
    # A Mapping leads from the first capture to the second alone: what only the second shows as MPA has no name before
    # a NAT, so it is looked for by its own.
    alone = [Pair((None, one), (one.initiator.key, one.initiator.key)) for one in second if id(one) not in taken]
    return pairs_of_first + alone


#: The halves of each pair at one tap.
_Halves: TypeAlias = "Sequence[tuple[TapHalf, TapHalf]]"


def paired_by_octets(
    pairs: Sequence[Pair], first: _Halves, second: _Halves, mapping: Mapping
) -> dict[int, tuple[int, bool]]:
    """Pair connections of the first tap whose ports at the second are not known with those of the second alone.

    Returns:
        Indices in ``pairs`` of the former; to each that of the latter, and True if that has the Initiator for the
        Responder.
    """
    holders: dict[tuple[int, int], set[tuple[int, int]]] = {}
    for number, pair in enumerate(pairs):
        for side, half in enumerate(second[number] if pair.connections[0] is None else ()):
            for payload, _ in _telling(half):
                holders.setdefault(payload, set()).add((number, side))
    found: list[tuple[int, int, int, bool]] = []
    for number, pair in enumerate(pairs):
        if pair.is_certain:
            continue
        here = endpoints_of(pair.keys[0])
        ends = mapping.of(here[0]), mapping.of(here[1])
        votes: Counter[tuple[int, bool]] = Counter()
        for side, half in enumerate(first[number]):
            for payload in {payload for payload, _ in _telling(half)}:
                votes.update((other, side != there) for other, there in holders.get(payload, ()))
        for (other, turned), count in votes.items():
            connection = pairs[other].connections[1]
            assert connection is not None
            if _agree(connection, ends[::-1] if turned else ends):
                found.append((-count, number, other, turned))
    chosen: dict[int, tuple[int, bool]] = {}
    for _, number, other, turned in sorted(found):
        there = second[other][::-1] if turned else second[other]
        is_free = number not in chosen and all(other != taken for taken, _ in chosen.values())
        if is_free and have_same_octets(first[number], there):
            chosen[number] = other, turned
    return chosen


#: An endpoint as a mapping leaves it: its port may be any.
_Mapped: TypeAlias = tuple[bytes, "bytes | None"]


def _key(ends: tuple[_Mapped, _Mapped], here: tuple[Endpoint, Endpoint]) -> bytes:
    """The key of mapped endpoints; a port that may be any is left as it is."""
    ports = [port if port is not None else old for (_, port), (_, old) in zip(ends, here, strict=True)]
    return ends[0][0] + ends[1][0] + b"".join(ports)


def _agree(other: Connection, ends: tuple[_Mapped, _Mapped]) -> bool:
    there = endpoints_of(other.initiator.key)
    return all(host == own[0] and port in (None, own[1]) for (host, port), own in zip(ends, there, strict=True))


def _equal_numbers(one: Connection, other: Connection, turned: bool) -> int:
    """Return in how many directions startup frame or Full Operation begin at the same sequence number at both taps."""
    theirs = _numbers(other)
    return sum(bool(a & b) for a, b in zip(_numbers(one), theirs[::-1] if turned else theirs, strict=True))


def _numbers(one: Connection) -> tuple[set[int], set[int]]:
    sides = (one.initiator.seq_start, one.request_seq), (one.responder.seq_start, one.reply_seq)
    mine, theirs = ({seq for seq in side if seq is not None} for side in sides)
    return mine, theirs


def shift_of(sent: TapHalf, received: TapHalf) -> int | None:
    """Return by how much sequence numbers are higher at the second tap; None if nothing shows equal octets.

    The SYNs say it; without both, payloads that are the same.
    """
    if sent.base is None or received.base is None:
        return None
    if sent.isn is not None and received.isn is not None:
        return seq_diff(received.isn, sent.isn)
    there: dict[tuple[int, int], int] = {}
    for payload, index in _telling(received):
        there.setdefault(payload, (received.base + received.starts[index]) & 0xFFFFFFFF)
    votes: dict[int, int] = {}
    for payload, index in _telling(sent):
        if payload in there:
            shift = seq_diff(there[payload], (sent.base + sent.starts[index]) & 0xFFFFFFFF)
            votes[shift] = votes.get(shift, 0) + 1
    best = max(votes, key=lambda shift: (votes[shift], -abs(shift)), default=0)
    if best and votes[best] >= _ENOUGH and votes[best] > 2 * votes.get(0, 0):
        return best
    # Unchanged numbers are the rule, where the ranges meet.
    return 0 if _meet(sent, received) else None


def _telling(half: TapHalf) -> Iterator[tuple[tuple[int, int], int]]:
    """Yield length and checksum of payloads that are hardly the same by chance, each with the index of its segment."""
    for index in range(min(len(half), _VOTERS)):
        if half.kept[index] >= _TELLING:
            octets = half.octets(index)
            yield (len(octets), crc32(octets)), index


def have_same_octets(first: tuple[TapHalf, TapHalf], second: tuple[TapHalf, TapHalf]) -> bool:
    """Return True if more segments at the same place of the streams have the same octets at both taps than others."""
    return sum(map(_same_segments, first, second)) > 0


def _same_segments(sent: TapHalf, received: TapHalf) -> int:
    shift = shift_of(sent, received)
    if shift is None or sent.base is None or received.base is None:
        return 0
    moved = seq_diff(received.base, (sent.base + shift) & 0xFFFFFFFF)
    there = {(received.starts[one] + moved, received.lengths[one]): one for one in range(min(len(received), _VOTERS))}
    found = 0
    for index in range(min(len(sent), _VOTERS)):
        other = there.get((sent.starts[index], sent.lengths[index]))
        kept = min(sent.kept[index], received.kept[other]) if other is not None else 0
        if other is not None and kept >= _TELLING:
            found += 1 if sent.octets(index, 0, kept) == received.octets(other, 0, kept) else -1
    return found


def _meet(sent: TapHalf, received: TapHalf) -> bool:
    """Return True if some sequence numbers were captured at both taps."""
    if not len(sent) or not len(received):
        return True
    assert sent.base is not None and received.base is not None
    delta = seq_diff(received.base, sent.base)
    low, high = min(sent.starts), max(sent.starts)
    first, last = min(received.starts) + delta, max(received.starts) + delta
    return first <= high + (1 << 16) and low <= last + (1 << 16)
