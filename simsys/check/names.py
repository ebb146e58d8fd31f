"""Whether everything that a scenario names exists, with its options, and whether the GPU has the precision."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TypeVar, get_args

from simsys.build.cluster import Cluster
from simsys.build.device import build_device_spec
from simsys.build.modules import module_options
from simsys.build.nodes import gpu_given
from simsys.build.serving import SCHEDULER_LIMITS
from simsys.build.serving_precision import DEFAULT, weights_of
from simsys.build.training import training_precision
from simsys.build.training_setup import data_parallel_module
from simsys.check.findings import Findings, Suggestion
from simsys.check.model import source_path
from simsys.collectives.choose import named
from simsys.config.document import KeyPath
from simsys.config.experiment import SimulationConfig
from simsys.config.hardware import Given, NodeProfile, load_fabric, load_gpu, load_node, no_profiles
from simsys.config.hardware_schema import Profile
from simsys.config.serving import ServingConfig, ServingPrecision
from simsys.config.training import TrainingConfig, TrainingPrecision
from simsys.config.validation import dotted
from simsys.errors import SimsysError, did_you_mean
from simsys.framework import FRAMEWORKS, DataParallel, DecodePhase, PrefillPhase, Router, Scheduler
from simsys.model.model import Model
from simsys.model.precision import WEIGHT_ONLY
from simsys.platform.device_spec import DeviceSpec

Profiled = TypeVar("Profiled", bound=Profile)

PROFILE, GPU, FABRIC = ("hardware", "profile"), ("hardware", "gpu"), ("hardware", "fabric")


def check_hardware(config: SimulationConfig, found: Findings) -> DeviceSpec | None:
    """Load the profiles that the hardware names; return the GPU's data if all of them are sound."""
    hardware, own = config.hardware, config.profile_folders
    before = len(found.errors)
    if hardware.profile_folder is not None and not own:
        found.error(("hardware", "profile_folder"), no_profiles(hardware.profile_folder))
    node: NodeProfile | None = None
    profile_at: KeyPath = PROFILE
    if hardware.nodes is not None:
        profile_at = ("hardware", "nodes", 0, "profile")
        kinds = [
            _profile(("hardware", "nodes", index, "profile"), group.profile, load_node, own, found)
            for index, group in enumerate(hardware.nodes)
        ]
        node = kinds[0]
    elif hardware.profile is not None:
        node = _profile(PROFILE, hardware.profile, load_node, own, found)
    if hardware.fabric is not None:
        _profile(FABRIC, hardware.fabric, load_fabric, own, found)
    if node is not None and hardware.nodes is None and (hardware.gpus_per_node or 0) > node.gpus_per_node:
        message = f"a {node.name} has {node.gpus_per_node} GPUs, not {hardware.gpus_per_node}; add nodes (num_nodes)"
        found.error(("hardware", "gpus_per_node"), message)
    gpu = None
    if hardware.gpu is not None and (node is not None or hardware.profile is None):
        given = found.attempt(GPU, lambda: gpu_given(hardware, node))
        gpu = _profile(GPU, given, load_gpu, own, found) if given is not None else None
    elif node is not None:
        gpu = _profile(profile_at, node.gpu, load_gpu, own, found)
    if gpu is None or len(found.errors) > before:
        return None
    return build_device_spec(gpu)


def _profile(
    path: KeyPath,
    given: Given,
    load: Callable[[Given, Sequence[Path]], Profiled],
    folders: Sequence[Path],
    found: Findings,
) -> Profiled | None:
    """Load the profile at a path of the scenario; what it extends may be unknown."""
    extends = (*path, "extends")
    unknown_at = extends if isinstance(given, Mapping) and found.written(extends) else path
    return found.attempt(path, lambda: load(given, folders), error_at=unknown_at)


def check_precision(config: SimulationConfig, spec: DeviceSpec, model: Model | None, found: Findings) -> None:
    """The GPU must compute in the precision asked for, or chosen by default."""
    if config.training is not None:
        wanted = training_precision(config.training, spec).compute
        if wanted not in spec.peak_flop_per_s:
            _has_no(wanted, spec, get_args(TrainingPrecision), ("training", "precision"), found)
        return
    assert config.serving is not None
    settings = config.serving
    path: KeyPath = ("serving", "precision")
    if settings.precision is None and model is not None and model.quantization is not None:
        path = source_path(config.model)
        known = found.attempt(path, lambda: weights_of(settings, model))
        if known is None or "bf16" in spec.peak_flop_per_s:  # kernels for weights alone do without other arithmetic
            return
        wanted = known
    else:
        wanted = settings.precision or DEFAULT
    if wanted not in spec.peak_flop_per_s and wanted not in (*WEIGHT_ONLY, "fp4"):
        usable = tuple(name for name in get_args(ServingPrecision) if name not in WEIGHT_ONLY)
        _has_no(wanted, spec, usable, path, found)


