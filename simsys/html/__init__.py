"""One HTML file that answers by itself: figures, pictures, sortable tables, warnings and sources.

Start with `page.py`, which renders the blocks of `blocks.py` by `page.html`, `page.css` and `page.js`. `charts.py` draws
the pictures as SVG by `svg.py` and `scales.py`. `run.py` lays out the results of runs that `results.py` has read.
May import: everything but cli, commands, simulator, testing.
"""
