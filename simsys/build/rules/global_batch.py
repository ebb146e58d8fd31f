"""Sets the number of micro-batches from a global batch size."""

from __future__ import annotations

from simsys.build.rules.findings import Findings, Suggestion
from simsys.build.rules.nearest import nearest_divisors
from simsys.build.rules.parallelism import replicas_of
from simsys.build.rules.registry import Parts
from simsys.build.rules.sizes import MAX_COUNTS
from simsys.config.training import TrainingConfig

PLACE = ("training", "global_batch_size")
STEPS = "gradient_accumulation_steps"


def settle_global_batch(parts: Parts, found: Findings) -> None:
    """Replace the global batch size of a scenario by the accumulation steps that follow from its layout.

    Records an error if the batch cannot be divided, or if the written accumulation steps disagree with it.
    """
    training = parts.config.training
    if training is None or training.global_batch_size is None or parts.cluster is None:
        return
    given = parts.config.parallelism
    if given.shards > parts.cluster.num_gpus:
        return  # reported where degrees are checked
    replicas, samples = replicas_of(parts), training.batch_size_per_gpu
    steps, rest = divmod(training.global_batch_size, samples * replicas)
    if rest or not steps:
        message = indivisible(training, replicas)
        near = nearest_divisors(training.global_batch_size // replicas or 1, samples)
        remedies = [[{"training.batch_size_per_gpu": each}] for each in near]
        found.error(PLACE, message, suggestion=Suggestion(remedies))
        return
    if STEPS in training.model_fields_set and training.gradient_accumulation_steps != steps:
        message = f"global_batch_size {training.global_batch_size} needs {STEPS} {steps} ({samples} x {replicas} x"
        found.error(("training", STEPS), f"{message} {steps}); remove {STEPS}")
        return
    if steps > MAX_COUNTS[STEPS]:
        most = MAX_COUNTS[STEPS] * samples * replicas
        message = f"must be at most {most} with batch_size_per_gpu {samples} on {replicas} data-parallel ranks"
        found.error(PLACE, f"{message}, as {STEPS} is at most {MAX_COUNTS[STEPS]}, not {steps}")
        return
    settled = training.model_copy(update={"global_batch_size": None, STEPS: steps})
    folder = parts.config.folder
    parts.config = parts.config.model_copy(update={"training": settled}).located_in(folder)


def indivisible(training: TrainingConfig, replicas: int) -> str:
    """The reason why replicas cannot divide a global batch."""
    samples = training.batch_size_per_gpu
    each = f"batch_size_per_gpu {samples} x {replicas} data-parallel ranks"
    return f"{each} = {samples * replicas} does not divide global_batch_size {training.global_batch_size}"
