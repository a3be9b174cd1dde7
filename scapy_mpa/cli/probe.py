"""``scapy-mpa probe``."""

from __future__ import annotations

import json
import os
import signal
import sys
from collections.abc import Iterable, Iterator
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import click

from scapy_mpa.cli.address import host_and_port
from scapy_mpa.cli.colours import console_for, file_width
from scapy_mpa.cli.group import Command
from scapy_mpa.cli.learn import check_learning, check_without_learning, learns, run_learning
from scapy_mpa.cli.lines import print_line, print_lines
from scapy_mpa.cli.output import (
    STANDARD_OUTPUT,
    check_empty,
    check_folder_of,
    check_junit,
    make_folder,
    tell_written,
    written,
)
from scapy_mpa.cli.probeoptions import PeerOptions, ProbeOptions
from scapy_mpa.cli.progress import StepProgress
from scapy_mpa.cli.settling import GONE, ULPS, boots, monitors, recovers, settles
from scapy_mpa.cli.types import Begun, BufferType, OctetsType, TimeType, Word
from scapy_mpa.errors import MPAError
from scapy_mpa.framing.agreement import RTR_TYPES
from scapy_mpa.framing.role import Role, peer_of
from scapy_mpa.framing.startup import NOT_NEGOTIATED
from scapy_mpa.system.cycles import look_often
from scapy_mpa.system.ending import STATUS, noting_interrupt
from scapy_mpa.system.names import printable
from scapy_mpa.values.words import plural

if TYPE_CHECKING:
    from scapy_mpa.probe.case import ProbeCase
    from scapy_mpa.probe.rawcarrier import RawConnector
    from scapy_mpa.probe.run import Result, RunSettings
    from scapy_mpa.probe.target import Target

_LOOPBACK = "127.0.0.1"
_FAILED, _GONE, _INTERRUPTED = 1, GONE, STATUS + signal.SIGINT
#: What to try where nothing comes of a valid connection.
_SILENT = (
    "Does the peer speak MPA? If its Request needs more, see --private-data, --ird and --ord; selected cases (--case, "
    "--area, --clause) are sent anyway"
)
_FORMATS = ("text", "jsonl", "json")


def _areas() -> Iterable[str]:
    from scapy_mpa.probe.choice import chosen

    return dict.fromkeys(case.area for case in chosen())


def _complete(_context: click.Context, _parameter: click.Parameter, incomplete: str) -> list[str]:
    """Names of cases for the shell."""
    from scapy_mpa.probe.choice import all_cases

    return [name for name in all_cases() if name.startswith(incomplete)]


