"""TCP as a capture shows it: connections, where their sequence numbers are, octets as copies, what a receiver accepted.

Names are those of RFC 9293, 7323 and 2018.  Nothing in this room knows MPA.
"""
