"""Results as text: JSON lines (``probe.schema.json``), a table for people, and JUnit XML for CI systems.

Octets of a peer are hexadecimal, and words that hold some are escaped, in every format.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Container, Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

from scapy_mpa.catalogue.case import Case
from scapy_mpa.framing.ddp import opcode_name
from scapy_mpa.framing.startup import StartupFrame
from scapy_mpa.probe.case import ProbeCase
from scapy_mpa.probe.expectations import choices, expectation_of
from scapy_mpa.probe.judge import BAD, VERDICTS, ProbeJudgement, expected_words, seen_words
from scapy_mpa.probe.reach import CARRIAGES
from scapy_mpa.probe.run import Result
from scapy_mpa.probe.seen import SeenPeer
from scapy_mpa.system.names import printable
from scapy_mpa.values.startup import enhanced_fields
from scapy_mpa.values.words import plural

if TYPE_CHECKING:
    from rich.console import Console

    from scapy_mpa.probe.fuzzing import WireResult

#: Octets and FPDUs of a peer that a line shows.
_OCTETS, _FPDUS = 512, 16
#: Columns of the name of a deviation that is not broken.
_NAME = 24
#: Names of cases, and reasons, that people want to read in a summary.
_NAMES, _CAUSES = 3, 8


def json_line(result: Result, capture: str | None = None) -> str:
    """A result as a line; ``capture`` is the file that its recording was written to."""
    case, judgement = result.case, result.judgement
    said = {
        "case": case.name,
        "area": case.area,
        "clause": clause_of(result) or None,
        "requirement": case.requirement or None,
        "role": case.reach.role,
        "expected": _expected(case.case),
        "seen": _seen(result.seen),
        "verdict": judgement.verdict,
        "reason": printable(judgement.reason) or None,
        "rule": judgement.rule or case.rule or None,
        "differs": _differs(judgement),
        "deviations": [*judgement.deviations],
        "counted": [*judgement.counted],
        "known": result.is_known,
        "seconds": round(result.seen.seconds, 6),
        "frames": result.seen.frames,
        "capture": capture,
    }
    return json.dumps(said)


def _expected(case: Case) -> dict[str, Any]:
    return {
        "text": expected_words(case),
        **case.peer.as_dict(),
        "may": sorted(choices(case)),
        "means": expectation_of(case.name).means,
    }


def _seen(seen: SeenPeer) -> dict[str, Any]:
    terminate = seen.terminate
    return {
        "text": printable(seen_words(seen)),
        "octets": bytes(seen.octets[:_OCTETS]).hex(),
        "total": seen.total,
        "startup": _frame(seen.frame) if seen.frame is not None else None,
        "fpdus": [
            {
                "opcode": opcode_name(one.ulpdu),
                "ulpdu_length": one.ulpdu_length,
                "ulpdu": one.ulpdu[:_OCTETS].hex(),
                "seconds": round(one.seconds, 6),
            }
            for one in seen.fpdus[:_FPDUS]
        ],
        "terminate": {
            "layer": terminate.layer,
            "etype": terminate.etype,
            "code": terminate.code,
            "layout": terminate.layout,
            "meaning": terminate.meaning,
        }
        if terminate is not None
        else None,
        "error": printable(str(seen.error)) if seen.error is not None else None,
        "end": seen.end,
        "end_after": round(seen.end_after, 6) if seen.end is not None else None,
        "unacknowledged": seen.unacknowledged,
        "beyond_hole": seen.beyond_hole,
    }


def _frame(frame: StartupFrame) -> dict[str, Any]:
    enhanced = frame.enhanced
    return {
        **{name: getattr(frame, name) for name in ("kind", "m", "c", "r", "s", "res", "rev", "pd_length")},
        "private_data": frame.private_data.hex(),
        "enhanced": enhanced_fields(enhanced) if enhanced is not None else None,
    }


def _differs(judgement: ProbeJudgement) -> dict[str, Any] | None:
    if judgement.differs is None:
        return None
    at, expected, seen = judgement.differs
    return {"offset": at, "expected": expected.hex(), "seen": seen.hex()}


def clause_of(result: Result) -> str:
    """The clause that a verdict is about; empty if it is about none."""
    judgement = result.judgement
    return judgement.clause or (result.case.clause if judgement.is_of_case else "")


def why(result: Result) -> str:
    """The reason of a verdict, with its clause and the first octet that differs."""
    case, judgement = result.case, result.judgement
    said = judgement.reason
    clause = clause_of(result)
    word = "" if judgement.clause else case.requirement
    if judgement.verdict in BAD and clause:
        said += f" ({clause}{f', {word}' if word else ''})"
    if judgement.differs is not None:
        at, expected, seen = judgement.differs
        said += f"; octet {at}: {expected[:4].hex(' ') or 'nothing'} expected, {seen[:4].hex(' ') or 'nothing'} seen"
    return printable(said + (" [known]" if result.is_known else ""))


def print_table(results: Sequence[Result], console: Console, *, everything: bool, total: int = 0) -> None:
    """Print the table for people: each deviation with its cases, or all cases, then why some were not tested, and the
    counts.

    ``total`` is how many cases there should have been.
    """
    from rich.table import Column, Table

    columns = [Column(name, overflow="fold") for name in ("expected", "seen", "why")]
    found = deviations_of(results)
    rows = [(one, name, _some([case.case.name for case in cases])) for name, (one, cases) in found.items()]
    if everything:
        rows = [(one, ", ".join(one.judgement.counted), one.case.name) for one in results]
    if rows:
        heads = Column("deviation", min_width=_NAME), Column("case" if everything else "cases", overflow="fold")
        table = Table("verdict", *heads, *columns)
        for one, names, cases in rows:
            seen = printable(seen_words(one.seen))
            table.add_row(one.judgement.verdict, names, cases, expected_words(one.case.case), seen, why(one))
        console.print(table)
    for line in (*_causes(results), _lacking(results), counts(results, total)):
        if line:
            console.print(line, soft_wrap=True)


def deviations_of(results: Iterable[Result]) -> dict[str, tuple[Result, list[Result]]]:
    """Return the deviations that fail cases, by name: the first result of each, and all that show it."""
    found = [*results]
    names = dict.fromkeys(one.judgement.counted[0] for one in found if one.judgement.counted)
    shown = {name: [one for one in found if name in one.judgement.deviations] for name in names}
    return {name: (next(one for one in cases if name in one.judgement.counted), cases) for name, cases in shown.items()}


def _some(names: Sequence[str]) -> str:
    more = len(names) - _NAMES
    return ", ".join(names[:_NAMES]) + (f" and {more} more" if more > 0 else "")


def causes(results: Iterable[Result]) -> list[tuple[str, int]]:
    """Return why cases could not be tested, with how many there are of each reason, the most first."""
    found = Counter(one.judgement.reason for one in results if one.judgement.verdict == "unsupported")
    return sorted(found.items(), key=lambda item: (-item[1], item[0]))


def _causes(results: Sequence[Result]) -> list[str]:
    found = causes(results)
    said = [f"unsupported: {count} {printable(reason)}" for reason, count in found[:_CAUSES]]
    rest = sum(count for _, count in found[_CAUSES:])
    return [*said, f"unsupported: {rest} for other reasons (--all)"] if rest else said


def _lacking(results: Iterable[Result]) -> str:
    lacks = sum(one.judgement.lacks_buffer for one in results)
    words = f"allowed: {plural(lacks, 'case')} that end{'s' * (lacks == 1)} at memory that the peer does not have"
    return f"{words}: --buffer or --ulp rping tests more" if lacks else ""


def counts(results: Iterable[Result], expected: int = 0) -> str:
    """Return the counts of verdicts and deviations, and how many of the cases ``expected`` are missing."""
    found = [*results]
    number = Counter(one.judgement.verdict for one in found)
    said = [f"{number[verdict]} {verdict}" for verdict in VERDICTS if number[verdict]]
    known = sum(one.is_known for one in found)
    cases = sum(not one.is_control for one in found)
    if expected > cases:
        said.append(f"{expected - cases} not run")
    total = plural(len(found), "case")
    words = ", ".join([f"{total}: {said[0]}", *said[1:]] if said else [total]) + (f" ({known} known)" if known else "")
    names = deviations_of(found)
    return f"{words}; {plural(len(names), 'deviation')}" if names else words


def listed(case: ProbeCase) -> dict[str, Any]:
    """Return what ``--list`` says about a case."""
    return {
        "case": case.name,
        "area": case.area,
        "role": case.reach.role,
        "carrier": case.reach.carriage,
        "why": case.reach.why or None,
        "clause": case.clause or None,
        "purpose": case.case.purpose,
        "means": expectation_of(case.name).means,
    }


def list_lines(cases: Sequence[ProbeCase]) -> Iterator[str]:
    """The same for people: one line a case."""
    name = max((len(case.name) for case in cases), default=0)
    for case in cases:
        carrier = CARRIAGES[case.reach.carriage]
        yield f"{case.name:<{name}}  {case.reach.role:<9}  {carrier:<17}  {case.case.purpose}"
    number = Counter(case.reach.carriage for case in cases)
    said = ", ".join(f"{words} {number[one]}" for one, words in CARRIAGES.items() if number[one])
    yield f"{len(cases)} case{'s' * (len(cases) != 1)}: {said}"


def junit_of_hits(results: Iterable[WireResult], known: Container[str]) -> bytes:
    """JUnit's XML of fuzzing: a test a case, a failure a hit; raises ImportError without junitparser."""
    from junitparser import Failure, JUnitXml, Skipped, TestCase, TestSuite

    found, suite, told = JUnitXml("scapy-mpa fuzz"), TestSuite("fuzz"), set[str]()
    for one in results:
        test = TestCase(f"case-{one.case.number:06}", "mpa.fuzz", round(one.seen.seconds, 6))
        hit = printable(one.hit)
        if hit and (one.hit in known or hit in told):
            test.result = [Skipped(hit)]
        elif hit:
            test.result = [Failure(hit, one.verdict.replace(" ", "-"))]
        told.add(hit)
        suite.add_testcase(test)
    found.add_testsuite(suite)
    found.update_statistics()  # type: ignore[no-untyped-call]
    return bytes(found.tostring())  # type: ignore[no-untyped-call]


