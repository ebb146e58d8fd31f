"""The commands of `simsys`, one per file: each reads its options, calls one or two functions and prints the result.

Start with `run.py`; `options.py` has what commands share. A new command is a new file, listed in `simsys/cli.py`.
Much is imported within functions, so that `simsys --help` and errors come at once.
May import: everything but cli.
"""
