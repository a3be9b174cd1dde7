"""What ``connect`` and ``listen`` have in common: their options, and what is done with them."""

from __future__ import annotations

import asyncio
import signal
import sys
import threading
from collections import deque
from collections.abc import Awaitable, Callable, Iterable, Iterator, Sequence
from contextlib import ExitStack, suppress
from dataclasses import dataclass, replace
from functools import cached_property, wraps
from itertools import cycle
from typing import TYPE_CHECKING, Any, BinaryIO

import click
from click.core import ParameterSource

from scapy_mpa.capture.index import is_pipe
from scapy_mpa.cli.cycles import look_often
from scapy_mpa.cli.lines import print_line
from scapy_mpa.cli.output import STANDARD_OUTPUT, check_output, is_stdout, tell_written, written
from scapy_mpa.cli.types import BufferType, OctetsType, Word
from scapy_mpa.craft.conversation import Conversation
from scapy_mpa.craft.tcppacket import Role
from scapy_mpa.craft.turns import Step
from scapy_mpa.errors import MPAError
from scapy_mpa.framing.agreement import RNIC_KINDS, RTR_TYPES, RtrType
from scapy_mpa.framing.profiles import PROFILES
from scapy_mpa.framing.startup import NOT_NEGOTIATED, EnhancedData
from scapy_mpa.live.driver import BROKEN, FINE, USELESS, LiveSession, TalkSettings
from scapy_mpa.live.echo import EchoClient, EchoServer
from scapy_mpa.live.endpoint import MPAEndpoint
from scapy_mpa.live.rdmap import RDMAPEndpoint, RDMAPSettings
from scapy_mpa.live.recording import Recording
from scapy_mpa.live.rping import MOST, SIZE, RpingClient, RpingServer
from scapy_mpa.live.script import Item, Script, items_of, line_items, speech, step_items
from scapy_mpa.live.settings import EndpointSettings
from scapy_mpa.live.speaker import Listening, Speaker
from scapy_mpa.live.telling import Telling
from scapy_mpa.report.words import plural
from scapy_mpa.system.ending import usual_signals
from scapy_mpa.system.names import printable

if TYPE_CHECKING:
    from scapy_mpa.probe.breaking import Breaking

#: Buffers that are there if none are asked for: those that steps name where they name none.
_BUFFERS = ((0x1000, 0, 1 << 16), (0x2000, 0, 1 << 16))
ULPS = ("none", "rping", "echo")


