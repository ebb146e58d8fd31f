"""One engine on hardware of your own: its modules, memory and host wired together, and its runs of steps watched."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from simsys.executors.executor import Executor
from simsys.framework import FRAMEWORKS, DecodePhase, PrefillPhase, Router, Scheduler, Sequences, Team
from simsys.model.batch import NOTHING, Batch
from simsys.serving.engine import Engine
from simsys.serving.host_costs import HostCosts
from simsys.serving.intake import Intake
from simsys.serving.kv_cache import PagedKVCache
from simsys.serving.prefix_cache import PrefixCache, block_chains
from simsys.serving.requests import RequestTable
from simsys.serving.source import Front, Source
from simsys.serving.swap import SwapSpace
from simsys.starter import Stepper

TOY_HOST = HostCosts(per_step_s=1e-6, per_sequence_s=1e-7)
TOY_BLOCK_BYTES = 1000.0
"""Bytes that each rank copies per KV block of a preempted request."""


@dataclass(frozen=True)
class EngineParts:
    """The parts of an engine, except its ranks and requests.

    Args:
        num_blocks: KV blocks.
        block_size: Tokens of each.
        scheduler: The policy; by default `chunked_prefill`.
        options: Its settings; by default, its defaults.
        prefill: The prefill phase; by default `llm_prefill`.
        decode: The decode phase; by default `llm_decode`.
        host: Host costs of each step.
        max_context_tokens: Longest prompt plus output; 0 for no limit.
        reserves_prompts: True if a request is admitted only if its whole prompt fits.
        prefix_caching: True if requests share blocks of equal prefixes.
        swap_blocks: Host blocks for preempted requests; None to recompute these.
    """

    num_blocks: int = 1000
    block_size: int = 4
    scheduler: type[Scheduler] | None = None
    options: Any = None
    prefill: type[PrefillPhase] | None = None
    decode: type[DecodePhase] | None = None
    host: HostCosts = TOY_HOST
    max_context_tokens: int = 0
    reserves_prompts: bool = False
    prefix_caching: bool = False
    swap_blocks: int | None = None


class EngineHarness:
    """Engines that serve a table of requests with one executor.

    Examples:
        >>> from simsys.parallel.layout import Layout
        >>> from simsys.parallel.passes import forward_pass
        >>> from simsys.testing import toy_executor, toy_model, toy_requests
        >>> layout = Layout(data=2)
        >>> executor = toy_executor("medium", layout, roles=[(0,), (1,)])
        >>> harness = EngineHarness(executor, toy_requests(10))
        >>> for rank in range(2):
        ...     team = Team(layout.group(rank, "tensor"), forward_pass(toy_model()), executor)
        ...     engine = harness.engine(team, EngineParts(num_blocks=100))
        >>> harness.run()
        >>> [engine.free_blocks() for engine in harness.engines]
        [100, 100]

    Args:
        executor: Carries out the steps.
        requests: All requests.
    """

    def __init__(self, executor: Executor, requests: RequestTable) -> None:
        self.executor, self.requests = executor, requests
        self.sequences = Sequences(requests)
        self.engines: list[Engine] = []
        """Those made so far."""

    def engine(
        self,
        team: Team,
        parts: EngineParts,
        *,
        rank: int | None = None,
        intake: Intake | None = None,
        watch: Callable[[Scheduler], None] | None = None,
    ) -> Engine:
        """Make an engine.

        Args:
            team: Its ranks.
            parts: Its parts.
            rank: As in `Engine`.
            intake: The intake before the scheduler.
            watch: Called with the scheduler before the engine is made.
        """
        scheduler = self._scheduler(parts)
        if parts.swap_blocks is not None:
            nbytes = {member: TOY_BLOCK_BYTES for group in team.groups for member in group.ranks}
            scheduler.swap = SwapSpace(parts.swap_blocks, team, nbytes)
        if watch is not None:
            watch(scheduler)
        engine = Engine(
            scheduler,
            team,
            self.executor.env,
            self.executor.probes,
            host=parts.host,
            rank=rank,
            max_context_tokens=parts.max_context_tokens,
            intake=intake,
        )
        self.executor.at_end(engine.check_finished)
        self.engines.append(engine)
        return engine

    def start(self, front: Front | None = None) -> Source:
        """Let the requests come.

        Args:
            front: Where to; by default, to all engines in turn.
        """
        router = front or FRAMEWORKS.get("round_robin", Router)(self.engines, 0)
        return Source(self.executor.env, self.requests, router, self.executor.probes)

    def run(self, front: Front | None = None) -> None:
        """Serve all requests; the argument is that of `start`."""
        self.start(front)
        self.executor.env.run()
        self.executor.check_finished()

    def _scheduler(self, parts: EngineParts) -> Scheduler:
        policy = parts.scheduler or FRAMEWORKS.get("chunked_prefill", Scheduler)
        prefill = parts.prefill or FRAMEWORKS.get("llm_prefill", PrefillPhase)
        decode = parts.decode or FRAMEWORKS.get("llm_decode", DecodePhase)
        options = policy.Options() if parts.options is None else parts.options
        kv = self._cache(parts)
        phases = prefill(self.sequences), decode(self.sequences, kv)
        scheduler = policy(options, self.sequences, kv, *phases, self.executor.env, self.executor.probes)
        scheduler.reserves_prompts = parts.reserves_prompts
        return scheduler

    def _cache(self, parts: EngineParts) -> PagedKVCache:
        if not parts.prefix_caching:
            return PagedKVCache(parts.num_blocks, parts.block_size)
        chains = block_chains(self.requests, parts.block_size)
        return PrefixCache(parts.num_blocks, parts.block_size, self.sequences, chains)


class WatchedTeam(Team):
    """A team that sees its runs of steps begin and end: override `began` and `ended`."""

    def began(self, batch: Batch) -> None:
        """A run of steps begins, the first of which processes `batch`."""

    def ended(self, steps: int) -> None:
        """A run has ended after this number of steps; the engine is notified next."""

    def steps(self, done: Callable[[int], None]) -> Stepper:
        """Steps of the team, as `Team.steps`."""
        return _WatchedSteps(super().steps, done, self)


class _WatchedSteps:
    """Carries out steps as another stepper does, and lets a team see them."""

    def __init__(
        self, make: Callable[[Callable[[int], None]], Stepper], done: Callable[[int], None], team: WatchedTeam
    ) -> None:
        self._stepper, self._done, self._team = make(self._ended), done, team
        self.cut, self.passed, self.stop = self._stepper.cut, self._stepper.passed, self._stepper.stop
        self.next_s = self._stepper.next_s

    def run(self, batch: Batch, steps: int, host_s: float, more: Batch = NOTHING) -> None:
        """Start a run, as `Stepper.run`."""
        self._team.began(batch)
        self._stepper.run(batch, steps, host_s, more)

    def decode(self, sequences: int, context_tokens: float, steps: int, host_s: float, follows: bool) -> None:
        """Start a run of decode steps, as `Stepper.decode`."""
        self._team.began(Batch(sequences, sequences, 0.0, 0, context_tokens, sequences))
        self._stepper.decode(sequences, context_tokens, steps, host_s, follows)

    def _ended(self, steps: int) -> None:
        self._team.ended(steps)
        self._done(steps)
