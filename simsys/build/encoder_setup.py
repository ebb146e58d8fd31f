"""The encoder of images of a replica: its share of the work on each rank, and its limits and memory."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property

from simsys.collectives.base import CollectiveKind
from simsys.config.images import MultimodalConfig
from simsys.model.batch import Batch
from simsys.model.image_grids import ImageWork
from simsys.model.model import Model
from simsys.model.precision import Precision
from simsys.model.vision import encoder_model, image_batch, with_whole_tower
from simsys.parallel.passes import ForwardPass, RepeatedBlock, forward_pass
from simsys.parallel.replica import with_wider_gaps
from simsys.parallel.segments import Exchange, Segment
from simsys.probes import Probes
from simsys.serving.image_encoder import ImageEncoder, ImageLimits
from simsys.serving.requests import RequestTable
from simsys.teams import Team


@dataclass(frozen=True)
class EncoderSetup:
    """An encoder on the ranks of a replica.

    Args:
        settings: Its settings.
        model: The language model with the encoder.
        image: What an image becomes.
        tensor: Ranks of the replica.
        max_batched_tokens: Tokens of a step, the default of both limits.
    """

    settings: MultimodalConfig
    model: Model
    image: ImageWork
    tensor: int
    max_batched_tokens: int

    @property
    def divides_images(self) -> bool:
        """Whether each rank has the whole encoder and a part of the images."""
        return self.settings.mm_encoder_tp_mode == "data" and self.tensor > 1

    @cached_property
    def plan(self) -> ForwardPass:
        """One rank's share of a pass of the encoder.

        With the images divided, every rank gathers the embeddings of all (vLLM, ``run_dp_sharded_vision_model``).
        """
        assert self.model.vision is not None
        encoder = self.model.vision
        plan = with_wider_gaps(
            forward_pass(encoder_model(encoder, self.image), 1 if self.divides_images else self.tensor)
        )
        if not self.divides_images:
            return plan
        gathered = float(encoder.output_size * self.tensor)
        gather = RepeatedBlock("gather", (Segment((), Exchange(CollectiveKind.ALL_GATHER, gathered, per_logit=True)),))
        return replace(plan, stretches=(*plan.stretches, gather))

    def engine(self, requests: RequestTable, team: Team, probes: Probes) -> ImageEncoder:
        """The encoder of one engine.

        Args:
            requests: All requests, with their images.
            team: The ranks of the engine.
            probes: Observers.
        """
        limits = ImageLimits(self.images_per_step, self.images_cached)
        return ImageEncoder(requests, limits, team.beside(self.plan), self.batch, probes)

    def batch(self, images: int) -> Batch:
        """The batch of a pass over a number of images on the rank with the most of them."""
        return image_batch(self.image, -(-images // self.tensor) if self.divides_images else images)

    def limit(self, name: str) -> int:
        """Tokens of one of the two limits."""
        given: int | None = getattr(self.settings, name)
        return max(self.max_batched_tokens, self.image.embeddings) if given is None else given

    @property
    def images_per_step(self) -> int:
        """Images that are encoded in a step at most."""
        return self.limit("max_num_encoder_input_tokens") // self.image.embeddings

    @property
    def images_cached(self) -> int:
        """Images that the encoder cache holds at most."""
        return self.limit("encoder_cache_size") // self.image.embeddings

    def cache_bytes(self, precision: Precision) -> float:
        """Memory of the encoder cache on each rank."""
        assert self.model.vision is not None
        return self.limit("encoder_cache_size") * self.model.vision.output_size * precision.activation_bytes

    def activation_bytes(self, precision: Precision) -> float:
        """Peak of the activations of a full pass of the encoder on a rank: input and output of its widest operator."""
        rows = self.batch(max(1, self.images_per_step)).tokens
        return self.plan.widest_elements_per_token * rows * precision.activation_bytes


def with_placed_tower(model: Model, settings: MultimodalConfig | None) -> Model:
    """The model with the weights of its encoder divided like a layer, or whole on each rank."""
    return with_whole_tower(model) if settings is not None and settings.mm_encoder_tp_mode == "data" else model
