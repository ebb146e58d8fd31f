"""One file per command; each calls a few functions and prints what they return."""
