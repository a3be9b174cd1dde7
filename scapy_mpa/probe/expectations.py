"""What each case expects of a live peer: what the clause means, and what else a conforming peer may do.

The catalogue has one reaction for each case, that of the peer in its capture (``catalogue.peer``).  A live peer may do
more: a check is OPTIONAL, an ending is its ULP's, a message of its upper layer is unknown to it.  A row says why
anything else would be wrong, in our words; the first row that names a case is the case's.
"""

from __future__ import annotations

from fnmatch import fnmatchcase
from functools import cache
from typing import Literal, TypeAlias

from scapy_mpa.catalogue.case import Case
from scapy_mpa.catalogue.table import is_change
from scapy_mpa.tuples import NamedTuple

#: What else a peer may do: answer as if nothing were wrong; close, reset or reject; send a Terminate; say nothing.
Choice: TypeAlias = Literal["accept", "close", "terminate", "silence"]
_OF_THE_RESPONDER = "-of-the-responder"


class Expectation(NamedTuple):
    """A row of the table.

    Attributes:
        cases: names of cases, without ``-of-the-responder``; * and ? are wildcards.
        means: what the clause means that makes other behaviour wrong, a sentence.
        may: what a peer may do instead, beside what the catalogue names.
        clause: in place of the case's own; "" if that is right.
        same: layer, type and code of Terminates that say the same.
    """

    cases: str
    means: str
    may: tuple[Choice, ...] = ()
    clause: str = ""
    same: tuple[tuple[int, int, int], ...] = ()

    @property
    def name(self) -> str:
        """What deviations from it are called by: the first of its names, without wildcards."""
        return self.cases.split()[0].replace("*", "").replace("?", "").replace("--", "-").strip("-")


#: Whatever it does: only that it survives, and what our own analysis finds in its answers, is judged.
_ANYTHING: tuple[Choice, ...] = ("accept", "close", "terminate", "silence")
#: How the stream ends for it is not said, nor whether it does.
_ANY_END: tuple[Choice, ...] = ("close", "terminate", "silence")

_CONFORMANT = (
    Expectation("valid-m?-c? valid-reply-m?-c?",
                "Each side declares M and C for what it receives, and its peer has to work with any values."),
    Expectation("valid-control-* clean-connection", "Nothing is wrong with it."),
    Expectation("valid-startup",
                "A properly formatted Request without Private Data leaves nothing to refuse, so a Reply follows."),
    Expectation("valid-rev-0",
                "Rev 0 belongs to the RDMA Consortium: a peer that cannot interoperate with it closes the "
                "connection.", ("close",)),
    Expectation("valid-rev-2-plain rev-2-plain",
                "Rev 2 without S is a plain Request, but a peer that speaks only Rev 1 may close, as on any other Rev.",
                ("close",), "RFC 5044 §7.1.1"),
    Expectation("valid-ird-*", "Every IRD and ORD of 14 bits is valid, and 0x3FFF leaves a depth to the ULP."),
    Expectation("valid-rtr-*",
                "A Responder that knows RFC 6581 supports at least one type of RTR message, and names one of its own."),
    Expectation("valid-request-cut-* valid-reply-cut-*",
                "A startup frame is octets of a TCP stream: segment boundaries mean nothing."),
    Expectation("valid-fpdu-cut-* valid-marked-fpdu-cut-* alignment-* fpdus-in-one-segment fpdu-cut-* fpdu-above-emss "
                "crc-split-over-segments fpdu-late-behind-marker retransmission-with-its-boundaries",
                "FPDUs are located by ULPDU_Length, never by the boundaries of segments."),
    Expectation("valid-*-with-markers",
                "With M=1, the peer's octets have a Marker every 512, and FPDUPTR counts from ULPDU_Length."),
    Expectation("valid-sends-of-every-pad",
                "PAD is zero, and just long enough to make an FPDU a multiple of four octets."),
    Expectation("valid-read-of-nothing valid-reads valid-responder-reads",
                "An RDMA Read of no octets is answered whatever its STag and TO are."),
    Expectation("valid-write-of-nothing valid-responder-answers",
                "STag and TO of an RDMA Write of no octets are not checked, so nothing is wrong."),
    Expectation("valid-read-of-* valid-responder-reads-64",
                "A valid RDMA Read Request is answered by a Response of that many octets, to the sink that it names."),
    Expectation("valid-responder-names-memory",
                "What a Send says is for the upper layer, which may end the connection; writes and reads stay within "
                "the named memory.", ("close",)),
    Expectation("valid-memory-named",
                "What a Send says is for the upper layer; later writes and reads stay within the named memory."),
    Expectation("valid-segments-*", "TCP repairs loss, reordering and duplicates before MPA sees the octets."),
)  # fmt: skip

