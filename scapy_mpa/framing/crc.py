"""CRC32c, the check value of an FPDU, and its field.

``crc32c(octets, crc=0)`` is the function of the ``crc32c`` package itself, without a layer of Python around it:
the receiver calls it once an FPDU. The field holds the value least significant octet first, as iSCSI sends
its digests (RFC 5044 §4.4).

Where the processor has no CRC32c instruction the package computes in software, three times slower or worse.
Only if the environment variable CRC32C_SW_MODE is ``none`` does it refuse, and then so does this module, when
called.
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

from scapy_mpa.errors import FramingError, MPAError

if TYPE_CHECKING:
    from crc32c import crc32c as crc32c

    from scapy_mpa.framing.markers import Octets

#: Octets of the CRC field, present whether CRCs are in use or not (RFC 5044 §4.1).
CRC_LENGTH = 4

CRC_RESIDUE = 0x48674BC7
"""The CRC32c of any octets followed by their own CRC field, least significant octet first."""


def _load_crc32c() -> Any:
    """Take ``crc32c`` out of the package's extension module.

    ``import crc32c`` also imports a command line and ``importlib.metadata``, 50 ms in all; the extension takes
    1 ms. Its name is not a promise of the package, so anything unexpected falls back to the plain import.
    """
    if "crc32c" not in sys.modules:
        try:
            from importlib.machinery import PathFinder

            package: Any = PathFinder.find_spec("crc32c")
            spec: Any = PathFinder.find_spec("crc32c._crc32c", package.submodule_search_locations)
            extension = spec.loader.create_module(spec)
            spec.loader.exec_module(extension)
            return extension.crc32c
        except (ImportError, AttributeError, TypeError):
            pass
    from crc32c import crc32c as function

    return function


def _usable(function: Any) -> Any:
    """The function, or, where the package refuses to compute, one that says what to do about it."""
    try:
        function(b"")
    except RuntimeError:

        def refuse(data: Octets, value: int = 0) -> int:
            raise MPAError("CRC32c: this processor has no instruction for it, and CRC32C_SW_MODE=none forbids software")

        return refuse
    return function


if not TYPE_CHECKING:
    crc32c = _usable(_load_crc32c())


def crc_field(crc: int) -> bytes:
    """The 4 octets of a CRC field with the value ``crc``, least significant octet first (RFC 5044 §4.4).

    Raises FramingError if ``crc`` is no unsigned number of 32 bits.
    """
    try:
        return crc.to_bytes(CRC_LENGTH, "little")
    except OverflowError:
        raise FramingError(f"CRC {crc:#x} does not fit 32 bits") from None


def crc_from_field(octets: Octets) -> int:
    """The value in a CRC field: its first 4 octets, least significant first (RFC 5044 §4.4).

    Raises FramingError if there are fewer than 4 octets.
    """
    if len(octets) < CRC_LENGTH:
        raise FramingError(f"a CRC field has {CRC_LENGTH} octets, not {len(octets)}")
    return int.from_bytes(octets[:CRC_LENGTH], "little")
