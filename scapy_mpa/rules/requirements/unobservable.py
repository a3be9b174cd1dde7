"""Why there is no rule for a requirement: neither a capture nor a peer can see whether it is kept."""

from __future__ import annotations

REASONS: dict[str, str] = {
    "administration": "An administrator, or a default, decides it. Startup frames show the outcome, not who chose it.",
    "capability": "It is about what an implementation can do; what it can do and does not do, nobody sees.",
    "internal": "It is about how an implementation works inside; whatever it does, its peer sees the same.",
    "interface": "It is about what TCP, MPA, DDP and the ULP tell each other within a host; none of it is on the wire.",
    "ipsec": "It is about IPsec, below MPA. Where it is in use, there is no MPA to be seen.",
    "permission": "It says what is not required, so nothing can break it.",
    "sctp": "It is about DDP over SCTP, where there is no MPA.",
    "ulp": "The ULP decides it, by what the Private Data means to it; on the wire each decision is right.",
}