@dataclass(frozen=True)
class Talking:
    """What was asked for."""

    settings: TalkSettings
    ulp: str
    count: int | None
    size: int
    say: tuple[str, ...]
    scenario: str | None
    source: str | None
    wait: float
    show: bool
    payload: bool
    write: str | None
    log: str | None
    breaking: Breaking | None = None

    @property
    def has_words(self) -> bool:
        """Whether steps or ULPDUs are given."""
        return bool(self.say or self.scenario or self.source)

    def transparent(self, changes: dict[str, Any]) -> Talking:
        """The same with other settings of the endpoint, and without RDMAP: what comes is listed, not answered."""
        endpoint = replace(self.settings.endpoint, rdmap=False, **changes)
        return replace(self, settings=replace(self.settings, endpoint=endpoint, rdmap=None, buffers=()))

    @cached_property
    def scenario_steps(self) -> tuple[Sequence[Step], ...]:
        """The steps of each connection of the scenario: none of one connection, if there is no scenario.

        Raises MPAError for a scenario that cannot be read.
        """
        if self.scenario is None:
            return ((),)
        from scapy_mpa.craft.scenario import load

        return tuple(conversation.steps for conversation in load(self.scenario).conversations)

    def items(self, role: Role, steps: Sequence[Step]) -> Iterator[Item | None]:
        """What this side says on a connection, drawn as it is said; ``steps`` are those of the scenario."""
        conversation = speech()
        if self.breaking is not None and not self.has_words:
            yield from self.breaking.items() or ()
        yield from items_of(steps, role)
        for step in self.say:
            yield from step_items(step, role, conversation)
        if self.source is not None:
            for found in _items_of_lines(self.source, role, conversation):
                yield from found if found is not None else (None,)

    def speaker(self, role: Role) -> Callable[[RDMAPEndpoint], Speaker]:
        """What makes the upper layer of a connection."""
        if self.ulp != "none" and self.has_words:
            raise click.UsageError(f"--ulp {self.ulp} decides what is sent: leave --say, --scenario and --ulpdus out")
        begins = role == "initiator"
        if self.ulp == "rping":
            size = self.size
            return lambda rdmap: RpingClient(rdmap, self.count, size) if begins else RpingServer(rdmap)
        if self.ulp == "echo":
            return lambda rdmap: EchoClient(rdmap, self.count, self.size) if begins else EchoServer(rdmap)
        says = self.has_words or (self.breaking is not None and self.breaking.items() is not None)
        if not begins and not says:
            return lambda _: Listening()
        _check(self.say, self.source, role)
        for steps in self.scenario_steps:
            for _ in items_of(steps, role):
                pass
        # The next connection says what the next one of the scenario does.
        turns = cycle(self.scenario_steps)
        return lambda rdmap: Script(rdmap, self.items(role, next(turns)), wait=self.wait, ends=begins)

    def run(self, talk: Callable[[LiveSession], Awaitable[Any]], speaker: Callable[[RDMAPEndpoint], Speaker]) -> int:
        """Have it done, with the files that were asked for; returns the exit status."""
        if self.write is not None:
            check_output((), self.write)
        with ExitStack() as files:
            capture = files.enter_context(written(self.write)) if self.write is not None else None
            lines = files.enter_context(written(self.log)) if self.log is not None else None
            is_free = not any(name is not None and is_stdout(name) for name in (self.write, self.log))
            telling = Telling(
                _show if self.show and is_free else None,
                _logger(lines, self.log is not None and is_stdout(self.log)) if lines is not None else None,
                payload=self.payload,
            )
            is_classic = self.write is not None and self.write.lower().endswith(".pcap")
            recording = Recording(capture, is_classic=is_classic)
            session = LiveSession(self.settings, speaker, telling, recording)
            failure = _run(talk(session))
            recording.flush()
            if is_free:
                _sum_up(session, has_told=self.show)
        if failure is not None:
            raise failure
        if self.write is not None:
            tell_written(self.write, plural(recording.frames, "packet"))
        counts = session.counts
        return BROKEN if counts[BROKEN] else USELESS if counts[USELESS] else FINE


def _check(steps: Iterable[str], source: str | None, role: Role) -> None:
    """Complain about steps, and about lines of a file that can be read again, before anything is sent."""
    conversation = speech()
    for step in steps:
        for _ in step_items(step, role, conversation):
            pass
    if source is not None and not is_pipe(source):
        for _ in _items_of_lines(source, role, conversation):
            pass


def _show(line: str) -> None:
    print_line(printable(line))
    sys.stdout.flush()


def _logger(file: BinaryIO, is_read: bool) -> Callable[[str], None]:
    """What writes lines; at once, if somebody reads them as they come."""

    def log(line: str) -> None:
        file.write(line.encode() + b"\n")
        if is_read:
            file.flush()

    return log


def _sum_up(session: LiveSession, *, has_told: bool) -> None:
    """Print what became of the last connections; a failure alone where it was not told as it happened."""
    counts = session.counts
    total = sum(counts.values())
    said = [plural(total, "connection")]
    if counts[BROKEN]:
        said.append(f"{counts[BROKEN]} whose peer broke a rule")
    if session.terminated:
        said.append(f"{session.terminated} that the peer ended with a Terminate")
    if counts[USELESS] > session.terminated:
        said.append(f"{counts[USELESS] - session.terminated} that could not be finished")
    for one in session.last:
        summary = one.done if has_told and one.failure else one.summary
        if summary:
            print_line(f"{one.number} {printable(summary)}")
    print_line(", ".join(said))


def _run(talk: Awaitable[Any]) -> MPAError | None:
    """Run it until it ends, or until somebody presses Ctrl-C."""

    async def whole() -> MPAError | None:
        task = asyncio.ensure_future(talk)
        loop = asyncio.get_running_loop()
        ending = (signal.SIGINT, signal.SIGTERM)
        if threading.current_thread() is threading.main_thread():  # no other one takes signals
            with suppress(NotImplementedError):  # by Windows' event loops
                for number in ending:
                    loop.add_signal_handler(number, task.cancel)
        try:
            await task
        except asyncio.CancelledError:
            click.echo("", err=True)
        except MPAError as error:
            return error
        return None

    look_often()
    with usual_signals():
        return asyncio.run(whole())


