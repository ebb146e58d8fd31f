"""Whether the degrees of parallelism fit the strategy, the cluster and the model."""

from __future__ import annotations

from collections.abc import Sequence

from simsys.build.batches import batch_phases
from simsys.build.cluster import Cluster
from simsys.check.degrees import DIVIDING, degree, degrees
from simsys.check.experts import check_experts
from simsys.check.findings import Findings, Lever, Suggestion
from simsys.check.names import known_module
from simsys.check.nearest import nearest_divisors
from simsys.check.sequences import check_sequences
from simsys.config.document import KeyPath
from simsys.config.experiment import SimulationConfig
from simsys.config.parallelism import DATA_STRATEGIES, STRATEGY_PARTS, ParallelismConfig
from simsys.config.training import TrainingConfig
from simsys.config.validation import dotted
from simsys.errors import SimsysError, UsageError
from simsys.framework import FRAMEWORKS, Schedule
from simsys.model.model import Model
from simsys.parallel.passes import forward_pass
from simsys.parallel.stages import layer_count, partition

TENSOR, DATA, STAGES = ("parallelism", "tp_degree"), ("parallelism", "dp_degree"), ("parallelism", "pp_stages")
STRATEGY = ("parallelism", "strategy")
STEPS = "gradient_accumulation_steps"
MAX_PASSES = 2_000_000
"""Of the micro-batches of an iteration through all chunks of the model; their order is held for every stage."""
MAX_STEPS = 1000
"""Numbers of micro-batches that are tried in each direction for one that a schedule allows."""
MAX_SIZES = 8
"""Layers of more stages than this are not proposed one by one."""

TRAINING_ALONE = {
    "order": "in serving, the ranks of a replica lie side by side, those of a stage first",
    "schedule": "in serving, batches go through the stages in the order in which they are issued",
    "p2p_overlap": "in serving, stages hand on beside the next batch",
}
"""Settings of parallelism that serving does not have, and what holds there."""
KINDS = {"training": STRATEGY_PARTS, "serving": ("TP", "EP", "PP")}
"""Which kinds of parallelism there are so far; in serving ``dp_degree`` counts independent replicas."""


def check_parallelism(config: SimulationConfig, cluster: Cluster | None, model: Model | None, found: Findings) -> None:
    """Book what is wrong with the degrees; what is unknown (None) is not checked against."""
    given = config.parallelism
    _check_strategy(config, cluster, found)
    if config.training is None:
        _check_training_alone(given, found)
    if cluster is not None:
        _check_gpus(config, cluster, model, found)
    if model is not None and given.tp_degree > 1:
        problem = split_problem(model, given.tp_degree)
        if problem:
            gpus = cluster.num_gpus if cluster is not None else 0
            near = nearest_divisors(max(1, model.num_attention_heads), given.tp_degree, gpus)
            found.error(TENSOR, problem, suggestion=degrees(config, cluster, "tp_degree", near))
    if model is not None:
        _check_pipeline(config, cluster, model, found)
    check_sequences(config, cluster, model, found)
    check_experts(config, cluster, _replicas(given, cluster), model, found)


def _check_training_alone(given: ParallelismConfig, found: Findings) -> None:
    """Settings that serving does not have, and that would change nothing there."""
    for key, instead in TRAINING_ALONE.items():
        if getattr(given, key) != type(given).model_fields[key].default:
            found.error(("parallelism", key), f"{key} is for training: {instead}; remove {key}")


def _check_pipeline(config: SimulationConfig, cluster: Cluster | None, model: Model, found: Findings) -> None:
    """The layers can be divided among the stages, and the schedule allows the numbers."""
    given = config.parallelism
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
    if given.stage_layers is None and layers % pieces:
        among = f"{given.pp_stages} stages" + f" x {given.virtual_stages} virtual ones" * (given.virtual_stages > 1)
        message = f"{layers} layer{'s' if layers > 1 else ''} cannot be divided among {among}"
        found.error(numbers_at, message, suggestion=_fitting_stages(config, layers, cluster))
    else:
        found.attempt(layers_at, lambda: partition(whole, given.pp_stages, given.virtual_stages, given.stage_layers))
    if known and config.training is not None:
        _check_micro_batches(config, config.training, virtual_at if given.virtual_stages > 1 else schedule_at, found)


