"""What a user writes: schemas of experiments and hardware profiles, and how files are read and validated.

Start with `experiment.py`, the schema of a scenario, and `loader.py`, which keeps the place of every value;
`validation.py` turns errors into messages with file, line and suggestion, `hardware.py` finds profiles by name.
May import: data, errors, input_files, model, units.
"""