def _items_of_lines(source: str, role: Role, conversation: Conversation) -> Iterator[list[Item] | None]:
    """What each line means, None while there is none.

    Raises MPAError for a line that means nothing, by its number; somebody at a terminal may try again.
    """
    is_typed = source == STANDARD_OUTPUT and sys.stdin.isatty()
    name = "standard input" if source == STANDARD_OUTPUT else printable(source)
    number = 0
    for line in _lines(source):
        if line is None:
            yield None
            continue
        number += 1
        try:
            yield [*line_items(line, role, conversation)]
        except MPAError as error:
            if not is_typed:
                raise MPAError(f"{name}, line {number}: {error}") from None
            print_line(printable(str(error)), err=True)


def _lines(source: str) -> Iterator[str | None]:
    """The lines of a file, or of standard input as they come: None while there is none."""
    if source != STANDARD_OUTPUT:
        try:
            with open(source, encoding="utf-8") as file:
                yield from file
        except (OSError, UnicodeDecodeError) as error:
            raise MPAError(f"{printable(source)}: {getattr(error, 'strerror', None) or error}") from None
        return
    if sys.stdin.isatty():
        print_line("type one step (send 100) or one ULPDU in hexadecimal per line; Ctrl-D ends", err=True)
        print_line("the peer's --timeout runs while you type", err=True)
    waiting: deque[str] = deque()
    reader = threading.Thread(target=lambda: waiting.extend(sys.stdin), daemon=True)
    reader.start()
    while reader.is_alive() or waiting:
        yield waiting.popleft() if waiting else None


def talks(role: Role) -> Callable[[Callable[..., int]], Callable[..., int]]:
    """Add the options of a live endpoint of a role; the command is handed a :class:`Talking`."""

    def adding(command: Callable[..., int]) -> Callable[..., int]:
        @wraps(command)
        def with_talking(**given: Any) -> int:
            own = {name: given.pop(name) for name in _OF_TALKING}
            return command(_talking(role, **own), **given)

        decorated = with_talking
        for decorate in reversed(_OPTIONS):
            decorated = decorate(decorated)
        return decorated

    return adding


def _talking(
    role: Role,
    *,
    ulp: str,
    count: int | None,
    size: int,
    say: tuple[str, ...],
    scenario: str | None,
    ulpdus: str | None,
    wait: float,
    quiet: bool,
    payload: bool,
    write: str | None,
    log: str | None,
    timeout: float,
    emss: int | None,
    has_rdmap: bool,
    buffers: tuple[tuple[int, int, int], ...],
    receive_buffers: int,
    receive_size: int,
    breaks: str | None,
    ird: int | None,
    order: int | None,
    **endpoint: Any,
) -> Talking:
    if len({stag for stag, _, _ in buffers}) < len(buffers):
        raise click.UsageError("two --buffer options have the same STag")
    if write is not None and log is not None and write == log:
        raise click.UsageError("--write and --log name the same file")
    rdmap = RDMAPSettings(receive_buffers=receive_buffers, receive_size=receive_size) if has_rdmap else None
    breaking = _breaking(breaks, role) if breaks is not None else None
    if role == "initiator" and ulp == "rping" and _may_say_depths(**endpoint):
        # As rping itself has it: without, siw provides no RDMA Reads, by which rping's server reads.
        ird, order = (1 if depth is None else depth for depth in (ird, order))
    settings = TalkSettings(
        _broken(_endpoint(role, has_rdmap=has_rdmap, timeout=timeout, ird=ird, order=order, **endpoint), breaking),
        rdmap,
        buffers or (_BUFFERS if ulp == "none" and has_rdmap else ()),
        timeout,
        emss=emss,
    )
    return Talking(settings, ulp, count, size, say, scenario, ulpdus, wait, not quiet, payload, write, log, breaking)


def _breaking(name: str, role: Role) -> Breaking:
    from scapy_mpa.probe.breaking import Breaking

    return Breaking(name, role)


def _broken(settings: EndpointSettings, breaking: Breaking | None) -> EndpointSettings:
    """Settings of an endpoint that commits a case, for which it has to want what was not given otherwise."""
    if breaking is None:
        return settings
    context = click.get_current_context()
    wanted = {
        name: value
        for name, value in breaking.settings.items()
        if context.get_parameter_source(name) is not ParameterSource.COMMANDLINE
    }
    if settings.enhanced is not None and settings.enhanced != EndpointSettings().enhanced:
        wanted.pop("enhanced", None)
    if "enhanced" in wanted or "profile" in wanted:
        wanted.setdefault("rev", None)
    return replace(settings, **wanted, wrong=breaking)


