"""The fewest packets of a capture that still show one finding."""
