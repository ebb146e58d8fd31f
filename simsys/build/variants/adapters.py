"""LoRA adapters that are served together with the model."""

from __future__ import annotations

from collections.abc import Iterator

from simsys.build.serving_memory import ServingMemory
from simsys.build.variants.variant import Variant, variant
from simsys.config.serving import ServingConfig


@variant
class Adapters(Variant):
    """Each request uses one of several LoRA adapters."""

    regime = "adapters"

    apart = ("serving", "lora")

    def on(self, settings: ServingConfig) -> bool:
        """Whether adapters are given."""
        return settings.lora is not None

    def assumptions(self, setup: ServingMemory) -> Iterator[str]:
        """The number and the rank of the adapters."""
        lora = setup.settings.lora
        assert lora is not None
        yield f"adapters: {lora.adapters} of rank {lora.rank}, equally popular, all on the GPU"
