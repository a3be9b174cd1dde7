"""``scapy-mpa fuzz --to`` and ``--listen``: the fuzzer against a live peer."""

from __future__ import annotations

import json
import os
import sys
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack, closing
from dataclasses import replace
from typing import TYPE_CHECKING

import click

from scapy_mpa.cli.fuzzoptions import FuzzOptions
from scapy_mpa.cli.lines import print_line
from scapy_mpa.cli.output import STANDARD_OUTPUT, check_folder_of, check_junit, written
from scapy_mpa.cli.probeoptions import PeerOptions
from scapy_mpa.cli.settling import GONE
from scapy_mpa.errors import MPAError
from scapy_mpa.fuzz.coverage import NOTHING, VARIABLE, Coverage
from scapy_mpa.fuzz.draw import MOST_CASES
from scapy_mpa.fuzz.engine import Engine
from scapy_mpa.fuzz.guided import Guided
from scapy_mpa.system.names import printable
from scapy_mpa.values.words import plural

if TYPE_CHECKING:
    from scapy_mpa.framing.role import Role
    from scapy_mpa.fuzz.run import Fuzzer
    from scapy_mpa.probe.fuzzing import WireCase, WireFuzzer, WireResult

#: Seconds for an Initiator to connect, and for a peer to come back.
_PATIENCE = 10.0
#: This many cases may be left out for each that is given.
_MOST_LEFT_OUT = 20
_NOTHING_COUNTED = (
    "the peer counts nothing in {0}: build it with -fsanitize-coverage=trace-pc-guard (GCC: trace-pc) and the source "
    "that --coverage-source prints, and start it with SCAPY_MPA_COVERAGE={0}"
)


def fuzz_peer(options: FuzzOptions, fuzzer: Fuzzer) -> int:
    """Give cases to the peer, a JSON line each; returns the exit status."""
    from scapy_mpa.cli.probe import target_of
    from scapy_mpa.framing.startup import EnhancedData
    from scapy_mpa.probe.exchange import Terms
    from scapy_mpa.probe.fitting import Clean
    from scapy_mpa.probe.fuzzing import WireFuzzer
    from scapy_mpa.probe.monitor import Monitor

    if options.script is not None:
        check_folder_of(options.script)
    if options.junit is not None:
        check_junit(options.junit)
    with ExitStack() as stack:
        coverage = engine = None
        guided = Guided(fuzzer)
        if options.coverage is not None:
            # Before there is anything that its process would have a copy of.
            engine = stack.enter_context(closing(Engine(guided.mutated, options.seed)))
            coverage = stack.enter_context(closing(Coverage(options.coverage)))
            # For the peer, if --restart or --run starts it.
            os.environ[VARIABLE] = os.path.abspath(options.coverage)
        where = (options.peer,) if options.peer is not None else ()
        target, _ = target_of(
            stack,
            PeerOptions(
                where, options.listens, options.command, options.restart, options.timeout, _PATIENCE, options.boot
            ),
        )
        monitor = Monitor(options.monitor, _PATIENCE) if options.monitor is not None else None
        # As rping's client does: without, its server on siw may not read, and ends the clean connections.
        clean = Clean(enhanced=EnhancedData(ird=1, ord=1)) if options.has_rping else Clean()
        terms = Terms(options.timeout, clean, rping=options.has_rping, settle=options.settle)
        run = WireFuzzer(target, fuzzer, terms, recovery=options.recovery, monitor=monitor, coverage=coverage)
        remark = run.begin()
        if remark:
            print_line(f"scapy-mpa: {printable(remark)}", err=True)
        if engine is None or coverage is None:
            return _Giving(run, options).all()
        coverage.collect()
        if not coverage.new:
            raise MPAError(_NOTHING_COUNTED.format(printable(os.environ[VARIABLE])))
        return _Guiding(run, options, engine, guided, coverage).all()


def write_program(options: FuzzOptions, fuzzer: Fuzzer) -> int:
    """Write a case as a program that sends it to a Responder which asks for no Markers; returns the exit status."""
    from scapy_mpa.probe.fuzzing import wire_case

    number = options.numbers[0]
    case = wire_case(fuzzer.recipe(number), "initiator", markers=False, rping=options.has_rping)
    if not case.done and fuzzer.most:
        raise _unchanged(number, "initiator")
    _write_program(options, case, "initiator", options.script)
    return 0


