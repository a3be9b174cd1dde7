"""Writes the page: one file of HTML with its style sheet and its script in it, below a size.

Whatever comes from a capture, or is the name of one, is text: jinja2 escapes it, and what a terminal or a browser would
obey is printed in hexadecimal. Should something slip through anyway, the page's Content-Security-Policy lets
nothing run or be loaded but the style sheet and the script whose hashes it names. The same report gives the same page.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

from scapy_mpa.errors import CaptureError
from scapy_mpa.framing.role import ROLES, Role
from scapy_mpa.page.around import Around, AroundFPDU, around_findings
from scapy_mpa.page.contents import (
    MOST_LISTED,
    MOST_STAGS,
    MOST_WHOLE,
    Commands,
    Drawing,
    Picture,
    assumed,
    broken_rules,
    happened,
)
from scapy_mpa.page.templates import check_jinja, environment, policy, source
from scapy_mpa.plot.look import DARK, LIGHT, time_text
from scapy_mpa.report.beginning import remarkable_beginning
from scapy_mpa.report.connection import Connection, connection_line
from scapy_mpa.report.fields import KINDS
from scapy_mpa.report.hexdump import dump_rows, heading
from scapy_mpa.report.items import Item
from scapy_mpa.report.lifecycle import lifecycle_line
from scapy_mpa.report.model import Report, summary_line, summary_of
from scapy_mpa.report.negotiated import Negotiated
from scapy_mpa.report.ranking import gravest
from scapy_mpa.report.show import startup_item, startup_of
from scapy_mpa.report.text import ended_words, ending
from scapy_mpa.system.names import printable
from scapy_mpa.tuples import NamedTuple
from scapy_mpa.values.words import plural
from scapy_mpa.version import __version__

if TYPE_CHECKING:
    from markupsafe import Markup

    from scapy_mpa.messages.stags import STagRow

#: Octets of a page at most, and what is kept free for what is always on it.
MOST_OCTETS, _RESERVED = 1_900_000, 20_000
_HTML = "text/html"


class _Octets(NamedTuple):
    """Octets to be seen on demand: what they are, the name of their place on the page, and the rows."""

    title: str
    place: str
    rows: Markup


class _FPDULine(NamedTuple):
    """An FPDU near a finding; its octets, or the place on the page where these are."""

    fpdu: AroundFPDU
    octets: _Octets | None
    elsewhere: str


class _FindingBlock(NamedTuple):
    """A finding, the lines to type for it, and what lies around it."""

    around: Around
    grounds: str
    show: str
    fpdus: list[_FPDULine]


class _PictureBlock(NamedTuple):
    """A picture as it stands on the page, and the line that draws it."""

    picture: Picture
    svg: Markup
    command: str


class _Section(NamedTuple):
    """All that is said about one connection."""

    connection: Connection
    severity: str | None
    line: str
    lifecycle: str
    happened: list[str]
    negotiated: Negotiated
    remarkable: list[str]
    startups: list[_Octets]
    findings: list[_FindingBlock]
    pictures: list[_PictureBlock]
    memory: list[STagRow]
    elsewhere: dict[int, str]
    held: list[Any]
    remarks: list[str]


def page_of(
    report: Report,
    *,
    words: Sequence[str],
    told: Sequence[str] = (),
    left_out: Sequence[str] = (),
    directions: Sequence[Role] = ROLES,
    most_octets: int = MOST_OCTETS,
) -> str:
    """The page of a report, which must hold FPDUs; the captures are read again.

    Args:
        report: What was found.
        words: The captures and what was said about them, as they stand on a command line.
        told: Of these what was said.
        left_out: What the report leaves out, a sentence each.
        directions: Of which half connections FPDUs and pictures are shown.
        most_octets: The page has no more, or says what it would not do without.

    Raises:
        MPAError: jinja2 or matplotlib are not installed, or a capture cannot be read again.
    """
    check_jinja()
    page = _Page(report, Commands(words), directions, most_octets)
    try:
        return page.render(assumed(report, told, left_out))
    finally:
        page.close()


class _Page:
    """A page while it is made."""

    def __init__(self, report: Report, commands: Commands, directions: Sequence[Role], most_octets: int) -> None:
        self._report = report
        self._commands = commands
        self._directions = directions
        self._most = most_octets
        self._environment = environment()
        self._drawing = Drawing(report, directions)
        #: Octets that are on the page already, by the name of their place.
        self._places: set[str] = set()

    def close(self) -> None:
        """Release what was read."""
        self._drawing.close()

    def render(self, said: list[str]) -> str:
        """The page."""
        style, script = self._text("page.css") + _dark_rules(), self._text("page.js")
        listed = self._drawing.order[:MOST_LISTED]
        rules = broken_rules(self._report)
        overview, latencies = self._drawing.overview(), self._drawing.latencies()
        table = self._template(
            "table.html",
            ending=ending,
            connections=listed,
            severity=gravest,
            total=len(self._report.connections),
            rules=_rules_of,
        )
        frame = {
            "version": __version__,
            "policy": policy(style, script),
            "style": self._markup(style),
            "script": self._markup(script),
            "report": self._report,
            "summary": summary_of(self._report),
            "summary_line": summary_line(self._report),
            "rules": rules,
            "commands": self._commands,
            "drawn": self._drawing.drawn,
            "severity": gravest,
            "table": self._markup(table),
            "plural": plural,
            "ended_words": ended_words,
            "overview": self._markup(overview),
            "latencies": latencies,
            "time_text": time_text,
        }
        bare = self._template("page.html", **frame, sections=[], said=[])
        sections = [self._markup(text) for text in self._sections(self._most - len(bare.encode()) - _RESERVED)]
        return self._template("page.html", **frame, sections=sections, said=[*said, *self._remarks(len(listed))])

    def _remarks(self, listed: int) -> Iterator[str]:
        """Yield what the page leaves out of the report."""
        total, drawn = len(self._report.connections), self._drawing.drawn
        if total > len(drawn):
            yield (
                f"Of {total} connections the worst {len(drawn)} are described in detail and drawn: "
                f"{', '.join(str(one.number) for one in drawn)}. --connection N chooses others."
            )
        if len(drawn) > MOST_WHOLE:
            yield (
                f"The first {MOST_WHOLE} of these have all pictures, "
                f"{', '.join(str(one.number) for one in self._drawing.whole)}; the others one."
            )
        if total > listed:
            yield f"The table lists the worst {listed} of {total} connections; analyze --all and JSON have all of them."
        yield from (f"{remark}." for remark in self._drawing.remarks)

    # --- connections ---

    def _sections(self, left: int) -> Iterator[str]:
        """The sections of the connections that are drawn; each leaves room for those after it."""
        drawn = self._drawing.drawn
        for index, connection in enumerate(drawn):
            room = left // (len(drawn) - index)
            text = self._section(connection, room, is_open=index == 0)
            left -= len(text.encode())
            yield text

    def _section(self, connection: Connection, room: int, *, is_open: bool) -> str:
        around = around_findings(self._drawing.subjects[connection.number], connection.findings)
        held = self._drawing.held(connection)
        memory = self._drawing.memory(connection)
        section = _Section(
            connection,
            gravest(connection),
            connection_line(connection).removeprefix(f"#{connection.number} {connection.name} "),
            lifecycle_line(connection, connection.upper_layer.protocol),
            happened(connection, held),
            Negotiated(connection),
            [*remarkable_beginning(connection.startup_events)],
            [*self._startups(connection)],
            [self._finding(one) for one in around],
            [],
            memory[:MOST_STAGS],
            {row.stag: self._drawing.named_elsewhere(connection, row) for row in memory[:MOST_STAGS] if not row.named},
            held,
            [],
        )
        if len(memory) > MOST_STAGS:
            section.remarks.append(
                f"Of {len(memory)} STags {MOST_STAGS} are listed: "
                f"{self._commands.of('memory', '--connection', connection.number)}"
            )

        def rendered() -> str:
            return self._template(
                "section.html",
                section=section,
                commands=self._commands,
                is_open=is_open,
                kinds=KINDS,
                severity=gravest,
            )

        room -= len(rendered().encode())
        kinds = []
        for picture in self._drawing.pictures(connection):
            size = len(picture.svg.encode())
            if size > room:
                kinds.append(picture.kind)
                continue
            room -= size
            command = self._commands.plot(connection.number, picture.kind)
            section.pictures.append(_PictureBlock(picture, self._markup(picture.svg), command))
        if kinds:
            section.remarks.append(
                f"There was no room for pictures ({', '.join(kinds)}): "
                f"{self._commands.plot(connection.number, kinds[0])}"
            )
        if not self._add_octets(connection, section.findings, room):
            section.remarks.append("There was no room for the octets of all FPDUs; the lines above show them.")
        return rendered()

    def _add_octets(self, connection: Connection, findings: list[_FindingBlock], room: int) -> bool:
        """Give FPDUs octets as far as there is room, those that findings are about first; whether all have them."""
        is_all = True
        for is_here in (True, False):
            for block in findings:
                for index, line in enumerate(block.fpdus):
                    item = line.fpdu.item
                    if item is None or line.fpdu.is_here != is_here:
                        continue
                    place = f"octets-{connection.number}-{item.direction[0]}-{item.number}"
                    if place in self._places:
                        block.fpdus[index] = line._replace(elsewhere=place)
                        continue
                    octets = self._octets(item, place)
                    if len(octets.rows) > room:
                        is_all = False
                        continue
                    room -= len(octets.rows)
                    self._places.add(place)
                    block.fpdus[index] = line._replace(octets=octets)
        return is_all

    def _startups(self, connection: Connection) -> Iterator[_Octets]:
        """The octets of the startup frames."""
        for direction in ROLES:
            if startup_of(connection, direction) is not None:
                try:
                    item = startup_item(connection, direction)
                except CaptureError:
                    continue
                yield self._octets(item, f"startup-{connection.number}-{direction[0]}")

    def _finding(self, around: Around) -> _FindingBlock:
        found = around.finding
        grounds = [ground for ground in (found.clause, found.rule.requirement) if ground]
        if found.code is not None:
            grounds.append(f"error code {found.code}")
        lines = [_FPDULine(one, None, "") for one in around.fpdus]
        return _FindingBlock(around, ", ".join(grounds), self._commands.show(found.frame), lines)

    def _octets(self, item: Item, place: str) -> _Octets:
        """The octets of an FPDU or a startup frame, in the colours of what they are."""
        line = self._markup('<span class="at">{:>6} {:>10}</span>  {}{}  {}{}  <span class="{}">{}</span>\n')
        painted = self._markup('<i class="{}">{}</i>')
        rows = []
        for row in dump_rows(item):
            if row.at is None:
                rows.append(self._markup("{}{}\n").format(" " * 19, row.label))
                continue
            octets, ascii_ = painted.format(row.kind, row.octets), painted.format(row.kind, row.ascii)
            blanks = " " * (47 - len(row.octets)), " " * (16 - len(row.ascii))
            values = (
                row.at,
                row.seq,
                octets,
                blanks[0],
                ascii_,
                blanks[1],
                row.severity or "label",
                printable(row.label),
            )
            rows.append(line.format(*values))
        return _Octets(heading(item), place, self._markup("").join(rows))

    # --- templates ---

    def _template(self, name: str, **values: Any) -> str:
        return self._environment.get_template(name).render(**values)

    def _text(self, name: str) -> str:
        return source(self._environment, name)

    def _markup(self, text: str) -> Markup:
        from markupsafe import Markup

        return Markup(text)


def _dark_rules() -> str:
    """The style of pictures where the page is dark: the colours of the one look become those of the other."""
    # What a picture uses again and again is styled where it lies, outside of the picture: no selector may name that.
    rules = [
        f'[{what}="{light}"]{{{what}:{dark}}}'
        for light, dark in zip(LIGHT, DARK, strict=True)
        for what in ("fill", "stroke")
    ]
    # Text has no colour of its own where it is that of the settings.
    plain = f"svg.picture text:not([fill]){{fill:{DARK.ink}}}"
    return f"@media screen and (prefers-color-scheme: dark){{{plain}{''.join(rules)}}}\n"


def _rules_of(connection: Connection) -> Iterable[str]:
    """The rules that a connection breaks, the gravest first."""
    return dict.fromkeys(found.rule.id for found in connection.findings)