@click.command(
    "probe", cls=Command, epilog="probe.md in the documentation shows how to use this and how to read a result."
)
@click.argument("where", metavar="[HOST PORT]", nargs=-1)
@click.option("--listen", "listens", metavar="[HOST:]PORT", help="Test an Initiator, which connects to this port.")
@click.option(
    "--run",
    "command",
    metavar="COMMAND",
    help="Command that starts the Initiator, once for each connection; {port} is the port to connect to.",
)
@click.option("--restart", metavar="COMMAND", help="Command that restarts a peer that is gone.")
@click.option(
    "--case", "names", multiple=True, metavar="NAME", shell_complete=_complete,
    help="Only this case; * and ? are wildcards. May be repeated.",
)  # fmt: skip
@click.option(
    "--skip", "skipped", multiple=True, metavar="NAME", shell_complete=_complete,
    help="Skip this case; * and ? are wildcards. May be repeated.",
)  # fmt: skip
@click.option(
    "--area",
    "areas",
    multiple=True,
    metavar="AREA",
    type=Begun(_areas),
    help="Only cases of this area. May be repeated.",
)
@click.option(
    "--clause",
    "clauses",
    multiple=True,
    metavar="CLAUSE",
    help="Only cases of this clause: 'RFC 5044 §4'. May be repeated.",
)
@click.option("--list", "only_list", is_flag=True, help="List the cases and send none.")
@click.option("--strict", is_flag=True, help="Treat a SHOULD like a MUST.")
@click.option(
    "--require", "required", multiple=True, metavar="AREA", type=Begun(_areas),
    help="Cases of this area that cannot be tested fail. May be repeated.",
)  # fmt: skip
@click.option(
    "--timeout",
    type=click.FloatRange(0.001, 3600),
    default=2.0,
    show_default=True,
    help="Seconds to wait for each answer.",
)
@click.option(
    "--patience", type=click.FloatRange(0.001, 3600), default=10.0, show_default=True,
    help="Seconds to wait for an Initiator to connect, and for a peer to come back.",
)  # fmt: skip
@boots()
@recovers()
@click.option(
    "--repeat", type=click.IntRange(1, 1000), default=1, show_default=True, help="Run each case this many times."
)
@click.option(
    "--raw", "raw", metavar="ADDRESS",
    help="Build the TCP segments ourselves, from this unused address; needs root and a TUN device.",
)  # fmt: skip
@click.option("--tun", "device", metavar="NAME", help="With --raw: name of the TUN device.  [default: mpa-probe]")
@click.option("--mtu", type=click.IntRange(1, 65535), help="With --raw: MTU of the TUN device.  [default: 1500]")
@settles()
@learns
@click.option("--time", "limit", type=TimeType(), metavar="TIME", help="Start no new case after this time: 60s, 5m.")
@click.option(
    "--sample", type=click.IntRange(1), metavar="N", help="Only N of the cases; the first and the last are conformant."
)
@click.option(
    "--seed", type=click.IntRange(0), default=0, show_default=True, help="With --sample: which cases are chosen."
)
@monitors()
@click.option("--rate", type=click.FloatRange(0.001, 1e6), help="Maximum number of connections per second.")
@click.option(
    "--expected",
    metavar="FILE",
    type=click.Path(dir_okay=False),
    help="File of known failures: the name of a case, a rule or a deviation per line.",
)
@click.option("--format", "output_format", type=Word(_FORMATS), default="text", show_default=True)
@click.option("--all", "everything", is_flag=True, help="List all cases, not only those that count against the peer.")
@click.option("--junit", metavar="FILE", type=click.Path(dir_okay=False), help="Write JUnit XML, for CI systems.")
@click.option("--html", metavar="FILE", type=click.Path(dir_okay=False), help="Write a page for a browser.")
@click.option(
    "--write", "folder", metavar="DIR", type=click.Path(file_okay=False, path_type=Path),
    help="Write a capture of each case that fails.",
)  # fmt: skip
@click.option(
    "--script", metavar="FILE", type=click.Path(dir_okay=False),
    help="Write the one selected case as a Python program which sends the same, for a bug report.",
)  # fmt: skip
@click.option("--ulp", type=Word(ULPS), default="none", show_default=True, help="The peer's upper layer.")
@click.option(
    "--buffer", type=BufferType(), metavar="STAG,TO,OCTETS", help="Memory of the peer that may be written to."
)
@click.option("--private-data", type=OctetsType(), default="", metavar="OCTETS", help="A text, hex:00ff, or @FILE.")
@click.option(
    "--ird", type=click.IntRange(0, NOT_NEGOTIATED), help="Use the enhanced startup of RFC 6581, with this IRD."
)
@click.option(
    "--ord",
    "order",
    type=click.IntRange(0, NOT_NEGOTIATED),
    help="Use the enhanced startup of RFC 6581, with this ORD.",
)
@click.option(
    "--peer-to-peer", is_flag=True, help="Use the peer-to-peer mode of RFC 6581, with a ready-to-receive message."
)
@click.option(
    "--rtr",
    multiple=True,
    type=Word(RTR_TYPES),
    help="Type of ready-to-receive message. May be repeated. [default: all]",
)
def probe_command(**given: Any) -> int:
    """Test a live MPA implementation: is it conformant, and does it survive?

    HOST PORT is a Responder; with --listen, an Initiator is tested. Each case of the catalogue that can be sent to such
    a peer gets a connection of its own, and the answer is judged. Exit status: 0 if all pass, 1 if some fail, 2 if the
    probe cannot start or no case could be tested, 3 if the peer is gone, 130 after Ctrl-C.
    """
    from scapy_mpa.probe.choice import chosen, sampled
    from scapy_mpa.probe.run import peers

    options = ProbeOptions(**given)
    if options.learn:
        check_learning(click.get_current_context(), options)
        return run_learning(lambda stack: target_of(stack, options), options)
    check_without_learning(options)
    if options.output_format == "json":
        raise click.UsageError("--format json is for --learn: use jsonl here")
    cases = chosen(options.names, options.skipped, options.areas, options.clauses)
    if options.only_list:
        _list(cases, options.output_format)
        return 0
    settings = options.settings()
    telling = _Telling(options)
    telling.check()
    is_raw = options.raw is not None
    with ExitStack() as stack:
        if not is_raw and (options.device, options.mtu) != (None, None):
            raise click.UsageError("--tun and --mtu set up the TUN device of --raw: add --raw ADDRESS")
        wire = Wire(options.raw, options.device, options.mtu) if options.raw is not None else None
        target, peer = target_of(stack, options, wire)
        to_send = peers(cases, target.role, ("tcp", "raw") if is_raw else ("tcp",))
        if not to_send:
            raise MPAError(_nothing_to_give(cases, target.role, is_raw=is_raw))
        if options.sample is not None:
            to_send = sampled(to_send, options.sample, options.seed)
        if options.script is not None and (len(to_send) != 1 or is_raw):
            raise click.UsageError("--script writes one case that a socket can send: --case NAME, without --raw")
        return _run(target, peer, settings, to_send, telling, is_chosen=options.is_chosen)


