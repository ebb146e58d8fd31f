"""Schemas of the files that users write (experiments and hardware profiles), and their reading and validation.

Start with `experiment.py`, the schema of a scenario, and `loader.py`, which keeps the place of every value;
`validation.py` turns errors into messages with file, line and suggestion, `hardware.py` finds profiles by name.
May import: data, errors, input_files, model, sums, units.
"""
