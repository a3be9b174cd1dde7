"""The structure-aware fuzzer: valid exchanges, a few things of which are changed, as captures.

A seed and a number determine a case. The changes are those of ``craft.changes``, drawn. The modules in the order in
which the data passes them:

* ``exchange``          exchanges, read from a capture
* ``baselines``         where they come from: scenarios, captures of the user's, cases of the catalogue
* ``catalogue``         how often which area is drawn, and what is malformed already
* ``draw``              the generator of a case, and choices by weight
* ``recipe``            what is drawn for a case: baseline, window, what was agreed on, TCP's habits, changes
* ``case``              a recipe -> packets, and what was changed where; ``run``: all cases of a seed
* ``writing``           cases -> captures and a log
* ``corpora``           the messages one by one, for other fuzzers
"""
