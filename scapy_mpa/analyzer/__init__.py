"""The receiver and the rules put together: segments of a capture in, MPA connections with counts and findings out.

:class:`~scapy_mpa.analyzer.analyzer.Analyzer` hands each segment to its TCP connection, takes what the readers of both
directions found, and hands that, as values, to the watches.  It owns the connections that are kept for the report.
"""
