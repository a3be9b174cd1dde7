"""What Wireshark finds in a capture: startup frames and FPDUs from pyshark's packets.

The packets are pyshark's, made of what tshark says, one at a time. Only the process is not left to pyshark: it would
be started under asyncio, which loses its exit status now and then and cannot be used where an event loop runs already.
Of each packet only what is compared is kept.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from subprocess import PIPE
from typing import IO, TYPE_CHECKING, Any

from scapy_mpa.framing.sequence import seq_add
from scapy_mpa.system.programs import started
from scapy_mpa.system.temporary import temporary_file
from scapy_mpa.tuples import NamedTuple
from scapy_mpa.values.encapsulation import UDP_PORTS
from scapy_mpa.wireshark.tshark import DISABLED, HOW_TO_INSTALL, PREFERENCES, ToolMissing, Tshark

if TYPE_CHECKING:
    from pyshark.packet.packet import Packet

    from scapy_mpa.capture.named import Sources

_MPA, _DDP, _DATA = "iwarp_mpa", "iwarp_ddp_rdmap", "DATA"
_PACKET_BEGIN, _PACKET_END = b"<packet>", b"</packet>"
#: Octets read from tshark at a time.
_AT_A_TIME = 1 << 16


class DissectedStartup(NamedTuple):
    """A startup frame as Wireshark shows it; of a field that its version lacks, None."""

    frame: int
    stream: int
    key: bytes
    kind: str
    values: dict[str, int | bytes]


class DissectedFPDU(NamedTuple):
    """An FPDU as Wireshark shows it.

    ``key``: addresses and ports of its sender and receiver; ``header_seq``: TCP sequence number of its ULPDU_Length,
    None if Wireshark does not tell; ``crc``: the octets of the CRC field as on the wire; ``verdict``: "good", "bad" or
    "unchecked"; ``fpduptrs`` of the Markers that it shows; ``ulpdu``: runs of octets of the ULPDU, by their index.
    """

    frame: int
    stream: int
    key: bytes
    header_seq: int | None
    ulpdu_length: int
    crc: bytes
    verdict: str
    fpduptrs: tuple[int, ...]
    ulpdu: tuple[tuple[int, bytes], ...]


Dissected = DissectedStartup | DissectedFPDU

_STARTUP_FIELDS = {
    "marker_flag": "m",
    "crc_flag": "c",
    "rej_flag": "r",
    "rev": "rev",
    "pdlength": "pd_length",
    "privatedata": "private_data",
}


class Dissection:
    """Wireshark's view of a capture file, packet by packet: iterate once.

    ``failure`` says afterwards why it ended before the capture did, or is None.
    """

    def __init__(
        self, path: str | os.PathLike[str], tshark: Tshark, packets: int | None = None, sources: Sources | None = None
    ) -> None:
        """``packets``: how many are read, if not all; ``sources`` has keys of ESP, and UDP ports of tunnels."""
        self._packet_of = _packet_maker()
        self._path = os.fspath(path)
        self._tshark = tshark
        self._packets = packets
        self._esp = None if sources is None else sources.esp
        self._udp_ports = UDP_PORTS if sources is None else {**UDP_PORTS, **sources.udp_ports}
        self.failure: str | None = None

    def __iter__(self) -> Iterator[Dissected]:
        """Yield what the packets hold; raises :class:`ToolMissing` if tshark cannot be run."""
        with ExitStack() as stack:
            said = stack.enter_context(temporary_file())
            try:
                process = stack.enter_context(started(self._command(), stdout=PIPE, stderr=said))
            except OSError as error:
                raise ToolMissing(f"{self._tshark.path} cannot be run: {error.strerror or error}") from error
            assert process.stdout is not None
            for octets in _packets(process.stdout):
                yield from dissected(self._packet_of(octets))
            status = process.wait()
            if status:
                said.seek(0)
                lines = said.read(_AT_A_TIME).decode(errors="replace").splitlines()
                told = " ".join(line for line in lines if "running as" not in line.lower())
                self.failure = f"tshark {self._tshark.version_text}: {told or f'status {status}'}"

    def _command(self) -> list[str]:
        preferences = [word for name, value in PREFERENCES.items() for word in ("-o", f"{name}:{value}")]
        if self._esp is not None:
            preferences += ["-o", "esp.enable_encryption_decode:TRUE"]
            preferences += [word for line in self._esp.lines for word in ("-o", f"uat:esp_sa:{line}")]
        for port, kind in self._udp_ports.items():
            preferences += ["-d", f"udp.port=={port},{kind.replace('-', '_')}"]
        disabled = [word for name in DISABLED for word in ("--disable-protocol", name)]
        count = [] if self._packets is None else ["-c", str(self._packets)]
        form = ["-n", "-l", "-T", "pdml", "-Y", _MPA]
        return [self._tshark.path, "-r", self._path, *count, *form, *preferences, *disabled]


def _packets(stream: IO[bytes]) -> Iterator[bytes]:
    """The packets of a PDML document, one by one."""
    held = bytearray()
    looked = 0
    while octets := stream.read1(_AT_A_TIME):  # type: ignore[attr-defined]
        held += octets
        while (end := held.find(_PACKET_END, looked)) >= 0:
            begin = held.find(_PACKET_BEGIN)
            yield bytes(held[max(begin, 0) : end + len(_PACKET_END)])
            del held[: end + len(_PACKET_END)]
            looked = 0
        looked = max(0, len(held) - len(_PACKET_END))


def _packet_maker() -> Callable[[bytes], Packet]:
    """pyshark's own reading of a packet; raises :class:`ToolMissing` if the package is not there."""
    try:
        from pyshark.tshark.output_parser.tshark_xml import packet_from_xml_packet
    except ImportError as error:
        raise ToolMissing(f"pyshark is not installed: {HOW_TO_INSTALL}") from error
    make: Callable[[bytes], Packet] = packet_from_xml_packet
    return make


