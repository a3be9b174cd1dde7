"""Pictures: what is drawn is what the analysis says, dense or not; files the same each time; what is refused."""

from __future__ import annotations

import io
import re
import shlex
import subprocess
import sys
from contextlib import suppress
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest
from click import UsageError
from click.testing import CliRunner
from matplotlib.collections import PolyCollection
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from scapy_mpa import MPAError, analyze
from scapy_mpa.cli import cli
from scapy_mpa.craft.scenario import load
from scapy_mpa.messages.reading import CapturedMessages
from scapy_mpa.plot.kinds import KINDS
from scapy_mpa.plot.look import DARK, LIGHT, NothingToDraw, write_figure
from scapy_mpa.plot.view import MOST_RECORDS, Stretch, Subject
from scapy_mpa.report.buffers import WAYS, buffers_of
from tests.conftest import PCAPS, REPO, captures, named
from tests.test_docs import blocks, commands

REORDERED = PCAPS / "markers-reordered.pcap"
RPING = PCAPS / "siw-crc-rping.pcap"
DOCUMENT = REPO / "docs" / "pictures.md"


def run(*words: object) -> Any:
    return CliRunner().invoke(cli, [str(word) for word in words], standalone_mode=False)


def texts(svg: bytes) -> list[str]:
    """All that a picture says, in its order."""
    root = ElementTree.fromstring(svg)
    return ["".join(node.itertext()).strip() for node in root.iter("{http://www.w3.org/2000/svg}text")]


def svg_of(figure: Figure) -> bytes:
    file = io.BytesIO()
    write_figure(figure, file, "svg")
    return file.getvalue()


def title(figure: Figure) -> str:
    return " ".join(text.get_text() for text in figure.texts)


def bars(figure: Figure, axes: int, colour: str) -> int:
    """Return how many bars of a colour one of the axes has."""
    import numpy as np
    from matplotlib.colors import to_rgba

    found = 0
    for collection in figure.axes[axes].collections:
        if isinstance(collection, PolyCollection):
            faces = np.atleast_2d(np.asarray(collection.get_facecolor(), dtype=float))
            if tuple(faces[0, :3]) == to_rgba(colour)[:3]:
                found += len(collection.get_paths())
    return found


# --- what is drawn ---


def test_a_buffer_has_every_fpdu_and_what_is_early() -> None:
    from scapy_mpa.plot.look import BLUE, GREEN

    (connection,) = analyze(named("markers-lossy")).connections
    writes = [
        one for one in connection.initiator.fpdus if one.opcode == "RDMA Write" and (one.placed_frame or 999) <= 130
    ]
    early = [one for one in writes if one.placed_frame != one.delivered_frame]
    figure = connection.plot("memory", frames=(1, 130))
    assert len(figure.axes) == 1  # the Responder writes nothing
    assert bars(figure, 0, GREEN) == len(early) > 10
    assert bars(figure, 0, BLUE) == len(writes) - len(early) > 10
    assert f"{len(writes)} FPDUs, {len(early)} placed early" in figure.axes[0].get_title(loc="left")
    with pytest.raises(MPAError, match="nothing was written to STag 0x00000002"):
        connection.plot("memory", stag=2)
    with pytest.raises(UsageError, match="--stag is for --kind memory"):
        CliRunner().invoke(
            cli, ["plot", str(RPING), "-o", "x.svg", "--stag", "1"], standalone_mode=False, catch_exceptions=False
        )


def test_a_buffer_has_the_bounds_of_what_was_named() -> None:
    connection = analyze(RPING).connections[0]
    figure = connection.plot("memory")
    assert len(figure.axes) == 2
    for axes in figure.axes:
        assert {line.get_ydata()[0] for line in axes.lines} == {0, 64}


def test_lanes_have_every_segment_and_fpdu_of_the_frames() -> None:
    from scapy_mpa.plot.look import OLIVE, ORANGE, PURPLE, SKY, YELLOW

    connection = analyze(REORDERED).connections[0]
    figure = connection.plot("lanes", directions=("initiator",), frames=(30, 70))
    fpdus = [one for one in connection.initiator.fpdus if one.placed_frame and 30 <= one.placed_frame <= 70]
    by = [one.located_by for one in fpdus]
    assert bars(figure, 0, YELLOW) == by.count("marker") > 5
    assert bars(figure, 0, OLIVE) == by.count("scan")
    assert "behind a gap a Marker locates the first FPDU" in title(figure).replace("\n", " ")
    assert bars(figure, 0, SKY) == by.count("length") > 5
    (view,) = Subject(connection, ("initiator",)).views(Stretch((30, 70)))
    assert bars(figure, 0, PURPLE) == (~view.segments.is_new).sum() == 3
    assert bars(figure, 0, ORANGE) == view.segments.is_late.sum()
    assert "aggregated" not in title(figure)
    assert "only frames 30 to 70" in title(figure)
    messages = [text for text in texts(svg_of(figure)) if text == "Send"]
    assert len(messages) == len(fpdus) + 1, "and the legend"


