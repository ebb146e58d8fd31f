"""The shipped framework modules, one per file; simsys finds them by name."""
