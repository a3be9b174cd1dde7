"""One analysis by many machines, on Dask: captures are read in parallel, and TCP connections divided among workers."""
