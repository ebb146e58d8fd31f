"""A serving scenario, resolved: the memory use of its GPUs, and the size of the KV cache."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from simsys.build.encoder_setup import EncoderSetup
from simsys.build.images import image_in
from simsys.build.serving_setup import ServingSetup
from simsys.errors import InfeasibleError, Problem, UsageError
from simsys.parallel.serving_memory import kv_bytes_per_token, sequence_bytes, serving_memory, weight_bytes
from simsys.sums import ordered_sum
from simsys.units import pretty_memory


@dataclass(frozen=True)
class ServingMemory(ServingSetup):
    """A serving scenario with the memory use of its GPUs."""

    def token_bytes(self, stage: int) -> float:
        """Bytes that a rank of a stage caches per token of a mean context, with its share of the sequence's state."""
        plans = [self.stages[stage], *([] if self.draft is None else [self.draft])]
        each = ordered_sum(kv_bytes_per_token(plan, self.precision) for plan in plans)
        of_sequences = ordered_sum(map(sequence_bytes, plans))
        return each + of_sequences / self.contexts.mean_tokens if of_sequences else each

    @cached_property
    def encoder(self) -> EncoderSetup | None:
        """The encoder of images on the ranks of a replica; None without images, and where prompts are elsewhere."""
        image, given = image_in(self.config, self.model), self.settings.multimodal
        if image is None or given is None or self.only_decodes:
            return None
        return EncoderSetup(given, self.model, image, self.layout.tensor, self.settings.max_num_batched_tokens)

    @cached_property
    def fixed_by_stage(self) -> list[dict[str, float]]:
        """Memory of a GPU of each stage without the KV cache, by component."""
        tied = self.model.tied_parameters > 0.0
        held = list[dict[str, float]]()
        for stage, without in zip(self.stages, self.plain_stages, strict=True):
            parts = serving_memory(
                stage,
                self.precision,
                max_batched_tokens=self.settings.max_num_batched_tokens,
                max_num_seqs=self.settings.max_num_seqs,
                context_bytes=self.engine.memory_context,
                tied=tied,
            )
            if self.encoder is not None and not held:
                peak = max(parts["activations"], self.encoder.activation_bytes(self.precision))
                parts |= {"activations": peak, "encoder_cache": self.encoder.cache_bytes(self.precision)}
            adapters = parts["weights"] - weight_bytes(without, self.precision, tied=tied)
            if adapters:
                parts = {"weights": parts["weights"] - adapters, "adapters": adapters, **_without_weights(parts)}
            held.append(parts)
        if self.draft is not None and self.draft_model is not None:
            tied = self.draft_model.tied_parameters > 0.0
            held[0]["draft"] = weight_bytes(self.draft, self.precision, tied=tied)
        return held

    @property
    def fixed_bytes(self) -> dict[str, float]:
        """Memory without the KV cache of a GPU of the stage with the least room for it, by component."""
        return self.fixed_by_stage[self.fullest_stage]

    @cached_property
    def fullest_stage(self) -> int:
        """The stage with the least room for the KV cache."""
        room = [self._blocks(stage) for stage in range(len(self.stages))]
        return room.index(min(room))

    def block_bytes(self, stage: int) -> float:
        """Bytes of one block of the KV cache on a GPU of this stage.

        Raises:
            UsageError: If the model has no KV cache.
        """
        each = self.token_bytes(stage)
        if not each:
            raise UsageError(f"model {self.model.name} has no KV cache and cannot be served as a language model")
        return each * self.settings.block_size

    def _blocks(self, stage: int) -> int:
        """KV blocks that fit into a stage; negative if the other components do not fit."""
        settings, free = self.settings, self.free_bytes(self.fixed_by_stage[stage])
        _, wanted = self.written_cache(stage)
        if wanted is None:
            return int(free * settings.free_gpu_memory_fraction // self.block_bytes(stage))
        if wanted > free:
            return -1
        return settings.num_gpu_blocks_override or int(wanted // self.block_bytes(stage))

    def written_cache(self, stage: int) -> tuple[str, float | None]:
        """The written setting of the size of the KV cache, and its bytes on a GPU of a stage; None without one."""
        settings = self.settings
        if settings.num_gpu_blocks_override is not None:
            return "num_gpu_blocks_override", settings.num_gpu_blocks_override * self.block_bytes(stage)
        return "kv_cache_memory_bytes", settings.kv_cache_memory_bytes

    def usable_bytes(self, held: Mapping[str, Any]) -> Any:
        """Memory of a GPU that the engine may use; all of it where the bytes of the KV cache are written, as in vLLM.

        Args:
            held: What a GPU holds without the KV cache, by component: numbers, or arrays of equal length.
        """
        memory_bytes = self.cluster.smallest.memory_bytes
        if self.settings.kv_cache_memory_bytes is not None:
            return memory_bytes
        share = memory_bytes * self.settings.gpu_memory_utilization
        return np.minimum(memory_bytes, share + held["activations"]) if self.engine.activations_beside else share

    def free_bytes(self, held: Mapping[str, Any]) -> Any:
        """Memory of a GPU for the KV cache; argument as of `usable_bytes`."""
        return self.usable_bytes(held) - ordered_sum(held.values())

    @cached_property
    def num_blocks(self) -> int:
        """KV-cache blocks of a replica: as written, or the whole blocks that fit into its fullest GPU.

        Each stage of a pipeline stores the part of every block for its layers.

        Raises:
            InfeasibleError: If there is less than one block for each batch in flight.
        """
        blocks = self._blocks(self.fullest_stage)
        if blocks < self.layout.pipeline:
            raise InfeasibleError(self.shortage())
        return blocks

    @property
    def engine_blocks(self) -> int:
        """KV-cache blocks of each engine of a replica; there is one engine for each pipeline stage."""
        return self.num_blocks // self.layout.pipeline

    @property
    def memory_by_stage(self) -> list[dict[str, float]]:
        """Memory of a GPU of each stage, by component."""
        return [
            {**fixed, "kv_cache": self.num_blocks * self.block_bytes(stage)}
            for stage, fixed in enumerate(self.fixed_by_stage)
        ]

    @property
    def memory_bytes(self) -> dict[str, float]:
        """Memory of a GPU of the fullest stage, by component."""
        return self.memory_by_stage[self.fullest_stage]

    def shortage(self) -> str:
        """The message for a model that does not fit, or for a written size of the cache that does not fit."""
        parts = ", ".join(f"{name} {pretty_memory(size)}" for name, size in self.fixed_bytes.items())
        needed = pretty_memory(ordered_sum(self.fixed_bytes.values()))
        usable = pretty_memory(self.usable_bytes(self.fixed_bytes))
        return (
            f"{self.model.name} does not fit: {needed} are needed before any KV cache ({parts}), {usable} are usable"
            f"{self.cache_shortage()}"
        )

    def cache_shortage(self) -> str:
        """The written size of a KV cache that does not fit, as the end of a sentence; empty if none is written."""
        name, wanted = self.written_cache(self.fullest_stage)
        return "" if wanted is None else f", but {name} asks for {pretty_memory(wanted)} besides"


def memory_warnings(pools: Iterable[ServingMemory]) -> Iterator[Problem]:
    """Warn of an engine that leaves its activations less memory than they need beside its share."""
    for pool in pools:
        if not pool.engine.activations_beside or pool.written_cache(pool.fullest_stage)[1] is not None:
            continue
        needed = max(held["activations"] for held in pool.fixed_by_stage)
        left = pool.cluster.smallest.memory_bytes * (1.0 - pool.settings.gpu_memory_utilization)
        if needed > left:
            share = f"{pool.settings.gpu_memory_utilization:.4g} leaves {pretty_memory(left)} for activations"
            yield Problem(
                f"{share} of {pretty_memory(needed)}: {pool.engine.name} may run out of memory in its largest steps",
                "serving.gpu_memory_utilization",
            )
            return


def _without_weights(parts: dict[str, float]) -> dict[str, float]:
    return {name: size for name, size in parts.items() if name != "weights"}
