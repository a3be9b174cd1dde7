"""Pictures do not lie: what is drawn is compared with the data, octet by octet, both axes; colours mean one thing."""

from __future__ import annotations

import re
from collections import Counter
from contextlib import suppress
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner
from hypothesis import given
from hypothesis import strategies as st
from matplotlib.collections import PolyCollection
from matplotlib.colors import to_hex
from matplotlib.figure import Figure
from matplotlib.patches import StepPatch
from matplotlib.text import Annotation, Text

from scapy_mpa import MPAError, analyze
from scapy_mpa.cli import cli
from scapy_mpa.craft.bulk import BulkConnection, BulkPlan
from scapy_mpa.craft.pcapfile import PcapWriter
from scapy_mpa.messages.lines import ms
from scapy_mpa.messages.reading import CapturedMessages
from scapy_mpa.plot import ladder, overview
from scapy_mpa.plot.answers import answers
from scapy_mpa.plot.kinds import draw_subject
from scapy_mpa.plot.lanes import _EARLY, _FPDUS, _MESSAGES, _SEGMENTS
from scapy_mpa.plot.look import GREEN, ORANGE, VERMILION, NothingToDraw, time_text
from scapy_mpa.plot.overview import draw_overview
from scapy_mpa.plot.thin import COLUMNS, grid
from scapy_mpa.plot.timeline import Timeline
from scapy_mpa.plot.view import DrawnSegments, OctetParts, Stretch, Subject, _parts
from scapy_mpa.report.connection import Connection
from tests.conftest import PCAPS, named

REORDERED = PCAPS / "markers-reordered.pcap"
TERMINATE = PCAPS / "siw-terminate.pcap"
RPING = PCAPS / "siw-crc-rping.pcap"
KILLED = PCAPS / "siw-client-killed.pcap.zst"
#: With more FPDUs than are drawn one by one.
DENSE = (
    "markers-reordered", "markers-lossy", "siw-client-killed", "siw-nfs4", "siw-nvme", "siw-netem-send", "crc-only",
)  # fmt: skip


def largest(name: str) -> Connection:
    return max(analyze(named(name)).connections, key=lambda one: one.fpdu_count)


def words_of(figure: Figure) -> list[str]:
    """All texts of a picture, those of its axes first."""
    found = [text.get_text() for ax in figure.axes for text in ax.texts]
    return [*found, *(text.get_text() for text in figure.texts)]


def legend(figure: Figure) -> dict[str, str]:
    """The colour of each line of the legend."""
    (one,) = figure.legends
    found = {}
    for text, handle in zip(one.texts, one.legend_handles, strict=True):
        colour: Any = handle.get_facecolor() if hasattr(handle, "get_facecolor") else handle.get_color()  # type: ignore[union-attr]
        found[text.get_text()] = to_hex(colour)
    return found


def heights(ax: Any, lane: tuple[float, float]) -> Any:
    """Return how much of each column of a lane is drawn, all colours together; None if it is not aggregated."""
    low, height = lane
    total = None
    for patch in ax.patches:
        if isinstance(patch, StepPatch):
            values, _, baseline = patch.get_data()
            if low - 1e-9 <= np.min(baseline) and np.max(values) <= low + height + 1e-9:
                part = (values - baseline) / height
                total = part if total is None else total + part
    return total


def bars_in(ax: Any, lane: tuple[float, float]) -> list[tuple[float, float]]:
    """From where to where each bar of a lane goes that is drawn by itself."""
    low, height = lane
    found = []
    for collection in ax.collections:
        if isinstance(collection, PolyCollection):
            for path in collection.get_paths():
                box = path.get_extents()
                if low - 1e-9 <= box.y0 and box.y1 <= low + height + 1e-9:
                    found.append((float(box.x0), float(box.x1)))
    return sorted(found)


def colour_of(collection: Any) -> str:
    return to_hex(collection.get_facecolor()[0])


def united(spans: list[tuple[float, float]]) -> float:
    """Octets that some stretches cover, each once."""
    covered, end = 0.0, float("-inf")
    for first, last in sorted(spans):
        covered += max(0.0, last - max(first, end))
        end = max(end, last)
    return covered


# --- every octet once ---


