"""The corpus of `freeze.py`: captures in an archive for each part, and an index of what is asked about them.

    captures   files that lie in folders, as they are
    malformed  the catalogue, each case repaired and with its CRC or lengths left
    crafted    every shipped scenario under everything that may happen to its packets (`VARIANTS`)
    mutated    the captures of `scripts/dev/fuzz_captures.py`, by seed and number

The same arguments give the same corpus at the same commit.  What `show` is asked about is chosen here, from an
analysis, so that two commits are later asked the same.
"""

from __future__ import annotations

import io
import json
import random
import zipfile
import zlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

from scapy_mpa.catalogue.malformed import Malformed
from scapy_mpa.catalogue.table import CASES
from scapy_mpa.craft.packets import SYN
from scapy_mpa.craft.pcapfile import SNAPLEN, PcapWriter
from scapy_mpa.craft.pcapngfile import PcapngWriter
from scapy_mpa.craft.scenario import load, shipped
from scapy_mpa.craft.segments import below
from scapy_mpa.craft.tcppacket import TcpPacket, octets_of
from scripts.dev.freeze_run import INDEX, Entry, Runner, commands
from scripts.dev.fuzz_captures import captures_of

T = TypeVar("T", int, str)

#: Of mutated captures, which take most of the time, every so many is annotated and shown.
SHOWN_EVERY = 3
#: Every so many is read under one of these, as if the user had said what no startup frame says.
ASSUMED_EVERY = 8
ASSUMED = (
    ("--profile", "culley-02"),
    ("--assume", "markers=yes,crc=yes"),
    ("--assume", "markers=no,crc=no"),
    ("--profile", "rddp-01", "--assume", "markers=initiator"),
)
_SUFFIXES = (".pcap", ".pcapng", ".cap", ".ntar", ".gz", ".zst")
#: A crafted capture of more octets is left out, but for the one that nothing happens to.
_MOST_OCTETS = 150_000

#: A file's name and octets, those that are merged with it, and options for every command.
Made = tuple[str, list[tuple[str, bytes]], Sequence[str]]
Change = Callable[[list[TcpPacket], random.Random], Iterable[TcpPacket]]


# --- what happens to crafted captures beside the impairments ---


def _without_startup(*roles: str) -> Change:
    """Nothing of a startup frame was captured, of these sides."""
    return lambda packets, rng: (
        packet for packet in packets if packet.in_operation or not packet.payload or packet.half.role not in roles
    )


def _without_handshake(packets: list[TcpPacket], rng: random.Random) -> Iterable[TcpPacket]:
    return (packet for packet in packets if not packet.flags & SYN)


def _only(role: str) -> Change:
    """The capture has one direction."""
    return lambda packets, rng: (packet for packet in packets if packet.half.role == role)


def _other_octets(packets: list[TcpPacket], rng: random.Random) -> Iterable[TcpPacket]:
    """Some segments come a second time with another octet, before or after the right one; both checksums are right."""
    for packet in packets:
        if packet.payload and packet.piece is None and not packet.damage and rng.random() < 0.1:
            other = packet._replace(damage=((below(rng, len(packet.payload)), 1 + below(rng, 255)),))
            yield from (packet, other) if rng.random() < 0.5 else (other, packet)
        else:
            yield packet


def _startup_again(packets: list[TcpPacket], rng: random.Random) -> Iterable[TcpPacket]:
    """The startup frames come again, somewhere after."""
    changed = list(packets)
    for at, packet in reversed([*enumerate(packets)]):
        if packet.payload and not packet.in_operation:
            changed.insert(at + 1 + below(rng, len(packets) - at), packet)
    return changed


def _shuffled(packets: list[TcpPacket], rng: random.Random) -> Iterable[TcpPacket]:
    """Neighbours change places, startup frames and handshake too."""
    changed = list(packets)
    for at in range(len(changed) - 1):
        if rng.random() < 0.2:
            changed[at], changed[at + 1] = changed[at + 1], changed[at]
    return changed


def _as_it_is(packets: list[TcpPacket], rng: random.Random) -> Iterable[TcpPacket]:
    return packets


