"""Makes MPA traffic: what is said, laid as FPDUs in streams, cut in segments, sent, impaired, captured; and the truth.

Octets only: nothing here imports Scapy. The modules in the order in which the data passes them:

* ``setup``, ``conversation``     what two sides are, and who says what when, by the rules of the specifications;
                                  ``turns``: the same as values
* ``wanted``                      what parameters may be, whoever gives them
* ``messages``, ``ulpdus``        RDMAP messages cut in DDP segments, the content of FPDUs (``payload``: octets to fill
                                  them)
* ``stream``                      ULPDUs -> the octets of a half connection, and where each FPDU lies in them
* ``segmentation``, ``segments``  where a stream is cut into TCP segments
* ``talk``                        two parties of a TCP connection: sequence and acknowledgement numbers, handshake, FIN
* ``sending``                     a conversation -> its packets, as values (``tcppacket``)
* ``network``, ``impairments``    what happens to packets on their way and where they are captured (``injecting``: what
                                  others send)
* ``packets``, ``fragments``      Ethernet, IPv4 or IPv6 and TCP headers with right checksums
* ``pcapfile``, ``pcapngfile``    packets -> a capture file
* ``truth``, ``capturedhalf``     which FPDUs are to be found in the capture, and when
* ``exchange``, ``changes``       a conversation as values that are changed at each level, and what may be done to it
* ``traffic``                     all of it: conversations in, a capture and its truth out
* ``scenario``, ``steps``         the same from a TOML file, and from text; the folder ``scenarios`` has some
* ``bulk``                        a connection that moves as much as one asks for, at the least cost
"""
