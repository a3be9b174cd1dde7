"""Who sends what, and when: streaming data, RDMAP messages or bare ULPDUs, pauses, and the end (RFC 5044 §7.1.2).

A ``Conversation`` is put together step by step. Its startup frames come by themselves before the first message, and RFC
6581's ready-to-receive message where one is agreed on. A step that breaks a rule of ``RULES`` is refused, unless
that rule is in ``allow``: traffic that breaks it is then made on purpose.

``sending`` makes the packets of the whole.
"""

from __future__ import annotations

import copy
from collections.abc import Iterator
from typing import Any, SupportsBytes, TypeAlias, TypeVar

from scapy_mpa import offered
from scapy_mpa.craft import ulpdus
from scapy_mpa.craft.messages import RAW, Message
from scapy_mpa.craft.payload import MadeUp
from scapy_mpa.craft.sending import Sending
from scapy_mpa.craft.setup import CLOSES, MTU, SETUP_NAMES, Close, ConversationError, Setup, nanoseconds
from scapy_mpa.craft.turns import End, PathMTU, Pause, Say, Start, Step, Streaming, step_text
from scapy_mpa.craft.wanted import SECONDS, is_number
from scapy_mpa.framing.fpdu import MAX_ULPDU_LENGTH
from scapy_mpa.framing.judgement import judge
from scapy_mpa.framing.role import ROLES, Role, peer_of

#: What a conversation keeps to, by the names that ``allow`` takes.
RULES: dict[str, str] = {
    "responder-first": "the Responder sends no FPDU before the first of the Initiator (RFC 5044 §7.1.2, rule 4)",
    "after-rejection": "after a Reply that rejects, there is no FPDU (RFC 5044 §7.1.2, rule 3)",
    "after-terminate": "nothing follows a Terminate in its direction (RFC 5040 §5.4)",
    "no-rtr": "in the peer-to-peer model, the first FPDU is a message that both sides offer (RFC 6581 §9.2)",
    "startup-frame": "Request and Reply are valid, and the Reply fits the Request (RFC 5044 §7.1.1, RFC 6581 §9)",
}

#: Octets, a text, or a number of octets, which are then made up.
Payload: TypeAlias = "bytes | str | int"

#: A packet of an upper layer's message, its octets, or its layers as text.
Layers: TypeAlias = "SupportsBytes | str"

#: Octets of the longest message: MO has 32 bits (RFC 5041 §4.3).
_LONGEST = 0xFFFFFFFF
_STAG, _PEER_STAG = 0x1000, 0x2000
_ALL_BITS = 0xFFFFFFFFFFFFFFFF
_NO_MATCHING_RTR = 2, 0, 7  # layer, etype, code (RFC 6581 §8)


C = TypeVar("C", bound="Conversation")


