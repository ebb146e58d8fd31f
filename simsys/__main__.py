"""The command line as ``simsys`` and as ``python -m simsys``: interrupts are handled before anything is imported."""

from __future__ import annotations

from simsys import interrupts


def main() -> None:
    """Run the command line of this process."""
    interrupts.install()
    from simsys.cli import main as run

    run()


if __name__ == "__main__":
    main()