@pytest.mark.parametrize("name", DENSE)
def test_every_octet_is_drawn_once_along_the_stream(name: str) -> None:
    connection = largest(name)
    subject = Subject(connection, ("initiator", "responder"))
    views = subject.views(Stretch())
    figure = connection.plot("lanes", axis="octets")
    for ax, view in zip(figure.axes, views, strict=True):
        new = view.segments.is_new
        octets = united([*zip(view.segments.start[new].clip(0).tolist(), view.segments.end[new].tolist(), strict=True)])
        drawn = heights(ax, _SEGMENTS)
        if drawn is None:
            spans = bars_in(ax, _SEGMENTS)
            assert sum(end - start for start, end in spans) == pytest.approx(united(spans)), "none above another"
            assert united(spans) == pytest.approx(octets)
            continue
        lanes = [subject.parts(view.direction, Stretch()).ahead.start, view.fpdus.start]
        ends = [subject.parts(view.direction, Stretch()).ahead.end, view.fpdus.end]
        width = grid([*lanes, *ends]).width
        assert drawn.sum() * width == pytest.approx(octets)
        assert drawn.max() <= 1 + 1e-9
        fpdus = int((view.fpdus.end - view.fpdus.start).sum())
        for lane in (_FPDUS, _MESSAGES):
            assert heights(ax, lane).sum() * width == pytest.approx(fpdus)
        early = int((view.fpdus.end - view.fpdus.start)[view.fpdus.is_early].sum())
        drawn = heights(ax, _EARLY)
        assert (0 if drawn is None else drawn.sum() * width) == pytest.approx(early)


def test_there_is_no_hole_where_nothing_is_missing() -> None:
    """What the user sees first of this capture: each column of each lane is full."""
    connection = largest("markers-reordered")
    assert not any(connection.half(side).counts.missing_octets for side in ("initiator", "responder"))
    figure = connection.plot()
    assert figure.get_label() == "lanes"
    for ax in figure.axes:
        for lane in (_SEGMENTS, _FPDUS, _MESSAGES):
            assert heights(ax, lane) == pytest.approx(np.ones(COLUMNS)), lane


@pytest.mark.parametrize("stretch", [Stretch(), Stretch((677, 732))])
def test_what_was_placed_early_is_seen(stretch: Stretch) -> None:
    """Each octet of an FPDU placed early is in a lane of its own, zoomed and aggregated, and in the legend."""
    connection = largest("markers-lossy")
    subject = Subject(connection, ("responder",))
    (view,) = subject.views(stretch)
    early = view.fpdus.is_early
    count = int(view.fpdus.count[early].sum())
    assert count == 129 == connection.responder.counts.delivered_late if stretch.is_open else count > 100
    figure = draw_subject(subject, "lanes", stretch)
    (ax,) = figure.axes
    assert legend(figure)["FPDU placed early"] == GREEN
    assert f"{count} placed early" in ax.get_title(loc="left")
    assert "placed early" in [label.get_text() for label in ax.get_yticklabels()]
    if stretch.is_open:
        assert heights(ax, _EARLY).sum() > 0
        return
    expected = sorted(zip(view.fpdus.start[early].tolist(), view.fpdus.end[early].tolist(), strict=True))
    assert bars_in(ax, _EARLY) == [pytest.approx(one) for one in expected]


def test_messages_along_the_stream_have_the_colour_of_the_legend() -> None:
    """However short a message is, those after it are not taken for messages that are under way beside it."""
    connection = analyze(named("siw-nvme")).connections[0]
    figure = draw_subject(Subject(connection, ("responder",)), "lanes", Stretch((4, 106)))
    (ax,) = figure.axes
    messages: list[Any] = [
        one
        for one in ax.collections
        if isinstance(one, PolyCollection) and one.get_paths()[0].get_extents().y1 < _EARLY[0]
    ]
    assert {one.get_facecolor()[0][3] for one in messages} == {1.0}
    kinds = {colour for words, colour in legend(figure).items() if words in ("Send", "RDMA Write", "RDMA Read")}
    assert {colour_of(one) for one in messages} == kinds


