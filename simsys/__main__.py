"""The command line as ``simsys`` and as ``python -m simsys``: interrupts are handled before anything is imported."""

from __future__ import annotations

import os
import sys

from simsys import interrupts


def main() -> None:
    """Run the command line of this process."""
    interrupts.install()
    os.environ["PYTHONSAFEPATH"] = "1"  # other processes do not import what lies in the current folder, either
    from simsys.cli import main as run

    try:
        run()
    finally:
        interrupts.end()


def _forget_current_folder() -> None:
    """``python -m`` imports what lies in the current folder; simsys does not, unless it lies there itself."""
    home = os.path.dirname(os.path.dirname(os.path.realpath(__file__)))
    if not sys.flags.safe_path and os.path.realpath(sys.path[0]) != home:
        del sys.path[0]


if __name__ == "__main__":
    interrupts.install()
    _forget_current_folder()
    main()
