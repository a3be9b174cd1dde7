"""Options that every command which reads a capture has."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from functools import wraps
from typing import TYPE_CHECKING, Any, TypeAlias, TypeVar

import click
from click.core import ParameterSource

from scapy_mpa.capture.joining import JOININGS, Joining, sources_of
from scapy_mpa.capture.named import Sources, name_of
from scapy_mpa.capture.streams import Streams
from scapy_mpa.cli.cluster import cluster_of
from scapy_mpa.cli.lines import print_line
from scapy_mpa.cli.progress import progress_of
from scapy_mpa.cli.types import ParamType, Word
from scapy_mpa.errors import MPAError
from scapy_mpa.framing.profiles import PROFILES
from scapy_mpa.framing.role import ROLES, Role
from scapy_mpa.reading.analysis import PlacedFPDUs, analyze
from scapy_mpa.reading.query import EVERYTHING, Query, Selection
from scapy_mpa.report.connection import Connection
from scapy_mpa.report.model import Report
from scapy_mpa.system.names import printable
from scapy_mpa.tuples import NamedTuple
from scapy_mpa.ulp.header import UNKNOWN
from scapy_mpa.ulp.identify import PROTOCOLS
from scapy_mpa.values.assumptions import parse_assumptions
from scapy_mpa.values.encapsulation import TUNNELS
from scapy_mpa.values.limits import DEFAULT_LIMITS, Limits, parse_limits

if TYPE_CHECKING:
    from scapy_mpa.capture.ongoing import OngoingCaptures
    from scapy_mpa.cluster.run import Cluster
    from scapy_mpa.ipsec.associations import Associations
    from scapy_mpa.messages.found import FoundMessages
    from scapy_mpa.reading.found import FoundFPDUs, Order
    from scapy_mpa.values.records import FPDURecord

Found = TypeVar("Found", "FoundFPDUs", "FoundMessages")


_SECOND = 1_000_000_000
_NANOSECONDS = {"": _SECOND, "s": _SECOND, "ms": 1_000_000, "us": 1_000}
_Decorator: TypeAlias = Callable[[Callable[..., int]], Callable[..., int]]


class FrameRange(ParamType[tuple[int, int | None]]):
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
        frames = int(single or first or 1), int(single or last) if single or last else None
        if frames[0] < 1 or frames[1] == 0:
            self.fail(f"{value!r}: frames are numbered from 1", param, ctx)
        if frames[1] is not None and frames[1] < frames[0]:
            self.fail(f"{value!r} ends before it begins", param, ctx)
        return frames


class Host(ParamType[bytes]):
    """An IP address, as its octets."""

    name = "address"

    @staticmethod
    def name_of(octets: bytes) -> str:
        """The address as it is typed."""
        from ipaddress import ip_address

        return str(ip_address(octets))

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> bytes:
        """The octets of the address."""
        if isinstance(value, bytes):
            return value
        from ipaddress import ip_address

        try:
            return ip_address(value.strip("[]")).packed
        except ValueError:
            self.fail(f"{value!r} is not an IP address", param, ctx)


class AfterBeginning(int):
    """Nanoseconds since a connection began."""


class Time(ParamType[int]):
    """A moment: seconds since the epoch, or a date and time as ISO 8601 has it, of UTC unless it says another zone.

    With + before it, or a unit after it (s, ms, us), a number counts from where a connection began.
    """

    name = "time"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> int:
        """Nanoseconds since the epoch, or an :class:`AfterBeginning`."""
        if isinstance(value, int):
            return value
        from datetime import datetime, timedelta, timezone

        parsed = re.fullmatch(r"(?:\+(\d{1,9}(?:\.\d{1,9})?)|(\d{1,9}(?:\.\d{1,9})?)(?=m?s|us))(s|ms|us|)", value)
        if parsed is not None:
            return AfterBeginning(round(float(parsed[1] or parsed[2]) * _NANOSECONDS[parsed[3]]))
        parsed = re.fullmatch(r"(\d{1,12})(?:\.(\d{1,9}))?", value)
        if parsed is not None:
            seconds, fraction = parsed.groups()
            return int(seconds) * _SECOND + int((fraction or "0").ljust(9, "0"))
        try:
            moment = datetime.fromisoformat(re.sub("[Zz]$", "+00:00", value))
        except ValueError:
            self.fail(f"{value!r} is not a time, such as 1795168727.13 or 2026-11-22T14:38:47.13", param, ctx)
        if moment.tzinfo is None:
            moment = moment.replace(tzinfo=timezone.utc)
        return (moment - datetime(1970, 1, 1, tzinfo=timezone.utc)) // timedelta(microseconds=1) * 1000


class StreamOf(ParamType["tuple[Role, str]"]):
    """``initiator=FILE`` or ``responder=FILE``."""

    name = "stream"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> tuple[Role, str]:
        """The side, and what names its octets."""
        if isinstance(value, tuple):
            return value
        side, _, name = value.partition("=")
        found = next((direction for direction in ROLES if direction == side.strip().lower()), None)
        if found is None or not name:
            self.fail(f"{printable(value)} is not initiator=FILE or responder=FILE", param, ctx)
        return found, name


class TunnelPort(ParamType["tuple[int, str]"]):
    """``udp:PORT=KIND``."""

    name = "tunnel"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> tuple[int, str]:
        """The UDP port, and which tunnel it is of."""
        if isinstance(value, tuple):
            return value
        parsed = re.fullmatch(r"udp:(\d{1,5})=(.+)", value)
        if parsed is None or int(parsed[1]) > 0xFFFF or parsed[2] not in TUNNELS:
            self.fail(f"{printable(value)} is not udp:PORT=KIND, where KIND is {', '.join(TUNNELS)}", param, ctx)
        return int(parsed[1]), parsed[2]


#: What says nothing of octets without packets, by its parameter.
_NOT_OF_STREAMS = {
    "ports": "--port",
    "hosts": "--host",
    "frames": "--frames",
    "read_frames": "--read-frames",
    "since": "--since",
    "until": "--until",
    "joining": "--join",
    "esp": "--esp",
    "decode": "--decode",
    "frame": "--frame",
    "wants_buffers": "--buffers",
    "is_summary": "--summary",
}


def _check_streams(streams: Sequence[tuple[Role, str]], captures: Sequence[str]) -> None:
    """Raise :class:`click.UsageError` for what does not go with octets without packets."""
    if captures:
        raise click.UsageError("--stream replaces captures: leave CAPTURE out")
    sides = [side for side, _ in streams]
    for side in sides:
        if sides.count(side) > 1:
            raise click.UsageError(f"--stream {side}= is given twice; one file must hold everything that a side sent")
    context = click.get_current_context()
    for parameter, option in _NOT_OF_STREAMS.items():
        if context.get_parameter_source(parameter) is ParameterSource.COMMANDLINE:
            raise click.UsageError(f"--stream reads octets without packets: {option} cannot be used with it")


class Reading(NamedTuple):
    """What to read, what is known about it, and which part of the result to show."""

    captures: list[str]
    query: Query
    #: The numbers of those that are shown; all, if there are none.
    connections: tuple[int, ...]
    #: The half connections that are shown.
    directions: tuple[Role, ...]
    #: The first and the last frame, None where that is open, of which something is shown; None: of all.
    frames: tuple[int, int | None] | None = None
    #: The time (nanoseconds since the epoch) before which, and after which, nothing is shown.
    since: int | None = None
    until: int | None = None
    #: The options that were given of those that leave something out.
    filters: tuple[str, ...] = ()
    #: The upper layers whose connections are shown; all, if there are none.
    protocols: tuple[str, ...] = ()
    #: What was said about the captures, as it was typed: which of them is read, what is assumed, and the limits.
    told: tuple[str, ...] = ()
    #: The captures as they were named: folders and patterns among them.
    named: tuple[str, ...] = ()
    #: In their place, what is read while it is written.
    ongoing: OngoingCaptures | None = None
    #: The cluster that reads them, if it is not this process.
    cluster: Cluster | None = None

    @property
    def is_of_streams(self) -> bool:
        """True if octets without packets are read."""
        return isinstance(self.query.sources, Streams)

    @property
    def has_period(self) -> bool:
        """True if frames or times say what is shown."""
        return not (self.frames is None and self.since is None and self.until is None)

    def is_shown(self, connection: int, direction: Role) -> bool:
        """Return True if this direction of the connection with this number is among those that are shown."""
        return direction in self.directions and (not self.connections or connection in self.connections)

    def is_in_period(self, frame: int, time: int) -> bool:
        """Return True if a frame of a time (nanoseconds since the epoch) is among what is shown."""
        return self.is_in_frames(frame, frame) and self.is_in_time(time, time)

    def is_in_frames(self, first: int, last: int) -> bool:
        """Return True if what went from one frame to another is among what is shown."""
        if self.frames is None:
            return True
        begin, end = self.frames
        return last >= begin and (end is None or first <= end)

    def is_in_time(self, first: int, last: int) -> bool:
        """Return True if what went from one time to another (nanoseconds since the epoch) is among what is shown."""
        return (self.since is None or last >= self.since) and (self.until is None or first <= self.until)

    def has_fpdu(self, record: FPDURecord) -> bool:
        """Whether an FPDU is shown: a frame brought or placed it that is, at a time (of placement) that is."""
        if not self.is_in_time(record.time_ns, record.time_ns):
            return False
        frames = (*record.frames, record.placed_frame) if self.frames is not None else ()
        return self.frames is None or any(self.is_in_frames(frame, frame) for frame in frames if frame is not None)

    def analyze(self, *, fpdus: bool, jobs: int = 1) -> Report:
        """Read the captures; raises as :func:`scapy_mpa.analyze` does."""
        if self.cluster is not None:
            from scapy_mpa.cluster.run import analyze_on_cluster

            return analyze_on_cluster(self.query, self.cluster, fpdus=fpdus)
        return analyze(self.query, fpdus=fpdus, jobs=jobs)

    def placed_fpdus(self) -> PlacedFPDUs:
        """The FPDUs in the order of placement, to be read once."""
        return PlacedFPDUs(self.query)

    def found_fpdus(self, order: Order) -> FoundFPDUs:
        """The FPDUs with their octets, in an order, of what was asked for; raises as :meth:`select` does."""
        from scapy_mpa.reading.found import FoundFPDUs

        return self._selected(FoundFPDUs(self.query, order, directions=self.directions))

    def messages(self, payload: bool, held: int) -> FoundMessages:
        """The messages of what was asked for, with their octets or without; raises as :meth:`select` does."""
        # All messages say more about the upper layer than the first ones, which a report goes by.
        return self._replace(protocols=())._selected(self._found_messages(payload, held))

    def _found_messages(self, payload: bool, held: int) -> FoundMessages:
        if self.cluster is not None:
            from scapy_mpa.cluster.run import messages_on_cluster

            return messages_on_cluster(
                self.query,
                self.cluster,
                payload=payload,
                held=held,
                directions=self.directions,
                protocols=self.protocols,
            )
        from scapy_mpa.messages.reading import CapturedMessages

        return CapturedMessages(
            self.query, payload=payload, held=held, directions=self.directions, protocols=self.protocols
        )

    def _selected(self, found: Found) -> Found:
        try:
            self.select(found.report)
        except click.UsageError:
            found.close()
            raise
        return found

    def select(self, report: Report) -> None:
        """Keep only what was asked for; raises :class:`click.UsageError` if there is no connection of that number."""
        self.chosen(report)
        report.select(self.connections, self.directions, self.since, self.until, self.protocols, self.frames)

    def chosen(self, report: Report) -> list[Connection]:
        """The connections that were asked for; raises as :meth:`select` does."""
        try:
            return report.chosen(self.connections, self.since, self.until, self.protocols, self.frames)
        except IndexError:
            there = len(report.connections)
            numbers = f"0 to {there - 1}" if there > 1 else "only 0" if there else "none"
            first = next(number for number in self.connections if number >= there)
            raise click.UsageError(f"there is no connection {first}; the capture has {numbers}") from None


def reads_captures(command: Callable[..., int]) -> Callable[..., int]:
    """Add the captures and the options that every command has which reads some; it is handed a :class:`Reading`."""
    return _reads(command)


def reads_captures_or_streams(command: Callable[..., int]) -> Callable[..., int]:
    """The same, and what names octets without packets, in place of captures."""
    return _reads(command, _STREAM)


def reads_all(command: Callable[..., int]) -> Callable[..., int]:
    """The same, and what is read while it is written: an interface, or captures that grow."""
    return _reads(command, _STREAM, *_ONGOING)


def reads_captures_or_ongoing(command: Callable[..., int]) -> Callable[..., int]:
    """Captures, and what is read while it is written."""
    return _reads(command, *_ONGOING)


_STREAM = click.option(
    "--stream",
    "streams",
    multiple=True,
    metavar="SIDE=FILE",
    type=StreamOf(),
    help="Instead of captures: the octets that the initiator or the responder sent, without packets. Give it once for "
    "each side; one side is enough; - is standard input.",
)
_ONGOING = (
    click.option(
        "-i",
        "--interface",
        metavar="IFACE",
        help="Instead of captures: read the packets of this network interface until Ctrl-C. Needs root or CAP_NET_RAW, "
        "on Linux.",
    ),
    click.option(
        "--follow",
        is_flag=True,
        help="Read a capture while it is being written, until Ctrl-C: a file, a pipe, or a folder to which files are "
        "added.",
    ),
    click.option(
        "--poll",
        type=click.FloatRange(0.01, 3600),
        metavar="SECONDS",
        help="With --follow: how often to look for more octets.  [default: 0.5]",
    ),
)


#: What says nothing of captures that are read while they are written, by its parameter.
_NOT_OF_ONGOING = {
    "streams": "--stream",
    "joining": "--join",
    "jobs": "--jobs",
    "wants_buffers": "--buffers",
    "order": "--order",
    "stags": "--stag",
    "is_summary": "--summary",
}


class _Given(NamedTuple):
    """The options that every command has which reads captures, as they were given; those that not all have last."""

    captures: tuple[str, ...]
    connections: tuple[int, ...]
    direction: Role | None
    ports: tuple[int, ...]
    hosts: tuple[bytes, ...]
    frames: tuple[int, int | None] | None
    read_frames: tuple[int, int | None] | None
    since: int | None
    until: int | None
    protocols: tuple[str, ...]
    profile: str | None
    assume: tuple[str, ...]
    limit: tuple[str, ...]
    joining: Joining
    esp: str | None
    decode: tuple[tuple[int, str], ...]
    streams: tuple[tuple[Role, str], ...] = ()
    interface: str | None = None
    follow: bool = False
    poll: float | None = None
    cluster: str | None = None
    shared: str | None = None

    @property
    def is_ongoing(self) -> bool:
        """True if captures are read while they are written."""
        return self.follow or self.interface is not None

    def reading(self) -> Reading:
        """Return what to read.

        Raises :class:`click.UsageError` for what does not go together, CaptureError as naming captures does, and
        MPAError as reading keys does.
        """
        try:
            assumptions, limits = parse_assumptions(self.assume, self.profile), parse_limits(self.limit)
        except MPAError as error:
            raise click.UsageError(str(error)) from None
        if not self.captures and not self.streams and self.interface is None:
            raise click.UsageError("Missing argument 'CAPTURE...'.")
        if click.get_current_context().info_name != "plot" and any(
            isinstance(one, AfterBeginning) for one in (self.since, self.until)
        ):
            raise click.UsageError("a time such as +0.3 counts from the start of a connection: only plot takes it")
        if self.poll is not None and not self.is_ongoing:
            raise click.UsageError("--poll sets how often --follow looks for more: --follow is missing")
        workers = cluster_of(self.cluster, self.shared)
        ongoing = self._ongoing(limits) if self.is_ongoing else None
        sources = Sources(self.captures) if ongoing is not None else self._sources(limits)
        selects = self.ports or self.hosts or self.read_frames is not None
        selection = Selection(self.read_frames, self.ports or None, self.hosts or None) if selects else EVERYTHING
        return Reading(
            [name_of(one) for one in sources],
            Query(sources, selection, assumptions, limits),
            self.connections,
            ROLES if self.direction is None else (self.direction,),
            self.frames,
            self.since,
            self.until,
            self._filters(),
            self.protocols,
            self._told(),
            tuple(name for _, name in self.streams) or self.captures,
            ongoing,
            workers,
        )

    def _sources(self, limits: Limits) -> Sources:
        if self.streams:
            _check_streams(self.streams, self.captures)
            return Streams(**dict(self.streams))
        sources = sources_of(self.captures, self.joining, limits, _keys(self.esp))
        sources.udp_ports |= dict(self.decode)
        return sources

    def _ongoing(self, limits: Limits) -> OngoingCaptures:
        """Return what is read while it is written; raises :class:`click.UsageError` for options that cannot be combined
        with it.
        """
        from scapy_mpa.capture.ongoing import DEFAULT_POLL, OngoingCaptures, Polling, origin_of

        option = "--follow" if self.interface is None else "-i"
        if self.interface is not None and self.captures:
            raise click.UsageError("-i reads an interface instead of captures: leave CAPTURE out")
        if self.interface is None and len(self.captures) != 1:
            raise click.UsageError("--follow reads one file, folder or pipe")
        context = click.get_current_context()
        for parameter, name in _NOT_OF_ONGOING.items():
            is_given = context.get_parameter_source(parameter) is ParameterSource.COMMANDLINE
            if is_given and context.params[parameter] != "placed":
                raise click.UsageError(
                    f"{option} reads captures that are still being written: {name} cannot be used with it"
                )
        polling = Polling(DEFAULT_POLL if self.poll is None else self.poll)
        keys = _keys(self.esp)
        if self.interface is None:
            origin = origin_of(self.captures[0], polling)
        else:
            from scapy_mpa.capture.interface import InterfaceOrigin

            origin = InterfaceOrigin(self.interface, polling)
        return OngoingCaptures(origin, polling, limits=limits, esp=keys, udp_ports=dict(self.decode))

    def _filters(self) -> tuple[str, ...]:
        """The options that were given of those that leave something out."""
        given = {
            "--connection": self.connections,
            "--direction": self.direction,
            "--port": self.ports,
            "--host": self.hosts,
            "--frames": self.frames,
            "--read-frames": self.read_frames,
            "--since": self.since,
            "--until": self.until,
            "--ulp": self.protocols,
        }
        return tuple(name for name, value in given.items() if value not in (None, ()))

    def _told(self) -> tuple[str, ...]:
        """Return what was given about the captures, as it was typed."""
        read = self.read_frames
        frames = [] if read is None else ["-".join("" if one is None else str(one) for one in read)]
        told = {
            "--port": map(str, self.ports),
            "--host": map(Host.name_of, self.hosts),
            "--read-frames": frames,
            "--profile": _all(self.profile),
            "--assume": self.assume,
            "--limit": self.limit,
            "--join": _all(self.joining if self.joining != "auto" else None),
            "--esp": _all(self.esp),
            "--decode": (f"udp:{port}={kind}" for port, kind in self.decode),
            "--stream": (f"{side}={name}" for side, name in self.streams),
        }
        return tuple(word for option, values in told.items() for value in values for word in (option, value))


def _all(value: str | None) -> tuple[str, ...]:
    return () if value is None else (value,)


#: The options that every command has which reads captures: what makes a query, and what of the result is shown.
_READS: tuple[_Decorator, ...] = (
    click.option(
        "--connection",
        "connections",
        multiple=True,
        type=click.IntRange(0),
        help="Only the connection with this number. May be repeated.",
    ),
    click.option("-d", "--direction", type=Word(ROLES), help="Only what this side sent."),
    click.option(
        "--port",
        "ports",
        multiple=True,
        type=click.IntRange(0, 65535),
        help="Only TCP connections with this port on either side. May be repeated.",
    ),
    click.option(
        "--host",
        "hosts",
        multiple=True,
        type=Host(),
        help="Only TCP connections with this IP address on either side. May be repeated.",
    ),
    click.option(
        "--since",
        type=Time(),
        help="Only connections open at this time or later, and only their findings, FPDUs and messages from this "
        "time on: seconds since the epoch, or a date and time (ISO 8601, UTC).",
    ),
    click.option("--until", type=Time(), help="Only up to this time (see --since)."),
    click.option(
        "--ulp",
        "protocols",
        metavar="ULP",
        multiple=True,
        type=Word((*PROTOCOLS, UNKNOWN), case_sensitive=False),
        help=f"Only connections of this upper layer: {', '.join((*PROTOCOLS, UNKNOWN))}. May be repeated.",
    ),
    click.option(
        "--join",
        "joining",
        type=Word(JOININGS),
        default="auto",
        help="How to combine several captures: follow reads them one after the other; merge merges them by time. auto "
        "follows files whose times follow one another, as in a rotation, and merges those that overlap.",
    ),
    click.option(
        "--esp",
        metavar="FILE",
        type=click.Path(),
        help="Keys for traffic under IPsec ESP: Wireshark's esp_sa file. Needs the package cryptography.",
    ),
    click.option(
        "--decode",
        metavar="udp:PORT=KIND",
        multiple=True,
        type=TunnelPort(),
        help=f"UDP ports of tunnels, besides their usual ones: {', '.join(TUNNELS)}. May be repeated.",
    ),
    click.option(
        "--frames",
        type=FrameRange(),
        metavar="A-B",
        help="Only connections open in these frames, and only their findings, FPDUs and messages in these frames. All "
        "frames are analysed, so numbers and verdicts stay the same.",
    ),
    click.option(
        "--read-frames",
        type=FrameRange(),
        metavar="A-B",
        help="Read only these frames, as if no others had been captured.",
    ),
    click.option(
        "--profile",
        type=Word(tuple(PROFILES)),
        help="The specification that the connections follow, whatever their startup frames say.",
    ),
    click.option(
        "--assume",
        multiple=True,
        metavar="WHAT=VALUE,...",
        help="Assume this where no startup frame was captured: markers=yes, no, initiator or responder; crc=yes or "
        "no; start=SEQ (where Full Operation begins). May be repeated.",
    ),
    click.option(
        "--limit",
        multiple=True,
        metavar="WHAT=NUMBER",
        help=f"Limit what is buffered and tracked: {', '.join(DEFAULT_LIMITS._fields)}. May be repeated.",
    ),
)


def _reads(command: Callable[..., int], *more: _Decorator) -> Callable[..., int]:
    @wraps(command)
    def with_reading(**params: Any) -> int:
        given = _Given(**{name: params.pop(name) for name in _Given._fields if name in params})
        reading = given.reading()
        is_read_here = reading.ongoing is None and reading.cluster is None
        with progress_of(reading.captures if is_read_here else ()):
            return command(reading, **params)

    captures = click.argument("captures", metavar="CAPTURE...", nargs=-1, required=not more, type=click.Path())
    options: tuple[_Decorator, ...] = (captures, *more, *_READS)
    decorated: Callable[..., int] = with_reading
    for decorate in reversed(options):
        decorated = decorate(decorated)
    return decorated


def hides(*names: str) -> Callable[[click.Command], click.Command]:
    """Leave options out of a command's help that it refuses; goes above :func:`click.command`."""

    def decorate(command: click.Command) -> click.Command:
        for param in command.params:
            if isinstance(param, click.Option) and param.name in names:
                param.hidden = True
        return command

    return decorate


def _keys(path: str | None) -> Associations | None:
    """The security associations of a file; raises MPAError as reading them does."""
    if path is None:
        return None
    from scapy_mpa.ipsec.associations import Associations

    return Associations.load(path)


def divides_work(command: Callable[..., int]) -> Callable[..., int]:
    """Add the option of how many processes do the work."""
    return click.option(
        "--jobs",
        type=click.IntRange(1),
        default=1,
        show_default=True,
        help="Number of processes that share the connections; each reads all of the captures.",
    )(command)


def warn_of_remark(remark: str | None) -> None:
    """Print one line on stderr if something was not examined."""
    if remark is not None:
        print_line(f"scapy-mpa: {remark}", err=True)


def warn_of_nothing(filters: Iterable[str], what: str = "connection") -> None:
    """Print one line on stderr if the options leave nothing."""
    asked = ", ".join(filters)
    if asked:
        print_line(f"scapy-mpa: no {what} matches {asked}", err=True)


def warn_of_damage(damage: Iterable[str]) -> None:
    """Print one line on stderr for each capture that could only be read in part."""
    for line in damage:
        print_line(f"scapy-mpa: {line}", err=True)
