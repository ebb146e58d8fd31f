"""The memory use of the GPUs of a training scenario."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache

from simsys.build.batches import BatchPhase
from simsys.build.training_setup import TrainingSetup
from simsys.parallel.activations import ChunkMemory, chunk_memory, recomputed_parts
from simsys.parallel.passes import ForwardPass
from simsys.parallel.pipeline_schedule import Schedule, peak_in_flight
from simsys.parallel.training_memory import Shards, model_states, training_memory, whole_bytes
from simsys.sums import ordered_sum


def memory_by_stage(setup: TrainingSetup) -> list[dict[str, int]]:
    """For each pipeline stage, the memory of one of its GPUs in the phase that needs most, by component."""
    by_phase = [_memory(setup, phase) for phase in setup.phases]
    return [max(stage, key=lambda parts: ordered_sum(parts.values())) for stage in zip(*by_phase, strict=True)]


def _memory(setup: TrainingSetup, phase: BatchPhase) -> list[dict[str, int]]:
    return [
        training_memory(
            chunks,
            _activations(setup, phase, chunks),
            setup.precision,
            in_flight=_in_flight(type(setup.schedule), stage, len(setup.stages), phase.micro_batches, len(chunks)),
            optimizer=setup.settings.optimizer,
            tied_parameters=setup.tied_parameters,
            context_bytes=setup.engine.memory_context,
            buffer_bytes=setup.buffer_bytes(chunks),
            shards=setup.shards,
            expert_shards=setup.expert_shards,
            usable=setup.engine.gpu_memory_utilization,
        )
        for stage, chunks in enumerate(setup.stages)
    ]


@lru_cache(maxsize=4096)
def _in_flight(schedule: type[Schedule], stage: int, stages: int, micro_batches: int, chunks: int) -> tuple[int, ...]:
    """Schedules are stateless, so results are cached for further jobs with other settings."""
    return peak_in_flight(schedule().actions(stage, stages, micro_batches, chunks))


def _activations(setup: TrainingSetup, phase: BatchPhase, chunks: Sequence[ForwardPass]) -> list[ChunkMemory]:
    """Activation memory of a micro-batch in each chunk of a stage."""
    weight_bytes, gradient_bytes = whole_bytes(setup.shards, setup.precision)
    if setup.shards.weights == 1 and setup.buffer_bytes(chunks):
        weight_bytes = gradient_bytes = 0.0  # the buckets are being sent
    return [
        chunk_memory(
            chunk,
            setup.micro_batch(phase),
            setup.precision,
            vocab_size=setup.model.vocab_size / setup.layout.tensor,
            recompute=recomputed_parts(setup.settings.activation_recompute),
            gathered=setup.shards.gathered if weight_bytes or gradient_bytes else "none",
            weight_bytes=weight_bytes,
            gradient_bytes=gradient_bytes,
            tied_parameters=setup.tied_parameters,
        )
        for chunk in chunks
    ]


def host_bytes(setup: TrainingSetup) -> float:
    """Bytes of model states in host memory per GPU, in the stage with most of them."""
    states = [_states(setup, chunks, setup.shards, setup.expert_shards) for chunks in setup.stages]
    return max(ordered_sum(held[name] for name in setup.shards.on_host) for held in states)


def replicated_bytes(setup: TrainingSetup) -> float:
    """Bytes of model states that ZeRO-3 over all ranks with equal weights would free on a GPU of the fullest stage."""
    stages = memory_by_stage(setup)
    stage = max(range(len(stages)), key=lambda place: ordered_sum(stages[place].values()))
    all_ranks = setup.layout.replicas, setup.layout.expert_replicas // setup.layout.expert
    whole, divided = (
        ordered_sum(nbytes for name, nbytes in held.items() if name not in setup.shards.on_host)
        for held in (
            _states(setup, setup.stages[stage], setup.shards, setup.expert_shards),
            _states(setup, setup.stages[stage], *(Shards(weights=n, gradients=n, optimizer=n) for n in all_ranks)),
        )
    )
    return max(0.0, whole - divided)


def _states(
    setup: TrainingSetup, chunks: Sequence[ForwardPass], shards: Shards, expert_shards: Shards
) -> dict[str, float]:
    return model_states(
        chunks,
        setup.precision,
        optimizer=setup.settings.optimizer,
        tied_parameters=setup.tied_parameters,
        shards=shards,
        expert_shards=expert_shards,
    )
