"""The prediction of a traced training run: the parts of a step on one GPU, by the same rules as of the real one."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from simsys.check import sound
from simsys.config.experiment import SimulationConfig
from simsys.errors import UsageError
from simsys.simulation import simulate
from simsys.traces.iterations import Iterations
from simsys.traces.kineto_file import KinetoTrace
from simsys.traces.step_times import Step, StepTimes, mean_times
from simsys.traces.training_trace import TrainingTrace


@dataclass(frozen=True)
class Comparison:
    """A real GPU beside a simulated one.

    Args:
        file: The file of the real run.
        rank: The rank.
        steps: Number of measured steps.
        measured: Means of the measured steps.
        predicted: Means of the simulated iterations.
        world_sizes: Ranks of the real run, 0 if unknown, and of the scenario.
    """

    file: str
    rank: int
    steps: int
    measured: StepTimes
    predicted: StepTimes
    world_sizes: tuple[int, int] = (0, 0)


def compare_with_prediction(traces: Sequence[KinetoTrace], config: SimulationConfig) -> list[Comparison]:
    """Simulate a scenario and compare it with traces, GPU by GPU.

    Args:
        traces: Traces of the real run.
        config: The scenario that describes it.

    Raises:
        UsageError: If a trace has no steps, or ranks that the scenario lacks, or the scenario does not train.
        SimsysError: If the scenario cannot be simulated.
    """
    for trace in traces:
        if not all(gpu.steps for gpu in trace.gpus):
            raise UsageError(
                f"{trace.file}: no steps (annotations 'ProfilerStep#…'), so there is no time of a step to compare; "
                "call prof.step() after each iteration"
            )
    if config.kind != "training":
        raise UsageError(f"a trace of a profiler is compared with training, and {config.name} is {config.kind}")
    observed = TrainingTrace()
    simulate(config, [observed], built=sound(config))
    shown = {rank: first for first, ranks in observed.stands_for.items() for rank in ranks}
    predicted: dict[int, StepTimes] = {}
    pieces, found = observed.activities(), []
    for trace in traces:
        for gpu in trace.gpus:
            rank = shown.get(gpu.rank)
            if rank is None:
                raise UsageError(
                    f"{trace.file}: it is of rank {gpu.rank}, and {config.name} has ranks 0 to {max(shown)}; "
                    "change the parallelism of the scenario"
                )
            if rank not in predicted:
                predicted[rank] = mean_times(_steps(observed.iterations, rank), pieces[rank])
            measured = mean_times(gpu.steps, [(each.started_s, each.ended_s, each.kind) for each in gpu.activities])
            sizes = trace.world_size, len(shown)
            found.append(Comparison(trace.file, gpu.rank, len(gpu.steps), measured, predicted[rank], sizes))
    return found


def _steps(iterations: Iterations, rank: int) -> list[Step]:
    """The simulated iterations of a rank, each as often as further ones equal it."""
    counts: dict[int, int] = {}
    number, simulated = 0, []
    for each in iterations.of[rank]:
        if each.like < 0:
            simulated.append((number, each))
        like = number if each.like < 0 else each.like
        counts[like] = counts.get(like, 0) + each.count
        number += each.count
    return [Step(number, each.started_s, each.ended_s, counts[number]) for number, each in simulated]
