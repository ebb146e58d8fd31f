"""Remedies that make training fit: one small function for each kind, and the rules for the settings of a job.

A kind yields its variants ordered by their savings, the smallest first, all with an unchanged global batch. To add
one, write such a function and put it into `KINDS`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any, TypeAlias

from simsys.build.modules import module_options
from simsys.build.rules import Parts, apply_rules
from simsys.build.rules.findings import Findings, Remedy, unlocated
from simsys.build.rules.shards import can_shard
from simsys.build.training import TrainingJob
from simsys.build.training_setup import DATA_PARALLEL
from simsys.check.combining import Combining
from simsys.check.remedies import MAX_TENSOR_DEGREE, applied, changed, memory_problem
from simsys.config.parallelism import DATA_STRATEGIES, STRATEGY_PARTS
from simsys.errors import SimsysError
from simsys.framework import DataParallel
from simsys.sums import ordered_sum

Kind: TypeAlias = Callable[[TrainingJob], Iterator[Remedy]]
Variant: TypeAlias = tuple[Remedy, TrainingJob]
"""A remedy, and the job with its settings."""

MAX_MICRO_BATCHES = 1024
"""Most accumulated micro-batches that are proposed in place of a larger batch."""
SHARDING = ("DDP", "ZERO1", "ZERO2", "HSDP", "FSDP")
"""Strategies of data parallelism, ordered by the part of the model states that they divide."""
OFFLOADS = ("none", "optimizer", "parameters")
"""Values of the offload option, ordered by the data in host memory; a data-parallel module may not have all."""


def fused_attention(job: TrainingJob) -> Iterator[Remedy]:
    """Attention that never writes its scores (Dao et al. 2022)."""
    if job.settings.attention == "unfused":
        yield {"training.attention": "fused"}


def sequence_parallel(job: TrainingJob) -> Iterator[Remedy]:
    """Sequence parallelism: norms and dropout divided by tokens (Korthikanti et al. 2022, §4.2.2)."""
    if job.layout.tensor > 1 and not job.config.parallelism.sequence_parallel:
        yield {"parallelism.sequence_parallel": True}


def zero1(job: TrainingJob) -> Iterator[Remedy]:
    """ZeRO-1: optimizer states divided among replicas (Rajbhandari et al. 2020, §5.1)."""
    yield from _more_sharding(job, "ZERO1")


def zero2(job: TrainingJob) -> Iterator[Remedy]:
    """ZeRO-2: gradients divided too (Rajbhandari et al. 2020, §5.2)."""
    yield from _more_sharding(job, "ZERO2")


def fully_sharded(job: TrainingJob) -> Iterator[Remedy]:
    """FSDP: weights divided too (Rajbhandari et al. 2020, §5.3; Zhao et al. 2023)."""
    yield from _more_sharding(job, "FSDP")


def smaller_batch(job: TrainingJob) -> Iterator[Remedy]:
    """Smaller micro-batches, and more of them per optimizer step."""
    given = job.settings
    samples = given.batch_size_per_gpu * given.gradient_accumulation_steps
    for steps in range(given.gradient_accumulation_steps + 1, MAX_MICRO_BATCHES + 1):
        if samples % steps == 0:
            yield {"training.batch_size_per_gpu": samples // steps, "training.gradient_accumulation_steps": steps}


def selective_recompute(job: TrainingJob) -> Iterator[Remedy]:
    """Recomputation of the attention core (Korthikanti et al. 2022, §5)."""
    if job.settings.activation_recompute == "none":
        yield {"training.activation_recompute": "selective"}


def full_recompute(job: TrainingJob) -> Iterator[Remedy]:
    """Recomputation of each block (Chen et al. 2016)."""
    if job.settings.activation_recompute != "full":
        yield {"training.activation_recompute": "full"}


def more_tensor(job: TrainingJob) -> Iterator[Remedy]:
    """Larger tensor-parallel groups in place of replicas, within a node (Narayanan et al. 2021, §3.2)."""
    for degree in range(job.layout.tensor + 1, min(job.cluster.gpus_per_node, MAX_TENSOR_DEGREE) + 1):
        yield from with_degree(job, "tp_degree", degree)


def more_stages(job: TrainingJob) -> Iterator[Remedy]:
    """More pipeline stages in place of replicas, with at least a micro-batch for each."""
    stages = 2 * job.layout.pipeline
    while stages <= job.cluster.num_gpus:
        for remedy in with_degree(job, "pp_stages", stages):
            if remedy.get("training.gradient_accumulation_steps", job.settings.gradient_accumulation_steps) >= stages:
                yield remedy
        stages *= 2


def offload(job: TrainingJob) -> Iterator[Remedy]:
    """Optimizer states in host memory, or weights too (Ren et al. 2021)."""
    current = getattr(job.data_parallel[1], "offload", None)
    if current in OFFLOADS:
        for more in OFFLOADS[OFFLOADS.index(current) + 1 :]:
            yield {"training.options": {**job.settings.options, "offload": more}}


def sgd(job: TrainingJob) -> Iterator[Remedy]:
    """Another optimizer with fewer states per weight; this changes the training."""
    if job.settings.optimizer == "adam":
        yield {"training.optimizer": "sgd"}


KINDS: tuple[Kind, ...] = (
    fused_attention,
    sequence_parallel,
    zero1,
    smaller_batch,
    zero2,
    fully_sharded,
    selective_recompute,
    full_recompute,
    more_stages,
    more_tensor,
    offload,
    sgd,
)
"""Kinds of remedies, ordered by their usual costs, the lowest first; `effects` measures the costs."""
EVERY_MICRO_BATCH = (zero2, fully_sharded)
"""Remedies that communicate in every micro-batch; a pipeline has many of these."""


def single_remedies(job: TrainingJob) -> Iterator[Variant]:
    """For each kind, the mildest variant with which the job fits, or else the variant that saves most."""
    return _combining(job).singles()


def remedy_pairs(job: TrainingJob) -> Iterator[Variant]:
    """Pairs of kinds with which the job fits, each at its mildest sufficient variant, in the order of usual costs."""
    return _combining(job).pairs()


def remedy_combinations(job: TrainingJob) -> Iterator[Variant]:
    """Larger combinations, for jobs for which no pair suffices."""
    return _combining(job).combinations()


def strategy_remedy(job: TrainingJob, data: str) -> Remedy | None:
    """Settings of another shipped data-parallel strategy; None if the scenario names its own module.

    Options are kept if the other strategy has them too.
    """
    if job.settings.data_parallel is not None or job.layout.replicas == 1:
        return None
    remedy: dict[str, Any] = {"parallelism.strategy": _strategy(job, data)}
    try:
        module_options(DATA_PARALLEL[data], DataParallel, job.settings.options, "training.options")
    except SimsysError:
        remedy["training.options"] = {}
    return remedy


def current_strategy(job: TrainingJob) -> str:
    """The strategy of data parallelism in the scenario; DDP if it names none."""
    return next((data for data in DATA_STRATEGIES if data in job.config.parallelism.parts), "DDP")


def _kinds(job: TrainingJob) -> Sequence[Kind]:
    """The kinds in the order of their usual costs for this job, the lowest first."""
    late = EVERY_MICRO_BATCH if job.layout.pipeline > 1 else ()
    return sorted(KINDS, key=lambda kind: (kind is sgd, kind in late))


def _combining(job: TrainingJob) -> Combining[TrainingJob]:
    return Combining(
        job,
        _kinds(job),
        _checked,
        lambda changed: not memory_problem(changed),
        lambda changed: ordered_sum(changed.memory_bytes.values()),
    )


def _checked(job: TrainingJob, remedy: Remedy) -> TrainingJob | None:
    """The job with a remedy's settings; None if they do not fit together."""
    found = Findings(unlocated({}))
    parts = Parts(changed(job.config, remedy), job.cluster.spec, job.model, job.engine, job.cluster)
    apply_rules(parts, found, ("parallelism", "training"))
    if found.errors:
        return None
    made = applied(job, remedy)
    return made if can_shard(made, found) else None


