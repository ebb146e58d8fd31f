"""`simsys measure`: profiles of the machine it runs on, from measured kernels, collectives and overheads."""
