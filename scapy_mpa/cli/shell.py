"""``scapy-mpa shell``."""

from __future__ import annotations

import logging

import click

from scapy_mpa.cli.group import Command

BANNER = """\
scapy-mpa {version}: MPA, DDP and RDMAP are loaded; so are analyze(), MPASession, MPASocket and bind_mpa().
  look:  sniff(offline="a.pcap", session=MPASession).summary()      report = analyze("a.pcap")
  build: FPDU() / DDPUntagged() / RDMAPSend() / b"payload"          ls(FPDU)      hexdump(...)"""


@click.command("shell", cls=Command)
def shell_command() -> int:
    """Open an interactive Scapy shell with everything from scapy-mpa loaded (in IPython if it is installed)."""
    from scapy.config import conf
    from scapy.main import interact

    import scapy_mpa
    from scapy_mpa.system.ending import usual_signals

    names = {name: getattr(scapy_mpa, name) for name in scapy_mpa.__all__}
    # Scapy shows a banner of ours in IPython only.
    click.echo(BANNER.format(version=scapy_mpa.__version__))
    conf.fancy_banner = False
    with usual_signals():  # Ctrl-C is for what runs at the prompt
        interact(mydict=names, argv=["scapy-mpa"], loglevel=logging.ERROR)
    return 0
