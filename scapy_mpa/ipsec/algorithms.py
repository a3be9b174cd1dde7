"""The algorithms of ESP under the names that Wireshark has for them, and what their keys and packets look like.

Nothing is computed here: :mod:`~scapy_mpa.ipsec.cipher` does, with Scapy.
"""

from __future__ import annotations

from typing import Final

from scapy_mpa.tuples import NamedTuple

NULL: Final = "NULL"
#: Octets of SPI and sequence number, before what is encrypted (RFC 4303 §2).
ESP_HEADER_LENGTH: Final = 8


class Encryption(NamedTuple):
    """An encryption algorithm.

    Attributes:
        algorithm: the name that Scapy's ``CRYPT_ALGOS`` has for it.
        key_lengths: octets that its key may have, the salt included.
        salt: octets of salt at the end of the key.
        block: what is encrypted is a multiple of this many octets.
        iv: octets of the initialization vector in each packet.
        icv: octets of the Integrity Check Value, if it checks integrity itself (RFC 4303 §3.2.3).
    """

    algorithm: str
    key_lengths: tuple[int, ...] = ()
    salt: int = 0
    block: int = 4
    iv: int = 0
    icv: int = 0


class Integrity(NamedTuple):
    """An integrity algorithm: the name of its hash, empty if nothing is checked, and the octets of its ICV."""

    digest: str
    icv: int


def _gcm(icv: int) -> Encryption:
    return Encryption("AES-GCM", (20, 28, 36), salt=4, iv=8, icv=icv)


_AES_CBC = Encryption("AES-CBC", (16, 24, 32), block=16, iv=16)

ENCRYPTIONS: Final[dict[str, Encryption]] = {
    NULL: Encryption("NULL"),
    "AES-GCM [RFC4106]": _gcm(16),
    "AES-GCM with 8 octet ICV [RFC4106]": _gcm(8),
    "AES-GCM with 12 octet ICV [RFC4106]": _gcm(12),
    "AES-GCM with 16 octet ICV [RFC4106]": _gcm(16),
    "AES-CBC [RFC3602]": _AES_CBC,
    "AES-CTR [RFC3686]": Encryption("AES-CTR", (20, 28, 36), salt=4, iv=8),
    "ChaCha20 with Poly1305 [RFC7634]": Encryption("CHACHA20-POLY1305", (36,), salt=4, iv=8, icv=16),
    "TripleDES-CBC [RFC2451]": Encryption("3DES", (24,), block=8, iv=8),
    "DES-CBC [RFC2405]": Encryption("DES", (8,), block=8, iv=8),
    "CAST5-CBC [RFC2144]": Encryption("CAST", tuple(range(5, 17)), block=8, iv=8),
    "BLOWFISH-CBC [RFC2451]": Encryption("Blowfish", tuple(range(5, 57)), block=8, iv=8),
}

INTEGRITIES: Final[dict[str, Integrity]] = {
    NULL: Integrity("", 0),
    "HMAC-MD5-96 [RFC2403]": Integrity("MD5", 12),
    "HMAC-SHA-1-96 [RFC2404]": Integrity("SHA1", 12),
    "HMAC-SHA-256-96 [draft-ietf-ipsec-ciph-sha-256-00]": Integrity("SHA256", 12),
    "HMAC-SHA-256-128 [RFC4868]": Integrity("SHA256", 16),
    "HMAC-SHA-384-192 [RFC4868]": Integrity("SHA384", 24),
    "HMAC-SHA-512-256 [RFC4868]": Integrity("SHA512", 32),
    **{f"ANY {bits} bit authentication [no checking]": Integrity("", bits // 8) for bits in (64, 96, 128, 192, 256)},
}
