"""An error in any hook of any shipped module is seen at every level: each of them calls the modules."""

from __future__ import annotations

import random
from dataclasses import replace
from inspect import isfunction
from math import inf
from pathlib import Path
from typing import Any

import pytest

import frameworks
from frameworks.chunked_prefill import ChunkedPrefill
from frameworks.prefix_affinity import PrefixAffinity
from frameworks.speculative_decode import SpeculativeDecode
from simsys.framework import FRAMEWORKS, DecodePhase, FetchingScheduler, PrefillPhase, Router, Scheduler
from simsys.serving.kv_cache import PagedKVCache
from simsys.serving.prefix_cache import PrefixCache
from simsys.serving.requests import RequestTable
from tests.helpers.random_serving import shared
from tests.helpers.reference_serving import Limits
from tests.helpers.replica_harness import disaggregated
from tests.helpers.serving_harness import serve
from tests.helpers.thorough import every_second

KINDS = (Scheduler, PrefillPhase, DecodePhase, Router)
LEVELS = ("medium", "high")
CHANCE = ("draw", "draw_by", "draw_by_cost")
PLAIN_ROUTERS = ("CentralQueue", "LeastKV", "LeastOutstanding", "PrefixAffinity", "RoundRobin")
NOT_ASKED = {
    "ChunkedPrefill": {"tokens_to_compute"},  # for policies that process whole prompts
    "PrefillFirst": {"tokens_to_compute"},
    "Priority": {"tokens_to_compute", "considers"},  # while requests wait, each run is of one step
    "ShortestJobFirst": {"tokens_to_compute"},
    # What comes here was accepted elsewhere, and finds nothing in the cache.
    "DisaggregatedDecode": {"tokens_to_compute", "found_tokens", "considers", "refusal"},
    # The scheduler allocates all blocks at admission, and preempts no request.
    "Orca": {"extend", "preempt", "victim"},
    "StaticBatching": {"extend", "preempt", "victim"},
    "VLLMv0": {"extend"},
    "PagedKVCache": {"holds", "foresee", "spare_blocks", "grow_shared", "took_unshared", "release_shared"},
    **{router: {*CHANCE, "refusal", "priority_of"} for router in PLAIN_ROUTERS},
    "KVAware": {"draw", "draw_by", "refusal", "priority_of"},
    "Random": {"draw_by", "draw_by_cost", "refusal", "priority_of"},
    "SLOClass": {"draw_by_cost"},
    "Shedding": set(CHANCE),
}
"""Methods that a module has and its engine does not call: what it inherits, and what others need."""
HOST_BLOCKS = 40


class PlantedError(Exception):
    """Raised by a hook."""


def shipped() -> list[type]:
    """All modules of serving, and the caches."""
    files = sorted(path.stem for path in Path(frameworks.__file__).parent.glob("*.py"))
    names = [name for name in files if name in FRAMEWORKS.names()]
    modules = [FRAMEWORKS.get(name, object) for name in names]
    return [module for module in modules if issubclass(module, KINDS)] + [PagedKVCache, PrefixCache]


def hooks(module: type) -> list[str]:
    """Its public methods, inherited ones too."""
    return [name for name in dir(module) if not name.startswith("_") and isfunction(getattr(module, name))]


def requests() -> RequestTable:
    """Short and long prompts that begin alike; they come one by one, and then many at once."""
    rng = random.Random(5)
    count = 40
    table = RequestTable(
        sorted([0.0, *(rng.random() * 4e-3 for _ in range(count - 16)), *([2e-3] * 15)]),
        [rng.choice([3, 20, 45]) for _ in range(count)],
        [rng.choice([1, 5, 40]) for _ in range(count)],
        priority=[rng.randint(0, 2) for _ in range(count)],
    )
    return shared(rng, table)


def run(module: type, level: str) -> None:
    """Serve with a module: in little memory, with host memory and without, and with ample memory."""
    given: dict[str, Any] = {"level": level, "prefix_caching": module is not PagedKVCache}
    policy = module if issubclass(module, Scheduler) else ChunkedPrefill
    given["router"] = module if issubclass(module, Router) else PrefixAffinity
    if issubclass(module, PrefillPhase):
        given["prefill"] = module
    if issubclass(module, DecodePhase):
        given["decode"] = module
    caps = Limits(num_blocks=24, max_num_batched_tokens=96, long_prefill_token_threshold=4)
    table = requests()
    impatient = replace(table, cancel_s=[inf, 2e-4, 4e-4, 8e-4] * (len(table) // 4))
    if issubclass(module, FetchingScheduler):
        for reserves in (False, True):
            disaggregated(table, replace(caps, reserves_prompts=reserves), decode_policy=module, level=level)
        disaggregated(impatient, caps, decode_policy=module, level=level)
        return
    serve(impatient, caps, policy=policy, **given)
    for swap_blocks in (None, HOST_BLOCKS):
        serve(table, caps, policy=policy, replicas=2, swap_blocks=swap_blocks, **given)
    if issubclass(module, PagedKVCache):
        given["decode"] = SpeculativeDecode  # gives blocks back that it has taken for drafts
    serve(table, replace(caps, reserves_prompts=True), policy=policy, replicas=2, **given)


def sees(module: type, hook: str, level: str, monkeypatch: pytest.MonkeyPatch) -> bool:
    """Whether an error in a hook ends a run."""

    def raises(*_: Any, **__: Any) -> Any:
        raise PlantedError(hook)

    with monkeypatch.context() as patch:
        patch.setattr(module, hook, raises)
        try:
            run(module, level)
        except PlantedError:
            return True
    return False


@pytest.mark.parametrize(("level", "module"), every_second(LEVELS, shipped()))
def test_an_error_in_any_hook_is_seen(module: type, level: str, monkeypatch: pytest.MonkeyPatch) -> None:
    run(module, level)
    unseen = {hook for hook in hooks(module) if not sees(module, hook, level, monkeypatch)}
    assert unseen == NOT_ASKED.get(module.__name__, set())
