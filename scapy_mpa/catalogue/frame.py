"""Changes to startup frames, and to what is said after them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from scapy_mpa.catalogue.baseline import ANSWER
from scapy_mpa.catalogue.mutation import Mutation, mutation
from scapy_mpa.framing.startup import KEY_LENGTH

if TYPE_CHECKING:
    from scapy_mpa.catalogue.plan import Plan, Step


@mutation
def setup(plan: Plan, /, **parameters: Any) -> None:
    """Parameters of the connection (see ``craft.setup.Setup``)."""
    plan.setup.update(parameters)


@mutation
def fields(plan: Plan, /, **values: Any) -> None:
    """Fields of the startup frame are these, whatever was agreed on."""
    plan.startup.append((plan.by, lambda frame: frame._replace(**values)))


@mutation
def key(plan: Plan, octets: bytes) -> None:
    """The Key is this one."""
    plan.octets.append((plan.by, lambda frame: octets + frame[KEY_LENGTH:]))


@mutation
def private_data(plan: Plan, size: int, first: bytes = b"") -> None:
    """Private Data has so many octets, the first of which are these; PD_Length says so unless lengths are left."""
    octets = first + bytes((n * 31 + 7) & 0x7F for n in range(size - len(first)))
    left = plan.left == "lengths"
    plan.startup.append(
        (plan.by, lambda frame: frame._replace(private_data=octets, pd_length=frame.pd_length if left else size))
    )


@mutation
def frame_cut(plan: Plan, keep: int) -> None:
    """Only so many octets of the startup frame are sent."""
    plan.octets.append((plan.by, lambda frame: frame[:keep]))


@mutation
def frame_followed(plan: Plan, octets: bytes) -> None:
    """Behind the startup frame, in the same segment, stand more octets."""
    plan.octets.append((plan.by, lambda frame: frame + octets))


@mutation
def instead(plan: Plan, octets: bytes) -> None:
    """In place of the startup frame these octets are sent."""
    plan.octets.append((plan.by, lambda _: octets))


@mutation
def says(plan: Plan, *steps: Step) -> None:
    """This is said, in place of what the baseline says; ULPDUs are of the side that the case is about."""
    plan.steps = list(steps)


@mutation
def answers(plan: Plan, step: Step | None) -> None:
    """The peer answers by this, in place of what it must do; by nothing, if it is None."""
    plan.answer = step


@mutation
def goes_on(plan: Plan) -> None:
    """Neither side closes: the connection goes on as if nothing had been wrong."""
    plan.steps, plan.answer = [*plan.valid], ANSWER
    plan.is_answered = True
    plan.setup.pop("closes", None)


@mutation
def ends(plan: Plan, how: str, by: str | None = None) -> None:
    """The connection ends by FIN, by RST or not at all; who does it is the side of the case unless told."""
    plan.setup["close"], plan.setup["closes"] = how, by or plan.by


def of_peer(change: Mutation) -> Mutation:
    """The same change, of what the peer sends."""

    def apply(plan: Plan) -> None:
        plan.by, plan.peer = plan.peer, plan.by
        change.apply(plan)
        plan.by, plan.peer = plan.peer, plan.by

    return Mutation(f"peer: {change.text}", apply)
