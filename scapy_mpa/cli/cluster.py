"""The options of the commands that can be run by many machines."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import TYPE_CHECKING

import click
from click.core import ParameterSource

if TYPE_CHECKING:
    from scapy_mpa.cluster.run import Cluster

#: What does not go with a cluster, by its parameter, and why.
_NOT_OF_CLUSTER = {
    "streams": ("--stream", "reads octets without packets, which belong to one connection"),
    "interface": ("-i", "reads packets as they come"),
    "follow": ("--follow", "reads captures as they grow"),
    "esp": ("--esp", "decrypts packets in the order of all the captures"),
    "read_frames": ("--read-frames", "counts the frames of all the captures"),
    "jobs": ("--jobs", "divides the work among processes that each read everything"),
    "wants_buffers": ("--buffers", "reads all captures once more, in one process"),
    "order": ("--order placed", "follows the capture, which one process must do"),
}
_MOST_WORKERS = 1024


def divides_among_machines(command: Callable[..., int]) -> Callable[..., int]:
    """Add the options for workers beyond one process; goes below what reads captures."""
    for option in (
        click.option(
            "--shared",
            metavar="FOLDER",
            help="With --cluster tcp://...: a folder that all workers can write to, as fsspec names it: a path, or "
            "s3://bucket/folder. What the workers write there is removed at the end.",
        ),
        click.option(
            "--cluster",
            metavar="WHERE",
            help="Divide captures and connections among Dask workers: those of a scheduler (tcp://scheduler:8786), or "
            "this many on this machine (local:4). Needs scapy-mpa[cluster].",
        ),
    ):
        command = option(command)
    return command


def cluster_of(where: str | None, shared: str | None) -> Cluster | None:
    """The cluster of these options; raises :class:`click.UsageError` for what does not go with it."""
    if where is None:
        if shared is not None:
            raise click.UsageError("--shared names a folder for the workers: --cluster is missing")
        return None
    from scapy_mpa.cluster.run import Cluster, check_installed

    context = click.get_current_context()
    for parameter, (name, why) in _NOT_OF_CLUSTER.items():
        is_given = context.get_parameter_source(parameter) is ParameterSource.COMMANDLINE
        if is_given and context.params[parameter] != "stream":
            raise click.UsageError(f"{name} {why}: it cannot be used with --cluster")
    local = re.fullmatch(r"local:([0-9]{1,4})", where)
    if local is not None:
        workers = int(local[1])
        if not 1 <= workers <= _MOST_WORKERS:
            raise click.UsageError(f"--cluster local:N takes 1 to {_MOST_WORKERS} workers")
        check_installed()
        return Cluster(workers=workers, shared=shared)
    if not re.fullmatch(r"(tcp|tls|ws|wss)://[^\s/]+", where):
        raise click.UsageError(f"{where!r} is not a cluster such as tcp://scheduler:8786 or local:4")
    if shared is None:
        raise click.UsageError(f"--cluster {where} needs --shared FOLDER, which all workers can write to")
    check_installed()
    return Cluster(where, shared=shared)
