"""Makes MPA traffic: FPDUs laid in a stream, streams cut in segments, segments as packets of a capture.

Octets only: nothing here imports Scapy. The modules in the order in which the data passes them:

* `ulpdus`    DDP segments of RDMAP messages, the content of FPDUs
* `stream`    ULPDUs -> the octets of a half connection, and where each FPDU lies in them
* `segments`  where a stream is cut into TCP segments, and in which order they are seen
* `talk`      two parties of a TCP connection: sequence and acknowledgement numbers, handshake, FIN
* `packets`   Ethernet, IPv4 or IPv6 and TCP headers with right checksums
* `pcapfile`  packets -> a capture file
* `bulk`      all of them together: a connection that moves as much as one asks for
"""
