"""Changes of upper layers: every field of every header at a boundary value, and nothing of them in plain traffic."""

from __future__ import annotations

import io
from pathlib import Path

import pytest
from scapy.packet import Packet

from scapy_mpa.craft.changes.draws import NothingToChange
from scapy_mpa.errors import FramingError
from scapy_mpa.fuzz.baselines import baselines
from scapy_mpa.fuzz.case import FuzzCase, make
from scapy_mpa.fuzz.recipe import Recipe, Tcp
from scapy_mpa.fuzz.run import Fuzzer
from scapy_mpa.fuzz.upper import CHANGES, UPPER, fields_of, values
from scapy_mpa.fuzz.writing import LOG, write_capture
from scapy_mpa.messages.reading import iter_messages
from scapy_mpa.packet import fieldvalues
from scapy_mpa.packet.smbdirect import SMBDirectDataTransfer
from scapy_mpa.reading.analysis import analyze
from scapy_mpa.report.model import Report
from tests.cli.test_command import invoke
from tests.conftest import PCAPS, named

NFS = named("siw-nfs4")
NAMES = {"upper-boundary", "upper-field"}


def capture_of(case: FuzzCase) -> io.BytesIO:
    file = io.BytesIO()
    write_capture(file, [case])
    file.seek(0)
    return file


def report_of(case: FuzzCase) -> Report:
    return analyze(capture_of(case))


def names_of(fuzzer: Fuzzer, count: int = 200) -> set[str]:
    return {name for number in range(count) for name, _ in fuzzer.recipe(number).mutations}


def test_they_are_drawn_where_there_is_an_upper_layer_or_where_they_are_asked_for() -> None:
    plain = (None, baselines(captures=[str(PCAPS / "siw-rping.pcap")]), baselines(scenarios=["every-message"]))
    for begin in plain:
        assert not names_of(Fuzzer(1, begin)) & NAMES
        assert not names_of(Fuzzer(1, begin, by_message=True), 900) & NAMES
        assert names_of(Fuzzer(1, begin, areas=[UPPER])) == NAMES
        assert names_of(Fuzzer(1, begin, changes=["upper-field"])) == {"upper-field"}
    found = names_of(Fuzzer(1, baselines(captures=[str(NFS)])))
    assert found > NAMES
    assert len(found) > 40
    assert not names_of(Fuzzer(1, baselines(captures=[str(NFS)]), areas=["ddp"])) & NAMES


@pytest.mark.parametrize("message", fieldvalues.messages())
def test_every_field_of_every_message_takes_its_values(message: str) -> None:
    """Octets of the field alone are others, and what the layer computes."""
    for field, most in fieldvalues.fields_of(message).items():
        made = {value: fieldvalues.message_with(message, field, value) for value in values(most)}
        assert {0, most} <= made.keys()
        # What decides about the rest of the header may come out alike with two values.
        assert len({*made.values()}) == len(made)
        assert max(map(len, made.values())) < 9000
        with pytest.raises(FramingError):
            fieldvalues.message_with(message, field, most + 1)


def test_fields_that_a_list_counts_can_lie() -> None:
    made = fieldvalues.message_with("RPCRDMA", "writes.count", 0xFFFFFFFF)
    assert b"\xff\xff\xff\xff" in made
    assert {"reads.handle", "writes.segments.length", "reply.count"} <= fieldvalues.fields_of("RPCRDMA").keys()
    assert "ISCSIHeader.data_segment_length" in fieldvalues.fields_of("ISER")
    assert "NVMeConnectData.cntlid" in fieldvalues.fields_of("NVMeConnect")


def test_an_offset_that_lies_makes_no_padding() -> None:
    assert len(bytes(SMBDirectDataTransfer(data_offset=0xFFFFFFFF) / b"abc")) == 20 + 3
    assert len(bytes(SMBDirectDataTransfer(data_offset=64) / b"abc")) == 64 + 3


def recipe(mutation: tuple[str, int | str], capture: Path = NFS) -> Recipe:
    exchange = baselines(captures=[str(capture)]).exchanges()[0]
    return Recipe(1, 0, exchange, tcp=Tcp((1, 2)), mutations=(mutation,), by="initiator")


