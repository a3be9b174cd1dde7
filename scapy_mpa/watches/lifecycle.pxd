
# Compiled as it is.
