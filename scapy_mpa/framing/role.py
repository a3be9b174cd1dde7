"""The sender: the MPA Initiator or the Responder (RFC 5044 §2)."""

from __future__ import annotations

from typing import Final, Literal, TypeAlias

Role: TypeAlias = Literal["initiator", "responder"]

ROLES: Final[tuple[Role, Role]] = ("initiator", "responder")


def peer_of(role: Role) -> Role:
    """Return the other one."""
    return "responder" if role == "initiator" else "initiator"
