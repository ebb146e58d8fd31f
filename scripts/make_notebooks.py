"""Write the notebooks of `examples` from the scripts of the same names, with the outputs of an execution.

Usage: python scripts/make_notebooks.py [NAME ...], in an environment with the extra `notebooks`. Scripts are in the
percent format: cells begin with `# %%`, cells of text with `# %% [markdown]`.
"""

from __future__ import annotations

import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
FOLDER = ROOT / "examples"
TIMEOUT_S = 120


def notebook_of(script: Path) -> str:
    """Return the executed notebook of a script as JSON; cells have numbers as ids, so that equal runs are equal."""
    import jupytext
    import nbformat
    from nbclient import NotebookClient

    notebook = jupytext.read(script)
    notebook.cells.insert(0, nbformat.v4.new_code_cell("%matplotlib inline"))  # so that figures become pictures
    NotebookClient(notebook, timeout=TIMEOUT_S, resources={"metadata": {"path": str(ROOT)}}).execute()
    del notebook.cells[0]
    for number, cell in enumerate(notebook.cells):
        cell.id = f"cell-{number}"
        cell.metadata = {}
    notebook.metadata = {"kernelspec": {"display_name": "Python 3", "language": "python", "name": "python3"}}
    text: str = nbformat.writes(notebook)
    return text + "\n"


def main() -> int:
    """Write the notebooks that the arguments name, or all."""
    names = sys.argv[1:] or [path.stem for path in sorted(FOLDER.glob("*.py"))]
    for name in names:
        text = notebook_of(FOLDER / f"{name}.py")
        (FOLDER / f"{name}.ipynb").write_text(text, encoding="utf-8", newline="\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
