"""The shipped experiment files."""