def test_a_hole_is_a_hole(tmp_path: Path) -> None:
    """Octets that were never captured are empty columns, and hatched."""
    path = tmp_path / "holes.pcap"
    bulk = BulkConnection(BulkPlan(markers=True), clock=iter(range(10**18, 1 << 62, 12000)), seed=1)
    packets = [*bulk.packets(20)]
    with path.open("wb") as file:
        PcapWriter(file).write([*packets[:300], *packets[330:]])
    (connection,) = analyze(path).connections
    missing = connection.initiator.counts.missing_octets
    assert missing > 10_000
    figure = connection.plot("lanes", directions=("initiator",))
    drawn = heights(figure.axes[0], _SEGMENTS)
    subject = Subject(connection, ("initiator",))
    parts, (view,) = subject.parts("initiator", Stretch()), subject.views(Stretch())
    width = grid([parts.ahead.start, parts.ahead.end, view.fpdus.start, view.fpdus.end]).width
    assert (1 - drawn).sum() * width == pytest.approx(missing)
    assert (drawn < 0.01).sum() >= missing // width - 1
    assert "never captured" in legend(figure)


@pytest.mark.parametrize("name", DENSE)
def test_time_has_columns_where_something_happened(name: str) -> None:
    """Along time a column is full where octets came, and empty where none did; both sides have one axis."""
    connection = largest(name)
    subject = Subject(connection, ("initiator", "responder"))
    views = subject.views(Stretch())
    figure = connection.plot("lanes", axis="time")
    assert len({ax.get_xlim() for ax in figure.axes}) == 1
    all_times = [one for view in views for one in (view.segments.time, view.fpdus.first_time, view.fpdus.turn_time)]
    timeline = Timeline.of(all_times, subject.marks(Stretch()))
    columns = timeline.columns(COLUMNS)
    for ax, view in zip(figure.axes, views, strict=True):
        drawn = heights(ax, _SEGMENTS)
        if drawn is None:
            continue
        parts = subject.parts(view.direction, Stretch())
        times = np.concatenate((parts.ahead.time, parts.filling.time))
        assert [*np.flatnonzero(drawn)] == [*np.unique(columns.of(times * timeline.unit.a_second))]
        assert drawn[drawn > 0] == pytest.approx(1.0)


@pytest.mark.parametrize("kind", ["sequence", "throughput", "held", "reads", "memory"])
@pytest.mark.parametrize("name", ["siw-crc-rping", "markers-lossy", "siw-nfs4"])
def test_both_sides_have_one_time_axis(name: str, kind: str) -> None:
    with suppress(NothingToDraw):
        assert len({ax.get_xlim() for ax in largest(name).plot(kind).axes}) == 1


def test_what_one_side_sent_first_lies_left() -> None:
    """startup-responder-first is to be seen: the first octets of the Responder lie left of those of the Initiator."""
    connection = largest("siw-eight-connections")
    assert any(found.rule.id == "startup-responder-first" for found in connection.findings)
    figure = connection.plot("lanes", axis="time")
    first = [min(box[0] for box in bars_in(ax, _FPDUS)) for ax in figure.axes]
    assert first[1] < first[0]
    # What takes no time is wide enough to be seen.
    for ax in figure.axes:
        left, right = ax.get_xlim()
        for lane in (_SEGMENTS, _FPDUS):
            assert min(end - start for start, end in bars_in(ax, lane)) > 0.0015 * (right - left)


@st.composite
def segments(draw: st.DrawFn) -> DrawnSegments:
    """Segments in any order, of which each counts as new that brings an octet."""
    spans = draw(st.lists(st.tuples(st.integers(0, 40), st.integers(1, 12)), min_size=1, max_size=25))
    seen: set[int] = set()
    new, late, top = [], [], 0
    for start, length in spans:
        octets = set(range(start, start + length))
        new.append(bool(octets - seen))
        late.append(new[-1] and start < top)
        seen |= octets
        top = max(top, start + length)
    start, length = (np.array(one, dtype=np.int64) for one in zip(*spans, strict=True))
    index = np.arange(len(spans))
    return DrawnSegments(index, index / 1.0, start, start + length, np.array(new), np.array(late))


@given(segments())
def test_each_octet_is_of_the_segment_that_brought_it_first(drawn: DrawnSegments) -> None:
    parts: OctetParts = _parts(drawn, np.ones(len(drawn.start), dtype=bool))
    brought: dict[int, int] = {}
    copies: Counter[tuple[int, int]] = Counter()
    for frame, start, end in zip(drawn.frame.tolist(), drawn.start.tolist(), drawn.end.tolist(), strict=True):
        for octet in range(start, end):
            if octet in brought:
                copies[octet, frame] += 1
            else:
                brought[octet] = frame
    found: dict[int, int] = {}
    for part in (parts.ahead, parts.filling):
        for frame, start, end in zip(part.frame.tolist(), part.start.tolist(), part.end.tolist(), strict=True):
            for octet in range(start, end):
                assert octet not in found
                found[octet] = frame
    assert found == brought
    again: Counter[tuple[int, int]] = Counter()
    rows = zip(parts.repeats.frame.tolist(), parts.repeats.start.tolist(), parts.repeats.end.tolist(), strict=True)
    for frame, start, end in rows:
        again.update((octet, frame) for octet in range(start, end))
    assert again == copies


