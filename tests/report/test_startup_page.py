"""scapy-mpa startup: Request beside Reply, for each profile and ready-to-receive message as specifications say."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from jsonschema import Draft202012Validator

from scapy_mpa import analyze
from scapy_mpa.cli import cli
from scapy_mpa.craft.scenario import load, shipped
from scapy_mpa.framing.legacy import LegacyDepths, legacy_depths
from scapy_mpa.framing.startup import startup_frame
from tests.conftest import REPO, captures
from tests.craft.test_negotiated import CELL, CELLS

SCHEMA = json.loads((REPO / "scapy_mpa" / "report" / "startup.schema.json").read_text())


def run(*arguments: object) -> str:
    result = CliRunner().invoke(cli, [*map(str, arguments)], standalone_mode=False, catch_exceptions=False)
    return result.output


def pages(capture: Path) -> list[dict[str, Any]]:
    """What is said of each connection, by its JSON, which follows the schema."""
    said = json.loads(run("startup", capture, "--format", "json"))
    text = json.dumps(SCHEMA).replace('"additionalProperties": true', '"additionalProperties": false')
    Draft202012Validator.check_schema(SCHEMA)
    Draft202012Validator(json.loads(text)).validate(said)
    found: list[dict[str, Any]] = said["connections"]
    return found


def crafted(folder: Path, *arguments: str) -> list[dict[str, Any]]:
    path = folder / "a.pcap"
    said = ("--say", "initiator send 9") if arguments[0] == "--set" else ()
    run("craft", *arguments, *said, "-o", path)
    return pages(path)


def row(page: Mapping[str, Any], name: str) -> tuple[str | None, str | None, str | None]:
    (field,) = (field for field in page["fields"] if field["field"] == name)
    return field["offered"], field["answered"], field["agreed"]


# --- Markers and CRC (RFC 5044 §7.1.1), the kinds of RNICs (appendix C) ---


@pytest.mark.parametrize("m", [(0, 0), (0, 1), (1, 0), (1, 1)])
@pytest.mark.parametrize("c", [(0, 0), (0, 1), (1, 0), (1, 1)])
def test_m_rules_what_its_sender_receives_and_c_both(m: tuple[int, int], c: tuple[int, int], tmp_path: Path) -> None:
    (page,) = crafted(tmp_path, "--set", f"m=[{m[0]},{m[1]}]", "--set", f"c=[{c[0]},{c[1]}]")
    sends = {0: "sends no Markers", 1: "sends Markers"}
    assert row(page, "M (Markers), Request")[2] == f"the Responder {sends[m[0]]}"
    assert row(page, "M (Markers), Reply")[2] == f"the Initiator {sends[m[1]]}"
    assert row(page, "C (CRC)")[2] == ("CRC in use, both ways" if any(c) else "no CRC, either way")
    assert page["agreed"]["markers_from_initiator"] is bool(m[1])
    assert page["agreed"]["markers_from_responder"] is bool(m[0])


@pytest.mark.parametrize("name", CELLS)
def test_the_figures_of_rfc_5044(name: str, tmp_path: Path) -> None:
    found = crafted(tmp_path, name)
    for title, page in zip(load(name).titles, found, strict=True):
        parsed = CELL.fullmatch(title)
        assert parsed is not None
        if parsed[5] is None or page["reply"] is None:
            continue  # a close
        # The figures give Markers by who receives them.
        received = page["agreed"]["markers_from_responder"], page["agreed"]["markers_from_initiator"]
        assert received == (parsed[6] == "1", parsed[7] == "1"), title


@pytest.mark.parametrize(
    ("profile", "rev", "title"), [("rddp-01", 0, "draft"), ("rfc5044", 1, "RFC 5044"), ("rfc6581", 2, "RFC 6581")]
)
def test_each_profile(profile: str, rev: int, title: str, tmp_path: Path) -> None:
    (page,) = crafted(tmp_path, "--set", f'profile="{profile}"')
    assert page["profile"] == profile
    for said in row(page, "Rev")[:2]:
        assert said is not None and said.startswith(f"{rev} (") and title in said
    assert (page["request"]["enhanced"] is not None) == (profile == "rfc6581")


def test_without_startup_frames(tmp_path: Path) -> None:
    (page,) = crafted(tmp_path, "culley-02")
    assert page["request"] is page["reply"] is page["agreed"] is None
    assert "no startup frame captured" in run("startup", tmp_path / "a.pcap")


# --- RFC 6581 §9 ---

WORDS = {"send": "Send", "write": "RDMA Write", "read": "RDMA Read"}


@pytest.mark.parametrize(("kind", "flag"), [("send", "B"), ("write", "C"), ("read", "D")])
def test_each_ready_to_receive_message(kind: str, flag: str, tmp_path: Path) -> None:
    (page,) = crafted(tmp_path, f"rfc6581-rtr-{kind}")
    assert row(page, "Control Flag A") == ("peer-to-peer", "peer-to-peer", "peer-to-peer")
    offered, answered, both = row(page, f"Control Flag {flag}")
    assert offered == answered == f"zero-length {WORDS[kind]}" and both == "both support it"
    offered, answered, sent = row(page, "ready-to-receive")
    assert WORDS[kind] in str(offered) and answered is not None and WORDS[kind] in answered
    assert sent is not None and f"sent: zero-length {WORDS[kind]} at frame" in sent
    assert page["agreed"]["rtr_sent"] == kind and kind in page["agreed"]["rtr"]


def test_no_ready_to_receive_message_in_common(tmp_path: Path) -> None:
    (page,) = crafted(tmp_path, "rfc6581-no-matching-rtr")
    assert str(row(page, "ready-to-receive")[2]).startswith("nothing in common (error 7)")
    assert page["agreed"]["rtr"] == []


@pytest.mark.parametrize(
    ("request_", "reply", "agreed"),
    [
        # IRD and ORD of the Initiator, of the Responder; afterwards (RFC 6581 §9.1).
        ((8, 8), (8, 8), (8, 8, 8, 8)),
        ((8, 8), (4, 8), (8, 4, 4, 8)),
        ((8, 8), (8, 2), (8, 8, 8, 2)),
        ((0x3FFF, 8), (8, 0x3FFF), (None, 8, 8, None)),
    ],
)
def test_depths(
    request_: tuple[int, int], reply: tuple[int, int], agreed: tuple[int | None, ...], tmp_path: Path
) -> None:
    data = ", ".join(f"{{ird={ird}, ord={ord_}}}" for ird, ord_ in (request_, reply))
    (page,) = crafted(
        tmp_path, "--set", 'profile="rfc6581"', "--set", f"enhanced=[{data}]", "--say", "initiator send 9"
    )
    assert tuple(page["agreed"]["depths"].values()) == agreed
    words = ["left to the ULP" if depth is None else str(depth) for depth in agreed]
    assert row(page, "IRD")[2] == f"Initiator {words[0]}, Responder {words[2]}"
    assert row(page, "ORD")[2] == f"Initiator {words[1]}, Responder {words[3]}"


def test_a_rejection_agrees_on_nothing(tmp_path: Path) -> None:
    (page,) = crafted(tmp_path, "startup-rejected")
    assert page["rejected"] and page["agreed"] is None and row(page, "R (rejected)")[1] == "rejected"


# --- the older form of SMB Direct ---


@pytest.mark.parametrize("order", ["big", "little"])
def test_smb_direct_before_rfc_6581(order: str, tmp_path: Path) -> None:
    legacy = f'legacy=[{{ird=16, ord=4, byte_order="{order}"}}, {{ird=4, ord=16, byte_order="{order}"}}]'
    (page,) = crafted(tmp_path, "--set", 'ports=["", 5445]', "--set", legacy)
    octets = LegacyDepths(16, 4, order).encode()  # type: ignore[arg-type]
    assert octets == (bytes([0, 0, 0, 16, 0, 0, 0, 4]) if order == "big" else bytes([16, 0, 0, 0, 4, 0, 0, 0]))
    assert page["request"]["smb_direct_depths"] == {"ird": 16, "ord": 4, "byte_order": order}
    assert row(page, "IRD") == ("16", "4", "Initiator 16, Responder 4")
    assert row(page, "ORD") == ("4", "16", "Initiator 4, Responder 16")
    said = row(page, "Private Data, SMB Direct before RFC 6581")[0]
    assert said is not None and ("little-endian" in said) == (order == "little")
    found = {finding.rule.id for finding in analyze(tmp_path / "a.pcap").connections[0].findings}
    assert found == ({"ird-ord-byte-order"} if order == "little" else set())


def test_the_rules_of_ird_and_ord_hold_for_it(tmp_path: Path) -> None:
    legacy = "legacy=[{ird=2, ord=9}, {ird=4, ord=16}]"
    crafted(tmp_path, "--set", 'ports=["", 5445]', "--set", legacy)
    found = {finding.rule.id: finding for finding in analyze(tmp_path / "a.pcap").connections[0].findings}
    assert "ORD 16 in the Reply is above IRD 2" in found["ird-ord-responder-ord"].detail
    assert "IRD 4 in the Reply is below ORD 9" in found["ird-ord-responder-ird"].detail


@pytest.mark.parametrize(
    ("rev", "port", "octets", "found"),
    [
        (1, 5445, bytes(8), LegacyDepths(0, 0)),
        (1, 5445, bytes([0, 1, 0, 0, 0, 0, 0, 0]), LegacyDepths(256, 0, "little")),
        (1, 5445, bytes([0, 1, 0, 1, 0, 1, 0, 1]), None),
        (1, 5445, bytes(7), None),
        (2, 5445, bytes(8), None),
        (0, 5445, bytes(8), None),
        (1, 445, bytes(8), None),
    ],
)
def test_what_is_the_older_form(rev: int, port: int, octets: bytes, found: LegacyDepths | None) -> None:
    assert legacy_depths(startup_frame("request", rev=rev, s=0, private_data=octets), port) == found


# --- all captures ---


@pytest.mark.parametrize("path", captures(), ids=lambda path: path.stem)
def test_every_capture_has_pages(path: Path) -> None:
    report = analyze(path, fpdus=False)
    found = pages(path)
    assert [page["connection"] for page in found] == [one.number for one in report.connections]
    for page, one in zip(found, report.connections, strict=True):
        for name, frame in (("request", one.request_frame), ("reply", one.reply_frame)):
            assert (page[name] or {"frame": None})["frame"] == frame
        for frame in (page["request"], page["reply"]):
            if frame is not None:
                # Every octet is in one part.
                ends = [part["offset"] + part["length"] for part in frame["private_data"]]
                assert [0, *ends[:-1]][: len(ends)] == [part["offset"] for part in frame["private_data"]]
                assert (ends or [0])[-1] == frame["pd_length"]
    lines = run("startup", path).splitlines()
    assert sum(line.startswith("#") for line in lines) == len(found)


@pytest.mark.parametrize("name", shipped())
def test_every_scenario_has_pages(name: str, tmp_path: Path) -> None:
    assert crafted(tmp_path, name)
