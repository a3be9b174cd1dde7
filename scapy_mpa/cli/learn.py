"""``scapy-mpa probe --learn``: the state machine of a live peer."""

from __future__ import annotations

import signal
from collections.abc import Callable
from contextlib import ExitStack
from typing import TYPE_CHECKING, Any

import click

from scapy_mpa.cli.lines import print_line, print_lines
from scapy_mpa.cli.output import STANDARD_OUTPUT, check_folder_of, tell_written, written
from scapy_mpa.cli.probeoptions import CONNECTIONS, SILENCE, ProbeOptions
from scapy_mpa.cli.settling import GONE
from scapy_mpa.errors import MPAError
from scapy_mpa.system.cycles import look_often
from scapy_mpa.system.ending import STATUS, noting_interrupt
from scapy_mpa.system.names import printable

if TYPE_CHECKING:
    from scapy_mpa.learn.kv import LearnedPeer
    from scapy_mpa.learn.subject import LearnSubject
    from scapy_mpa.probe.target import Target

#: Options of `probe` that count with --learn.
_COUNT = frozenset((
    "where", "listens", "command", "restart", "timeout", "patience", "boot", "recovery", "settle", "limit", "seed",
    "rate", "output_format", "private_data", "ird", "order", "peer_to_peer", "rtr",
    "learn", "learn_connections", "silence", "replay", "dot",
))  # fmt: skip


def learns(command: Callable[..., int]) -> Callable[..., Any]:
    """Give a command the options of learning."""
    seconds = click.FloatRange(0.001, 3600)
    for option in (
        click.option("--dot", metavar="FILE", type=click.Path(dir_okay=False), help="With --learn: write a graph."),
        click.option("--replay", metavar="INPUTS", help="With --learn: only send these inputs on one connection."),
        click.option(
            "--silence", type=seconds, metavar="SECONDS",
            help=f"With --learn: silence of this length counts as no answer.  [default: {SILENCE:g}]",
        ),
        click.option(
            "--learn-connections", type=click.IntRange(1, 1_000_000), metavar="N",
            help=f"With --learn: the maximum number of connections.  [default: {CONNECTIONS}]",
        ),
        click.option(
            "--learn", is_flag=True, help="Learn the peer's state machine, and compare it with the one in RFC 5044."
        ),
    ):  # fmt: skip
        command = option(command)
    return command


def check_without_learning(given: ProbeOptions) -> None:
    """Complain of options that are for --learn."""
    if (given.learn_connections, given.silence, given.replay, given.dot) != (None,) * 4:
        raise click.UsageError("--learn-connections, --silence, --replay and --dot need --learn")


def check_learning(context: click.Context, given: ProbeOptions) -> None:
    """Complain of what --learn does not do, before anything is sent."""
    source = click.core.ParameterSource.COMMANDLINE
    for parameter in context.command.params:
        name = parameter.name or ""
        if name not in _COUNT and context.get_parameter_source(name) == source:
            raise click.UsageError(f"--learn does not use {parameter.opts[0]}")
    if given.output_format == "jsonl":
        raise click.UsageError("--learn writes one result: --format json")
    if given.replay is not None and (given.dot is not None or given.output_format != "text"):
        raise click.UsageError("--replay prints one connection as text: leave --dot and --format out")
    if given.dot == STANDARD_OUTPUT:
        raise click.UsageError("--dot needs a file: standard output is used for the results")
    if given.dot is not None:
        check_folder_of(given.dot)
    if given.replay is not None:
        return
    try:
        import aalpy  # noqa: F401
    except ImportError:
        raise MPAError("--learn needs the package aalpy: pip install 'scapy-mpa[learn]'") from None


def run_learning(enter: Callable[[ExitStack], tuple[Target, str]], given: ProbeOptions) -> int:
    """Learn a peer, and print what it does; returns the exit status."""
    from scapy_mpa.learn.kv import learned
    from scapy_mpa.learn.subject import LearnStopped, LearnSubject, PeerLost
    from scapy_mpa.learn.written import learned_json, text_lines
    from scapy_mpa.probe.run import CannotStart

    look_often()
    settings = given.learning()
    with ExitStack() as stack:
        target, peer = enter(stack)
        is_interrupted = stack.enter_context(noting_interrupt())
        subject = LearnSubject(target, settings, is_interrupted)
        try:
            if given.replay is not None:
                return _replay(subject, given.replay)
            if not subject.begin():
                raise CannotStart(f"{peer}: the peer does not answer a valid startup (--private-data, --ird, --ord)")
        except LearnStopped as error:
            raise CannotStart(str(error)) from None
        found = learned(subject, settings)
    if given.output_format == "json":
        print_line(learned_json(subject, found, peer, settings.seed))
    else:
        print_lines(text_lines(subject, found))
    if given.dot is not None:
        _draw(given.dot, found, subject, is_json=given.output_format == "json")
    if found.stopped is not None and given.output_format == "json":
        print_line(f"scapy-mpa: {printable(str(found.stopped))}", err=True)
    if is_interrupted():
        return STATUS + signal.SIGINT
    if isinstance(found.stopped, PeerLost):
        return GONE
    return int(bool(found.differences or subject.exceptions) or found.unstable is not None)


def _replay(subject: LearnSubject, inputs: str) -> int:
    from scapy_mpa.learn.written import replay_lines

    word = tuple(inputs.split())
    unknown = next((name for name in word if name not in subject.inputs), None)
    if unknown is not None or not word:
        raise click.UsageError(f"--replay takes inputs, one or more: {', '.join(subject.inputs)}")
    steps = subject.replay(word)
    print_lines(replay_lines(steps))
    return 0


def _draw(dot: str, found: LearnedPeer, subject: LearnSubject, *, is_json: bool) -> None:
    """Write the graph, and its picture if Graphviz is there."""
    from scapy_mpa.learn.written import dot_source, draw_svg

    with written(dot) as file:
        file.write(dot_source(found, subject.role).encode())
    picture = draw_svg(dot)
    if not is_json:
        tell_written(dot, "a graph for Graphviz")
        if picture is not None:
            tell_written(str(picture), "the picture")
    if picture is None:
        print_line("scapy-mpa: the program dot of Graphviz is not installed: no picture was drawn", err=True)