def test_segments_of_the_view_are_those_of_the_report() -> None:
    connection = analyze(REORDERED).connections[0]
    subject = Subject(connection, ("initiator", "responder"))
    for view in subject.views(Stretch()):
        counts = connection.half(view.direction).counts
        assert len(view.segments.start) == counts.segments
        assert (~view.segments.is_new).sum() == counts.retransmitted_segments
        assert view.segments.is_late.sum() == counts.out_of_order_segments
        assert view.fpdu_count == len(view.fpdus.start) == counts.fpdus
        early = [one for one in connection.half(view.direction).fpdus if one.placed_frame != one.delivered_frame]
        assert view.fpdus.is_early.sum() == len(early)
        assert not len(view.acks.ack)
    for view in subject.views(Stretch(), acks=True):
        # What the peer acknowledges only grows, and ends with all that there is and its FIN.
        assert (view.acks.ack[1:] >= view.acks.ack[:-1]).all()
        assert view.acks.ack[-1] == view.fpdus.end[-1] + 1
        assert (view.acks.edge >= view.acks.ack).all()


def test_too_many_are_aggregated_and_the_picture_says_so() -> None:
    connection = analyze(REORDERED).connections[0]
    assert connection.initiator.counts.fpdus > MOST_RECORDS
    said = title(connection.plot("lanes", directions=("initiator",)))
    assert "aggregated, as there are too many to draw one by one" in said.replace("\n", " ")
    assert "only" not in said
    both = connection.plot("lanes")
    legend = [
        (text.get_text(), handle)
        for text, handle in zip(both.legends[0].texts, both.legends[0].legend_handles, strict=True)
    ]
    assert len({words for words, _ in legend}) == len(legend), "one colour for one thing, in both half connections"


@pytest.mark.parametrize("kind", ["lanes", "sequence", "held", "ladder", "throughput"])
def test_a_dense_capture(kind: str, tmp_path: Path) -> None:
    """Thousands of FPDUs and segments: as many shapes as columns, whatever is drawn."""
    from scapy_mpa.craft.bulk import BulkConnection, BulkPlan
    from scapy_mpa.craft.pcapfile import PcapWriter

    path = tmp_path / "dense.pcap"
    plan = BulkPlan(markers=True, segmentation="anywhere", reordered=0.03, write_octets=1000)
    bulk = BulkConnection(plan, clock=iter(range(10**18, 1 << 62, 12000)), seed=1)
    with path.open("wb") as file:
        PcapWriter(file).write(bulk.packets(30))
    connection = analyze(path).connections[0]
    svg = svg_of(connection.plot(kind, directions=("initiator",)))
    assert len(svg) < 400_000
    if kind in ("lanes", "sequence"):
        assert any("aggregated" in text for text in texts(svg))


def test_held_is_drawn_as_it_is_counted() -> None:
    report = analyze(REORDERED)
    figure = report.connections[0].plot("held")
    subject = Subject(report.connections[0], ("initiator", "responder"))
    for axes, ((_, direction), found) in zip(figure.axes, buffers_of(report).items(), strict=True):
        # Where the connection begins and ends there are lines of two points.
        lines = [line for line in axes.get_lines() if isinstance(line, Line2D) and len(line.get_xdata()) > 2]
        # What coincides is one curve.
        curves = {tuple(subject.buffers(direction).series[way]): found.held[way].peak for way in WAYS}
        kept = list(curves.values())
        assert [max(line.get_ydata()) for line in lines] == kept
        for peak in kept:
            assert f": {peak:,} octets" in axes.get_title(loc="left")
    upper, lower = figure.axes
    assert upper.get_xlim() == lower.get_xlim()
    assert "waiting for full order = placing by length alone" in texts(svg_of(figure))


def test_where_nothing_was_held_words_say_so() -> None:
    connection = analyze(named("siw-client-killed")).connections[1]
    with pytest.raises(
        NothingToDraw, match=r"no receiver of connection 1 held octets.*--kind sequence shows the 117,136"
    ):
        connection.plot("held")
    with pytest.raises(NothingToDraw, match=r"arrived in one frame, and in order$"):
        analyze(RPING).connections[0].plot("held")


