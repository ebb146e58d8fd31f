"""The steps of a simulated engine whose requests arrive before the steps of a log."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from simsys.build.serving import ServingJob
from simsys.conformance.step_log import StepLog
from simsys.errors import UsageError
from simsys.executors import Links, combination
from simsys.model.batch import NOTHING, Batch
from simsys.platform.environment import Environment
from simsys.platform.events import At
from simsys.probes import Probe, Probes
from simsys.serving.engine import Engine
from simsys.serving.sequences import Sequences
from simsys.starter import Starter, Stepper
from simsys.teams import Team

STEP_S = 1.0


@dataclass(frozen=True)
class Decision:
    """What a scheduler chose for a step.

    Args:
        tokens: Tokens of each request, by its number.
        preempted: Requests that lost their cache since the step before.
    """

    tokens: Mapping[int, int]
    preempted: frozenset[int] = frozenset()


class _Preemptions(Probe):
    """Collects preempted requests."""

    def __init__(self) -> None:
        self.found: set[int] = set()

    def request_preempted(self, request: int, time_s: float) -> None:
        """A request has lost its cache."""
        self.found.add(request)


@dataclass
class _Recorder:
    """Lets the next requests arrive, and notes every step."""

    log: StepLog
    preemptions: _Preemptions
    engine: Engine | None = None
    decisions: list[Decision] = field(default_factory=list)
    released: int = 0

    def release(self) -> None:
        """Requests arrive before the next step; if nothing runs, those of later steps come forward."""
        assert self.engine is not None
        while self.released < len(self.log.before):
            step = self.released
            if step > len(self.decisions) and self.engine.outstanding:
                return
            self.released += 1
            for request in self.log.before[step]:
                self.engine.submit(request)

    def note(self) -> None:
        """A step begins."""
        engine = self.engine
        assert engine is not None
        tokens = dict(engine.chunks)
        if engine.decoding:
            scheduler = engine.scheduler
            decoding = (each for each in scheduler.running if each not in scheduler.prefilling)
            tokens |= dict.fromkeys(decoding, scheduler.decode.queries)
        preempted = frozenset(self.preemptions.found)
        self.preemptions.found.clear()
        self.decisions.append(Decision(tokens, preempted))


class _OneByOne:
    """The stepper: every step takes the same time."""

    def __init__(self, env: Environment, recorder: _Recorder, done: Callable[[int], None]) -> None:
        self._env, self._recorder, self._done = env, recorder, done
        self._stopped = False

    def run(self, batch: Batch, steps: int, host_s: float, more: Batch = NOTHING) -> None:
        """Begin the first of these steps."""
        self._recorder.note()
        At(self._env, self._env.now + STEP_S, self._ended)

    def decode(self, sequences: int, context_tokens: float, steps: int, host_s: float, follows: bool) -> None:
        """Begin the first of these steps, without prompts."""
        self.run(NOTHING, steps, host_s)

    def _ended(self, _: object) -> None:
        if not self._stopped:
            self._recorder.release()
            self._done(1)
            self._recorder.release()

    def cut(self) -> None:
        """The engine is asked after every step anyway."""

    def next_s(self) -> float | None:
        """When the step under way ends."""
        return None

    def passed(self) -> int:
        """All ended steps have been reported."""
        return 0

    def stop(self) -> int:
        """End now."""
        self._stopped = True
        return 0


class _LoggedTeam(Team):
    """A team without costs."""

    def __init__(self, team: Team, executor: Starter, env: Environment, recorder: _Recorder) -> None:
        super().__init__(team.group, team.plan, executor)
        self._env, self._recorder = env, recorder

    def steps(self, done: Callable[[int], None]) -> Stepper:
        """What carries out the steps."""
        return _OneByOne(self._env, self._recorder, done)


def replayed(job: ServingJob, log: StepLog) -> list[Decision]:
    """The decisions of the scheduler of a scenario for the requests of a log.

    Args:
        job: The scenario, with the requests of the log.
        log: The log.

    Raises:
        UsageError: If the scenario has several engines.
    """
    engines = len(job.pools) * job.layout.data * job.layout.pipeline
    if engines != 1:
        raise UsageError(f"a step log is of one engine, but the scenario has {engines}; write dp_degree: 1")
    probe = _Preemptions()
    recorder = _Recorder(log, probe)
    platform = job.cluster.platform()
    made = combination("medium", Links.IDLE)
    executor = made(platform, job.execution_model(), job.roles(), Probes([probe]))
    pool = job.pools[0]
    team = Team(pool.teams(0)[0], pool.plan, executor)
    sequences = Sequences(log.requests)
    logged = _LoggedTeam(team, executor, executor.env, recorder)
    recorder.engine = job.engine_of(executor, sequences, pool, logged, team.group.ranks[0])
    recorder.release()
    executor.env.run()
    return recorder.decisions
