"""What a notebook shows of reports, connections and messages, and the tables of FPDUs and messages."""

from __future__ import annotations

import json
import sys
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest

from scapy_mpa import MPAError, analyze, iter_fpdus, iter_messages, to_arrow, to_pandas
from scapy_mpa.messages.parquet import write_messages
from scapy_mpa.report.html import MOST_ROWS, table_html, values_html
from scapy_mpa.report.parquet import write_fpdus
from scripts.dev.notebook import NOTEBOOK, run, text_of
from tests.conftest import PCAPS, captures, named

parquet = pytest.importorskip("pyarrow.parquet")
pandas = pytest.importorskip("pandas")

SMALL = [path for path in captures() if path.stat().st_size < 500_000]


class Cells(HTMLParser):
    """The texts of all cells and paragraphs, and the tags that are open."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.cells: list[str] = []
        self.open: list[str] = []
        self.seen: set[str] = set()
        self.feed(text)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        assert not attrs
        self.open.append(tag)
        self.seen.add(tag)
        if tag in ("td", "th", "p"):
            self.cells.append("")

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.cells[-1] += data


def cells(shown: Any) -> list[str]:
    read = Cells(shown._repr_html_() if hasattr(shown, "_repr_html_") else shown)
    assert not read.open and read.seen <= {"table", "thead", "tbody", "tr", "th", "td", "p"}
    return read.cells


@pytest.mark.parametrize("path", SMALL, ids=lambda path: path.stem)
def test_reports_and_connections(path: Path) -> None:
    report = analyze(path)
    shown = cells(report)
    assert repr(report) == f"<{shown[0]}>"
    for connection in report.connections:
        assert connection.verdict in shown and connection.name in shown
        own = cells(connection)
        assert own[0] == f"#{connection.number} {connection.name}: {connection.verdict}"
        assert str(connection.initiator.counts.ulpdu_octets) in own
    for finding in report.all_findings():
        assert finding.rule.id in shown and finding.detail in shown


def test_messages() -> None:
    for row in list(iter_messages(named("siw-nvme")))[:20]:
        shown = cells(row)
        values = dict(zip(shown[::2], shown[1::2], strict=True))
        assert values["message"] == row.message and values["octets"] == str(row.octets)
        assert (values.get("ulp protocol") == "NVMe-oF") is (row.ulp is not None)
        assert ("answer frame" in values) is (row.answer is not None)
        assert "stag" in values or row.stag is None


def test_what_was_captured_cannot_break_out() -> None:
    hostile = "<script>alert(1)</script>&\"'\x1b[31m"
    for text in (table_html((hostile,), [(hostile,)]), values_html([(hostile, hostile)])):
        read = cells(text)
        assert "<script" not in text and "\x1b" not in text
        assert all("<script>alert(1)</script>&\"'" in one for one in read)


def test_no_more_rows_than_a_person_reads() -> None:
    shown = cells(table_html(("n",), ((number,) for number in range(MOST_ROWS + 5))))
    assert shown[-2:] == [str(MOST_ROWS - 1), "and 5 more"]
    assert cells(table_html(("n",), [])) == ["n"]


@pytest.mark.parametrize("name", ["siw-nfs4", "markers-reordered"])
def test_tables_are_those_of_the_files(name: str, tmp_path: Path) -> None:
    path = named(name)
    kinds: list[tuple[Any, Any]] = [(iter_fpdus, write_fpdus), (iter_messages, write_messages)]
    for rows, write in kinds:
        file = tmp_path / f"{write.__name__}.parquet"
        with file.open("wb") as out:
            write(rows(path), out)
        table = to_arrow(rows(path))
        written = parquet.read_table(file)
        assert table.schema.equals(written.schema) and table.to_pylist() == written.to_pylist()


def test_a_report_as_a_table() -> None:
    path = named("markers-reordered")
    report = analyze(path)
    table = report.to_arrow()
    records = [record for one in report.connections for half in (one.initiator, one.responder) for record in half.fpdus]
    assert table.num_rows == len(records) == 700
    assert table.column("placed_frame").to_pylist() == [record.placed_frame for record in records]
    frame = report.to_pandas()
    assert list(frame.seq) == [record.seq for record in records]
    assert list(frame.located_by) == [record.located_by for record in records]
    assert analyze(path, fpdus=False).to_arrow().num_rows == 0


def test_integers_stay_integers_where_some_are_null() -> None:
    rows = list(iter_messages(named("siw-nvme")))
    frame = to_pandas(rows)
    assert [None if value is pandas.NA else int(value) for value in frame.to] == [row.to for row in rows]
    assert max(row.to or 0 for row in rows) > 1 << 60
    latencies = frame.answer_latency_ns.dropna()
    assert sorted(map(int, latencies)) == sorted(row.answer.latency_ns for row in rows if row.answer is not None)


def test_what_no_table_is_made_of(monkeypatch: pytest.MonkeyPatch) -> None:
    assert to_arrow([]).num_rows == 0
    with pytest.raises(MPAError, match="not from int"):
        to_arrow([1])  # type: ignore[arg-type]
    report = analyze(PCAPS / "siw-rping.pcap")
    monkeypatch.setitem(sys.modules, "pandas", None)
    with pytest.raises(MPAError, match="pip install pandas"):
        report.to_pandas()


def test_the_notebook_of_the_documentation_shows_what_its_cells_say() -> None:
    written = json.loads(NOTEBOOK.read_text(encoding="utf-8"))
    ran = run(written)
    assert [cell["source"] for cell in ran["cells"]] == [cell["source"] for cell in written["cells"]]
    for cell, before in zip(ran["cells"], written["cells"], strict=True):
        for output, known in zip(cell.get("outputs", []), before.get("outputs", []), strict=True):
            # How pandas writes HTML is its own affair.
            assert output["data"]["text/plain"] == known["data"]["text/plain"], "python -m scripts.dev.notebook"
            assert set(output["data"]) == {"text/plain", "text/html"}
    assert text_of(written) == NOTEBOOK.read_text(encoding="utf-8")


def test_a_notebook_prints_and_shows() -> None:
    def code(text: str) -> dict[str, Any]:
        return {"cell_type": "code", "source": [text], "outputs": [], "execution_count": None}

    cells = [code("x = 1\nprint(x)\nx + 1"), {"cell_type": "markdown", "source": ["x"]}, code("y = x"), code("None")]
    ran = run({"cells": cells, "nbformat": 4})
    first, text, nothing, none = ran["cells"]
    assert [one["output_type"] for one in first["outputs"]] == ["stream", "execute_result"]
    assert first["outputs"][0]["text"] == ["1\n"] and first["outputs"][1]["data"] == {"text/plain": ["2"]}
    assert text == cells[1] and nothing["outputs"] == none["outputs"] == []
    assert [cell.get("execution_count") for cell in ran["cells"]] == [1, None, 2, 3]
    with pytest.raises(ZeroDivisionError):
        run({"cells": [code("1 / 0")]})