def test_markers_have_one_form_on_both_sides() -> None:
    for name in ("markers-lossy", "markers-reordered", "markers-aligned", "markers-packed"):
        figure = max(analyze(named(name)).connections, key=lambda one: one.fpdu_count).plot("lanes")
        forms = {text.get_text() for text in figure.legends[0].texts if text.get_text().startswith("Marker")}
        assert len(forms) == 1


def test_labels_of_axes_keep_off_the_edge() -> None:
    figure = analyze(named("markers-lossy")).connections[0].plot("lanes")
    for ax in figure.axes:
        assert min(label.get_window_extent().x0 for label in ax.get_yticklabels()) >= 0.01 * figure.bbox.width


def test_bars_of_sizes_stand_where_their_column_is() -> None:
    figure = analyze(REORDERED).connections[0].plot("sizes", directions=("initiator",))
    (axes,) = figure.axes
    middles: dict[Any, set[float]] = {}
    for bar in axes.patches:
        middles.setdefault(bar.get_facecolor(), set()).add(round(bar.get_x() + bar.get_width() / 2, 6))  # type: ignore[attr-defined]
    segments, fpdus = middles.values()
    assert segments & fpdus, "1,448 and 1,436 octets are of one column"
    figure.draw_without_rendering()
    assert {"1", "10", "100"} <= {label.get_text() for label in axes.get_yticklabels()}


def test_reads_are_those_of_the_messages() -> None:
    figure = analyze(RPING).connections[0].plot("reads")
    with CapturedMessages(RPING) as messages:
        most = messages.messages[0].halves[1].requests.under_way.most
        answered = [row for row in messages if row.message == "RDMA Read Request" and row.answer is not None]
    upper, lower = figure.axes
    assert max(upper.get_lines()[0].get_ydata()) == most
    latencies = [one.answer.latency_ns / 1000 for one in answered if one.answer is not None]
    assert lower.get_lines()[0].get_ydata() == pytest.approx(latencies)
    assert "the Initiator's IRD = the Responder's ORD = 1" in texts(svg_of(figure))


def test_reads_of_one_of_several_connections_on_the_same_ports() -> None:
    path = PCAPS / "siw-three-in-a-row.pcap"
    for connection in analyze(path).connections:
        with CapturedMessages(path) as messages:
            asked = [
                row for row in messages if row.connection == connection.number and row.message == "RDMA Read Request"
            ]
        if asked:
            assert f"{len(asked):,} Request" in connection.plot("reads").axes[0].get_title(loc="left")
        else:
            with pytest.raises(MPAError, match=f"no RDMA Read and no Atomic in connection {connection.number}"):
                connection.plot("reads")


def test_holes_and_bad_crcs_are_marked() -> None:
    for name, words in (("holes-in-the-capture", "never captured"), ("corrupted-by-a-middlebox", "CRC error")):
        file = io.BytesIO()
        load(name, seed=1).traffic(()).write(file)
        file.seek(0)
        said = texts(svg_of(analyze(file).connections[0].plot("lanes")))
        assert words in said


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("path", captures(), ids=lambda path: path.stem)
def test_every_capture_is_drawn(path: Path, kind: str) -> None:
    """No capture is too odd for any picture, nor one without FPDUs."""
    for connection in analyze(path).connections[-1:]:
        with suppress(NothingToDraw):
            figure = connection.plot(kind, axis="time" if kind == "lanes" else "octets")
            assert f"connection {connection.number}, {connection.initiator.endpoint}" in title(figure)
            assert figure.get_label() == kind
        assert connection.plot().get_label() in KINDS


# --- the command ---


def test_a_picture_is_the_same_each_time(tmp_path: Path) -> None:
    made = {}
    for name in ("one", "two"):
        for ending in ("svg", "pdf", "png"):
            out = tmp_path / f"{name}.{ending}"
            assert run("plot", RPING, "--kind", "sequence", "-o", out).output == f"{out}: sequence of connection 0\n"
            made[name, ending] = out.read_bytes()
    for ending, magic in (("svg", b"<?xml"), ("pdf", b"%PDF"), ("png", b"\x89PNG")):
        assert made["one", ending] == made["two", ending]
        assert made["one", ending].startswith(magic)
    assert b"<dc:date>" not in made["one", "svg"]
    assert b"CreationDate" not in made["one", "pdf"]


def test_light_and_dark() -> None:
    connection = analyze(RPING).connections[0]
    light, dark = (svg_of(connection.plot("sizes", dark=dark)).decode() for dark in (False, True))
    assert f"fill: {LIGHT.back}" in light
    assert f"fill: {DARK.back}" in dark
    assert LIGHT.back not in dark


