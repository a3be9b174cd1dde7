"""``python -m scapy_mpa``: the command."""

from __future__ import annotations

from scapy_mpa.cli import main

if __name__ == "__main__":
    main()
