"""The errors of scapy-mpa.

Malformed traffic is data and becomes a finding, never an exception. An exception means that the caller, or
the file the caller named, cannot be used; its message says what was wrong, where, and what was expected.
"""

from __future__ import annotations


class MPAError(Exception):
    """The root of everything that scapy-mpa raises on purpose; ``str()`` of it is a message for people."""


class CaptureError(MPAError):
    """A capture cannot be read: not a capture, damaged before its first packet, or of an unknown kind."""


class FramingError(MPAError, ValueError):
    """The caller asked for what the format cannot express, or gave octets that do not have that format."""
