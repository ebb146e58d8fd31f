"""What an image becomes: patches of a vision tower, and tokens of a prompt, as the processor of a model makes them.

Each class is one way to resize and cut an image. The formulas are those of the image processors of Hugging Face's
transformers, which vLLM uses, too; each class names its processor.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator
from dataclasses import dataclass
from math import ceil, floor, isqrt, sqrt
from typing import NamedTuple

from simsys.errors import UsageError

LONGEST_SIDE = 200
"""Largest ratio of the sides of an image that `smart_resize` of Qwen2-VL accepts."""


class ImageWork(NamedTuple):
    """One image, as a vision tower and a language model process it.

    Args:
        patches: Rows of the tower's matrix products, class tokens included.
        pairs: Query-key pairs of a layer with full attention; tiles of an image do not attend to each other.
        window_pairs: Query-key pairs of a layer with attention in windows; `pairs` if the tower has none.
        embeddings: Tokens that the projector hands to the language model, and that the encoder cache holds.
        prompt_tokens: Tokens of the prompt: embeddings and the separators that the processor adds.
    """

    patches: int
    pairs: int
    window_pairs: int
    embeddings: int
    prompt_tokens: int


class ImageGrid(ABC):
    """How the processor of a model resizes and cuts images."""

    @abstractmethod
    def of_size(self, height: int, width: int) -> ImageWork:
        """An image of a size in pixels.

        Raises:
            UsageError: The processor refuses such an image.
        """

    @abstractmethod
    def of_embeddings(self, embeddings: int) -> ImageWork:
        """An image that becomes this number of embeddings.

        Raises:
            UsageError: No image does.
        """


@dataclass(frozen=True)
class FixedGrid(ImageGrid):
    """Every image is resized to a square (``CLIPImageProcessor``, ``SiglipImageProcessor``).

    Args:
        patches: Patches of the square.
        class_tokens: Further rows of the tower.
        embeddings: Embeddings of an image: all patches, or fewer after pooling (Gemma 3: 256).
        separators: Tokens that the processor puts around them.
    """

    patches: int
    embeddings: int
    class_tokens: int = 0
    separators: int = 0

    def of_size(self, height: int, width: int) -> ImageWork:
        """The same for all sizes."""
        rows = self.patches + self.class_tokens
        return ImageWork(rows, rows * rows, rows * rows, self.embeddings, self.embeddings + self.separators)

    def of_embeddings(self, embeddings: int) -> ImageWork:
        """The only number there is."""
        if embeddings != self.embeddings:
            raise UsageError(f"every image becomes {self.embeddings} tokens in this model, not {embeddings}")
        return self.of_size(1, 1)


@dataclass(frozen=True)
class NativeGrid(ImageGrid):
    """Sides are rounded to whole merged patches, within limits of the area (``Qwen2VLImageProcessor``).

    With factor f = patch × merge, each side becomes round(side / f) · f. If the area exceeds `max_pixels`, both sides
    are divided by sqrt(area / `max_pixels`) and rounded down; below `min_pixels` they grow and are rounded up
    (``smart_resize`` in transformers/models/qwen2_vl/image_processing_qwen2_vl.py). merge² patches become one token.
    Windows are those of ``get_window_index`` (transformers/models/qwen2_5_vl/modeling_qwen2_5_vl.py), smaller at the
    right and lower edge.

    Args:
        patch: Side of a patch in pixels.
        merge: Patches along the side of the square that becomes one token.
        min_pixels: Smallest area.
        max_pixels: Largest area.
        window: Side of a window in pixels; 0 without windows.
        separators: Tokens that the processor or the chat template puts around an image.
    """

    patch: int
    merge: int
    min_pixels: int
    max_pixels: int
    window: int = 0
    separators: int = 2

    def of_size(self, height: int, width: int) -> ImageWork:
        """Rounded, and within the limits of the area."""
        if max(height, width) > LONGEST_SIDE * min(height, width):
            raise UsageError(
                f"sides of an image may differ by a factor of {LONGEST_SIDE} at most, not as {height} and {width}"
            )
        unit, area = self.patch * self.merge, height * width
        rows, columns = (max(1, round(side / unit)) for side in (height, width))
        if rows * columns * unit * unit > self.max_pixels:
            shrink = sqrt(area / self.max_pixels)
            rows, columns = (max(1, floor(side / shrink / unit)) for side in (height, width))
        elif rows * columns * unit * unit < self.min_pixels:
            stretch = sqrt(self.min_pixels / area)
            rows, columns = (ceil(side * stretch / unit) for side in (height, width))
        return self._of_tokens(rows, columns)

    def of_embeddings(self, embeddings: int) -> ImageWork:
        """An image that is as nearly square as its number of tokens allows."""
        area = embeddings * (self.patch * self.merge) ** 2
        if not self.min_pixels <= area <= self.max_pixels:
            least, most = (pixels // (self.patch * self.merge) ** 2 for pixels in (self.min_pixels, self.max_pixels))
            raise UsageError(f"an image becomes {max(1, least)} to {most} tokens in this model, not {embeddings}")
        rows = next(each for each in range(isqrt(embeddings), 0, -1) if embeddings % each == 0)
        return self._of_tokens(rows, embeddings // rows)

    def _of_tokens(self, rows: int, columns: int) -> ImageWork:
        tokens = rows * columns
        patches = tokens * self.merge**2
        windowed = patches * patches
        if self.window:
            side = self.window // self.patch // self.merge
            windowed = self.merge**4 * _squares(rows, side) * _squares(columns, side)
        return ImageWork(patches, patches * patches, windowed, tokens, tokens + self.separators)


def _squares(length: int, part: int) -> int:
    """The sum of the squares of the parts into which a length is cut."""
    return length // part * part**2 + (length % part) ** 2


@dataclass(frozen=True)
class RowsGrid(ImageGrid):
    """Images keep their aspect within a longest side, with a token after each row (``PixtralProcessor``).

    Larger images shrink by max(height, width) / `longest`, rounded down. Each side has
    (side − 1) // (patch · merge) + 1 tokens; each row ends with a token of its own
    (transformers/models/pixtral/image_processing_pixtral.py and processing_pixtral.py).

    Args:
        patch: Side of a patch in pixels.
        merge: Patches along the side of the square that becomes one token.
        longest: Longest side in pixels.
    """

    patch: int
    merge: int
    longest: int

    def of_size(self, height: int, width: int) -> ImageWork:
        """Shrunk if it is too large."""
        shrink = max(1.0, max(height, width) / self.longest)
        unit = self.patch * self.merge
        rows, columns = ((max(1, floor(side / shrink)) - 1) // unit + 1 for side in (height, width))
        return self._of_tokens(rows, columns)

    def of_embeddings(self, embeddings: int) -> ImageWork:
        """An image that is as nearly square as its number of tokens allows."""
        most = (self.longest - 1) // (self.patch * self.merge) + 1
        rows = next(each for each in range(isqrt(embeddings), 0, -1) if embeddings % each == 0)
        if embeddings // rows > most:
            raise UsageError(
                f"no image becomes {embeddings} tokens in this model: it has at most {most} rows and {most} columns"
            )
        return self._of_tokens(rows, embeddings // rows)

    def _of_tokens(self, rows: int, columns: int) -> ImageWork:
        tokens = rows * columns
        patches = tokens * self.merge**2
        return ImageWork(patches, patches * patches, patches * patches, tokens, tokens + rows)


@dataclass(frozen=True)
class TiledGrid(ImageGrid):
    """Images are cut into square tiles that do not attend to each other; the whole image comes as one more.

    Args:
        side: Side of a tile in pixels.
        patches: Rows of the tower for a tile, class tokens included.
        embeddings: Embeddings of a tile.
        most: Most tiles, without the whole image.
    """

    side: int
    patches: int
    embeddings: int
    most: int

    @abstractmethod
    def tiles(self, height: int, width: int) -> tuple[int, int]:
        """Rows and columns of tiles of an image."""

    @abstractmethod
    def separators(self, rows: int, columns: int) -> int:
        """Tokens that the processor puts between and around the tiles."""

    def of_size(self, height: int, width: int) -> ImageWork:
        """As many tiles as the processor chooses."""
        return self._of_tiles(*self.tiles(height, width))

    def of_embeddings(self, embeddings: int) -> ImageWork:
        """A row of tiles."""
        tiles, rest = divmod(embeddings, self.embeddings)
        if rest or not (tiles == 1 or 3 <= tiles <= self.most + 1):
            raise UsageError(
                f"an image becomes {self.embeddings} tokens in this model, or 3 to {self.most + 1} times as many, "
                f"not {embeddings}"
            )
        return self._of_tiles(1, max(1, tiles - 1))

    def _of_tiles(self, rows: int, columns: int) -> ImageWork:
        tiles = rows * columns + (rows * columns > 1)
        pairs, tokens = tiles * self.patches**2, tiles * self.embeddings
        return ImageWork(tiles * self.patches, pairs, pairs, tokens, tokens + self.separators(rows, columns))

    def arrangements(self) -> Iterator[tuple[int, int]]:
        """All rows and columns of at most `most` tiles, with fewer tiles first."""
        for tiles in range(1, self.most + 1):
            yield from ((tiles // each, each) for each in range(1, tiles + 1) if tiles % each == 0)


class LeastUpscaled(TiledGrid):
    """Tiles of Llama 4 (transformers/models/llama4/image_processing_llama4_fast.py, ``get_best_fit``).

    Of all arrangements into which the image fits without shrinking, the one that fits most closely; if there is none,
    the one that shrinks it least; of equal ones, the one with the fewest tiles. Each row of tiles has a token after
    each tile (processing_llama4.py, ``_prompt_split_image``), and an image three tokens of its own.
    """

    def tiles(self, height: int, width: int) -> tuple[int, int]:
        """The closest fit."""
        scales = {each: min(each[0] * self.side / height, each[1] * self.side / width) for each in self.arrangements()}
        larger = [scale for scale in scales.values() if scale >= 1.0]
        chosen = min(larger) if larger else max(scales.values())
        return min((each for each, scale in scales.items() if scale == chosen), key=lambda each: each[0] * each[1])

    def separators(self, rows: int, columns: int) -> int:
        """Start, whole image and end; and one after each tile of several."""
        return 3 + (rows * columns if rows * columns > 1 else 0)


class NearestAspect(TiledGrid):
    """Tiles of InternVL (transformers/models/got_ocr2/image_processing_got_ocr2.py, ``get_optimal_tiled_canvas``).

    The arrangement with the aspect nearest to the image's; of equally near ones, the largest with less than twice the
    area of the image. An image has a token before and after it.
    """

    def tiles(self, height: int, width: int) -> tuple[int, int]:
        """The nearest aspect."""
        aspect, nearest, best = width / height, float("inf"), (1, 1)
        for rows, columns in self.arrangements():
            difference = abs(aspect - columns / rows)
            large = height * width > 0.5 * self.side**2 * rows * columns
            if difference < nearest or (difference == nearest and large):
                nearest, best = difference, (rows, columns)
        return best

    def separators(self, rows: int, columns: int) -> int:
        """Start and end."""
        return 2
