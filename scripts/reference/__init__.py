"""Pages of the reference, each made from what the program itself uses. Start with `scripts/make_reference.py`."""