class Variant(NamedTuple):
    """What happens to a scenario's packets: impairments, then a change; options of the commands; how many seeds."""

    impairments: tuple[str, ...] = ()
    change: Change = _as_it_is
    options: tuple[str, ...] = ()
    seeds: int = 1


_LOST = "lose:probability=0.15"
VARIANTS: dict[str, Variant] = {
    "plain": Variant(),
    "reorder": Variant(("reorder:probability=0.3,distance=8",), seeds=2),
    "duplicate": Variant(("duplicate:probability=0.3",)),
    "lose": Variant((_LOST,), seeds=2),
    "lose-resegmented": Variant((f"{_LOST},resegment=true",)),
    "lose-one-direction": Variant((f"{_LOST},direction=responder",)),
    "lost-for-good": Variant(("lose:probability=0.1,retransmit=false",), seeds=2),
    "overlap": Variant(("retransmit:probability=0.4",)),
    "overlap-conflict": Variant((), _other_octets),
    "corrupt": Variant(("corrupt:probability=0.15",)),
    "corrupt-repaired": Variant(("corrupt:probability=0.15,repaired=true",)),
    "fragment": Variant(("fragment",)),
    "fragment-reversed": Variant(("fragment:mtu=300,reverse=true", "reorder")),
    "capture-loss": Variant(("capture-loss:probability=0.1",), seeds=2),
    "cut-3": Variant(("cut:count=3",)),
    "cut-5": Variant(("cut:count=5",)),
    "cut-12": Variant(("cut:count=12",)),
    "cut-12-told": Variant(("cut:count=12",), options=("--assume", "markers=no,crc=yes")),
    "cut-20-lost": Variant(("cut:count=20", "lose:probability=0.1,retransmit=false")),
    "snap-60": Variant(("snap:length=60",)),
    "snap-300": Variant(("snap:length=300",)),
    "jitter": Variant(("jitter",)),
    "offload": Variant(("offload", "reorder")),
    "offload-zero": Variant(("offload:mode=zero",)),
    "no-startup": Variant((), _without_startup("initiator", "responder")),
    "no-request": Variant((), _without_startup("initiator")),
    "no-reply": Variant((), _without_startup("responder")),
    "no-handshake": Variant(("reorder",), _without_handshake),
    "startup-again": Variant((), _startup_again),
    "only-initiator": Variant((), _only("initiator")),
    "only-responder": Variant((), _only("responder")),
    "shuffled": Variant((), _shuffled),
    "everything": Variant(("reorder", "duplicate", "lose", "retransmit", "corrupt", "capture-loss"), seeds=2),
}
"""What happens to crafted captures, by name."""


def crafted() -> Iterator[Made]:
    """Every scenario under every variant; those that came out as another one are left out."""
    for scenario in shipped():
        seen: set[bytes] = set()
        for name, variant in VARIANTS.items():
            for seed in range(variant.seeds):
                octets = _crafted(scenario, variant, zlib.crc32(f"{scenario} {name} {seed}".encode()), bool(seed))
                is_new = (octets not in seen or bool(variant.options)) and len(octets) <= _MOST_OCTETS
                if name == "plain" or is_new:
                    yield f"{scenario}/{name}-{seed}", [(".pcapng" if seed else ".pcap", octets)], variant.options
                seen.add(octets)


def _crafted(scenario: str, variant: Variant, seed: int, as_pcapng: bool) -> bytes:
    loaded = load(scenario)
    traffic = loaded.traffic(variant.impairments)
    # The connection stays as the scenario has it, what happens to it is another matter in each.
    traffic.pipeline.seed = seed
    packets = variant.change(list(traffic.packets()), random.Random(seed))
    file = io.BytesIO()
    writer = (PcapngWriter if as_pcapng else PcapWriter)(file, snaplen=traffic.pipeline.snaplen or SNAPLEN)
    writer.write((packet.time, octets_of(packet)) for packet in packets)
    return file.getvalue()


# --- the other parts ---


