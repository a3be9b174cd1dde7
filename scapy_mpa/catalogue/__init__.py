"""The malformed catalogue: every violation that the rules recognise, committed on purpose; both sides of each limit.

A case is a valid connection with one thing changed; what is changed, what the analysis must say of it and what a
conforming peer must do stand in one row of a table. The modules in the order in which the data passes them:

* ``peer``                    what a conforming peer must do, as a small closed vocabulary
* ``case``                    what a row of the table is
* ``baseline``                the valid connections
* ``mutation``                what a change is; ``frame`` changes startup frames, ``fpdu`` FPDUs, ``packet`` TCP
                              packets, ``wire`` what is captured
* ``areas``                   the tables, one module for each area; ``table``: all of them by name
* ``plan``                    what is said and sent, for changes to change -> the packets of the connection
* ``sent``                    an FPDU of it, as changes see it
* ``malformed``               the public face: one case, written to a capture
* ``manifest``, ``document``  the cases as JSON, as text and as a page of the documentation
"""
