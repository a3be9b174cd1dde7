"""Captures without payload: what stays, and what does not."""
