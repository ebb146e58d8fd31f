"""Whether the texts of a picture can be read: none covers another one, and none is cut off."""

from __future__ import annotations


def overlaps(figure: object) -> list[tuple[str, str]]:
    """Pairs of texts of a figure that cover each other by more than a rim, and texts that are cut off."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.text import Text

    canvas = FigureCanvasAgg(figure)  # type: ignore[arg-type]
    canvas.draw()
    renderer = canvas.get_renderer()
    hidden = {
        tick.label1
        for axes in figure.axes  # type: ignore[attr-defined]
        for axis in (axes.xaxis, axes.yaxis)
        for tick in (*axis.get_major_ticks(), *axis.get_minor_ticks())
        if not min(axis.get_view_interval()) <= tick.get_loc() <= max(axis.get_view_interval())
    }
    texts = [each for each in figure.findobj(Text) if each not in hidden]  # type: ignore[attr-defined]
    texts = [each for each in texts if each.get_visible() and each.get_text().strip()]
    boxes = [(each.get_text(), each.get_window_extent(renderer)) for each in texts]
    width, height = canvas.get_width_height()
    shown = [(text, box.padded(-2.0)) for text, box in boxes if box.x1 > 0 and box.y1 > 0 and box.x0 < width]
    cut = [
        (text, "the edge") for text, box in shown if min(box.x0, box.y0) < -3 or box.x1 > width + 3 or box.y1 > height
    ]
    pairs = [
        (one, other)
        for place, (one, first) in enumerate(shown)
        for other, second in shown[place + 1 :]
        if first.width > 0 and second.width > 0 and first.height > 0 and second.height > 0 and first.overlaps(second)
    ]
    return [*cut, *pairs]
