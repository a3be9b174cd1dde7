"""The receiver: captured segments of any number of connections in, MPA connections and their FPDUs out."""

from __future__ import annotations

from collections.abc import Iterable

from scapy_mpa.infer.inference import Budget
from scapy_mpa.receiver.connection import ConnectionReader
from scapy_mpa.receiver.deviation import DiagnosisBudget
from scapy_mpa.stream.connection import Flows, TCPConnection, is_stray
from scapy_mpa.values.assumptions import NOTHING, Assumptions
from scapy_mpa.values.limits import DEFAULT_LIMITS, Limits
from scapy_mpa.values.segment import Segment


class Receiver:
    """Receives the segments of a capture.

    Feed it segments in the order of capture, a list at a time; call :meth:`finish` at the end.

    Args:
        limits: how much is held at most.
        assumptions: what the user says that no startup frame does.
    """

    def __init__(self, *, limits: Limits = DEFAULT_LIMITS, assumptions: Assumptions = NOTHING) -> None:
        self._limits = limits
        self._assumptions = assumptions
        self._budget = Budget()
        self._diagnosis_budget = DiagnosisBudget()
        self._flows = Flows(self._make_user, self._end)
        self._ended: list[tuple[bytes, ConnectionReader]] = []

    def _make_user(self, connection: TCPConnection) -> ConnectionReader:
        return ConnectionReader(connection, self._limits, self._budget, self._diagnosis_budget, self._assumptions)

    def _end(self, connection: TCPConnection) -> None:
        """Decide all that a connection holds; keep it if it is MPA's."""
        flow, mpa = connection.flow, connection.user
        assert flow is not None
        if not is_stray(connection, flow):
            mpa.finish()
            self._ended += [(flow.key, one) for one in mpa.last.chain if one.is_mpa]
        self._flows.remove(connection)

    def receive(self, seg: Segment) -> ConnectionReader | None:
        """Receive one segment; return the connection that it belongs to, None if it is left out."""
        connection, d = self._flows.receive(seg)
        if connection is None:
            return None
        mpa: ConnectionReader = connection.user
        mpa.receive(d, seg.frame, seg.time)
        connection.user = mpa.last
        return mpa.last

    def feed(self, segments: Iterable[Segment]) -> None:
        """Receive segments in the order of capture."""
        for seg in segments:
            self.receive(seg)

    def finish(self) -> list[tuple[bytes, ConnectionReader]]:
        """Decide all that is held; return the MPA connections in their order, each with the key of its direction 0."""
        strays = [one for _, one in self._flows if one.flow is not None and is_stray(one, one.flow)]
        for connection in strays:
            self._flows.remove(connection)
        for _, connection in self._flows:
            self._end(connection)
        return sorted(self._ended, key=lambda one: one[1].first_frame)
