"""What runs above RDMAP is dissected: NFS over RDMA, also when Markers were put into its connection."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from pathlib import Path

from click.testing import CliRunner

from scapy_mpa import analyze
from scapy_mpa.cli import cli
from tests.wireshark.reframed import with_markers
from tests.wireshark.tshark import fields, needs_tshark, tshark

pytestmark = needs_tshark


def calls(capture: Path) -> Counter[tuple[str, str]]:
    """Message type and XID of RPC calls and replies."""
    rows = fields(capture, "rpc.msgtyp", "rpc.xid", arguments=("-Y", "rpc && rpcordma"))
    return Counter(
        (kind, xid) for kinds, xids in rows for kind, xid in zip(kinds.split(","), xids.split(","), strict=False)
    )


def export(capture: Path, out: Path, *options: str) -> Path:
    result = CliRunner().invoke(cli, ["export", str(capture), str(out), *options], catch_exceptions=False)
    assert result.exit_code == 0
    return out


def test_nfs_with_and_without_markers(pcap: Callable[[str], Path], tmp_path: Path) -> None:
    nfs = pcap("siw-nfs4")
    want = calls(nfs)
    assert sum(want.values()) > 340 and {kind for kind, _ in want} == {"0", "1"}
    assert calls(export(nfs, tmp_path / "exported.pcapng")) == want
    marked = tmp_path / "marked.pcap"
    assert with_markers(nfs, marked) == 1154
    (connection,) = analyze(marked).connections
    counts = connection.initiator.counts, connection.responder.counts
    assert sum(one.fpdus for one in counts) == 1154 and sum(one.marker_count for one in counts) > 1000
    assert all(finding.severity == "note" for finding in connection.findings)
    # Wireshark alone cannot follow the Markers; what is exported of it is the same as before.
    assert sum(calls(marked).values()) < sum(want.values()) // 2
    assert calls(export(marked, tmp_path / "exported-marked.pcapng")) == want
    assert calls(export(marked, tmp_path / "stripped.pcapng", "--strip-markers")) == want
    protocols = tshark(tmp_path / "exported-marked.pcapng", "-T", "fields", "-e", "frame.protocols")
    assert sum(line.endswith("rpcordma:rpc:nfs") for line in protocols) > 300
