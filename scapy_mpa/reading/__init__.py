"""One pass over captures: what is asked, how segments are read, and who listens."""
