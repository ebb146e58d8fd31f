"""Checks whether the framework modules that a scenario names exist, with their options."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

from simsys.build.modules import SCHEDULER_LIMITS, module_options, routers_of
from simsys.build.rules.findings import Findings
from simsys.build.rules.registry import Parts, rule
from simsys.build.training_setup import data_parallel_module
from simsys.collectives.choose import named
from simsys.config.document import KeyPath
from simsys.config.serving import ServingConfig
from simsys.errors import SimsysError, did_you_mean
from simsys.framework import FRAMEWORKS, DataParallel, DecodePhase, PrefillPhase, Router, Scheduler


@rule("training.data_parallel")
def training_modules(parts: Parts, found: Findings) -> None:
    """The module of data parallelism exists, and has these options."""
    training = parts.config.training
    assert training is not None
    name = training.data_parallel
    if name is not None and not known_module(name, DataParallel, ("training", "data_parallel"), found):
        return
    module, options = name or data_parallel_module(parts.config.parallelism), training.options
    found.attempt(("training", "options"), lambda: module_options(module, DataParallel, options, "training.options"))


@rule("serving.scheduler")
def serving_modules(parts: Parts, found: Findings) -> None:
    """The phases, the routers and the schedulers exist, and have these options."""
    settings = parts.config.serving
    assert settings is not None
    known_module(settings.prefill, PrefillPhase, ("serving", "prefill"), found)
    known_module(settings.decode, DecodePhase, ("serving", "decode"), found)
    if known_module(settings.router, Router, ("serving", "router"), found):
        given = settings.router_options
        found.attempt(
            ("serving", "router_options"),
            lambda: module_options(settings.router, Router, given, "serving.router_options"),
        )
        _check_inner_router(settings, found)
    scheduler = settings.scheduler if parts.serving is None else parts.serving.scheduler
    if scheduler is not None and known_module(scheduler, Scheduler, ("serving", "scheduler"), found):
        _check_scheduler_options(scheduler, settings, found)


def _check_inner_router(settings: ServingConfig, found: Findings) -> None:
    """The router that another one passes requests on to exists, with its options, and can do without all requests."""
    place = ("serving", "router_options")
    for name in routers_of(settings)[1:]:
        if not known_module(name, Router, (*place, "router"), found):
            continue
        if not FRAMEWORKS.get(name, Router).scales:
            found.error((*place, "router"), f"{settings.router} cannot pass requests on to router {name}")
        given, path = settings.router_options.get("router_options") or {}, "serving.router_options.router_options"
        found.attempt((*place, "router_options"), lambda: module_options(name, Router, given, path))  # noqa: B023


@rule("network.topology_type")
def collectives_can_be_carried_out(parts: Parts, found: Findings) -> None:
    """The algorithm of collectives exists, and the cluster, if it is known, can carry it out."""
    settings = parts.config.training or parts.config.serving
    assert settings is not None
    tuning = parts.cluster.tuning if parts.cluster is not None else None
    pattern = settings.communication_pattern
    found.attempt((parts.config.kind, "communication_pattern"), lambda: named(pattern, tuning))


def _check_scheduler_options(scheduler: str, settings: ServingConfig, found: Findings) -> None:
    own = dict(settings.options)
    for key in SCHEDULER_LIMITS:
        if key in own:
            message = f"{key} is a setting of serving itself; write it there (serving.{key})"
            found.error(("serving", "options", key), message, key=True)
            del own[key]
    found.attempt(("serving", "options"), lambda: module_options(scheduler, Scheduler, own, "serving.options"))


def known_module(name: str, base: type, path: KeyPath, found: Findings) -> bool:
    """Whether a module of this name and kind exists; if not, record the error with the nearest name."""
    try:
        FRAMEWORKS.get(name, base)
    except SimsysError as error:
        message = str(error)
        if ":" not in name and error.__cause__ is None:  # otherwise it is installed, but cannot be imported
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
