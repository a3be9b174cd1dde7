"""Everything that is said about mutated captures, a line each: run compiled and not, it must be the same.

python -m tests.alike FIRST COUNT
"""

from __future__ import annotations

import hashlib
import io
import sys
from collections.abc import Iterator

from scapy_mpa import analyze, iter_fpdus, iter_messages
from scapy_mpa.errors import CaptureError
from scapy_mpa.framing.role import ROLES
from scripts.dev.fuzz_captures import captures_of


def said(octets: bytes) -> Iterator[str]:
    """Yield what the report, with FPDUs and without, and the lists of FPDUs and of messages say about a capture."""
    for fpdus in (False, True):
        report = analyze(io.BytesIO(octets), fpdus=fpdus)
        yield repr(report.as_dict())
        for connection in report.connections if fpdus else ():
            yield from (repr(one.as_dict()) for role in ROLES for one in connection.half(role).fpdus)
    yield from (repr(one.as_dict()) for one in iter_fpdus(io.BytesIO(octets)))
    yield from (repr(one.as_dict()) for one in iter_messages(io.BytesIO(octets)))


def digests(first: int, count: int) -> Iterator[str]:
    """A line for each mutated capture from a number on."""
    for number in range(first, first + count):
        for made in captures_of(1, number):
            digest = hashlib.sha256()
            try:
                for text in said(made.octets):
                    digest.update(text.encode())
            except CaptureError as error:
                digest.update(str(error).encode())
            yield f"{number} {digest.hexdigest()}"


if __name__ == "__main__":
    for line in digests(int(sys.argv[1]), int(sys.argv[2])):
        print(line)
