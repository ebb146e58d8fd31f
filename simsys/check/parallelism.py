"""Whether the degrees of parallelism fit the strategy, the cluster and the model."""

from __future__ import annotations

from simsys.build.cluster import Cluster
from simsys.check.findings import Findings
from simsys.config.experiment import ParallelismConfig, SimulationConfig
from simsys.errors import UsageError
from simsys.model.work import Model
from simsys.parallel.passes import forward_pass

TENSOR, DATA, STAGES = ("parallelism", "tp_degree"), ("parallelism", "dp_degree"), ("parallelism", "pp_stages")
STRATEGY = ("parallelism", "strategy")

DEGREES = {
    "training": {"None": frozenset[str](), "DDP": frozenset({"dp_degree"})},
    "serving": {"None": frozenset({"dp_degree"}), "TP": frozenset({"tp_degree", "dp_degree"})},
}
"""Which degrees each strategy may have above 1; in serving ``dp_degree`` counts independent replicas."""


def check_parallelism(config: SimulationConfig, cluster: Cluster | None, model: Model | None, found: Findings) -> None:
    """Book what is wrong with the degrees; what is unknown (None) is not checked against."""
    given = config.parallelism
    if given.pp_stages > 1:
        known = "None, DDP (training) and TP (serving)"
        found.error(STAGES, f"pipeline parallelism is not available in this version; strategies so far: {known}")
        return
    _check_strategy(config, cluster, found)
    if cluster is not None:
        _check_gpus(given, cluster, model, found)
    if model is not None and given.tp_degree > 1:
        problem = split_problem(model, given.tp_degree, cluster.num_gpus if cluster is not None else 0)
        if problem:
            found.error(TENSOR, problem)


def split_problem(model: Model, tensor_degree: int, gpus: int = 0) -> str:
    """Why tensor parallelism of this degree cannot divide the model; empty if it can.

    Args:
        model: What is divided.
        tensor_degree: Into how many parts.
        gpus: GPUs of the cluster, if the degree to suggest shall divide them too.
    """
    heads, kv_heads = model.num_attention_heads, model.num_key_value_heads
    if not heads:
        return f"{model.name} has no attention heads, which tensor parallelism divides; use tp_degree: 1"
    if heads % tensor_degree:
        return (
            f"{model.name} has {heads} attention heads, which tp_degree {tensor_degree} does not divide; "
            f"{_nearest_divisors(heads, tensor_degree, gpus)}"
        )
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
    """A degree above 1 needs a strategy that has it."""
    given, known = config.parallelism, DEGREES[config.kind]
    names = ", ".join(known)
    if given.tp_degree > 1 and not any("tp_degree" in degrees for degrees in known.values()):
        found.error(TENSOR, f"tensor parallelism is not available for {config.kind} yet; strategies so far: {names}")
        return
    if given.strategy is None:
        return
    if given.strategy not in known:
        found.error(STRATEGY, f"strategy {given.strategy} is not one for {config.kind}; so far there are: {names}")
        return
    allowed = known[given.strategy]
    if given.strategy == "TP" and given.tp_degree == 1:
        found.error(STRATEGY, "strategy TP with tp_degree 1 divides nothing; write tp_degree: 2 or strategy: None")
    for key, degree in (("tp_degree", given.tp_degree), ("dp_degree", _data_degree(config, cluster))):
        if degree > 1 and key not in allowed:
            fitting = " or ".join(name for name, degrees in known.items() if key in degrees)
            _refuse_degree(given.strategy, key, degree, fitting, found)


def _refuse_degree(strategy: str, key: str, degree: int, fitting: str, found: Findings) -> None:
    path = ("parallelism", key)
    if found.written(path):
        found.error(path, f"strategy {strategy} has no {key} above 1, not {degree}; use strategy {fitting}")
    else:
        message = f"strategy {strategy} uses one GPU, the cluster has {degree}; use strategy {fitting} or fewer GPUs"
        found.error(STRATEGY, message)


def _data_degree(config: SimulationConfig, cluster: Cluster | None) -> int:
    """The data-parallel degree, given or implied; 1 where a module of the user's choice says what happens."""
    given = config.parallelism
    if config.training is not None and config.training.data_parallel is not None:
        return 1
    if given.dp_degree is not None:
        return given.dp_degree
    return cluster.num_gpus // given.tp_degree if cluster is not None else 1


def _check_gpus(given: ParallelismConfig, cluster: Cluster, model: Model | None, found: Findings) -> None:
    """All GPUs are used: the product of the degrees is their number."""
    gpus, tensor = cluster.num_gpus, given.tp_degree
    if given.dp_degree is None:
        if gpus % tensor:
            heads = model.num_attention_heads if model is not None else 0
            fitting = _nearest_divisors(gpus, tensor, heads)
            found.error(TENSOR, f"{_gpus(gpus)} cannot be divided into groups of tp_degree {tensor}; {fitting}")
        return
    product = tensor * given.dp_degree
    if product == gpus:
        return
    options = []
    if gpus % tensor == 0:
        options.append(f"dp_degree: {gpus // tensor}")
    if gpus % given.dp_degree == 0 and gpus // given.dp_degree > 1 and tensor > 1:
        options.append(f"tp_degree: {gpus // given.dp_degree}")
    if product % cluster.gpus_per_node == 0:
        options.append(f"num_nodes: {product // cluster.gpus_per_node}")
    would = f"; {' or '.join(options)} would fit" if options else f"; {_nearest_divisors(gpus, tensor)}"
    layout = f"tp {tensor} x pp {given.pp_stages} x dp {given.dp_degree} = {product}"
    found.error(DATA, f"{layout}, the cluster has {_gpus(gpus)}{would}")


def _gpus(count: int) -> str:
    return f"{count} GPU{'s' if count > 1 else ''}"


def _nearest_divisors(number: int, near: int, also: int = 0) -> str:
    """The degrees around `near` that divide `number` (and `also`), as advice."""
    common = [d for d in range(1, min(number, 1024) + 1) if number % d == 0 and also % d == 0]
    nearest = sorted(sorted(common, key=lambda d: (abs(d - near), d))[:3])
    return f"tp_degree: {' or '.join(map(str, nearest))} would fit"
