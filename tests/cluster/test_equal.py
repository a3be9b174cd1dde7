"""Captures read apart, and connections received apart, give what one process finds."""

from __future__ import annotations

import json
import random
import shutil
import struct
from collections.abc import Sequence
from functools import partial
from itertools import pairwise
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest

from scapy_mpa.capture.joining import Joining, sources_of
from scapy_mpa.capture.named import Sources
from scapy_mpa.cluster import messages as cluster_messages
from scapy_mpa.cluster import partition, reading, run
from scapy_mpa.cluster.reading import ReadingTask, joined, units_of
from scapy_mpa.errors import CaptureError, MPAError
from scapy_mpa.framing.role import ROLES
from scapy_mpa.messages.found import FoundMessages
from scapy_mpa.messages.reading import CapturedMessages
from scapy_mpa.messages.row import MessageRow
from scapy_mpa.messages.summary import summaries
from scapy_mpa.rdmap.assembly import DEFAULT_HELD
from scapy_mpa.reading.analysis import analyze
from scapy_mpa.reading.query import EVERYTHING, Query, Selection
from scapy_mpa.report.fpdus import STYLES, log_lines
from scapy_mpa.report.model import Report
from scapy_mpa.values.limits import DEFAULT_LIMITS
from scripts.dev.benchmark import write_capture
from tests.capture.convert import FORMATS, Recorded, recorded
from tests.capture.frames import capture, ethernet
from tests.capture.test_joining import PCAP, rotation
from tests.capture.tunnels import in_fragments, outer4
from tests.cluster.here import Here, use
from tests.conftest import PCAPS, captures

REORDERED, THREE = PCAPS / "markers-reordered.pcap", PCAPS / "siw-three-in-a-row.pcap"
SECOND = 1_000_000_000


def everything(report: Report) -> tuple[str, str]:
    """All that is printed of a report."""
    halves = [half.fpdus for one in report.connections for half in (one.initiator, one.responder)]
    return json.dumps(report.as_dict()), "".join(log_lines(STYLES["jsonl"], halves))


def one(sources: Sources | Path, selection: Selection = EVERYTHING) -> tuple[str, str]:
    """Return what one process says, or why it refuses."""
    try:
        report = analyze(sources, selection=selection)
        return everything(report)[0] + "\n".join(report.damage), everything(report)[1]
    except CaptureError as refused:
        return "refused", str(refused)


def many(sources: Sources, selection: Selection = EVERYTHING) -> tuple[str, str]:
    """Return what the cluster says, or why it refuses."""
    try:
        report = run.analyze_on_cluster(Query(sources, selection), run.Cluster(), fpdus=True)
        return everything(report)[0] + "\n".join(report.damage), everything(report)[1]
    except CaptureError as refused:
        return "refused", str(refused)


def messages(found: FoundMessages) -> tuple[list[MessageRow], list[dict[str, Any]], list[str]]:
    """All that ``messages`` has of what was found: rows with their octets, and their sums."""
    with found:
        rows = [*found]
        return rows, [summary.as_dict() for summary in summaries(rows, found.shown)], found.report.damage


def messages_of_many(sources: Sources, **chosen: Any) -> FoundMessages:
    """Those that the cluster finds."""
    query = Query(sources, chosen.pop("selection", EVERYTHING))
    given: dict[str, Any] = {"directions": ROLES, "protocols": (), "held": DEFAULT_HELD, **chosen}
    return run.messages_on_cluster(query, run.Cluster(), payload=True, **given)


def units(here: Here) -> list[list[str]]:
    """The names of the files that were read together."""
    return [[Path(name).name for name in task.names] for task in here.tasks if isinstance(task, ReadingTask)]


@pytest.mark.parametrize("path", captures(), ids=lambda path: path.name)
def test_every_capture_and_cut_into_files(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, path: Path) -> None:
    use(monkeypatch, 2)
    assert many(sources_of(path)) == one(path)
    if path.suffix == ".pcap":
        rotation(tmp_path / path.stem, recorded(path), 4)
        sources = sources_of(tmp_path / path.stem)
        assert many(sources) == one(sources)


@pytest.mark.parametrize("workers", [1, 2, 7])
def test_many_connections_that_cross_files(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, workers: int) -> None:
    # A chunk for a few blocks: several in one file.
    monkeypatch.setattr(partition, "_BLOCKS", 3)
    path = tmp_path / "whole.pcap"
    write_capture("thousand", path, 3_000_000, seed=3)
    rotation(tmp_path / "day", recorded(path), 5)
    here = use(monkeypatch, workers)
    sources = sources_of([tmp_path / "day"])
    for selection in (EVERYTHING, Selection(ports=(40003, 40004)), Selection(hosts=(bytes((10, 0, 0, 1)),))):
        assert many(sources, selection) == one(sources, selection)
    assert units(here)[:5] == [["cut.pcap"], *([f"cut.pcap{n}"] for n in range(1, 5))]