def _nothing_to_give(cases: list[ProbeCase], role: Role, *, is_raw: bool) -> str:
    """Why none of the cases can be given to a peer in this role, and what to do."""
    from scapy_mpa.probe.run import peers

    if not is_raw and peers(cases, role, ("raw",)):
        return f"no selected case can be sent to an MPA {role} over the kernel's TCP (try --raw)"
    if peers(cases, peer_of(role)):
        way = "--listen PORT tests one" if role == "responder" else "HOST PORT tests one"
        return f"all selected cases are for an MPA {peer_of(role)}: {way}"
    return f"no selected case can be sent to an MPA {role}: --list says what carries each"


class Wire(NamedTuple):
    """What --raw says: the address, the device's name, its MTU."""

    address: str
    device: str | None
    mtu: int | None

    def connector(self, stack: ExitStack, host: str, port: int, timeout: float) -> RawConnector:
        """What connects to a Responder over it."""
        from scapy_mpa.probe.rawcarrier import RawConnector
        from scapy_mpa.probe.tun import DEVICE, MTU, Tun

        way = stack.enter_context(Tun(self.address, self.device or DEVICE, self.mtu or MTU))
        return RawConnector(way, str(way.address), host, port, timeout)


def target_of(stack: ExitStack, options: PeerOptions, wire: Wire | None = None) -> tuple[Target, str]:
    """Who is tested, and where it is, in words."""
    from scapy_mpa.probe.carrier import Acceptor, Connector
    from scapy_mpa.probe.target import Initiator, Responder, closing

    if options.restart is None and options.boot:
        raise click.UsageError("--boot is how long --restart may take: add --restart COMMAND")
    if options.listens is None:
        if options.command is not None:
            raise click.UsageError("--run starts an Initiator: only --listen tests one")
        if not options.where:
            raise click.UsageError("name HOST and PORT of a Responder, or --listen PORT for an Initiator")
        address, number = host_and_port(options.where)
        connector = (
            Connector(address, number, options.timeout)
            if wire is None
            else wire.connector(stack, address, number, options.timeout)
        )
        target: Target = Responder(connector, options.restart, options.patience, options.boot)
        return stack.enter_context(closing(target)), str(connector)
    if wire is not None:
        raise click.UsageError("--raw tests only a Responder: give HOST PORT")
    if options.where:
        raise click.UsageError("--listen waits for an Initiator: leave out HOST PORT")
    host, _, port = options.listens.rpartition(":")
    if not port.isdecimal() or int(port) > 0xFFFF:
        raise click.UsageError(f"--listen takes [HOST:]PORT, not {printable(options.listens)!r}")
    acceptor = stack.enter_context(Acceptor(host.strip("[]") or _LOOPBACK, int(port), options.timeout))
    if options.command is None:
        print_line(f"waiting for an Initiator to connect to {acceptor}, once for each connection", err=True)
    target = Initiator(acceptor, options.command, options.patience, options.restart, options.boot)
    return stack.enter_context(closing(target)), str(acceptor)