_STARTUP = (
    Expectation("request-key-* reply-key-* reply-is-text two-initiators two-responders request-role-* reply-role-*",
                "Any Key but the expected one closes the connection; a Request is not answered by its own kind."),
    Expectation("rev-0-private-data-*",
                "The draft has no limit below that of PD_Length; a peer that does not speak Rev 0 closes.", ("close",)),
    Expectation("request-private-data-513 *-private-data-513 *-private-data-65535 invalid-request-* invalid-reply-*",
                "A frame with more than 512 octets of Private Data is improperly formatted, and the connection is "
                "closed."),
    Expectation("request-private-data-not-counted",
                "A frame whose PD_Length is right is properly formatted."),
    Expectation("private-data-rejected",
                "Private Data that the ULP refuses is answered by R; the ULP may also choose to accept it."),
    Expectation("valid-reply-private-data-* reply-private-data-*",
                "Up to 512 octets of Private Data are properly formatted; only the Initiator's ULP may close on their "
                "content.", ("close",)),
    Expectation("valid-private-data-* request-private-data-* enhanced-private-data-512 private-data-is-request",
                "Up to 512 octets of Private Data, including the four of RFC 6581, are properly formatted, and the "
                "buffer is large enough; only the ULP may refuse their content.", (), "RFC 5044 §7.1.2"),
    Expectation("request-pd-length-too-small* reply-pd-length-too-small*",
                "A receiver that detects the mismatch closes; any other reads what follows as the first FPDU.",
                _ANYTHING, "RFC 5044 §7.1.1"),
    Expectation("request-pd-length-too-large *-pd-length-too-large* request-of-*-octets reply-of-*-octets",
                "A startup frame is complete when PD_Length says so, and is not answered before that."),
    Expectation("request-pd-length-swallows-fpdu *-pd-length-swallows-fpdu",
                "The swallowed message is Private Data, so the next one is not the first: it is not delivered.",
                ("close", "terminate")),
    Expectation("request-reserved-bit-* reply-reserved-bit-* request-r request-s-of-rev-1",
                "Reserved bits, and R in a Request, are not checked: the frame is as valid as without them."),
    Expectation("rev-3 rev-255", "A peer that cannot interoperate with a Rev closes the connection; one that can "
    "continues.",
                ("close",)),
    Expectation("rev-1-to-rfc6581", "A peer that knows Rev 2 still accepts plain Requests of Rev 1."),
    Expectation("*-s-with-pd-length-?",
                "With S, the Private Data begins with four octets of enhanced data; fewer are improperly formatted."),
    Expectation("reply-before-request",
                "A Responder waits for the Request; a premature Reply is at most taken for the Reply.",
                ("close",)),
    Expectation("octets-before-reply", "The first octets that an Initiator receives are the Key of a Reply, or wrong."),
    Expectation("fpdu-before-reply fpdu-in-segment-of-request streaming-data-under-way",
                "Octets before the Reply may be held, lost or refused: their layout is not known yet.",
                _ANY_END),
    Expectation("responder-first fpdu-in-segment-of-reply",
                "The Initiator's receiver need not be in Full Operation before the Initiator has sent an "
                "FPDU.", _ANY_END),
    Expectation("request-twice file-that-begins-like-a-request",
                "A receiver that detects more octets than PD_Length counts closes; else they are read as an FPDU.",
                _ANYTHING, "RFC 5044 §7.1.1"),
    Expectation("request-octet-by-octet reply-cut-in-the-key",
                "A startup frame is octets of a TCP stream: segment boundaries mean nothing."),
    Expectation("streaming-data-acknowledged",
                "MPA may start after streaming data, where both ULPs have agreed on the place.", ("close",)),
    Expectation("unanswered-closed unanswered-reset",
                "Without a Reply there is no Full Operation, and the lost connection is reported."),
    Expectation("unanswered-silent", "An Initiator sends no FPDU before the Reply; its timeout is a SHOULD."),
    Expectation("streaming-data-after-rejection",
                "After R, both sides have left MPA: the octets belong to the ULP, which may also close.", ("close",)),
    Expectation("fpdu-after-rejection rejected-by-who-goes-on",
                "After R, both sides have left MPA: the octets belong to the ULP, which may also "
                "close.", ("close", "silence")),
)  # fmt: skip

