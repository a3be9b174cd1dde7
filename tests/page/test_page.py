"""The page that ``scapy-mpa report`` writes: what is on it is what analyze says; nothing on it is taken for HTML."""

from __future__ import annotations

import re
import shlex
import subprocess
import sys
from base64 import b64encode
from contextlib import suppress
from hashlib import sha256
from io import BytesIO
from pathlib import Path
from xml.etree import ElementTree

import pytest

from scapy_mpa import CaptureError, MPAError, analyze
from scapy_mpa.craft.conversation import Conversation
from scapy_mpa.craft.traffic import Traffic
from scapy_mpa.messages.lines import ms
from scapy_mpa.messages.reading import CapturedMessages
from scapy_mpa.page import contents, write
from scapy_mpa.page.contents import MOST_DRAWN, broken_rules
from scapy_mpa.page.svg import svg_of
from scapy_mpa.page.write import page_of
from scapy_mpa.plot.answers import answers
from scapy_mpa.plot.kinds import KINDS, draw_subject
from scapy_mpa.plot.look import time_text
from scapy_mpa.plot.view import Stretch, Subject
from scapy_mpa.plot.worst import glimpses
from scapy_mpa.report.buffers import buffers_of
from scapy_mpa.report.ranking import worst_first
from scripts.dev.fuzz_captures import case
from tests.conftest import PCAPS, captures, named
from tests.messages.test_memory import STAG, TO, rping_buffer
from tests.page.making import HURTING, Parsed, hurting, page, run, write_talks
from tests.plot.test_pictures import svg_of as whole_svg_of
from tests.plot.test_pictures import texts

REORDERED = PCAPS / "markers-reordered.pcap"
TERMINATE = PCAPS / "siw-terminate.pcap"
RPING = PCAPS / "siw-crc-rping.pcap"
#: Octets.
SMALL = 2_000_000


# --- what is on it ---


@pytest.mark.parametrize("path", captures(), ids=lambda path: path.stem)
def test_every_capture(path: Path, tmp_path: Path) -> None:
    """Verdicts, findings and connections are those of the analysis; names are unique; the page is small."""
    text = page(path, tmp_path / "x.html")
    assert len(text.encode()) < SMALL
    parsed, report = Parsed(text), analyze(path)
    for connection in report.connections[:MOST_DRAWN]:
        assert f"#{connection.number}" in parsed.text
        assert " ".join(connection.verdict.split()) in parsed.text
        for found in connection.findings:
            assert found.rule.id in parsed.text
            assert " ".join(found.detail.split()) in parsed.text
            assert found.clause is None or found.clause in parsed.text
    assert len(parsed.of("tr")) >= len(report.connections)
    ids = [there["id"] for _, there in parsed.tags if "id" in there]
    assert len(ids) == len(set(ids))
    for _, there in parsed.tags:
        assert "style" not in there
        link = there.get("href", "")
        assert not link or link[1:] in ids, link


def test_findings_lines_and_octets(tmp_path: Path) -> None:
    parsed = Parsed(page(TERMINATE, tmp_path / "x.html"))
    (broken, *_) = [one for one in broken_rules(analyze(TERMINATE)) if one.rule.id == "terminate-layout"]
    assert f"scapy-mpa show {TERMINATE} --frame {broken.first.frame}" in parsed.text
    assert f"scapy-mpa analyze {TERMINATE} --rules terminate-layout" in parsed.text
    assert broken.rule.why in parsed.text
    # The Terminate, with its octets as show has them, and what lies before it.
    assert "Terminate: QN 2, MSN 1, MO 0, last segment" in parsed.text
    shown = run("show", TERMINATE, "--fpdu", "0/r/4").stdout
    rows = re.findall(r"^ +\d+ +\d+  (?:[0-9a-f]{2} ?)+", shown, flags=re.MULTILINE)
    assert len(rows) > 10
    for row in rows:
        assert " ".join(row.split()) in parsed.text
    assert parsed.of("details", id="octets-0-r-4")
    assert parsed.of("details", id="startup-0-i")
    assert "Control Flag A" in parsed.text


