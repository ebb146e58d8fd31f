"""Checks whether pipeline stages can divide the layers, and whether the schedule allows the micro-batches."""

from __future__ import annotations

from collections.abc import Sequence

from simsys.build.batches import batch_phases
from simsys.build.cluster import Cluster
from simsys.build.rules.degrees import degree
from simsys.build.rules.findings import Findings, Remedy, Suggestion
from simsys.build.rules.modules import known_module
from simsys.build.rules.nearest import nearest_divisors
from simsys.build.rules.registry import Parts, rule
from simsys.build.stage_layers import serving_stage_layers
from simsys.config.document import KeyPath
from simsys.config.experiment import SimulationConfig
from simsys.config.parallelism import ParallelismConfig
from simsys.config.training import TrainingConfig
from simsys.config.validation import dotted
from simsys.errors import SimsysError
from simsys.framework import FRAMEWORKS, Schedule
from simsys.parallel.passes import forward_pass
from simsys.parallel.stages import layer_count, partition, uneven_layers

STAGES = ("parallelism", "pp_stages")
STEPS = "gradient_accumulation_steps"
MAX_PASSES = 2_000_000
"""Most passes of micro-batches through all chunks of the model in an iteration; their order is stored for every
stage."""
MAX_STEPS = 1000
"""Numbers of micro-batches that are tried in each direction to find one that the schedule allows."""
MAX_SIZES = 32
"""Most stages for which the layers of each stage are proposed."""


@rule("parallelism.pp_stages")
def stages(parts: Parts, found: Findings) -> None:
    """The layers can be divided among the stages, and the schedule allows the micro-batches."""
    config, cluster, model, given = parts.config, parts.cluster, parts.model, parts.config.parallelism
    if model is None:
        return
    schedule_at, virtual_at = ("parallelism", "schedule"), ("parallelism", "virtual_stages")
    known = config.training is not None and known_module(given.schedule, Schedule, schedule_at, found)
    if config.training is None and given.virtual_stages > 1:
        found.error(virtual_at, "virtual_stages are for training; remove virtual_stages")
        return
    if given.pp_stages == 1:
        for key in ("virtual_stages", "stage_layers"):
            if getattr(given, key) not in (1, None):
                found.error(("parallelism", key), f"{key} needs pp_stages above 1")
        return
    numbers_at = virtual_at if given.virtual_stages > 1 else STAGES
    layers_at = ("parallelism", "stage_layers") if given.stage_layers is not None else numbers_at
    whole = forward_pass(model)
    layers, pieces = layer_count(whole), given.pp_stages * given.virtual_stages
    sizes: Sequence[int] | None = given.stage_layers
    if config.training is None and parts.engine is not None:
        sizes = serving_stage_layers(given, parts.engine, layers)
    if sizes is None and layers % pieces:
        among = f"{given.pp_stages} stages" + f" x {given.virtual_stages} virtual ones" * (given.virtual_stages > 1)
        message = f"{layers} layer{'s' if layers > 1 else ''} cannot be divided among {among}"
        found.error(numbers_at, message, suggestion=_fitting_stages(config, layers, cluster))
    else:
        found.attempt(layers_at, lambda: partition(whole, given.pp_stages, given.virtual_stages, sizes))
    if known and config.training is not None:
        _check_micro_batches(config, config.training, virtual_at if given.virtual_stages > 1 else schedule_at, found)


def _fitting_stages(config: SimulationConfig, layers: int, cluster: Cluster | None) -> Suggestion:
    """Numbers of stages, virtual ones or plain ones, that divide the layers, or layers of each stage."""
    given = config.parallelism
    pieces = given.pp_stages * given.virtual_stages
    if given.virtual_stages > 1 and layers % given.pp_stages == 0:
        near = nearest_divisors(layers // given.pp_stages, given.virtual_stages)
        groups: list[Sequence[Remedy]] = [[{"parallelism.virtual_stages": each}] for each in near]
    else:
        gpus = cluster.num_gpus // (given.tp_degree * given.cp_degree) if cluster is not None else 0
        near = nearest_divisors(layers, given.pp_stages, gpus)
        groups = [*(degree(config, cluster, "pp_stages", each) for each in near)]
    if pieces < layers and pieces <= MAX_SIZES and (given.virtual_stages == 1 or len(groups) < 2):
        groups.insert(2, [{"parallelism.stage_layers": uneven_layers(layers, pieces)}])
    return Suggestion(groups)


def _check_micro_batches(config: SimulationConfig, training: TrainingConfig, at: KeyPath, found: Findings) -> None:
    """The schedule allows the micro-batches of the plain settings (else the error is at `at`) and of every phase."""
    given = config.parallelism
    schedule = FRAMEWORKS.get(given.schedule, Schedule)()
    tried: set[int] = set()
    for phase in batch_phases(training):
        place, steps = at, phase.micro_batches
        if phase.entry is not None:
            entry: KeyPath = ("training", "batch_schedule", phase.entry)
            key = (*entry, "gradient_accumulation_steps")
            place = key if found.written(key) else entry
        if steps not in tried:
            tried.add(steps)
            passes = steps * given.pp_stages * schedule.held_chunks(given.virtual_stages)
            if passes > MAX_PASSES:
                message = f"{passes:,} passes in an iteration (micro-batches x stages x virtual stages)"
                found.error(place, f"{message} are too many to simulate; at most {MAX_PASSES:,}")
                continue
            problem = _schedule_problem(schedule, given, steps)
            if problem:
                part: KeyPath = ("training",) if phase.entry is None else ("training", "batch_schedule", phase.entry)
                steps_at = dotted((*part, STEPS))
                fitting = [[{steps_at: each}] for each in _fitting_steps(schedule, given, steps)]
                found.error(place, problem, suggestion=Suggestion(fitting))


def _schedule_problem(schedule: Schedule, given: ParallelismConfig, steps: int) -> str:
    """Why the schedule refuses `steps` micro-batches; empty if it does not."""
    try:
        schedule.actions(0, given.pp_stages, steps, schedule.held_chunks(given.virtual_stages))
    except SimsysError as error:
        return str(error)
    return ""


def _fitting_steps(schedule: Schedule, given: ParallelismConfig, steps: int) -> list[int]:
    """The next lower and the next higher number of micro-batches that the schedule allows, if they are near."""
    near = min(given.pp_stages, MAX_STEPS)
    below, above = range(steps - 1, max(0, steps - near - 1), -1), range(steps + 1, steps + near)
    allowed = (next((s for s in way if not _schedule_problem(schedule, given, s)), 0) for way in (below, above))
    return [count for count in allowed if count]
