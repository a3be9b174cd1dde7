"""``scapy-mpa ulpdus``."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import click

from scapy_mpa.cli.options import Reading, reads_captures, warn_of_damage, warn_of_remark
from scapy_mpa.cli.output import check_empty, make_folder
from scapy_mpa.system.names import encodable, printable
from scapy_mpa.system.whole import write_whole

if TYPE_CHECKING:
    from scapy_mpa.wireshark.messages import ReceivedMessage


@click.command("ulpdus")
@reads_captures
@click.option("--format", "output_format", type=click.Choice(("text", "jsonl")), default="text", show_default=True)
@click.option(
    "-d",
    "--directory",
    metavar="DIR",
    type=click.Path(file_okay=False, path_type=Path),
    help="Write the octets into files there, one a message; DIR must be new or empty.",
)
@click.option(
    "--held",
    metavar="OCTETS",
    type=click.IntRange(1),
    help="How many octets wait for the rest of their messages; longer ones come in parts.  [default: 16777216]",
)
def ulpdus_command(
    reading: Reading, output_format: Literal["text", "jsonl"], directory: Path | None, held: int | None
) -> int:
    """Print what the FPDUs carry, message by message.

    RDMAP's untagged messages are put together from their DDP segments, RDMA Writes and Read Responses have STag and TO.
    The octets stand at the end of each line in hexadecimal, or in a file.
    """
    from scapy_mpa.wireshark.messages import DEFAULT_HELD, Messages

    if directory is not None:
        check_empty(directory)
    with reading.found_fpdus("delivered") as found:
        if directory is not None:
            make_folder(directory)
        messages = Messages(DEFAULT_HELD if held is None else held).of(found)
        write = sys.stdout.write
        for values in _kept(messages, directory):
            write(json.dumps(values) + "\n" if output_format == "jsonl" else _line(values))
    warn_of_remark(found.remark)
    warn_of_damage(found.report.damage)
    return 0


def _kept(messages: Iterable[ReceivedMessage], directory: Path | None) -> Iterable[dict[str, Any]]:
    """The values of messages; with a directory the octets are in a file there, and its name in their place."""
    for number, message in enumerate(messages, 1):
        values = message.as_dict()
        if directory is not None:
            name = (message.message or "ulpdu").lower().replace(" ", "-")
            path = directory / f"{message.connection}-{message.direction}-{number:06}-{name}.bin"
            write_whole(path, message.octets)
            del values["octets"]
            values["file"] = encodable(path)
        yield values


def _line(values: dict[str, Any]) -> str:
    where = (
        f"STag {values['stag']:#010x} TO {values['to']:#x}"
        if values["stag"] is not None
        else f"QN {values['qn']} MSN {values['msn']}"
        if values["qn"] is not None
        else ""
    )
    if values["offset"] or not values["last"]:
        where += f" from octet {values['offset']}" + ("" if values["last"] else ", more follows")
    note = f" ({values['note']})" if values["note"] else ""
    octets = values["octets"] if "octets" in values else printable(values["file"])
    name = values["message"] or "no message"
    return (
        f"{values['connection']} {values['direction']} frame {values['frame']} {name} {where}: "
        f"{values['length']} octets{note} {octets}\n"
    )
