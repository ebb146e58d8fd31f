"""The targets, one a module: each has a `TARGET`, and is found by `simsys.emit.target_of` without being listed."""
