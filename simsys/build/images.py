"""The images of requests: which ones they are, and the tokens that a model makes of them."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from simsys.build.distributions import draw_lengths, draw_uniform
from simsys.config.experiment import SimulationConfig
from simsys.config.images import ImagesConfig
from simsys.errors import UsageError
from simsys.model.image_grids import ImageWork
from simsys.model.model import Model
from simsys.serving.requests import RequestTable

MOST_IMAGES = 2_000_000


def draw_images(config: ImagesConfig, count: int, seed: int, base_folder: Path) -> list[tuple[int, ...]]:
    """The ids of the images of each of `count` requests; each kind of draw has its own random stream.

    Args:
        config: The settings.
        count: Number of requests.
        seed: The scenario's seed.
        base_folder: Folder from which the relative path of a file of numbers starts.

    Raises:
        UsageError: There are too many images.
    """
    numbers = draw_lengths(config.per_request, count, seed, "images.per_request", base_folder)
    if config.share < 1.0:
        drawn = draw_uniform(1.0, count, seed, "images.share")
        numbers = [number if each < config.share else 0 for number, each in zip(numbers, drawn, strict=True)]
    if sum(numbers) > MOST_IMAGES:
        raise UsageError(f"{sum(numbers):,} images are more than {MOST_IMAGES:,}: give fewer images.per_request")
    again, which = (draw_uniform(1.0, sum(numbers), seed, f"images.{name}") for name in ("reuse", "earlier"))
    found, place, different = list[tuple[int, ...]](), 0, 0
    for number in numbers:
        ids = []
        for _ in range(number):
            repeats = different > 0 and again[place] < config.reuse
            ids.append(int(which[place] * different) if repeats else different)
            different += not repeats
            place += 1
        found.append(tuple(ids))
    return found


def image_of(config: ImagesConfig, model: Model) -> ImageWork:
    """What an image becomes in a model.

    Raises:
        UsageError: The model has no encoder whose images are modelled, or its processor makes no such image.
    """
    if model.vision is None:
        raise UsageError(
            f"{model.name} has no vision encoder; images need a model with one, given by its config.json "
            "(model.huggingface), such as Qwen2.5-VL, Gemma 3, LLaVA 1.5, Llama 4, Mistral 3 or InternVL"
        )
    if config.tokens is not None:
        return model.vision.grid.of_embeddings(config.tokens)
    width, height = config.width_and_height
    return model.vision.grid.of_size(height, width)


def image_in(config: SimulationConfig, model: Model) -> ImageWork | None:
    """What an image of a scenario becomes in its model; None without images."""
    images = None if config.workload is None else config.workload.images
    return None if images is None else image_of(images, model)


def with_image_tokens(table: RequestTable, config: SimulationConfig, model: Model) -> RequestTable:
    """The requests of a scenario with the tokens of their images in their prompts."""
    image = image_in(config, model)
    if image is None:
        return table
    pairs = zip(table.prompt_tokens, table.images, strict=True)
    prompts = [tokens + len(images) * image.prompt_tokens for tokens, images in pairs]
    return replace(table, prompt_tokens=prompts, image=image)
