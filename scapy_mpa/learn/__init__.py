"""Learns what a live peer does as a state machine, and compares it with that of RFC 5044: ``scapy-mpa probe --learn``.

::

    inputs (what is sent)  -> conversation (one connection) -> answers (what came back, in words)
    subject (all connections: a cache, bounds, answers that differ)  -> kv (AALpy's KV, which asks)
    machine (what was learned)  -> specified (what RFC 5044 has the peer do)  -> differences
                                -> written (text, JSON, Graphviz)
"""
