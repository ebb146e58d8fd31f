"""Pictures of results by matplotlib, as PNG or SVG; each kind of picture is known by its name.

Start with `kind.py`, which registers kinds; a file of `simsys.plots.kinds` has those of a family, so a new kind is one
function there. `picture.py` draws and writes them, `drawing.py` holds what all share, `observed.py` gets the data that
result files do not have, and `visualizer.py` offers functions for own data.
May import: everything but cli, commands, simulator, testing.
"""
