"""Findings: breaches of rules, gathered so that a rule broken a thousand times is one line.

One finding stands for one rule in one direction of one connection. It keeps the first place and counts the
rest, so memory follows the number of rules and connections, not the capture.
"""

from __future__ import annotations

from collections.abc import Callable, Set

from scapy_mpa.rules.table import RULES, SEVERITIES, Rule, Severity
from scapy_mpa.tuples import NamedTuple


class Told(NamedTuple):
    """What is reported about one breach; ``expected`` and ``seen`` are "" where the rule and ``detail`` say it."""

    frame: int
    time_ns: int
    seq: int
    detail: str
    expected: str
    seen: str


class Finding:
    """A rule broken ``count`` times in one direction of a connection.

    ``frame``, ``time_ns`` (nanoseconds since the epoch), ``seq``, ``detail``, ``expected`` and ``seen`` are of the
    first breach in the order of frames, ``last_frame`` of the last one.
    """

    __slots__ = (
        "_expected", "_seen", "code", "count", "detail", "direction", "frame", "last_frame", "profile", "rule", "seq",
        "time_ns", "topic",
    )  # fmt: skip

    def __init__(
        self,
        rule: Rule,
        profile: str,
        direction: str | None,
        first: Told,
        count: int = 1,
        last_frame: int = 0,
        code: int | None = None,
        topic: str = "",
    ) -> None:
        self.rule = rule
        self.profile = profile
        self.direction = direction
        #: The error code of RFC 5044 §8 that a conforming peer reports, None if there is none.
        self.code = rule.code if code is None else code
        #: What its clause is about.
        self.topic = topic or rule.topic
        self.count = count
        self.last_frame = last_frame
        self._begin_with(first)

    def _begin_with(self, first: Told) -> None:
        self.frame, self.time_ns, self.seq, self.detail, self._expected, self._seen = first
        self.last_frame = max(self.last_frame, self.frame)

    def count_breach(self, told: Told, count: int, last_frame: int) -> None:
        """Count ``count`` more breaches, up to ``last_frame``; report this one if it is earlier than that."""
        self.count += count
        self.last_frame = max(self.last_frame, told.frame, last_frame)
        if told.frame < self.frame:
            self._begin_with(told)

    def follow(self, profile: str) -> None:
        """Use the clauses of this profile."""
        self.profile = profile

    def __reduce__(self) -> tuple[Callable[..., Finding], tuple[object, ...]]:
        """Reduce it for another process: the rule by its name."""
        first = Told(self.frame, self.time_ns, self.seq, self.detail, self._expected, self._seen)
        where = self.rule.id, self.profile, self.direction
        return _again, (*where, first, self.count, self.last_frame, self.code, self.topic)

    @property
    def severity(self) -> Severity:
        """``error``, ``warning`` or ``note``."""
        return self.rule.severity

    @property
    def clause(self) -> str | None:
        """The clause of the connection's specification, None where no specification speaks."""
        return self.rule.clause_about(self.profile, self.topic) if self.topic else self.rule.clause_in(self.profile)

    @property
    def expected(self) -> str:
        """What had to be on the wire at this place; what the rule expects if the breach did not say it."""
        return self._expected or self.rule.expected

    @property
    def seen(self) -> str:
        """What was on the wire instead; ``detail`` if the breach did not say it separately."""
        return self._seen or self.detail

    def as_dict(self) -> dict[str, object]:
        """The finding with the keys of the report's JSON."""
        return {
            "rule": self.rule.id,
            "clause": self.clause,
            "requirement": self.rule.requirement or None,
            "code": self.code,
            "severity": self.severity,
            "count": self.count,
            "direction": self.direction,
            "frame": self.frame,
            "last_frame": self.last_frame,
            "time": self.time_ns / 1_000_000_000,
            "seq": self.seq,
            "detail": self.detail,
            "expected": self.expected,
            "seen": self.seen,
        }


