"""Scapy's packet classes of MPA, DDP and RDMAP, which know octets alone; importing a module of these imports Scapy."""
