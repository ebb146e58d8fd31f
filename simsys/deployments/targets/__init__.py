"""The targets, one a module: each has a `TARGET`; `simsys.deployments.target_of` finds them without a list."""
