"""TCP sequence numbers, modulo 2^32, and the stream offsets they stand for.

A half connection longer than 4 GiB uses every sequence number again, so everything that is kept is kept by
offset: the number of octets since the sequence number ``isn``, without wrapping. ``unwrap`` and ``wrap`` go from
one to the other (RFC 5044 §4.3: the computation must take wrapping into account).
"""

from __future__ import annotations

#: Sequence numbers are computed modulo this (RFC 9293 §3.4).
SEQ_MOD = 1 << 32
#: The largest of them, which is also the mask modulo SEQ_MOD.
SEQ_MASK = SEQ_MOD - 1
_HALF = SEQ_MOD >> 1


def seq_add(seq: int, octets: int) -> int:
    """The sequence number ``octets`` after (or, if negative, before) ``seq``."""
    return (seq + octets) & SEQ_MASK


def seq_diff(a: int, b: int) -> int:
    """The signed distance a - b in octets, in [-2^31, 2^31): negative if ``a`` comes before ``b``."""
    return ((a - b + _HALF) & SEQ_MASK) - _HALF


def unwrap(seq: int, near_offset: int, isn: int) -> int:
    """The offset nearest ``near_offset`` whose sequence number is ``seq``, where offset 0 has the number ``isn``.

    It may be negative: an octet before ``isn``. Of two equally near offsets the lower is taken.
    """
    return near_offset + ((seq - isn - near_offset + _HALF) & SEQ_MASK) - _HALF


def wrap(offset: int, isn: int) -> int:
    """The sequence number of the octet at ``offset``, where offset 0 has the number ``isn``."""
    return (isn + offset) & SEQ_MASK