def _again(
    rule_id: str,
    profile: str,
    direction: str | None,
    first: Told,
    count: int,
    last_frame: int,
    code: int | None,
    topic: str,
) -> Finding:
    return Finding(RULES[rule_id], profile, direction, first, count, last_frame, code, topic)


class Quota:
    """How many findings may still be kept, and how many were refused."""

    def __init__(self, left: int) -> None:
        self.left = left
        self.refused = 0

    def take(self) -> bool:
        """Return True if one more may be kept."""
        if self.left <= 0:
            self.refused += 1
            return False
        self.left -= 1
        return True

    def give_back(self) -> None:
        """Make room for one more: a finding was forgotten."""
        self.left += 1


class Findings:
    """The findings of one connection; ``quota`` is shared with other connections."""

    __slots__ = ("_found", "_quota", "profile")

    def __init__(self, quota: Quota | None = None) -> None:
        self.profile = "rfc5044"
        self._quota = quota
        #: By rule, direction and, of limits, which one it is.
        self._found: dict[tuple[str, str | None, str], Finding] = {}

    def judge_by(self, profile: str) -> None:
        """Use the clauses of this profile for all of them."""
        self.profile = profile

    def add(
        self,
        rule_id: str,
        direction: str | None,
        frame: int,
        time_ns: int,
        seq: int,
        detail: str,
        *,
        expected: str = "",
        seen: str = "",
        count: int = 1,
        last_frame: int = 0,
        code: int | None = None,
        topic: str = "",
    ) -> None:
        """Count a breach of ``rule_id`` in ``direction`` at ``frame``, at TCP sequence number ``seq``.

        Args:
            rule_id: The rule.
            direction: Who broke it, None if the capture did.
            frame: The number of the frame.
            time_ns: Its time, in nanoseconds since the epoch.
            seq: The TCP sequence number of the place.
            detail: What is wrong.
            expected: What had to be there, "" if the rule's own words say it.
            seen: What was on the wire, "" if ``detail`` says it.
            count: How many breaches, of one that was counted elsewhere.
            last_frame: The last frame of these.
            code: The error code, where the rule leaves it open.
            topic: What the clause is about, where the rule leaves it open.
        """
        # Each limit that bit is named: one that only adds to the count of another would be passed over in silence.
        key = rule_id, direction, detail.rpartition("(")[2] if rule_id == "limit" else ""
        found = self._found.get(key)
        told = Told(frame, time_ns, seq, detail, expected, seen)
        if found is not None:
            found.count_breach(told, count, last_frame)
        elif self._quota is None or self._quota.take():
            rule = RULES[rule_id]
            self._found[key] = Finding(rule, self.profile, direction, told, count, last_frame, code, topic)

    def merge(self, other: Finding) -> None:
        """Count a finding that was gathered elsewhere."""
        self.add(
            other.rule.id,
            other.direction,
            other.frame,
            other.time_ns,
            other.seq,
            other.detail,
            expected=other._expected,
            seen=other._seen,
            count=other.count,
            last_frame=other.last_frame,
        )

    def has(self, direction: str | None, *rules: str) -> bool:
        """Return True if one of these rules was found broken in a direction."""
        return any((rule, direction, "") in self._found for rule in rules)

    def forget(self, direction: str | None, rules: Set[str]) -> None:
        """Forget what was found of these rules in a direction: what it rests on was misread."""
        for rule in rules:
            if self._found.pop((rule, direction, ""), None) is not None and self._quota is not None:
                self._quota.give_back()

    def hand_over(self) -> list[Finding]:
        """All findings, as :meth:`sorted` has them; they are somebody else's now, and leave room for others."""
        found = self.sorted()
        for _ in found:
            if self._quota is not None:
                self._quota.give_back()
        self._found = {}
        return found

    def sorted(self) -> list[Finding]:
        """All findings, the gravest first, then by frame."""
        if not self._found:
            return []
        for found in self._found.values():
            found.follow(self.profile)
        return sorted(
            self._found.values(),
            key=lambda f: (SEVERITIES.index(f.severity), f.frame, f.rule.id, f.direction or ""),
        )
