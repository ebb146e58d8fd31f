"""Training iterations: what comes between them, and that equal ones of a kind are not simulated again."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from simsys.collectives.choose import named
from simsys.config.experiment import SimulationConfig
from simsys.executors import LEVELS
from simsys.executors.cycles import rounding_of
from simsys.executors.execution_model import ExecutionModel
from simsys.executors.iterations.checkpoints import Checkpoints
from simsys.executors.iterations.training_loop import Iteration, Phase, TrainingLoop
from simsys.framework import FRAMEWORKS, DataParallel, Rank, Schedule, TrainingFramework, TrainingPlan
from simsys.metrics.collector import TrainingMetrics
from simsys.metrics.history import EventHistory
from simsys.metrics.result import RunResult
from simsys.model.work import Precision
from simsys.parallel.layout import Layout
from simsys.platform.platform import Platform
from simsys.platform.topology import full_mesh
from simsys.probes import Probe, Probes
from simsys.simulation import simulate
from tests.helpers.thorough import cases, every_second
from tests.helpers.toys import TOY, work_of


def train(
    iterations: int,
    lod: str = "medium",
    probes: Any = (),
    *,
    training: dict[str, Any] | None = None,
    hardware: dict[str, Any] | None = None,
    **parallelism: Any,
) -> RunResult:
    batch = {"batch_size_per_gpu": 2, "num_iterations": iterations, "gradient_accumulation_steps": 4}
    return simulate(
        SimulationConfig(
            hardware=hardware or {"profile": "dgx-a100"},
            network={"topology_type": "full_mesh"},
            model={"name": "GPT2-Small"},
            parallelism={"dp_degree": 8, **parallelism},
            training={**batch, **(training or {})},
            simulation={"lod": lod},
        ),
        probes,
    )


PIPELINE = {"dp_degree": 2, "tp_degree": 1, "pp_stages": 4}


SLOW_WRITE = {"interval": 4, "storage_bandwidth": "1 GB/s", "asynchronous": True}
"""1.5 GB, which are written in the time of some seven iterations."""
BETWEEN: dict[str, dict[str, Any]] = {
    "checkpoints": {"checkpoint": {"interval": 5, "storage_bandwidth": "10 GB/s"}},
    "every-iteration": {"checkpoint": {"interval": 1, "storage_bandwidth": "10 GB/s", "asynchronous": True}},
    "slow-write": {"checkpoint": SLOW_WRITE},
    "loading": {"data_loading": {"time": "5 ms", "prefetch": False}},
    "prefetch": {"data_loading": {"time": "5 ms"}},
    "slow-loading": {"data_loading": {"time": "20 ms"}},
    "batches": {"batch_schedule": [{"from_iteration": 7, "batch_size_per_gpu": 1}]},
    "all": {
        "checkpoint": SLOW_WRITE,
        "data_loading": {"time": "20 ms"},
        "batch_schedule": [{"from_iteration": 15, "gradient_accumulation_steps": 8, "batch_size_per_gpu": 1}],
    },
}
PARTS = ("compute_s", "exposed_communication_s", "bubble_s", "data_s", "checkpoint_s", "idle_s")


def assert_same(told: RunResult, simulated: RunResult) -> None:
    """Equal to 1e-12, in the rows of an iteration's time."""
    for name, value in simulated.metrics.items():
        rounding = 1e-12 * simulated.metrics["mean_iteration_s"] if name.endswith("_s") else 0.0
        assert told.metrics[name] == pytest.approx(value, rel=1e-12, abs=rounding), name
    for name, column in simulated.rows.items():
        rounding = 1e-12 * simulated.simulated_s
        assert list(told.rows[name]) == pytest.approx(list(column), rel=1e-12, abs=rounding), name
    assert told.simulated_s == pytest.approx(simulated.simulated_s, rel=1e-12)


@pytest.mark.parametrize("parallelism", [{}, PIPELINE], ids=["ddp", "pipeline"])
def test_the_rest_costs_one_event(parallelism: dict[str, Any]) -> None:
    assert train(10, **parallelism).events == train(1000, **parallelism).events


