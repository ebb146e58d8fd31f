"""Base class of engine variants: features that a setting turns on, with rules, texts and built parts."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence

from simsys.build.rules.experts import degrees_of_pools
from simsys.build.rules.findings import Findings
from simsys.build.rules.registry import Parts, rule
from simsys.build.serving_memory import ServingMemory
from simsys.config.document import KeyPath
from simsys.config.experiment import SimulationConfig
from simsys.config.serving import ServingConfig
from simsys.costs.measured_passes import MeasuredPasses
from simsys.executors.executor import Executor
from simsys.framework import DecodePhase
from simsys.model.model import Model
from simsys.serving.engine import Engine
from simsys.serving.intake import Intake
from simsys.serving.kv_cache import PagedKVCache
from simsys.serving.kv_connector import KVConnector
from simsys.serving.sequences import Sequences
from simsys.serving.source import Source
from simsys.serving.swap import SwapSpace
from simsys.teams import Team


class Variant(ABC):
    """A difference from the plain engine; define a subclass in a file of `simsys.build.variants`.

    The hooks are called for the variants that are on. A hook that makes a part of an engine returns None if the
    variant does not change this part. If several variants make a part, the first one decides.
    """

    place: KeyPath = ("serving",)
    """The setting at which problems of building the variant are reported."""

    regime = ""
    """The regime of its measurements; empty if they count as measurements of plain engines."""

    apart: KeyPath = ()
    """The setting that turns it on, if it is not available for data-parallel ranks that share their experts."""

    without_tiers: KeyPath = ()
    """The setting that turns it on, if it is not available with tiers of the KV cache."""

    before_steps: KeyPath = ()
    """The setting that turns it on, if steps wait for its copies, so that they cannot wait for images, too."""

    @abstractmethod
    def on(self, settings: ServingConfig) -> bool:
        """Whether the settings turn the variant on."""

    def in_regime(self, setup: ServingMemory) -> bool:
        """Whether a scenario with the variant on is in its regime."""
        return bool(self.regime)

    def assumptions(self, setup: ServingMemory) -> Iterator[str]:
        """Assumptions of the variant, a line each."""
        return iter(())

    def draft_model(self, config: SimulationConfig, model: Model) -> Model | None:
        """The draft model; raises a `SimsysError` if it cannot be built."""
        return None

    def scheduler(self, pool: ServingMemory) -> str:
        """The name of the scheduler of a replica; empty for the scheduler of the settings."""
        return ""

    def team(self, setup: ServingMemory, pool: ServingMemory, replica: int, executor: Executor) -> Team | None:
        """The ranks of a replica of a pool; each data-parallel rank of attention counts as one."""
        return None

    def kv_cache(self, setup: ServingMemory, pool: ServingMemory, sequences: Sequences) -> PagedKVCache | None:
        """The KV cache of one engine."""
        return None

    def connector(self, setup: ServingMemory, executor: Executor) -> KVConnector | None:
        """The tiers of KV cache of all engines that process prompts, in place of `kv_cache` and `swap_space`."""
        return None

    def swap_space(self, pool: ServingMemory, team: Team) -> SwapSpace | None:
        """The host memory of one engine for preempted requests."""
        return None

    def decode_phase(self, setup: ServingMemory, sequences: Sequences, kv: PagedKVCache) -> DecodePhase | None:
        """The decode phase, which generates tokens."""
        return None

    def passes(self, setup: ServingMemory) -> MeasuredPasses | None:
        """Measured forward passes in place of the costs of kernels."""
        return None

    def intake(self, pool: ServingMemory, together: list[Intake]) -> Intake | None:
        """The intake that requests pass before the scheduler of an engine receives them.

        Args:
            pool: The replicas of its kind.
            together: The intakes of engines that step together with this one, made so far.
        """
        return None

    def source(self, setup: ServingMemory, executor: Executor, engines: Sequence[Engine]) -> Source | None:
        """The source that sends requests to the engines."""
        return None


VARIANTS: list[Variant] = []
"""All variants, in the order of the names of their files."""


def variant(kind: type[Variant]) -> type[Variant]:
    """Class decorator that registers a variant."""
    VARIANTS.append(kind())
    return kind


def variants_of(settings: ServingConfig) -> list[Variant]:
    """The variants that the settings turn on."""
    return [each for each in VARIANTS if each.on(settings)]


@rule("parallelism.attention_dp")
def with_shared_experts(parts: Parts, found: Findings) -> None:
    """Ranks in lock-step have one stage, and only the variants that allow it."""
    config, given = parts.config, parts.config.parallelism
    if config.serving is None or not attends_in_parallel(config):
        return
    given_ones = {"pp_stages": given.pp_stages > 1, "sequence_parallel": given.sequence_parallel}
    written = [("parallelism", key) for key, is_given in given_ones.items() if is_given]
    for path in (*written, *(each.apart for each in variants_of(config.serving) if each.apart)):
        found.error(path, f"{path[-1]} with attention_dp is not available; remove one of them")


def attends_in_parallel(config: SimulationConfig) -> bool:
    """Whether any replicas of a serving scenario have several data-parallel ranks that share their experts."""
    return any(pool.attention_dp > 1 for pool in degrees_of_pools(config))