@given(st.lists(st.tuples(st.floats(0, 100), st.floats(0, 30), st.integers(1, 1000)), min_size=1, max_size=30))
def test_weights_are_spread_without_loss(items: list[tuple[float, float, int]]) -> None:
    start, length, weight = (np.array(one, dtype=float) for one in zip(*items, strict=True))
    columns = grid([start, start + length], 17)
    sums = columns.spread(start, start + length, weight)
    assert sums.sum() == pytest.approx(weight.sum())
    assert (sums >= -1e-9).all()


# --- one thing, one colour; how it ended ---


@pytest.mark.parametrize("name", ["siw-nfs4", "siw-nvme", "markers-lossy"])
def test_colours_are_the_same_zoomed_and_aggregated(name: str) -> None:
    connection = largest(name)
    subject = Subject(connection, ("initiator", "responder"))
    first = connection.lifecycle.first[0]
    stretches = [Stretch(), *(Stretch((first + 30 * part, first + 30 * part + 60)) for part in range(3))]
    colours: dict[str, str] = {}
    for stretch in stretches:
        with suppress(NothingToDraw):
            for words, colour in legend(draw_subject(subject, "lanes", stretch)).items():
                assert colours.setdefault(words, colour) == colour, (name, words)
    assert {"Send", "segment", "FPDU located by length"} <= {*colours}
    assert len({*colours.values()} - {colours["segment"]}) >= 3
    if name == "siw-nfs4":
        assert {"RDMA Read", "RDMA Write"} <= {*colours}
        assert colours["RDMA Read"] != colours["segment"]


@pytest.mark.parametrize(("name", "acknowledged"), [("siw-client-killed", 8568), ("siw-terminate", 1424)])
def test_a_ladder_says_what_of_its_messages_was_acknowledged(name: str, acknowledged: int) -> None:
    """The octets of the verdict are those of the arrows: of messages, and of headers."""
    connection = next(one for one in analyze(named(name)).connections if one.lifecycle.is_unfinished)
    said = " ".join(words_of(connection.plot())).replace("\n", " ")
    found = re.search(r"of the ([\d,]+) octets of the Initiator that were not acknowledged, ([\d,]+) are of", said)
    assert found is not None
    octets, payload = (int(one.replace(",", "")) for one in found.groups())
    assert octets == connection.lifecycle.initiator.unacknowledged_octets
    with CapturedMessages(named(name)) as messages:
        rows = [row for row in messages if (row.connection, row.direction) == (connection.number, "initiator")]
    assert payload == sum(row.octets for row in rows[-connection.lifecycle.initiator.unacknowledged_messages :]) - (
        acknowledged
    )
    assert f"{acknowledged:,} octets of it acknowledged" in said


@pytest.mark.parametrize("kind", ["sequence", "lanes", "ladder", "memory"])
def test_a_reset_is_marked_and_what_came_after_it(kind: str) -> None:
    connection = max(analyze(KILLED).connections, key=lambda one: one.fpdu_count)
    life = connection.lifecycle
    (view,) = Subject(connection, ("initiator", "responder")).views(Stretch())
    after = sum(
        1 for one in connection.initiator.fpdus if (one.placed_frame or one.frames[-1]) > (life.reset_frame or 0)
    )
    assert int(view.fpdus.count[view.fpdus.is_reset].sum()) == after > 10
    figure = connection.plot(kind)
    said = " ".join([*words_of(figure), *(ax.get_title(loc="right") for ax in figure.axes)])
    assert "RST" in said
    assert "82 times" in said
    assert "117,136 octets" in said
    if kind == "ladder":
        assert "nobody placed" in said
    else:
        assert any("sent after the RST" in words for words in legend(figure))
    if kind == "memory":
        late = [one for one in figure.axes[0].collections if colour_of(one) == VERMILION]
        assert sum(len(one.get_paths()) for one in late) == after


