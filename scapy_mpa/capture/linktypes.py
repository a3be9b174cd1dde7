"""Names of the pcap link types (tcpdump.org's LINKTYPE_ numbers), and why one that is not read is not.

In: a link type. Out: a line that names it, for an error or a note of the report. What is read:
:mod:`~scapy_mpa.capture.link`.
"""

from __future__ import annotations

from typing import Final

from scapy_mpa.capture.notes import Notes

#: Link types whose frames may hold IP, by number.
_MAY_HOLD_IP: Final = {
    0: "NULL",
    1: "ETHERNET",
    2: "EXP_ETHERNET",
    3: "AX25",
    6: "IEEE802_5",
    7: "ARCNET_BSD",
    8: "SLIP",
    9: "PPP",
    10: "FDDI",
    12: "RAW",
    14: "RAW",
    50: "PPP_HDLC",
    51: "PPP_ETHER",
    99: "SYMANTEC_FIREWALL",
    100: "ATM_RFC1483",
    101: "RAW",
    102: "SLIP_BSDOS",
    103: "PPP_BSDOS",
    104: "C_HDLC",
    105: "IEEE802_11",
    106: "ATM_CLIP",
    107: "FRELAY",
    108: "LOOP",
    109: "ENC",
    113: "LINUX_SLL",
    114: "LTALK",
    117: "PFLOG",
    119: "IEEE802_11_PRISM",
    122: "IP_OVER_FC",
    123: "SUNATM",
    127: "IEEE802_11_RADIOTAP",
    129: "ARCNET_LINUX",
    130: "JUNIPER_MLPPP",
    131: "JUNIPER_MLFR",
    132: "JUNIPER_ES",
    133: "JUNIPER_GGSN",
    134: "JUNIPER_MFR",
    135: "JUNIPER_ATM2",
    136: "JUNIPER_SERVICES",
    137: "JUNIPER_ATM1",
    138: "APPLE_IP_OVER_IEEE1394",
    143: "DOCSIS",
    144: "LINUX_IRDA",
    163: "IEEE802_11_AVS",
    164: "JUNIPER_MONITOR",
    166: "PPP_PPPD",
    167: "JUNIPER_PPPOE",
    168: "JUNIPER_PPPOE_ATM",
    169: "GPRS_LLC",
    170: "GPF_T",
    171: "GPF_F",
    174: "JUNIPER_PIC_PEER",
    175: "ERF_ETH",
    176: "ERF_POS",
    178: "JUNIPER_ETHER",
    179: "JUNIPER_PPP",
    180: "JUNIPER_FRELAY",
    181: "JUNIPER_CHDLC",
    182: "MFR",
    183: "JUNIPER_VP",
    188: "IEEE802_16_MAC_CPS",
    192: "PPI",
    193: "IEEE802_16_MAC_CPS_RADIO",
    194: "JUNIPER_ISM",
    196: "SITA",
    197: "ERF",
    200: "JUNIPER_ST",
    202: "AX25_KISS",
    204: "PPP_WITH_DIR",
    205: "C_HDLC_WITH_DIR",
    206: "FRELAY_WITH_DIR",
    219: "MPLS",
    224: "FC_2",
    225: "FC_2_WITH_FRAME_DELIMS",
    226: "IPNET",
    228: "IPV4",
    229: "IPV6",
    232: "JUNIPER_VS",
    233: "JUNIPER_SRX_E2E",
    234: "JUNIPER_FIBRECHANNEL",
    237: "STANAG_5066_D_PDU",
    238: "JUNIPER_ATM_CEMIC",
    239: "NFLOG",
    240: "NETANALYZER",
    241: "NETANALYZER_TRANSPARENT",
    242: "IPOIB",
    243: "MPEG_2_TS",
    244: "NG40",
    247: "INFINIBAND",
    252: "WIRESHARK_UPPER_PDU",
    258: "PKTAP",
    259: "EPON",
    273: "DOCSIS31_XRA31",
    274: "ETHERNET_MPACKET",
    276: "LINUX_SLL2",
    280: "VPP_DISPATCH",
    281: "DSA_TAG_BRCM",
    282: "DSA_TAG_BRCM_PREPEND",
    284: "DSA_TAG_DSA",
    285: "DSA_TAG_EDSA",
    289: "ATSC_ALP",
    290: "ETW",
}

