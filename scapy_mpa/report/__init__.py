"""The analysis of a capture as its users meet it: Python objects, text, JSON, CSV."""
