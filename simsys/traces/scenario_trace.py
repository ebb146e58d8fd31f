"""The trace of a scenario: of a training or serving job, or of all jobs on a shared cluster."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, TextIO, TypeAlias

from simsys.config.experiment import SimulationConfig
from simsys.errors import OutputError
from simsys.metrics.result import RunResult
from simsys.metrics.serving_log import ServingLog
from simsys.probes import Probe
from simsys.traces.chrome import write_events
from simsys.traces.per_job import PerJob
from simsys.traces.serving_trace import ServingTrace
from simsys.traces.training_trace import TrainingTrace
from simsys.version import __version__

JobTrace: TypeAlias = TrainingTrace | ServingTrace


class ScenarioTrace:
    """Records a scenario for a trace.

    Args:
        config: The scenario.

    Example:
        >>> from simsys import DistributedAISimulator, SimulationConfig
        >>> config = SimulationConfig(
        ...     hardware={"gpu": "H100-SXM"},
        ...     model={"name": "GPT2-Small"},
        ...     training={"batch_size_per_gpu": 8, "num_iterations": 1},
        ... )
        >>> trace = ScenarioTrace(config)
        >>> result = DistributedAISimulator(config, [trace.probe]).run()
        >>> len([each for each in trace.events() if "ProfilerStep" in each])
        1
    """

    name = "trace.json.gz"
    """How the name of the file ends."""

    def __init__(self, config: SimulationConfig) -> None:
        self._config = config
        self._traces = PerJob(config, _trace_of)

    @property
    def probe(self) -> Probe:
        """The observer of the run."""
        return self._traces.probe

    @property
    def parts(self) -> Mapping[str, JobTrace]:
        """The trace of each job by name; without jobs, one with an empty name."""
        return self._traces.parts

    def left_out(self) -> list[str]:
        """What the trace does not show, as sentences; each once, with the jobs that it is true for."""
        texts: dict[str, list[str]] = {}
        for job, trace in self.parts.items():
            for text in trace.left_out():
                texts.setdefault(text, []).append(job)
        return [text if names == [""] else f"{', '.join(names)}: {text}" for text, names in texts.items()]

    def events(self) -> Iterator[str]:
        """All events as text."""
        first_pid = 0
        for job, trace in self.parts.items():
            yield from trace.events(first_pid, job)
            ranks = max((max(each) for each in trace.stands_for.values()), default=0) + 1
            first_pid += -(-(ranks + 3) // 1000) * 1000

    def write(self, result: RunResult, file: TextIO) -> int:
        """Write the trace of a run.

        Args:
            result: The result of the run.
            file: Where to.

        Returns:
            The number of events.

        Raises:
            OutputError: If it lasts too long for the format.
        """
        for job, trace in self.parts.items():
            if isinstance(trace, ServingTrace):
                trace.tokens = _tokens(result, job)
        try:
            return write_events(file, self._about(result), self.events())
        except ValueError as error:
            raise OutputError(f"{self._config.name}: no trace is possible: {error}") from None

    def _about(self, result: RunResult) -> dict[str, Any]:
        """Keys of the document."""
        own = self.parts.get("")
        ranks = {str(rank): [*each] for rank, each in own.stands_for.items()} if own is not None else {}
        return {
            "deviceProperties": [],
            "distributedInfo": {"backend": "simsys", "rank": 0, "world_size": result.world_size},
            "traceName": f"{result.name}_{self.name}",
            "baseTimeNanoseconds": 0,
            "simsys": {
                "version": __version__,
                "scenario": result.name,
                "kind": result.kind,
                "level_of_detail": result.lod,
                "contention": result.contention,
                "represented_ranks": {rank: each for rank, each in ranks.items() if len(each) > 1},
                "left_out": self.left_out(),
            },
        }


def _trace_of(config: SimulationConfig, _: str) -> JobTrace:
    return TrainingTrace() if config.kind == "training" else ServingTrace()


def _tokens(result: RunResult, job: str) -> list[list[int]]:
    """Prompt tokens of the requests of a job, and output tokens."""
    found = next((each for each in result.jobs if each.name == job), result).requests
    assert isinstance(found, ServingLog)
    return [found.requests.prompt_tokens, found.requests.output_tokens]
