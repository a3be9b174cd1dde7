"""What a Terminate itself shows to be wrong (RFC 5040 §4.8, figure 10; RFC 7306 §8.1)."""

from __future__ import annotations

import pytest

from scapy_mpa.craft.ulpdus import (
    ATOMIC_REQUEST,
    READ_REQUEST,
    TERMINATE,
    atomic_request_body,
    rdma_write,
    read_request_body,
    send,
    terminate_body,
    untagged,
)
from scapy_mpa.framing.ddp import TAGGED_HEADER_LENGTH, UNTAGGED_HEADER_LENGTH
from scapy_mpa.watches.terminates import TERMINATE_OCTETS, broken_rules

READ = untagged(READ_REQUEST, 1, 1, read_request_body(1, 0, 100, 2, 0))
ATOMIC = untagged(ATOMIC_REQUEST, 1, 1, atomic_request_body(0, 7, 2, 0x34, 1, 0, 0, 0))
WRITE = rdma_write(1, 0, b"")[:TAGGED_HEADER_LENGTH]
SEND = send(1, b"")
M, D = 0x8000, 0x4000


def quoting(layer: int, etype: int, code: int, ulpdu: bytes, *, rdma_header: bytes = b"") -> bytes:
    header = ulpdu[:UNTAGGED_HEADER_LENGTH]
    return terminate_body(layer, etype, code, ddp_header=header, length=len(ulpdu), rdmap_header=rdma_header)


def with_bits(body: bytes, bits: int) -> bytes:
    """The same with other bits after the error code."""
    return body[:2] + bits.to_bytes(2, "big") + body[4:]


def read_header(ulpdu: bytes) -> bytes:
    return ulpdu[UNTAGGED_HEADER_LENGTH:][:28]


@pytest.mark.parametrize(
    "body",
    [
        terminate_body(0, 0, 0),
        terminate_body(0, 2, 6),  # that headers are quoted is a SHOULD
        terminate_body(2, 0, 2),
        quoting(1, 2, 2, SEND),
        quoting(1, 1, 0, WRITE),
        quoting(0, 1, 1, READ, rdma_header=read_header(READ)),
        quoting(0, 2, 7, ATOMIC),
        quoting(0, 2, 7, ATOMIC, rdma_header=bytes(28)),
    ],
)
def test_nothing_is_wrong(body: bytes) -> None:
    assert not [*broken_rules(untagged(TERMINATE, 2, 1, body), UNTAGGED_HEADER_LENGTH + len(body))]


@pytest.mark.parametrize(
    ("body", "rule", "detail"),
    [
        (b"", "terminate-layout", "a body of 0 octets has no control word"),
        (b"\x11", "terminate-layout", "a body of 1 octet has no control word"),
        (
            with_bits(terminate_body(1, 1, 0), M | D), "terminate-layout",
            "M, D set, with 0 octets after the control word",
        ),
        (with_bits(quoting(1, 2, 2, SEND), D), "terminate-headers", "D is set without M"),
        (with_bits(terminate_body(1, 2, 2) + b"\0\x12", M), "terminate-headers", "M is set without D"),
        (
            quoting(2, 0, 2, SEND), "terminate-headers",
            "a DDP header is quoted in an error of LLP, type 0, which has none",
        ),
        (
            quoting(0, 2, 6, READ, rdma_header=read_header(READ)), "terminate-headers",
            "an RDMA header is quoted in an error of RDMAP, type 2, which has none",
        ),
        (quoting(0, 1, 1, READ), "terminate-headers", "the RDMA header of the RDMA Read Request is not quoted"),
        (
            quoting(0, 2, 7, ATOMIC, rdma_header=read_header(ATOMIC)), "terminate-headers",
            "the RDMA header of an Atomic Request is quoted, instead of zeros",
        ),
        (
            with_bits(terminate_body(0, 0, 0), 0x0400), "terminate-reserved",
            "reserved bits 0x0400 of the control word are set",
        ),
        (terminate_body(1, 2, 0), "terminate-code", "no error is defined for layer 1, etype 2, code 0x00"),
    ],
)  # fmt: skip
def test_what_is_wrong(body: bytes, rule: str, detail: str) -> None:
    ulpdu = untagged(TERMINATE, 2, 1, body)
    assert [*broken_rules(ulpdu[:TERMINATE_OCTETS], len(ulpdu))] == [(rule, detail)]
