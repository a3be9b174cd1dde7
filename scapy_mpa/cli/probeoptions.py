"""The options of ``scapy-mpa probe``, and the settings that they make."""

from __future__ import annotations

import time
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from scapy_mpa.framing.agreement import RTR_TYPES
from scapy_mpa.framing.startup import NOT_NEGOTIATED, EnhancedData

if TYPE_CHECKING:
    from scapy_mpa.learn.subject import LearnSettings
    from scapy_mpa.probe.fitting import Clean
    from scapy_mpa.probe.run import RunSettings

#: Connections of --learn, and seconds of silence, unless others are given.
CONNECTIONS, SILENCE = 1000, 0.1


@dataclass(frozen=True)
class PeerOptions:
    """The options that name a live peer, and say how it is started; times are seconds."""

    where: tuple[str, ...]
    listens: str | None
    command: str | None
    restart: str | None
    timeout: float
    patience: float
    boot: float


@dataclass(frozen=True)
class ProbeOptions(PeerOptions):
    """The options as they were given; each has the name of the command's parameter."""

    names: tuple[str, ...]
    skipped: tuple[str, ...]
    areas: tuple[str, ...]
    clauses: tuple[str, ...]
    only_list: bool
    strict: bool
    required: tuple[str, ...]
    recovery: float
    repeat: int
    raw: str | None
    device: str | None
    mtu: int | None
    settle: float
    learn: bool
    learn_connections: int | None
    silence: float | None
    replay: str | None
    dot: str | None
    limit: float | None
    sample: int | None
    seed: int
    monitor: str | None
    rate: float | None
    expected: str | None
    output_format: str
    everything: bool
    junit: str | None
    html: str | None
    folder: Path | None
    script: str | None
    ulp: str
    buffer: tuple[int, int, int] | None
    private_data: bytes
    ird: int | None
    order: int | None
    peer_to_peer: bool
    rtr: tuple[str, ...]

    @property
    def is_chosen(self) -> bool:
        """True if cases are chosen, and not only left out."""
        return bool(self.names or self.areas or self.clauses)

    @property
    def _clean(self) -> Clean:
        from scapy_mpa.probe.fitting import Clean

        if self.ird is None and self.order is None and not self.peer_to_peer and not self.rtr:
            return Clean(self.private_data, None)
        types = self.rtr or (RTR_TYPES if self.peer_to_peer else ())
        depths = (NOT_NEGOTIATED if depth is None else depth for depth in (self.ird, self.order))
        flags = (int(one in types) for one in ("send", "write", "read"))
        return Clean(self.private_data, EnhancedData(int(self.peer_to_peer), *flags, *depths))

    @property
    def _interval(self) -> float:
        """Seconds from one connection to the next, at least."""
        return 1 / self.rate if self.rate is not None else 0.0

    @property
    def _until(self) -> float | None:
        """The end of a run that begins now, by the monotonic clock."""
        return time.monotonic() + self.limit if self.limit is not None else None

    def settings(self) -> RunSettings:
        """Return the settings of a run that begins now."""
        from scapy_mpa.probe.aim import Live
        from scapy_mpa.probe.choice import known_failures
        from scapy_mpa.probe.exchange import Terms
        from scapy_mpa.probe.monitor import Monitor
        from scapy_mpa.probe.run import RunSettings

        live = Live(*self.buffer) if self.buffer is not None else None
        return RunSettings(
            Terms(self.timeout, self._clean, live=live, rping=self.ulp == "rping", settle=self.settle),
            self.strict,
            self.repeat,
            self._interval,
            known_failures(self.expected) if self.expected is not None else frozenset(),
            keeps=self.folder is not None or self.script is not None,
            recovery=self.recovery,
            required=frozenset(self.required),
            monitor=Monitor(self.monitor, self.patience) if self.monitor is not None else None,
            until=self._until,
        )

    def learning(self) -> LearnSettings:
        """Return the settings of --learn, for a run that begins now."""
        from scapy_mpa.learn.subject import LearnSettings

        return LearnSettings(
            self._clean, self.silence or SILENCE, self.timeout, self.settle, self.learn_connections or CONNECTIONS,
            self._interval, self.recovery, self._until, self.seed,
        )  # fmt: skip
