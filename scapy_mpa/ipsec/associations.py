"""Security associations from the file in which Wireshark keeps them (``esp_sa``), and which of them a packet is of.

A line is one association, its fields in quotes: protocol, source, destination, SPI, encryption algorithm and key,
integrity algorithm and key; newer versions add the length of sequence numbers and the high half of the first:

    "IPv4","10.0.0.1","10.0.0.2","0x00001001","AES-CBC [RFC3602]","0x00..","HMAC-SHA-256-128 [RFC4868]","0x00.."

An address may be ``*`` or a network such as 10.0.0.0/8; an SPI may end in ``*``, which stands for any digits.
"""

from __future__ import annotations

import csv
import os
import re
from collections.abc import Sequence
from ipaddress import IPv4Network, IPv6Network, ip_network
from typing import Final

from scapy_mpa.errors import MPAError
from scapy_mpa.ipsec.algorithms import ENCRYPTIONS, INTEGRITIES
from scapy_mpa.system.names import printable
from scapy_mpa.tuples import NamedTuple

#: Octets of the largest file, and associations in it.
_LARGEST_FILE: Final = 4 << 20
_MOST: Final = 10_000
#: Pairs of addresses and SPI whose association is remembered.
_MOST_REMEMBERED: Final = 4096
_FIELDS, _FIELDS_WITH_ESN = 8, 10
_NETWORKS: Final[dict[str, IPv4Network | IPv6Network]] = {"IPv4": IPv4Network("0.0.0.0/0"), "IPv6": IPv6Network("::/0")}
_SEQUENCE_LENGTHS: Final = {"32-bit": False, "64-bit": True}


class Association(NamedTuple):
    """One security association (RFC 4301 §4.4.2).

    Attributes:
        source: the addresses of senders.
        destination: the addresses of receivers.
        spi: a pattern for the eight hexadecimal digits of its Security Parameters Index.
        encryption: a name of :data:`~scapy_mpa.ipsec.algorithms.ENCRYPTIONS`.
        key: its key, the salt at its end.
        integrity: a name of :data:`~scapy_mpa.ipsec.algorithms.INTEGRITIES`.
        integrity_key: its key.
        extended: whether sequence numbers have 64 bits (RFC 4303 §2.2.1).
        high: the high 32 bits of the first.
    """

    source: IPv4Network | IPv6Network
    destination: IPv4Network | IPv6Network
    spi: str
    encryption: str
    key: bytes
    integrity: str
    integrity_key: bytes
    extended: bool = False
    high: int = 0

    def is_for(self, addresses: bytes, spi: int) -> bool:
        """Return True if a packet with these addresses (source, destination) and this SPI is of this association."""
        size = len(addresses) // 2
        return (
            size == self.source.max_prefixlen // 8
            and re.fullmatch(self.spi, f"{spi:08x}") is not None
            and _holds(self.source, addresses[:size])
            and _holds(self.destination, addresses[size:])
        )


class Associations:
    """The associations of a file, in its order."""

    def __init__(self, of: Sequence[Association], lines: Sequence[str] = ()) -> None:
        self.all = tuple(of)
        #: The lines of the file that they were read from.
        self.lines = tuple(lines)
        self._known: dict[tuple[bytes, int], int | None] = {}

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> Associations:
        """Read a file.

        Raises :class:`~scapy_mpa.errors.MPAError` if it cannot be read or understood, or without ``cryptography``.
        """
        name = printable(os.fspath(path))
        try:
            import cryptography  # noqa: F401
        except ImportError as error:
            raise MPAError("ESP needs cryptography: pip install 'scapy-mpa[ipsec]'") from error
        try:
            with open(path, "rb") as file:
                octets = file.read(_LARGEST_FILE + 1)
            if len(octets) > _LARGEST_FILE:
                raise MPAError(f"{name}: longer than {_LARGEST_FILE} octets: not a file of security associations")
            text = octets.decode()
        except UnicodeDecodeError as error:
            raise MPAError(f"{name}: not a text file: a file of security associations has one per line") from error
        except (OSError, ValueError) as error:
            raise MPAError(f"{name}: {getattr(error, 'strerror', None) or error}") from error
        lines = [(number, line) for number, line in enumerate(text.splitlines(), 1) if _is_one(line)]
        if not 0 < len(lines) <= _MOST:
            raise MPAError(f"{name}: {len(lines)} security associations; there must be 1 to {_MOST}, one per line")
        return cls([_parsed(line, f"{name}: line {number}") for number, line in lines], [line for _, line in lines])

    def index_of(self, addresses: bytes, spi: int) -> int | None:
        """Return the first association that fits a packet with these addresses and this SPI; None if none does."""
        asked = addresses, spi
        if asked not in self._known:
            if len(self._known) >= _MOST_REMEMBERED:
                self._known.clear()
            fitting = (index for index, one in enumerate(self.all) if one.is_for(addresses, spi))
            self._known[asked] = next(fitting, None)
        return self._known[asked]


