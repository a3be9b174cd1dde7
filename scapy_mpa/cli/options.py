"""Options that every command which reads a capture has."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

import click

from scapy_mpa.receive.operation import Direction
from scapy_mpa.report.analysis import EVERYTHING, Selection
from scapy_mpa.report.model import DIRECTIONS, Report

F = TypeVar("F", bound=Callable[..., Any])


class FrameRange(click.ParamType[tuple[int, int | None]]):
    """``A-B``, ``A-``, ``-B`` or ``A``: numbers of frames, from 1."""

    name = "frames"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> tuple[int, int | None]:
        """The first and last frame of the range, None where it is open."""
        if isinstance(value, tuple):
            return value
        parsed = re.fullmatch(r"(\d+)|(\d*)-(\d*)", value)
        if parsed is None or value == "-":
            self.fail(f"{value!r} is not a range of frames such as 10-20, 10- or 10", param, ctx)
        single, first, last = parsed.groups()
        if single:
            return int(single), int(single)
        frames = int(first or 1), int(last) if last else None
        if frames[1] is not None and frames[1] < frames[0]:
            self.fail(f"{value!r} ends before it begins", param, ctx)
        return frames


def reads_captures(command: F) -> F:
    """Add the captures and the options that select from them."""
    for decorate in reversed(
        (
            click.argument("captures", metavar="CAPTURE...", nargs=-1, required=True, type=click.Path()),
            click.option("--connection", type=click.IntRange(0), help="Only the connection with this number."),
            click.option("--direction", type=click.Choice(DIRECTIONS), help="Only what this side sent."),
            click.option(
                "--port",
                "ports",
                multiple=True,
                type=click.IntRange(0, 65535),
                help="Only TCP connections with this port on either side. May be repeated.",
            ),
            click.option("--frames", type=FrameRange(), metavar="A-B", help="Only these frames of the capture."),
        )
    ):
        command = decorate(command)
    return command


def selection(ports: Sequence[int], frames: tuple[int, int | None] | None) -> Selection:
    """What is looked at, from the options."""
    if not ports and frames is None:
        return EVERYTHING
    return Selection(frames, tuple(ports) or None)


def directions(direction: Direction | None) -> tuple[Direction, ...]:
    """The half connections that are shown."""
    return DIRECTIONS if direction is None else (direction,)


def select(report: Report, connection: int | None, shown: Sequence[Direction]) -> None:
    """Keep only what was asked for; raises :class:`click.UsageError` if there is no connection of that number."""
    try:
        report.select(connection, shown)
    except IndexError:
        there = len(report.connections)
        numbers = f"0 to {there - 1}" if there > 1 else "only 0" if there else "none"
        raise click.UsageError(f"there is no connection {connection}; the capture has {numbers}") from None


def warn_of_damage(report: Report) -> None:
    """One line on stderr for each capture that could only be read in part."""
    for line in report.damage:
        click.echo(f"scapy-mpa: {line}", err=True)