@pytest.mark.parametrize("parallelism", [{}, PIPELINE], ids=["ddp", "pipeline"])
def test_every_figure_is_that_of_simulating_all_of_them(parallelism: dict[str, Any]) -> None:
    told, simulated = train(12, **parallelism), train(12, probes=[EventHistory()], **parallelism)
    assert told.events < simulated.events
    assert_same(told, simulated)


@pytest.mark.parametrize("parallelism", [{}, PIPELINE], ids=["ddp", "pipeline"])
def test_an_iteration_that_ends_as_it_began_is_simulated_once(parallelism: dict[str, Any]) -> None:
    assert train(1, **parallelism).events == train(2, **parallelism).events == train(1000, **parallelism).events


class LeavesGathering(DataParallel):
    """Begins an all-gather at the end of a step, for which the next step waits."""

    same_every_step = same_first_step = True

    def __init__(self, rank: Rank, plan: TrainingPlan, options: Any) -> None:
        super().__init__(rank, plan, options)
        self.gathered: Any = None

    def finish(self) -> Any:
        return self.gathered

    def after_optimizer(self) -> None:
        self.gathered = self.rank.all_gather(50e6, over="data")


class KeepsMemory(LeavesGathering):
    """Allocates a buffer in its first step."""

    def after_optimizer(self) -> None:
        if self.gathered is None:
            self.rank.allocate(1e6, name="buffer")
        self.gathered = ()

    def finish(self) -> None:
        pass


@pytest.mark.parametrize("module", [LeavesGathering, KeepsMemory])
def test_an_iteration_that_leaves_something_is_simulated_twice(module: type[DataParallel]) -> None:
    training = {"data_parallel": f"{module.__module__}:{module.__name__}"}
    once, twice, often = (train(count, training=training) for count in (1, 2, 30))
    assert once.events < twice.events
    assert twice.events == often.events


def test_high_simulates_all_of_them() -> None:
    few, many = train(3, "high"), train(6, "high")
    assert many.events == pytest.approx(2 * few.events, rel=0.01)
    assert many.metrics["mean_iteration_s"] == pytest.approx(train(6).metrics["mean_iteration_s"], rel=1e-9)


def test_all_ranks_begin_an_iteration_together() -> None:
    history = EventHistory()
    train(3, "high", [history], **PIPELINE)
    starts: dict[float, int] = {}
    for event in history.event_history:
        if event.event_type == "ITERATION_START":
            starts[event.timestamp] = starts.get(event.timestamp, 0) + 1
    assert list(starts.values()) == [8, 8, 8]


def test_the_first_iteration_of_a_static_graph_is_not_taken_for_the_others() -> None:
    """It hides nothing; the second and the third are equal, and the rest is told."""

    def run(iterations: int, probes: Any = ()) -> RunResult:
        training = {"batch_size_per_gpu": 2, "num_iterations": iterations, "options": {"static_graph": True}}
        return simulate(
            SimulationConfig(
                hardware={"profile": "dgx-a100", "num_nodes": 2},
                model={"name": "GPT2-Small"},
                parallelism={"strategy": "DDP"},
                training=training,
                simulation={"lod": "medium"},
            ),
            probes,
        )

    told, simulated = run(12), run(12, [EventHistory()])
    assert told.events == run(1000).events < simulated.events
    durations = list(told.rows["iteration_s"])
    assert durations[0] > 1.05 * durations[1]
    assert durations[1:] == pytest.approx([durations[1]] * 11, rel=1e-9)
    for name, column in simulated.rows.items():
        assert list(told.rows[name]) == pytest.approx(list(column), rel=1e-9), name


@pytest.mark.parametrize(("name", "parallelism"), every_second(list(BETWEEN), [{}, PIPELINE]))
def test_what_comes_between_is_told_as_it_is_simulated(name: str, parallelism: dict[str, Any]) -> None:
    told = train(40, training=BETWEEN[name], **parallelism)
    simulated = train(40, probes=[EventHistory()], training=BETWEEN[name], **parallelism)
    assert told.events < simulated.events
    assert_same(told, simulated)