def _unchanged(number: int, by: Role) -> MPAError:
    """Return the error for a requested case that does not differ from the connection it starts from."""
    return MPAError(f"case {number} changes nothing in what the {by.capitalize()} sends: --replay with another number")


def _write_program(options: FuzzOptions, case: WireCase, by: Role, file_name: str | None) -> None:
    """Write a case as a program, where that was asked for."""
    from scapy_mpa.probe.reproducer import SentOctets, message_acts, reproducer

    if file_name is None:
        return
    recipe = case.recipe
    acts = message_acts((SentOctets(one.octets, one.name) for one in case.messages if one.octets), by)
    title = f"Case {recipe.case} of seed {recipe.seed}, from {recipe.source}."
    text = reproducer(title, [f"{one.name}: {one.what}." for one in case.done], by, acts, options.timeout)
    with written(file_name) as file:
        file.write(text.encode())
    if file_name != STANDARD_OUTPUT:
        # Standard output has the lines.
        print_line(f"{printable(file_name)}: sends case {recipe.case} to HOST PORT", err=options.is_live)


def _on_from(numbers: range) -> range:
    """These numbers, and those after them for cases that are left out."""
    return range(numbers.start, min(numbers.stop + _MOST_LEFT_OUT * len(numbers), MOST_CASES))


class _Giving:
    """Gives cases and reports them."""

    #: Why cases are left out.
    why_left_out = "they change nothing in what this side sends"

    def __init__(self, run: WireFuzzer, options: FuzzOptions) -> None:
        self._run = run
        self._options = options
        self._count = self._new = self._lost = self._unchanged = self._not_given = 0
        from scapy_mpa.probe.choice import lines_of

        self._known = lines_of(options.expected) if options.expected is not None else frozenset()
        self._results: list[WireResult] = []
        #: Hits that are not known, each with how often it occurred.
        self._hits: Counter[str] = Counter()
        self._until = time.monotonic() + options.duration if options.duration is not None else None

    @property
    def _is_over(self) -> bool:
        """Whether there were enough cases, or there is no more time."""
        is_late = self._until is not None and time.monotonic() >= self._until
        return is_late or self._count == len(self._options.numbers)

    def _cases(self) -> Iterator[WireCase]:
        """The cases, from the first number on.

        Those in which nothing changes that this side says are left out, and others come for them.
        """
        numbers, is_one = self._options.numbers, self._options.replay is not None
        for number in numbers if is_one else _on_from(numbers):
            if self._is_over:
                return
            case = self._run.case(number)
            if case.done or self._run.is_valid_wanted:
                yield case
            elif is_one:
                raise _unchanged(number, self._run.by)
            else:
                self._unchanged += 1

    def _give(self, case: WireCase) -> bool:
        """Give a case, and report it; whether the peer is there afterwards."""
        result = self._run.give(case)
        _write_program(self._options, result.case, self._run.by, self._options.script)
        self._not_given += not result.is_given
        self._tell(result)
        is_back = not result.is_gone or self._run.come_back()
        if is_back and result.is_gone and self._options.minimizes:
            result, is_back = self._minimized(result)
        self._count_hit(result)
        return is_back

    def all(self) -> int:
        """Give cases as long as there is time and the peer is there; returns the exit status."""
        for case in self._cases():
            if not self._give(case):
                break
        print_line(f"scapy-mpa: {self._summary()}", err=True)
        if self._options.junit is not None:
            from scapy_mpa.probe.told import junit_of_hits

            with written(self._options.junit) as file:
                file.write(junit_of_hits(self._results, self._known))
        is_gone = any(one.is_gone and one.hit not in self._known for one in self._results)
        return GONE if is_gone else int(bool(self._hits))

    def _summary(self) -> str:
        said = f"{plural(self._count, 'case')}, {self._new} with new answers"
        said += f", {self._lost} after which the peer was gone"
        if self._not_given:
            said += f", {self._not_given} not sent because there was no connection"
        if self._unchanged:
            said += f"; {plural(self._unchanged, 'case')} left out because {self.why_left_out}"
        if self._hits:
            said += f"; {plural(len(self._hits), 'hit')}: {', '.join(map(printable, self._hits))}"
        return said

    def _tell(self, result: WireResult, **more: object) -> None:
        self._count += 1
        self._new += result.is_new
        self._lost += result.is_gone
        self._line({**result.as_dict(), **more})
        if self._options.output is not None and (result.is_new or result.hit):
            with written(self._kept(result, ".pcapng")) as file:
                file.write(result.capture)

    def _kept(self, result: WireResult, suffix: str) -> str:
        """The name of a file about a case in the folder."""
        name = f"case-{result.case.number:06}{'-gone' if result.is_gone else '-hit' if result.hit else ''}"
        return os.path.join(self._options.output or "", name + suffix)

    def _count_hit(self, result: WireResult) -> None:
        """Count what is wrong with the peer under its cause."""
        if result.hit and result.hit not in self._known:
            self._hits[result.hit] += 1
        self._results.append(replace(result, capture=b""))

    def _minimized(self, result: WireResult) -> tuple[WireResult, bool]:
        """The result with what of its case kills the peer; whether the peer is there again."""
        try:
            smaller, again = self._run.smaller(result.case)
            _write_program(self._options, smaller, self._run.by, self._options.script)
        except MPAError as error:
            print_line(f"scapy-mpa: {printable(str(error))}", err=True)
            return result, False
        result = replace(result, case=smaller)
        self._line(
            {
                "minimized": smaller.number,
                "again": again,
                "mutations": [name for name, _ in smaller.recipe.mutations],
                "messages": [{"name": one.name, "octets": one.octets.hex()} for one in smaller.messages],
                "hit": result.hit,
            }
        )
        return result, True

    @staticmethod
    def _line(values: dict[str, object]) -> None:
        click.echo(json.dumps(values))
        sys.stdout.flush()


