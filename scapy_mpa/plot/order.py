"""What a capture shows about the order of octets, and the broken rules, in words: above pictures, on the page."""

from __future__ import annotations

from scapy_mpa.framing.role import ROLES, Role
from scapy_mpa.report.connection import Connection
from scapy_mpa.values.words import plural

#: Rules that a sentence names.
_MOST_RULES = 4


def order_words(connection: Connection, direction: Role) -> list[str]:
    """Return what was out of order, repeated, placed early and never captured; none if all came in order."""
    counts, parts = connection.half(direction).counts, []
    late, again = counts.out_of_order_segments, counts.retransmitted_segments
    odd = [f"{late:,} came out of order"] if late else []
    odd += [f"{again:,} {'was' if again == 1 else 'were'} sent again"] if again else []
    if odd:
        of = plural(counts.segments, "segment", thousands=True)
        parts.append(f"of {of} of the {direction.capitalize()}, {' and '.join(odd)}")
    if counts.delivered_late:
        was, them = ("FPDU was", "it") if counts.delivered_late == 1 else ("FPDUs were", "them")
        parts.append(f"{counts.delivered_late:,} {was} placed early, before octets in front of {them} came")
    if counts.missing_octets:
        was = "was" if counts.missing_octets == 1 else "were"
        parts.append(f"{plural(counts.missing_octets, 'octet', thousands=True)} {was} never captured")
    return parts


def order_sentences(connection: Connection) -> list[str]:
    """The same of both sides, a sentence each."""
    return [
        sentence(connection, direction, parts) for direction in ROLES if (parts := order_words(connection, direction))
    ]


def sentence(connection: Connection, direction: Role, parts: list[str]) -> str:
    """The sentence that such words, and others about one side, make."""
    counts = connection.half(direction).counts
    names_it = counts.out_of_order_segments + counts.retransmitted_segments
    said = ("" if names_it else f"of the {direction.capitalize()}, ") + "; ".join(parts)
    return said[0].upper() + said[1:] + "."


def findings_sentence(connection: Connection) -> str:
    """The errors and warnings of a connection, those first that matter most; "" if there is none."""
    said = []
    for severity in ("error", "warning"):
        rules: dict[str, str] = {}
        for found in connection.findings:
            if found.severity == severity:
                rules.setdefault(found.rule.id, f"{found.rule.id} (frame {found.frame})")
        if rules:
            more = f" and {len(rules) - _MOST_RULES} more" if len(rules) > _MOST_RULES else ""
            name = severity.capitalize() + ("s" if len(rules) > 1 else "")
            said.append(f"{name}: {', '.join([*rules.values()][:_MOST_RULES])}{more}.")
    return " ".join(said)


def is_out_of_order(connection: Connection) -> bool:
    """Return True if any octets came out of order, again, or never."""
    return any(order_words(connection, direction) for direction in ROLES)
