"""Multi-step runs of the engines that share a pipeline."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import ceil, inf

from simsys.costs.stage_costs import Lines, StageLine
from simsys.executors.steps.pipeline import Pipeline
from simsys.executors.steps.step_log import StepLog
from simsys.model.batch import NOTHING, Batch
from simsys.sums import ordered_sum


class PipelineRuns:
    """The steps of one of the engines that share a pipeline.

    Args:
        pipeline: The steps in flight of all these engines.
        done: Called at the end of a run of steps, with their number.
        longest: Longest run: 1 to step through all of them, with the same times.
        log: Reports steps to the probes.
    """

    def __init__(self, pipeline: Pipeline, done: Callable[[int], None], longest: int, log: StepLog | None) -> None:
        self._pipeline, self._stages, self._done, self._longest = pipeline, pipeline.stages, done, longest
        self._log = log
        self._batch = self._more = NOTHING
        self._first = 0
        self._exchange_s: Sequence[float] = ()  # of each stage and channel
        self._known = -1  # the step that the lines are of which are kept
        self._lines: tuple[StageLine, ...] = ()
        self._started_s = self.host_s = 0.0
        self.growth = 1
        """Growth per step of the number that determines durations."""
        self.lines_at: Callable[[int], Lines] = self._exactly
        """Durations of steps by this number."""
        self.steps = 0
        """Of the run."""
        self.issued = 0
        """Begun steps, as recorded by the pipeline."""
        self.ends_s: list[float] = []
        """When those have ended of which it has noted it."""

    def decode(self, sequences: int, context_tokens: float, steps: int, host_s: float, follows: bool) -> None:
        """Start a run of at most this number of steps without prompts."""
        found = self._stages.costs.decoding(sequences)
        self._batch = Batch(sequences, sequences, 0.0, 0, context_tokens, sequences)
        self._more = Batch(decode_context_tokens=sequences)
        self._first, self.growth = int(context_tokens), sequences
        self.lines_at, self._exchange_s = found.at, found.exchange_s
        self._begin(steps, host_s)

    def run(self, batch: Batch, steps: int, host_s: float, more: Batch = NOTHING) -> None:
        """Start a run of at most this number of steps."""
        self._batch, self._more = batch, more
        self._first, self.growth = 0, 1
        self.lines_at, self._known = self._exactly, -1
        self.lines_at(0)
        self._begin(steps, host_s)

    def _begin(self, steps: int, host_s: float) -> None:
        self.steps, self.host_s = min(steps, self._longest), host_s
        self._started_s = self._pipeline.env._now
        self.issued, self.ends_s = 1, []
        self._pipeline.enter(self)

    def cut(self, later: bool = False) -> int:
        """End the run at the first boundary that is not before now."""
        self._pipeline.cut(self)
        return 0

    def next_s(self) -> float | None:
        """That depends on the engines that share the stages."""
        return None

    def passed(self) -> int:
        """Number of steps of the run that have ended before the current event."""
        return self._pipeline.passed(self)

    def stop(self) -> int:
        """End now, with the steps that have ended; return how many of the run have."""
        self._pipeline.stop(self)
        self._book(under_way=1)
        return len(self.ends_s)

    def ended(self) -> None:
        """The run has ended now."""
        self._book()
        self._done(self.steps)

    def number(self, step: int) -> int:
        """The number that determines the duration of a step, counted from the first of the run."""
        return self._first + step * self.growth

    def after(self, steps: int) -> Batch:
        """The batch of a step."""
        return self._batch.grown(steps, self._more)

    def compute_s(self, step: int) -> list[float]:
        """For how long a step keeps each stage and channel busy."""
        return self._compute_s(step, 1)

    def _exactly(self, step: int) -> Lines:
        """Duration of one step of any batch."""
        if step != self._known:
            self._lines, self._exchange_s = self._stages.costs.step(self.after(step))
            self._known = step
        return self._lines, step + 1

    def _book(self, *, under_way: int = 0) -> None:
        """Record ended steps, and the traffic of steps in flight."""
        steps = len(self.ends_s)
        self._stages.count(self._batch, steps + under_way)
        for server, compute_s in zip(self._stages.servers, self._total_s(steps), strict=True):
            server.busy_s += compute_s
        if self._log is not None:
            batch = self._batch
            self._log.add_each(batch.tokens, batch.decode_sequences, self._started_s, self.ends_s)

    def _total_s(self, steps: int) -> list[float]:
        """For how long the first steps keep each stage and channel busy: sums of arithmetic series."""
        total_s, step = [0.0] * len(self._exchange_s), 0
        while step < steps:
            _, until = self.lines_at(self.number(step))
            count = min(steps - step, ceil((until - self.number(step)) / self.growth)) if until < inf else steps - step
            total_s = [ordered_sum(each) for each in zip(total_s, self._compute_s(step, count), strict=True)]
            step += count
        return total_s

    def _compute_s(self, first: int, count: int) -> list[float]:
        """Busy time of each stage and channel in a number of steps with equal lines."""
        number = self.number(first)
        numbers = count * number + self.growth * (count * (count - 1) // 2)
        return [
            count * (fixed_s - exchange_s) + slope_s * numbers
            for (fixed_s, slope_s), exchange_s in zip(self.lines_at(number)[0], self._exchange_s, strict=True)
        ]
