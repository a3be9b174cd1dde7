"""Startup frames: what stands in them, their length, their order, and what follows which (RFC 5044 §7.1)."""

from __future__ import annotations

from scapy_mpa.catalogue.case import Case, CaseOutcome
from scapy_mpa.catalogue.peer import ACCEPT, CLOSE, IGNORE, MSN_MISSING, REJECT, peer
from scapy_mpa.craft.changes.change import of_peer
from scapy_mpa.craft.changes.packets import earlier, inserted, merged, recut, silence
from scapy_mpa.craft.changes.said import answers, ends, goes_on, says
from scapy_mpa.craft.changes.startup import fields, frame_cut, frame_followed, instead, key, private_data, setup
from scapy_mpa.craft.ulpdus import send
from scapy_mpa.framing.fpdu import encode_fpdu
from scapy_mpa.framing.startup import REPLY_KEY, REQUEST_KEY, startup_frame

_LIMIT = 512
_REQUEST = startup_frame("request", c=1).encode()
#: What a sender had meant to be its first FPDU.
_FPDU = encode_fpdu(send(1, b"swallowed"))
_SILENT = of_peer(instead(b""))
_GIVES_UP = peer("wait", "It waits for the rest of the frame, gives up after a while and closes the connection.")
_EARLY = peer("accept", "It may hold the octets until it is ready for them; it may also lose them, or close.")
_ANY_REVISION = peer("accept", "It works with the revision, or closes; it ignores reserved bits.")
_NO_ANSWER = peer("wait", "It waits for the Reply, gives up after a while and closes the connection.")
_GONE = peer("lose", "It does not enter Full Operation, and reports the TCP connection lost (code 1) to its ULP.")


def _sized(size: int, kind: str, limit: int) -> str:
    side = "above" if size > limit else "within"
    return f"{kind} with {size} octet{'s' * (size != 1)} of Private Data, {side} the limit of {limit}"


_WRONG_LENGTHS = tuple(
    (
        f"pd-length-too-{'small' if counted < 40 else 'large'}",
        f"with 40 octets of Private Data of which PD_Length counts {counted}",
        (private_data(40), fields(pd_length=counted)),
        "startup-pd-length",
    )
    for counted in (4, 44)
)
_PRIVATE_DATA = tuple(
    Case(
        f"{kind}-private-data-{size}",
        _sized(size, f"A {kind.capitalize()}", _LIMIT),
        "plain",
        (private_data(size),),
        ("startup-private-data-limit",) if size > _LIMIT else (),
        CLOSE if size > _LIMIT else ACCEPT,
        by="initiator" if kind == "request" else "responder",
        clause="RFC 5044 §7.1.1",
        tests=("receiver-startup-frame",) if size > _LIMIT else (),
    )
    for kind in ("request", "reply")
    for size in (0, 1, 255, 256, 257, 511, 512, 513, 65535)
) + tuple(
    Case(
        f"rev-0-private-data-{size}",
        f"A Request of Rev 0 with {size} octets of Private Data: the draft sets no limit except the size of the field",
        "rddp-01",
        (private_data(size),),
        (),
        ACCEPT,
        clause="draft-ietf-rddp-mpa-01 §6.1.1",
    )
    for size in (513, 65535)
)

_KEYS = (
    Case(
        "request-key-last-octet", "A Request whose Key differs in its last octet", "plain",
        (key(REQUEST_KEY[:-1] + b"f"),), ("startup-key@capture",), CLOSE, tests=("receiver-startup-frame",),
    ),
    Case(
        "reply-key-last-octet", "A Reply whose Key differs in its last octet", "plain",
        (key(REPLY_KEY[:-1] + b"f"),), ("startup-key",), CLOSE, by="responder", tests=("receiver-startup-frame",),
    ),
    Case(
        "reply-key-first-octet", "A Reply whose Key differs in its first octet", "plain",
        (key(b"m" + REPLY_KEY[1:]),), ("startup-key",), CLOSE, by="responder", tests=("receiver-startup-frame",),
    ),
    Case(
        "reply-is-text", "Something that is not MPA answers the Request", "plain",
        (instead(b"HTTP/1.1 400 Bad Request\r\n\r\n"),), ("startup-key",), CLOSE, by="responder",
    ),
    Case(
        "two-initiators", "Both sides send a Request: both are in Initiator mode", "plain",
        (key(REQUEST_KEY),), ("startup-role",), CLOSE, by="responder", tests=("receiver-startup-frame",),
    ),
    Case(
        "two-responders", "Both sides are in Responder mode and send a Reply", "plain",
        (key(REPLY_KEY), goes_on(), says("start"), answers(None)),
        ("startup-role@initiator", "startup-invalid-answered@responder"), CLOSE, clause="RFC 5044 §7.1.2",
        tests=("receiver-startup-frame",),
    ),
)  # fmt: skip

