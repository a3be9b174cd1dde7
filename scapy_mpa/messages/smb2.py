"""SMB2's header in what SMB Direct transfers: a request and its response have the MessageId in common (MS-SMB2 §2.2.1).

Of messages that are compounded the first one counts. What is encrypted, or continues an SMB2 message that one Send does
not hold, has no header.
"""

from __future__ import annotations

from struct import Struct
from typing import Final

from scapy_mpa.tuples import NamedTuple
from scapy_mpa.ulp.header import UpperHeader
from scapy_mpa.ulp.identify import UpperLayer
from scapy_mpa.ulp.smbdirect import SMB2_ID

_HEADER: Final = Struct("<4xHHIHHIIQ")
_RESPONSE_FLAG: Final = 1
#: A response that says that another one will follow (MS-SMB2 §3.3.4.2).
_PENDING: Final = 0x00000103
#: What has no response (MS-SMB2 §3.2.5.2).
_CANCEL: Final = 12
#: MS-SMB2 §2.2.1.2.
_COMMANDS: Final = (
    *("NEGOTIATE", "SESSION_SETUP", "LOGOFF", "TREE_CONNECT", "TREE_DISCONNECT", "CREATE", "CLOSE", "FLUSH", "READ"),
    *("WRITE", "LOCK", "IOCTL", "CANCEL", "ECHO", "QUERY_DIRECTORY", "CHANGE_NOTIFY", "QUERY_INFO", "SET_INFO"),
    "OPLOCK_BREAK",
)
#: The call that is answered when something happens.
CHANGE_NOTIFY: Final = "SMB2 CHANGE_NOTIFY"


class SMB2Message(NamedTuple):
    """The content of an SMB2 header: the command by name, the MessageId, and whether it is a response."""

    command: str
    message_id: int
    is_response: bool


def smb2_message(octets: bytes, at: int) -> SMB2Message | None:
    """Return what the SMB2 header at an index says; None if there is none, or no response answers it, or it is none."""
    if octets[at : at + len(SMB2_ID)] != SMB2_ID or len(octets) < at + _HEADER.size:
        return None
    _, _, status, command, _, flags, _, message_id = _HEADER.unpack_from(octets, at)
    is_response = bool(flags & _RESPONSE_FLAG)
    if command == _CANCEL or (is_response and status == _PENDING):
        return None
    name = f"SMB2 {_COMMANDS[command]}" if command < len(_COMMANDS) else f"SMB2 command {command}"
    return SMB2Message(name, message_id, is_response)


class UpperLayerWithSMB2(UpperLayer):
    """The upper layer of a connection, which examines what SMB Direct transfers."""

    def see_send(self, octets: bytes, length: int, is_from_initiator: bool) -> UpperHeader | None:
        """Do as the base class; the values of SMB Direct's header include those of SMB2, if there is one."""
        header = super().see_send(octets, length, is_from_initiator)
        if header is None or not header.values.get("data_length"):
            return header
        found = smb2_message(octets, header.values["data_offset"])
        return header if found is None else header._replace(values={**header.values, "smb2": found._asdict()})
