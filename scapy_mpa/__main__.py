"""``python -m scapy_mpa``: the command."""

from __future__ import annotations

from scapy_mpa.system.cycles import look_seldom


def main() -> None:
    """Run the command, and do not look for cycles in its modules: they live as long as it does."""
    look_seldom()
    from scapy_mpa.cli import main as run

    run()


if __name__ == "__main__":
    main()