_LENGTHS = (
    Case(
        "request-pd-length-too-small", "A Request with 40 octets of Private Data of which PD_Length counts 4", "plain",
        (private_data(40), fields(pd_length=4)), ("startup-pd-length",), CLOSE,
        tests=("receiver-startup-frame",),
    ),
    Case(
        "reply-pd-length-too-small", "A Reply with 40 octets of Private Data of which PD_Length counts 4", "plain",
        (private_data(40), fields(pd_length=4)), ("startup-pd-length",), CLOSE, by="responder",
    ),
    Case(
        "request-pd-length-too-large", "A Request whose PD_Length counts one octet that never arrives", "plain",
        (private_data(39), fields(pd_length=40), _SILENT, says("start")), ("startup-pd-length",), _GIVES_UP,
        tests=("startup-timeout",),
    ),
    Case(
        "reply-pd-length-too-large", "A Reply whose PD_Length counts one octet that never arrives", "plain",
        (private_data(39), fields(pd_length=40), says("start")), ("startup-pd-length",), _GIVES_UP, by="responder",
        tests=("startup-timeout",),
    ),
    Case(
        "request-private-data-not-counted", "A Request whose Private Data grows by 40 octets", "plain",
        (private_data(40),), (), ACCEPT, clause="RFC 5044 §7.1.1",
        left={"lengths": CaseOutcome(("startup-pd-length",), CLOSE)},
    ),
    Case(
        "request-pd-length-swallows-fpdu",
        "PD_Length of the Request counts the first FPDU, which is sent at once and so becomes Private Data", "plain",
        (
            private_data(len(_FPDU), _FPDU), recut(0, 20),
            says(send(2, bytes(20)), "responder send 30", send(3, bytes(20))),
        ),
        ("ddp-msn",), MSN_MISSING,
    ),
    Case(
        "reply-pd-length-swallows-fpdu",
        "PD_Length of the Reply counts the first FPDU, which is sent at once and so becomes Private Data", "plain",
        (
            private_data(len(_FPDU), _FPDU), recut(0, 20),
            says("initiator send 30", send(2, bytes(20)), send(3, bytes(20))),
        ),
        ("ddp-msn",), MSN_MISSING, by="responder",
    ),
)  # fmt: skip

_CUT = tuple(
    Case(
        f"request-of-{keep}-octets",
        f"A Request that ends after {keep} octets, {what}",
        "plain",
        (private_data(40), frame_cut(keep), _SILENT, says("start")),
        raises,
        _GIVES_UP,
        clause="RFC 5044 §7.1.1",
        tests=("startup-timeout",),
    )
    for keep, what, raises in (
        (7, "in its Key: nothing shows yet that it is MPA", ()),
        (8, "the fewest that identify it as MPA", ("startup-frame",)),
        (15, "one short of its Key", ("startup-frame",)),
        (16, "right after its Key", ("startup-frame",)),
        (19, "in PD_Length", ("startup-frame",)),
        (20, "before its Private Data", ("startup-pd-length",)),
        (59, "one short of its Private Data", ("startup-pd-length",)),
    )
) + tuple(
    Case(
        f"reply-of-{keep}-octets",
        f"A Reply that ends after {keep} octets, {what}",
        "plain",
        (private_data(40), frame_cut(keep), says("start")),
        raises,
        _GIVES_UP,
        by="responder",
        tests=("startup-timeout",),
    )
    for keep, what, raises in (
        (1, "the first of its Key", ("startup-frame",)),
        (17, "right after its flags", ("startup-frame",)),
        (20, "before its Private Data", ("startup-pd-length",)),
    )
)

_BITS = tuple(
    Case(
        f"{kind}-reserved-bit-{res:#04x}",
        f"A {kind.capitalize()} with the reserved bit {res:#04x}",
        "plain",
        (fields(res=res),),
        ("startup-reserved-bits",),
        IGNORE,
        by="initiator" if kind == "request" else "responder",
        tests=("receiver-reserved-bits",),
    )
    for kind, bits in (("request", (1, 2, 4, 8)), ("reply", (8,)))
    for res in bits
)
_MORE_BITS = (
    Case(
        "request-r", "A Request with R, which has no meaning in a Request", "plain",
        (fields(r=1),), ("startup-request-r",),
        IGNORE,
    ),
    Case(
        "request-s-of-rev-1", "A Request of Rev 1 with S, in which the bit is reserved", "plain", (fields(s=1),),
        ("startup-enhanced-revision",), IGNORE, tests=("receiver-reserved-bits",),
    ),
    Case(
        "rev-3", "A Request of Rev 3, which no specification defines", "plain", (fields(rev=3),),
        ("startup-revision", "startup-revision-differs@peer"), _ANY_REVISION, tests=("receiver-revision",),
    ),
    Case(
        "rev-255", "A Request with the largest Rev", "plain", (fields(rev=255),),
        ("startup-revision", "startup-revision-differs@peer"), _ANY_REVISION, tests=("receiver-revision",),
    ),
    Case(
        "rev-2-plain", "A plain Request of Rev 2, answered by Rev 1", "plain", (fields(rev=2),),
        ("startup-revision-differs@peer",), ACCEPT, tests=("receiver-revision",),
    ),
    Case(
        "rev-1-to-rfc6581", "A plain Request of Rev 1 to a Responder that knows Rev 2", "enhanced",
        (setup(rev=(1, 1)),), (), ACCEPT, clause="RFC 6581 §10", tests=("receiver-revision-1",),
    ),
)  # fmt: skip

