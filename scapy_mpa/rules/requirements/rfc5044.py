"""The requirements of RFC 5044."""

from __future__ import annotations

from scapy_mpa.framing.mulpdu import MAX_MULPDU, MIN_MULPDU
from scapy_mpa.rules.requirements.row import Row, Sections, seen, unseen

_LEAST, _MOST = MIN_MULPDU, MAX_MULPDU  # octets of a ULPDU

RFC_5044: Sections = {
    "1.2": (
        unseen("MUST", "an implementation that recovers ULPDUs out of order can tell in which order they were "
                       "sent", "interface"),
        seen("MUST", "CRCs are in use unless the path is at least as safe without them", "crc-off"),
    ),
    "3": (
        seen("MUST", "each FPDU holds one ULPDU", "fpdu-format", "ddp-header"),
        unseen("MUST", "MPA reports the current MULPDU to DDP", "interface"),
        seen("SHOULD", "DDP keeps ULPDUs within MULPDU", "mulpdu"),
        seen("MUST", f"MULPDU lies between {_LEAST} and {_MOST} octets", "mulpdu-minimum", "ulpdu-length-limit"),
        seen("MUST NOT", f"no ULPDU above {_MOST} octets", "ulpdu-length-limit"),
        unseen("REQUIRED", "MPA need not take a ULPDU above MULPDU", "permission"),
        unseen("MUST", "a validated ULPDU is passed to DDP with its length", "interface"),
        unseen("SHOULD", "ULPDUs out of order are passed as soon as they are validated, with their order", "interface"),
        seen("MUST", "MPA reports the negotiated version to DDP, and DDP sends it", "rnic-version"),
    ),
    "4.1": (
        seen("MUST", "the format of FPDUs", "fpdu-format", "deviating-sender"),
        seen("MUST", "PAD is sent as zero, and ignored", "pad", "receiver-pad"),
        seen("MUST NOT", "the CRC field is present, and not checked, where CRCs are "
                         "off", "receiver-crc-off", "crc-field"),
    ),
    "4.2": (
        seen("MUST", "the format of Markers", "marker-length", "deviating-sender"),
        seen("MUST", "RESERVED is sent as zero, and ignored", "marker-reserved", "receiver-marker-reserved"),
        seen("MUST", "the lowest two bits of FPDUPTR are sent as zero", "fpduptr-low-bits"),
        seen("MUST", "the lowest two bits of FPDUPTR are treated as zero on reception", "receiver-fpduptr-low-bits"),
    ),
    "4.3": (
        seen("MUST", "every sender can send Markers if its receiver requires them", "marker-absent"),
        seen("MUST", "there is a Marker every 512 octets", "marker-position", "marker-absent"),
        seen("MUST", "FPDUPTR is the distance from ULPDU_Length", "marker-length", "fpduptr-origin"),
        seen("MUST", "this also holds where the sequence number wraps between the two", "marker-length"),
        seen("MUST", "the CRC of an FPDU covers the Marker right before it", "crc"),
        seen("MUST", "the lowest two bits of FPDUPTR are treated as zero", "receiver-fpduptr-low-bits"),
        seen("MUST", "the first Marker stands before the first FPDU", "marker-first", "marker-position"),
        seen("MUST", "all Markers of an FPDU point to its ULPDU_Length", "marker-agree", "fpduptr-origin"),
        seen("MUST", "among several FPDUs, a Marker points to the one that holds it", "marker-length"),
        seen("MUST", "a Marker between two FPDUs has FPDUPTR 0", "marker-length"),
        unseen("MUST", "the boundaries of ULPDUs are preserved on the way to DDP", "interface"),
        unseen("MUST", "DDP is passed the ULPDU and its length, not Markers, headers and CRC", "interface"),
    ),
    "4.4": (
        seen("MUST", "every implementation has CRCs", "crc", "receiver-crc"),
        unseen("MUST", "it always uses CRCs, or leaves them out only if an administrator says so", "administration"),
        unseen("REQUIRED", "it need not let an administrator turn them off", "permission"),
        seen("MUST", "CRCs are in use by default", "crc-off"),
        unseen("SHOULD NOT", "an administrator does not turn them off without an equal protection", "administration"),
        unseen("MUST", "the ULP is not affected by that", "interface"),
        seen("MUST", "if the peer prefers CRCs, they are sent and checked to the end", "crc", "receiver-crc"),
        seen("MUST", "if neither side prefers them, they are not checked", "receiver-crc-off"),
        seen("MUST", "the CRC field is always there", "crc-field"),
        seen("MUST", "it is the CRC32c as iSCSI computes it", "crc"),
        seen("MUST", "what the CRC covers", "crc"),
        seen("MUST", "a receiver computes it the same way and compares", "receiver-crc"),
        seen("MUST", "an FPDU whose CRC differs is invalid", "receiver-crc"),
    ),
    "4.5": (
        seen("MUST", "MULPDU with Markers", "mulpdu"),
        seen("MUST", "MULPDU without Markers", "mulpdu"),
        seen("SHOULD", "ULPDUs are as long as MULPDU allows", "mulpdu-filled", "mulpdu"),
        seen("MUST NOT", "MULPDU is not below 128 octets however small EMSS is", "mulpdu-minimum"),
        seen("MUST NOT", "MULPDU is not below 128 octets where a segment is nearly full", "mulpdu-minimum"),
    ),
    "5.1": (
        seen("SHOULD", "MULPDU is computed from EMSS", "mulpdu"),
        seen("SHOULD", "without EMSS, the size of FPDUs follows from the MTU", "fpdu-above-emss", "mulpdu"),
        seen(
            "SHOULD", "segments begin with FPDUs as far as TCP lets them",
            "alignment", "alignment-lost", "alignment-retransmission",
        ),
        seen("REQUIRED", "a receiver also works where alignment is lost", "receiver-alignment"),
    ),
    "5.2": (seen("MUST", "a receiver finds FPDUs by ULPDU_Length", "receiver-alignment"),),
    "6": (
        seen("MUST", "an FPDU is verified before its ULPDU is passed on", "receiver-crc"),
        seen("MUST", "its start is located and its CRC checked", "receiver-crc", "receiver-alignment"),
        seen(
            "MUST", "the start is known by the length before, by a Marker, or by lengths after a Marker",
            "receiver-alignment", "receiver-marker-length",
        ),
        seen("MUST", "ULPDU_Length shows whether the whole FPDU is there", "receiver-whole-fpdu"),
    ),
    "7.1": (
        seen("MUST", "both sides start MPA at the same octet", "fpdu-format", "marker-first"),
        unseen("MUST", "a DDP endpoint is bound to the connection in Full Operation", "interface"),
    ),
    "7.1.1": (
        seen("MUST", "the Key of a Request", "startup-key", "startup-role"),
        seen("MUST", "a Responder checks it and closes if it is wrong", "startup-not-closed", "receiver-startup-frame"),
        seen("MUST", "the Key of a Reply", "startup-key", "startup-role"),
        seen("MUST", "an Initiator checks it and closes if it is "
                     "wrong", "startup-not-closed", "receiver-startup-frame"),
        seen("REQUIRED", "M says what its sender requires", "marker-absent"),
        seen("REQUIRED", "M in a Request: Markers from the Responder", "marker-absent"),
        seen("REQUIRED", "M in a Reply: Markers from the Initiator", "marker-absent"),
        seen("MUST NOT", "there are no Markers where M is 0", "marker-unasked"),
        seen("MUST", "there are Markers where M is 1", "marker-absent"),
        seen("MUST NOT", "CRCs are not checked where C is 0 in both frames", "receiver-crc-off"),
        seen("MUST", "CRCs are sent and checked where C is 1 in either", "crc", "receiver-crc"),
        seen("MUST", "the CRC field counts as good where CRCs are off", "receiver-crc-off"),
        seen("MUST", "Res is sent as zero, and not checked", "startup-reserved-bits", "receiver-reserved-bits"),
        seen("MUST", "Rev is 1", "startup-revision", "startup-revision-differs"),
        seen("MUST", "Rev is checked", "receiver-revision"),
        seen("MUST", "an endpoint that cannot work with Rev closes the "
                     "connection", "receiver-revision", "rnic-foreign-revision"),
        seen("MUST", "PD_Length counts the Private Data", "startup-pd-length"),
        seen(
            "MUST", "a PD_Length that does not fit, or Private Data above 512 octets, ends in close",
            "startup-pd-length", "startup-private-data-limit", "startup-not-closed", "receiver-startup-frame",
        ),
        seen("MUST", "Private Data holds 0 to 512 octets", "startup-private-data-limit"),
    ),
    "7.1.2": (
        seen("MUST", "an Initiator sends a valid Request (rule 1)", "startup-frame", "startup-reply-first"),
        seen(
            "MUST", "a Responder waits for it (rule 2)",
            "startup-reply-first", "startup-octets-before-reply", "startup-responder-first",
        ),
        seen(
            "MUST", "it closes if the frame is not valid",
            "startup-invalid-answered", "startup-not-closed", "receiver-startup-frame",
        ),
        unseen("SHOULD", "Private Data that is not acceptable is answered by R", "ulp"),
        seen(
            "MUST", "the sides then leave MPA, with the TCP connection open",
            "startup-rejected-closed", "startup-fpdu-after-rejection",
        ),
        seen("SHOULD", "a Request that is acceptable is answered by a Reply without R", "startup-unanswered"),
        unseen("SHOULD", "the Responder then interprets what it receives as FPDUs", "interface"),
        seen("MUST", "an Initiator receives and validates a Reply first (rule 3)", "startup-fpdu-before-reply"),
        seen("MUST", "it closes if the frame is not valid", "startup-not-closed", "receiver-startup-frame"),
        seen(
            "MUST", "after a rejection, the sides leave MPA, with the TCP connection open",
            "startup-fpdu-after-rejection", "startup-rejected-closed",
        ),
        unseen("SHOULD", "otherwise the Initiator enters Full Operation", "ulp"),
        seen("MUST", "a Responder sends no FPDU before it has received one (rule 4)", "startup-responder-first"),
        seen(
            "MUST", "a wrong Key closes the connection (rule 5)",
            "startup-key", "startup-not-closed", "receiver-startup-frame",
        ),
        unseen("SHOULD", "Private Data that is not acceptable is answered by R (rule 6)", "ulp"),
        seen("MUST", "two Initiators are detected by their Keys (rule 8)", "startup-role", "receiver-startup-frame"),
        seen("SHOULD", "two Responders are detected by a timeout", "startup-timeout"),
        seen("MUST", "PD_Length is validated (rule 9)", "startup-not-closed", "receiver-startup-frame"),
        unseen("MUST", "the buffer for Private Data is large enough", "internal"),
        seen("MUST NOT", "there is no more Private Data than PD_Length says", "startup-pd-length"),
        seen("MUST", "otherwise, the frame is not valid", "startup-not-closed", "receiver-startup-frame"),
        seen("SHOULD", "waiting for startup frames is limited by a timeout (rule 10)", "startup-timeout"),
        unseen("SHOULD", "the ULP's waiting for messages is limited by a timeout as well", "ulp"),
    ),
    "7.1.5": (
        seen("SHOULD", "MPA is started when no streaming data is in flight", "startup-stream-data"),
        seen("MUST", "the rules of TCP hold", "overlap", "outside-window", "old-timestamp", "late-duplicate"),
        seen("MUST", "TCP also recovers what is lost while the connection is handed to another "
                     "stack", "gap", "overlap"),
    ),
    "7.2": (unseen("SHOULD", "DDP learns that the peer has closed", "interface"),),
    "8": (
        seen(
            "MUST", "the errors that are detected",
            "connection-lost", "crc", "marker-length", "startup-frame", "receiver-crc",
        ),
        unseen("SHOULD", "their codes are passed on", "interface"),
        seen("SHOULD", "a Marker that disagrees with lengths is an error", "marker-length", "receiver-marker-length"),
        seen("SHOULD", "this is checked whenever both are known", "receiver-marker-length"),
        seen(
            "MUST", "an invalid startup frame closes the connection at once",
            "startup-not-closed", "startup-invalid-answered", "receiver-startup-frame",
        ),
        seen(
            "MUST NOT", "nothing is passed on after an error", "error-passed", "error-went-on", "receiver-after-error"
        ),
        seen("MUST NOT", "MPA does not close after codes 2 and 3", "error-closed"),
    ),
    "9.3": (unseen("MUST", "IPsec is implemented", "ipsec"),),
    "9.4": (
        unseen("MUST", "the rules of RFC 3723 hold", "ipsec"),
        unseen("MUST NOT", "a deleted security association does not end the stream", "ipsec"),
    ),
    "A.4": (seen("MUST NOT", "a receiver does not depend on alignment", "receiver-alignment"),),
    "C.1": (
        seen("MUST", "DDP and RDMAP have one version, in both directions", "rnic-version-mixed", "rnic-version"),
        seen("MUST", "with an RDMA Consortium RNIC, both sides use CRCs", "crc", "rnic-parameters"),
    ),
}  # fmt: skip


def like(section: str, *numbers: int) -> tuple[Row, ...]:
    """Requirements of another specification that ask for what RFC 5044 does in this section."""
    return tuple(RFC_5044[section][number - 1]._replace(like=(section, number)) for number in numbers)
