"""``scapy-mpa craft``."""

from __future__ import annotations

import os
from contextlib import ExitStack
from typing import TYPE_CHECKING, Any, Literal

import click

from scapy_mpa.cli.group import Command
from scapy_mpa.cli.lines import print_lines
from scapy_mpa.cli.output import check_output, is_stdout, tell_written, written
from scapy_mpa.cli.types import Word, with_file
from scapy_mpa.values.words import plural

if TYPE_CHECKING:
    from scapy_mpa.craft.scenario import Scenario

# What makes traffic is imported when there is some to be made: other commands do not need it.
_FORMATS: tuple[Literal["pcap", "pcapng"], ...] = ("pcap", "pcapng")


@click.command(
    "craft",
    cls=Command,
    epilog="crafting.md in the documentation describes all scenarios, steps and impairments.",
)
@click.argument("scenario", required=False)
@click.option("-o", "--output", metavar="FILE", type=click.Path(), help="The capture to write; - is stdout.")
@click.option(
    "--truth",
    metavar="FILE",
    type=click.Path(),
    help="Write the FPDUs that can be found in the capture, as JSON lines; - is stdout.",
)
@click.option("--seed", type=click.IntRange(0), help="Seed for everything random.")
@click.option(
    "--impair",
    "impairments",
    multiple=True,
    metavar="KIND[:NAME=VALUE,...]",
    help="Impair the packets; --list names the kinds. May be repeated.",
)
@click.option(
    "--set",
    "parameters",
    multiple=True,
    metavar="NAME=VALUE",
    help="Set a parameter of every connection, written as in a scenario file: m=[1,1] (Markers both ways), mtu=9000. "
    "May be repeated.",
)
@click.option(
    "--say",
    "steps",
    multiple=True,
    metavar="STEP",
    help="Add a step at the end of every connection; 'initiator send @FILE' sends the octets of a file. May be "
    "repeated.",
)
@click.option(
    "--esp",
    metavar="ALGORITHM[,WORD...]",
    help="Carry the packets in IPsec ESP: aes-gcm, aes-cbc or null, optionally with ,transport and ,udp. The same "
    "as --set esp.",
)
@click.option(
    "--esp-keys",
    metavar="FILE",
    type=click.Path(),
    help="Write the keys to FILE, for Wireshark and the --esp option of other commands.",
)
@click.option("--connection", type=click.IntRange(0), help="Make only this connection of the scenario.")
@click.option(
    "--format",
    "output_format",
    type=Word(_FORMATS),
    help="Format of the capture. Default: as the extension of FILE says, otherwise pcap.",
)
@click.option(
    "--list",
    "only_list",
    is_flag=True,
    help="List the scenarios that ship with scapy-mpa, the impairments and the segmentations.",
)
def craft_command(
    scenario: str | None,
    output: str | None,
    truth: str | None,
    seed: int | None,
    impairments: tuple[str, ...],
    parameters: tuple[str, ...],
    steps: tuple[str, ...],
    esp: str | None,
    esp_keys: str | None,
    connection: int | None,
    output_format: Literal["pcap", "pcapng"] | None,
    only_list: bool,
) -> int:
    """Make a capture of MPA connections.

    SCENARIO is the name of a scenario that ships with scapy-mpa, or a TOML file. Without SCENARIO, --set and --say
    specify everything.
    """
    from scapy_mpa.craft.scenario import load, parse, toml_value

    if only_list:
        _list()
        return 0
    if scenario is None and not steps:
        raise click.UsageError("Missing argument 'SCENARIO', or --say; --list names the scenarios")
    if output is None:
        raise click.UsageError("no output: -o FILE names the capture to write")
    steps = tuple(map(with_file, steps))
    check_output((), output)
    if _is_named_twice(scenario, output, truth, esp_keys):
        raise click.UsageError("scenario, capture, truth and keys must be different files, but two have the same name")
    settings: dict[str, Any] = {}
    for text in parameters:
        name, equals, value = text.partition("=")
        if not equals:
            raise click.UsageError(f"--set {text!r} is not NAME=VALUE")
        settings[name.strip()] = toml_value(value.strip())
    if esp is not None:
        settings["esp"] = esp
    if scenario is None:
        found = parse("", "options", seed=seed, parameters=settings, steps=steps)
    else:
        found = load(scenario, seed=seed, parameters=settings, steps=steps)
    _write(found, output, truth, esp_keys, impairments, connection, output_format)
    return 0


def _write(
    scenario: Scenario,
    output: str,
    truth_file: str | None,
    key_file: str | None,
    impairments: tuple[str, ...],
    connection: int | None,
    output_format: Literal["pcap", "pcapng"] | None,
) -> None:
    from scapy_mpa.craft.traffic import truth_lines
    from scapy_mpa.craft.truth import Truth

    traffic = scenario.traffic(impairments, connection)
    keys = traffic.key_lines()
    if bool(keys) != (key_file is not None):
        told = (
            "the packets are encrypted with ESP: add --esp-keys FILE for the keys"
            if keys
            else "--esp-keys: no packet is encrypted with ESP; add --esp"
        )
        raise click.UsageError(told)
    truth = Truth() if truth_file is not None else None
    with ExitStack() as files:
        # Both are opened before anything is made: a name that cannot be written is reported at once.
        file = files.enter_context(written(output))
        lines = files.enter_context(written(truth_file)) if truth_file is not None else None
        if key_file is not None:
            files.enter_context(written(key_file)).write(keys.encode())
        packets = traffic.write(file, output_format or ("pcapng" if output.endswith(".pcapng") else "pcap"), truth)
        if truth is not None and lines is not None:
            lines.writelines(line.encode() for line in truth_lines(truth.records()))
            # One of them alone is useless: neither gets its name before all octets of both are written.
            lines.flush()
        file.flush()
    if truth_file is None or not is_stdout(truth_file):
        made = f"{plural(packets, 'packet')}, {plural(len(traffic.conversations), 'connection')}"
        happened = ", ".join(f"{plural(count, noun)} {verb}" for count, noun, verb in traffic.pipeline.happened())
        tell_written(output, f"{made}; {happened}" if happened else made)


def _is_named_twice(*names: str | None) -> bool:
    """Return True if two of these are one file, or both are standard output; devices may be."""
    given = [name for name in names if name is not None]
    places = [os.path.realpath(name) for name in given if os.path.isfile(name) or not os.path.exists(name)]
    return len(set(places)) < len(places)


def _list() -> None:
    from scapy_mpa.craft.impairments import IMPAIRMENTS
    from scapy_mpa.craft.scenario import load, shipped
    from scapy_mpa.craft.segmentation import SEGMENTATIONS

    names = shipped()
    width = max(map(len, names))
    print_lines(("Scenarios:", *(f"  {name:<{width}}  {load(name).title}" for name in names), ""))
    print_lines(
        ("Impairments (--impair), with their parameters; direction, connection and number limit each of them:",)
    )
    for name, kind in IMPAIRMENTS.items():
        # After a comma, a line may continue.
        defaults = ", ".join(f"{key}={str(value).lower()}" for key, value in kind.parameters.items())
        print_lines((f"  {name}: {defaults}", f"      {kind.meaning}"))
    print_lines(("", "Segmentations (--set segmentation=KIND):"))
    print_lines(f"  {name:<{width}}  {meaning}" for name, meaning in SEGMENTATIONS.items())
