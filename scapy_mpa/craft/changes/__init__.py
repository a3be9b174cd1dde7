"""Changes: what may be done to a valid ``Exchange``, each named, at one level, with parameters.

A change is written once. The catalogue fixes its parameters and names the findings that follow, the fuzzer draws them,
``craft`` gives impairments probabilities, and what breaks live connections applies the same objects. The modules in the
order of their levels:

* ``change``                 what a change is, and the table of all kinds (``KINDS``; ``table`` fills it)
* ``draws``                  what draws parameters
* ``startup``                startup frames, and parameters of the connection
* ``said``                   ULPDUs, their order, the end
* ``boundary``               fields of messages and startup frames at boundary values
* ``fpdu``                   FPDUs as they lie in the stream
* ``packets``, ``injected``  TCP packets, one by one; those of others; ``craft.impairments``: what networks do to them
* ``capture``                what of them is captured
"""