@pytest.mark.parametrize(("name", "parallelism"), every_second(list(BETWEEN), [{}, PIPELINE]))
def test_both_levels_agree_and_the_parts_add_up(name: str, parallelism: dict[str, Any]) -> None:
    between = {**BETWEEN[name], "batch_schedule": [{"from_iteration": 3, "gradient_accumulation_steps": 2}]}
    joined_pairwise = {"gpu": "A100-SXM-80GB", "num_nodes": 8}  # so that no two transfers meet on a link
    high, medium = (
        train(8, lod, training=between, hardware=joined_pairwise, **parallelism) for lod in ("high", "medium")
    )
    for column in ("started_s", "iteration_s", "samples", *PARTS):
        assert list(medium.rows[column]) == pytest.approx(list(high.rows[column]), rel=1e-9, abs=1e-12), column
    for result in (high, medium):
        for index, seconds in enumerate(result.rows["iteration_s"]):
            assert sum(result.rows[part][index] for part in PARTS) == pytest.approx(seconds, rel=1e-9)
        assert sum(result.metrics[part] for part in PARTS) == pytest.approx(result.metrics["mean_iteration_s"])


@pytest.mark.parametrize("name", BETWEEN)
def test_many_iterations_cost_no_more_events_than_some(name: str) -> None:
    some, many = (train(count, training=BETWEEN[name]) for count in (200, 20_000))
    assert many.metrics["iterations"] == 20_000
    assert many.events == some.events


def test_loading_at_the_beginning_is_waited_for() -> None:
    rows = train(4, training={"data_loading": {"time": "5 ms", "prefetch": False}}).rows
    assert list(rows["data_s"]) == pytest.approx([0.02] * 4)  # four micro-batches


def test_loading_meanwhile_is_waited_for_only_if_it_takes_longer_than_the_iteration() -> None:
    plain_s = train(2).metrics["mean_iteration_s"]
    fast, slow = (train(4, training={"data_loading": {"time": time_ms}}).rows for time_ms in ("5 ms", "60 ms"))
    assert 0.02 < plain_s < 0.24
    assert list(fast["data_s"]) == pytest.approx([0.02, 0.0, 0.0, 0.0])
    assert list(slow["data_s"]) == pytest.approx([0.24, *[0.24 - plain_s] * 3])
    assert list(slow["iteration_s"]) == pytest.approx([0.24 + plain_s, 0.24, 0.24, 0.24])


def test_a_checkpoint_hides_loading() -> None:
    plain_s = train(2).metrics["mean_iteration_s"]
    both = {"data_loading": {"time": "60 ms"}, "checkpoint": {"interval": 2, "storage_bandwidth": "10 GB/s"}}
    rows = train(6, training=both).rows
    wait_s = 0.24 - plain_s
    assert 0.0 < wait_s < rows["checkpoint_s"][1]
    assert list(rows["data_s"]) == pytest.approx([0.24, wait_s, 0.0, wait_s, 0.0, wait_s])


def test_larger_micro_batches_take_longer_to_load() -> None:
    larger = {"batch_schedule": [{"from_iteration": 1, "batch_size_per_gpu": 6, "gradient_accumulation_steps": 1}]}
    rows = train(2, training={"data_loading": {"time": "4 ms", "prefetch": False}, **larger}).rows
    assert list(rows["data_s"]) == pytest.approx([4 * 0.004, 3 * 0.004])


def test_a_background_write_is_waited_for_by_the_next_checkpoint() -> None:
    rows = train(16, training={"checkpoint": SLOW_WRITE}).rows
    plain_s, copy_s, write_s = rows["iteration_s"][0], rows["checkpoint_s"][3], 12 * 124_439_808 / 1e9
    assert write_s > 4 * plain_s
    later = [rows["checkpoint_s"][index] for index in (7, 11, 15)]
    assert later == pytest.approx([copy_s + write_s - 4 * plain_s] * 3, rel=1e-9)