class Conversation:
    """Build a conversation step by step; the parameters are those of ``Setup``.

    Every method returns the conversation itself. Raises ConversationError for what a rule forbids.
    """

    def __init__(self, **parameters: Any) -> None:
        strange = sorted(set(parameters) - set(SETUP_NAMES))
        if strange:
            raise ConversationError(f"a conversation has no {', '.join(strange)}; it has {', '.join(SETUP_NAMES)}")
        self.setup = Setup(**parameters)
        unknown = set(self.setup.allow) - set(RULES)
        if unknown:
            raise ConversationError(f"there is no rule {', '.join(sorted(unknown))}; the rules are {', '.join(RULES)}")
        self.steps: list[Step] = []
        self._heard: set[Role] = set()
        self._terminated: set[Role] = set()
        self._made_up = 0
        self._has_started = not self.setup.specification.startup_frames
        self._has_ended = False
        if self.setup.rtr is not None and not self.setup.rtr_is_offered:
            self._require("no-rtr", f"rtr={self.setup.rtr!r} is not offered by both sides")
        if self.setup.specification.startup_frames:
            request, reply = (self.setup.startup(role) for role in ROLES)
            for violation in judge(request, reply).violations:
                self._require("startup-frame", f"{violation.by}: {violation.text}")

    # --- what may be said ---

    def stream(self: C, side: Role, octets: Payload) -> C:
        """Data of the ULP's own before MPA starts ("delayed startup", §7.1.3), or after a rejection."""
        role, setup = _role(side), self.setup
        has_begun = self._has_started if setup.specification.startup_frames else role in self._heard
        if has_begun and not setup.reject:
            raise ConversationError("streaming data is possible only before MPA starts")
        return self._add(Streaming(role, bytes(self._octets(octets))))

    def start(self: C) -> C:
        """Request, Reply and, if the sides agreed on one, the ready-to-receive message.

        They are sent automatically before the first message, and at the end if there is none.
        """
        if self._has_started:
            raise ConversationError("there is one Request and one Reply in a conversation")
        self._has_started = True
        self._add(Start())
        self._get_ready()
        return self

    def send(
        self: C, side: Role, payload: Payload = b"", *, solicited: bool = False, invalidate: int | None = None
    ) -> C:
        """A Send, with Solicited Event, with Invalidate, or with both (RFC 5040 §5.3)."""
        kinds = {
            (False, False): ulpdus.SEND,
            (True, False): ulpdus.SEND_SE,
            (False, True): ulpdus.SEND_INVALIDATE,
            (True, True): ulpdus.SEND_SE_INVALIDATE,
        }
        opcode = kinds[bool(solicited), invalidate is not None]
        return self._say(side, Message(opcode, self._octets(payload), _unsigned(invalidate or 0, 32)))

    def message(self: C, side: Role, layers: Layers, *, solicited: bool = False, invalidate: int | None = None) -> C:
        """A Send of an upper layer's message: a packet, or layers as text, ``NVMeConnect(qid=1) / NVMeConnectData()``.

        Raises FramingError for a text that names what no layer has.
        """
        octets = offered.octets_of_layers(layers) if isinstance(layers, str) else bytes(layers)
        return self.send(side, octets, solicited=solicited, invalidate=invalidate)

    def write(self: C, side: Role, payload: Payload = b"", *, stag: int = _STAG, to: int = 0) -> C:
        """An RDMA Write to the tagged buffer ``stag``, from its offset ``to`` on."""
        return self._say(
            side, Message(ulpdus.RDMA_WRITE, self._octets(payload), _unsigned(stag, 32), _unsigned(to, 64))
        )

    def read(
        self: C,
        side: Role,
        payload: Payload = 0,
        *,
        sink: tuple[int, int] = (_STAG, 0),
        source: tuple[int, int] = (_PEER_STAG, 0),
    ) -> C:
        """An RDMA Read: the Request of ``side``, and the peer's Response. Sink and source are (STag, offset)."""
        octets = self._octets(payload)
        self.read_request(side, len(octets), sink=sink, source=source)
        return self.read_response(peer_of(_role(side)), octets, sink=sink)

    def read_request(
        self: C,
        side: Role,
        size: int,
        *,
        sink: tuple[int, int] = (_STAG, 0),
        source: tuple[int, int] = (_PEER_STAG, 0),
    ) -> C:
        """An RDMA Read Request alone."""
        body = ulpdus.read_request_body(*_place(sink), _unsigned(size, 32), *_place(source))
        return self._say(side, Message(ulpdus.READ_REQUEST, body))

    def read_response(self: C, side: Role, payload: Payload | MadeUp, *, sink: tuple[int, int] = (_STAG, 0)) -> C:
        """An RDMA Read Response alone."""
        return self._say(side, Message(ulpdus.READ_RESPONSE, self._octets(payload), *_place(sink)))

    def atomic(
        self: C,
        side: Role,
        operation: str = "fetch-add",
        *,
        data: int = 1,
        mask: int | None = None,
        compare: int = 0,
        compare_mask: int = _ALL_BITS,
        request_id: int = 1,
        stag: int = _PEER_STAG,
        to: int = 0,
        value: int = 0,
    ) -> C:
        """An Atomic Operation, ``fetch-add`` or ``cmp-swap``, and the peer's Response with the old ``value``.

        ``mask`` None: one sum of 64 bits, or all of them swapped (RFC 7306 §5.1).
        """
        operations = {"fetch-add": ulpdus.FETCH_ADD, "cmp-swap": ulpdus.CMP_SWAP}
        if operation not in operations:
            raise ConversationError(
                f"there is no Atomic Operation {operation!r}; the operations are {', '.join(operations)}"
            )
        if mask is None:
            mask = 0 if operation == "fetch-add" else _ALL_BITS
        body = ulpdus.atomic_request_body(
            operations[operation],
            _unsigned(request_id, 32),
            _unsigned(stag, 32),
            *(_unsigned(number, 64) for number in (to, data, mask, compare, compare_mask)),
        )
        self._say(side, Message(ulpdus.ATOMIC_REQUEST, body))
        answer = ulpdus.atomic_response_body(_unsigned(request_id, 32), _unsigned(value, 64))
        return self._say(peer_of(_role(side)), Message(ulpdus.ATOMIC_RESPONSE, answer))

    def immediate(self: C, side: Role, data: Payload = bytes(8), *, solicited: bool = False) -> C:
        """Immediate Data, eight octets (RFC 7306 §6)."""
        octets = self._octets(data)
        if len(octets) != 8:
            raise ConversationError(f"Immediate Data has 8 octets, not {len(octets)}")
        return self._say(side, Message(ulpdus.IMMEDIATE_SE if solicited else ulpdus.IMMEDIATE, octets))

    def terminate(self: C, side: Role, layer: int = 0, etype: int = 0, code: int = 0) -> C:
        """A Terminate that names no segment (RFC 5040 §4.8)."""
        body = ulpdus.terminate_body(_unsigned(layer, 4), _unsigned(etype, 4), _unsigned(code, 8))
        self._say(side, Message(ulpdus.TERMINATE, body))
        self._terminated.add(_role(side))
        return self

    def ulpdu(self: C, side: Role, octets: Payload) -> C:
        """An FPDU with this ULPDU, whatever it holds (up to MAX_ULPDU_LENGTH octets)."""
        payload = self._octets(octets)
        if len(payload) > MAX_ULPDU_LENGTH:
            raise ConversationError(f"a ULPDU has at most {MAX_ULPDU_LENGTH} octets (RFC 5044 §3), not {len(payload)}")
        return self._say(side, Message(RAW, payload))

    def say(self: C, step: Say) -> C:
        """Add a message as it is."""
        return self._say(step.role, step.message)

    def pause(self: C, seconds: float = 0.001) -> C:
        """Nobody sends for a while."""
        if complaint := SECONDS.complaint("pause", seconds):
            raise ConversationError(complaint)
        return self._add(Pause(nanoseconds(seconds)))

    def path_mtu(self: C, mtu: int) -> C:
        """The path takes packets of at most ``mtu`` octets now.

        What is said next was posted before: its FPDUs fit the old EMSS, and lose their alignment (§A.1, §5.1).
        """
        if complaint := MTU.complaint("path MTU", mtu):
            raise ConversationError(complaint)
        return self._add(PathMTU(mtu))

    def close(self: C, how: Close = "fin", by: Role | None = None) -> C:
        """End the connection here, by FIN, by RST or not at all; else it ends as the parameters say."""
        if how not in CLOSES:
            raise ConversationError(f"{how!r} is not a way to close; the ways are {', '.join(CLOSES)}")
        if not self._has_started:
            self.start()
        self._add(End(how, _role(by or self.setup.closes)))
        self._has_ended = True
        return self

    # --- what was said ---

    def told(self) -> Iterator[str]:
        """The steps, one line each, with the numbers that :meth:`change` takes."""
        for number, step in enumerate(self.steps):
            yield f"{number} {step_text(step)}"

    def change(
        self: C,
        step: int,
        payload: Payload | None = None,
        *,
        crc: int | None = None,
        pad: bytes | None = None,
        ulpdu_length: int | None = None,
    ) -> C:
        """Change a step that sends something; what is None stays as it is.

        Args:
            step: its number, from 0; negative ones count from the last.
            payload: of the message; of a bare ULPDU all of its octets.
            crc: what its FPDUs have in place of the right CRC.
            pad: what they have in place of the right PAD.
            ulpdu_length: what they have in place of the right ULPDU_Length.
        """
        if not -len(self.steps) <= step < len(self.steps):
            raise ConversationError(f"there is no step {step}; there are {len(self.steps)}, from 0")
        said = self.steps[step]
        if not isinstance(said, Say):
            raise ConversationError(f"step {step} sends nothing in an FPDU: {step_text(said)}")
        message = said.message
        if payload is not None:
            message = message._replace(payload=self._octets(payload))
        if crc is not None:
            message = message._replace(crc=_unsigned(crc, 32))
        if pad is not None:
            message = message._replace(pad=bytes(pad))
        if ulpdu_length is not None:
            message = message._replace(ulpdu_length=_unsigned(ulpdu_length, 16))
        self.steps[step] = Say(said.role, message)
        return self

    # --- rules ---

    def _say(self: C, side: Role, message: Message) -> C:
        role, setup = _role(side), self.setup
        if not self._has_started:
            self.start()
        if setup.specification.startup_frames:
            if setup.reject:
                self._require("after-rejection", f"{message.name} of the {role}")
            if role == "responder" and "initiator" not in self._heard and setup.specification.initiator_first:
                self._require("responder-first", f"{message.name} of the responder")
        if role in self._terminated:
            self._require("after-terminate", f"{message.name} of the {role}")
        self._heard.add(role)
        return self._add(Say(role, message))

    def _get_ready(self) -> None:
        """Say RFC 6581's ready-to-receive message, if the sides agreed on the peer-to-peer model."""
        setup = self.setup
        if not setup.is_peer_to_peer or "no-rtr" in setup.allow:
            return
        rtr = setup.rtr_message
        if rtr is None:
            self.terminate("initiator", *_NO_MATCHING_RTR)
        elif rtr == "read":
            self.read("initiator", 0, sink=(0, 0), source=(0, 0))
        elif rtr == "write":
            self.write("initiator", b"", stag=0)
        else:
            self.send("initiator")

    def _require(self, rule: str, what: str) -> None:
        if rule not in self.setup.allow:
            raise ConversationError(f"{what}: {RULES[rule]}; allow={rule!r} permits it")

    def _add(self: C, step: Step) -> C:
        if self._has_ended:
            raise ConversationError("the connection has been closed: nothing can follow that")
        self.steps.append(step)
        return self

    def _octets(self, payload: Payload | MadeUp) -> bytes | MadeUp:
        if isinstance(payload, MadeUp):
            return payload
        if isinstance(payload, str):
            return payload.encode()
        if is_number(payload):
            if not 0 <= payload <= _LONGEST:
                raise ConversationError(f"{payload} octets: a message has at most {_LONGEST}")
            start, self._made_up = self._made_up, self._made_up + payload
            return MadeUp(self.setup.seed, start, payload)
        if isinstance(payload, (int, float)) or payload is None:
            raise ConversationError(f"{payload!r} is not bytes, a string or a number of octets")
        return bytes(payload)

    def sending(self, number: int = 0) -> Sending:
        """Return what makes the packets of the whole connection, which has this number among others."""
        whole = copy.copy(self)
        whole.steps, whole._heard, whole._terminated = self.steps[:], self._heard.copy(), self._terminated.copy()
        if not whole._has_ended:
            whole.close(self.setup.close)
        return Sending(whole.setup, whole.steps, number)


def _role(side: str) -> Role:
    """A side, as "initiator" or "responder"."""
    for role in ROLES:
        if side == role:
            return role
    raise ConversationError(f"{side!r:.40} is not a side: initiator or responder")


def _unsigned(value: int, bits: int) -> int:
    """The value, if it fits."""
    if not is_number(value) or not 0 <= value < 1 << bits:
        raise ConversationError(f"{value!r} is not a number that fits in {bits} bits")
    return value


def _place(buffer: tuple[int, int]) -> tuple[int, int]:
    """The STag and the offset of a tagged buffer."""
    if not isinstance(buffer, tuple) or len(buffer) != 2:
        raise ConversationError(f"{buffer!r} is not an STag and an offset")
    return _unsigned(buffer[0], 32), _unsigned(buffer[1], 64)
