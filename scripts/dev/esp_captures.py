"""Writes pcaps/esp/ again: four captures of MPA under IPsec's ESP, and the keys of all of them (esp_sa).

python -m scripts.dev.esp_captures [FOLDER]
"""

from __future__ import annotations

import sys
from pathlib import Path

from scapy_mpa.craft.scenario import parse

FOLDER = Path(__file__).parents[2] / "pcaps" / "esp"
KEYS = "esp_sa"
#: What is captured, by name: the way under ESP, and the seed, so that keys differ.
CAPTURES = {
    "gcm-tunnel": ("aes-gcm", 1),
    "cbc-sha256-transport": ("aes-cbc,transport", 2),
    "null-tunnel-ipv6": ("null", 3),
    "gcm-transport-udp": ("aes-gcm,transport,udp", 4),
}
STEPS = ("initiator send 3000", "responder write 4000", "initiator read 2000")
_IPV6 = {"initiator": "fd00::1", "responder": "fd00::2"}


def made(folder: Path) -> None:
    """Write them."""
    folder.mkdir(parents=True, exist_ok=True)
    lines = []
    for name, (way, seed) in CAPTURES.items():
        parameters = {"esp": way, "mtu": 1400, **(_IPV6 if name.endswith("ipv6") else {})}
        if "transport" in way:
            # The SPIs are those of every first connection: other addresses tell them apart.
            parameters |= {"initiator": f"10.0.{seed}.1", "responder": f"10.0.{seed}.2"}
        traffic = parse("", name, seed=seed, parameters=parameters, steps=STEPS).traffic()
        with (folder / f"{name}.pcap").open("wb") as file:
            traffic.write(file)
        lines.append(traffic.key_lines())
    (folder / KEYS).write_text("".join(lines))


if __name__ == "__main__":
    made(Path(sys.argv[1]) if len(sys.argv) > 1 else FOLDER)
