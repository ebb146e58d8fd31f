"""The regimes of a scenario: features that determine how well its figures are known from measurements.

Measured runs and user's runs have the same names of regimes, so that a run can report the regimes without measurements
(`simsys.config.expected_errors`).
"""

from __future__ import annotations

from collections.abc import Iterator

from simsys.build.job import Job
from simsys.build.serving import ServingJob
from simsys.build.training import TrainingJob
from simsys.build.variants.variant import variants_of
from simsys.config.expected_errors import Subject

WEIGHTS = {
    "fp8": "weights in fp8",
    "fp8_block": "weights in fp8",
    "int8": "weights in int8",
    "int4": "weights in int4",
    "mxfp4": "weights in fp4",
    "fp4": "weights in fp4",
    "fp32": "weights in fp32",
}
"""Regimes of serving, by precision of weights; 16 bit is no regime."""
FAMILIES = {
    "cnn": "CNNs and models written layer by layer",
    "encoder": "encoders",
    "encoder_decoder": "encoder-decoders",
}
"""Regimes of model families; decoders are no regime."""
DATA_PARALLEL = {"zero1": "ZeRO-1", "zero2": "ZeRO-2", "fsdp": "FSDP", "none": "", "ddp": ""}
"""Regimes of data-parallel modules; plain ones are no regime."""


def subject_of(job: Job, *, shared: bool = False) -> Subject:
    """The facts of a scenario that determine which measurements are similar.

    Args:
        job: The scenario.
        shared: Whether it shares links with other jobs.
    """
    workload = job.config.workload
    return Subject(
        job.config.kind,
        job.cluster.gpu.name,
        job.engine.name,
        regimes_of(job, shared=shared),
        at_once=workload is not None and workload.arrivals.kind == "all_at_once",
    )


def regimes_of(job: Job, *, shared: bool = False) -> list[str]:
    """The regimes of a scenario, in words; empty for a plain scenario.

    Args:
        job: The scenario.
        shared: Whether it shares links with other jobs.
    """
    found = [*_model(job), *(_training(job) if isinstance(job, TrainingJob) else _serving(job)), *_hardware(job)]
    if shared or job.config.simulation.occupy_links is True:
        found.append("links that jobs or replicas share")
    return found


def _model(job: Job) -> Iterator[str]:
    if job.model.experts > 1:
        yield "mixture of experts"
    if any(operator.chosen for block in job.model.kinds_of_blocks for operator in block.operators):
        yield "sparse attention"
    if job.model.family in FAMILIES:
        yield FAMILIES[job.model.family]
    given = job.config.parallelism
    for degree, name in ((given.pp_stages, "pipeline"), (given.cp_degree, "context"), (given.ep_degree, "expert")):
        if degree > 1:
            yield f"{name} parallelism"


def _training(job: TrainingJob) -> Iterator[str]:
    settings = job.settings
    if job.layout.tensor > 1:
        yield "tensor parallelism"
    module, options = job.data_parallel
    if job.layout.data > 1:
        name = settings.data_parallel or module.__name__.lower()
        yield from (text for text in [DATA_PARALLEL.get(name, f"data-parallel module {name}")] if text)
        if getattr(options, "compression", "none") not in ("none", "fp16", "bf16"):
            yield "compressed gradients"
    if job.shards.on_host:
        yield "offload to the host"
    if job.precision.compute in ("fp8", "fp4", "fp32", "tf32"):
        yield f"computation in {job.precision.compute}"
    if settings.activation_recompute != "none":
        yield "activation recomputation"
    for name, given in (("data loading", settings.data_loading), ("checkpoints", settings.checkpoint)):
        if given is not None:
            yield name


def _serving(job: ServingJob) -> Iterator[str]:
    settings, workload = job.settings, job.config.workload
    if settings.precision in WEIGHTS:
        yield WEIGHTS[settings.precision]
    if len(job.pools) == 1 and job.layout.data > job.attention_dp:
        yield "several replicas"
    if any(pool.attention_dp > 1 for pool in job.pools):
        yield "attention in data parallelism"
    yield from (each.regime for each in variants_of(settings) if each.in_regime(job))
    conditions = {
        "conversations": workload is not None and workload.sessions is not None,
        "replicas on several nodes": job.layout.tensor * job.layout.pipeline > job.cluster.gpus_per_node,
    }
    yield from (name for name, holds in conditions.items() if holds)


def _hardware(job: Job) -> Iterator[str]:
    if isinstance(job, TrainingJob) and job.cluster.num_nodes > 1:
        yield "several nodes"
    config = job.config
    varied = config.hardware.jitter or config.hardware.slowdowns or config.network.degradations
    if varied or job.cluster.exceptions:
        yield "hardware that varies"
    if isinstance(config.hardware.gpu, dict):
        yield "a GPU that is described in the experiment"