_NEGOTIATION = (
    Expectation("c-in-request c-in-reply", "CRCs are in use in both directions as soon as either side asks for them."),
    Expectation("rev-0-* rev-1-answered-by-rev-0",
                "A peer that cannot interoperate with the other revision closes the connection.",
                ("close", "terminate")),
    Expectation("ddp-version-1-with-rev-0 ddp-version-0-with-rev-1 ddp-versions-mixed",
                "DV is the same in all DDP Segments of a stream, and any other is an error of that segment."),
    Expectation("enhanced-answered-* plain-answered-enhanced",
                "A Reply is of the kind of its Request; a peer that gets the other kind follows it, or closes; one "
                "that knows RFC 6581 first sends a Terminate, code 5.", ("close", "terminate"), "RFC 6581 §9.3"),
    Expectation("enhanced-for-nothing", "The Request is properly formatted, though there was no need for S."),
    Expectation("control-flag-?-without-a", "Without A, Control Flags B, C and D are ignored."),
    Expectation("control-flag-a-*",
                "Both frames have the same A; a peer that cannot use the other model sends a Terminate, code 7.",
                ("accept", "close", "silence")),
    Expectation("rtr-write rtr-read rtr-send", "Each type of RTR message that both sides offer may be the first FPDU."),
    Expectation("rtr-left-out rtr-of-another-type rtr-*-of-1-octet rtr-write-without-l rtr-none-offered "
                "rtr-no-match-not-closed",
                "The first FPDU of the peer-to-peer model is a zero-length message of an agreed type; the RFC does "
                "not say what a Responder does about any other.", _ANYTHING),
    Expectation("rtr-none-offered-terminate rtr-no-match-code-?",
                "A Terminate is a valid first message: it ends the stream, and the receiver may end it as well.",
                ("close", "silence", "terminate")),
    Expectation("rtr-none rtr-no-match",
                "An Initiator that can generate none of the Reply's RTR messages sends a Terminate, code 7."),
    Expectation("ord-equal-to-ird ird-equal-to-ord depths-of-0x3ffe depth-not-negotiated depths-in-host-order",
                "Depths within each other's bounds are what was agreed on."),
    Expectation("ord-above-ird",
                "An Initiator without resources for that IRD sends a Terminate, code 6; with them, it raises its IRD.",
                ("accept", "close", "silence")),
    Expectation("ird-below-ord rtr-read-with-ird-0",
                "The Initiator lowers its ORD to the Reply's IRD; its ULP may end the connection because of it.",
                ("close", "terminate")),
    Expectation("*-0x3fff-answered-by-a-depth",
                "A depth that was left to the ULP stays as it is, whatever the Reply says."),
    Expectation("ord-reached", "As many RDMA Reads as were agreed on may be outstanding."),
    Expectation("ord-exceeded",
                "One RDMA Read too many is the sender's error; a receiver with room for it, or that has answered one "
                "by then, need not notice.", _ANYTHING),
)  # fmt: skip

