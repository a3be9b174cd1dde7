"""What is sent over a connection, and where everything random in it comes from."""

from __future__ import annotations

import random
import zlib
from collections.abc import Iterator
from functools import lru_cache

from scapy_mpa.craft.segments import below
from scapy_mpa.craft.talk import Side

Message = tuple[Side, bytes]
Talk = Iterator[Message]

_POOL = 1 << 20
_WORDS = b"""the a of and to in is it frame marker stream length request reply private data connection header
    segment octets receiver sender who which where MPA DDP RDMAP iWARP Req Rep ID Frame pointer CRC32c""".split()


@lru_cache(maxsize=2)
def _pools(seed: int) -> dict[str, bytes]:
    rng = random.Random(seed)
    noise = rng.getrandbits(8 * _POOL).to_bytes(_POOL, "big")
    text = b" ".join(_WORDS[octet % len(_WORDS)] for octet in noise[: _POOL // 5])
    packed = b"".join(zlib.compress(text[at : at + 50_000], level=1 + at % 9) for at in range(0, len(text), 50_000))
    return {"noise": noise, "text": text, "packed": packed, "zeros": bytes(_POOL // 2)}


class Data:
    """Random numbers and the contents of files, from one seed."""

    def __init__(self, seed: int) -> None:
        self.rng = random.Random(seed)
        self._pools = _pools(seed % 2)

    def below(self, limit: int) -> int:
        return below(self.rng, limit)

    def between(self, low: int, high: int) -> int:
        return low + below(self.rng, high - low + 1)

    def octets(self, length: int, kind: str = "noise") -> bytes:
        """Return this many octets of one kind: noise, text, packed (zlib) or zeros."""
        pool = self._pools[kind]
        made = b""
        while len(made) < length:
            start = self.below(len(pool) - 1000)
            made += pool[start : start + length - len(made)]
        return made

    def content(self, length: int) -> bytes:
        """As files are: of any kind."""
        return self.octets(length, ("noise", "text", "packed", "zeros")[self.below(4)])

    def size(self) -> int:
        """As messages are: mostly small, some large."""
        return self.between(1, 1 << self.between(4, 16))
