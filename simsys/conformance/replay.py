"""The steps of a simulated engine whose requests arrive before the steps of a log."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from simpy.events import Event

from simsys.build.serving import ServingJob
from simsys.conformance.step_log import StepLog
from simsys.errors import UsageError
from simsys.executors import Executor, Links, combination
from simsys.model.batch import Batch
from simsys.platform.events import At
from simsys.probes import Probe, Probes
from simsys.serving.engine import Engine
from simsys.serving.sequences import Sequences
from simsys.starter import Stepper
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


class _LoggedTeam(Team):
    """A team without costs: all steps last equally long."""

    def __init__(self, team: Team, executor: Executor, recorder: _Recorder) -> None:
        super().__init__(team.group, team.plan, executor)
        self._env, self._recorder, self._passes = executor.env, recorder, executor.passes

    def steps(self, done: Callable[[int], None]) -> Stepper:
        """What carries out the steps, one by one."""
        return self._passes(self.group.ranks[0], self._step, done)

    def _step(self, batch: Batch, host_s: float) -> Event:
        """Note a step; before it ends, the requests of the next one arrive."""
        self._recorder.note()
        ended = At(self._env, self._env.now + STEP_S, self._release)
        At(self._env, self._env.now + STEP_S, self._release)  # after the engine, in case that nothing runs any more
        return ended

    def _release(self, _: Event) -> None:
        self._recorder.release()


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
    logged = _LoggedTeam(team, executor, recorder)
    recorder.engine = job.engine_of(executor, sequences, pool, logged, team.group.ranks[0])
    recorder.release()
    executor.env.run()
    return recorder.decisions
