"""Names are printed without harm, on one line, and JSON takes them."""

from __future__ import annotations

import json
import os
import unicodedata
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scapy_mpa.system.names import encodable, printable

NAMES = {
    b"plain.pcap": ("plain.pcap", "plain.pcap"),
    "Übung 1 – é.pcap".encode(): ("Übung 1 – é.pcap", "Übung 1 – é.pcap"),
    b"a\nb\tc": ("a\\x0ab\\x09c", "a\nb\tc"),
    b"\x1b[31mred\x7f": ("\\x1b[31mred\\x7f", "\x1b[31mred\x7f"),
    b"\xff\xfe.pcap": ("\\xff\\xfe.pcap", "\\xff\\xfe.pcap"),
    "\x9b2J".encode(): ("\\x9b2J", "\x9b2J"),
    "a\u202egnp.exe\u2028": ("a\\u202egnp.exe\\u2028", "a\u202egnp.exe\u2028"),
    "half \ud83d": ("half \\ud83d", "half \\ud83d"),
    "a\\b": ("a\\b", "a\\b"),
}


@pytest.mark.parametrize("name", NAMES)
def test_names(name: str | bytes) -> None:
    text = os.fsdecode(name) if isinstance(name, bytes) else name
    assert (printable(text), encodable(text)) == NAMES[name]
    assert (printable(Path(text)), encodable(Path(text))) == NAMES[name]


@given(st.binary())
def test_whatever_a_file_is_called(octets: bytes) -> None:
    name = os.fsdecode(octets)
    shown = printable(name)
    assert not any(unicodedata.category(letter) in ("Cc", "Cs", "Zl", "Zp") for letter in shown)
    assert len(shown.splitlines()) <= 1
    for text in (shown, encodable(name)):
        text.encode()
        assert json.loads(json.dumps(text)) == text
    if octets.isascii() and shown == name:
        assert os.fsencode(encodable(name)) == octets
