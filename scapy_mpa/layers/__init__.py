"""MPA, DDP and RDMAP as Scapy layers, their binding to TCP, and a socket.

Importing this imports Scapy. It changes nothing in Scapy for other protocols: TCP payloads that begin with the
Key of a startup frame are dissected as such, and that is all (see ``binding``).
"""

from __future__ import annotations

from scapy_mpa.layers.contrib import *  # noqa: F403
from scapy_mpa.layers.contrib import __all__ as __all__
from scapy_mpa.layers.listing import list_layers

list_layers()
