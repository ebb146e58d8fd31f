"""Drawing as SVG: shapes with classes instead of styles, so that the page's style sheet colours them."""

from __future__ import annotations

from collections.abc import Iterable
from html import escape


class Drawing:
    """Shapes in pixels, from the upper left.

    Args:
        width: Width.
        height: Height.
        title: What it shows, for people who cannot see it.
    """

    def __init__(self, width: float, height: float, title: str) -> None:
        self.width, self.height, self.title = width, height, title
        self._parts: list[str] = []

    def rect(self, x: float, y: float, width: float, height: float, kind: str, tip: str = "") -> None:
        """A rectangle of some classes, with a tooltip."""
        size = f'width="{_text(max(0.0, width))}" height="{_text(max(0.0, height))}"'
        self._shape(f'rect class="{kind}" x="{_text(x)}" y="{_text(y)}" {size}', "rect", tip)

    def circle(self, x: float, y: float, radius: float, kind: str, tip: str = "") -> None:
        """A disk of some classes, with a tooltip."""
        self._shape(f'circle class="{kind}" cx="{_text(x)}" cy="{_text(y)}" r="{_text(radius)}"', "circle", tip)

    def line(self, x1: float, y1: float, x2: float, y2: float, kind: str, tip: str = "") -> None:
        """A line of some classes, with a tooltip."""
        ends = f'x1="{_text(x1)}" y1="{_text(y1)}" x2="{_text(x2)}" y2="{_text(y2)}"'
        self._shape(f'line class="{kind}" {ends}', "line", tip)

    def curve(self, points: Iterable[tuple[float, float]], kind: str, tip: str = "") -> None:
        """A line through many points."""
        listed = " ".join(f"{_text(x)},{_text(y)}" for x, y in points)
        self._shape(f'polyline class="{kind}" points="{listed}"', "polyline", tip)

    def text(self, x: float, y: float, text: str, kind: str = "") -> None:
        """A line of text; its class says which end is at `x`."""
        self._parts.append(f'<text class="{kind}" x="{_text(x)}" y="{_text(y)}">{escape(text)}</text>')

    def _shape(self, tag: str, name: str, tip: str) -> None:
        self._parts.append(f"<{tag}><title>{escape(tip)}</title></{name}>" if tip else f"<{tag}/>")

    def __str__(self) -> str:
        head = f'<svg viewBox="0 0 {_text(self.width)} {_text(self.height)}" width="{_text(self.width)}" role="img"'
        return f'{head} aria-label="{escape(self.title)}">{"".join(self._parts)}</svg>'


def _text(value: float) -> str:
    return f"{value:.1f}".rstrip("0").rstrip(".")
