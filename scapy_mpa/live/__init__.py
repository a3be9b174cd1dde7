"""Talks to a real peer: endpoints that are handed octets, and what carries them over TCP.

``endpoint`` is MPA's Initiator or Responder on one TCP connection, without a socket and without a clock; ``settings``
is what it is, ``events`` what it hands upwards, ``errors`` what it raises.  It has three parts: ``startup``, which
agrees with the peer (``frames`` collects one startup frame), ``incoming`` and ``outgoing``, the two half connections.

Above it are ``rdmap``, RDMAP of one connection with its ``buffers``, and upper layers (``speaker`` is what they have in
common): ``rping``, ``echo`` and ``script``, which says the steps of a scenario or ULPDUs as they are.

``driver`` carries all of it over the kernel's TCP, ``blocking`` an endpoint alone and without asyncio; ``recording``
makes a capture of it, ``telling`` lines and a log.
Nothing here imports Scapy.
"""
