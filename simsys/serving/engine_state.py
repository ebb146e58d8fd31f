"""The state of a serving engine: its parts, and the run of steps under way."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from math import inf

from simsys.platform.environment import Environment
from simsys.platform.events import waking
from simsys.probes import Probes, as_one
from simsys.serving.engine_log import EngineLog
from simsys.serving.host_costs import HostCosts
from simsys.serving.limits import Limits
from simsys.serving.phases import Chunk, PrefillPhase
from simsys.serving.scheduler import Scheduler
from simsys.teams import Team


class EngineState(ABC):
    """What an engine consists of, and what it counts; `Engine` changes it.

    Args:
        scheduler: The policy, with the cache and the phases.
        team: The ranks.
        env: The environment.
        probes: Observers.
        host: Host costs of the engine.
        rank: Of engines that wake at one moment, the one with the lowest is first; by default the team's first rank.
        max_context_tokens: Longest prompt plus output the model accepts; 0 for no limit.
        decode_tokens: Capacity of the KV cache in which requests decode; by default, of this engine's.
        log: Where it notes how many blocks are in use and which sequences wait, if that is wanted.
    """

    __slots__ = (
        "_asked_while_copying",
        "_began_s",
        "_block_size",
        "_decode",
        "_env",
        "_finished",
        "_first_token",
        "_limits",
        "_log",
        "_mixes",
        "_moved",
        "_notes",
        "_pausing",
        "_per_sequence_s",
        "_per_step_s",
        "_plain",
        "_prefill",
        "_prefilling",
        "_probes",
        "_resumed",
        "_running",
        "_serves_all",
        "_stopped",
        "answers_later",
        "busy",
        "chunks",
        "copying",
        "decoding",
        "due_s",
        "hand_over",
        "joining",
        "kv",
        "left",
        "on_end",
        "priority",
        "rank",
        "scheduler",
        "sequences",
        "stepper",
        "team",
        "tokens",
    )

    def __init__(
        self,
        scheduler: Scheduler,
        team: Team,
        env: Environment,
        probes: Probes,
        *,
        host: HostCosts,
        rank: int | None = None,
        max_context_tokens: int = 0,
        decode_tokens: int | None = None,
        log: EngineLog | None = None,
    ) -> None:
        self.scheduler, self.sequences, self.kv = scheduler, scheduler.sequences, scheduler.kv
        self.on_end: Callable[[int], None] | None = None
        """Called with every request that has ended or was refused."""
        self.hand_over: Callable[[int], None] | None = None
        """Called with every request that has its first token, if it is to get the others elsewhere."""
        self.team, self._env, self._probes = team, env, probes
        self.answers_later = False
        """Whether the first token of a request that is handed over is reported where it decodes."""
        self._first_token, self._resumed = as_one(probes.request_first_token), as_one(probes.request_resumed)
        self._finished = as_one(probes.request_finished)
        self._per_step_s, self._per_sequence_s = host.per_step_s, host.per_sequence_s
        self._prefill, self._decode = scheduler.prefill, scheduler.decode
        self._mixes, self._plain = scheduler.mixes, scheduler.decode.plain  # of classes, which are slow to look up
        self._running, self._prefilling = scheduler.running, scheduler.prefilling
        self._block_size = self.kv.block_size
        self._log = log if log is not None and log.fresh is not None else None
        self._notes = None if self._log is None else self._log.fresh
        self._decode.growth_log = None if self._log is None else self._log.fresh_growth
        self._decode.mean_growth_log = None if self._log is None else self._log.fresh_mean_growth
        self._pausing = False  # whether sequences wait, as the log says
        capacity_tokens = self.kv.capacity_tokens if decode_tokens is None else decode_tokens
        self._limits = Limits(scheduler, capacity_tokens, max_context_tokens)
        self._serves_all = self._limits.refuse_none
        self.busy = self._stopped = False
        self.copying = self._asked_while_copying = False  # copies to or from hosts come before the next run
        self.left, self.tokens = 0, 0  # steps of the run under way, none while it changes; and tokens of each
        self.decoding = 0  # sequences that decode in the run under way
        self.chunks: Sequence[Chunk] = ()
        self.joining: list[int] = []
        """Requests whose caches have come from elsewhere, which decode from the next step on."""
        self._began_s = 0.0  # when the run did, if it has chunks
        self.stepper = team.steps(self.boundary)
        if scheduler.swap is not None:
            scheduler.swap.bind(self)
        self.rank = team.group.ranks[0] if rank is None else rank
        self.due_s, self.priority = inf, int(waking(self.rank))
        self._moved = env.agenda.add(self)

    @property
    def now_s(self) -> float:
        """The time."""
        return self._env._now

    def check_finished(self) -> None:
        """A policy that never admits a request must not end as if all were well: `Scheduler.check_served`."""
        if not self._stopped:
            self.scheduler.check_served()

    def _note(self) -> None:
        """Note the blocks in use."""
        if self._notes is not None:
            self._notes += (self._env._now, self.kv.free_blocks, self.kv.taken_blocks)

    def _hold(self, chunks: Sequence[Chunk], steps: int) -> None:
        """Take the blocks of the chunks of a run; those of the first step were taken when it was scheduled."""
        kv = self.kv
        kv.reserved_blocks = 0
        for request, tokens in chunks:
            computed = self.sequences.computed_tokens[request]
            if self._log is not None:
                self._log.chunks.extend((self._began_s, self._env._now, steps, computed, tokens, kv.held[request]))
            kv.grow(request, computed + tokens * steps)

    def _wait(self, sequences: int) -> None:
        """Sequences with tokens, if there are any, wait from now on."""
        if self._log is not None and sequences:
            self._log.wait(self._env._now, sequences)
            self._pausing = True
        elif self._pausing:
            self._go_on(0)

    def _go_on(self, sequences: int) -> None:
        """Sequences that have waited decode from now on, if there are any."""
        if self._log is not None:
            self._log.go_on(self._env._now, sequences)
        self._pausing = False

    def wrap_prefill(self, wrap: Callable[[PrefillPhase], PrefillPhase]) -> None:
        """Put another prefill phase around the one that there is, before the run begins."""
        self._prefill = self.scheduler.prefill = wrap(self._prefill)

    @abstractmethod
    def ask_again(self) -> None:
        """Begin, or end the run at the next step."""

    @abstractmethod
    def happen(self) -> float:
        """Wake, after all else of this moment."""

    @abstractmethod
    def boundary(self, steps: int) -> None:
        """A run of steps has ended."""
