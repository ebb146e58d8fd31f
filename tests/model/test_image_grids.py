"""Tokens of images against the processors of Hugging Face's transformers."""

from __future__ import annotations

import pytest

from simsys.errors import UsageError
from simsys.model.image_grids import FixedGrid, ImageGrid, LeastUpscaled, NativeGrid, NearestAspect, RowsGrid

QWEN2_5 = NativeGrid(14, 2, 3_136, 12_845_056, window=112)
QWEN3 = NativeGrid(16, 2, 65_536, 16_777_216)
GEMMA = FixedGrid(4096, 256, separators=4)
PIXTRAL = RowsGrid(14, 2, 1540)
LLAMA4 = LeastUpscaled(336, 577, 144, 16)
INTERN = NearestAspect(448, 1025, 256, 12)


@pytest.mark.parametrize(
    ("grid", "height", "width", "embeddings", "prompt_tokens"),
    [
        (QWEN2_5, 1024, 1024, 37 * 37, 37 * 37 + 2),
        (QWEN2_5, 720, 1280, 26 * 46, 26 * 46 + 2),
        (QWEN2_5, 8000, 8000, 128 * 128, 128 * 128 + 2),  # shrunk to 12,845,056 pixels
        (QWEN2_5, 28, 28, 4, 6),  # grown to 56 x 56
        (QWEN3, 1024, 1024, 1024, 1026),
        (QWEN3, 64, 64, 64, 66),  # grown to 256 x 256
        (GEMMA, 480, 640, 256, 260),
        (PIXTRAL, 1024, 1024, 37 * 37, 37 * 38),
        (PIXTRAL, 3080, 1540, 55 * 28, 55 * 29),
        (LLAMA4, 336, 336, 144, 147),
        (LLAMA4, 336, 672, 3 * 144, 3 * 144 + 5),
        (LLAMA4, 1024, 1024, 17 * 144, 17 * 144 + 19),
        (INTERN, 448, 448, 256, 258),
        (INTERN, 448, 896, 3 * 256, 3 * 256 + 2),
        (INTERN, 1024, 1024, 10 * 256, 10 * 256 + 2),
    ],
)
def test_tokens_of_an_image(grid: ImageGrid, height: int, width: int, embeddings: int, prompt_tokens: int) -> None:
    image = grid.of_size(height, width)
    assert (image.embeddings, image.prompt_tokens) == (embeddings, prompt_tokens)


def test_windows_are_smaller_at_the_edge() -> None:
    image = QWEN2_5.of_size(5 * 28, 4 * 28)  # 5 x 4 merged patches: a window of 4 x 4 and one of 1 x 4
    assert image.patches == 80
    assert image.window_pairs == (16 * 4) ** 2 + (4 * 4) ** 2
    assert image.pairs == 80**2


def test_tiles_do_not_attend_to_each_other() -> None:
    image = LLAMA4.of_size(336, 672)
    assert image.patches == 3 * 577
    assert image.pairs == 3 * 577**2


@pytest.mark.parametrize("grid", [QWEN2_5, QWEN3, PIXTRAL, LLAMA4, INTERN])
def test_a_number_of_tokens_is_kept(grid: ImageGrid) -> None:
    tokens = 9 * grid.of_size(336, 336).embeddings
    assert grid.of_embeddings(tokens).embeddings == tokens


@pytest.mark.parametrize(
    ("grid", "tokens", "message"),
    [
        (GEMMA, 300, "every image becomes 256 tokens in this model, not 300"),
        (QWEN3, 20_000, "becomes 64 to 16384 tokens in this model, not 20000"),
        (PIXTRAL, 56 * 100, "at most 55 rows and 55 columns"),
        (LLAMA4, 145, "144 tokens in this model, or 3 to 17 times as many, not 145"),
        (LLAMA4, 288, "144 tokens in this model, or 3 to 17 times as many, not 288"),
    ],
)
def test_numbers_that_no_image_has(grid: ImageGrid, tokens: int, message: str) -> None:
    with pytest.raises(UsageError, match=message):
        grid.of_embeddings(tokens)


def test_a_narrow_image_is_refused_as_by_the_processor() -> None:
    with pytest.raises(UsageError, match="factor of 200"):
        QWEN2_5.of_size(10, 2001)