def _fitting_stages(config: SimulationConfig, layers: int, cluster: Cluster | None) -> Suggestion:
    """Numbers of stages, virtual ones or plain ones, that divide so many layers, or layers of each stage."""
    given = config.parallelism
    pieces = given.pp_stages * given.virtual_stages
    if given.virtual_stages > 1 and layers % given.pp_stages == 0:
        near = nearest_divisors(layers // given.pp_stages, given.virtual_stages)
        groups: list[Sequence[Lever]] = [[{"parallelism.virtual_stages": each}] for each in near]
    else:
        gpus = cluster.num_gpus // (given.tp_degree * given.cp_degree) if cluster is not None else 0
        near = nearest_divisors(layers, given.pp_stages, gpus)
        groups = [*(degree(config, cluster, "pp_stages", each) for each in near)]
    if pieces < layers and pieces <= MAX_SIZES:
        each, more = divmod(layers, pieces)
        sizes = [each] * (pieces - more) + [each + 1] * more
        groups.insert(2, [{"parallelism.stage_layers": sizes}])
    return Suggestion(groups)


def _check_micro_batches(config: SimulationConfig, training: TrainingConfig, at: KeyPath, found: Findings) -> None:
    """The schedule allows the micro-batches of the plain settings (else `at` is wrong) and those of every phase."""
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
            passes = steps * given.pp_stages * given.virtual_stages
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
    """Why the schedule refuses so many micro-batches; empty if it does not."""
    try:
        schedule.actions(0, given.pp_stages, steps, given.virtual_stages)
    except SimsysError as error:
        return str(error)
    return ""


def _fitting_steps(schedule: Schedule, given: ParallelismConfig, steps: int) -> list[int]:
    """The next lower and the next higher number of micro-batches that the schedule allows, if they are near."""
    near = min(given.pp_stages, MAX_STEPS)
    below, above = range(steps - 1, max(0, steps - near - 1), -1), range(steps + 1, steps + near)
    allowed = (next((s for s in way if not _schedule_problem(schedule, given, s)), 0) for way in (below, above))
    return [count for count in allowed if count]


def split_problem(model: Model, tensor_degree: int) -> str:
    """Why tensor parallelism of this degree cannot divide the model; empty if it can."""
    heads, kv_heads = model.num_attention_heads, model.num_key_value_heads
    if not heads:
        return f"{model.name} has no attention heads, which tensor parallelism divides"
    if heads % tensor_degree:
        return f"{model.name} has {heads} attention heads, which tp_degree {tensor_degree} does not divide"
    if kv_heads % tensor_degree and tensor_degree % kv_heads:
        return (
            f"{model.name} has {kv_heads} key-value heads; tp_degree ({tensor_degree}) must divide that or be a "
            "multiple of it"
        )
    try:
        forward_pass(model, tensor_degree)
    except UsageError as error:
        return str(error)
    return ""


def _check_strategy(config: SimulationConfig, cluster: Cluster | None, found: Findings) -> None:
    """A degree above 1 needs a strategy that names its kind, and a kind that is named a degree above 1."""
    given, kinds = config.parallelism, KINDS[config.kind]
    if given.strategy is None:
        return
    if given.parts - set(kinds):
        names = ", ".join(["None", *kinds])
        found.error(STRATEGY, f"strategy {given.strategy} is not one for {config.kind}; so far there are: {names}")
        return
    replicas, before = _data_degree(config, cluster), len(found.errors)
    for kind, key in DIVIDING.items():
        size = getattr(given, key)
        if size > 1 and kind not in given.parts and kind in kinds:
            _refuse_degree(given, key, size, [kind], found)
        elif size == 1 and kind in given.parts:
            rest = "_".join(part for part in STRATEGY_PARTS if part in given.parts - {kind})
            rest = rest or ("DDP" if config.training is not None and replicas > 1 else "None")
            message = f"strategy {given.strategy} with {key} 1 divides nothing"
            groups: list[Sequence[Lever]] = [degree(config, cluster, key, 2), [{"parallelism.strategy": rest}]]
            found.error(STRATEGY, message, suggestion=Suggestion(groups, "write {}"))
    if len(found.errors) > before:
        return  # how many replicas there are is not known yet
    if config.training is not None and replicas > 1 and not given.parts.intersection(DATA_STRATEGIES):
        _refuse_degree(given, "dp_degree", replicas, DATA_STRATEGIES, found)


def _refuse_degree(given: ParallelismConfig, key: str, size: int, kinds: Sequence[str], found: Findings) -> None:
    named = ("_".join(part for part in STRATEGY_PARTS if part in given.parts | {kind}) for kind in kinds)
    suggestion = Suggestion([[{"parallelism.strategy": strategy}] for strategy in named], "write {}")
    path = ("parallelism", key)
    if found.written(path):
        found.error(path, f"strategy {given.strategy} has no {key} above 1, not {size}", suggestion=suggestion)
    else:
        message = f"strategy {given.strategy} leaves {size} replicas without a strategy"
        found.error(STRATEGY, message, suggestion=suggestion)


def _data_degree(config: SimulationConfig, cluster: Cluster | None) -> int:
    """The data-parallel degree, given or implied; 1 where a module of the user's choice says what happens."""
    given = config.parallelism
    if config.training is not None and config.training.data_parallel is not None:
        return 1
    if given.dp_degree is not None:
        return given.dp_degree
    return cluster.num_gpus // given.shards if cluster is not None else 1


def _replicas(given: ParallelismConfig, cluster: Cluster | None) -> int | None:
    """Ranks that hold the same weights; None if that is not known."""
    if given.dp_degree is not None:
        return given.dp_degree * given.cp_degree
    return cluster.num_gpus // given.shards * given.cp_degree if cluster is not None else None


def _check_gpus(config: SimulationConfig, cluster: Cluster, model: Model | None, found: Findings) -> None:
    """All GPUs are used: the product of the degrees is their number."""
    given = config.parallelism
    gpus, tensor = cluster.num_gpus, given.tp_degree
    shards, divided = given.shards, _product(given)
    if given.dp_degree is None:
        if shards > tensor and gpus % shards:
            key = "pp_stages" if given.pp_stages > 1 else "cp_degree"
            near = nearest_divisors(max(1, gpus * getattr(given, key) // shards), getattr(given, key))
            message = f"{divided} = {shards} does not divide {_gpus(gpus)}"
            found.error(("parallelism", key), message, suggestion=degrees(config, cluster, key, near))
        elif gpus % tensor:
            near = nearest_divisors(gpus, tensor, model.num_attention_heads if model is not None else 0)
            message = f"{_gpus(gpus)} cannot be divided into groups of tp_degree {tensor}"
            found.error(TENSOR, message, suggestion=degrees(config, cluster, "tp_degree", near))
        return
    product = shards * given.dp_degree
    if product == gpus:
        return
    groups: list[Sequence[Lever]] = []
    if gpus % shards == 0:
        groups.append([{"parallelism.dp_degree": gpus // shards}])
    others = given.dp_degree * given.pp_stages * given.cp_degree
    if gpus % others == 0 and gpus // others > 1 and tensor > 1:
        groups.append([{"parallelism.tp_degree": gpus // others}])
    if product % cluster.gpus_per_node == 0 and not found.written(("hardware", "nodes")):
        groups.append([{"hardware.num_nodes": product // cluster.gpus_per_node}])
    if not groups:
        names = [name for name in ("pp_stages", "cp_degree", "tp_degree") if getattr(given, name) > 1]
        for name in names or ["tp_degree"]:
            near = nearest_divisors(gpus, getattr(given, name))
            groups += [degree(config, cluster, name, each) for each in near]
    message = f"{divided} x dp {given.dp_degree} = {product}, the cluster has {_gpus(gpus)}"
    found.error(DATA, message, suggestion=Suggestion(groups))


def _product(given: ParallelismConfig) -> str:
    context = f" x cp {given.cp_degree}" if given.cp_degree > 1 else ""
    return f"tp {given.tp_degree}{context} x pp {given.pp_stages}"


def _gpus(count: int) -> str:
    return f"{count} GPU{'s' if count > 1 else ''}"