def _more_sharding(job: TrainingJob, data: str) -> Iterator[Remedy]:
    if SHARDING.index(data) > SHARDING.index(current_strategy(job)) and (remedy := strategy_remedy(job, data)):
        yield remedy


def with_degree(job: TrainingJob, key: str, degree: int) -> Iterator[Remedy]:
    """Another degree on the present GPUs, with an unchanged global batch, where the numbers divide evenly.

    A larger degree leaves fewer replicas, with proportionally more micro-batches.

    Args:
        job: The job.
        key: The setting of ``parallelism``, such as ``tp_degree``.
        degree: Its value.
    """
    given, layout = job.config.parallelism, job.layout
    degrees = {"tp_degree": layout.tensor, "cp_degree": layout.context, "pp_stages": layout.pipeline, key: degree}
    replicas, rest = divmod(job.cluster.num_gpus, degrees["tp_degree"] * degrees["cp_degree"] * degrees["pp_stages"])
    if rest or not replicas:
        return
    micro_batches, rest = divmod(job.settings.gradient_accumulation_steps * layout.data, replicas)
    if rest or micro_batches > max(MAX_MICRO_BATCHES, job.settings.gradient_accumulation_steps):
        return
    remedy: dict[str, Any] = {f"parallelism.{key}": degree}
    if given.strategy is not None:
        named = next((part for part in DATA_STRATEGIES if part in given.parts), "DDP")
        data = named if replicas > 1 else ""
        remedy["parallelism.strategy"] = _strategy(job, data, **{key: degree})
    if given.dp_degree is not None:
        remedy["parallelism.dp_degree"] = replicas
    if micro_batches != job.settings.gradient_accumulation_steps:
        remedy["training.gradient_accumulation_steps"] = micro_batches
    yield remedy


def _strategy(job: TrainingJob, data: str, *, tp_degree: int = 0, pp_stages: int = 0) -> str:
    """The name of a strategy: the kinds with degrees above 1, and a kind of data parallelism."""
    layout = job.layout
    tensor, stages = tp_degree or layout.tensor, pp_stages or layout.pipeline
    degrees = {"TP": tensor, "CP": layout.context, "EP": layout.expert, "PP": stages}
    return "_".join(part for part in STRATEGY_PARTS if degrees.get(part, 1) > 1 or part == data)