def junit(results: Sequence[Result], peer: str) -> bytes:
    """JUnit's XML: a suite an area, a test a case, a failure a deviation; raises ImportError without junitparser."""
    from junitparser import Failure, JUnitXml, Skipped, TestCase, TestSuite

    found, deviations = JUnitXml("scapy-mpa probe"), deviations_of(results)
    for area in dict.fromkeys(one.case.area for one in results):
        suite = TestSuite(area)
        suite.add_property("peer", printable(peer))
        for one in (result for result in results if result.case.area == area):
            test = TestCase(one.case.name, f"mpa.{one.case.reach.role}.{area}", round(one.seen.seconds, 6))
            verdict = one.judgement.verdict
            expected = f"{expected_words(one.case.case)}. {expectation_of(one.case.name).means}"
            text = f"expected: {expected}\nseen: {printable(seen_words(one.seen))}\n{why(one)}"
            if one.counts_against and not one.is_first:
                test.result = [Skipped(f"counted under {one.judgement.counted[0]}: {why(one)}")]
            elif one.counts_against:
                failure = Failure(f"{verdict}: {why(one)}", verdict.replace(" ", "-"))
                shown = [(name, deviations[name][1]) for name in one.judgement.counted[:1] if name in deviations]
                cases = [f"\n{name}: {_some([case.case.name for case in cases])}" for name, cases in shown]
                failure.text = text + "".join(cases)
                test.result = [failure]
            elif verdict == "unsupported" or one.is_known:
                test.result = [Skipped(f"{verdict}: {why(one)}")]
            elif verdict == "allowed":
                test.system_out = text
            suite.add_testcase(test)
        found.add_testsuite(suite)
    found.update_statistics()  # type: ignore[no-untyped-call]
    return bytes(found.tostring())  # type: ignore[no-untyped-call]
