"""TCP, as far as it decides what is real: state of a direction, and which segments its receiver takes."""
