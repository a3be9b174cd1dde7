"""Tests an implementation: gives it the cases of the catalogue over a live connection, and judges what it answers.

::

    catalogue -> reach (which role can be given it, by what)  -> fitting (laid for what this peer agreed to)
              -> script (octets, waits, ends)          -> exchange, on a carrier (the kernel's TCP)
              -> rawscript (all segments)              -> exchange, on rawcarrier (craft.tcp over tun)
              -> seen (what came back)                 -> judge (pass, fail, allowed, unsupported, ...)

``run`` does that for many cases, with a clean connection before the first and after each.  ``carrier`` knows
sockets, ``tun`` devices, and only ``programs`` starts any program.
"""