def test_the_settings_of_the_user_stay_out_and_as_they_are() -> None:
    import matplotlib

    connection = analyze(RPING).connections[0]
    before = svg_of(connection.plot("lanes"))
    with matplotlib.rc_context({"axes.facecolor": "red", "font.size": 40}):
        assert svg_of(connection.plot("lanes")) == before
        assert matplotlib.rcParams["font.size"] == 40


def test_the_connection_with_the_most_fpdus_is_drawn(tmp_path: Path) -> None:
    out = tmp_path / "x.svg"
    run("plot", PCAPS / "siw-rev0.pcap", REORDERED, RPING, "-o", out)
    assert "127.0.0.1:40640 > 127.0.0.1:19685" in " ".join(texts(out.read_bytes()))
    assert "connection 1" in run("plot", PCAPS / "siw-rejected.pcap", "-o", out, "--connection", 1).output


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("-o", "x.gif"), "the name of a picture ends in .svg, .png, .pdf"),
        (("-o", "x.svg", "--connection", "7"), "there is no connection 7"),
        (("-o", "x.svg", "--connection", "0", "--connection", "1"), "a picture shows one connection"),
        (("-o", "x.svg", "--kind", "held", "--axis", "time"), "--axis is for --kind lanes"),
        (("-o", "nowhere/x.svg"), "No such file or directory"),
    ],
)
def test_what_cannot_be_drawn(words: tuple[str, ...], said: str, tmp_path: Path) -> None:
    command = [sys.executable, "-m", "scapy_mpa", "plot", str(REORDERED), *words]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 2
    assert said in done.stderr
    assert done.stderr.count("\n") == 1
    assert not any(tmp_path.iterdir())


def test_names_from_python() -> None:
    connection = analyze(RPING).connections[0]
    with pytest.raises(MPAError, match="no kind of picture 'lane'; the kinds are lanes, ladder"):
        connection.plot("lane")
    with pytest.raises(MPAError, match="no axis 'x'"):
        connection.plot("lanes", axis="x")


def test_without_matplotlib(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    with pytest.raises(MPAError, match=r"pip install 'scapy-mpa\[plot\]'"):
        analyze(RPING).connections[0].plot()
    assert "scapy-mpa[plot]" in str(run("plot", RPING, "-o", tmp_path / "x.svg").exception)


def test_nobody_else_imports_it() -> None:
    code = (
        "import sys; from scapy_mpa import analyze; import scapy_mpa.cli.analyze, scapy_mpa.report.buffers\n"
        f"analyze({str(RPING)!r}).connections[0]\n"
        "print([name for name in sys.modules if name.split('.')[0] in ('matplotlib', 'numpy')"
        " or name.startswith('scapy_mpa.plot')])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"


# --- the documentation ---


def drawn_in_the_docs() -> list[tuple[str, str]]:
    """The commands of the page, and what each writes."""
    found = []
    for block in blocks(DOCUMENT.read_text(encoding="utf-8")):
        if block.language == "console":
            for command in commands(block):
                words = shlex.split(command.command)
                if words[:2] == ["scapy-mpa", "plot"]:
                    found.append((command.command, words[words.index("-o") + 1]))
    return found


def structure(svg: bytes) -> tuple[list[str], dict[str, int]]:
    """Return the words of a picture, and how many shapes it is made of."""
    root = ElementTree.fromstring(svg)
    counts: dict[str, int] = {}
    for node in root.iter():
        name = node.tag.rpartition("}")[2]
        counts[name] = counts.get(name, 0) + 1
    return texts(svg), {name: counts.get(name, 0) for name in ("text", "use", "path")}


@pytest.mark.parametrize(("command", "name"), drawn_in_the_docs(), ids=[name for _, name in drawn_in_the_docs()])
def test_the_commands_of_the_page_make_its_pictures(command: str, name: str, tmp_path: Path) -> None:
    shown = REPO / "docs" / "img" / name
    assert shown.stat().st_size < 250_000
    words = [word if not word.startswith("pcaps/") else str(REPO / word) for word in shlex.split(command)]
    words[words.index("-o") + 1] = str(tmp_path / name)
    assert run(*words[1:]).exit_code == 0
    assert structure((tmp_path / name).read_bytes()) == structure(shown.read_bytes()), command


def test_every_picture_of_the_page_is_made_by_a_command() -> None:
    shown = re.findall(r"!\[[^\]]+\]\(img/([\w.-]+)\)", DOCUMENT.read_text(encoding="utf-8"))
    assert sorted(shown) == sorted(name for _, name in drawn_in_the_docs())
    # One is that of docs/appendix-b.md, by scripts/dev/appendix_b.py.
    assert sorted([*shown, "appendix-b.svg"]) == sorted(path.name for path in (REPO / "docs" / "img").iterdir())
