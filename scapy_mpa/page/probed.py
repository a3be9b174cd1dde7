"""The page of a probe's run: every case with its verdict, what was expected and what came, and the peer's octets.

A browser sorts and filters the table; nothing is loaded, and nothing runs but the script of the page.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from scapy_mpa.page.templates import check_jinja, environment, policy, source
from scapy_mpa.probe.expectations import expectation_of
from scapy_mpa.probe.judge import expected_words, seen_words
from scapy_mpa.probe.run import Result
from scapy_mpa.probe.told import causes, clause_of, counts, deviations_of, why
from scapy_mpa.tuples import NamedTuple
from scapy_mpa.version import __version__

#: Octets of a peer that the page shows of each case, and in all.
_OCTETS, _ALL_OCTETS = 512, 400_000
_ROW = 16


class _ProbedCase(NamedTuple):
    """A row of the table.

    Attributes:
        result: what became of the case.
        grade: 0 if it counts against the peer, 1 if it might, 2 if it says nothing, 3 if all is well.
        badge: the class of its badge.
        expected: what was expected, in words.
        seen: what came, in words.
        why: the reason of the verdict.
        clause: the clause that the verdict is about.
        octets: the first octets of the peer, in lines of hexadecimal.
        capture: the file of its recording, empty without one.
    """

    result: Result
    grade: int
    badge: str
    expected: str
    seen: str
    why: str
    clause: str
    octets: list[str]
    capture: str


def page_of_probe(
    results: Sequence[Result],
    peer: str,
    captures: Mapping[str, str],
    remarks: Sequence[str] = (),
    total: int = 0,
) -> str:
    """The page of a run.

    Args:
        results: what became of the cases, in their order.
        peer: the tested peer, in words.
        captures: the files of recordings, by case.
        remarks: what else is to be said about the run, a sentence each.
        total: how many cases there should have been.

    Raises:
        MPAError: jinja2 is not installed.
    """
    from markupsafe import Markup

    check_jinja()
    templates = environment()
    style, script = source(templates, "page.css"), source(templates, "page.js")
    rows, left = [], _ALL_OCTETS
    for result in results:
        octets = bytes(result.seen.octets[: min(_OCTETS, left)])
        left -= len(octets)
        rows.append(_row(result, octets, captures.get(result.case.name, "")))
    return templates.get_template("probe.html").render(
        version=__version__,
        policy=policy(style, script),
        style=Markup(style),
        script=Markup(script),
        peer=peer,
        counts=counts(results, total),
        deviations=[
            (name, why(first), [one.case.name for one in cases])
            for name, (first, cases) in deviations_of(results).items()
        ],
        causes=causes(results),
        rows=sorted(rows, key=lambda one: one.grade),
        remarks=remarks,
    )


def _row(result: Result, octets: bytes, capture: str) -> _ProbedCase:
    verdict = result.judgement.verdict
    if result.counts_against:
        grade, badge = 0, "error"
    elif verdict == "pass":
        grade, badge = 3, "fine"
    elif verdict == "unsupported":
        grade, badge = 2, "note"
    else:
        grade, badge = 1, "warning"
    lines = [octets[at : at + _ROW].hex(" ") for at in range(0, len(octets), _ROW)]
    return _ProbedCase(
        result,
        grade,
        badge,
        f"{expected_words(result.case.case)}. {expectation_of(result.case.name).means}",
        seen_words(result.seen),
        why(result),
        clause_of(result),
        lines,
        capture,
    )
