"""Detection of scenarios in which medium must simulate every rank, although most have equal work."""

from __future__ import annotations

from simsys.build.job import build_job
from simsys.build.training import TrainingJob
from simsys.config.experiment import SimulationConfig
from simsys.errors import InfeasibleError


def check_folding(config: SimulationConfig) -> None:
    """Check that ranks with equal work have one representative at medium; not for several jobs.

    If every rank is simulated at both levels, medium is exact, but its speed-up is not representative. Teams that
    serve always fold, as their ranks work in lockstep.

    Raises:
        InfeasibleError: If they cannot; the message says what sets them apart.
    """
    job = build_job(config) if config.kind == "training" else None
    if not isinstance(job, TrainingJob):
        return
    ranks = job.layout.world_size
    if len(job.roles()) == ranks > len(job.layout.roles()):
        raise InfeasibleError(
            f"{config.name}: medium cannot fold any of the {ranks} ranks and simulates each of them, as high does: "
            f"{_why(job)}; compare without that, or look at one level with simsys run --lod"
        )


def _why(job: TrainingJob) -> str:
    if job.settings.data_parallel is not None:
        return f"hardware is not alike, and what {job.settings.data_parallel} does with that is not known"
    if job.config.hardware.jitter is not None:
        return "their computations vary at random (hardware.jitter), and it matters who meets whom in which group"
    return "GPUs or links differ, and each rank waits for different ranks"
