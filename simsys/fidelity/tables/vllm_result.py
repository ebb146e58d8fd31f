"""A user's own result of ``vllm bench serve``, compared with the prediction for the same requests.

The file has the requests and their times, but not the system: model, GPUs and engine are those of an experiment. With
``--save-detailed``, requests are replayed with their lengths and arrival times and also compared one by one. Older
versions saved no ``start_times``; requests then arrive as the benchmark sent them: closed loop, rate, or all at once.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from simsys.config.experiment import SimulationConfig
from simsys.config.validation import validate
from simsys.errors import ConfigError, InfeasibleError, UsageError
from simsys.fidelity.case import Case, Figures, Unsupported
from simsys.fidelity.scenario_run import ScenarioRun
from simsys.fidelity.tables.vllm_content import DETAILS, RATES, TIMES, read_content
from simsys.serving.traces.rows import BadRow, time_value, tokens_value
from simsys.simulation import simulate
from simsys.sums import ordered_sum


@dataclass(frozen=True)
class BenchRun:
    """A run of a serving scenario with figures of each request.

    Args:
        scenario: The experiment as JSON.
    """

    scenario: str

    def expected_cpu_s(self) -> float:
        """Return the approximate processor time, as of a run without figures of requests."""
        return ScenarioRun(self.scenario).expected_cpu_s()

    def figures(self) -> Figures:
        """Return the metrics of the run, and ``ttft_ms[i]`` and ``e2e_ms[i]`` of the requests in the order of arrival.

        Raises:
            Unsupported: It cannot be built, or does not fit.
        """
        try:
            result = simulate(validate(json.loads(self.scenario), SimulationConfig))
        except InfeasibleError as error:
            raise Unsupported(f"does not fit: {error}") from None
        except (ConfigError, UsageError) as error:
            raise Unsupported(str(error)) from None
        found = {name: float(value) for name, value in result.metrics.items() if isinstance(value, int | float)}
        log = result.requests
        assert log is not None
        for place, (came_s, first_s, ended_s) in enumerate(
            zip(log.arrival_s, log.first_token_s, log.finished_s, strict=True)
        ):
            if ended_s >= 0.0:
                found[f"ttft_ms[{place}]"] = 1e3 * (first_s - came_s)
                found[f"e2e_ms[{place}]"] = 1e3 * (ended_s - came_s)
        return found


@dataclass(frozen=True)
class BenchResult:
    """The content of a result file.

    Args:
        path: The file.
        found: Its content.
    """

    path: Path
    found: Mapping[str, Any]

    @property
    def detailed(self) -> bool:
        """Whether it has a value for each request."""
        return all(isinstance(self.found.get(key), list) for key in DETAILS)

    @property
    def timed(self) -> bool:
        """Whether it has the start time of each request."""
        return isinstance(self.found.get("start_times"), list)

    @cached_property
    def order(self) -> Sequence[int]:
        """The requests that can be replayed, in the order of their start."""
        starts = self.found["start_times"] if self.timed else [0.0] * len(self.found["input_lens"])
        replayed = [place for place in range(len(starts)) if place not in self.unreadable and not self._failed(place)]
        return sorted(replayed, key=lambda place: float(starts[place]))

    @cached_property
    def unreadable(self) -> Mapping[int, str]:
        """Successful requests that cannot be replayed, such as empty answers, with the reason."""
        found: dict[int, str] = {}
        for place in range(len(self.found["input_lens"])):
            if not self._failed(place):
                try:
                    self._check(place)
                except BadRow as why:
                    found[place] = why.reason
        return found

    def _failed(self, place: int) -> bool:
        return bool((self.found.get("errors") or [""] * len(self.found["input_lens"]))[place])

    def _check(self, place: int) -> None:
        """Check what a replay needs; raises as `simsys.serving.traces.rows`, which skips such requests."""
        for key in ("input_lens", "output_lens"):
            tokens_value(key, self.found[key][place])
        if self.timed:
            time_value("start_times", self.found["start_times"][place])

    def workload(self) -> dict[str, Any]:
        """Return the `workload` with the same requests; without details, with their mean lengths."""
        if self.detailed:
            traced = {"kind": "trace"}
            lengths = {"prompt_tokens": traced, "output_tokens": traced, "trace": {"path": str(self.path.resolve())}}
            return {"arrivals": traced if self.timed else self._arrivals(), **lengths}
        requests = int(self.found["completed"])
        return {
            "arrivals": self._arrivals(),
            "prompt_tokens": max(1, round(self.found["total_input_tokens"] / requests)),
            "output_tokens": max(1, round(self.found["total_output_tokens"] / requests)),
            "num_requests": requests,
        }

    def _arrivals(self) -> dict[str, Any]:
        """Return how the benchmark sends requests: in a closed loop, at a rate, or all at once."""
        rate, most = self.found.get("request_rate"), self.found.get("max_concurrency")
        if most is not None:
            return {"kind": "closed_loop", "concurrency": int(most)}
        if rate not in (None, "inf", math.inf):
            burstiness = self.found.get("burstiness") or 1.0
            if burstiness == 1.0:
                return {"kind": "poisson", "rate": f"{rate} req/s"}
            return {"kind": "gamma", "rate": f"{rate} req/s", "burstiness": float(burstiness)}
        return {"kind": "all_at_once"}


def is_vllm_result(text: str) -> bool:
    """Whether a file looks like a result of ``vllm bench serve``."""
    return text.lstrip().startswith("{") and '"request_throughput"' in text and '"completed"' in text


def vllm_cases(path: Path, scenario: Mapping[str, Any]) -> list[Case]:
    """Return the cases of a result: its figures and, with details, the figures of each request.

    Args:
        path: The result.
        scenario: An experiment as nested mappings: model, hardware, parallelism and serving; its workload is replaced.

    Raises:
        UsageError: The file cannot be read, or is not such a result.
    """
    result = read_result(path)
    run = BenchRun(json.dumps({**scenario, "workload": result.workload()}, sort_keys=True, default=str))
    tags = _tags(scenario)
    cases = [
        _case(f"{path.name}:{key}", path, key, float(value), run, key, tags)
        for key in (*RATES, *TIMES)
        if (value := result.found.get(key))
    ]
    return cases + (_of_requests(result, run, tags) if result.detailed else [])


def _of_requests(result: BenchResult, run: BenchRun, tags: Mapping[str, str]) -> list[Case]:
    """Return TTFT of each request, and E2E where the result has all token times."""
    found, path = result.found, result.path
    gaps = found.get("itls") or [None] * len(found["ttfts"])
    cases = []
    for place, request in enumerate(result.order):
        first_s, between = found["ttfts"][request], gaps[request]
        measured = {"ttft_ms": 1e3 * (first_s or 0.0)}
        if isinstance(between, list):
            measured["e2e_ms"] = 1e3 * (first_s + ordered_sum(between))
        cases += [
            _case(f"{path.name}:{request}:{metric}", path, metric, value, run, f"{metric}[{place}]", tags)
            for metric, value in measured.items()
            if value > 0
        ]
    return cases


def _case(
    name: str, path: Path, metric: str, measured: float, run: BenchRun, figure: str, tags: Mapping[str, str]
) -> Case:
    unit = "ms" if metric.endswith("_ms") else "1/s"
    return Case(
        name,
        "serving",
        path.name,
        metric,
        unit,
        measured,
        {**tags, "metric": metric},
        run=run,
        figure=figure,
        one_of_many=figure != metric,
    )


def _tags(scenario: Mapping[str, Any]) -> dict[str, str]:
    model, hardware, serving = (scenario.get(key) or {} for key in ("model", "hardware", "serving"))
    return {
        "engine": str(serving.get("engine", "vllm")),
        "gpu": str(hardware.get("gpu") or hardware.get("profile", "")),
        "model": str(model.get("name") or model.get("huggingface", "")),
    }


def read_result(path: Path) -> BenchResult:
    """Read a result.

    Raises:
        UsageError: The file cannot be read, or is not such a result.
    """
    return BenchResult(path, read_content(path))