def _has_no(wanted: str, spec: DeviceSpec, known: tuple[str, ...], path: KeyPath, found: Findings) -> None:
    """Book that a GPU does not compute in a precision, with what to write instead."""
    peaks = spec.peak_flop_per_s
    usable = ", ".join(sorted(name for name in peaks if name in known))
    message = f"{spec.name} does not compute in {wanted}; it has {usable}"
    halves = [name for name in ("bf16", "fp16", "fp32") if name in peaks][:1]
    weights = ["int8"] if path[0] != "training" and wanted in ("fp8", "fp8_block") else []
    groups = [[{dotted(path): name}] for name in (*weights, *halves)]
    found.error(path, message, suggestion=Suggestion(groups, "write {}"))


def check_modules(config: SimulationConfig, settled: ServingConfig | None, found: Findings) -> None:
    """Look up the framework modules and validate their options.

    Args:
        config: The scenario.
        settled: Its settings of serving and the defaults of its engine; None if they are not known.
        found: Where problems are booked.
    """
    if config.training is not None:
        name = config.training.data_parallel
        if name is not None and not known_module(name, DataParallel, ("training", "data_parallel"), found):
            return
        module = name or data_parallel_module(config.parallelism)
        options = config.training.options
        found.attempt(
            ("training", "options"), lambda: module_options(module, DataParallel, options, "training.options")
        )
        return
    assert config.serving is not None
    settings = config.serving
    known_module(settings.prefill, PrefillPhase, ("serving", "prefill"), found)
    known_module(settings.decode, DecodePhase, ("serving", "decode"), found)
    if known_module(settings.router, Router, ("serving", "router"), found):
        given = settings.router_options
        found.attempt(
            ("serving", "router_options"),
            lambda: module_options(settings.router, Router, given, "serving.router_options"),
        )
    split = settings.disaggregated
    if split is not None:
        known_module(split.decode_router, Router, ("serving", "disaggregated", "decode_router"), found)
        known_module(split.decode_scheduler, Scheduler, ("serving", "disaggregated", "decode_scheduler"), found)
    scheduler = settings.scheduler if settled is None else settled.scheduler
    if scheduler is not None and known_module(scheduler, Scheduler, ("serving", "scheduler"), found):
        _check_scheduler_options(scheduler, settings, found)


def check_pattern(config: SimulationConfig, cluster: Cluster | None, found: Findings) -> None:
    """Look up the collective algorithm, and whether the cluster, if it is sound, can carry it out."""
    pattern = _settings(config).communication_pattern
    tuning = cluster.tuning if cluster is not None else None
    found.attempt((config.kind, "communication_pattern"), lambda: named(pattern, tuning))


def _check_scheduler_options(scheduler: str, settings: ServingConfig, found: Findings) -> None:
    own = dict(settings.options)
    for key in SCHEDULER_LIMITS:
        if key in own:
            message = f"{key} is a setting of serving itself; write it there (serving.{key})"
            found.error(("serving", "options", key), message, key=True)
            del own[key]
    found.attempt(("serving", "options"), lambda: module_options(scheduler, Scheduler, own, "serving.options"))


def known_module(name: str, base: type, path: KeyPath, found: Findings) -> bool:
    """Whether there is a module of that name and kind; books the error, with the nearest of that kind, if not."""
    try:
        FRAMEWORKS.get(name, base)
    except SimsysError as error:
        message = str(error)
        if ":" not in name:
            noun = f"{base.__name__} module"
            message = f"unknown {noun} {name!r}{did_you_mean(name, _modules(base))}"
        found.error(path, message)
        return False
    return True


def _modules(base: type) -> Iterator[str]:
    """Names of all modules of one kind."""
    for name in FRAMEWORKS.names():
        with contextlib.suppress(SimsysError, ImportError):
            FRAMEWORKS.get(name, base)
            yield name


def _settings(config: SimulationConfig) -> TrainingConfig | ServingConfig:
    settings = config.training or config.serving
    assert settings is not None
    return settings
