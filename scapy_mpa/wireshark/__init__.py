"""Wireshark: our findings for what its users keep open, and its findings compared with ours."""
