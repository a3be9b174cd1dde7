"""Recording: what was written and read as packets that scapy-mpa and Scapy read; what is made up says so."""

from __future__ import annotations

import random
import struct
from pathlib import Path

import pytest

from scapy_mpa.capture.pcapng import PcapngReader
from scapy_mpa.capture.files import open_captures
from scapy_mpa.craft.pcapngfile import PcapngWriter
from scapy_mpa.errors import MPAError
from scapy_mpa.live.recording import Recording
