"""``scapy-mpa-extcap``: interfaces as Wireshark lists them: without Markers, or with comments (extcap(4)).

Wireshark runs each program in its extcap folders: with ``--extcap-interfaces`` to list what it can capture from, with
``--capture`` to write a pcapng file to a named pipe, and ends it by a signal.
"""

from __future__ import annotations

import socket
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import click

from scapy_mpa.capture.link import ETHERNET, RAW
from scapy_mpa.cli import main as run
from scapy_mpa.version import __version__

#: What distinguishes names of these interfaces from the system's own.
_PREFIX: Final = "mpa-"
#: What distinguishes those further whose packets come with comments.
_COMMENTS: Final = "mpa-comments-"
#: Where Linux has the kind of an interface, and the kind of one without a link layer (ARPHRD_NONE), such as a tunnel's.
_KIND: Final = "/sys/class/net/{}/type"
_NO_LINK: Final = "65534"
_HELP: Final = "https://www.wireshark.org/docs/man-pages/extcap.html"
#: Octets that part the fields of what Wireshark reads.
_PARTING: Final = frozenset("{}")


@click.command("scapy-mpa-extcap", context_settings={"ignore_unknown_options": True, "allow_extra_args": True})
@click.option("--extcap-interfaces", "lists", is_flag=True, help="List the interfaces.")
@click.option("--extcap-interface", "interface", metavar="IFACE", help="The interface that is meant.")
@click.option("--extcap-dlts", "is_type_asked", is_flag=True, help="Name its link type.")
@click.option("--extcap-config", "is_config_asked", is_flag=True, help="List its options: it has none.")
@click.option("--extcap-capture-filter", "capture_filter", metavar="FILTER", help="Not supported.")
@click.option("--capture", "captures", is_flag=True, help="Capture from it.")
@click.option("--fifo", metavar="FILE", help="Where the packets go.")
def extcap(
    lists: bool,
    interface: str | None,
    is_type_asked: bool,
    is_config_asked: bool,
    capture_filter: str | None,
    captures: bool,
    fifo: str | None,
) -> None:
    """Have Wireshark capture MPA connections without their Markers, or all packets with comments on what they mean.

    Wireshark runs this itself: link it into a folder that Wireshark lists as an extcap path (Help, About, Folders).
    """
    if lists:
        click.echo("\n".join(_interfaces()))
    elif is_type_asked:
        click.echo(_link_type(interface or ""))
    elif captures:
        if interface is None or not interface.startswith(_PREFIX) or not fifo:
            raise click.UsageError(f"--capture needs --extcap-interface {_PREFIX}IFACE and --fifo FILE")
        if capture_filter:
            raise click.UsageError("capture filters are not supported: use a display filter")
        if interface.startswith(_COMMENTS):
            run(["annotate", "-i", interface.removeprefix(_COMMENTS), fifo])
        else:
            run(["export", "--strip-markers", "-i", interface.removeprefix(_PREFIX), fifo])
    elif capture_filter:
        click.echo("capture filters are not supported: use a display filter")


def _interfaces() -> Iterator[str]:
    yield f"extcap {{version={__version__}}}{{help={_HELP}}}"
    for _, name in socket.if_nameindex():
        if _PARTING.isdisjoint(name):
            yield f"interface {{value={_PREFIX}{name}}}{{display=MPA on {name}, Markers stripped}}"
            yield f"interface {{value={_COMMENTS}{name}}}{{display=MPA on {name}, with comments}}"


def _link_type(interface: str) -> str:
    """The link type of what an interface gives: of packets with comments that of the interface."""
    kind = Path(_KIND.format(interface.removeprefix(_COMMENTS)))
    if interface.startswith(_COMMENTS) and kind.is_file() and kind.read_text().strip() != _NO_LINK:
        return f"dlt {{number={ETHERNET}}}{{name=EN10MB}}{{display=Ethernet}}"
    return f"dlt {{number={RAW}}}{{name=RAW}}{{display=Raw IP}}"


def main() -> None:
    """Answer what Wireshark asks, and exit."""
    extcap()