def _complete_break(context: click.Context, _parameter: click.Parameter, incomplete: str) -> list[str]:
    """Names of cases that this command can commit, for the shell."""
    from scapy_mpa.probe.breaking import breakable

    role: Role = "responder" if context.command.name == "listen" else "initiator"
    return [name for name in breakable(role) if name.startswith(incomplete)]


def _may_say_depths(*, rev: int | None, profile: str | None, kind: str, **_: Any) -> bool:
    """Whether what was asked for leaves room for RFC 6581."""
    return (rev is None or rev > 1) and profile in (None, "rfc6581") and kind != "rdmac"


def _endpoint(
    role: Role,
    *,
    m: bool,
    c: bool,
    ird: int | None,
    order: int | None,
    peer_to_peer: bool,
    rtr: tuple[RtrType, ...],
    has_rdmap: bool,
    timeout: float,
    **same: Any,
) -> EndpointSettings:
    """The endpoint's settings; ``same`` are those that an option gives as they are."""
    enhanced = None
    answers = role == "responder" and has_rdmap and _may_say_depths(**same)
    if peer_to_peer or ird is not None or order is not None or rtr or answers:
        # A Responder says which types it takes, and by what RDMAP can do, in case it is asked (RFC 6581 §9).
        types = rtr or RTR_TYPES if peer_to_peer or role == "responder" else ()
        usual = (RDMAPSettings.ird, RDMAPSettings.ord) if answers else (NOT_NEGOTIATED, NOT_NEGOTIATED)
        enhanced = EnhancedData(
            a=int(peer_to_peer),
            b=int("send" in types),
            c=int("write" in types),
            d=int("read" in types),
            ird=usual[0] if ird is None else ird,
            ord=usual[1] if order is None else order,
        )
    try:
        settings = EndpointSettings(
            m=int(m),
            c=int(c),
            enhanced=enhanced,
            rtr_preference=rtr or EndpointSettings.rtr_preference,
            request_timeout=timeout,
            reply_timeout=timeout,
            rdmap=has_rdmap,
            **same,
        )
        MPAEndpoint(role, settings)  # which says what it could not do
    except MPAError as error:
        raise click.UsageError(str(error)) from None
    return settings


