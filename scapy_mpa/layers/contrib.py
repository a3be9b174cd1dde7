# scapy.contrib.description = Marker PDU Aligned framing (MPA, iWARP)
# scapy.contrib.status = loads
"""Marker PDU Aligned framing (MPA, RFC 5044), with DDP and RDMAP: iWARP.

``load_contrib("mpa")`` loads it once ``conf.exts.load("scapy-mpa")`` has registered it as scapy.contrib.mpa. It
defines nothing: whoever comes this way gets the same objects as ``from scapy_mpa import ...``.
"""

from scapy_mpa.layers import *  # noqa: F403
from scapy_mpa.layers import __all__ as __all__
