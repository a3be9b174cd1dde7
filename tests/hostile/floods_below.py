"""Hostile captures below TCP: fragments, tunnels, blocks, compression (see floods.py)."""

from __future__ import annotations

import gzip
import random
import struct
from collections.abc import Callable
from functools import partial

import zstandard

from scapy_mpa.craft.icmp import too_big
from tests.capture.blocks import block, interface, option, packet, section
from tests.capture.frames import capture, ethernet, with_vlans
from tests.capture.tunnels import MAC, OUTER6, gre_ip, ip4, ip6, ip_in_ip, mpls, outer4, vxlan
from tests.hostile.floods import add
from tests.hostile.flow import Flow, file_of

_TCP = ethernet(bytes(1000))[34:]


# --- fragments ---


def _fragments(how: str, count: int) -> bytes:
    """Fragments of eight octets, and datagrams that are never whole."""
    rng = random.Random(1)
    made = []
    for number in range(count):
        if how == "tiny":  # of one datagram after another, from its end
            ident, offset, more = number // 8000, 8000 - number % 8000, number % 8000 > 0
        elif how == "overlapping":
            ident, offset, more = number // 3, number % 3 // 2, True
        elif how == "anywhere":
            ident, offset, more = rng.getrandbits(3), rng.getrandbits(13), rng.random() < 0.9
        else:  # incomplete
            ident, offset, more = number, 1, True
        octets = _TCP[:8] if how != "overlapping" else _TCP[:16]
        source = struct.pack("!I", ident >> 16) + b"\x0a\0\0\2"
        made.append(
            MAC
            + b"\x08\x00"
            + ip4(6, octets, field=more << 13 | offset & 0x1FFF, ident=ident & 0xFFFF, addresses=source)
        )
    return file_of(made)


def _fragments_in_fragments(count: int) -> bytes:
    """Datagrams that are fragments of datagrams that are fragments."""
    made = []
    for number in range(count):
        octets = ip4(6, _TCP[:40], field=0x2000, ident=number & 0xFFFF)
        for level in range(6):
            octets = ip4(4, octets, field=0x2000 if level % 2 else 0, ident=number & 0xFFFF)
        made.append(MAC + b"\x08\x00" + octets)
    return file_of(made)


for _how, _rules in (("tiny", ()), ("overlapping", ("ip-fragments",)), ("anywhere", ()), ("incomplete", ("limit",))):
    add(f"fragments, {_how}", 12_000, partial(_fragments, _how), *_rules)
add("fragments in fragments", 3000, _fragments_in_fragments)


# --- tunnels ---


def _nested(wrap: Callable[[bytes], bytes], deep: int, count: int) -> bytes:
    frame = ethernet(b"deep inside")
    for _ in range(deep):
        frame = wrap(frame)
    return file_of([frame] * count)


def _extension_headers(count: int) -> bytes:
    """IPv6 with as many extension headers as 64 KiB hold."""
    headers = b"\x3c\0\1\4\0\0\0\0" * 8000
    return file_of([MAC + b"\x86\xdd" + ip6(60, headers, addresses=OUTER6)] * count)


def _jumbo_options(count: int) -> bytes:
    """Hop-by-hop options, none of which is the jumbo payload that is looked for."""
    packet_ = struct.pack("!IHBB", 6 << 28, 0, 0, 64) + OUTER6 + b"\x06\xff" + bytes(2046)
    return file_of([MAC + b"\x86\xdd" + packet_] * count)


add("IP in IP", 200, partial(_nested, ip_in_ip(outer4), 70))
add("GRE in GRE", 200, partial(_nested, gre_ip(0), 60))
add("VXLAN in VXLAN", 200, partial(_nested, vxlan, 25))
add("VLAN tags", 20, partial(_nested, lambda frame: with_vlans(frame, *[(0x8100, 1)] * 16_000), 1))
add("MPLS labels", 20, partial(_nested, lambda frame: mpls(16_000, frame[14:]), 1))
add("extension headers", 20, _extension_headers)
add("hop-by-hop options", 200, _jumbo_options)


def _path_mtus(count: int) -> bytes:
    """What a router says of a running connection, over and over, and of connections that nobody has seen."""
    flow = Flow().open().start()
    flow.say("a", bytes(1000))
    long, frames = flow.frames[-1], flow.frames
    for number in range(count):
        message = bytearray(too_big(long, number % 1500, "192.0.2.1", seq=number * 70_001))
        if number % 2:
            struct.pack_into("!H", message, len(message) - 8, number & 0xFFFF)
        frames.append(bytes(message))
    return file_of(frames)


add("path MTU messages", 4000, _path_mtus, "path-mtu")


# --- blocks ---

#: Octets for a packet that may still come to be whole, and for what one piece of zstd data expands to: 16 MiB each.
_CLAIMED = _ZSTD = 50_000_000


def _blocks(what: bytes, count: int) -> bytes:
    return section() + interface() + what * count + packet(ethernet())


def _options(count: int) -> bytes:
    """An interface, and a section, with nothing but options."""
    options = option(2, b"") * count
    described = block(1, struct.pack("<HHI", 1, 0, 0) + options)
    return section(options=options) + described + packet(ethernet())


def _blocks_that_claim(count: int) -> bytes:
    """Packets of which the last one claims 16 MiB, once more after each other."""
    claim = struct.pack("<7I", 6, (16 << 20) + 32, 0, 0, 0, 16 << 20, 16 << 20)
    return section() + interface() + packet(ethernet()) * count + claim + bytes(100 * count)


def _records_that_claim(count: int) -> bytes:
    return capture([ethernet()] * count) + struct.pack("<4I", 0, 0, 16 << 20, 16 << 20) + bytes(100 * count)


def _unknown_links(count: int) -> bytes:
    made = [section(), interface(), packet(ethernet())]
    made += [interface(1000 + number) + packet(b"?" * 20, index=number + 1) for number in range(count)]
    return b"".join(made)


add("sections", 3000, partial(_blocks, section()))
add("sections with interfaces", 3000, partial(_blocks, section() + interface() + packet(ethernet())))
add("interfaces", 3000, partial(_blocks, interface()))
add("unknown blocks", 20_000, partial(_blocks, block(0x7777, b"")))
add("empty packets", 10_000, partial(_blocks, packet(b"")))
add("simple packets", 10_000, partial(_blocks, packet(b"", kind=3)))
add("interfaces of unknown link types", 3000, _unknown_links, "link-type")
add("options", 100_000, _options)
add("a block that claims 16 MiB", 10_000, _blocks_that_claim, memory=_CLAIMED)
add("a record that claims 16 MiB", 10_000, _records_that_claim, memory=_CLAIMED)
add("empty records", 50_000, lambda count: capture([b""] * count))


# --- compression ---

add("gzip of zeros", 5_000_000, lambda count: gzip.compress(bytes(count)))
add("gzip of empty records", 100_000, lambda count: gzip.compress(capture([ethernet()]) + bytes(16 * count), 9))
add(
    "zstd of empty records",
    100_000,
    lambda count: zstandard.compress(capture([ethernet()]) + bytes(16 * count)),
    memory=_ZSTD,
)
add("empty gzip members", 5000, lambda count: gzip.compress(b"") * count + gzip.compress(capture([ethernet()])))
add(
    "empty zstd frames", 5000, lambda count: zstandard.compress(b"") * count + zstandard.compress(capture([ethernet()]))
)
add("padding behind gzip", 1_000_000, lambda count: gzip.compress(capture([ethernet()])) + bytes(count))
