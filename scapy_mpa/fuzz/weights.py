"""How often each area is drawn: as the catalogue has cases."""

from __future__ import annotations

AREAS = {
    "startup": 25, "negotiation": 25, "fpdu": 30, "markers": 25, "alignment": 8, "teardown": 8, "ddp": 30, "tcp": 15,
    "capture": 5,
}  # fmt: skip


def weights() -> dict[str, int]:
    """How often each area is drawn, in the order of a connection's life."""
    return AREAS