def captures(folders: Sequence[Path]) -> Iterator[Made]:
    """The captures that lie in folders; one that is in several is taken once."""
    seen: set[bytes] = set()
    for folder in folders:
        for path in sorted(folder.rglob("*")):
            octets = path.read_bytes() if path.suffix in _SUFFIXES and path.is_file() else b""
            if octets and octets not in seen:
                seen.add(octets)
                yield f"{folder.name}/{path.relative_to(folder)}", [("".join(path.suffixes[-2:]), octets)], ()


def malformed() -> Iterator[Made]:
    """Every case of the catalogue, and again with its CRC or its lengths left, where it has that choice."""
    for name, case in CASES.items():
        for left in (None, *case.left):
            made = Malformed(case) if left is None else Malformed(case, **{left: "left"})  # type: ignore[arg-type]
            file = io.BytesIO()
            made.captured.write(file)
            yield (
                f"{name}-{left or 'repaired'}{'-left' if left else ''}",
                [(made.suffix, file.getvalue())],
                case.options,
            )


def mutated(seed: int, count: int) -> Iterator[Made]:
    """The captures of a seed from number 0 on."""
    for number in range(count):
        files = [(".pcap", one.octets) for one in captures_of(seed, number)]
        is_told = number % ASSUMED_EVERY == ASSUMED_EVERY - 3
        options = ASSUMED[number // ASSUMED_EVERY % len(ASSUMED)] if is_told else ()
        yield f"{number:06}", files, options


# --- writing it ---


def write_part(corpus: Path, part: str, made: Iterable[Made]) -> int:
    """Write the archive of a part and append to the index; return how many captures there are."""
    count = 0
    with (
        zipfile.ZipFile(corpus / f"{part}.zip", "w", zipfile.ZIP_DEFLATED, compresslevel=1) as archive,
        (corpus / INDEX).open("a", encoding="utf-8") as index,
        Runner() as runner,
    ):
        for name, files, options in made:
            names = [
                f"{name.removesuffix(suffix)}{f'-{n}' if n else ''}{suffix}" for n, (suffix, _) in enumerate(files)
            ]
            for file, (_, octets) in zip(names, files, strict=True):
                archive.writestr(zipfile.ZipInfo(file), octets, zipfile.ZIP_DEFLATED)
            entry = Entry(f"{part}/{name}", names, [*options], full=part != "mutated" or count % SHOWN_EVERY == 0)
            if entry.full:
                entry = _asked(runner, entry, [octets for _, octets in files])
            index.write(json.dumps(entry._asdict()) + "\n")
            count += 1
    return count


def _asked(runner: Runner, entry: Entry, octets: list[bytes]) -> Entry:
    """Choose what `show` is asked about: frames and FPDUs here and there, and where something was found."""
    runner.put(entry, octets)
    said = runner.run(dict(commands(entry))["analyze"])
    if said.status not in ("0", "1"):
        return entry._replace(frames=[1], fpdus=["0/initiator/0"])
    report: dict[str, Any] = json.loads(said.stdout)
    packets = report["packets"]
    found = [one for part in (report, *report["connections"]) for one in part["findings"]]
    frames = {1, 1 + packets // 4, 1 + packets // 2, packets, *(one["frame"] for one in found[:1])}
    fpdus = {"0/initiator/0", "0/initiator/3", "0/responder/0"}
    for connection in report["connections"][:: max(1, len(report["connections"]) - 1)]:  # the first, the last
        for side, half in connection["halves"].items():
            fpdus.add(f"{connection['connection']}/{side}/{max(0, half['fpdus'] - 1)}")
    seqs = {one["seq"]: None for one in (*found[:1], *found[-1:]) if one["seq"] is not None}
    rng = random.Random(entry.name)
    few = 3 if entry.part == "mutated" else 6
    return entry._replace(
        frames=sorted(_some(rng, frames, few)), fpdus=sorted(_some(rng, fpdus, few)), seqs=[*seqs][: few // 3]
    )


def _some(rng: random.Random, among: set[T], most: int) -> list[T]:
    """A few of them."""
    chosen = sorted(among)
    while len(chosen) > most:
        chosen.pop(below(rng, len(chosen)))
    return chosen
