"""Pictures that are compared with committed ones: what they are, and how they are drawn small."""

from __future__ import annotations

import io
from collections.abc import Mapping
from typing import TYPE_CHECKING

from simsys.contents.read import Content
from simsys.plots.drawing import styled
from simsys.plots.picture import draw
from tests.helpers.places import ROOT
from tests.helpers.plot_toys import load_sweep, serving, size_sweep, training

if TYPE_CHECKING:
    import numpy as np

FOLDER = ROOT / "tests" / "plots" / "references"
DPI = 50
PICTURES: Mapping[str, Content] = {
    "iteration_breakdown": training(),
    "pipeline": training(),
    "topology": training(),
    "latencies": serving(),
    "throughput_latency": load_sweep(),
    "scaling_efficiency": size_sweep(),
}


def png(name: str) -> bytes:
    """A picture as a small PNG file."""
    file = io.BytesIO()
    with styled():
        draw(PICTURES[name], name).savefig(file, format="png", dpi=DPI, metadata={"Software": None})
    return file.getvalue()


def pixels(content: bytes) -> np.ndarray:
    """Lightness of the pixels of a PNG file, 0 to 1: what is seen without colours."""
    import numpy as np
    from PIL import Image

    with Image.open(io.BytesIO(content)) as image:
        return np.asarray(image.convert("L"), dtype=float) / 255.0


def coarse(lightness: np.ndarray, size: int = 8) -> np.ndarray:
    """Means over squares, so that another version of a font makes little difference."""
    rows, columns = (length // size * size for length in lightness.shape)
    squares = lightness[:rows, :columns].reshape(rows // size, size, columns // size, size)
    means: np.ndarray = squares.mean(axis=(1, 3))
    return means