_ENHANCED = tuple(
    Case(
        f"{kind}-s-with-pd-length-{size}",
        f"A {kind.capitalize()} with S and {size} octets of Private Data, where RFC 6581 requires 4",
        "enhanced",
        (private_data(size, bytes(size)),),
        ("startup-enhanced-data",),
        CLOSE,
        by="initiator" if kind == "request" else "responder",
        tests=("receiver-startup-frame",),
    )
    for kind, sizes in (("request", (0, 3)), ("reply", (3,)))
    for size in sizes
)
_MORE_ENHANCED = (
    Case(
        "enhanced-private-data-512", "An enhanced Request with 512 octets of Private Data, the four of IRD and ORD"
        " among them", "enhanced", (setup(private_data=(bytes(508), b"")),), (), ACCEPT, clause="RFC 6581 §6",
    ),
    Case(
        "enhanced-private-data-513", "An enhanced Request with 513 octets of Private Data, the four of IRD and ORD"
        " among them", "enhanced", (setup(private_data=(bytes(509), b"")),), ("startup-private-data-limit",), CLOSE,
    ),
)  # fmt: skip

_ORDER = (
    Case(
        "reply-before-request", "A Reply that was sent before the Request was received", "plain", (earlier(0, 0),),
        ("startup-reply-first",), peer("accept", "It takes the Reply, which is valid, or closes."),
        by="responder",
    ),
    Case(
        "reply-without-request", "A Reply without a Request", "plain", (_SILENT, says("start")),
        ("startup-reply-first",),
        CLOSE, by="responder",
    ),
    Case(
        "octets-before-reply", "Ten octets in a separate segment between the Request and the Reply", "plain",
        (inserted(0, b"one moment"), goes_on()), ("startup-octets-before-reply",), CLOSE, by="responder",
        tests=("receiver-startup-frame",),
    ),
    Case(
        "fpdu-before-reply", "An FPDU after the Request, before the Reply was received", "plain", (earlier(1, 0),),
        ("startup-fpdu-before-reply",), _EARLY,
    ),
    Case(
        "fpdu-in-segment-of-request", "An FPDU in the segment of the Request", "plain", (merged(1, 0),),
        ("startup-fpdu-before-reply",), _EARLY,
    ),
    Case(
        "responder-first", "The Responder's first FPDU comes before the Initiator's", "plain", (earlier(1, 1),),
        ("startup-responder-first",), _EARLY, by="responder",
    ),
    Case(
        "fpdu-in-segment-of-reply", "The Responder's first FPDU comes in the segment of the Reply", "plain",
        (merged(1, 0),), ("startup-responder-first",), _EARLY, by="responder",
    ),
    Case(
        "request-twice", "The Initiator sends its Request, and then the same octets again", "plain",
        (frame_followed(_REQUEST),), ("startup-pd-length",), CLOSE, tests=("receiver-startup-frame",),
    ),
    Case(
        "file-that-begins-like-a-request", "A file of text that begins with the octets of a Request", "plain",
        (frame_followed(b"These octets are the Request of RFC 5044. " * 20),), ("startup-in-data@capture",), CLOSE,
    ),
    Case(
        "private-data-is-request", "Private Data that is itself a Request", "plain",
        (private_data(len(_REQUEST), _REQUEST),), (), ACCEPT, clause="RFC 5044 §7.1.1",
    ),
    Case(
        "request-octet-by-octet", "A Request in segments of one octet", "plain",
        (private_data(4), recut(0, *range(1, 24))), (), ACCEPT, clause="RFC 5044 §7.1.2",
    ),
    Case(
        "reply-cut-in-the-key", "A Reply in two segments, the first of which ends where the Keys begin to differ",
        "plain", (recut(0, 11),), (), ACCEPT, by="responder", clause="RFC 5044 §7.1.2",
    ),
    Case(
        "streaming-data-under-way", "Streaming data that is not acknowledged when MPA is started", "plain",
        (says("initiator stream 'let us speak MPA'", "initiator send 30", "responder send 30"),),
        ("startup-stream-data",), _EARLY,
    ),
    Case(
        "streaming-data-acknowledged", "Streaming data that was acknowledged before MPA was started", "plain",
        (says("initiator stream 'let us speak MPA'", "pause 0.01", "initiator send 30", "responder send 30"),),
        (), ACCEPT, clause="RFC 5044 §7.1.5",
    ),
)  # fmt: skip

