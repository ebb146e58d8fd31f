"""Images of requests, and the settings of the encoder that an engine runs for them."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Annotated, Any, ClassVar, Literal, Self

from pydantic import AfterValidator, Field, PositiveInt, model_validator

from simsys.config.base import FrozenModel, invalid
from simsys.config.discriminators import Part
from simsys.config.lengths import FixedLength, Length

LONGEST_SIDE = 16_384
"""Pixels; a larger number is a slip of the keyboard."""
_SIZE = re.compile(r"([1-9][0-9]{0,5}) ?x ?([1-9][0-9]{0,5})")
Share = Annotated[float, Field(strict=True, gt=0, le=1)]
Reuse = Annotated[float, Field(strict=True, ge=0, lt=1)]


def _sides(value: str) -> str:
    """Refuse what is no size of an image."""
    found = _SIZE.fullmatch(value)
    if found is None:
        raise invalid(f"size must be width x height in pixels, such as 1024x768, not {value!r}")
    if max(map(int, found.groups())) > LONGEST_SIDE:
        raise invalid(f"sides of an image have at most {LONGEST_SIDE} pixels, not {value}")
    return value


class ImagesConfig(Part):
    """Images of requests, after the text of their prompts, as ``random-mm`` of ``vllm bench serve`` sends them.

    A `share` of the requests has `per_request` images each. All have one `size` in pixels, width x height, from which
    the model's processor makes tokens; or their number of `tokens` is given. The tokens of images are in addition to
    `prompt_tokens`. An image is one that was sent before with probability `reuse`: any earlier one, all equally
    likely.
    """

    other_names: ClassVar[Mapping[str, str]] = {
        "base_items_per_request": "per_request",
        "random_mm_base_items_per_request": "per_request",
        "image_batch_size": "per_request",
        "image_width_mean": "size",
        "image_height_mean": "size",
        "bucket_config": "size",
        "random_mm_bucket_config": "size",
    }

    per_request: Length = Field(
        default=FixedLength(tokens=1), description="Images of a request that has any: a number or a distribution"
    )
    size: Annotated[str, AfterValidator(_sides)] | None = Field(
        default=None, description="Width and height in pixels, such as 1024x768"
    )
    tokens: Annotated[int, Field(strict=True, ge=1, le=1_000_000)] | None = Field(
        default=None, description="Tokens that the encoder makes of an image, in place of its size"
    )
    share: Share = Field(default=1.0, description="Share of the requests that have images")
    reuse: Reuse = Field(default=0.0, description="Probability that an image was sent before")

    @model_validator(mode="after")
    def _one_size(self) -> Self:
        if (self.size is None) == (self.tokens is None):
            raise invalid("give either the size of the images, such as size: 1024x768, or their tokens")
        if self.per_request.kind == "trace":
            raise invalid("per_request cannot come from a trace; give a number or a distribution")
        return self

    @property
    def width_and_height(self) -> tuple[int, int]:
        """The size in pixels, if one is given."""
        width, height = (self.size or "").replace(" ", "").split("x")
        return int(width), int(height)


class MultimodalConfig(FrozenModel):
    """The encoder of images beside the language model, with the names of vLLM.

    Both limits are in tokens that the encoder makes. By default each is ``max_num_batched_tokens``, or the tokens of
    an image if these are more.
    """

    max_num_encoder_input_tokens: PositiveInt | None = Field(
        default=None, description="Tokens of images that are encoded in a step at most"
    )
    encoder_cache_size: PositiveInt | None = Field(
        default=None, description="Tokens of images that the encoder cache holds at most"
    )
    mm_encoder_tp_mode: Literal["weights", "data"] = Field(
        default="weights",
        description="Tensor parallelism of the encoder: divide its weights, or its images among whole copies of it",
    )


def with_encoder(data: Any) -> Any:
    """A scenario as data, with the settings of an encoder where its requests have images."""
    workload, serving = (data.get(name) if isinstance(data, dict) else None for name in ("workload", "serving"))
    images = workload.get("images") if isinstance(workload, dict) else getattr(workload, "images", None)
    if images is None:
        return data
    if isinstance(serving, dict) and serving.get("multimodal") is None:
        return {**data, "serving": {**serving, "multimodal": {}}}
    if isinstance(serving, FrozenModel) and getattr(serving, "multimodal", None) is None:
        return {**data, "serving": serving.model_copy(update={"multimodal": MultimodalConfig()})}
    return data
