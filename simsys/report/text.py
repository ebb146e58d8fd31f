"""Numbers and lines for a narrow terminal."""

from __future__ import annotations

import textwrap
from decimal import Decimal

from simsys.units import Dimension, pretty

WIDTH = 80
LABEL = 16
HARD_SPACE = "\xa0"
"""No-break space; written as a space."""


def number(value: float | None) -> str:
    """Write a figure with three significant digits and no exponent; a dash if there is none.

    Example:
        >>> number(49847.2), number(5.8455), number(None)
        ('49,800', '5.85', '-')
    """
    return "-" if value is None else f"{Decimal(f'{value:.2e}'):,f}"


def time(seconds: float) -> str:
    """Write a time with the unit that suits it."""
    return pretty(seconds, Dimension.SECONDS)


def milliseconds(value: float | None) -> str:
    """Write a time given in milliseconds; a dash if there is none."""
    return "-" if value is None else time(value / 1e3)


def percent(share: float) -> str:
    """Write a fraction as a percentage."""
    return f"{share:.1%}".replace("%", " %")


def share(value: float) -> str:
    """Write a fraction as a percentage that is 100 or 0 only if it is exactly so.

    Example:
        >>> share(1.0), share(0.99999), share(0.5), share(0.0001)
        ('100.0 %', '>99.9 %', '50.0 %', '<0.1 %')
    """
    if 0.9995 <= value < 1.0:
        return ">99.9 %"
    return "<0.1 %" if 0.0 < value < 0.0005 else percent(value)


def wrap(text: str, first: str, rest: str) -> list[str]:
    """Break text into lines; a word too long for a line, such as a path, stays whole.

    Args:
        text: To break.
        first: What the first line begins with.
        rest: What the others begin with.
    """
    wrapper = textwrap.TextWrapper(WIDTH, first, rest, break_long_words=False, break_on_hyphens=False)
    return [line.replace(HARD_SPACE, " ") for line in wrapper.wrap(text)]


def row(label: str, text: str) -> list[str]:
    """The lines of a figure with its label."""
    return wrap(text, f"  {label:<{LABEL}}", " " * (LABEL + 2))


def tick_text(value: float) -> str:
    """A short text of a tick.

    Example:
        >>> tick_text(0.30000000000000004), tick_text(25000.0), tick_text(2e6)
        ('0.3', '25k', '2M')
    """
    for factor, unit in ((1e12, "T"), (1e9, "G"), (1e6, "M"), (1e3, "k")):
        if abs(value) >= factor * (10 if unit == "k" else 1):
            return f"{value / factor:.6g}{unit}"
    return f"{value:.6g}"