def _run(
    target: Target, peer: str, settings: RunSettings, cases: list[ProbeCase], telling: _Telling, *, is_chosen: bool
) -> int:
    """Give the cases, all or those that were chosen, and report them; returns the exit status."""
    from scapy_mpa.probe.run import CannotStart, PeerGone, ProbeRun

    look_often()
    run, gone, is_interrupted = ProbeRun(target, settings), "", False
    try:
        with noting_interrupt() as is_over:
            run.begin()
            if run.is_silent and not is_chosen:
                raise CannotStart(f"{run.remark}. {_SILENT}")
            if run.remark:
                print_line(f"scapy-mpa: {printable(run.remark)}", err=True)
            for result in run.results(cases):
                telling.result(result, len(cases))
                if is_over():
                    is_interrupted = True
                    break
    except PeerGone as error:
        gone = str(error)
    telling.end(peer, [one for one in (run.remark, gone) if one], len(cases))
    if gone:
        print_line(f"scapy-mpa: {printable(gone)}", err=True)
    if is_interrupted:
        return _INTERRUPTED
    bad = [one for one in telling.results if one.counts_against]
    judged = {one.case.name for one in telling.results if one.judgement.verdict == "peer gone"}
    # What a peer went with that had been judged before shows in the next one, which had no connection.
    if gone or {*run.lost} - judged or any(one.judgement.verdict == "peer gone" for one in bad):
        return _GONE
    if not bad and all(one.judgement.verdict == "unsupported" for one in telling.results):
        raise CannotStart(_nothing_tested(telling.results))
    return _FAILED if bad else 0


def _nothing_tested(results: list[Result]) -> str:
    """Why none of the cases says anything, and what may help."""
    from scapy_mpa.probe.told import causes

    why = "; ".join(f"{plural(count, 'case')}: {reason}" for reason, count in causes(results)[:3])
    return f"no case was tested: {why} (--private-data, --ird, --ord or --ulp may help)"


class _Telling:
    """Where results go."""

    def __init__(self, options: ProbeOptions) -> None:
        self._is_text = options.output_format == "text"
        self._everything = options.everything
        self._junit = options.junit
        self._html = options.html
        self._folder = options.folder
        self._script = options.script
        #: The files of recordings, by case.
        self._captures: dict[str, str] = {}
        self._progress = StepProgress("case") if self._is_text else None
        self.results: list[Result] = []

    def check(self) -> None:
        """Complain of what cannot be written, before anything is sent."""
        if self._junit is not None:
            check_junit(self._junit)
        if self._junit is not None and self._junit == self._html:
            raise click.UsageError("--junit and --html name the same file")
        if self._html is not None:
            from scapy_mpa.page.templates import check_jinja

            if self._html == STANDARD_OUTPUT:
                raise click.UsageError("--html needs a file: standard output is used for the results")
            check_folder_of(self._html)
            check_jinja()
        if self._script is not None:
            check_folder_of(self._script)
        if self._folder is not None:
            check_empty(self._folder)
            make_folder(self._folder)

    def result(self, result: Result, total: int) -> None:
        """One more."""
        from scapy_mpa.probe.told import json_line

        self.results.append(result)
        capture = None
        if self._folder is not None and result.counts_against and result.capture:
            capture = os.path.join(str(self._folder), f"{result.case.name}.pcapng")
            with written(capture) as file:
                file.write(result.capture)
            self._captures[result.case.name] = capture
        if self._script is not None and result.capture:
            from scapy_mpa.probe.reproducer import case_reproducer

            with written(self._script) as file:
                file.write(case_reproducer(result.case, recorded=result.capture).encode())
        self.results[-1] = replace(result, capture=b"")
        if not self._is_text:
            click.echo(json_line(result, capture))
            sys.stdout.flush()
        elif self._progress is not None:
            self._progress.step(len(self.results), total, result.case.name)

    def end(self, peer: str, remarks: list[str], total: int) -> None:
        """That was the last, of so many that were to be given."""
        if self._progress is not None:
            self._progress.end()
        if self._is_text:
            click.echo(self._table(total), nl=False)
        if self._junit is not None:
            from scapy_mpa.probe.told import junit

            with written(self._junit) as file:
                file.write(junit(self.results, peer))
            if self._is_text:
                tell_written(self._junit, plural(len(self.results), "case"))
        if self._html is not None:
            from scapy_mpa.page.probed import page_of_probe

            with written(self._html) as file:
                file.write(page_of_probe(self.results, peer, self._captures, remarks, total).encode())
            if self._is_text:
                tell_written(self._html, plural(len(self.results), "case"))

    def _table(self, total: int) -> str:
        """It is not rich that prints it, since that ends with status 1 when stdout is closed."""
        from scapy_mpa.probe.told import print_table

        console = console_for(None if sys.stdout.isatty() else file_width())
        with console.capture() as printed:
            print_table(self.results, console, everything=self._everything, total=total)
        return printed.get()


def _list(cases: list[ProbeCase], output_format: str) -> None:
    from scapy_mpa.probe.told import list_lines, listed

    lines: Iterator[str] = list_lines(cases) if output_format == "text" else (json.dumps(listed(one)) for one in cases)
    if output_format == "text":
        print_lines(lines)
        return
    for line in lines:
        click.echo(line)