class Told(Probe):
    """Which iterations are said to be like which."""

    counts_only = True

    def __init__(self) -> None:
        self.runs: list[tuple[int, int]] = []

    def repeated(self, rank: int, count: int, started_s: float, iteration_s: float, like: int) -> None:
        self.runs.append((like, count))


def test_probes_hear_which_iteration_the_told_ones_are_like() -> None:
    probe = Told()
    train(12, probes=[probe], training={"checkpoint": {"interval": 3, "storage_bandwidth": "10 GB/s"}})
    # 0 ends as it began; 2 and 5 are equal, with checkpoints; then 8 and 11 are like 5, the others like 0
    assert probe.runs == [(0, 1), (0, 2), (0, 2), (5, 1), (0, 2), (5, 1)]


class Busy(TrainingFramework):
    """Computes as the plan's optimizer does."""

    def step(self) -> Iterator[Any]:
        yield self.rank.compute(self.plan.optimizer)


def loop_rows(
    steps_s: list[tuple[int, float, float]], prefetch: bool, checkpoint: tuple[int, float, float], *, repeatable: bool
) -> dict[str, list[float]]:
    """Rows of 60 iterations of a toy GPU; phases are given as start, computation and loading."""
    platform = Platform([TOY], full_mesh(1, 1e9, 0.0))
    collector = TrainingMetrics(0, samples_per_iteration=1.0)
    executor = LEVELS["medium"](platform, ExecutionModel(named("ring"), Precision()), [[0]], Probes([collector]))
    phases = [Phase(start, (TrainingPlan((), 1, work_of(step_s)),), load_s) for start, step_s, load_s in steps_s]
    rank, plan = Rank(0, Layout(), executor), phases[0].plans[0]
    framework = Busy(rank, plan, DataParallel(rank, plan, None), FRAMEWORKS.get("1f1b", Schedule)())
    loop = TrainingLoop(executor, [framework], phases, prefetch=prefetch, checkpoints=Checkpoints(*checkpoint))
    executor.env.process(loop.run(60, repeatable=repeatable))
    executor.env.run()
    rows = {name: list(column) for name, column in collector.rows().items()}
    return {**rows, "busy_s": [platform.devices[0].busy_s], "end_s": [platform.devices[0].free_at_s]}


tenths = st.integers(0, 30).map(lambda number: number / 10)


@settings(max_examples=cases(100), deadline=None)
@given(
    st.lists(st.tuples(st.integers(1, 25), tenths.map(lambda s: s + 0.1), tenths), min_size=1, max_size=3),
    st.booleans(),
    st.tuples(st.integers(1, 12), tenths.map(lambda s: s + 0.1), st.integers(0, 200).map(lambda number: number / 10)),
)
def test_whatever_holds_training_up_is_told_as_it_is_simulated(
    lengths: list[tuple[int, float, float]], prefetch: bool, checkpoint: tuple[int, float, float]
) -> None:
    starts = [sum(length for length, _, _ in lengths[:index]) for index in range(len(lengths))]
    phases = [(start, step_s, load_s) for start, (_, step_s, load_s) in zip(starts, lengths, strict=True)]
    told, simulated = (loop_rows(phases, prefetch, checkpoint, repeatable=each) for each in (True, False))
    for name, column in simulated.items():
        assert told[name] == pytest.approx(column, rel=1e-12, abs=1e-11), name


def test_rounding_of_cycles_that_were_left_out_makes_iterations_no_different():
    """A cycle may be wrong by a rounding, and counts as often as it was left out."""

    def lasting(seconds: float) -> Iteration:
        return Iteration(0, 0.0, seconds, 0.0, (), ())

    rounding_s = rounding_of(33.4, 66.8)
    assert lasting(33.4).same_as(lasting(33.4 + 4.0 * rounding_s), 66.8)
    assert not lasting(33.4).same_as(lasting(33.4 + 20.0 * rounding_s), 66.8)
