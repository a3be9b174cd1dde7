"""Numbers of the encapsulations around TCP: what is read and what craft makes have them from here."""

from __future__ import annotations

from typing import Final

#: EtherTypes (IEEE 802, IANA).
ETHERTYPE_IPV4, ETHERTYPE_IPV6, ETHERTYPE_VLAN, ETHERTYPE_QINQ = 0x0800, 0x86DD, 0x8100, 0x88A8
ETHERTYPE_MPLS, ETHERTYPE_PPPOE, ETHERTYPE_ETHERNET, ETHERTYPE_VNTAG = 0x8847, 0x8864, 0x6558, 0x8926
#: Those of what is not read, though there may be TCP in it.
NAMED_ETHERTYPES: Final = {
    0x88E5: "MACsec",
    0x88E7: "PBB",
    0x894F: "NSH",
    0x8909: "CMD",
    0xDADA: "EDSA",
    0x22F3: "TRILL",
    0x8903: "FabricPath",
}

#: IP protocols of what is not read, though there may be TCP in it.
NAMED_IP_PROTOCOLS: Final = {94: "IPIP", 97: "EtherIP", 115: "L2TPv3"}

#: UDP ports of what is read: VXLAN, also as Linux had it before IANA; VXLAN-GPE; Geneve.
VXLAN, VXLAN_GPE, GENEVE = "vxlan", "vxlan-gpe", "geneve"
TUNNELS: Final = (VXLAN, VXLAN_GPE, GENEVE)
VXLAN_PORT, LINUX_VXLAN_PORT, VXLAN_GPE_PORT, GENEVE_PORT = 4789, 8472, 4790, 6081
UDP_PORTS: Final = {VXLAN_PORT: VXLAN, LINUX_VXLAN_PORT: VXLAN, VXLAN_GPE_PORT: VXLAN_GPE, GENEVE_PORT: GENEVE}
#: Those of what is not read, though there may be TCP in it.
NAMED_UDP_PORTS: Final = {
    2152: "GTP-U",
    1701: "L2TP",
    3544: "Teredo",
    6080: "GUE",
    6635: "MPLS over UDP",
    51820: "WireGuard",
}
#: What VXLAN-GPE's next protocol is (draft-ietf-nvo3-vxlan-gpe §3): an EtherType; 4 is NSH.
GPE_PROTOCOLS: Final = {1: ETHERTYPE_IPV4, 2: ETHERTYPE_IPV6, 3: ETHERTYPE_ETHERNET, 4: 0x894F, 5: ETHERTYPE_MPLS}
#: The LLC header of SNAP with the OUI that an EtherType follows (IEEE 802, RFC 1042).
SNAP: Final = b"\xaa\xaa\x03\0\0\0"
