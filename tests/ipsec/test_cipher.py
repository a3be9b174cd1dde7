"""ESP packets of every algorithm, both ways; and what is changed, cut or made up."""

from __future__ import annotations

from ipaddress import ip_network

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from scapy_mpa.ipsec.algorithms import ENCRYPTIONS, INTEGRITIES, NULL
from scapy_mpa.ipsec.associations import Association
from scapy_mpa.ipsec.cipher import Cipher, IntegrityError, PayloadError

ANYWHERE = ip_network("0.0.0.0/0")
HMAC = "HMAC-SHA-256-128 [RFC4868]"
IV = bytes(range(16))


def association(encryption: str, integrity: str, fill: int = 7, extended: bool = False) -> Association:
    lengths = ENCRYPTIONS[encryption].key_lengths
    # Each octet of a DES key has odd parity here, and no part equals another.
    key = bytes((fill + index) & 0xFF for index in range(lengths[-1])) if lengths else b""
    return Association(ANYWHERE, ANYWHERE, "00000001", encryption, key, integrity, bytes([fill]) * 32, extended)


PAIRS = [
    *((name, NULL if one.icv else HMAC) for name, one in ENCRYPTIONS.items()),
    *(("AES-CBC [RFC3602]", name) for name in INTEGRITIES),
]


@pytest.mark.parametrize(("encryption", "integrity"), PAIRS)
@pytest.mark.parametrize("size", [0, 1, 21, 1400])
def test_what_is_sealed_can_be_opened(encryption: str, integrity: str, size: int) -> None:
    cipher = Cipher(association(encryption, integrity))
    octets = bytes(index & 0xFF for index in range(size))
    sealed = cipher.encrypt(6, octets, 1, 99, IV)
    assert sealed[:8] == bytes([0, 0, 0, 1, 0, 0, 0, 99])
    assert (len(sealed) - 8) % 4 == 0
    assert cipher.decrypt(sealed) == (6, octets, None)
    if not cipher.is_verified:
        return
    for at in (0, 7, 8, len(sealed) - 1):
        with pytest.raises(IntegrityError):
            cipher.decrypt(sealed[:at] + bytes([sealed[at] ^ 1]) + sealed[at + 1 :])


@pytest.mark.parametrize("encryption", ["AES-GCM with 16 octet ICV [RFC4106]", "AES-CBC [RFC3602]"])
def test_extended_sequence_numbers_are_part_of_what_is_verified(encryption: str) -> None:
    integrity = NULL if ENCRYPTIONS[encryption].icv else HMAC
    cipher = Cipher(association(encryption, integrity, extended=True))
    sealed = cipher.encrypt(6, b"octets", 1, 3 << 32 | 5, IV)
    assert cipher.decrypt(sealed, 3) == (6, b"octets", None)
    with pytest.raises(IntegrityError):
        cipher.decrypt(sealed, 2)


def test_a_wrong_key_without_integrity_shows_in_the_padding() -> None:
    right, wrong = (Cipher(association("AES-CBC [RFC3602]", NULL, fill)) for fill in (1, 2))
    shown = 0
    for seq in range(200):
        try:
            wrong.decrypt(right.encrypt(6, bytes(40), 1, seq, IV))
        except PayloadError:
            shown += 1
    assert shown > 190


@pytest.mark.parametrize(("encryption", "integrity"), PAIRS)
@settings(max_examples=30, deadline=None)
@given(octets=st.binary(max_size=90))
def test_any_octets(encryption: str, integrity: str, octets: bytes) -> None:
    try:
        opened = Cipher(association(encryption, integrity)).decrypt(octets)
    except (IntegrityError, PayloadError):
        return
    assert len(opened.octets) <= len(octets)
