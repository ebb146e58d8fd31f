"""Results as text, files and pages.

Start with `summary.py`, the answer of `simsys run`, and `export.py`, the files of a run; `text.py`, `listing.py`,
and `csv_table.py` are shared by the others. `outcome.py` carries the scenarios of a file out.
May import: everything but cli, commands, simulator, testing.
"""
