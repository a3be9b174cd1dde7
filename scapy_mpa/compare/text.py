"""A comparison of two taps, for people."""

from __future__ import annotations

from collections.abc import Iterator

from scapy_mpa.compare.changes import Change
from scapy_mpa.compare.comparison import Comparison
from scapy_mpa.compare.half import KINDS, ComparedHalf, Event
from scapy_mpa.values.words import plural

#: Events of each kind that are listed, without --all.
_FEW = 3
#: Frames of an event that the text names.
_FRAMES = 4
_TAPS = ("SENDER", "RECEIVER")


def comparison_lines(found: Comparison, *, every: bool = False) -> Iterator[str]:
    """Yield the lines; ``every`` lists all events that were kept."""
    clock = found.clock
    if clock is not None and clock.is_known:
        ahead = clock.offset / 1e9
        yield (
            f"clock of RECEIVER {'ahead' if ahead >= 0 else 'behind'} by {abs(ahead) * 1e3:.3f} ms, "
            f"give or take {clock.error / 1e6:.3f} ms (assuming equal delay both ways)"
        )
        if clock.drift is not None:
            rate, error = (1e6 * one for one in (clock.drift.rate, clock.drift.error))
            yield (
                f"  in the middle of the captures; it gains {rate:+.3f} microseconds a second, give or take "
                f"{error:.3f}, which is subtracted from the delays"
            )
    elif clock is not None:
        yield "clocks: not compared, as segments have only one direction; the fastest one counts as delay 0"
    for one in found.connections:
        first, second = one.name
        yield f"connection {one.number}: {first}" + (f", at RECEIVER {second}" if second != first else "")
        for half in one.halves.values():
            yield from _half_lines(half, every)
    for name in found.only_first:
        yield f"not in RECEIVER: {name}"
    for name in found.only_second:
        yield f"not in SENDER: {name}"
    if not found.connections:
        yield "no MPA connection is in both captures"
    elif found.is_same:
        yield "nothing happened in transit"


def _half_lines(half: ComparedHalf, every: bool) -> Iterator[str]:
    sender, receiver = _TAPS[half.sender_tap], _TAPS[1 - half.sender_tap]
    here, there = half.segments
    yield f"  {half.direction} sends: {plural(here, 'segment')} at {sender}, {there} at {receiver}"
    for remark in half.remarks():
        yield f"    {remark}"
    if half.differs_in_acknowledgements:
        ours, theirs = half.acknowledgements
        yield f"    {plural(ours, 'acknowledgement')} without octets at {sender}, {theirs} at {receiver}"
    if half.delays is not None:
        least, median, most = (f"{1e3 * one:.3f}" for one in half.delays)
        yield f"    took {median} ms ({least} to {most})"
    for kind, words in KINDS.items():
        count = half.counts[kind]
        if not count:
            continue
        if kind == "changed":
            yield f"    {plural(half.changed_octets, 'octet')} changed in transit, in {plural(count, 'place')}"
            some = [_change_lines(one) for one in half.changes]
        else:
            yield (
                f"    {plural(count, 'segment')} {words}"
                if kind not in ("joined", "recut")
                else (f"    {plural(count, 'group')} of segments {words}")
            )
            some = [_event_lines(one) for one in half.events if one.kind == kind]
        listed = some if every else some[:_FEW]
        for lines in listed:
            yield from (f"      {line}" for line in lines)
        if len(listed) < count:
            yield f"      and {count - len(listed)} more" + ("" if every else " (--all)")
    if half.missing_octets:
        yield f"    {plural(half.missing_octets, 'octet')} at {sender} alone"
    if half.unknown_octets:
        yield f"    {plural(half.unknown_octets, 'octet')} at {receiver} alone"


def _change_lines(one: Change) -> list[str]:
    where = f" of FPDU {one.fpdu}" if one.fpdu is not None else ""
    more = "..." if one.octets > len(one.before) else ""
    crc = ""
    if one.crc_before is not None:
        crc = f"CRC {one.crc_before} before" + (f", {one.crc_after} after" if one.crc_after is not None else "") + "; "
    shows = "the TCP checksum shows it" if one.checksum_shows else "the TCP checksum does not show it"
    return [
        f"frame {one.sent_frame} > {one.received_frame}, offset {one.offset}: {one.part}{where}",
        f"  {one.before.hex()}{more} became {one.after.hex()}{more}",
        f"  {crc}{shows}",
    ]


def _event_lines(one: Event) -> list[str]:
    sent, received = (_frames(frames) for frames in (one.sent_frames, one.received_frames))
    took = f", {1e3 * one.delay:.3f} ms" if one.delay is not None else ""
    return [f"frame {sent} > {received}, offset {one.offset}, {plural(one.octets, 'octet')}{took}"]


def _frames(frames: tuple[int, ...]) -> str:
    """Numbers of frames, the first few of many."""
    return ", ".join(map(str, frames[:_FRAMES])) + (", ..." if len(frames) > _FRAMES else "") or "-"
