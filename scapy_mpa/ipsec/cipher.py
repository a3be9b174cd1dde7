"""ESP packets with the keys of one security association, both ways, by Scapy's ``ipsec`` (RFC 4303 §2, §3.3, §3.4).

Scapy is imported when the first packet comes.
"""

from __future__ import annotations

from functools import cache
from types import SimpleNamespace
from typing import Any, Final

from scapy_mpa.errors import MPAError
from scapy_mpa.ipsec.algorithms import ENCRYPTIONS, ESP_HEADER_LENGTH, INTEGRITIES
from scapy_mpa.ipsec.associations import Association
from scapy_mpa.tuples import NamedTuple

#: Pad Length and Next Header.
_TRAILER_LENGTH: Final = 2
_GCM_TAG: Final = 16
#: What may stand below ESP: with anything else, what nobody verified was not decrypted rightly.
_NEXT_HEADERS: Final = frozenset((0, 1, 4, 6, 17, 41, 43, 44, 47, 50, 51, 58, 59, 60, 115, 132, 135, 137))


class IntegrityError(MPAError):
    """The Integrity Check Value of an ESP packet is wrong (RFC 4303 §3.4.4.1)."""


class PayloadError(MPAError):
    """The content of an ESP packet is impossible: its length, its padding or its next header."""


class Opened(NamedTuple):
    """The content of an ESP packet: the protocol in it, and its octets, without padding.

    ``doubt``: its padding is not that of RFC 4303 §2.4, as where the key is wrong but that for its ICV is right.
    """

    protocol: int
    octets: bytes
    doubt: str | None


class Cipher:
    """Encrypts and decrypts the packets of an association. Raises :class:`~scapy_mpa.errors.MPAError` as Scapy's
    library does for an algorithm that it does not have.

    Attributes:
        is_verified: whether integrity is checked.
    """

    def __init__(self, association: Association) -> None:
        ipsec = _scapy()
        encryption, integrity = ENCRYPTIONS[association.encryption], INTEGRITIES[association.integrity]
        self._encryption, self._icv = encryption, encryption.icv or integrity.icv
        self._key = association.key[: len(association.key) - encryption.salt]
        self._integrity_key = association.integrity_key
        self._extended = association.extended
        #: What Scapy asks an association for.
        self._salt = SimpleNamespace(crypt_salt=association.key[len(self._key) :])
        self.is_verified = bool(encryption.icv or integrity.digest)
        self._esp = ipsec.ESP
        self._plain = ipsec._ESPPlain
        self._wrong = ipsec.IPSecIntegrityError
        try:
            self._crypt = ipsec.CRYPT_ALGOS[encryption.algorithm]
            if encryption.icv and encryption.icv < _GCM_TAG:
                self._crypt = ipsec.CryptAlgo(
                    "AES-GCM", cipher=ipsec.algorithms.AES, mode=ipsec.modes.GCM, block_size=1, iv_size=8, salt_size=4,
                    icv_size=encryption.icv, format_mode_iv=lambda sa, iv, **_: sa.crypt_salt + iv,
                )  # fmt: skip
        except KeyError as error:
            raise MPAError(f"the library for ESP does not have {association.encryption}") from error
        self._auth = None
        if integrity.digest and not encryption.icv:
            digest = getattr(ipsec.hashes, integrity.digest)
            self._auth = ipsec.AuthAlgo(integrity.digest, ipsec.HMAC, digest, integrity.icv)

    def decrypt(self, octets: bytes, high: int = 0) -> Opened:
        """Open a packet, from its SPI to the end of its ICV; ``high`` are the high bits of its sequence number.

        Raises :class:`IntegrityError`, and :class:`PayloadError` for what is not as RFC 4303 §2 has it.
        """
        esp = self._sealed(octets)
        size = len(esp.data) - self._icv - self._encryption.iv
        if size < _TRAILER_LENGTH or (size % self._encryption.block and self._encryption.block > 4):
            raise PayloadError(f"{len(octets)} octets cannot be a packet of this algorithm")
        inner_icv = self._encryption.icv
        try:
            if self._auth is not None:
                self._auth.verify(esp, self._integrity_key, esn_en=self._extended, esn=high)
            if not inner_icv and self._icv:
                esp.data = esp.data[: -self._icv]
            plain = self._crypt.decrypt(self._salt, esp, self._key, inner_icv, esn_en=self._extended, esn=high)
        except self._wrong as error:
            raise IntegrityError("the Integrity Check Value is wrong") from error
        except ValueError as error:
            raise PayloadError(f"it cannot be decrypted: {error}") from error
        if plain.padlen > size - _TRAILER_LENGTH:
            raise PayloadError(f"{plain.padlen} octets of padding do not fit {size} octets")
        doubt = None
        if bytes(plain.padding) != bytes(range(1, plain.padlen + 1)) or not (
            self.is_verified or plain.nh in _NEXT_HEADERS
        ):
            doubt = f"padding of {plain.padlen} octets and next header {plain.nh} do not make a valid packet"
            if not self.is_verified:
                raise PayloadError(doubt)
        return Opened(plain.nh, bytes(plain.data), doubt)

    def encrypt(self, protocol: int, octets: bytes, spi: int, seq: int, iv: bytes) -> bytes:
        """The packet that holds these octets; ``iv`` is cut or ignored as the algorithm has it.

        The low 32 bits of ``seq`` stand in it.
        """
        high, low = seq >> 32, seq & 0xFFFFFFFF
        plain = self._plain(spi=spi, seq=low, iv=iv[: self._encryption.iv], data=octets, nh=protocol)
        inner_icv = self._encryption.icv
        plain = self._crypt.pad(plain)
        esp = self._crypt.encrypt(self._salt, plain, self._key, inner_icv, esn_en=self._extended, esn=high)
        if self._auth is not None:
            esp = self._auth.sign(esp, self._integrity_key, esn_en=self._extended, esn=high)
        elif self._icv and not inner_icv:
            esp.data += bytes(self._icv)  # of an algorithm that nobody checks
        return bytes(esp)

    def _sealed(self, octets: bytes) -> Any:
        if len(octets) < ESP_HEADER_LENGTH:
            raise PayloadError(f"{len(octets)} octets are not an ESP packet")
        spi, seq = int.from_bytes(octets[:4], "big"), int.from_bytes(octets[4:8], "big")
        return self._esp(spi=spi, seq=seq, data=octets[ESP_HEADER_LENGTH:])


@cache
def _scapy() -> Any:
    from scapy.config import conf
    from scapy.layers import ipsec

    if not conf.crypto_valid:
        raise MPAError("ESP needs cryptography: pip install 'scapy-mpa[ipsec]'")
    return ipsec
