"""Talks to a real peer: endpoints that are handed octets, and what carries them over TCP.

``endpoint`` is MPA's Initiator or Responder on one TCP connection, without a socket and without a clock; ``settings``
is what it is, ``events`` what it hands upwards, ``errors`` what it raises.  It has three parts: ``startup``, which
agrees with the peer (``frames`` collects one startup frame), ``incoming`` and ``outgoing``, the two half connections.
Nothing here imports Scapy.
"""
