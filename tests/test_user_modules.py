"""What a user adds is one short file: a data-parallel module, a scheduler, a collective algorithm."""

from __future__ import annotations

import importlib.metadata
import sys
from pathlib import Path
from typing import Any

import pytest

from simsys import DistributedAISimulator, SimulationConfig
from simsys.check import check_config
from simsys.collectives import ALGORITHMS, CollectiveKind, bytes_sent, get_algorithm
from simsys.collectives import Path as Link
from simsys.errors import UnknownNameError, UsageError
from simsys.framework import FRAMEWORKS, DataParallel, Schedule
from simsys.metrics.result import RunResult
from simsys.parallel.pipeline_schedule import peak_in_flight
from simsys.testing import check_framework

LINES = 40

LOCAL_SGD = '''
"""Local SGD: ranks train on their own and average their parameters every few steps (Stich 2019)."""

from __future__ import annotations

from pydantic import PositiveInt

from simsys.framework import DataParallel, Event, Rank, TrainingPlan


class LocalSGD(DataParallel):
    """Averages the parameters every `period` steps, all at once."""

    class Options(DataParallel.Options):
        """Settings."""

        period: PositiveInt = 4

    options: Options

    def __init__(self, rank: Rank, plan: TrainingPlan, options: Options) -> None:
        super().__init__(rank, plan, options)
        self.steps = 0

    def finish(self) -> Event | None:
        """Exchange as many bytes as the gradients have, but seldom."""
        self.steps += 1
        if self.steps % self.options.period:
            return None
        return self.rank.all_reduce(self.plan.gradient_bytes, over="data", name="parameters")
'''

SHORTEST_FIRST = '''
"""Shortest prompt first."""

from __future__ import annotations

from pydantic import PositiveInt

from simsys.framework import Chunk, Scheduler


class ShortestFirst(Scheduler):
    """Whole prompts, the shortest first, as many as fit."""

    class Options(Scheduler.Options):
        """Limits of a step."""

        max_num_seqs: PositiveInt = 256
        max_num_batched_tokens: PositiveInt = 2048

    options: Options

    def schedule(self) -> list[Chunk]:
        """Admit prompts until the budget or the sequences run out."""
        budget = self.options.max_num_batched_tokens - self.decode.size
        chunks: list[Chunk] = []
        for request in sorted(self.waiting, key=self.sequences.remaining_prompt):
            tokens = self.sequences.remaining_prompt(request)
            if len(self.running) == self.options.max_num_seqs or tokens > budget:
                break
            if (chunk := self.admit(request, tokens)) is None:
                break
            chunks.append(chunk)
            budget -= tokens
        return chunks
'''

HALVING_DOUBLING = '''
"""Recursive halving and doubling (Thakur, Rabenseifner & Gropp 2005), for powers of two."""

from __future__ import annotations

from simsys.collectives import Algorithm, CollectiveKind, Phase


class HalvingDoubling(Algorithm):
    """Reduce-scatter with partners at halving distances, then all-gather back."""

    name = "halving_doubling"
    kinds = frozenset({CollectiveKind.ALL_REDUCE})

    def make_phases(self, kind: CollectiveKind, size: int) -> tuple[Phase, ...]:
        """Step k exchanges 1/2^k of the buffer with the rank whose k-th highest bit differs."""
        phases, distance, share = [], size // 2, 0.5
        while distance:
            phases.append(Phase(tuple((rank, rank ^ distance) for rank in range(size)), share))
            distance, share = distance // 2, share / 2
        return (*phases, *reversed(phases))
'''

DEPTH_FIRST_PAIRS = '''
"""GPipe two micro-batches at a time: less memory than GPipe, more bubbles than 1F1B."""

from __future__ import annotations

from simsys.framework import Action, ActionKind, Schedule, require_one_chunk


class DepthFirstPairs(Schedule):
    """Two forward, the same two backward, the later first."""

    def actions(self, stage: int, stages: int, micro_batches: int, chunks: int) -> list[Action]:
        """Pair after pair."""
        require_one_chunk(self, chunks)
        order: list[Action] = []
        for first in range(0, micro_batches, 2):
            pair = range(first, min(first + 2, micro_batches))
            order += [Action(ActionKind.FORWARD, i) for i in pair]
            order += [Action(ActionKind.BACKWARD, i) for i in reversed(pair)]
        return order
'''

