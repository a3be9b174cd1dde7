"""Echo: one side says back every Send and all Immediate Data that it receives, the other one compares."""

from __future__ import annotations

from collections import deque

from scapy_mpa.craft.payload import generated
from scapy_mpa.live.rdmap import ImmediateDelivered, RDMAPEndpoint, RDMAPEvent, SendDelivered
from scapy_mpa.live.speaker import NOT_THE_SAME, UpperLayerError
from scapy_mpa.values.words import plural

#: Messages that are under way at a time.
_WINDOW = 4


class EchoServer:
    """Sends back what it receives; a Send with Solicited Event comes back as one."""

    def __init__(self, rdmap: RDMAPEndpoint) -> None:
        self._rdmap = rdmap
        self.count = self.octets = 0

    @property
    def is_done(self) -> bool:
        """Never: the client ends it."""
        return False

    @property
    def doubt(self) -> str:
        """Why a peer may fall silent, or close early."""
        return NOT_THE_SAME

    @property
    def summary(self) -> str:
        """What it did, in a phrase."""
        return f"echo: {plural(self.count, 'message')} of {plural(self.octets, 'octet')} sent back"

    def begin(self) -> None:
        """The client speaks first."""

    def take(self, event: RDMAPEvent) -> None:
        """Say it back."""
        if isinstance(event, SendDelivered):
            self._rdmap.send(event.payload, solicited=event.solicited)
            self._add(len(event.payload))
        elif isinstance(event, ImmediateDelivered):
            self._rdmap.immediate(event.data, solicited=event.solicited)
            self._add(len(event.data))

    def go_on(self, _now: float) -> float | None:
        """Do nothing: it sends only in reply."""
        return None

    def _add(self, octets: int) -> None:
        self.count += 1
        self.octets += octets


class EchoClient:
    """Sends messages of octets that are made up, and compares what comes back.

    Args:
        rdmap: sends its messages.
        count: messages; None: until somebody ends it.
        size: octets of each.
        seed: decides about them.
    """

    def __init__(self, rdmap: RDMAPEndpoint, count: int | None = None, size: int = 64, seed: int = 0) -> None:
        self._rdmap = rdmap
        self._count = count
        self._size = size
        self._seed = seed
        self._sent = 0
        self._under_way: deque[int] = deque()
        self.count = 0

    @property
    def is_done(self) -> bool:
        """All came back."""
        return self._count is not None and self.count >= self._count

    @property
    def doubt(self) -> str:
        """Why a peer may fall silent, or close early."""
        return NOT_THE_SAME

    @property
    def summary(self) -> str:
        """What it did, in a phrase."""
        return f"echo: {plural(self.count, 'message')} of {plural(self._size, 'octet')} came back"

    def begin(self) -> None:
        """Send the first ones."""
        while len(self._under_way) < _WINDOW and (self._count is None or self._sent < self._count):
            self._rdmap.send(self._octets(self._sent))
            self._under_way.append(self._sent)
            self._sent += 1

    def take(self, event: RDMAPEvent) -> None:
        """Compare, and send another one."""
        if not isinstance(event, SendDelivered):
            return
        if not self._under_way:
            raise UpperLayerError(f"echo: {len(event.payload)} octets came back that were never sent{NOT_THE_SAME}")
        number = self._under_way.popleft()
        if event.payload != self._octets(number):
            raise UpperLayerError(f"echo: message {number} did not come back as it was sent{NOT_THE_SAME}")
        self.count += 1
        self.begin()

    def go_on(self, _now: float) -> float | None:
        """Do nothing: it sends only after an answer."""
        return None

    def _octets(self, number: int) -> bytes:
        return generated(self._seed, number * self._size, self._size)
