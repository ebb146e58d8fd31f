"""An error in any hook of any shipped module is seen at every level: no level does the work of a module in its place."""

from __future__ import annotations

import random
from dataclasses import replace
from inspect import isfunction
from pathlib import Path
from typing import Any

import pytest
from random_serving import shared
from reference_serving import Limits
from replica_harness import disaggregated
from serving_harness import serve

import frameworks
from frameworks.chunked_prefill import ChunkedPrefill
from frameworks.prefix_affinity import PrefixAffinity
from simsys.framework import FRAMEWORKS, DecodePhase, FetchingScheduler, PrefillPhase, Router, Scheduler
from simsys.serving.kv_cache import PagedKVCache
from simsys.serving.prefix_cache import PrefixCache
from simsys.serving.requests import RequestTable

KINDS = (Scheduler, PrefillPhase, DecodePhase, Router)
LEVELS = ("medium", "stepping", "high")
HOST_BLOCKS = 40


class Planted(Exception):
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
    caps = Limits(num_blocks=24, max_num_batched_tokens=48, long_prefill_token_threshold=4)
    table = requests()
    if issubclass(module, FetchingScheduler):
        disaggregated(table, caps, decode_policy=module, level=level)
        return
    for swap_blocks in (None, HOST_BLOCKS):
        serve(table, caps, policy=policy, replicas=2, swap_blocks=swap_blocks, **given)
    serve(table, replace(caps, reserves_prompts=True), policy=policy, replicas=2, **given)


def sees(module: type, hook: str, level: str, monkeypatch: pytest.MonkeyPatch) -> bool:
    """Whether an error in a hook ends a run."""

    def raises(*_: Any, **__: Any) -> Any:
        raise Planted(hook)

    with monkeypatch.context() as patch:
        patch.setattr(module, hook, raises)
        try:
            run(module, level)
        except Planted:
            return True
    return False


@pytest.mark.parametrize("module", shipped(), ids=lambda module: module.__name__)
@pytest.mark.parametrize("level", LEVELS)
def test_an_error_in_any_hook_is_seen(module: type, level: str, monkeypatch: pytest.MonkeyPatch) -> None:
    run(module, level)
    unseen = [hook for hook in hooks(module) if not sees(module, hook, level, monkeypatch)]
    assert unseen == []