def test_lines_can_be_typed(tmp_path: Path) -> None:
    """Whatever was told of the capture is in the lines, which do what they say."""
    told = ("--port", "7471", "--assume", "crc=yes", "--limit", "held_octets=1M")
    (tmp_path / "a name").mkdir()
    path = write_talks(tmp_path / "a name" / "x.pcap", [b"one"])
    parsed = Parsed(page(path, tmp_path / "x.html", *told))
    lines = set(re.findall(r"scapy-mpa (?:show|analyze) .*?'.*?' --\w+ [\w-]+", parsed.text))
    assert len(lines) >= 2
    for line in lines:
        assert " ".join(told) in line
        assert run(*shlex.split(line)[1:]).exception is None
    assert f"Given on the command line: {' '.join(told)}." in parsed.text


def test_pictures_of_a_connection(tmp_path: Path) -> None:
    parsed = Parsed(page(REORDERED, tmp_path / "x.html"))
    assert [there["class"] for there in parsed.of("figure")] == ["lanes", "sequence", "ladder", "held"]
    assert parsed.text.index("where most octets waited") < parsed.text.index("Negotiation")
    (found,) = [one for key, one in buffers_of(analyze(REORDERED)).items() if key == (0, "initiator")]
    assert f"where most octets waited for order: {found.held['order'].peak:,}" in parsed.text
    for held in found.held.values():
        assert f" {held.peak:,} {held.peak_frame} " in parsed.text
    drawn = [there["class"] for there in Parsed(page(RPING, tmp_path / "y.html")).of("figure")]
    assert drawn == ["latency", "lanes", "ladder", "sequence", "reads", "memory"]
    drawn = [there["class"] for there in Parsed(page(TERMINATE, tmp_path / "z.html")).of("figure")]
    assert drawn == ["ladder", "lanes", "sequence"]


def test_tagged_offsets_are_hexadecimal_and_named_memory_says_where(tmp_path: Path) -> None:
    """perftest names the buffer on the first connection, and writes to it on the second."""
    text = Parsed(page(PCAPS / "siw-client-killed.pcap.zst", tmp_path / "x.html")).text
    assert re.search(r"RDMA Write: STag 0xbf0e1400, TO 0x7f9c73e[0-9a-f]+ ", text)
    assert not re.search(r"TO \d{6}", text)
    assert re.search(r"responder 0xbf0e1400 +on #0, frames 33-37 +1,434,804 ", text)


def test_what_happened_beside_the_end(tmp_path: Path) -> None:
    text = Parsed(page(REORDERED, tmp_path / "x.html")).text
    connection, found = analyze(REORDERED).connections[0], buffers_of(analyze(REORDERED))
    counts, held = connection.initiator.counts, found[0, "initiator"].held
    late, again = counts.out_of_order_segments, counts.retransmitted_segments
    assert late > 0 < again and counts.delivered_late > 0
    assert (
        f"Of {counts.segments} segments of the Initiator, {late} came out of order and {again} were sent again; "
        f"{counts.delivered_late} FPDUs were placed early, before octets in front of them came; "
        f"a receiver that waits for full order holds at most {held['order'].peak:,} octets, "
        f"{held['marker'].peak:,} with Markers."
    ) in text
    # FPDUs that span segments are no remark about the order of octets.
    text = Parsed(page(named("siw-nfs4"), tmp_path / "z.html")).text
    usual = (
        "Of the Initiator and of the Responder, some FPDUs span segments: a receiver holds at most 1,444 octets until"
    )
    assert text.count("span segments") == text.count(usual) == 1  # of both at once
    assert "waited for order" not in text
    assert "came out of order" not in text and "None out of order, none sent again, no gap is left." in text
    assert "out of order" not in Parsed(page(PCAPS / "siw-rev0.pcap", tmp_path / "y.html")).text.replace(
        "None out of order", ""
    )


def test_each_rule_is_explained_once_a_connection(tmp_path: Path) -> None:
    path = PCAPS / "markers-draft-origin.pcap"
    parsed, findings = Parsed(page(path, tmp_path / "x.html")), analyze(path).connections[0].findings
    for rule in {found.rule for found in findings}:
        # Among the rules, and with the first finding of the connection.
        assert parsed.text.count(rule.why) == 2
    assert "this does not mean that the upper layer accepted it" in parsed.text