_FPDUS = (
    Expectation("ulpdu-length-0-write ulpdu-length-1-write ulpdu-length-13-write ulpdu-length-17-send ddp-*-short",
                "Octets that are not a DDP Segment have no effect; no clause says what becomes of the "
                "stream.", _ANY_END),
    Expectation("ulpdu-length-64769* ulpdu-length-65535*",
                "Nobody may send a ULPDU above 64768 octets; a receiver need not detect it.", _ANYTHING),
    Expectation("ulpdu-length-14-write ulpdu-length-18-send",
                "A message of no octets is allowed, and neither its STag and TO nor its MO is checked."),
    Expectation("ulpdu-length-* ulpdu-4-octets-*",
                "A valid FPDU is passed to DDP, whatever it holds; DDP may post up to 64768 octets, so a receiver has "
                "no reason to refuse them."),
    Expectation("length-1-less", "PAD is ignored, so MPA does not miss an octet that ULPDU_Length leaves out.",
                ("close", "terminate")),
    Expectation("length-65535-of-78*", "Nothing is passed on before ULPDU_Length says that the FPDU is complete."),
    Expectation("length-swallows-fpdu fpdu-left-out msn-left-out msn-of-another-queue",
                "A message is delivered after all before it: while an MSN is missing, none after it has an effect.",
                ("close", "terminate")),
    Expectation("length-with-pad", "The ULPDUs include their PAD, and every FPDU is valid.",
                ("close", "terminate")),
    Expectation("deviating-no-crc-field",
                "Without CRCs, nothing shows that an FPDU ends elsewhere: the next octets are read as one.",
                _ANYTHING),
    Expectation("deviating-length-* deviating-pad-plus-2 deviating-no-pad",
                "The CRC is looked for in the wrong place, so the first FPDU is invalid: nothing is passed "
                "on.", (), "RFC 5044 §4.4"),
    Expectation("crc-*-octet length-* crc-two-in-a-row pad-of-4 pad-left-out fpdu-*zeros* fpdu-junk-behind "
                "fpdu-unmarked error-closed error-went-on culley-02-crc markers-both-ways-asked-one-way "
                "crc-zero crc-ones crc-reversed crc-inverted crc-of-the-responder crc-marker-*",
                "An FPDU whose CRC does not match is invalid: neither it nor anything after it is passed on."),
    Expectation("deviating-markers-not-in-spacing",
                "The Markers stand elsewhere, but are as many, so the CRC is right: code 3, which need not be checked "
                "in order.", ("accept", "terminate"), "RFC 5044 §8"),
    Expectation("deviating-crc-not-in-spacing markers-left-out* markers-not-asked* deviating-markers-*",
                "Octets with Markers that the receiver does not expect, or without those that it expects, fail the "
                "CRC.", (),
                "RFC 5044 §4.4"),
    Expectation("crc-first-fpdu deviating-crc-*",
                "An invalid first FPDU is not passed on; a Responder then has no valid FPDU after which it may send "
                "one."),
    Expectation("pad-0 pad-1 pad-2 pad-3", "PAD makes an FPDU a multiple of four octets, from none to three."),
    Expectation("pad-*", "PAD is ignored by the receiver, except in the CRC."),
    Expectation("crc-octet-missing read-without-its-last-octet",
                "No part of an incomplete FPDU is passed on."),
    Expectation("crc-off-*", "With C set by neither side, the CRC field counts as valid, whatever it holds."),
    Expectation("ulpdu-holds-*", "The content of a ULPDU is not examined: FPDUs follow from the lengths alone."),
    Expectation("fpdu-twice msn-twice msn-0 l-too-early",
                "An MSN is used once, counted from 1: one that is already complete, or was never due, is out of "
                "range."),
    Expectation("error-passed", "After the first error, nothing more is passed on: the second Read is not answered."),
)  # fmt: skip

_MARKERS = (
    Expectation("marker-at-* marker-before-crc-* fpdu-with-two-markers fpdu-of-markers-length mulpdu-with-markers "
                "ulpdu-holds-fake-markers",
                "A Marker stands at every 512th octet, wherever in an FPDU that is, and is not part of the ULPDU."),
    Expectation("fpduptr-low-bits-?", "The lowest two bits of FPDUPTR are treated as zero."),
    Expectation("marker-reserved-*", "RESERVED is ignored, except in the CRC."),
    Expectation("fpduptr-draft-origin fpduptr-rfc-origin-with-rev-0",
                "FPDUPTR counts from a different octet than this specification says: that Marker disagrees with the "
                "lengths, which a receiver may report as code 3, or not check.", _ANYTHING, "RFC 5044 §8"),
    Expectation("fpduptr-* markers-disagree* markers-agree-on-another-start marker-4-octets-*",
                "A Marker that disagrees with the lengths is code 3, but a receiver need not check Markers in "
                "segments that arrive in order.", ("accept",), "RFC 5044 §8"),
    Expectation("marker-first-not-zero",
                "A first Marker that is not zero is code 3, which need not be checked in order.",
                ("accept", "terminate"), "RFC 5044 §8"),
    Expectation("deviating-fpduptr-little-endian",
                "Only FPDUPTR is wrong, and the CRC is right: code 3, which need not be checked in order.",
                ("accept", "terminate"), "RFC 5044 §8"),
    Expectation("culley-02-connection culley-02-late culley-02-one-way",
                "Without startup frames, MPA starts where the ULPs agreed; a peer that waits for a Request finds none.",
                _ANYTHING),
    Expectation("markers-from-the-*",
                "A direction has Markers if its receiver asked for them, whatever the other has."),
)  # fmt: skip

