"""The text about cases for people: the list, one case in full, and the page docs/catalogue.md."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence

from scapy_mpa.catalogue.baseline import BASELINES
from scapy_mpa.catalogue.case import AREAS, Case, Raised, clause_of
from scapy_mpa.catalogue.peer import REACTIONS
from scapy_mpa.catalogue.table import CASES, broken_by, is_change
from scapy_mpa.craft.changes.change import LEVELS, ChangeKind
from scapy_mpa.craft.changes.table import CHANGES
from scapy_mpa.craft.sent import Repairable
from scapy_mpa.rules.table import RULES
from scapy_mpa.values.words import plural

PAGE = "docs/catalogue.md"
#: Rules that are named of a change; one with more is a means to other ends.
_MOST_RULES = 15

_INTRODUCTION = """\
Every violation that the rules recognise, committed on purpose, and cases on both sides of each limit. A case is a
valid connection with one thing changed; its capture shows what a conforming peer does about it. `scapy-mpa malform CASE
-o FILE` makes one, `scapy-mpa malform --all -o DIR` all of them, with a manifest; [Breaking traffic](breaking.md) tells
how they are used.

*Finds* are the rules that the analysis must find broken, of all severities and no others; `(responder)` and the like
say who is to blame where it is not the side that the case is about. *Tests* are rules of endpoints: what only shows in
what the peer does. Where CRC or lengths *may be left*, `--crc left` or `--lengths left` leaves these fields as they
were before the change. Of a Terminate layer, type and code are given.
""".splitlines()
_CHANGES = """\
A case names changes and fixes their parameters. The same changes are drawn by `scapy-mpa fuzz` (`--change NAME` chooses
one), those of `craft --impair` happen with a probability, and each can be made alone: `scapy-mpa malform
pad:octets=hex:01 -o FILE`. An FPDU or packet is named by its `number`: 0 is the startup frame's packet, 1 the first of
Full Operation. What *follows it* is made right again behind the change, unless `--crc left` or `--lengths left` says
otherwise.
""".splitlines()


def list_lines(cases: Sequence[Case]) -> Iterator[str]:
    """Yield one line per case, by area."""
    for area, title in AREAS.items():
        found = [case for case in cases if case.area == area]
        width = max((len(case.name) for case in found), default=0)
        if found:
            yield f"{title} ({area})"
        for case in found:
            yield f"  {case.name:{width}}  {case.purpose} [{_short(case) or 'nothing'}]"
    yield plural(len(cases), "case")
    if len(cases) == len(CASES):
        yield ""
        yield "Changes, each a CASE too: NAME:PARAMETER=VALUE,..."
        for one in CHANGES.values():
            yield f"  {one.name}{f': {one.usage}' if one.usage else ''}"
            yield f"      {one.meaning}"


def explanation(case: Case, left: Repairable | None = None) -> Iterator[str]:
    """All about a case."""
    baseline = BASELINES[case.baseline]
    yield f"{case.name}: {case.purpose}"
    yield f"  area: {case.area}" + (f"; {clause_of(case)}" if clause_of(case) else "")
    yield f"  valid connection: {case.baseline} ({baseline.what})"
    yield f"  changed by the {case.by}: {'; '.join(change.text for change in case.changes) or 'nothing'}"
    if is_change(case.name):
        yield from _change(CHANGES[case.name.partition(":")[0]])
        return
    told = case.raised(left)
    yield f"  analyze finds: {'nothing' if not told else ''}".rstrip()
    for one in told:
        yield f"    {one.severity} {one.rule}" + (f", {one.direction}" if one.direction else "")
    if case.options:
        yield f"  with the options: {' '.join(case.options)}"
    for what, rules in (("breaks", case.breaks), ("tests", case.tests)):
        if rules:
            yield f"  {what}: {', '.join(rules)}"
    yield f"  a conforming peer: {case.outcome(left).peer.says}"
    for choice, outcome in case.left.items() if left is None else ():
        finds = ", ".join(_text(case, one) for one in case.raised(choice)) or "nothing"
        yield f"  with --{choice} left: {finds}. {outcome.peer.says}"


def change_explanation(kind: ChangeKind) -> Iterator[str]:
    """All about a change, whatever its parameters."""
    yield f"{kind.name}: {kind.meaning}"
    if kind.area:
        yield f"  area: {kind.area}"
    yield from _change(kind)


def _change(kind: ChangeKind) -> Iterator[str]:
    yield f"  level: {kind.level}, {LEVELS[kind.level]}"
    if kind.usage:
        yield f"  parameters: {kind.usage}"
    yield f"  follows it, unless left: {kind.repaired or 'nothing'}"
    rules = [RULES[name] for name in broken_by(kind.name)]
    if rules:
        yield "  in cases of the catalogue it breaks:"
    for rule in rules:
        code = f", code {rule.code}" if rule.code is not None else ""
        yield f"    {rule.severity} {rule.id}{code}; {rule.clause_in('rfc5044') or 'no clause'}"


# --- Markdown ---


def _changes() -> Iterator[str]:
    """All changes, level by level, with the rules that the cases of the catalogue break by them."""
    for level, what in LEVELS.items():
        yield ""
        yield f"### Changes of {what}"
        yield ""
        rows = []
        for one in CHANGES.values():
            if one.level == level:
                found = broken_by(one.name)
                usage = f" ({one.usage})" if one.usage else ""
                rules = ", ".join(found) if len(found) <= _MOST_RULES else "many rules"
                rows.append((f"`{one.name}`{usage}", one.meaning, one.repaired or "-", rules or "-"))
        yield from _table(("change", "what it does", "follows it", "cases with it break"), rows)


def markdown_lines() -> Iterator[str]:
    """The page docs/catalogue.md."""
    yield "# The malformed catalogue"
    yield ""
    yield f"<!-- Made by `scapy-mpa malform --list --format md > {PAGE}`: change scapy_mpa/catalogue/areas. -->"
    yield ""
    yield from _INTRODUCTION
    yield ""
    counts = Counter(case.area for case in CASES.values())
    silent = sum(not case.raises and not case.breaks for case in CASES.values())
    yield f"There are {len(CASES)} cases; in {silent} of them a capture shows nothing wrong."
    yield ""
    yield from _table(("area", "what", "cases"), ((area, title, str(counts[area])) for area, title in AREAS.items()))
    yield ""
    yield "## Valid connections"
    yield ""
    yield from _table(("baseline", "what it is"), ((f"`{name}`", one.what) for name, one in BASELINES.items()))
    yield ""
    yield "## What a conforming peer does"
    yield ""
    yield from _table(("reaction", "it ..."), REACTIONS.items())
    yield ""
    yield "## Changes"
    yield ""
    yield from _CHANGES
    yield from _changes()
    for area, title in AREAS.items():
        yield ""
        yield f"## {title}"
        yield ""
        head = ("case", "what", "clause", "finds", "tests", "a conforming peer")
        yield from _table(head, (_row(case) for case in CASES.values() if case.area == area))


def _row(case: Case) -> tuple[str, ...]:
    finds = ", ".join(_text(case, one) for one in case.raised())
    choices = "".join(f" ({choice} may be left)" for choice in case.left)
    broken = "".join(f", breaks {rule}" for rule in case.breaks)
    return (
        f"`{case.name}`",
        case.purpose + choices,
        clause_of(case) or "-",
        (finds or "nothing") + broken,
        ", ".join(case.tests) or "-",
        case.peer.short,
    )


def _text(case: Case, one: Raised) -> str:
    if one.direction == case.by:
        return one.rule
    return f"{one.rule} ({one.direction or 'capture'})"


def _short(case: Case) -> str:
    """The rules alone, the gravest first."""
    grave = ("error", "warning", "note")
    rules = dict.fromkeys(one.rule for one in case.raised())
    return ", ".join(sorted(rules, key=lambda rule: grave.index(RULES[rule].severity)))


def _table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> Iterator[str]:
    yield f"| {' | '.join(head)} |"
    yield f"|{' --- |' * len(head)}"
    for row in rows:
        yield f"| {' | '.join(cell.replace('|', chr(92) + '|') for cell in row)} |"
