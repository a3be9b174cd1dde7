"""Our layers in Scapy's lists: ``explore()`` and ``conf.layers`` find them as ``scapy.contrib.mpa``.

Scapy keeps a list of layers by module, and evaluates the names of modules where only ``scapy`` is known. A module of
another package raises NameError there, and none of Scapy's layers is listed (docs/upstream.md). So our layers stand
there under the name that Scapy's extensions have.
"""

from __future__ import annotations

import sys
from importlib import import_module

import scapy.contrib
from scapy.config import conf

#: The name of the module under which Scapy lists our layers.
LISTED_AS = "scapy.contrib.mpa"


def list_layers() -> None:
    """Put our layers together in Scapy's list of modules; calling it again does no harm."""
    ldict = conf.layers.ldict
    ours = [name for name in ldict if name.startswith("scapy_mpa.")]
    layers = [layer for name in ours for layer in ldict.pop(name) if not layer.__name__.startswith("_")]
    if layers:
        ldict[LISTED_AS] = [*ldict.get(LISTED_AS, ()), *layers]
    if LISTED_AS not in sys.modules:
        # What conf.exts.load("scapy-mpa") would have load_contrib("mpa") find.
        contrib = import_module("scapy_mpa.layers.contrib")
        sys.modules[LISTED_AS] = contrib
        setattr(scapy.contrib, "mpa", contrib)  # noqa: B010, what mypy knows of scapy.contrib has no such name