class _Guiding(_Giving):
    """Gives the cases that libFuzzer chooses by what the peer executes.

    A case that the peer does not survive is known by what it executed then and in no case that it survived. Cases with
    the same of that, or with less or more of it, are one hit, and are named by the first of them.
    """

    why_left_out = "their messages were given before"

    def __init__(
        self, run: WireFuzzer, options: FuzzOptions, engine: Engine, guided: Guided, coverage: Coverage
    ) -> None:
        super().__init__(run, options)
        self._engine = engine
        self._guided = guided
        self._coverage = coverage
        #: Hits, each with what the peer executed then and in no case before that it survived.
        self._causes: list[tuple[int, str]] = []

    def _cases(self) -> Iterator[WireCase]:
        for number in _on_from(self._options.numbers):
            if self._is_over:
                return
            case = self._run.first_laid(self._guided.recipe(self._engine.next(), number))
            if case is None:
                self._unchanged += 1
                self._engine.tell(NOTHING)
            else:
                yield case

    def _give(self, case: WireCase) -> bool:
        result = self._run.give(case)
        self._engine.tell(NOTHING if result.hit else self._coverage.counters)
        self._not_given += not result.is_given
        where = self._coverage.new
        known = self._cause_of(where) if result.hit else ""
        if known:
            result = replace(result, cause=known)
        elif result.hit:
            changed = self._run.case_of(result.case.recipe)
            result = replace(result, case=replace(result.case, recipe=changed.recipe, done=changed.done))
        self._tell(result, reached=self._coverage.kept.bit_count())
        is_back = not result.is_gone or self._run.come_back()
        if result.hit and not known:
            if is_back and result.is_gone and self._options.minimizes:
                result, is_back = self._minimized(result)
            self._causes.append((where, result.hit))
            if self._options.output is not None:
                _write_program(self._options, result.case, self._run.by, self._kept(result, ".py"))
        self._count_hit(result)
        return is_back

    def _cause_of(self, where: int) -> str:
        """The hit that is known by this, "" if none is."""
        for one, hit in self._causes:
            left = one & ~self._coverage.kept
            if (both := left & where) and both in (left, where):
                return hit
        return ""

    def _summary(self) -> str:
        return f"{super()._summary()}; {self._coverage.kept.bit_count()} counters of the peer reached"
