"""Autoscaling: replicas start and stop with the load."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from simsys.build.modules import module_options
from simsys.build.rules.findings import Findings, Remedy, Suggestion
from simsys.build.rules.parallelism import replicas_of
from simsys.build.rules.registry import Parts, rule
from simsys.build.serving_memory import ServingMemory
from simsys.build.variants.variant import Variant, variant
from simsys.config.serving import ServingConfig
from simsys.executors.executor import Executor
from simsys.framework import FRAMEWORKS, Router
from simsys.serving.autoscaler import Autoscaler, ScalingRule
from simsys.serving.engine import Engine
from simsys.serving.source import Source

AUTOSCALING = ("serving", "autoscaling")


@variant
class Autoscaling(Variant):
    """Requests are sent to active replicas."""

    regime = "autoscaling"

    apart = ("serving", "autoscaling")

    without_tiers = ("serving", "autoscaling")

    def on(self, settings: ServingConfig) -> bool:
        """Whether limits of the number of replicas are given."""
        return settings.autoscaling is not None

    def assumptions(self, setup: ServingMemory) -> Iterator[str]:
        """The limits of the number of replicas, and the interval of decisions."""
        scaled = setup.settings.autoscaling
        assert scaled is not None
        yield (
            f"autoscaling: {scaled.min_replicas} to {scaled.max_replicas or setup.layout.data} replicas, adjusted "
            f"every {scaled.interval:g} s; a replica starts in {scaled.startup:g} s, which is paid for; "
            "one that is not needed drains first; requests stay on their replica"
        )

    def source(self, setup: ServingMemory, executor: Executor, engines: Sequence[Engine]) -> Source:
        """An autoscaler routes the requests."""
        settings, seed, env, probes = setup.settings, setup.config.simulation.seed, executor.env, executor.probes
        scaled, count = settings.autoscaling, setup.layout.data
        assert scaled is not None
        module, options = module_options(settings.router, Router, settings.router_options, "serving.router_options")
        limits = ScalingRule(
            scaled.min_replicas,
            scaled.max_replicas or count,
            scaled.scale_up_queue,
            scaled.scale_down_idle,
            scaled.startup,
            scaled.interval,
            scaled.scale_down_requests,
        )
        scaler = Autoscaler(env, engines, count, limits, lambda seen: module(seen, seed, options), probes)
        source = Source(env, setup.requests, scaler, probes, late_s=setup.api_s, api=setup.api_server())
        source.ended.callbacks.append(lambda _: scaler.stop())
        return source


@rule("serving.autoscaling", when_sound=True)
def autoscaling(parts: Parts, found: Findings) -> None:
    """The cluster has enough replicas for the limits, and the router supports inactive replicas."""
    assert parts.config.serving is not None
    settings = parts.config.serving
    scaled, replicas = settings.autoscaling, replicas_of(parts)
    if scaled is None:
        return
    for key in ("max_replicas", "min_replicas"):
        if (getattr(scaled, key) or 0) > replicas:
            message = f"{getattr(scaled, key)} replicas need more GPUs than there are, which hold {replicas}"
            edit: Remedy = {f"serving.autoscaling.{key}": replicas}
            found.error((*AUTOSCALING, key), message, suggestion=Suggestion([[edit]], "write {}"))
            return
    if not FRAMEWORKS.get(settings.router, Router).scales:
        edit = {"serving.router": "least_outstanding"}
        if settings.router_options:
            edit = {**edit, "serving.router_options": {}}
        message = f"router {settings.router} cannot be scaled"
        found.error(("serving", "router"), message, suggestion=Suggestion([[edit]], "write {}"))
