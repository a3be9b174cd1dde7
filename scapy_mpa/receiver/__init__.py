"""MPA over a captured stream: startup, FPDUs located, placed and delivered (RFC 5044 §4 to §8, appendix A).

It is the optimized MPA/TCP receiver of RFC 5044 §6, run over a capture.  It stands on :mod:`scapy_mpa.stream`.
"""
