"""``scapy-mpa export``."""

from __future__ import annotations

from typing import BinaryIO, Literal

import click

from scapy_mpa.capture.link import RAW
from scapy_mpa.cli.group import Command
from scapy_mpa.cli.judging import Judging
from scapy_mpa.cli.lines import print_line
from scapy_mpa.cli.options import Reading, reads_captures_or_ongoing, warn_of_damage, warn_of_nothing, warn_of_remark
from scapy_mpa.cli.output import check_output, tell_written, written
from scapy_mpa.cli.types import Word
from scapy_mpa.framing.role import Role
from scapy_mpa.values.words import plural


@click.command("export", cls=Command)
@reads_captures_or_ongoing
@click.argument("output", metavar="OUT", type=click.Path(dir_okay=False, allow_dash=True))
@click.option(
    "--order",
    type=Word(("delivered", "placed")),
    default="delivered",
    show_default=True,
    help="Order of the ULPDUs: as delivered, which is the order of the stream, or as placed.",
)
@click.option(
    "--strip-markers",
    is_flag=True,
    help="Instead of exported PDUs, write the TCP connections in the order of the stream, without Markers.",
)
def export_command(reading: Reading, output: str, order: Literal["delivered", "placed"], strip_markers: bool) -> int:
    """Write the ULPDUs that a receiver finds to a pcapng file which Wireshark dissects fully.

    OUT holds the ULPDUs as exported PDUs, each with addresses and ports, and with the number and time of the frame that
    placed it; - is standard output. With -i and --follow, each is written as soon as it is placed, so a pipe to
    Wireshark shows it at once.
    """
    from scapy_mpa.wireshark.export import export_ulpdus
    from scapy_mpa.wireshark.strip import strip_markers as strip

    if strip_markers and len(reading.directions) == 1:
        raise click.UsageError("--strip-markers writes both directions of a connection; leave --direction out")
    if strip_markers and order != "delivered":
        raise click.UsageError("--strip-markers writes in the order of the stream; leave --order out")
    is_read_again = strip_markers and reading.ongoing is None
    check_output(reading.captures, output, again="export --strip-markers" if is_read_again else "")
    if reading.ongoing is not None:
        with written(output) as file:
            said, damage = export_ongoing(reading, file, strip_markers=strip_markers)
        tell_written(output, said)
        warn_of_damage(damage)
        return 0
    with reading.found_fpdus(order) as found, written(output) as file:
        if strip_markers:
            packets, fpdus, left_out = strip(reading.query, found, file)
            said = f"{plural(packets, 'packet')} with {plural(fpdus, 'FPDU')} without Markers"
            for one in left_out:
                why = "a sender that deviates sends Markers"
                print_line(f"scapy-mpa: connection {one.number} is left out: {why}", err=True)
        else:
            ulpdus, bad = export_ulpdus((one for one in found if reading.has_fpdu(one.record)), file)
            without = f", {plural(bad, 'FPDU')} with a bad CRC left out" if bad else ""
            said = f"{plural(ulpdus, 'ULPDU')} in {order} order{without}"
    tell_written(output, said)
    if not found.report.connections or not (packets if strip_markers else ulpdus):
        warn_of_nothing(reading.filters)
    warn_of_remark(found.remark)
    warn_of_damage(found.report.damage)
    return 0


def export_ongoing(reading: Reading, file: BinaryIO, *, strip_markers: bool) -> tuple[str, list[str]]:
    """Write what is read while it is written, all of it at once; return what was written, and what was damaged."""
    from scapy_mpa.cli.ongoing import OngoingReport, pass_on
    from scapy_mpa.craft.pcapngfile import PcapngWriter
    from scapy_mpa.wireshark.ongoing import OngoingPlain, OngoingULPDUs
    from scapy_mpa.wireshark.upperpdu import LINKTYPE_WIRESHARK_UPPER_PDU

    def is_wanted(connection: int, direction: Role, frame: int, time: int) -> bool:
        return reading.is_shown(connection, direction) and reading.is_in_period(frame, time)

    plain = OngoingPlain(lambda connection: not reading.connections or connection in reading.connections)
    ulpdus = OngoingULPDUs(is_wanted)
    listener = plain if strip_markers else ulpdus
    ongoing = OngoingReport(reading, Judging(None, "never"), listener=listener)
    writer = PcapngWriter(file, linktype=RAW if strip_markers else LINKTYPE_WIRESHARK_UPPER_PDU)
    file.flush()  # whoever reads a pipe waits for what it begins with
    packets = 0

    def write() -> None:
        nonlocal packets
        if some := writer.write_cut(listener.take()):
            packets += some
            file.flush()

    damage = pass_on(ongoing, write)
    write()
    if strip_markers:
        return f"{plural(packets, 'packet')} with {plural(plain.fpdus, 'FPDU')} without Markers", damage
    without = f", {plural(ulpdus.bad, 'FPDU')} with a bad CRC left out" if ulpdus.bad else ""
    return f"{plural(packets, 'ULPDU')} in placed order{without}", damage