def dissected(packet: Packet) -> Iterator[Dissected]:
    """Yield the MPA in a packet. Layers repeat: there is one for each FPDU, followed by those above it."""
    frame, stream = int(packet.number), 0
    addresses = b""
    ports = b""
    seq: int | None = None
    payload_at: int | None = None
    reassembled: int | None = None
    layers = packet.layers
    for index, layer in enumerate(layers):
        name = layer.layer_name
        fields = layer._all_fields
        if name in ("ip", "ipv6"):
            addresses = _raw(fields, f"{name}.src") + _raw(fields, f"{name}.dst")
        elif name == "tcp":
            ports = _raw(fields, "tcp.srcport") + _raw(fields, "tcp.dstport")
            stream = int(fields["tcp.stream"].show) if "tcp.stream" in fields else 0
            raw = _raw(fields, "tcp.seq_raw") or _raw(fields, "tcp.seq")
            seq = int.from_bytes(raw, "big") if len(raw) == 4 else None
            payload_at = _number(fields, "tcp.payload", "pos")
        elif name == _DATA and "tcp.segments" in fields:
            reassembled = _begin_of(fields, frame)
        elif name == _MPA:
            key = addresses + ports
            if "iwarp_mpa.req" in fields or "iwarp_mpa.rep" in fields:
                kind = "request" if "iwarp_mpa.req" in fields else "reply"
                yield DissectedStartup(frame, stream, key, kind, _startup(fields))
            elif "iwarp_mpa.ulpdulength" in fields:
                above = []
                for following in layers[index + 1 :]:
                    if following.layer_name == _MPA:
                        break
                    above.append(following)
                at = _number(fields, "iwarp_mpa.ulpdulength", "pos")
                header_seq = None
                if seq is not None and at is not None:
                    if reassembled is not None:
                        header_seq = seq_add(seq, reassembled + at)
                    elif payload_at is not None and at >= payload_at:
                        header_seq = seq_add(seq, at - payload_at)
                reassembled = None
                yield _fpdu(frame, stream, key, header_seq, fields, above)


def _raw(fields: dict[str, Any], name: str) -> bytes:
    """The octets of a field; none if it is not there."""
    found = fields.get(name)
    if found is None:
        return b""
    return _octets(found.main_field)


def _octets(field: Any) -> bytes:
    text = field.unmaskedvalue or field.raw_value or ""
    try:
        return bytes.fromhex(text)
    except ValueError:
        return b""


def _number(fields: dict[str, Any], name: str, attribute: str) -> int | None:
    found = fields.get(name)
    text = getattr(found.main_field, attribute) if found is not None else None
    return int(text) if text is not None and text.isdigit() else None


def _begin_of(fields: dict[str, Any], frame: int) -> int | None:
    """Return where reassembled octets begin, counted from this frame's first; None unless it is their last."""
    parts = fields["tcp.segment"].all_fields if "tcp.segment" in fields else []
    sizes = [(part.show, int(part.size)) for part in parts if part.size and part.size.isdigit()]
    if not sizes or sizes[-1][0] != str(frame):
        return None
    return sizes[-1][1] - sum(size for _, size in sizes)


def _startup(fields: dict[str, Any]) -> dict[str, int | bytes]:
    values: dict[str, int | bytes] = {}
    for name, ours in _STARTUP_FIELDS.items():
        found = fields.get(f"{_MPA}.{name}")
        if found is not None:
            # Of a flag the octet that holds it is not meant, but what it is.
            raw = found.main_field.raw_value or ""
            values[ours] = bytes.fromhex(raw) if ours == "private_data" else int(raw or "0", 16)
    return values


def _fpdu(
    frame: int, stream: int, key: bytes, header_seq: int | None, fields: dict[str, Any], above: list[Any]
) -> DissectedFPDU:
    shown = fields.get("iwarp_mpa.crc_check") or fields.get("iwarp_mpa.crc")
    said = shown.main_field.showname or "" if shown is not None else ""
    verdict = "good" if "(Good" in said else "bad" if "(Bad" in said else "unchecked"
    pointers = fields.get("iwarp_mpa.marker_fpduptr")
    fpduptrs = tuple(int(one.raw_value, 16) for one in pointers.all_fields) if pointers is not None else ()
    return DissectedFPDU(
        frame,
        stream,
        key,
        header_seq,
        int(_raw(fields, "iwarp_mpa.ulpdulength").hex() or "0", 16),
        _octets(shown.main_field) if shown is not None else b"",
        verdict,
        fpduptrs,
        tuple(_ulpdu(above)),
    )


def _ulpdu(above: list[Any]) -> Iterator[tuple[int, bytes]]:
    """Runs of octets of a ULPDU, as the fields of DDP, RDMAP and what is above them show them."""
    if not above or above[0].layer_name != _DDP:
        return
    begin = _number(above[0]._all_fields, "iwarp_ddp", "pos")
    if begin is None:
        return
    for layer in above:
        for container in layer._all_fields.values():
            for field in container.all_fields:
                octets = _octets(field)
                if octets and field.pos and field.pos.isdigit() and field.size == str(len(octets)):
                    at = int(field.pos) - begin
                    if at >= 0:
                        yield at, octets
