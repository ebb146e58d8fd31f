"""Images that requests had, and the passes of encoders over them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from simsys.sums import ordered_sum


class ImageLog:
    """Look-ups in encoder caches, and passes of encoders."""

    def __init__(self) -> None:
        self.lookups = self.hits = self.encoded = 0
        self.passes_s: dict[int, list[float]] = {}
        """How long each pass took, by the first rank of the engine."""

    def looked_up(self, hit: bool) -> None:
        """An image has been looked up in an encoder cache."""
        self.lookups += 1
        self.hits += hit

    def passed(self, rank: int, images: int, seconds: float) -> None:
        """A pass over images has ended."""
        self.encoded += images
        self.passes_s.setdefault(rank, []).append(seconds)

    def metrics(
        self, images: Sequence[int], prompt_tokens: int, seconds: float, engines: int, measured: Mapping[str, Any]
    ) -> dict[str, Any]:
        """Figures of the run.

        Args:
            images: Images of each completed request.
            prompt_tokens: Tokens of an image in the prompt.
            seconds: Duration of the run.
            engines: Engines that have run.
            measured: Other figures of the run.
        """
        each_s = [time_s for times_s in self.passes_s.values() for time_s in times_s]
        total_s, tokens = ordered_sum(each_s), sum(images) * prompt_tokens
        return {
            "image_tokens": tokens,
            "image_token_share": tokens / (measured["total_input_tokens"] or 1),
            "images_encoded": self.encoded,
            "encoder_cache_hit_rate": self.hits / self.lookups if self.lookups else None,
            "encoder_time_share": total_s / (seconds * engines) if seconds and engines else 0.0,
            "mean_encoder_pass_ms": 1e3 * total_s / len(each_s) if each_s else None,
        }
