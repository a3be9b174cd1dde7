"""What ``connect`` and ``listen`` have in common: their options, and what they do."""

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
from scapy_mpa.cli.lines import print_line
from scapy_mpa.cli.output import STANDARD_OUTPUT, check_output, is_stdout, tell_written, written
from scapy_mpa.cli.talkoptions import SERVICES, talking_options
from scapy_mpa.craft.conversation import Conversation
from scapy_mpa.craft.turns import Step
from scapy_mpa.errors import MPAError
from scapy_mpa.framing.agreement import RTR_TYPES, RtrType
from scapy_mpa.framing.role import Role
from scapy_mpa.framing.startup import NOT_NEGOTIATED, EnhancedData
from scapy_mpa.live.driver import BROKEN, FINE, USELESS, LiveSession, TalkSettings
from scapy_mpa.live.echo import EchoClient, EchoServer
from scapy_mpa.live.endpoint import MPAEndpoint
from scapy_mpa.live.rdmap import RDMAPEndpoint, RDMAPSettings
from scapy_mpa.live.recording import Recording
from scapy_mpa.live.rping import SIZE, RpingClient, RpingServer
from scapy_mpa.live.script import Item, Script, items_of, line_items, speech, step_items
from scapy_mpa.live.servers import DISCOVERY, NVME_REPLY_DATA, NFSNullServer, NVMeController
from scapy_mpa.live.services import NVME_PRIVATE_DATA, NFSNull, NVMeConnectClient
from scapy_mpa.live.settings import EndpointSettings
from scapy_mpa.live.speaker import NOT_THE_SAME, Listening, Speaker
from scapy_mpa.live.telling import Telling
from scapy_mpa.system.cycles import look_often
from scapy_mpa.system.ending import usual_signals
from scapy_mpa.system.names import printable
from scapy_mpa.values.words import plural

if TYPE_CHECKING:
    from scapy_mpa.probe.breaking import Breaking

#: Buffers that are there if none are asked for: those that steps name where they name none.
_BUFFERS = ((0x1000, 0, 1 << 16), (0x2000, 0, 1 << 16))


#: Upper layers whose messages have a size.
_SIZED = ("rping", "echo")


@dataclass(frozen=True)
class Talking:
    """The options that were given."""

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
    subnqn: str = DISCOVERY

    @property
    def has_words(self) -> bool:
        """True if steps or ULPDUs are given."""
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
        """Yield what this side sends on a connection, generated as it is sent; ``steps`` are those of the scenario."""
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
        """Return what makes the upper layer of a connection."""
        if self.ulp != "none" and self.has_words:
            raise click.UsageError(f"--ulp {self.ulp} decides what is sent: leave --say, --scenario and --ulpdus out")
        begins = role == "initiator"
        if self.ulp == "rping":
            size = self.size
            return lambda rdmap: RpingClient(rdmap, self.count, size) if begins else RpingServer(rdmap)
        if self.ulp == "echo":
            return lambda rdmap: EchoClient(rdmap, self.count, self.size) if begins else EchoServer(rdmap)
        if self.ulp in SERVICES and begins and self.count is not None:
            raise click.UsageError(f"--ulp {self.ulp} is one call: leave --count out")
        if self.ulp == "nfs-null":
            return NFSNull if begins else NFSNullServer
        if self.ulp == "nvme-connect":
            return lambda rdmap: (NVMeConnectClient if begins else NVMeController)(rdmap, self.subnqn)
        says = self.has_words or (self.breaking is not None and self.breaking.items() is not None)
        if not begins and not says:
            return lambda _: Listening()
        _check(self.say, self.source, role)
        for steps in self.scenario_steps:
            for _ in items_of(steps, role):
                pass
        # The next connection says what the next one of the scenario does.
        turns = cycle(self.scenario_steps)
        doubt = NOT_THE_SAME if self.breaking is None else ": that may be its answer to what --break does"
        return lambda rdmap: Script(rdmap, self.items(role, next(turns)), wait=self.wait, ends=begins, doubt=doubt)

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
    """Return what writes lines; immediately, if somebody reads them as they come."""

    def log(line: str) -> None:
        file.write(line.encode() + b"\n")
        if is_read:
            file.flush()

    return log


def _sum_up(session: LiveSession, *, has_told: bool) -> None:
    """Print what became of the last connections; only a failure that was not printed as it happened."""
    counts = session.counts
    total = sum(counts.values())
    said = [plural(total, "connection")]
    if counts[BROKEN]:
        said.append(f"{counts[BROKEN]} whose peer broke a rule")
    if session.terminated:
        said.append(f"{session.terminated} that the peer ended with a Terminate")
    if counts[USELESS] > session.terminated:
        said.append(f"{counts[USELESS] - session.terminated} not completed")
    for one in session.last:
        summary = one.done if has_told and one.failure else one.summary
        if summary:
            print_line(f"#{one.number} {printable(summary)}")
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
    """Yield what each line means, None while there is none.

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
        others = _parameters(command)

        @wraps(command)
        def with_talking(**given: Any) -> int:
            own = {name: given.pop(name) for name in names}
            return command(_talking(role, **own), **given)

        decorated: Callable[..., int] = with_talking
        for add in reversed(talking_options(role)):
            decorated = add(decorated)
        names = _parameters(decorated) - others
        return decorated

    return adding


def _parameters(command: Callable[..., int]) -> set[str]:
    """The names of the options that click has added so far."""
    added: list[click.Parameter] = getattr(command, "__click_params__", [])
    return {one.name for one in added if one.name is not None}


def _talking(
    role: Role,
    *,
    ulp: str,
    subnqn: str | None,
    count: int | None,
    size: int = SIZE,
    say: tuple[str, ...],
    scenario: str | None,
    ulpdus: str | None,
    wait: float = 0.0,
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
    is_sized = click.get_current_context().get_parameter_source("size") is ParameterSource.COMMANDLINE
    if is_sized and ulp not in _SIZED:
        raise click.UsageError(f"--size is for the messages of --ulp {' and '.join(_SIZED)}, not --ulp {ulp}")
    if subnqn is not None and ulp != "nvme-connect":
        raise click.UsageError("--subnqn names what --ulp nvme-connect connects to")
    if ulp == "nvme-connect":
        own = NVME_PRIVATE_DATA if role == "initiator" else NVME_REPLY_DATA
        endpoint["private_data"] = endpoint["private_data"] or own
    if role == "initiator" and ulp in ("rping", *SERVICES) and _may_say_depths(**endpoint):
        # As rping itself has it: without, siw provides no RDMA Reads, by which rping's server reads.
        ird, order = (1 if depth is None else depth for depth in (ird, order))
    settings = TalkSettings(
        _broken(_endpoint(role, has_rdmap=has_rdmap, timeout=timeout, ird=ird, order=order, **endpoint), breaking),
        rdmap,
        buffers or (_BUFFERS if ulp == "none" and has_rdmap else ()),
        timeout,
        emss=emss,
    )
    words = say, scenario, ulpdus, wait, not quiet, payload, write, log, breaking
    return Talking(settings, ulp, count, size, *words, subnqn or DISCOVERY)


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


def _may_say_depths(*, rev: int | None, profile: str | None, kind: str, **_: Any) -> bool:
    """Return True if what was asked for leaves room for RFC 6581."""
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
            ord=next((depth for depth in (order, None if answers else ird) if depth is not None), usual[1]),
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
