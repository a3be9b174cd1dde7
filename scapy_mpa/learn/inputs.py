"""The inputs of a peer that is learned: startup frames, FPDUs and ends, valid ones and others, as octets."""

from __future__ import annotations

from scapy_mpa.craft.stream import HalfStream
from scapy_mpa.craft.ulpdus import READ_REQUEST, SEND, TERMINATE, read_request_body, tagged, terminate_body, untagged
from scapy_mpa.framing.agreement import RTR_TYPES
from scapy_mpa.framing.fpdu import conformant
from scapy_mpa.framing.role import Role
from scapy_mpa.framing.startup import KEY_LENGTH, StartupFrame, startup_frame
from scapy_mpa.probe.fitting import Clean, answer_to

#: FPDUs that are sent, whichever role the peer has.
FPDUS = ("send", "read", "wrong-crc", "wrong-ddp-version", "terminate")
#: The input that ends our half connection.
FIN = "fin"
#: The ready-to-receive message of RFC 6581 §9.2.
READY = "ready"
#: One octet more than the Private Data that a startup frame may hold (RFC 5044 §7.1.1).
_TOO_MANY = 513
#: A Rev that no specification knows; an opcode 7 of DDP's queue 2 is a Terminate.
_UNKNOWN_REV = 255
_DDP_VERSION_MASK, _UNKNOWN_DDP_VERSION = 0xFC, 2
_SEND_QUEUE, _READ_QUEUE, _TERMINATE_QUEUE = 0, 1, 2
_PAYLOAD = bytes(4)


def alphabet(role: Role, clean: Clean) -> tuple[str, ...]:
    """Return the inputs for a peer in this role; that which a connection begins with is the first."""
    frame = "request" if role == "responder" else "reply"
    rejects = ("reply-rejecting",) if role == "initiator" else ()
    wrong = tuple(f"{frame}-wrong-{field}" for field in ("key", "rev", "pd-length"))
    ready = (READY,) if role == "responder" and clean.enhanced is not None and clean.enhanced.a else ()
    return (frame, *rejects, *wrong, *ready, *FPDUS, FIN)


class InputEncoder:
    """Encodes the inputs of one connection: MSNs count what was sent, Markers stand where the peer asked for them.

    Args:
        by: our role.
        clean: Private Data and enhanced data of a valid startup frame.
    """

    def __init__(self, by: Role, clean: Clean) -> None:
        self._by: Role = by
        self._clean = clean
        self._stream: HalfStream | None = None
        self._sent = {SEND: 0, READ_REQUEST: 0}
        #: The last startup frame that was encoded, with whatever is wrong with it.
        self.frame: StartupFrame | None = None

    def encode(self, name: str, theirs: StartupFrame | None) -> bytes:
        """Return the octets of an input; ``theirs`` is the peer's startup frame, None if none has come."""
        if name.startswith(("request", "reply")):
            return self._startup(name, theirs)
        if self._stream is None:
            self._stream = HalfStream(conformant(bool(theirs is not None and theirs.m), crc=True))
        octets = self._stream.lay((self._ulpdu(name, theirs),))[0]
        return octets[:-1] + bytes((octets[-1] ^ 0xFF,)) if name == "wrong-crc" else octets

    def _startup(self, name: str, theirs: StartupFrame | None) -> bytes:
        data, enhanced = self._clean.private_data, self._clean.enhanced
        if self._by == "responder":
            asked = theirs.enhanced if theirs is not None else None
            enhanced = answer_to(asked) if asked is not None else None
            rev = theirs.rev if theirs is not None and enhanced is None else None
            frame = startup_frame("reply", c=1, rev=rev, private_data=data, enhanced=enhanced)
        else:
            frame = startup_frame("request", c=1, private_data=data, enhanced=enhanced)
        if name == "reply-rejecting":
            frame = frame._replace(r=1)
        elif name.endswith("-rev"):
            frame = frame._replace(rev=_UNKNOWN_REV)
        elif name.endswith("-pd-length"):
            frame = frame._replace(pd_length=_TOO_MANY, private_data=frame.private_data.ljust(_TOO_MANY, b"\0"))
        self.frame = frame
        octets = frame.encode()
        if name.endswith("-key"):
            last = KEY_LENGTH - 1
            return octets[:last] + octets[last:KEY_LENGTH].swapcase() + octets[KEY_LENGTH:]
        return octets

    def _ulpdu(self, name: str, theirs: StartupFrame | None) -> bytes:
        """Return the ULPDU of an FPDU; one that no receiver may pass on takes no MSN."""
        if name == READY:
            agreed = theirs.enhanced if theirs is not None else None
            flags = (agreed.b, agreed.c, agreed.d) if agreed is not None else (0, 1, 0)
            rtr = next((kind for kind, flag in zip(RTR_TYPES, flags, strict=True) if flag), "write")
            if rtr == "write":
                return tagged(0, 0, 0, b"")
            return self._next(SEND, _SEND_QUEUE, b"") if rtr == "send" else self._read()
        if name == "read":
            return self._read()
        if name == "terminate":
            return untagged(TERMINATE, _TERMINATE_QUEUE, 1, terminate_body(0, 0, 0))
        if name == "send":
            return self._next(SEND, _SEND_QUEUE, _PAYLOAD)
        ulpdu = untagged(SEND, _SEND_QUEUE, self._sent[SEND] + 1, _PAYLOAD)
        if name == "wrong-ddp-version":
            return bytes((ulpdu[0] & _DDP_VERSION_MASK | _UNKNOWN_DDP_VERSION,)) + ulpdu[1:]
        return ulpdu

    def _read(self) -> bytes:
        """Return an RDMA Read Request of no octets, which is answered whatever the STag (RFC 5040 §5.2)."""
        return self._next(READ_REQUEST, _READ_QUEUE, read_request_body(0, 0, 0, 0, 0))

    def _next(self, opcode: int, queue: int, payload: bytes) -> bytes:
        self._sent[opcode] += 1
        return untagged(opcode, queue, self._sent[opcode], payload)
