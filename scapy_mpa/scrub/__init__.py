"""Captures without payload, Private Data and addresses, in which MPA, DDP and RDMAP say what they said."""
