"""Tests of scapy_mpa.framing."""
