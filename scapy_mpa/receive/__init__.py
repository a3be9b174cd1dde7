"""Segments in; startup frames, located, placed and delivered FPDUs out (RFC 5044 §6, appendix A.3-A.4).

Knows no files, no sockets and no Scapy: it is handed :data:`~scapy_mpa.values.segment.Segment` tuples.
"""
