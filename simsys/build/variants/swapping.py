"""Swapping of the KV caches of preempted requests to the host: vLLM with ``preemption_mode=swap``."""

from __future__ import annotations

from collections.abc import Iterator

from simsys.build.serving_memory import ServingMemory
from simsys.build.variants.variant import Variant, variant
from simsys.config.serving import ServingConfig
from simsys.serving.swap import SwapSpace
from simsys.teams import Team


@variant
class Swapping(Variant):
    """KV caches of preempted requests are swapped to host memory and back."""

    regime = "swapping"

    apart = ("serving", "preemption")

    without_tiers = ("serving", "preemption")

    before_steps = ("serving", "preemption")

    def on(self, settings: ServingConfig) -> bool:
        """Whether preemption is by swap."""
        return settings.preemption == "swap"

    def assumptions(self, setup: ServingMemory) -> Iterator[str]:
        """The host memory for swapped caches."""
        host = f"{setup.settings.swap_bytes / 2**30:.4g} GiB of host memory per GPU over PCIe"
        yield f"preemption by swap: {host}; steps wait for copies; recomputation if full"

    def swap_space(self, pool: ServingMemory, team: Team) -> SwapSpace:
        """Host memory for the blocks that fit on the GPU with the largest part of each block."""
        parts = {rank: pool.block_bytes(stage) for stage, group in enumerate(team.groups) for rank in group.ranks}
        blocks = int(pool.settings.swap_bytes // max(parts.values()))
        return SwapSpace(blocks // pool.layout.pipeline, team, parts)