def test_terminate_fin_and_rejection_are_marked() -> None:
    connection = analyze(TERMINATE).connections[0]
    said = words_of(connection.plot("sequence"))
    assert {"Terminate (frame 17)", "FIN"} <= {*said}
    assert "RST (frame 20)" in said
    rejected = next(one for one in analyze(PCAPS / "siw-rejected.pcap").connections if one.rejected)
    assert "MPA Reply that rejects" in words_of(rejected.plot())
    with pytest.raises(MPAError, match="--kind ladder"):
        rejected.plot("lanes")


@pytest.mark.parametrize("name", ["siw-terminate", "siw-rejected", "siw-client-killed", "siw-crc-rping"])
def test_a_picture_says_what_became_of_the_connection(name: str) -> None:
    for connection in analyze(named(name)).connections:
        said = " ".join(" ".join(words_of(connection.plot())).split())
        verdict = " ".join(connection.verdict.split())
        assert verdict[1:] in said
        rules = {found.rule.id for found in connection.findings if found.severity != "note"}
        assert all(rule in said for rule in rules)


# --- ladder ---


def told(figure: Figure) -> int:
    """The messages that a ladder has arrows for, or counts between these."""
    found = 0
    for words in words_of(figure):
        between = re.fullmatch(r"([\d,]+) messages? in .*", words)
        arrow = re.fullmatch(r"(?:([\d,]+) × )?(?:Send|RDMA|Terminate|Atomic|Immediate|no message).*octets?.*", words)
        if between is not None:
            found += int(between[1].replace(",", ""))
        elif arrow is not None:
            found += int((arrow[1] or "1").replace(",", ""))
    return found


@pytest.mark.parametrize("name", ["siw-terminate", "siw-nvme", "siw-nfs4", "markers-reordered", "siw-client-killed"])
def test_a_ladder_has_every_message(name: str) -> None:
    connection = largest(name)
    with CapturedMessages(named(name)) as messages:
        count = sum(row.connection == connection.number for row in messages)
    figure = connection.plot("ladder")
    assert told(figure) == count
    heights = sorted(text.get_position()[1] for text in figure.axes[0].texts if "messages in" in text.get_text())
    # Nothing is left out twice in a row.
    assert all(later - sooner > 1.9 for sooner, later in pairwise(heights))
    # However long the connection is, people see all of it at once.
    assert figure.get_size_inches()[1] < 14


def test_a_ladder_goes_downwards_and_begins_with_tcp() -> None:
    figure = analyze(TERMINATE).connections[0].plot()
    assert figure.get_label() == "ladder"
    rows = [words for words in words_of(figure) if re.match(r"SYN|MPA|\d+ × Send|Send|Terminate|FIN|RST", words)]
    assert rows == [
        *("SYN", "SYN, ACK", "MPA Request", "MPA Reply", "4 × Send of 100 octets", "Send, 2,848 octets, a part"),
        *("Terminate, 24 octets", "FIN", "RST"),
    ]
    heights = [text.get_position()[1] for text in figure.axes[0].texts if text.get_text() in rows]
    assert heights == sorted(heights)


@pytest.mark.parametrize(
    ("name", "wanted", "unwanted"),
    [
        ("siw-client-killed", {"RST", "sent after the RST"}, {"Terminate, RST", "sent again"}),
        ("siw-terminate", {"Terminate, RST"}, {"RST", "sent after the RST"}),
        ("siw-nfs4", {"Send", "RDMA Write", "RDMA Read"}, {"RST", "sent after the RST"}),
    ],
)
def test_the_legend_of_a_ladder_has_each_line_that_is_drawn(name: str, wanted: set[str], unwanted: set[str]) -> None:
    figure = largest(name).plot("ladder")
    drawn = legend(figure)
    assert wanted <= drawn.keys()
    assert not unwanted & drawn.keys()
    annotations = [text for text in figure.axes[0].texts if isinstance(text, Annotation)]
    arrows = [text.arrow_patch for text in annotations if text.arrow_patch is not None]
    assert {to_hex(arrow.get_edgecolor()) for arrow in arrows} <= {*drawn.values()}
    assert any(arrow.get_linestyle() == ":" for arrow in arrows) == ("sent after the RST" in drawn)


def test_a_ladder_says_whether_octets_are_of_each_message_or_of_all() -> None:
    said = words_of(largest("siw-client-killed").plot("ladder"))
    assert "20 × RDMA Write of 65,536 octets" in said
    uneven = [words for words in words_of(largest("siw-nfs4").plot("ladder")) if words.endswith("octets together")]
    assert "12 × RDMA Write, 241,664 octets together" in uneven