_ENDS = (
    Case(
        "unanswered-closed", "A valid Request that is answered by a close", "plain",
        (instead(b""), says("start"), ends("fin")), ("startup-unanswered",), _GONE, by="responder",
    ),
    Case(
        "unanswered-reset", "A valid Request that is answered by a RST", "plain",
        (instead(b""), says("start", "pause 0.01"), ends("rst")), ("startup-unanswered",), _GONE, by="responder",
    ),
    Case(
        "unanswered-silent", "A valid Request that is not answered within twelve seconds", "plain",
        (instead(b""), says("start"), silence(12)), ("startup-unanswered",), _NO_ANSWER, by="responder",
        tests=("startup-timeout",),
    ),
    Case(
        "private-data-rejected", "A Request whose Private Data the Responder does not accept", "plain",
        (private_data(40),), ("startup-rejected@peer",), REJECT, clause="RFC 5044 §7.1.2",
        tests=("startup-rejected-closed",),
    ),
    Case(
        "streaming-data-after-rejection", "After a Reply with R, the ULP continues without MPA", "plain",
        (setup(reject=True), says("start", "initiator stream 'then as before'"), answers("responder stream 'well'")),
        ("startup-rejected@peer",), ACCEPT, clause="RFC 5044 §7.1.2", tests=("startup-rejected-closed",),
    ),
    Case(
        "fpdu-after-rejection", "An FPDU of the Initiator after a Reply with R", "plain",
        (setup(reject=True), says("initiator send 30"), answers(None)),
        ("startup-fpdu-after-rejection", "startup-rejected@peer"),
        peer("accept", "It has left MPA: the octets are streaming data to its ULP."),
    ),
    Case(
        "rejected-by-who-goes-on", "An FPDU of the Responder after its own Reply with R", "plain",
        (setup(reject=True), says("responder send 30"), answers(None)),
        ("startup-fpdu-after-rejection", "startup-rejected"),
        peer("accept", "It has left MPA: the octets are streaming data to its ULP."),
        by="responder",
    ),
    Case(
        "invalid-request-answered", "A Request with 600 octets of Private Data is answered, and FPDUs follow", "plain",
        (private_data(600), goes_on()),
        ("startup-private-data-limit", "startup-invalid-answered@peer", "startup-not-closed@peer"), CLOSE,
    ),
    Case(
        "invalid-request-not-closed", "A Request with 600 octets of Private Data, after which neither side closes",
        "plain",
        (private_data(600), silence(12)), ("startup-private-data-limit", "startup-not-closed@peer"), CLOSE,
    ),
    Case(
        "invalid-reply-taken", "A Reply with 600 octets of Private Data, after which the Initiator sends FPDUs",
        "plain", (private_data(600), goes_on()), ("startup-private-data-limit", "startup-not-closed@peer"), CLOSE,
        by="responder",
    ),
    *(
        Case(
            f"request-{name}-answered", f"A Request {purpose} is answered, and FPDUs follow", "plain",
            (*changes, goes_on()),
            # Where no Request is known to have come, its answer is what is wrong.
            (rule, "startup-invalid-answered@peer", *(("startup-not-closed@peer",) if name != "key" else ())),
            CLOSE,
        )
        for name, purpose, changes, rule in (
            ("key", "with a Key in lower case", (key(REQUEST_KEY.lower()),), "startup-key"),
            ("role", "with the Key of a Reply", (key(REPLY_KEY),), "startup-role"),
            # A receiver of one that counts too many waits for them, and shows nothing.
            _WRONG_LENGTHS[0],
        )
    ),
    *(
        Case(
            f"reply-{name}-taken", f"A Reply {purpose}, after which the Initiator sends FPDUs", "plain",
            (*changes, goes_on()), (rule, "startup-not-closed@peer"),
            _GIVES_UP if name == "pd-length-too-large" else CLOSE, by="responder",
        )
        for name, purpose, changes, rule in (
            ("key", "with a Key in lower case", (key(REPLY_KEY.lower()),), "startup-key"),
            ("role", "with the Key of a Request", (key(REQUEST_KEY),), "startup-role"),
            *_WRONG_LENGTHS,
        )
    ),
)  # fmt: skip

CASES = (*_KEYS, *_PRIVATE_DATA, *_LENGTHS, *_CUT, *_BITS, *_MORE_BITS, *_ENHANCED, *_MORE_ENHANCED, *_ORDER, *_ENDS)