FILES = {
    "depth_first_pairs": (DEPTH_FIRST_PAIRS, "DepthFirstPairs"),
    "local_sgd": (LOCAL_SGD, "LocalSGD"),
    "shortest_first": (SHORTEST_FIRST, "ShortestFirst"),
    "halving_doubling": (HALVING_DOUBLING, "HalvingDoubling"),
}


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    """Writes a user's file into a package on the path; answers with ``package.module:Class``."""
    monkeypatch.syspath_prepend(str(tmp_path))
    (tmp_path / "my_lab").mkdir()
    (tmp_path / "my_lab" / "__init__.py").touch()

    def write(name: str) -> str:
        text, cls = FILES[name]
        (tmp_path / "my_lab" / f"{name}.py").write_text(text.lstrip(), encoding="utf-8")
        return f"my_lab.{name}:{cls}"

    yield write
    for module in [module for module in sys.modules if module.split(".")[0] == "my_lab"]:
        del sys.modules[module]


def training(lod: str, **settings: Any) -> RunResult:
    config = SimulationConfig(
        hardware={"profile": "dgx-h100", "gpus_per_node": 4},
        model={"name": "GPT2-Small"},
        parallelism={"strategy": "DDP"},
        training={"batch_size_per_gpu": 2, "num_iterations": 6, **settings},
        simulation={"lod": lod},
    )
    assert check_config(config) == []
    return DistributedAISimulator(config).run()


def serving(lod: str, **settings: Any) -> RunResult:
    config = SimulationConfig(
        hardware={"gpu": "A100-SXM-80GB"},
        model={"name": "GPT2-Small"},
        serving=settings,
        workload={
            "arrivals": {"kind": "poisson", "rate": "800 req/s"},
            "prompt_tokens": {"kind": "uniform", "low": 1, "high": 400},
            "output_tokens": {"kind": "uniform", "low": 1, "high": 20},
            "num_requests": 80,
        },
        simulation={"lod": lod},
    )
    assert check_config(config) == []
    return DistributedAISimulator(config).run()


def pipeline(lod: str, schedule: str, micro_batches: int, stages: int = 4) -> RunResult:
    config = SimulationConfig(
        hardware={"profile": "dgx-v100", "gpus_per_node": stages},
        model={"name": "GPT2-Small"},
        parallelism={"strategy": "PP", "pp_stages": stages, "schedule": schedule},
        training={"batch_size_per_gpu": 2, "num_iterations": 2, "gradient_accumulation_steps": micro_batches},
        simulation={"lod": lod},
    )
    assert check_config(config) == []
    return DistributedAISimulator(config).run()


def figures(result: RunResult) -> dict[str, float]:
    return {name: value for name, value in result.metrics.items() if isinstance(value, float)}


@pytest.mark.parametrize("name", FILES)
def test_a_module_is_one_short_file(name: str) -> None:
    assert len(FILES[name][0].strip().splitlines()) <= LINES


def test_local_sgd(place: Any) -> None:
    name = place("local_sgd")
    every_third = {"data_parallel": name, "options": {"period": 3}}
    high, medium = training("high", **every_third), training("medium", **every_third)
    assert figures(medium) == pytest.approx(figures(high), rel=1e-9)
    durations = medium.rows["iteration_s"]
    assert durations[2] == pytest.approx(durations[5])
    assert durations[2] > 1.03 * durations[0], "only every third iteration communicates"
    assert medium.metrics["exposed_communication_s"] == pytest.approx((durations[2] - durations[0]) / 3)
    check_framework(FRAMEWORKS.get(name, DataParallel), period=2)


def test_shortest_first(place: Any) -> None:
    name = place("shortest_first")
    high, medium = (serving(lod, scheduler=name, max_num_seqs=8) for lod in ("high", "medium"))
    assert figures(medium) == pytest.approx(figures(high), rel=1e-9)
    assert medium.metrics["completed"] == 80
    in_order = serving("medium", max_num_seqs=8)
    assert medium.metrics["median_queue_ms"] < in_order.metrics["median_queue_ms"]
    assert medium.metrics["p99_queue_ms"] > in_order.metrics["p99_queue_ms"], "long prompts wait longer"
    check_framework(FRAMEWORKS.get(name, object))