@pytest.mark.parametrize("name", ["siw-nfs4", "siw-nvme"])
def test_a_ladder_has_the_calls_of_the_slowest_replies(name: str) -> None:
    connection = largest(name)
    with CapturedMessages(named(name)) as messages:
        calls = [row for row in messages if row.connection == connection.number and row.reply is not None]
    slowest = max(calls, key=lambda row: row.reply.latency_ns if row.reply is not None else 0)
    figure = connection.plot("ladder")
    said = words_of(figure)
    assert str(slowest.first_frame) in said  # a row of its own
    bold = " ".join(text.get_text() for text in figure.axes[0].texts if text.get_fontweight() == "bold")
    assert f"after its call of frame {slowest.first_frame}" in bold
    assert slowest.call is not None
    assert slowest.call in bold


def test_a_part_of_a_ladder() -> None:
    connection = largest("siw-nfs4")
    with CapturedMessages(named("siw-nfs4")) as messages:
        count = sum(100 <= row.first_frame <= 1200 and row.direction == "initiator" for row in messages)
    assert told(connection.plot("ladder", frames=(100, 1200), directions=("initiator",))) == count
    with pytest.raises(MPAError, match="no part of the connection"):
        connection.plot("ladder", frames=(1 << 30, None))


def test_retransmissions_have_arrows() -> None:
    connection = largest("markers-reordered")
    said = words_of(connection.plot("ladder", directions=("initiator",)))
    again = [words for words in said if words.endswith("sent again")]
    assert len(again) == ladder._MOST_AGAIN
    more = next(int(words.split()[0]) for words in said if "more until frame" in words)
    assert len(again) + more == connection.initiator.counts.retransmitted_segments


# --- latency ---


@pytest.mark.parametrize("name", ["siw-nvme", "siw-nfs4", "siw-crc-rping"])
def test_the_slowest_answers_are_named(name: str) -> None:
    connection = largest(name)
    with CapturedMessages(named(name)) as messages:
        found = sorted((one for one in answers(messages) if one.connection == connection.number), reverse=True)
        texts = {row.first_frame: row.text for row in messages if row.connection == connection.number}
    figure = connection.plot("latency")
    said = words_of(figure)
    assert f"frames {found[0].frame} to {found[0].answer_frame}" in next(words for words in said if words[:2] == "1 ")
    if found[0].what == "call":
        assert texts[found[0].frame].split(",")[0] in " ".join(said)
    assert sum(len(line.get_xdata()) for line in figure.axes[0].lines if len(line.get_xdata()) != 2) == len(found)


@pytest.mark.parametrize("name", ["siw-nvme", "siw-nfs4", "siw-crc-rping", "siw-read-64"])
def test_the_number_of_a_slow_answer_is_at_its_dot(name: str) -> None:
    figure = largest(name).plot("latency")
    (ax,) = figure.axes
    figure.draw_without_rendering()
    # A line with two points is a mark of time.
    points = [point for line in ax.lines if len(line.get_xdata()) != 2 for point in line.get_xydata()]
    dots = ax.transData.transform(points)
    numbers = [text for text in ax.texts if isinstance(text, Annotation) and text.get_text().isdigit()]
    assert numbers
    boxes = [Text.get_window_extent(text) for text in numbers]  # without its line
    for text, box in zip(numbers, boxes, strict=True):
        middle, own = np.array([(box.x0 + box.x1) / 2, (box.y0 + box.y1) / 2]), ax.transData.transform(text.xy)
        assert not any(box.contains(*dot) for dot in dots)
        assert not any(box.overlaps(other) for other in boxes if other is not box)
        others = [dot for dot in dots if np.hypot(*(dot - own)) > 1]
        if text.arrow_patch is None and others:
            assert np.hypot(*(middle - own)) < min(np.hypot(*(middle - dot)) for dot in others)


def test_times_are_rounded_as_those_of_messages() -> None:
    connection = largest("siw-nvme")
    with CapturedMessages(named("siw-nvme")) as messages:
        most = max(one.latency for one in answers(messages) if one.connection == connection.number)
    assert f"{ms(most)} at most" in " ".join(words_of(connection.plot("latency")))
    assert [time_text(seconds) for seconds in (0, 1.5e-6, 812e-6, 0.9996e-3, 0.0128149, 1.25)] == [
        *("0 s", "1.5 µs", "812 µs", "1.000 ms", "12.815 ms", "1.250 s"),
    ]


