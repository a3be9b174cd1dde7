"""The options of ``scapy-mpa fuzz``, and which of them go together."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from scapy_mpa.cli.output import STANDARD_OUTPUT, names_folder
from scapy_mpa.fuzz.draw import MOST_CASES

DEFAULT_COUNT = 100


@dataclass(frozen=True)
class FuzzOptions:
    """The options as they were given; each has the name of the command's parameter. Times are seconds."""

    output: str | None
    seed: int
    count: int | None
    first: int
    #: --case: the only one, in a file.
    number: int | None
    captures: tuple[str, ...]
    connection: int | None
    scenarios: tuple[str, ...]
    areas: tuple[str, ...]
    changes: tuple[str, ...]
    #: --changes, and its earlier name.
    most: int | None
    mutations: int | None
    per_file: int
    split: Path | None
    peer: str | None
    listens: str | None
    command: str | None
    restart: str | None
    replay: int | None
    script: str | None
    coverage: str | None
    minimizes: bool
    duration: float | None
    timeout: float
    ulp: str
    settle: float
    boot: float
    recovery: float
    monitor: str | None
    junit: str | None
    expected: str | None
    only_list: bool

    @property
    def is_live(self) -> bool:
        """True if there is a live peer."""
        return self.peer is not None or self.listens is not None

    @property
    def is_of_messages(self) -> bool:
        """Whether cases are what one side sends, for a live peer or as a program, and not captures."""
        return self.is_live or self.script is not None

    @property
    def has_rping(self) -> bool:
        """Whether the peer's upper layer is rping."""
        return self.ulp == "rping"

    @property
    def is_file(self) -> bool:
        """Whether the output is one file, not a folder."""
        return self.number is not None and self.output is not None and not names_folder(self.output)

    @property
    def folders(self) -> list[Path]:
        """The folders that are written."""
        output = None if self.is_file or self.output is None else Path(self.output)
        return [folder for folder in (output, self.split) if folder]

    @property
    def names_cases(self) -> bool:
        """Whether cases are asked for, by number or by how many."""
        return self.count is not None or self.number is not None

    @property
    def numbers(self) -> range:
        """The numbers of the cases."""
        one = self.replay if self.is_of_messages else self.number
        if one is not None:
            return range(one, one + 1)
        return range(self.first, min(self.first + (self.count or DEFAULT_COUNT), MOST_CASES))

    def complaint(self) -> str | None:
        """Return which options cannot be combined, None if all can."""
        if self.only_list:
            writes = self.output is not None or self.split is not None
            return "--list writes no files: leave out --list, or leave out -o and --split" if writes else None
        complaints = self._of_messages if self.is_of_messages else self._of_captures
        return next((text for is_wrong, text in (*self._of_either(), *complaints()) if is_wrong), None)

    def _of_either(self) -> Iterator[tuple[bool, str]]:
        named = {
            "--run": self.command, "--restart": self.restart, "--duration": self.duration, "--monitor": self.monitor,
            "--junit": self.junit, "--expected": self.expected, "--coverage": self.coverage,
            "--minimize": self.minimizes or None, "--boot": self.boot or None,
            "--ulp": True if self.has_rping and self.script is None else None,
        }  # fmt: skip
        strange = [name for name, value in named.items() if value is not None]
        yield (
            self.number is not None and self.is_of_messages,
            f"a live peer gets a single case with --replay: --replay {self.number}",
        )
        yield self.script is not None and self.replay is None, "--script writes one case: name it with --replay"
        yield (
            not self.is_live and bool(strange),
            f"{strange[0] if strange else ''} is only for a live peer: name the peer with --to or --listen",
        )

    def _of_messages(self) -> Iterator[tuple[bool, str]]:
        yield (
            self.peer is not None and self.listens is not None,
            "--to names a Responder and --listen waits for an Initiator: give only one of them",
        )
        yield (
            self.minimizes and self.restart is None,
            "--minimize kills the peer repeatedly: it needs --restart to bring it back",
        )
        yield (
            self.split is not None or self.per_file > 1,
            "a live peer gets cases one by one: leave --split and --per-file out",
        )
        if self.coverage is not None:
            yield (
                self.replay is not None or self.first > 0,
                "--coverage decides which case comes next: leave --replay and --first out",
            )
            yield 0 in (self.most, self.mutations), "--coverage needs changes: leave --changes 0 out"

    def _of_captures(self) -> Iterator[tuple[bool, str]]:
        is_one, has_output = self.number is not None, self.output is not None
        yield (
            self.replay is not None,
            "--replay needs a live peer (--to or --listen), or --script FILE",
        )
        yield (
            not has_output and self.split is None,
            "no output: -o DIR names a folder for the captures, --split one for single messages",
        )
        yield (
            is_one and (self.count is not None or self.first > 0),
            "--case selects one case; --first and --count select several",
        )
        yield (
            self.first > 0 and self.count is None and not has_output,
            "--first is the number of the first case: give --count or -o too",
        )
        yield (
            self.per_file > 1 and (is_one or not has_output),
            "--per-file applies only if several cases are written with -o",
        )
        yield (
            str(self.split) == STANDARD_OUTPUT or (not is_one and self.output == STANDARD_OUTPUT),
            "standard output takes one case (--case); -o DIR and --split DIR take several files",
        )
        yield (
            self.connection is not None and not self.captures,
            "--connection needs --from: it selects from those captures",
        )