@pytest.mark.parametrize("path", captures(), ids=lambda path: path.name)
def test_messages_of_every_capture_and_cut_into_files(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, path: Path
) -> None:
    use(monkeypatch, 2)
    assert messages(messages_of_many(sources_of(path))) == messages(CapturedMessages(path, payload=True))
    if path.suffix == ".pcap":
        rotation(tmp_path / path.stem, recorded(path), 4)
        sources = sources_of(tmp_path / path.stem)
        assert messages(messages_of_many(sources)) == messages(CapturedMessages(sources, payload=True))


def test_the_captures_have_messages_of_each_kind() -> None:
    """Messages that were never delivered, that were answered, and behind an error."""
    rows: list[MessageRow] = []
    for path in captures():
        with CapturedMessages(path) as found:
            rows += found
    assert any(row.delivered_frame is None for row in rows)
    assert any(row.answer is not None for row in rows)
    assert any(row.after_error for row in rows)


def test_messages_of_many_connections(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Little is read at a time; some are chosen; messages never delivered, of several connections."""
    monkeypatch.setattr(cluster_messages, "_ROWS", 7)
    use(monkeypatch, 3)
    path = tmp_path / "whole.pcap"
    write_capture("thousand", path, 2_000_000, seed=3)
    of = recorded(path)
    rng = random.Random(5)
    lossy = Recorded(of.link_type, [one for one in of.records if rng.random() > 0.01])
    rotation(tmp_path / "day", lossy, 5)
    sources = sources_of([tmp_path / "day"])
    alone = messages(CapturedMessages(sources, payload=True))
    assert len({row.connection for row in alone[0] if row.delivered_frame is None}) > 3
    assert messages(messages_of_many(sources)) == alone
    chosen: dict[str, Any] = {"directions": ("responder",), "selection": Selection(ports=(40003, 40004))}
    query = Query(sources, chosen["selection"])
    some = messages(CapturedMessages(query, payload=True, directions=chosen["directions"]))
    assert some[0]
    assert messages(messages_of_many(sources, **chosen)) == some
    none = messages_of_many(sources, protocols=("rping",))
    assert [*none] == [] and none.shown == []
    none.close()


def test_the_folder_is_there_until_the_messages_are_closed(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    use(monkeypatch, 2)
    monkeypatch.setattr(run, "TemporaryDirectory", partial(TemporaryDirectory, dir=tmp_path))
    found = messages_of_many(sources_of(THREE))
    assert [*found] == [*found] != []
    assert [*tmp_path.iterdir()]
    found.close()
    assert not [*tmp_path.iterdir()]
    with pytest.raises(MPAError, match="the shared folder cannot be used"):
        list(found)


@pytest.mark.parametrize("joining", ["auto", "follow", "merge"])
def test_taps_and_rotations_that_overlap(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, joining: Joining) -> None:
    use(monkeypatch, 2)
    of = recorded(REORDERED)
    hands = [Recorded(of.link_type, of.records[n::2]) for n in range(2)]
    for name, hand in zip("ab", hands, strict=True):
        rotation(tmp_path / "taps" / name, hand, 5)
    cut = len(of.records) // 2
    for name, records in (("0", of.records[:cut]), ("1", of.records[cut - 60 :]), ("2", [])):
        path = tmp_path / "little" / f"x.pcap{name}"
        path.parent.mkdir(exist_ok=True)
        path.write_bytes(FORMATS[PCAP](Recorded(of.link_type, records)))
    little: list[Path] = [tmp_path / "little" / f"x.pcap{n}" for n in (0, 1, 2)]
    for given in (tmp_path / "taps", tmp_path / "little", little[:2], [little[2], little[0], little[1]]):
        sources = sources_of(given, joining)
        assert many(sources) == one(sources)


def test_taps_that_hold_the_same_packets_are_counted_together(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Two pairs of captures, an hour apart: their packets are in one note, so one task counts them."""
    here = use(monkeypatch, 2)
    of = recorded(THREE)
    for hour in (0, 1):
        records = [(time + hour * 3600 * SECOND, frame, wire) for time, frame, wire in of.records]
        for tap in "ab":
            (tmp_path / f"{tap}.pcap{hour}").write_bytes(FORMATS[PCAP](Recorded(of.link_type, records)))
    sources = sources_of(tmp_path)
    assert many(sources) == one(sources)
    assert sorted(map(len, units(here))) == [2, 2, 4]


def test_packets_that_are_not_read_are_counted_together(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Of three captures the first one and the last one have packets in what is not read."""
    use(monkeypatch, 2)
    gtp, l2tp = (outer4(17, struct.pack("!HHHH", 50000, 2152, 20, 0) + bytes(12)), outer4(115, bytes(20)))
    for hour, frames in enumerate(([gtp, ethernet(), l2tp], [ethernet()], [l2tp, l2tp, ethernet()])):
        records = [(hour * 3600 * SECOND + at, frame) for at, frame in enumerate(frames, 1)]
        (tmp_path / f"{hour}.pcap").write_bytes(capture(records, unit=1))
    sources = sources_of(tmp_path)
    alone = analyze(sources)
    assert many(sources) == one(sources)
    (found,) = (found for found in alone.findings if found.rule.id == "not-read")
    assert (found.frame, found.last_frame) == (1, 6) and found.detail.startswith("4 of 7 packets"), found.detail
    assert found.detail in alone.damage


@pytest.mark.parametrize(("lost", "most"), [(False, 2), (True, 2)])
def test_datagrams_whose_fragments_are_in_two_files(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, lost: bool, most: int
) -> None:
    here = use(monkeypatch, 2)
    of = recorded(REORDERED)
    made = []
    for ident, (time, frame, _) in enumerate(of.records[:400]):
        for piece in in_fragments(frame, 512, ident):
            made.append((time, piece, len(piece)))
    if lost:
        del made[100::97]
    # One border in the middle of a datagram, the others between two.
    borders = [0, 101, 240, 380, len(made)]
    for n, (first, end) in enumerate(pairwise(borders)):
        (tmp_path / f"cut.pcap{n}").write_bytes(FORMATS[PCAP](Recorded(of.link_type, made[first:end])))
    sources = sources_of(tmp_path)
    assert many(sources) == one(sources)
    assert json.loads(many(sources)[0])["connections"]
    assert max(map(len, units(here))) >= most


def test_so_many_fragments_that_nobody_counts_them(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(reading, "_MOST_FRAGMENTED", 3)
    test_datagrams_whose_fragments_are_in_two_files(monkeypatch, tmp_path, False, 3)


def test_files_that_cannot_be_read(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    use(monkeypatch, 2)
    good, bad = tmp_path / "good.pcap", tmp_path / "damaged.pcap"
    shutil.copy(REORDERED, good)
    bad.write_bytes(capture([(SECOND, ethernet(b"p"))])[:-3])
    half = tmp_path / "half.pcap"
    half.write_bytes(THREE.read_bytes()[:-100])
    (tmp_path / "text.pcap").write_text("no capture")
    given: Sequence[str | Path | list[Path]]
    given = [tmp_path, [good, bad], [bad], [half], [half, good], tmp_path / "text.pcap", tmp_path / "none.pcap"]
    for names in given:
        try:
            sources = sources_of(names)
        except CaptureError:
            continue
        assert many(sources) == one(sources), names
    # In a folder of which nothing can be read.
    alone = tmp_path / "alone"
    alone.mkdir()
    shutil.copy(bad, alone / "a.pcap")
    sources = sources_of(alone)
    assert many(sources) == one(sources)
    assert one(sources)[0] == "refused"


def test_what_waits_out_of_order_is_held_over_files(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    use(monkeypatch, 3)
    of = recorded(REORDERED)
    rng = random.Random(5)
    records = of.records[:1500]
    times = [time for time, _, _ in records]
    places = sorted(range(len(records)), key=lambda n: n + rng.random() * 12)
    shuffled = [(time, *records[place][1:]) for time, place in zip(times, places, strict=True)]
    rotation(tmp_path / "day", Recorded(of.link_type, shuffled), 12)
    sources = sources_of(tmp_path / "day")
    assert many(sources) == one(sources)


@pytest.mark.parametrize(
    ("together", "found"),
    [
        ([], [[0], [1], [2], [3], [4]]),
        ([(1, 2)], [[0], [1, 2], [3], [4]]),
        ([(0, 2), (2, 3)], [[0, 1, 2, 3], [4]]),
        ([(1, 4), (2, 3)], [[0], [1, 2, 3, 4]]),
    ],
)
def test_units_are_joined(together: list[tuple[int, int]], found: list[list[int]]) -> None:
    assert joined([[n] for n in range(5)], together) == found


@pytest.mark.parametrize(
    ("spans", "found"),
    [
        ([(0, 10), (10, 20), (21, 30)], [[0], [1], [2]]),
        ([(0, 10), (9.9995, 20), (19, 30)], [[0], [1, 2]]),
        ([(0, 50), (60, 70), (49, 65)], [[0, 1, 2]]),
    ],
)
def test_files_that_overlap_are_one_unit(spans: list[tuple[float, float]], found: list[list[int]]) -> None:
    begins, ends = ([int(span[which] * SECOND) for span in spans] for which in (0, 1))
    sources = Sources(map(str, range(3)), [[0], [1], [2]], begins, ends)
    assert units_of(sources, DEFAULT_LIMITS) == found