@pytest.mark.parametrize("name", ["siw-client-killed", "siw-terminate", "siw-nvme", "siw-nfs4", "markers-lossy"])
@pytest.mark.parametrize("kind", ["sequence", "latency"])
def test_the_words_of_a_mark_begin_or_end_at_its_line(name: str, kind: str) -> None:
    try:
        figure = largest(name).plot(kind)
    except NothingToDraw:
        return
    for ax in figure.axes:
        figure.draw_without_rendering()
        marked = [float(line.get_xdata()[0]) for line in ax.lines if [*line.get_ydata()] == [0, 1]]
        places = [ax.transData.transform((x, 0))[0] for x in marked]
        labels = [text for text in ax.texts if isinstance(text, Annotation) and text.xycoords == "axes fraction"]
        boxes = [Text.get_window_extent(text) for text in labels if text.get_text()]
        assert len(boxes) == len(places)
        for box in boxes:
            assert min(min(abs(box.x0 - place), abs(box.x1 - place)) for place in places) < 5
            assert not any(box.overlaps(other) for other in boxes if other is not box)


def test_many_answers_are_aggregated(monkeypatch: pytest.MonkeyPatch) -> None:
    from scapy_mpa.plot import latency

    monkeypatch.setattr(latency, "_MOST_ANSWERS", 50)
    figure = largest("siw-nfs4").plot("latency")
    assert "aggregated: more than 50 of a kind" in " ".join(words_of(figure))
    assert 20 < max(len(line.get_xdata()) for line in figure.axes[0].lines) <= 175


# --- overview ---


def test_an_overview_has_a_bar_for_each_connection(monkeypatch: pytest.MonkeyPatch) -> None:
    report = analyze(named("siw-eight-connections"))
    figure = draw_overview(report.connections, report.captures)
    rows = [label.get_text() for label in figure.axes[0].get_yticklabels()]
    assert rows == [f"{one.number}  {one.name}" for one in report.connections]
    assert len({text.get_text() for text in figure.axes[0].texts}) == 8
    begun = min(one.lifecycle.first[1] for one in report.connections)
    starts = sorted(box[0] for box in _bars(figure))[::1]
    for one in report.connections:
        assert any(abs(place - (one.lifecycle.first[1] - begun) / 1e6) < 1e-6 for place in starts)
    monkeypatch.setattr(overview, "_MOST_BARS", 3)
    figure = draw_overview(report.connections, report.captures, dark=True)
    assert "the worst 3 of 8 connections have a bar" in " ".join(words_of(figure))
    (upper,) = figure.axes[0].child_axes
    assert max(upper.get_lines()[0].get_ydata()) == 8
    with pytest.raises(MPAError, match="no MPA connection"):
        draw_overview([], [])


def _bars(figure: Figure) -> list[tuple[float, float]]:
    boxes = [
        path.get_extents()
        for collection in figure.axes[0].collections
        if isinstance(collection, PolyCollection)
        for path in collection.get_paths()
    ]
    return [(float(box.x0), float(box.x1)) for box in boxes]


def test_an_unfinished_connection_stands_out() -> None:
    report = analyze(KILLED)
    figure = draw_overview(report.connections, report.captures)
    assert "1 ended before the work was done" in " ".join(words_of(figure))
    assert {"unfinished, or with errors", "RST", "FIN", "warning"} <= {*legend(figure)}
    # The RST that ended it is marked, not the last one, which is the end of the bar.
    last = report.connections[1].lifecycle
    begun = min(one.lifecycle.first[1] for one in report.connections)
    crosses = {line.get_xdata()[0] for line in figure.axes[0].lines if line.get_marker() == "x"}
    assert [*crosses] == pytest.approx([(last.reset_time - begun) / 1e9])
    assert last.ended_time < last.reset_time < last.last[1]
    # The bar has room for two lines: what is lost is said in them.
    (said,) = [" ".join(text.get_text().split()) for text in figure.axes[0].texts if "while" in text.get_text()]
    assert said.endswith("…") and "still sending: 2 messages of the Initiator not fully acknowledged (117,136" in said
    # The worst first, as everywhere.
    assert [label.get_text()[0] for label in figure.axes[0].get_yticklabels()] == ["1", "0"]


# --- what is drawn without being asked for ---


