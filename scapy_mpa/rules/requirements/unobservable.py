"""Why there is no rule for a requirement: neither a capture nor a peer can see whether it is kept."""

from __future__ import annotations

REASONS: dict[str, str] = {
    "administration": "An administrator or a default decides this. Startup frames show the outcome, but not who chose "
    "it.",
    "capability": "It is about what an implementation can do; an ability that is not used cannot be observed.",
    "degree": "It is a matter of degree: no clause says how much is enough.",
    "host": "It is about what streams, ULPs and their managers share within a host; one stream does not show it.",
    "internal": "It is about how an implementation works internally; its peer sees the same in either case.",
    "interface": "It is about what TCP, MPA, DDP, RDMAP and the ULP exchange within a host; none of it is on the wire.",
    "ipsec": "It is about IPsec, below MPA. Where IPsec is in use, MPA cannot be seen.",
    "permission": "It says what is allowed, or not required, so nothing can break it.",
    "placement": "It is about what a host's memory holds, which no packet shows.",
    "sctp": "It is about DDP over SCTP, where there is no MPA.",
    "streams": "It is about connections with several streams; one of MPA has one.",
    "ulp": "The ULP decides this by what the octets mean to it; on the wire, every decision is correct.",
}
