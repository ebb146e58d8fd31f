"""What result files hold: of a run, of a sweep, or what a command has printed as JSON.

Start with `read.py`, which reads any of them; `run.py` is also made from a result in memory, so that pages and
pictures have one source.
May import: everything but cli, commands, html, plots, simulator, testing.
"""
