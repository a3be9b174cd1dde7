"""The malformed catalogue: every violation that the rules recognise, committed on purpose; both sides of each limit.

A case is a valid connection with one thing changed; what is changed, what the analysis must say about it and what a
conforming peer must do stand in one row of a table. The modules in the order in which the data passes them:

* ``peer``                    what a conforming peer must do, as a small closed vocabulary
* ``case``                    what a row of the table is, and its ``craft.exchange.Exchange``
* ``baseline``                the valid connections
* ``areas``                   the tables, one module for each area, whose rows fix the parameters of ``craft.changes``;
                              ``table``: all of them by name, and cases of a single change
* ``malformed``               the public face: one case, written to a capture
* ``manifest``, ``document``  the cases as JSON, as text and as a page of the documentation
"""
