"""Whether scenarios can be simulated: names, options, degrees, precisions, workloads and memory, all at once.

The schema says what a file may hold; this says what fits together, at the line of the value that is wrong.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from simsys.build.cluster import Cluster, build_cluster
from simsys.build.device import build_device_spec
from simsys.build.serving import BYTES_PER_ELEMENT, ServingJob
from simsys.build.training import TrainingJob, training_precision
from simsys.check_model import check_model
from simsys.check_names import check_modules, check_size, find_engine, find_gpu, find_node
from simsys.checks.parallelism import check_parallelism
from simsys.check_workload import check_lengths, check_trace, shortest_request
from simsys.config.experiment import SimulationConfig
from simsys.config.loader import ScenarioSource
from simsys.config.scenarios import read_sources
from simsys.config.validation import validate
from simsys.errors import ConfigError, InfeasibleConfigError, Problem
from simsys.checks.findings import Findings, as_written_text, unlocated, with_aliases
from simsys.levers import advice, cheapest_lever, job_of, memory_problem
from simsys.model.work import Model


def check_file(path: Path, assignments: Sequence[str] = ()) -> list[SimulationConfig]:
    """Read, validate and check all scenarios of a file.

    Args:
        path: The experiment file.
        assignments: Settings from the command line, such as ``"parallelism.tp_degree=4"``.

    Returns:
        The scenarios, all of which can be simulated.

    Raises:
        ConfigError: With every problem of every scenario, in file order.
        InfeasibleConfigError: If all that is wrong is that scenarios do not fit their hardware.
        UsageError: If an assignment is malformed.
    """
    scenarios: list[SimulationConfig] = []
    errors: dict[Problem, None] = {}  # ordered sets: a problem in the defaults is met once per scenario
    infeasible: dict[Problem, None] = {}
    for source in map(with_aliases, read_sources(path, assignments)):
        try:
            config = validate(source, SimulationConfig).located_in(path.resolve().parent)
        except ConfigError as error:
            errors |= dict.fromkeys(as_written_text(problem, source) for problem in error.problems)
            continue
        scenarios.append(config)
        wrong, does_not_fit = check_scenario(source, config)
        errors |= dict.fromkeys(wrong)
        infeasible |= dict.fromkeys(does_not_fit)
    if errors:
        raise ConfigError([*errors, *infeasible])
    if infeasible:
        raise InfeasibleConfigError(list(infeasible))
    return scenarios


def check_config(config: SimulationConfig) -> list[Problem]:
    """What is wrong with a scenario that was made in Python; the problems have paths but no lines."""
    source = unlocated(config.model_dump(exclude_unset=True))
    errors, infeasible = check_scenario(source, config)
    return [*errors, *infeasible]


def check_scenario(source: ScenarioSource, config: SimulationConfig) -> tuple[list[Problem], list[Problem]]:
    """Check one valid scenario.

    Args:
        source: Where its settings were written.
        config: The scenario.

    Returns:
        What is wrong with it, and what does not fit although nothing is wrong.
    """
    found = Findings(with_aliases(source))
    if not check_size(config, found):
        return found.errors, []
    cluster = _cluster(config, found)
    model = check_model(config, found)
    check_modules(config, found)
    engine = find_engine(config, found)
    check_parallelism(config, cluster, model, found)
    check_trace(config, found)
    if model is not None:
        check_lengths(config, model, found)
    if not found.errors and cluster is not None and model is not None and engine is not None:
        _check_memory(config, cluster, model, found)
    return found.errors, found.infeasible


def _cluster(config: SimulationConfig, found: Findings) -> Cluster | None:
    """The cluster, once all profiles that it names are there."""
    hardware = config.hardware
    node, gpu = find_node(config, found), find_gpu(config, found)
    if gpu is None or (hardware.profile is not None and node is None):
        return None
    _check_precision(config, found)
    return found.attempt(("hardware",), lambda: build_cluster(hardware, config.network))