def as_associations(given: Associations | str | os.PathLike[str] | None) -> Associations | None:
    """Associations, from their file if that is what is given; raises as :meth:`Associations.load` does."""
    return given if given is None or isinstance(given, Associations) else Associations.load(given)


def line_of(association: Association) -> str:
    """An association as a line of the file; the SPI must be one."""
    protocol = "IPv4" if association.source.version == 4 else "IPv6"
    fields = (
        protocol,
        _address_text(association.source),
        _address_text(association.destination),
        f"0x{association.spi}",
        association.encryption,
        _key_text(association.key),
        association.integrity,
        _key_text(association.integrity_key),
    )
    return ",".join(f'"{field}"' for field in fields)


def _is_one(line: str) -> bool:
    """Return True if a line of the file holds an association."""
    return bool(line.strip()) and not line.lstrip().startswith("#")


def _parsed(line: str, where: str) -> Association:
    try:
        (fields,) = csv.reader((line,), skipinitialspace=True, strict=True)
        return _association([_unescaped(field) for field in fields])
    except (ValueError, csv.Error) as error:
        raise MPAError(f"{where}: {error}") from error


def _association(fields: list[str]) -> Association:
    """Raises ValueError for an invalid one."""
    if len(fields) not in (_FIELDS, _FIELDS_WITH_ESN):
        raise ValueError(f"{len(fields)} fields; a security association has {_FIELDS} or {_FIELDS_WITH_ESN}")
    protocol, source, destination, spi, encryption, key_text, integrity, integrity_key = fields[:_FIELDS]
    if protocol not in _NETWORKS:
        raise ValueError(f"{printable(protocol)!r} is neither IPv4 nor IPv6")
    if encryption not in ENCRYPTIONS:
        raise ValueError(
            f"encryption {printable(encryption)!r} is not supported; supported are {', '.join(ENCRYPTIONS)}"
        )
    if integrity not in INTEGRITIES:
        raise ValueError(
            f"authentication {printable(integrity)!r} is not supported; supported are {', '.join(INTEGRITIES)}"
        )
    key, lengths = _key(key_text), ENCRYPTIONS[encryption].key_lengths
    if lengths and len(key) not in lengths:
        known = f"{lengths[0]} to {lengths[-1]}" if len(lengths) > 3 else " or ".join(map(str, lengths))
        raise ValueError(f"a key of {encryption} has {known} octets, with its salt; this one has {len(key)}")
    extended, high = False, 0
    if len(fields) == _FIELDS_WITH_ESN:
        if fields[8] not in _SEQUENCE_LENGTHS:
            raise ValueError(f"{printable(fields[8])!r} is neither 32-bit nor 64-bit")
        extended, high = _SEQUENCE_LENGTHS[fields[8]], _number(fields[9] or "0")
    network = _NETWORKS[protocol]
    places = _network(source, network), _network(destination, network)
    return Association(*places, _spi(spi), encryption, key, integrity, _key(integrity_key), extended, high)


def _network(text: str, of: IPv4Network | IPv6Network) -> IPv4Network | IPv6Network:
    if text.strip() == "*":
        return of
    found = ip_network(text.strip(), strict=False)
    if found.version != of.version:
        raise ValueError(f"{text} is not an IPv{of.version} address")
    return found


def _spi(text: str) -> str:
    """A pattern for the eight digits of an SPI."""
    text = text.strip().lower()
    if parsed := re.fullmatch(r"(?:0x)?([0-9a-f]{0,7})\*", text):
        return f"{parsed[1]}[0-9a-f]{{{8 - len(parsed[1])}}}"
    return f"{_number(text):08x}"


def _number(text: str) -> int:
    """A number of 32 bits."""
    if not re.fullmatch(r"0x[0-9a-fA-F]{1,8}|[0-9]{1,10}", text) or int(text, 0 if "x" in text else 10) > 0xFFFFFFFF:
        raise ValueError(f"{printable(text)!r} is not a 32-bit number, such as 0x00001001")
    return int(text, 0 if "x" in text else 10)


def _key(text: str) -> bytes:
    if text[:2] in ("0x", "0X"):
        try:
            return bytes.fromhex(text[2:])
        except ValueError as error:
            raise ValueError("a key is 0x followed by hexadecimal digits, two per octet") from error
    return text.encode("latin-1", "strict")


def _key_text(key: bytes) -> str:
    return f"0x{key.hex()}" if key else ""


def _address_text(network: IPv4Network | IPv6Network) -> str:
    return str(network.network_address) if network.prefixlen == network.max_prefixlen else str(network)


def _unescaped(text: str) -> str:
    """Octets that Wireshark has written as backslash, x and two digits."""
    return re.sub(r"\\x([0-9a-fA-F]{2})", lambda found: chr(int(found[1], 16)), text)


def _holds(network: IPv4Network | IPv6Network, address: bytes) -> bool:
    number, shift = int.from_bytes(address, "big"), network.max_prefixlen - network.prefixlen
    return number >> shift == int(network.network_address) >> shift
