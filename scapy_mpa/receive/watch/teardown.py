"""How a connection ended: by a RST, after an error, with a Terminate or without (RFC 5044 §7.2, §8)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from scapy_mpa.receive.half import Direction

if TYPE_CHECKING:
    from scapy_mpa.receive.tcp import MPAConnection

PEER: dict[Direction, Direction] = {"initiator": "responder", "responder": "initiator"}


def find_end(mpa: MPAConnection) -> None:
    """Report how the connection ended, nothing more coming."""
    for direction, peer in PEER.items():
        _find_reset(mpa, direction)
        _find_close(mpa, direction, peer)


def _find_reset(mpa: MPAConnection, direction: Direction) -> None:
    half, operation = mpa.halves[direction], mpa.operations.get(direction)
    if operation is None or half.rst is None or half.fin is not None:
        return
    if any(one.ddp.terminated or one.first_error is not None for one in mpa.operations.values()):
        return  # there was nothing left to be read
    seq, frame, time = half.rst
    mpa.findings.add("teardown-reset", direction, frame, time, seq, "RST without a FIN before it")


def _find_close(mpa: MPAConnection, direction: Direction, peer: Direction) -> None:
    """The receiver of what ``peer`` sent, ``direction``, noticed an error: what did it say?"""
    sent, answers = mpa.operations.get(peer), mpa.operations.get(direction)
    half = mpa.halves[direction]
    end = half.fin or half.rst
    if sent is None or sent.first_error is None or answers is None or end is None:
        return
    seq, frame, time = end
    if frame <= sent.first_error[0] or answers.ddp.terminated or answers.gapped:
        return
    how = "FIN" if half.fin is not None else "RST"
    detail = f"{how} after the error of frame {sent.first_error[0]}, without a Terminate"
    mpa.findings.add("error-closed", direction, frame, time, seq, detail)