@pytest.mark.parametrize(
    ("name", "kind"),
    [
        ("siw-terminate", "ladder"),
        ("siw-client-killed", "ladder"),
        ("markers-reordered", "lanes"),
        ("markers-lossy", "lanes"),
        ("siw-nfs4", "latency"),
        ("siw-nvme", "latency"),
        ("markers-packed", "lanes"),
    ],
)
def test_the_first_picture_of_a_connection(name: str, kind: str, tmp_path: Path) -> None:
    out = tmp_path / "x.svg"
    result = CliRunner().invoke(cli, ["plot", str(named(name)), "-o", str(out)], standalone_mode=False)
    assert result.output.startswith(f"{out}: {kind} of connection ")


def run(*words: object) -> Any:
    return CliRunner().invoke(cli, [str(word) for word in words], standalone_mode=False)


def test_what_is_not_there_is_no_picture(tmp_path: Path) -> None:
    out = tmp_path / "x.svg"
    for kind, said in (
        ("reads", "no RDMA Read and no Atomic in connection 0"),
        ("latency", "no answered RDMA Read, Atomic"),
    ):
        result = run("plot", named("siw-eight-connections"), "--connection", 0, "--kind", kind, "-o", out)
        assert said in str(result.exception)
    assert not out.exists()


def test_seconds_as_the_axis_has_them(tmp_path: Path) -> None:
    path, drawn = named("markers-lossy"), []
    begun = largest("markers-lossy").lifecycle.first[1]
    first, last = begun + 30_000_000, begun + 50_000_000
    moments = [
        ("+0.03", "+0.05"),
        ("0.03", "0.05"),
        ("30ms", "50ms"),
        (f"{first // 10**9}.{first % 10**9:09}", f"{last // 10**9}.{last % 10**9:09}"),
    ]
    for since, until in moments:
        words = ("--since", since, "--until", until, "--kind", "sequence", "-o", tmp_path / "x.svg")
        assert run("plot", path, *words).exit_code == 0
        octets = (tmp_path / "x.svg").read_text()
        assert "only from 0.03 s on, up to 0.05 s" in octets
        drawn.append(re.findall(r"[\d,]+ segments, [\d,]+ FPDUs", octets))
    assert drawn[0] == drawn[1] == drawn[2] == drawn[3]
    assert drawn[0] != []
    assert "only plot takes it" in str(run("analyze", path, "--since", "+0.3").exception)


# --- memory ---


def test_many_small_fpdus_take_no_more_than_their_segments(tmp_path: Path) -> None:
    path = tmp_path / "small.pcap"
    plan = BulkPlan(markers=False, segmentation="packed", write_octets=40)
    bulk = BulkConnection(plan, clock=iter(range(10**18, 1 << 62, 12000)), seed=1)
    with path.open("wb") as file:
        PcapWriter(file).write(bulk.packets(20))
    (connection,) = analyze(path).connections
    (view, *_) = Subject(connection, ("initiator",)).views(Stretch())
    assert view.fpdu_count == connection.initiator.counts.fpdus > 1000
    assert len(view.fpdus.start) <= 2 * len(view.segments.start) < view.fpdu_count / 2
    assert int((view.fpdus.end - view.fpdus.start).sum()) == sum(one.wire_length for one in connection.initiator.fpdus)
    part = Subject(connection, ("initiator",)).views(Stretch((20, 40)))[0]
    records = [one for one in connection.initiator.fpdus if 20 <= (one.placed_frame or 0) <= 40]
    assert part.fpdu_count == len(part.fpdus.start) == len(records)
    assert (part.fpdus.end - part.fpdus.start).tolist() == [one.wire_length for one in records]
    assert part.fpdus.end[:-1].tolist() == part.fpdus.start[1:].tolist()


def test_late_segments_and_markers_are_called_the_same() -> None:
    """What is orange is out of order in each picture and in the heading; the band of Markers is in the legend."""
    (connection,) = analyze(named("markers-lossy")).connections
    counts = connection.initiator.counts
    said = f"{counts.segments} segments of the Initiator, {counts.out_of_order_segments} came out of order"
    for kind in ("lanes", "sequence"):
        figure = connection.plot(kind, directions=("initiator",))
        words = " ".join(text.get_text() for text in figure.findobj(Text)).replace("\n", " ")
        assert said in words and "hole" not in words and "repeated" not in words
        assert legend(figure)["segment out of order"] == ORANGE.lower()
        assert ("Markers, one every 512 octets" in legend(figure)) is (kind == "lanes")
