"""Which connection at one tap is which at the other, through a NAT too, and by how much sequence numbers differ."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from ipaddress import ip_address
from typing import NamedTuple, TypeAlias
from zlib import crc32

from scapy_mpa.compare.tap import TapHalf
from scapy_mpa.errors import MPAError
from scapy_mpa.framing.sequence import seq_diff
from scapy_mpa.report.connection import Connection
from scapy_mpa.values.segment import addresses_of, reverse_key

#: An address and a port, as octets.
Endpoint: TypeAlias = tuple[bytes, bytes]
#: Segments that are looked at to find by how much sequence numbers differ, and how many must agree.
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
    """What a NAT makes of addresses: those at the first tap, and what they are at the second."""

    def __init__(self, texts: Iterable[str] = ()) -> None:
        """Read ``A=B`` texts. Raises MPAError for what is none, and for an address that is mapped twice."""
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
    """A connection at both taps, None where one shows no MPA, and its initiator's key at each."""

    connections: tuple[Connection | None, Connection | None]
    keys: tuple[bytes, bytes]


def paired(first: Sequence[Connection], second: Sequence[Connection], mapping: Mapping) -> list[Pair]:
    """The connections of both taps, side by side, in the order of the first; then those of the second alone."""
    by_key: dict[bytes, list[Connection]] = {}
    by_hosts: dict[tuple[bytes, bytes], list[Connection]] = {}
    for one in second:
        by_key.setdefault(one.initiator.key, []).append(one)
        by_hosts.setdefault(addresses_of(one.initiator.key), []).append(one)
    taken: set[int] = set()
    pairs: list[Pair] = []
    for one in first:
        here = endpoints_of(one.initiator.key)
        ends = mapping.of(here[0]), mapping.of(here[1])
        key = _key(ends, here)
        found, turned = None, False
        # Who began is not known of a connection that was captured from the middle on.
        for is_turned, way in ((False, ends), (True, ends[::-1])):
            if None in (ends[0][1], ends[1][1]):
                near = by_hosts.get((way[0][0], way[1][0]), [])
            else:
                near = by_key.get(reverse_key(key) if is_turned else key, [])
            free = [other for other in near if id(other) not in taken and _agree(other, way)]
            found, turned = _best(one, free, is_turned), is_turned
            if found is not None:
                break
        if found is None:
            pairs.append(Pair((one, None), (one.initiator.key, key)))
        else:
            taken.add(id(found))
            there = found.responder.key if turned else found.initiator.key
            pairs.append(Pair((one, found), (one.initiator.key, there)))
    return pairs


#: An endpoint as a mapping leaves it: its port may be any.
_Mapped: TypeAlias = tuple[bytes, "bytes | None"]


def _key(ends: tuple[_Mapped, _Mapped], here: tuple[Endpoint, Endpoint]) -> bytes:
    """The key of mapped endpoints; a port that may be any is left as it is."""
    ports = [port if port is not None else old for (_, port), (_, old) in zip(ends, here, strict=True)]
    return ends[0][0] + ends[1][0] + b"".join(ports)


def _agree(other: Connection, ends: tuple[_Mapped, _Mapped]) -> bool:
    there = endpoints_of(other.initiator.key)
    return all(port is None or port == own for (_, port), (_, own) in zip(ends, there, strict=True))


def _best(one: Connection, others: Sequence[Connection], turned: bool) -> Connection | None:
    """The other one with the same sequence numbers, else with the same port, else the only one or the first."""
    seqs = (one.initiator.seq_start, one.responder.seq_start)
    for other in others:
        theirs = (other.initiator.seq_start, other.responder.seq_start)
        if None not in seqs and (theirs[::-1] if turned else theirs) == seqs:
            return other
    for other in others:
        key = other.responder.key if turned else other.initiator.key
        if key[-4:] == one.initiator.key[-4:]:
            return other
    return others[0] if others else None


def shift_of(sent: TapHalf, received: TapHalf) -> int | None:
    """By how much sequence numbers are higher at the second tap; None if nothing says that octets are the same.

    The SYNs say it; without both, payloads that are the same.
    """
    if sent.base is None or received.base is None:
        return None
    if sent.isn is not None and received.isn is not None:
        return seq_diff(received.isn, sent.isn)
    there: dict[tuple[int, int], int] = {}
    for index in range(min(len(received), _VOTERS)):
        if received.kept[index] >= _TELLING:
            octets = received.octets(index)
            there.setdefault((len(octets), crc32(octets)), (received.base + received.starts[index]) & 0xFFFFFFFF)
    votes: dict[int, int] = {}
    for index in range(min(len(sent), _VOTERS)):
        if sent.kept[index] >= _TELLING:
            octets = sent.octets(index)
            seq = there.get((len(octets), crc32(octets)))
            if seq is not None:
                shift = seq_diff(seq, (sent.base + sent.starts[index]) & 0xFFFFFFFF)
                votes[shift] = votes.get(shift, 0) + 1
    best = max(votes, key=lambda shift: (votes[shift], -abs(shift)), default=0)
    if best and votes[best] >= _ENOUGH and votes[best] > 2 * votes.get(0, 0):
        return best
    # Unchanged numbers are the rule, where the ranges meet.
    return 0 if _meet(sent, received) else None


def _meet(sent: TapHalf, received: TapHalf) -> bool:
    """Whether some sequence numbers were captured at both taps."""
    if not len(sent) or not len(received):
        return True
    assert sent.base is not None and received.base is not None
    delta = seq_diff(received.base, sent.base)
    low, high = min(sent.starts), max(sent.starts)
    first, last = min(received.starts) + delta, max(received.starts) + delta
    return first <= high + (1 << 16) and low <= last + (1 << 16)
