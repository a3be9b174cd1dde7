"""What all headers of upper layers have in common: named values, and the memory that they name to the peer."""

from __future__ import annotations

from typing import Any, Literal, TypeAlias

from scapy_mpa.tuples import NamedTuple

#: The protocols that are known, by the names in reports.
Protocol: TypeAlias = Literal["SMB Direct", "RPC-over-RDMA", "NVMe-oF", "iSER", "rping", "perftest"]
UNKNOWN = "unknown"


class NamedMemory(NamedTuple):
    """Memory that a message offers to the peer: STag, TO and octets, and what for ("read", "write", "reply").

    ``length`` is 0 where the message does not say it.
    """

    stag: int
    to: int
    length: int
    use: str

    def as_dict(self) -> dict[str, Any]:
        """The keys of the JSON."""
        return self._asdict()


class Naming(NamedTuple):
    """What the header of a message says about memory; the fields are those of :class:`UpperHeader`."""

    protocol: Protocol
    named: tuple[NamedMemory, ...] = ()
    call: int | None = None
    is_reply: bool | None = False
    is_cut: bool = False


class UpperHeader(NamedTuple):
    """The header of a message: its protocol, its values by name, the memory it names, a word or two for people.

    ``call`` is what a call and its reply have in common, None where the protocol knows no calls; ``is_reply`` is which
    of the two it is, None if the header does not say it. ``is_cut``: it may name more memory, in octets that are not at
    hand or cannot be read. ``waits``: it is a call that may stay without a reply, by design.
    """

    protocol: Protocol
    values: dict[str, Any]
    named: tuple[NamedMemory, ...] = ()
    text: str = ""
    call: int | None = None
    is_reply: bool | None = False
    is_cut: bool = False
    waits: bool = False

    def as_dict(self) -> dict[str, Any]:
        """The keys of the JSON."""
        return {"protocol": self.protocol, **self.values}
