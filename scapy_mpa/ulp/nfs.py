"""The operations of an NFS version 4 COMPOUND by name, as far as octets show them (RFC 7530 §15.2, RFC 8881 §18).

Operations follow one another without lengths. Those whose arguments have a plain form are passed over; the first other
one is the last that is named.
"""

from __future__ import annotations

from collections.abc import Iterator
from struct import Struct
from struct import error as StructError

_WORD = Struct(">I")
#: Behind an RPC message's type: version, program, its version, procedure; credential and verifier follow (RFC 5531 §9).
_CALL_LENGTH = 24
#: Operations of one COMPOUND that are named; clients send fewer.
_MOST = 16

_NAMES: tuple[str, ...] = (
    *("ACCESS", "CLOSE", "COMMIT", "CREATE", "DELEGPURGE", "DELEGRETURN", "GETATTR", "GETFH", "LINK", "LOCK", "LOCKT"),
    *("LOCKU", "LOOKUP", "LOOKUPP", "NVERIFY", "OPEN", "OPENATTR", "OPEN_CONFIRM", "OPEN_DOWNGRADE", "PUTFH"),
    *("PUTPUBFH", "PUTROOTFH", "READ", "READDIR", "READLINK", "REMOVE", "RENAME", "RENEW", "RESTOREFH", "SAVEFH"),
    *("SECINFO", "SETATTR", "SETCLIENTID", "SETCLIENTID_CONFIRM", "VERIFY", "WRITE", "RELEASE_LOCKOWNER"),
    *("BACKCHANNEL_CTL", "BIND_CONN_TO_SESSION", "EXCHANGE_ID", "CREATE_SESSION", "DESTROY_SESSION", "FREE_STATEID"),
    *("GET_DIR_DELEGATION", "GETDEVICEINFO", "GETDEVICELIST", "LAYOUTCOMMIT", "LAYOUTGET", "LAYOUTRETURN"),
    *("SECINFO_NO_NAME", "SEQUENCE", "SET_SSV", "TEST_STATEID", "WANT_DELEGATION", "DESTROY_CLIENTID"),
    *("RECLAIM_COMPLETE", "ALLOCATE", "COPY", "COPY_NOTIFY", "DEALLOCATE", "IO_ADVISE", "LAYOUTERROR", "LAYOUTSTATS"),
    *("OFFLOAD_CANCEL", "OFFLOAD_STATUS", "READ_PLUS", "SEEK", "WRITE_SAME", "CLONE"),
)
#: By number, from 3 on.
OPERATIONS = dict(enumerate(_NAMES, 3))
#: Arguments that always have this many octets.
_FIXED = {
    **dict.fromkeys(("PUTROOTFH", "PUTPUBFH", "GETFH", "SAVEFH", "RESTOREFH", "LOOKUPP", "READLINK"), 0),
    "ACCESS": 4,
    "RECLAIM_COMPLETE": 4,
    "SECINFO_NO_NAME": 4,
    "RENEW": 8,
    "DESTROY_CLIENTID": 8,
    "COMMIT": 12,
    "DELEGRETURN": 16,
    "DESTROY_SESSION": 16,
    "CLOSE": 20,
    "READ": 28,
    "SEQUENCE": 32,
}
#: Arguments that are one opaque, and octets before an array of words, such as a bitmap of attributes.
_OPAQUE = frozenset(("PUTFH", "LOOKUP", "REMOVE"))
_WORDS_BEHIND = {"GETATTR": 0, "READDIR": 24}


def operations(octets: bytes, at: int) -> str:
    """The operations of a COMPOUND whose RPC message begins at an octet, "..." where more follow; empty without any."""
    names: list[str] = []
    try:
        for name in _operations(octets, at):
            names.append(name)
    except StructError:
        names.append("...")  # the octets end before
    return " ".join(names) if names != ["..."] else ""


def _operations(octets: bytes, at: int) -> Iterator[str]:
    """Yield them; raises struct.error where the octets end before."""
    at += _CALL_LENGTH
    for _ in ("credential", "verifier"):
        at = _behind_opaque(octets, at + _WORD.size)
    at = _behind_opaque(octets, at) + _WORD.size  # the tag, and the minor version
    (count,) = _WORD.unpack_from(octets, at)
    at += _WORD.size
    for number in range(min(count, _MOST)):
        (operation,) = _WORD.unpack_from(octets, at)
        at += _WORD.size
        name = OPERATIONS.get(operation, f"operation {operation}")
        yield name
        if name in _FIXED:
            at += _FIXED[name]
        elif name in _OPAQUE:
            at = _behind_opaque(octets, at)
        elif name in _WORDS_BEHIND:
            at += _WORDS_BEHIND[name]
            at += _WORD.size * (1 + int(_WORD.unpack_from(octets, at)[0]))
        elif number + 1 < count:
            yield "..."
            return
    if count > _MOST:
        yield "..."


def _behind_opaque(octets: bytes, at: int) -> int:
    """Return where the data after an opaque begin: its length precedes it, and it fills words (RFC 4506 §4.10)."""
    (length,) = _WORD.unpack_from(octets, at)
    return at + _WORD.size + int(length) + -int(length) % _WORD.size
