"""One pass over captures: what is asked for, how segments are read, and who receives the results."""