def test_many_connections(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The worst are described in detail, and the page says which; all are in the table, or it says how many."""
    monkeypatch.setattr(contents, "MOST_DRAWN", 3)
    monkeypatch.setattr(contents, "MOST_WHOLE", 2)
    monkeypatch.setattr(write, "MOST_WHOLE", 2)
    monkeypatch.setattr(write, "MOST_LISTED", 5)
    said = [b"x" * (2 + (number % 3 != 0)) for number in range(7)]
    path = write_talks(tmp_path / "many.pcap", said)
    parsed, report = Parsed(page(path, tmp_path / "x.html")), analyze(path)
    worst = [one.number for one in worst_first(report.connections)]
    assert sorted(worst) == list(range(7))
    drawn = [int(there["id"].split("-")[1]) for there in parsed.of("details", **{"class": "connection"})]
    assert drawn == worst[:3]
    assert (
        f"Of 7 connections the worst 3 are described in detail and drawn: {', '.join(map(str, drawn))}." in parsed.text
    )
    assert f"The first 2 of these have all pictures, {worst[0]}, {worst[1]}; the others one." in parsed.text
    assert sum("data-severity" in there for there in parsed.of("tr")) == 5
    assert "The table lists the worst 5 of 7 connections" in parsed.text
    kinds = [there["class"] for there in parsed.of("figure")]
    assert kinds[0] == "overview"
    assert kinds.count("sequence") == kinds.count("ladder") == 2
    assert len(kinds) == 1 + 2 * 3 + 1
    assert "The worst 3 of 7:" in parsed.text
    chosen = Parsed(page(path, tmp_path / "y.html", "--connection", worst[-1]))
    assert chosen.of("details", id=f"connection-{worst[-1]}")
    assert "This page shows only what --connection lets through." in chosen.text


def test_what_there_is_no_room_for_is_told() -> None:
    report = analyze(TERMINATE)
    whole = page_of(report, words=["x"])
    assert "There was no room" not in whole
    some = page_of(report, words=["x"], most_octets=80_000)
    assert len(some.encode()) <= 80_000 < len(whole.encode())
    assert "There was no room" in some
    least = Parsed(page_of(report, words=["x"], most_octets=0))
    assert report.connections[0].verdict in least.text
    assert not least.of("figure")
    assert "scapy-mpa plot x --connection 0 --kind ladder" in least.text
    assert "no room for the octets of all FPDUs" in least.text


def test_what_was_assumed_or_left_out(tmp_path: Path) -> None:
    out = tmp_path / "x.html"
    assert "Nothing was assumed" in Parsed(page(PCAPS / "siw-rev0.pcap", out)).text
    text = Parsed(
        page(PCAPS / "markers-packed.pcap", out, "--read-frames", "20-", "--direction", "initiator", "--rules", "gap")
    ).text
    assert "were inferred from the octets" in text
    assert "This page shows only what --read-frames lets through." in text
    assert "Only what the initiator sent" in text
    assert "rules were checked" in text
    assert "capture-cut, 10 times:" in Parsed(page(PCAPS / "siw-snaplen128.pcap", out)).text
    damaged = tmp_path / "damaged.pcap"
    damaged.write_bytes(TERMINATE.read_bytes()[:-50])
    assert "Damaged: " in Parsed(page(damaged, out)).text


def test_nothing_to_draw(tmp_path: Path) -> None:
    text = Parsed(page(PCAPS / "siw-no-listener.pcap", tmp_path / "x.html")).text
    assert "No MPA connection was found." in text
    assert "tcp-refused" in text


def test_a_page_is_the_same_each_time(tmp_path: Path) -> None:
    assert page(TERMINATE, tmp_path / "x.html") == page(TERMINATE, tmp_path / "y.html")


# --- nothing is taken for HTML ---


def test_what_others_wrote_is_text(tmp_path: Path) -> None:
    path = hurting(tmp_path)
    text = page(path, tmp_path / "x.html")
    parsed = Parsed(text)
    assert [name for name, _ in parsed.tags if name in ("script", "style")] == ["style", "script"]
    assert not parsed.of("img")
    assert not parsed.of("b")
    assert not [there for _, there in parsed.tags if any(name.startswith("on") for name in there)]
    for said in HURTING:
        # Sixteen octets a row.
        assert said[:10].decode() in parsed.text
    assert parsed.text.count(str(path).replace("'", "")[:40]) >= 2


def test_the_policy_allows_what_is_there_and_nothing_else(tmp_path: Path) -> None:
    text = page(TERMINATE, tmp_path / "x.html")
    (policy,) = [there["content"] for there in Parsed(text).of("meta") if "http-equiv" in there]
    allowed = dict(part.strip().split(" ", 1) for part in policy.split(";"))
    assert allowed["default-src"] == "'none'"
    for tag in ("style", "script"):
        (inside,) = re.findall(rf"<{tag}>(.*?)</{tag}>", text, flags=re.DOTALL)
        digest = b64encode(sha256(inside.encode()).digest()).decode()
        assert allowed[f"{tag}-src"] == f"'sha256-{digest}'"
    assert "unsafe" not in policy
    assert not re.findall(r"""(?:src|href)=["'](?!#)""", text)
    assert "url(" not in text.partition("</style>")[0]


def test_control_characters_and_half_characters_are_told(tmp_path: Path) -> None:
    path = tmp_path / "x\x1b[31m\u202e\udcff.pcap"
    path.write_bytes(TERMINATE.read_bytes())
    text = page(path, tmp_path / "x.html")
    assert "\x1b" not in text
    assert "\u202e" not in text
    assert r"x\x1b[31m\u202e\xff.pcap" in text


# --- pictures ---


@pytest.mark.parametrize("kind", KINDS)
def test_pictures_become_smaller_and_say_the_same(kind: str) -> None:
    # The one has no Reads, the other nothing that is held.
    path, stretch = (RPING, Stretch()) if kind in ("reads", "latency", "memory") else (REORDERED, Stretch((30, 90)))
    subject = Subject(analyze(path).connections[0], ("initiator", "responder"))
    figure = draw_subject(subject, kind, stretch)
    whole = whole_svg_of(figure)
    small = svg_of(draw_subject(subject, kind, stretch), "p1-", "words")
    assert len(small) < 0.8 * len(whole)
    root = ElementTree.fromstring(small)
    before = ElementTree.fromstring(whole)
    said = ["".join("".join(node.itertext()).split()) for node in root.iter("text")]
    assert said == ["".join(text.split()) for text in texts(whole)]
    for name in ("path", "use", "text", "clipPath"):
        # The page is the background, of the picture and of its axes.
        left_out = 1 + sum(ax.axison for ax in figure.axes) if name == "path" else 0
        assert len([*root.iter(name)]) == len([*before.iter(f"{{http://www.w3.org/2000/svg}}{name}")]) - left_out
    ids = [node.attrib["id"] for node in root.iter() if "id" in node.attrib]
    assert all(name.startswith("p1-") for name in ids)
    used = re.findall(r"#(p1-[^\")]+)", small)
    assert set(used) == set(ids)
    assert " style=" not in small


def test_what_is_worth_a_look() -> None:
    def looks(path: Path) -> list[tuple[Stretch, str]]:
        subject = Subject(analyze(path).connections[0], ("initiator", "responder"))
        return [(one.window, one.why) for one in glimpses(subject)]

    assert looks(TERMINATE) == [(Stretch(), "all of it")]
    ((window, why),) = looks(REORDERED)
    assert why == "where most octets waited for order: 20,088 at frame 49"
    assert window.frames is not None
    first, last = window.frames
    assert first < 49 < (last or 0)
    (window, why) = looks(PCAPS / "markers-draft-origin.pcap")[0]
    assert why.startswith("around warning fpduptr-origin, frame ")
    assert window.has(int(why.split()[-1]), 0)


# --- the command ---


def test_status_and_what_is_told(tmp_path: Path) -> None:
    out = tmp_path / "x.html"
    done = run("report", PCAPS / "faulty-pad.pcap", "-o", out)
    assert done.return_value == 1
    assert done.output.startswith(f"{out}: 41 packets, 2 TCP connections, 1 MPA connection")
    assert run("report", PCAPS / "siw-rev0.pcap", "-o", "-", "--fail-on", "note").return_value == 1
    assert run("report", PCAPS / "siw-rev0.pcap", "-o", "-").output.startswith("<!DOCTYPE html>")
    octets = REORDERED.read_bytes()
    assert "would be overwritten" in str(run("report", REORDERED, "-o", REORDERED).exception)
    assert REORDERED.read_bytes() == octets


def test_a_pipe_is_refused(tmp_path: Path) -> None:
    out = tmp_path / "x.html"
    command = f"cat {shlex.quote(str(TERMINATE))} | {sys.executable} -m scapy_mpa report - -o {shlex.quote(str(out))}"
    done = subprocess.run(["bash", "-c", command], capture_output=True, text=True, check=False)
    assert done.returncode == 2
    assert done.stderr == "scapy-mpa: -: a pipe cannot be read again; report needs a file\n"
    assert not out.exists()


def test_several_captures(tmp_path: Path) -> None:
    done = run("report", TERMINATE, RPING, "-o", tmp_path / "x.html", "--jobs", 2)
    assert done.exception is None
    parsed = Parsed((tmp_path / "x.html").read_text())
    assert f"scapy-mpa show {TERMINATE} {RPING} --frame" in parsed.text
    assert len(parsed.of("details", **{"class": "connection"})) == 2


def test_without_jinja(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setitem(sys.modules, "jinja2", None)
    with pytest.raises(MPAError, match=r"pip install 'scapy-mpa\[report\]'"):
        page_of(analyze(TERMINATE), words=["x"])
    assert "scapy-mpa[report]" in str(run("report", TERMINATE, "-o", tmp_path / "x.html").exception)


@pytest.mark.parametrize("number", range(60))
def test_pages_of_mutated_captures(number: int) -> None:
    """Whatever a capture holds, it has a page, the names on which are unique and led to."""
    with suppress(CaptureError):
        parsed = Parsed(page_of(analyze(BytesIO(case(7, number).made().octets)), words=["x"]))
        ids = [there["id"] for _, there in parsed.tags if "id" in there]
        assert len(ids) == len(set(ids))
        assert {there["href"][1:] for _, there in parsed.tags if there.get("href")} <= {*ids}


# --- what is worst, and what is slowest ---


def test_unfinished_goes_before_errors_and_errors_before_warnings() -> None:
    report = analyze(PCAPS / "siw-client-killed.pcap.zst")
    assert [one.number for one in worst_first(report.connections)] == [1, 0]
    killed, plain = report.connections[1], report.connections[0]
    assert killed.lifecycle.is_unfinished
    assert not plain.lifecycle.is_unfinished
    (faulty,) = analyze(PCAPS / "faulty-pad.pcap").connections
    assert any(found.severity == "error" for found in faulty.findings)
    assert worst_first([plain, faulty, killed]) == [killed, faulty, plain]


def test_a_reset_connection_comes_first_and_says_so(tmp_path: Path) -> None:
    parsed = Parsed(page(PCAPS / "siw-client-killed.pcap.zst", tmp_path / "x.html"))
    first = parsed.text.partition("2 connections, ended")[2]
    assert first.index("unfinished warning #1") < first.index("117,136 octets") < first.index("#0 10.9.0.2:42187")
    assert first.startswith(": 1 reset after a FIN (before everything was acknowledged), 1 by FIN.")
    ended = [
        parsed.text.partition("Upper layer FPDUs")[2].count(words) for words in (" reset after a FIN ", " by FIN ")
    ]
    assert ended == [1, 1]
    assert parsed.of("details", **{"class": "connection"})[0]["id"] == "connection-1"


def test_the_slowest_answers_are_listed(tmp_path: Path) -> None:
    path = PCAPS / "siw-nvme.pcap.zst"
    text = Parsed(page(path, tmp_path / "x.html")).text
    with CapturedMessages(path) as messages:
        found = sorted(answers(messages), key=lambda one: -one.latency)
        asked = {(row.connection, row.first_frame): row.text for row in messages}
    assert f"The slowest 10 of {len(found)} answers" in text
    listed = text.partition("What the upper layer says")[2].partition("How long answers took")[0]
    for one in found[:10]:
        said = asked[one.connection, one.frame] if one.what == "call" else ""
        row = (
            f"{time_text(one.latency / 1e9)} {one.connection} {one.side} {one.what} {one.frame} to {one.answer_frame} "
            f"{one.octets:,} {said}"
        )
        assert row.strip() in listed
    calls = [one.latency for one in found if (one.connection, one.what) == (0, "call")]
    assert f"0 initiator call {len(calls)} {time_text(min(calls) / 1e9)}" in text


def test_where_nothing_is_answered_the_longest_message_is_named(tmp_path: Path) -> None:
    path = PCAPS / "siw-client-killed.pcap.zst"
    with CapturedMessages(path) as messages:
        longest = max(messages, key=lambda row: row.duration_ns)
    said = Parsed(page(path, tmp_path / "x.html")).text
    assert (
        f"RDMA Writes and Sends have no answers, so no latency; the longest message took {ms(longest.duration_ns)} "
        f"(#1, frames {longest.first_frame}-{longest.last_frame})."
    ) in said
    assert "so no latency" not in Parsed(page(PCAPS / "siw-nvme.pcap.zst", tmp_path / "y.html")).text


def test_what_was_not_acknowledged_is_no_gap_of_the_capture(tmp_path: Path) -> None:
    parsed = Parsed(page(PCAPS / "siw-client-killed.pcap.zst", tmp_path / "x.html"))
    table = parsed.text.partition("Placed early ")[2].partition("In detail")[0]
    assert " reset after a FIN 117,136 0 0 10.9.0.2:38347 " in table
    assert " by FIN 0 0 10.9.0.2:42187 " in table


def test_times_of_the_negotiation_count_from_the_first_frame(tmp_path: Path) -> None:
    connection = analyze(PCAPS / "siw-client-killed.pcap.zst").connections[1]
    text = Parsed(page(PCAPS / "siw-client-killed.pcap.zst", tmp_path / "x.html")).text
    event = connection.startup_events[0]
    seconds = (event.time - connection.lifecycle.first[1]) / 1e9
    assert f"Sent {seconds:.6f} {event.frame} {event.side.capitalize()} {event.what} " in text


def test_too_many_fpdus_for_latencies(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(contents, "_MOST_READ", 10)
    parsed = Parsed(page(PCAPS / "siw-nvme.pcap.zst", tmp_path / "x.html"))
    assert "ladders and RDMA Reads are not drawn: there are more than 10 FPDUs" in parsed.text
    assert {there["class"] for there in parsed.of("figure")} == {"overview", "lanes", "sequence", "held"}


# --- memory ---


def test_memory_that_was_named_is_listed_and_drawn(tmp_path: Path) -> None:
    talk = Conversation(ports=(None, 7174)).send("initiator", rping_buffer())
    talk.write("responder", 64, stag=STAG, to=TO).write("responder", 64, stag=STAG, to=TO + 64)
    path = tmp_path / "beyond.pcap"
    with path.open("wb") as file:
        Traffic([talk]).write(file)
    parsed = Parsed(page(path, tmp_path / "x.html"))
    assert len(parsed.of("table", **{"class": "memory"})) == 1
    assert f"initiator {STAG:#010x} rping read or write 6 {TO:#x} 64 128 0 memory-bounds" in parsed.text
    assert len(parsed.of("figure", **{"class": "memory"})) == 1
    assert "responder: memory-bounds at frame 8" in parsed.text


def test_where_no_memory_was_named_none_is_listed(tmp_path: Path) -> None:
    parsed = Parsed(page(REORDERED, tmp_path / "x.html"))
    assert not parsed.of("table", **{"class": "memory"})
    assert not parsed.of("figure", **{"class": "memory"})


def test_more_stags_than_the_page_lists(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(write, "MOST_STAGS", 3)
    parsed = Parsed(page(PCAPS / "siw-nfs4.pcap.zst", tmp_path / "x.html"))
    assert "STags 3 are listed: scapy-mpa memory" in parsed.text
    assert "Octets : the payload of the answer; of a call also that of the RDMA Writes and Reads" in parsed.text


def test_the_page_says_why_a_finding_of_memory_is_none_of_the_analysis(tmp_path: Path) -> None:
    """perftest named the buffer of #1 on #0, and may reuse it: 21 overlaps are in the table of memory alone."""
    capture = PCAPS / "siw-client-killed.pcap.zst"
    parsed = Parsed(page(capture, tmp_path / "x.html"))
    assert "placement-overlap (21) Findings of this table are those of memory" in parsed.text
    assert "placement-overlap" not in {found.rule.id for found in analyze(capture).all_findings()}


def test_no_fpdu_after_a_rst_is_placed(tmp_path: Path) -> None:
    """Of the FPDUs around the RST of frame 1433, frame 1434 brought one: the table does not say that it was placed."""
    parsed = Parsed(page(PCAPS / "siw-client-killed.pcap.zst", tmp_path / "x.html"))
    gone = "never: after the RST of frame 1433 never"
    rows = {frame: f"1/initiator/{number} {frame} " for number, frame in ((927, 1432), (928, 1434))}
    assert f"{rows[1432]}1432 1432" in parsed.text and f"{rows[1434]}{gone}" in parsed.text
