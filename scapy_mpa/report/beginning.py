"""How MPA was started, as a timeline: what each side sent, and when (RFC 5044 §7.1.2)."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, Final

from scapy_mpa.framing.role import Role
from scapy_mpa.values.startup import StartupEvent

_SECOND: Final = 1_000_000_000
#: Nanoseconds after which an answer is late: what was lost twice came again by then (RFC 6298 §2: 1 s, then doubled).
LATE: Final = 3 * _SECOND
_OF_BOTH: Final = ("first FPDU", "FIN", "RST")


def event_as_dict(event: StartupEvent) -> dict[str, Any]:
    """An event with the keys of the JSON; its time is in seconds since the epoch."""
    return {"frame": event.frame, "time": event.time / _SECOND, "side": event.side, "event": event.what}


def event_lines(events: Sequence[StartupEvent]) -> Iterator[str]:
    """A line for each event, with seconds from the first one."""
    for event in events:
        seconds = f"{(event.time - events[0].time) / _SECOND:12.6f} s"
        yield f"{seconds}  frame {event.frame:<7} {event.side.capitalize():9}  {event.what}"


def event_line(events: Sequence[StartupEvent]) -> str:
    """Return all of them in one line, with seconds from the first one."""
    said = []
    for one in events:
        # What both sides send has the name of who did.
        whose = f"{one.side.capitalize()}'s " if one.what in _OF_BOTH else ""
        said.append(f"{whose}{one.what} {(one.time - events[0].time) / _SECOND:.3f} s (frame {one.frame})")
    return ", ".join(said)


def remarkable_beginning(events: Sequence[StartupEvent]) -> Iterator[str]:
    """Yield a sentence for everything remarkable about when MPA was started; nothing if all was as usual."""
    request, reply = _first(events, "initiator", "Request"), _first(events, "responder", "Reply")
    again = _first(events, "initiator", "second Request")
    if request is None:
        return
    if again is not None:
        yield f"two Requests: frame {request.frame}, and frame {again.frame} {_after(request, again)}"
    if reply is not None and reply.time - request.time >= LATE:
        yield f"the Responder replied {_after(request, reply)} the Request"
    ends = [one for one in events if one.what in ("FIN", "RST") and one.frame > request.frame]
    if ends and (reply is None or ends[0].frame < reply.frame):
        end = ends[0]
        gave_up = "gave up" if end.side == "initiator" else "closed"
        how = f"{end.what}, frame {end.frame}, {_after(request, end)} the Request"
        yield f"the {end.side.capitalize()} {gave_up} before any Reply ({how})"


def _first(events: Sequence[StartupEvent], side: Role, what: str) -> StartupEvent | None:
    for one in events:
        if one.side == side and one.what.startswith(what):
            return one
    return None


def _after(one: StartupEvent, other: StartupEvent) -> str:
    return f"{(other.time - one.time) / _SECOND:.3f} s after"
