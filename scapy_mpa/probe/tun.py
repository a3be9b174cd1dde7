"""A way for IP packets of an address that no kernel owns: a TUN device (Linux), which goes with whoever made it.

The kernel routes what is sent to that address into the device, and what is written to the device as if it had come from
a network.  It answers nothing in the name of the address, so that it resets no connection.
"""

from __future__ import annotations

import ipaddress
import os
import select
import shutil
import socket
import struct
import sys
from contextlib import suppress
from subprocess import PIPE

from scapy_mpa.errors import MPAError
from scapy_mpa.system.names import printable
from scapy_mpa.system.programs import started

#: What the device is called, unless another name is given.
DEVICE = "mpa-probe"
#: Octets of an IP packet, the same.
MTU = 1500
_TUN = "/dev/net/tun"
_TUNSETIFF = 0x400454CA
_IFF_TUN, _IFF_NO_PI = 0x0001, 0x1000
_LONGEST_PACKET = 1 << 16
#: Octets of a device's name (net/if.h).
_LONGEST_NAME = 15
_LEAST_MTU = {4: 576, 6: 1280}


class Tun:
    """A TUN device with a route to one address, as long as it is entered.

    Args:
        address: which is to be nobody's; IPv4 or IPv6.
        device: its name.
        mtu: octets of an IP packet.

    Raises MPAError, in one line that says what is missing: Linux, root, ``ip``, or a free address.
    """

    def __init__(self, address: str, device: str = DEVICE, mtu: int = MTU) -> None:
        if not sys.platform.startswith("linux"):
            raise MPAError("--raw needs a Linux TUN device")
        try:
            self.address = ipaddress.ip_address(address)
        except ValueError:
            raise MPAError(f"{printable(address)!r} is not an IP address") from None
        if not 0 < len(device) <= _LONGEST_NAME or not device.isascii() or not device.isprintable() or "/" in device:
            raise MPAError(f"{printable(device)!r} is not a device name: 1 to {_LONGEST_NAME} characters")
        if mtu < _LEAST_MTU[self.address.version]:
            raise MPAError(f"an MTU of {mtu} is below the minimum for IPv{self.address.version}")
        if _is_the_kernels(str(self.address), self.address.version):
            raise MPAError(f"{self.address} is an address of this host, so its kernel would reset the connections")
        self.mtu = mtu
        self._device = device
        self._end = _opened(device)
        try:
            self._ip("link", "set", device, "mtu", str(mtu), "up")
            self._ip("route", "add", f"{self.address}/{self.address.max_prefixlen}", "dev", device)
        except MPAError:
            os.close(self._end)
            raise

    def __enter__(self) -> Tun:
        return self

    def __exit__(self, *_error: object) -> None:
        os.close(self._end)

    def read(self, seconds: float) -> bytes | None:
        """The next IP packet that was sent to the address; None if none comes within this many seconds."""
        ready, _, _ = select.select([self._end], [], [], max(seconds, 0.0))
        if not ready:
            return None
        try:
            return os.read(self._end, _LONGEST_PACKET)
        except OSError:
            return None

    def write(self, packet: bytes) -> None:
        """Send an IP packet; one that the device does not take is lost, as on any way."""
        with suppress(OSError):
            os.write(self._end, packet)

    def _ip(self, *words: str) -> None:
        """Run ip(8)."""
        program = shutil.which("ip")
        if program is None:
            raise MPAError("--raw needs the program ip (package iproute2)")
        with started([program, *words], stdout=PIPE, stderr=PIPE) as process:
            _, said = process.communicate()
        if process.returncode:
            why = printable(said.decode(errors="replace").strip().splitlines()[0]) if said.strip() else "it failed"
            raise MPAError(f"ip {' '.join(words)}: {why}")


def _opened(device: str) -> int:
    """The device, made."""
    import fcntl

    try:
        end = os.open(_TUN, os.O_RDWR | os.O_CLOEXEC)
    except OSError as error:
        raise MPAError(f"--raw needs root: {_TUN}: {error.strerror}") from None
    try:
        fcntl.ioctl(end, _TUNSETIFF, struct.pack("16sH22x", device.encode(), _IFF_TUN | _IFF_NO_PI))
    except OSError as error:
        os.close(end)
        raise MPAError(f"--raw needs root: the device {device}: {error.strerror}") from None
    os.set_blocking(end, False)
    return end


def _is_the_kernels(address: str, version: int) -> bool:
    """Return True if the kernel has an address."""
    family = socket.AF_INET if version == 4 else socket.AF_INET6
    with suppress(OSError), socket.socket(family, socket.SOCK_DGRAM) as sock:
        sock.bind((address, 0))
        return True
    return False
