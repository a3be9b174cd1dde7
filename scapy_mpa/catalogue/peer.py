"""What a conforming peer must do about what it receives: a small closed vocabulary, each with a sentence.

The captures of the catalogue show it: where it says Terminate the peer sends that Terminate, where it says close the
peer closes. Codes are those of RFC 5044 §8, RFC 5041 §7.2 and RFC 5040 §4.8 (layer 0 RDMAP, 1 DDP, 2 MPA).
"""

from __future__ import annotations

from typing import Literal, TypeAlias

from scapy_mpa.tuples import NamedTuple

Reaction: TypeAlias = Literal["accept", "ignore", "discard", "wait", "lose", "stop", "close", "reject", "terminate"]

#: What there is, in words.
REACTIONS: dict[Reaction, str] = {
    "accept": "accepts it: nothing is wrong, or nothing that a receiver has to act on",
    "ignore": "ignores what is wrong, and continues as if it were right",
    "discard": "drops the bad segment or octets, and continues with the valid ones",
    "wait": "waits for the missing octets, and passes on no part of the FPDU or frame before it is complete",
    "lose": "drops the part of an FPDU that it has, and reports the TCP connection lost (code 1) to its ULP",
    "stop": "passes on nothing and reports the error to its ULP, which closes the connection: no FPDU was valid "
    "before, so a Responder must not send a Terminate (RFC 5044 §7.1.2, rule 4)",
    "close": "closes the TCP connection at once (code 4), and sends no FPDU",
    "reject": "answers the Request with a Reply that has R set, and does not enter Full Operation",
    "terminate": "passes on nothing from there on, sends a Terminate, and its ULP closes the connection",
}


class Peer(NamedTuple):
    """What a conforming peer does: ``says`` in a sentence; the numbers are its Terminate's, ``error`` their meaning.

    ``otherwise`` is a sentence on what it may do in place of the Terminate (for programs: ``probe.expectations``).
    """

    reaction: Reaction
    says: str
    layer: int = 0
    etype: int = 0
    code: int = 0
    error: str = ""
    otherwise: str = ""

    @property
    def short(self) -> str:
        """The same without what is said about the reaction in general."""
        if self.reaction == "terminate":
            told = f"terminate: {self.error} ({self.layer}, {self.etype}, {self.code})"
            return f"{told}. {self.otherwise}" if self.otherwise else told
        return self.reaction if self.says == _sentence(self.reaction) else f"{self.reaction}: {self.says}"

    def as_dict(self) -> dict[str, str | int]:
        """The keys of the manifest."""
        told: dict[str, str | int] = {"reaction": self.reaction, "sentence": self.says}
        if self.reaction == "terminate":
            told |= {"layer": self.layer, "etype": self.etype, "code": self.code}
        return told


def peer(reaction: Reaction, says: str = "") -> Peer:
    """A reaction, with its own sentence unless one is given."""
    return Peer(reaction, says or _sentence(reaction))


def _sentence(reaction: Reaction) -> str:
    return f"It {REACTIONS[reaction]}."


def terminate(layer: int, etype: int, code: int, what: str, otherwise: str = "") -> Peer:
    """A Terminate with these numbers, which mean ``what``; ``otherwise`` is a sentence, where there is a choice."""
    says = (
        f"It passes on nothing from there on and sends a Terminate: {what} (layer {layer}, type {etype}, code {code})."
    )
    return Peer("terminate", f"{says} {otherwise}".rstrip(), layer, etype, code, what, otherwise)


ACCEPT, IGNORE, DISCARD, WAIT = peer("accept"), peer("ignore"), peer("discard"), peer("wait")
LOSE, CLOSE, REJECT = peer("lose"), peer("close"), peer("reject")
STOP = peer("stop")
MSN_MISSING = peer(
    "wait", "It places the message, but delivers neither it nor anything after it until the missing MSN has arrived."
)
BAD_CRC = terminate(2, 0, 2, "the MPA CRC is wrong")
BAD_MARKER = terminate(2, 0, 3, "Marker and ULPDU_Length disagree")
BAD_STAG = terminate(0, 1, 0, "invalid STag")
BAD_WRITE_STAG = terminate(1, 1, 0, "invalid STag")
BAD_BOUNDS = terminate(1, 1, 1, "base or bounds violation")
BAD_SOURCE = terminate(0, 1, 1, "base or bounds violation")
BAD_SOURCE_TO = terminate(
    0, 1, 4, "TO wrap", "It may instead report a base or bounds violation (0, 1, 1): both checks find the error."
)
NO_IRD = terminate(
    2,
    0,
    6,
    "insufficient IRD resources",
    "If it has the resources, it may instead raise its IRD to the ORD of the Reply.",
)
NO_RTR = terminate(2, 0, 7, "no matching RTR option")
BAD_OPCODE = terminate(0, 2, 6, "unexpected OpCode")
BAD_RDMAP_VERSION = terminate(0, 2, 5, "invalid RDMAP version")
BAD_TAGGED_VERSION = terminate(1, 1, 4, "invalid DDP version")
BAD_UNTAGGED_VERSION = terminate(1, 2, 6, "invalid DDP version")
BAD_TO = terminate(1, 1, 3, "TO wrap")
BAD_QUEUE = terminate(1, 2, 1, "invalid QN")
BAD_MSN = terminate(1, 2, 3, "the MSN range is not valid")
NO_BUFFER = terminate(1, 2, 2, "invalid MSN, no buffer available")
BAD_MO = terminate(1, 2, 4, "invalid MO")
_BROKEN = "catastrophic error, localized to the RDMAP Stream"
NO_SUCH_READ = terminate(
    0, 2, 7, _BROKEN, "It may send a different Terminate, or none: no clause names a code. It must not answer the Read."
)
TOO_LONG = terminate(
    0, 2, 7, _BROKEN, "It may also accept the ULPDU, but need not (RFC 5044 §3); no clause names a code."
)
UNASKED = terminate(
    0,
    2,
    6,
    "unexpected OpCode",
    "It may send a different Terminate, or none: no clause names a code. It must not take it for an answer.",
)
#: RFC 5040 §7.2 has it validate opcode and version; that queue 2 is the Terminate's binds the sender (§5.4).
STRAY_TERMINATE = terminate(
    0,
    2,
    6,
    "unexpected OpCode",
    "It may also take it for a Terminate, or send a different one: no clause requires it to check the queue.",
)
#: RFC 5040 §4.4 has the sender use a header of 28 octets; that more follow is nothing that §7.2 has checked.
READ_AND_MORE = terminate(
    0,
    2,
    7,
    _BROKEN,
    "It may send a different Terminate, or none, or answer the Read: no clause requires it to check the length.",
)
NO_SUCH_OPERATION = terminate(
    0,
    2,
    7,
    _BROKEN,
    "It may send a different Terminate where no clause names a code. It must not do what it is asked to do.",
)
ENDED_STAG = terminate(1, 1, 0, "invalid STag")
