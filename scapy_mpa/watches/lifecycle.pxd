cdef long long FEWEST_AFTER_ERROR, FEWEST_IN_VAIN

# Compiled as it is.