_SEGMENTS = (
    Expectation("mulpdu-*", "A receiver may not refuse any size that a sender chooses, up to 64768 octets."),
)  # fmt: skip

_TEARDOWN = (
    Expectation("fin-in-length fin-in-ulpdu fin-in-first-fpdu fin-behind-* fin-before-crc "
                "fin-before-marker fin-of-the-responder-in-fpdu rst-in-fpdu",
                "A connection that ends within an FPDU is lost (code 1), and no part of the FPDU is passed on."),
    Expectation("fin-at-a-boundary fin-before-any-fpdu no-end",
                "TCP's close between FPDUs is no error; each ULP ends its own half when it is done."),
    Expectation("rst-at-a-boundary", "A RST ends the connection, wherever in the stream it arrives."),
    Expectation("terminate-reserved-bits* terminate-layer-3 terminate-type-3 terminate-code-8 terminate-header-* "
                "terminate-length-missing terminate-rdma-header* terminate-atomic-quoted terminate-quotes-another-* "
                "terminate-bits-reversed",
                "A Terminate ends the stream; an invalid one is surfaced as an error, which may send one in turn.",
                _ANY_END),
    Expectation("terminate-not-last", "After a Terminate, its sender sends nothing; anything else is dropped, or an "
    "error.",
                _ANY_END),
    Expectation("terminate-*",
                "A Terminate ends the stream: its receiver may stop at once, or first send what it still has, even a "
                "Terminate.", _ANY_END),
)  # fmt: skip

_DDP = (
    Expectation("ddp-version-*", "DV is validated: a segment of another version is an error of DDP."),
    Expectation("rdmap-version-?", "RV is validated by RDMAP: a message of another version is an error of RDMAP.", (),
                "RFC 5040 §7.2"),
    Expectation("opcode-changes invalidate-stag-changes",
                "A receiver may take RsvdULP from any segment of a message, and need not compare them.", _ANY_END),
    Expectation("queue-terminate-0",
                "A sender must use queue 2 for a Terminate; a receiver may take one on another queue for a Terminate, "
                "or for an error.", _ANY_END),
    Expectation("queue-send-1 queue-read-request-0",
                "An opcode on the wrong queue is not valid: either the opcode or the QN is wrong.",
                same=((1, 2, 1),)),
    Expectation("opcode-*", "An opcode in the wrong kind of segment is not valid, nor is one that no RFC defines."),
    Expectation("queue-4294967295", "A QN that the stream does not have is not valid."),
    Expectation("ddp-reserved-*", "Reserved bits of DDP are not checked."),
    Expectation("send-with-invalidate-stag rdmap-reserved-bits",
                "Reserved bits of RDMAP, and an Invalidate STag where nothing is invalidated, are not checked.", (),
                "RFC 5040 §4.1"),
    Expectation("mo-too-large mo-too-small mo-not-0 l-missing l-missing-write write-to-elsewhere send-unfinished "
                "write-unfinished",
                "A receiver need not verify that all of a message has arrived; it places what lies in its buffers.",
                _ANY_END),
    Expectation("mo-in-host-order mo-passes-2-32*", "MO, and MO with the payload, lie within the untagged buffer."),
    Expectation("to-up-to-the-last", "A TO and length that reach 2^64 without exceeding it do not wrap."),
    Expectation("to-wraps*", "A TO and length that exceed 2^64 are an error, whatever the buffer."),
    Expectation("write-of-nothing read-of-nothing",
                "STag and TO of a message of no octets are not checked; the Read is answered."),
    Expectation("read-request-of-32",
                "A Read Request has 28 octets; more are its sender's error, which no clause requires a receiver to "
                "find.", _ANYTHING),
    Expectation("read-request-of-*", "A Read Request has 28 octets; if some are missing, it cannot be answered.",
                _ANY_END),
    Expectation("read-request-in-host-order", "A source STag of a Read Request that names no memory is an error."),
    Expectation("send-se-invalidate",
                "The message is valid; an STag that cannot be invalidated ends the stream.", ("terminate",)),
    Expectation("atomic-request-alone", "RFC 7306 is optional; a peer that knows it validates the "
    "STag.", ("terminate",)),
    Expectation("read-response-unasked read-response-twice atomic-response-*",
                "A Response without a Request is no answer; no clause says how the stream ends.", _ANY_END),
    Expectation("read-response-* read-responses-*",
                "The Data Sink may compare a Response with its Request, or place it where the Response "
                "says.", _ANY_END),
    Expectation("read-unanswered atomic-unanswered", "The ULP decides how long to wait for a Response.", _ANY_END),
    Expectation("atomic-misaligned atomic-opcode-* immediate-data-of-?",
                "What RFC 7306 forbids must not be done; no clause gives it a code.", ("close", "terminate")),
    Expectation("write-*-the-buffer", "An RDMA Write outside the STag's buffer must not be placed, and is reported."),
    Expectation("read-*-the-buffer read-source-wraps",
                "An RDMA Read outside the STag's buffer must not be answered, and is reported."),
    Expectation("write-to-unknown-stag read-from-unknown-stag write-to-invalidated read-from-invalidated",
                "An STag that names nothing, or no longer names anything, is not valid for any access."),
    Expectation("write-over-a-write write-placed-late", "Placement may be in any order, and more than once."),
)  # fmt: skip