def test_a_message_of_its_own_comes_behind_all_else() -> None:
    """It is a valid FPDU with the next MSN: nothing is wrong but the field."""
    plain = report_of(make(recipe(("upper-boundary", 1))._replace(mutations=())))
    for field, value in (("credits", 0), ("reads.handle", 0xFFFFFFFF), ("version", 2)):
        case = make(recipe(("upper-boundary", f"message=RPCRDMA,field={field},value={value}")))
        assert [done.name for done in case.done] == ["upper-boundary"]
        assert case.done[0].cause == f"upper-boundary RPCRDMA {field}"
        report = report_of(case)
        assert report.connections[0].initiator.counts.fpdus == plain.connections[0].initiator.counts.fpdus + 1
        assert not {one.rule.id for one in report.all_findings()} - {one.rule.id for one in plain.all_findings()}
        assert report.connections[0].initiator.fpdus[-1].octets().count(value.to_bytes(4, "big")) >= 1


def test_a_field_of_what_was_said_changes_alone() -> None:
    before = [one.payload for one in iter_messages(NFS, payload=True) if one.direction == "initiator"]
    case = make(recipe(("upper-field", "number=1,field=credits,value=7")))
    after = [one.payload for one in iter_messages(capture_of(case), payload=True) if one.direction == "initiator"]
    assert len(before) == len(after)
    differ = [number for number, pair in enumerate(zip(before, after, strict=True)) if pair[0] != pair[1]]
    assert differ == [0]
    first, second = before[0], after[0]
    assert first is not None
    assert second is not None
    assert [at for at in range(len(first)) if first[at] != second[at]] == [11]
    assert second[8:12] == (7).to_bytes(4, "big")


@pytest.mark.parametrize(
    "parameters",
    ["number=1,field=nothing,value=1", "number=0,field=credits,value=1", "number=99999,field=credits,value=1"],
)
def test_what_finds_no_place_is_not_done(parameters: str) -> None:
    assert not make(recipe(("upper-field", parameters))).done
    exchange = baselines(captures=[str(PCAPS / "siw-rping.pcap")]).exchanges()[0].exchange()
    with pytest.raises(NothingToChange):
        CHANGES["upper-field"].parse(parameters).apply(exchange)


def test_the_same_numbers_give_the_same_octets() -> None:
    for begin in (None, baselines(captures=[str(NFS)])):
        one, other = (Fuzzer(3, begin, areas=[UPPER]) for _ in range(2))
        for number in range(12):
            assert capture_of(one.case(number)).getvalue() == capture_of(other.case(number)).getvalue()


def test_a_live_peer_gets_each_field_alone_first() -> None:
    fuzzer = Fuzzer(2, baselines(captures=[str(named("siw-nvme"))]), areas=[UPPER], by_message=True)
    asked = [*fields_of({"NVMe-oF"})]
    singles = [fuzzer.recipe(number).mutations for number in range(len(asked) + 1)]
    assert all(len(mutations) == 1 for mutations in singles)
    told = {str(mutations[0][1]).rpartition(",")[0] for mutations in singles if mutations[0][0] == "upper-boundary"}
    assert told == {f"message={message},field={field}" for message, field, _ in asked}
    assert {message for message, _, _ in asked} == {*fieldvalues.messages("NVMe-oF")}


def test_the_command(tmp_path: Path) -> None:
    result = invoke("fuzz", "--area", "upper", "--count", "5", "-o", str(tmp_path / "out"))
    assert result.exit_code == 0
    assert (tmp_path / "out" / LOG).read_text().count('"area": "upper"') >= 5
    listed = invoke("fuzz", "--list").stdout
    assert "upper (drawn if --from or --scenario has an upper layer, or if named):" in listed
    assert all(f"  {name} " in listed for name in NAMES)


def test_layers_are_known_by_the_names_of_messages() -> None:
    for message in fieldvalues.messages():
        layer = getattr(fieldvalues, message.partition("-")[0])
        assert issubclass(layer, Packet)
