"""Images in prompts, and the encoder that they need: vLLM V1."""

from __future__ import annotations

from collections.abc import Iterator

from simsys.build.images import image_of
from simsys.build.rules.findings import Findings, Suggestion
from simsys.build.rules.registry import Parts, rule
from simsys.build.serving_memory import ServingMemory
from simsys.build.variants.variant import Variant, variant, variants_of
from simsys.config.images import ImagesConfig
from simsys.config.serving import ServingConfig
from simsys.framework import FRAMEWORKS, Scheduler
from simsys.model.image_grids import ImageWork
from simsys.model.model import Model
from simsys.serving.images_in_prompts import takes_images

IMAGES = ("workload", "images")
ENCODER = ("serving", "multimodal")
LIMITS = ("max_num_encoder_input_tokens", "encoder_cache_size")
ENGINE = "vllm"
"""The engine whose scheduling of images is modelled."""


@variant
class Images(Variant):
    """Images are encoded before the step whose chunk reaches them."""

    regime = "images in prompts"

    apart = IMAGES

    without_tiers = IMAGES

    def on(self, settings: ServingConfig) -> bool:
        """Whether requests have images: the encoder has settings then."""
        return settings.multimodal is not None

    def assumptions(self, setup: ServingMemory) -> Iterator[str]:
        """The work of an image, and the limits of the encoder."""
        encoder = setup.pools[0].encoder
        if encoder is None or setup.model.vision is None:
            return
        image = encoder.image
        how = "whole on each rank, images divided" if encoder.divides_images else "divided among ranks like a layer"
        steps, cached = (encoder.limit(name) for name in LIMITS)
        yield (
            f"an image is {image.patches:,} patches for {setup.model.vision.kind} in 16 bit ({how}), "
            f"{image.embeddings:,} tokens of the encoder and {image.prompt_tokens:,} of the prompt, after its text"
        )
        yield (
            f"images are encoded before the step that reaches them: up to {steps:,} tokens of them in a step, "
            f"{cached:,} in the encoder cache; decoding and resizing images takes no time"
        )


@rule("workload.images")
def with_engine(parts: Parts, found: Findings) -> None:
    """Images need an engine, a policy and a division whose treatment of images is modelled."""
    config = parts.config
    if config.workload is None or config.workload.images is None or config.serving is None:
        return
    given = config.serving
    if given.multimodal is None:  # of one of several jobs
        found.error(IMAGES, "images of one of several jobs need serving.multimodal; write multimodal: {}", key=True)
    if parts.engine is not None and parts.engine.name != ENGINE:
        message = f"the treatment of images by {parts.engine.name} is not modelled, that of {ENGINE} is"
        found.error(IMAGES, message, key=True)
    scheduler = parts.serving.scheduler if parts.serving is not None else "chunked_prefill"
    if not takes_images(FRAMEWORKS.get(scheduler, Scheduler)):
        found.error(IMAGES, f"images need scheduler: chunked_prefill or priority, not {scheduler}", key=True)
    paths = [each.before_steps for each in variants_of(given) if each.before_steps]
    paths += [("parallelism", "pp_stages")] if config.parallelism.pp_stages > 1 else []
    paths += [("serving", "passes")] if given.passes is not None else []
    for path in paths:
        found.error(path, f"{path[-1]} with images is not modelled; remove {path[-1]} or workload.images")


@rule("serving.multimodal")
def has_images(parts: Parts, found: Findings) -> None:
    """The settings of an encoder need images."""
    workload, given = parts.config.workload, parts.config.serving
    if given is not None and given.multimodal is not None and (workload is None or workload.images is None):
        found.error(ENCODER, "multimodal has no effect without workload.images; remove it or add images", key=True)


@rule("workload.images")
def with_model(parts: Parts, found: Findings) -> None:
    """The model has an encoder, whose processor makes such images, and the limits hold one of them."""
    config, model = parts.config, parts.model
    if config.workload is None or config.workload.images is None or model is None or config.serving is None:
        return
    image = _image(config.workload.images, model, found)
    given = config.serving.multimodal
    if image is None or given is None or model.vision is None:
        return
    context = config.serving.max_model_len or model.max_context_tokens
    if image.prompt_tokens >= context > 0:
        message = f"an image has {image.prompt_tokens:,} tokens of the prompt, the context is {context:,}"
        found.error(_place(config.workload.images), f"{message}; write a smaller image")
    for name in LIMITS:
        limit = getattr(given, name)
        if limit is not None and limit < image.embeddings:
            suggestion = Suggestion([[{f"serving.multimodal.{name}": image.embeddings}]], "write {}")
            message = f"must hold at least one image of {image.embeddings:,} tokens, not {limit:,}"
            found.error((*ENCODER, name), message, suggestion=suggestion)
    tensor, heads = config.parallelism.tp_degree, model.vision.heads
    if given.mm_encoder_tp_mode == "weights" and heads % tensor:
        suggestion = Suggestion([[{"serving.multimodal.mm_encoder_tp_mode": "data"}]], "write {}")
        message = f"{tensor} ranks cannot divide the {heads} heads of the encoder"
        found.error((*ENCODER, "mm_encoder_tp_mode"), message, suggestion=suggestion)


def _image(images: ImagesConfig, model: Model, found: Findings) -> ImageWork | None:
    place = IMAGES if model.vision is None else _place(images)
    return found.attempt(place, lambda: image_of(images, model))


def _place(images: ImagesConfig) -> tuple[str, ...]:
    return (*IMAGES, "size" if images.tokens is None else "tokens")
