"""Services of the operating system: files that are written, temporary ones, programs, signals, names."""
