"""With Wireshark: what its users keep open is given our findings, and its findings are compared with ours."""