def test_halving_doubling(place: Any) -> None:
    name = place("halving_doubling")
    high, medium, ring = (
        training(lod, communication_pattern=pattern)
        for lod, pattern in (("high", name), ("medium", name), ("medium", "ring"))
    )
    assert figures(medium) == pytest.approx(figures(high), rel=1e-9)
    # The same bytes in fewer steps.
    assert medium.metrics["communication_s"] < ring.metrics["communication_s"]


@pytest.mark.parametrize("micro_batches", [7, 8])
def test_depth_first_pairs(place: Any, micro_batches: int) -> None:
    name = place("depth_first_pairs")
    high, medium = (pipeline(lod, name, micro_batches) for lod in ("high", "medium"))
    assert list(medium.rows["iteration_s"]) == pytest.approx(list(high.rows["iteration_s"]), rel=1e-9)
    iteration_s, gpipe_s = (
        pipeline("medium", schedule, micro_batches).metrics["mean_iteration_s"] for schedule in (name, "gpipe")
    )
    assert iteration_s > 1.2 * gpipe_s, "the pipeline drains after every pair"
    check_framework(FRAMEWORKS.get(name, Schedule))
    orders = (FRAMEWORKS.get(each, Schedule)().actions(0, 4, micro_batches, 1) for each in (name, "gpipe"))
    assert [peak_in_flight(order) for order in orders] == [(2,), (micro_batches,)]


@pytest.mark.parametrize("size", [2, 4, 8])
def test_halving_doubling_moves_the_bytes_of_the_ring_in_fewer_steps(place: Any, size: int) -> None:
    mine, ring, kind = get_algorithm(place("halving_doubling")), get_algorithm("ring"), CollectiveKind.ALL_REDUCE
    phases = mine.phases(kind, size)
    assert bytes_sent(phases, 1e6) == pytest.approx(bytes_sent(ring.phases(kind, size), 1e6))
    latency_only = mine.seconds(kind, size, 0.0, [Link(1.0, 1.0)])
    assert latency_only == pytest.approx(2 * (size.bit_length() - 1))


@pytest.mark.parametrize(
    ("group", "name", "setting"),
    [
        ("simsys.frameworks", "local_sgd", "data_parallel"),
        ("simsys.collectives", "halving_doubling", "communication_pattern"),
    ],
)
def test_an_installed_module_is_known_by_its_entry_point(
    place: Any, monkeypatch: pytest.MonkeyPatch, group: str, name: str, setting: str
) -> None:
    point = importlib.metadata.EntryPoint(f"my_{name}", place(name), group)
    real = importlib.metadata.entry_points

    def entry_points(**chosen: Any) -> Any:
        return importlib.metadata.EntryPoints([*real(**chosen), *([point] if chosen == {"group": group} else [])])

    monkeypatch.setattr(importlib.metadata, "entry_points", entry_points)
    result = training("medium", **{setting: point.name})
    assert result.metrics["iterations"] == 6
    for registry in (FRAMEWORKS, ALGORITHMS):  # shipped modules, which are imported once, stay registered
        registry.forget(point.name)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"data_parallel": "dpp"}, "unknown DataParallel module 'dpp', did you mean 'ddp'"),
        ({"data_parallel": "no_such_package:X"}, "no framework module at 'no_such_package:X'"),
        ({"data_parallel": "frameworks.chunked_prefill:ChunkedPrefill"}, "not a complete subclass of DataParallel"),
        ({"communication_pattern": "rign"}, "unknown communication pattern 'rign', did you mean 'ring'"),
        ({"communication_pattern": "autos"}, "unknown communication pattern 'autos', did you mean 'auto'"),
        ({"communication_pattern": "no_such_package:X"}, "no collective algorithm at 'no_such_package:X'"),
        ({"communication_pattern": "frameworks.ddp:DDP"}, "not a complete subclass of Algorithm"),
    ],
)
def test_what_is_not_there_is_said_so(settings: dict[str, str], message: str) -> None:
    config = SimulationConfig(
        hardware={"profile": "dgx-h100", "gpus_per_node": 2},
        model={"name": "GPT2-Small"},
        parallelism={"strategy": "DDP"},
        training={"batch_size_per_gpu": 2, **settings},
    )
    with pytest.raises((UnknownNameError, UsageError), match=message):
        DistributedAISimulator(config).run()
    (problem,) = check_config(config)
    assert problem.path == f"training.{next(iter(settings))}"
