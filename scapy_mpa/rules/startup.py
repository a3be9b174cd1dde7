"""Rules of the Startup Phase: the two frames, their order, and what may follow which."""

from __future__ import annotations

from scapy_mpa.rules.rule import WITH_STARTUP, Rule

STARTUP_RULES = (
    # --- the frames ---
    Rule(
        "startup-frame", "error", "MUST", 4, "startup-frame",
        "startup frames are valid",
        "An endpoint that receives an improperly formatted Request or Reply closes the connection at once, so nothing "
        "of Full Operation is ever reached.",
        profiles=WITH_STARTUP,
    ),
    Rule(
        "startup-key", "error", "MUST", 4, "startup-fields",
        "a startup frame begins with the Key of its sender's role",
        "The 16 octets of the Key are all that tells MPA from any other stream; with any other value the connection is "
            "closed.",
        profiles=WITH_STARTUP,
    ),
    Rule(
        "startup-role", "error", "MUST", 4, "startup-rules",
        "one side is the Initiator and sends the Request; the other is the Responder and sends the Reply",
        "Two sides in the same role cannot agree on Markers and CRC. The Keys differ so that this is detected, instead "
        "of both sides waiting forever.",
        profiles=WITH_STARTUP,
    ),
    Rule(
        "startup-private-data-limit", "error", "MUST", 4, "startup-fields",
        "Private Data is no longer than the revision allows: 512 octets, 65535 in rddp-01",
        "A receiver reserves a buffer of that size; a longer field is an invalid frame.",
        profiles=WITH_STARTUP,
    ),
    Rule(
        "startup-pd-length", "error", "MUST", 4, "startup-fields",
        "PD_Length is the number of octets of Private Data that follow",
        "If PD_Length is too small, the rest of the Private Data is taken for FPDUs; if it is too large, the receiver "
        "waits for octets that never come.",
        profiles=WITH_STARTUP,
    ),
    Rule(
        "startup-enhanced-data", "error", "MUST", 4, "enhanced-frame",
        "with S set, Private Data begins with the four octets of IRD, ORD and the Control Flags",
        "S announces these octets. Without them, the receiver takes the ULP's own Private Data for depths and flags.",
        profiles=("rfc6581",),
    ),
    Rule(
        "startup-enhanced-revision", "warning", "MUST", None, "enhanced-frame",
        "S is set only with Rev 2 or above",
        "In older revisions the bit is reserved and ignored, so the receiver ignores what the sender asks for.",
        profiles=WITH_STARTUP,
    ),
    Rule(
        "startup-revision", "note", "MUST", None, "startup-fields",
        "Rev is one that a specification has defined: 0, 1 or 2",
        "The meaning of any other revision is unknown; a receiver that cannot work with it has to close the "
        "connection.",
        profiles=WITH_STARTUP,
    ),
    Rule(
        "startup-revision-differs", "note", "", None, "interoperability",
        "the Reply has the Rev of the Request",
        "Request and Reply may differ in Rev; both sides then have to follow the older revision.",
        profiles=WITH_STARTUP,
    ),
    Rule(
        "startup-reserved-bits", "warning", "MUST", None, "startup-frame",
        "the reserved bits of a startup frame are zero",
        "They are not checked on reception, so nothing breaks today. A later revision may give them a meaning, as "
        "RFC 6581 did with the first of them.",
        profiles=WITH_STARTUP,
    ),
    Rule(
        "startup-request-r", "warning", "", None, "startup-fields",
        "R is zero in a Request",
        "R rejects a connection, which only a Reply can do; a receiver ignores it in a Request.",
        profiles=WITH_STARTUP,
    ),
    # --- their order ---
    Rule(
        "startup-reply-first", "error", "MUST", 4, "startup-rules",
        "a Reply answers a Request that its sender has received",
        "A Responder waits for the Request: only then does it know what the Initiator asks for.",
        profiles=WITH_STARTUP,
    ),
    Rule(
        "startup-octets-before-reply", "error", "MUST", 4, "startup-rules",
        "the Responder sends nothing between receiving the Request and its Reply",
        "The Initiator takes the first octets it receives after its Request for the Key of the Reply, and closes if "
        "they are anything else.",
        profiles=WITH_STARTUP,
    ),
    Rule(
        "startup-fpdu-before-reply", "error", "MUST", 4, "startup-rules",
        "the Initiator sends nothing between its Request and the Reply",
        "Whether Markers and CRC are in use is not known before the Reply. A Responder may take such octets for "
        "Private Data that PD_Length does not count, and close the connection.",
        profiles=WITH_STARTUP,
    ),
    Rule(
        "startup-responder-first", "warning", "MUST", None, "startup-rules",
        "the Responder sends no FPDU before it has received one",
        "The Initiator's receiver may still be on its way into Full Operation. Many receivers cope; one that hands the "
        "connection from one stack to another may lose the FPDU.",
        profiles=WITH_STARTUP,
    ),
    Rule(
        "startup-stream-data", "note", "SHOULD", None, "dual-stack",
        "no streaming data is in flight when MPA is started",
        "Octets of the streaming mode that arrive after a connection was handed to the stack that speaks MPA are "
        "lost, or taken for startup frames.",
        profiles=WITH_STARTUP,
    ),
    Rule(
        "startup-unanswered", "note", "SHOULD", None, "startup-rules",
        "a valid Request is answered with a Reply",
        "A Responder that does not accept the Private Data says so with R; silence makes the Initiator wait for its "
        "timeout.",
        profiles=WITH_STARTUP,
    ),
    # --- after an invalid frame, and after a rejection ---
    Rule(
        "startup-rejected", "warning", "", None, "startup-rules",
        "the Responder accepts the connection",
        "A rejection breaks no rule, but there is no MPA connection. The Private Data of the Reply may say why.",
        profiles=WITH_STARTUP,
    ),
    Rule(
        "startup-invalid-answered", "error", "MUST", 4, "startup-rules",
        "an improperly formatted Request is answered by closing the connection",
        "A Reply to an invalid Request starts Full Operation with parameters that were never agreed on.",
        profiles=WITH_STARTUP,
    ),
    Rule(
        "startup-not-closed", "error", "MUST", 4, "startup-rules",
        "an endpoint that receives an improperly formatted startup frame closes the connection, and sends no FPDU",
        "An error of code 4 ends the connection at once. An FPDU after it shows an implementation that does not "
        "validate what it receives.",
        profiles=WITH_STARTUP,
    ),
    Rule(
        "startup-fpdu-after-rejection", "error", "MUST", None, "startup-rules",
        "after a Reply with R neither side sends FPDUs",
        "Both endpoints have left MPA by then. Later octets belong to whatever the ULP uses the connection for.",
        profiles=WITH_STARTUP,
    ),
    Rule(
        "startup-rejected-closed", "note", "MUST", None, "startup-rules",
        "MPA leaves the TCP connection open after a Reply with R; its ULP decides",
        "Have the ULP keep the connection open after the Reply and send streaming data: the data must arrive. In a "
        "capture, a close by the ULP looks the same.",
        profiles=WITH_STARTUP, observable="endpoint",
    ),
    Rule(
        "startup-timeout", "note", "SHOULD", None, "startup-rules",
        "an endpoint gives up waiting for a startup frame after a reasonable time",
        "Without a timeout, two Responders wait for each other forever, and a peer that sends half a frame ties up "
        "resources for nothing.",
        profiles=WITH_STARTUP, observable="endpoint",
    ),
)  # fmt: skip