_TCP = (
    Expectation("overlap-first-differs octets-in-the-window late-octets-next-no-timestamps",
                "TCP decides which copy of an octet counts, so a CRC may fail.",
                _ANYTHING),
    Expectation("fragments-overlap",
                "An IPv4 receiver may reassemble overlapping fragments or drop them; the segment is retransmitted, so "
                "TCP has it once.", (), "RFC 791 §3.2"),
    Expectation("retransmission-of-request overlap-of-request keep-alive wrap-* ttl-changes path-mtu-* outside-window* "
                "fragments*",
                "How TCP and IP carry the octets says nothing about FPDUs."),
    Expectation("overlap-beyond-a-hole-*-no-crc", "TCP may keep either copy of octets beyond a hole."),
    Expectation("overlap-beyond-a-hole-*", "TCP may keep either copy of octets beyond a hole, so a CRC may fail.",
                _ANY_END),
    Expectation("overlap-whole-first overlap-inside-first overlap-head-first overlap-tail-first overlap-around-first "
                "overlap-wraps-first",
                "Octets that TCP has received in order are old when they arrive again: only the forged copy counts, "
                "and its CRC fails.", _ANY_END),
    Expectation("overlap-* two-conflicting-*",
                "Octets that TCP has received in order are old when they arrive again: only the first copy counts."),
    Expectation("crc-dropped-*",
                "A receiver may report a bad CRC, or silently drop the segment, so that TCP retransmits it.",
                _ANY_END),
    Expectation("tcp-checksum-* gap gap-* late-segment",
                "Octets that never arrived, or with a wrong checksum, are not passed on; TCP waits for them."),
    Expectation("rst-believed rst-and-fpdus",
                "A RST with the next sequence number ends the connection, whoever sent it."),
    Expectation("fin-believed",
                "A FIN with the next sequence number ends the half connection, whoever sent it; what follows is not "
                "part of it."),
    Expectation("rst-* syn-* fin-* octets-* ack-* late-*",
                "A segment that does not fit the connection is dropped by TCP, and MPA never sees it."),
)  # fmt: skip

#: A change that is no case of the catalogue.
_CHANGE = Expectation("", "It is not known what its peer must do.", _ANYTHING)
#: Cases that no live peer is given.
CAPTURE_ONLY = Expectation("*", "It concerns only the analysis of its capture.")
TABLE: tuple[Expectation, ...] = (
    *_CONFORMANT, *_STARTUP, *_NEGOTIATION, *_MARKERS, *_FPDUS, *_SEGMENTS, *_TEARDOWN, *_DDP, *_TCP, CAPTURE_ONLY,
)  # fmt: skip


@cache
def expectation_of(name: str) -> Expectation:
    """Return the row of a case, by its name."""
    if is_change(name):
        return _CHANGE
    names = name, name.removesuffix(_OF_THE_RESPONDER)
    return next(row for row in TABLE if any(fnmatchcase(one, text) for text in row.cases.split() for one in names))


def choices(case: Case) -> frozenset[Choice]:
    """Return what a conforming peer may do about a case instead of its reaction."""
    return frozenset(expectation_of(case.name).may)