_SECONDS = click.FloatRange(0, 1_000_000)
_OPTIONS: tuple[Callable[[Callable[..., int]], Callable[..., int]], ...] = (
    click.option("--ulp", type=Word(ULPS), default="none", show_default=True, help="The upper layer."),
    click.option(
        "--count", type=click.IntRange(0),
        help="connect: iterations of rping, or messages of echo (default: unlimited); listen: connections to serve "
        "before ending."
    ),
    click.option(
        "--size", type=click.IntRange(0, MOST), default=SIZE, show_default=True,
        help="Octets per iteration of rping or message of echo."
    ),
    click.option(
        "--say", multiple=True, metavar="STEP", help="What to send, as in craft: 'send 100', 'write hello stag=16', "
        "'responder send' (wait for one), 'pause 0.5'. May be repeated."
    ),
    click.option(
        "--scenario", metavar="NAME", help="Send the steps of a scenario of craft: those of its connections, one "
        "connection after the other."
    ),
    click.option(
        "--ulpdus", metavar="FILE", type=click.Path(dir_okay=False, allow_dash=True),
        help="Send the contents of a file, one item per line: a ULPDU in hexadecimal, or a step; - is standard input, "
        "read as it comes."
    ),
    click.option(
        "--wait", type=_SECONDS, default=0.3, show_default=True,
        help="Seconds that connect keeps listening after the last step."
    ),
    click.option("-m", "--markers/--no-markers", "m", default=False, help="M: we require Markers in what we receive."),
    click.option("--crc/--no-crc", "c", default=True, show_default=True, help="C: we prefer CRCs."),
    click.option("--rev", type=click.IntRange(0, 255),
                 help="Rev of our startup frame. [default: follows from the other options]"),
    click.option("--profile", type=Word(tuple(PROFILES)), help="The specification that we implement."),
    click.option("--kind", type=Word(RNIC_KINDS), default="ietf", show_default=True,
                 help="Kind of RNIC that we are (RFC 5044 appendix C.1)."),
    click.option("--private-data", type=OctetsType(), default="", metavar="OCTETS",
                 help="A text, hex:00ff, or @FILE: at most 512 octets."),
    click.option("--ird", type=click.IntRange(0, NOT_NEGOTIATED),
                 help="How many RDMA Reads we answer at a time (RFC 6581). [default: 1 for an Initiator of rping]"),
    click.option("--ord", "order", type=click.IntRange(0, NOT_NEGOTIATED),
                 help="How many RDMA Reads we send at a time (RFC 6581). [default: the same as --ird]"),
    click.option("--peer-to-peer", is_flag=True, help="A: the Initiator begins with a ready-to-receive message."),
    click.option("--rtr", multiple=True, type=Word(RTR_TYPES),
                 help="Type of ready-to-receive message, in order of preference. May be repeated. [default: all]"),
    click.option("--require-ord", "requires_ord", is_flag=True,
                 help="As Responder, reject an Initiator whose IRD is below our ORD."),
    click.option("--ird-resources", type=click.IntRange(0, NOT_NEGOTIATED),
                 help="As Initiator, the IRD that is available when the Reply comes. [default: --ird]"),
    click.option("--raise-ird/--no-raise-ird", "raises_ird", default=True, show_default=True,
                 help="As Responder, give an IRD of 1 for an RTR Read even if the Initiator's ORD is 0."),
    click.option("--accept-newer/--no-accept-newer", "accepts_newer", default=True, show_default=True,
                 help="As Responder, accept a plain Request whose Rev is above ours."),
    click.option("--reply-before-close/--no-reply-before-close", "replies_before_close", default=True,
                 show_default=True, help="As Responder, send an RDMAC RNIC a Reply with our Rev before closing."),
    click.option("--fallback", "falls_back", is_flag=True,
                 help="As Initiator, try again without RFC 6581 if the peer answers an enhanced Request by closing."),
    click.option("--emss", type=click.IntRange(16, 1 << 16), metavar="OCTETS",
                 help="Make FPDUs fit segments of at most this many octets. [default: TCP_MAXSEG]"),
    click.option("--timeout", type=click.FloatRange(0.001, 1_000_000), default=10.0, show_default=True,
                 help="Give up the connection if nothing is received or sent for this many seconds."),
    click.option("--rdmap/--no-rdmap", "has_rdmap", default=True, show_default=True,
                 help="Place and answer incoming messages, or only list them."),
    click.option("--buffer", "buffers", multiple=True, type=BufferType(), metavar="STAG,TO,OCTETS",
                 help="Memory that the peer may use. May be repeated. [default: 0x1000 and 0x2000, from TO 0, 65536 "
                 "octets each]"),
    click.option("--receive-buffers", type=click.IntRange(1, 1 << 16), default=RDMAPSettings.receive_buffers,
                 show_default=True, help="How many of the peer's Sends there is room for."),
    click.option("--receive-size", type=click.IntRange(0, 1 << 30), default=RDMAPSettings.receive_size,
                 show_default=True, help="Octets of the longest Send that is accepted."),
    click.option("--break", "breaks", metavar="CASE", shell_complete=_complete_break,
                 help="Misbehave like this case of the catalogue (malform --list) on each connection, and behave "
                 "correctly otherwise."),
    click.option("-q", "--quiet", is_flag=True, help="Do not print the messages."),
    click.option("--payload", is_flag=True, help="Print the octets of each message, in hexadecimal."),
    click.option("--write", metavar="FILE", type=click.Path(dir_okay=False, allow_dash=True),
                 help="Record the session as a capture: pcapng, or classic pcap if the name ends in .pcap."),
    click.option("--log", metavar="FILE", type=click.Path(dir_okay=False, allow_dash=True),
                 help="Log the session as JSON lines."),
)  # fmt: skip
_OF_TALKING = (
    *("ulp", "count", "size", "say", "scenario", "ulpdus", "wait", "quiet", "payload", "write", "log", "timeout"),
    *("breaks", "has_rdmap", "buffers", "receive_buffers", "receive_size", "m", "c", "rev", "profile", "kind"),
    *("private_data", "ird", "order", "peer_to_peer", "rtr", "requires_ord", "ird_resources", "raises_ird"),
    *("accepts_newer", "replies_before_close", "falls_back", "emss"),
)
