"""The structure-aware fuzzer: valid exchanges of messages, a few things of which are changed, as captures.

A seed and a number determine a case. The modules in the order in which the data passes them:

* ``exchange``          the messages of a connection, read from a capture
* ``baselines``         where exchanges come from: scenarios, captures of the user's, cases of the catalogue
* ``catalogue``         how often which area is drawn, and packets that are malformed already
* ``draw``              numbers
* ``recipe``            what is drawn for a case: baseline, window, what was agreed on, mutations
* ``units``, ``draft``  what both sides say, in parts that can be right or wrong
* ``mutations``         what is changed, one module for each area of the catalogue
* ``laying``            units -> TCP packets
* ``case``              a recipe -> packets, and what was changed where; ``run``: all cases of a seed
* ``writing``           cases -> captures and a log
* ``corpora``           the messages one by one, for other fuzzers
"""
