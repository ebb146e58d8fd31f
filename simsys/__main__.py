"""The command line as ``python -m simsys``."""

from __future__ import annotations

from simsys.cli import main

if __name__ == "__main__":
    main()