#: Link types of buses, radios and telephony that carry no IP.
_NO_IP: Final = {
    139: "MTP2_WITH_PHDR",
    140: "MTP2",
    141: "MTP3",
    142: "SCCP",
    165: "BACNET_MS_TP",
    177: "LINUX_LAPD",
    184: "A429",
    185: "A653_ICM",
    186: "USB_FREEBSD",
    187: "BLUETOOTH_HCI_H4",
    189: "USB_LINUX",
    190: "CAN20B",
    191: "IEEE802_15_4_LINUX",
    195: "IEEE802_15_4_WITHFCS",
    198: "RAIF1",
    199: "IPMB_KONTRON",
    201: "BLUETOOTH_HCI_H4_WITH_PHDR",
    203: "LAPD",
    207: "LAPB_WITH_DIR",
    209: "IPMB_LINUX",
    210: "FLEXRAY",
    211: "MOST",
    212: "LIN",
    213: "X2E_SERIAL",
    214: "X2E_XORAYA",
    215: "IEEE802_15_4_NONASK_PHY",
    216: "LINUX_EVDEV",
    217: "GSMTAP_UM",
    218: "GSMTAP_ABIS",
    220: "USB_LINUX_MMAPPED",
    221: "DECT",
    222: "AOS",
    223: "WIHART",
    227: "CAN_SOCKETCAN",
    230: "IEEE802_15_4_NOFCS",
    231: "DBUS",
    235: "DVB_CI",
    236: "MUX27010",
    245: "NFC_LLCP",
    246: "PFSYNC",
    248: "SCTP",
    249: "USBPCAP",
    250: "RTAC_SERIAL",
    251: "BLUETOOTH_LE_LL",
    253: "NETLINK",
    254: "BLUETOOTH_LINUX_MONITOR",
    255: "BLUETOOTH_BREDR_BB",
    256: "BLUETOOTH_LE_LL_WITH_PHDR",
    257: "PROFIBUS_DL",
    260: "IPMI_HPM_2",
    261: "ZWAVE_R1_R2",
    262: "ZWAVE_R3",
    263: "WATTSTOPPER_DLM",
    264: "ISO_14443",
    265: "RDS",
    266: "USB_DARWIN",
    267: "OPENFLOW",
    268: "SDLC",
    269: "TI_LLN_SNIFFER",
    270: "LORATAP",
    271: "VSOCK",
    272: "NORDIC_BLE",
    275: "DISPLAYPORT_AUX",
    278: "OPENVIZSLA",
    279: "EBHSCR",
    283: "IEEE802_15_4_TAP",
    286: "ELEE",
    287: "Z_WAVE_SERIAL",
    288: "USB_2_0",
}
_USER0, _USER15 = 147, 162

#: Wireshark writes the IP packets of all it dissects as exported PDUs, link type 252, which is read.
_CONVERTED: Final = 'tshark -r FILE -U "OSI layer 3" -w out.pcapng converts it'


def name_of(link_type: int) -> str | None:
    """The name of a link type after LINKTYPE_, None if it has none."""
    if _USER0 <= link_type <= _USER15:
        return f"USER{link_type - _USER0}"
    return _MAY_HOLD_IP.get(link_type) or _NO_IP.get(link_type)


def refusal(link_type: int) -> str:
    """Why frames of a link type that is not read are not, and what converts them."""
    name = name_of(link_type)
    if name is None:
        return f"link type {link_type} is not known"
    if link_type in _NO_IP:
        return f"link type {link_type} ({name}) holds no IP"
    if link_type in _MAY_HOLD_IP:
        return f"link type {link_type} ({name}) is not read: {_CONVERTED}"
    return (
        f"link type {link_type} ({name}) is private, and not read: if its frames are Ethernet, convert it with "
        "editcap -T ether FILE out.pcapng"
    )


def note_not_read(notes: Notes, frame: int, time: int, link_type: int) -> None:
    """Have the report say that a frame was not read for its link type; ``time`` in nanoseconds."""
    notes.add("link-type", frame, time, refusal(link_type))
