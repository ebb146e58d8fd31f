"""One HTML file that answers by itself: figures, pictures, sortable tables, warnings and sources.

Start with `page.py`, which renders the blocks of `blocks.py` by `page.html`, `page.css` and `page.js`. `charts.py`
draws the pictures as SVG by `svg.py` and `scales.py`. `sources.py` reads results; the other files lay them out.
May import: everything but cli, commands, simulator, testing.
"""
