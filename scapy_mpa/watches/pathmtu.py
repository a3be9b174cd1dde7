"""Reports of routers about the path MTU of one direction, and whether a host believes them (RFC 1191, RFC 8201, RFC
5927).

A path that holds less than before drops packets, and a router reports it; the sender then cuts the FPDUs that it has
into smaller segments, which are no longer aligned (RFC 5044 §A.5.1, §9.1).  Anyone can send such a message.  One
that quotes no octet under way comes of no packet that was dropped, and explains nothing (RFC 5927 §7.2).
"""

from __future__ import annotations

from collections.abc import Iterator

from scapy_mpa.tuples import NamedTuple
from scapy_mpa.values.pathmtu import PathMTUMessage, PathMTUMessages


class PathMTUReport(NamedTuple):
    """What is reported about a message (rule ``path-mtu``), and for how many messages it stands."""

    message: PathMTUMessage
    detail: str
    times: int


class PathMTUWatch:
    """The messages about packets of one direction.

    Attributes:
        messages: the first ones, in the order of capture, for rules that they may explain.
    """

    __slots__ = ("messages",)

    def __init__(self) -> None:
        self.messages = PathMTUMessages()

    def received(self, message: PathMTUMessage, offset: int, acknowledged: int | None, sent: int | None) -> None:
        """Take a message that quotes the octet at ``offset``.

        ``acknowledged`` and ``sent`` are the offsets up to which octets had been acknowledged and sent, None if that is
        not known.
        """
        if not message.unfit:
            if acknowledged is not None and offset < acknowledged:
                message = message._replace(unfit=f"octet {message.seq}, which it quotes, had been acknowledged")
            elif sent is not None and offset >= sent:
                message = message._replace(unfit=f"octet {message.seq}, which it quotes, had not been sent")
        self.messages.take(message)

    def finish(self) -> Iterator[PathMTUReport]:
        """Yield what was reported."""
        kept, last = self.messages.kept, self.messages.last
        unfit = sum(bool(one.unfit) for one in kept)
        rest = f"; {unfit} of the first {len(kept)} such messages do not fit" if 0 < unfit < len(kept) else ""
        for one in kept:
            yield PathMTUReport(one, one.detail + rest, 1)
        if last is not None:
            yield PathMTUReport(last, last.detail, self.messages.more)
