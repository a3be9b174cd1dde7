"""Talks to a real peer: MPA, RDMAP and simple upper layers without sockets, and what drives them over TCP.

* ``rdmap``, ``buffers``  RDMAP of one connection, ULPDUs in and out: tagged buffers, queues, Requests, Terminate
* ``rping``, ``echo``     upper layers on it, as either side
"""
