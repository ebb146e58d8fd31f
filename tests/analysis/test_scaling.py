"""Scaling studies: what they compute, and the runner that makes them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import simsys
from simsys.analysis.scaling import ScalingStudyRunner
from simsys.analysis.scaling_result import FIGURES, Mode, ScalingPoint, ScalingResult
from simsys.config.experiment import SimulationConfig
from simsys.errors import UsageError
from simsys.simulation import simulate

SIZES = (1, 2, 4, 8, 16)
fractions = st.floats(0.0, 1.0)


def study(mode: Mode, speedups: dict[int, float], per_node: int = 8) -> ScalingResult:
    """A study with these speed-ups by nodes, of 100 samples/s on one node."""
    points = [ScalingPoint(nodes, nodes * per_node, 8, 1.0, 100 * fast) for nodes, fast in speedups.items()]
    return ScalingResult("made up", mode, points)


def amdahl(fraction: float, size: int) -> float:
    return 1 / (fraction + (1 - fraction) / size)


# --- what a study computes ----------------------------------------------------------------------------------------


@given(fraction=fractions)
def test_points_on_amdahls_law_give_its_fraction_and_limit(fraction: float) -> None:
    result = study("strong", {size: amdahl(fraction, size) for size in SIZES})
    assert result.serial_fraction == pytest.approx(fraction, abs=1e-9)
    if fraction > 1e-3:
        assert result.speedup_limit == pytest.approx(1 / fraction, rel=1e-5)


@given(fraction=fractions)
def test_points_on_gustafsons_law_give_its_fraction_and_no_limit(fraction: float) -> None:
    result = study("weak", {size: size - fraction * (size - 1) for size in SIZES})
    assert result.serial_fraction == pytest.approx(fraction, abs=1e-9)
    assert result.speedup_limit is None


@given(speedups=st.lists(st.floats(0.5, 20.0), min_size=4, max_size=4))
def test_the_fit_has_the_least_squares_of_relative_differences(speedups: list[float]) -> None:
    result = study("strong", dict(zip(SIZES, [1.0, *speedups], strict=True)))

    def squares(fraction: float) -> float:
        points = zip(SIZES[1:], speedups, strict=True)
        return sum((1 - fast / amdahl(fraction, size)) ** 2 for size, fast in points)

    best = result.serial_fraction
    assert best is not None
    assert all(squares(best) <= squares(other / 20) + 1e-12 for other in range(21))


def test_one_further_point_gives_the_metric_of_karp_and_flatt() -> None:
    assert study("strong", {1: 1.0, 8: 4.0}).serial_fraction == pytest.approx((1 / 4 - 1 / 8) / (1 - 1 / 8))


@pytest.mark.parametrize("mode", ["weak", "strong"])
def test_superlinear_scaling_has_no_serial_part_and_no_limit(mode: Mode) -> None:
    result = study(mode, {1: 1.0, 2: 2.5})
    assert result.serial_fraction == 0.0
    assert result.speedup_limit is None


def test_one_point_has_no_serial_fraction() -> None:
    result = study("strong", {1: 1.0})
    assert result.serial_fraction is None
    assert result.speedup_limit is None
    assert result.rows["efficiency"] == [1.0]


def test_scaling_breaks_down_at_the_first_size_below_seventy_percent() -> None:
    result = study("strong", {1: 1.0, 2: 1.8, 4: 2.8, 8: 5.5, 16: 14.0})
    assert result.rows["efficiency"] == pytest.approx([1.0, 0.9, 0.7, 0.6875, 0.875])
    assert result.breakdown_nodes == 8
    assert study("weak", {1: 1.0, 2: 1.5}).breakdown_nodes is None


def test_the_smallest_simulated_size_is_the_base() -> None:
    points = [ScalingPoint(1, 8, 64, problem="out of memory"), *study("strong", {2: 2.0, 4: 3.6}).points]
    result = ScalingResult("made up", "strong", points)
    assert result.rows["efficiency"] == [None, 1.0, pytest.approx(0.9)]
    assert result.rows["problem"] == ["out of memory", "", ""]
    summary = result.summary()
    assert "1 node: out of memory" in summary
    assert "relative to 2 nodes" in summary


def test_the_summary_says_what_it_means_in_eighty_columns() -> None:
    summary = study("strong", {size: amdahl(0.1, size) for size in SIZES}).summary()
    assert summary.startswith("made up: strong scaling\n\nnodes  gpus")
    assert "efficiency is below 70 % from 8 nodes" in summary
    assert "serial fraction 0.1 (fit of Amdahl's law); the speed-up stays below 10.0" in summary
    assert max(map(len, summary.splitlines())) <= 80


def test_a_study_is_a_table_too() -> None:
    table = study("weak", {1: 1.0, 2: 1.9}).table()
    assert list(table["gpus"]) == [8, 16]
    assert list(table.columns)[-2:] == ["efficiency", "problem"]


def test_the_best_sizes_are_the_smallest_ones_within_one_percent() -> None:
    rates, prices = {1: 100.0, 2: 190.0, 4: 300.0, 8: 301.0}, {1: 1.0, 2: 0.995, 4: 1.4, 8: 2.8}
    points = [
        ScalingPoint(nodes, nodes, 1, 1.0, rates[nodes], figures={"usd_per_million_tokens": prices[nodes]})
        for nodes in rates
    ]
    result = ScalingResult("made up", "strong", points)
    assert result.best_for_time.nodes == 4
    assert result.best_for_cost is not None
    assert result.best_for_cost.nodes == 1
    assert result.largest_efficient.nodes == 4
    assert "best size: 4 nodes for time, 1 node for cost" in result.summary()
    assert "USD/M tokens" in result.summary()


def test_without_prices_there_is_no_best_size_for_cost() -> None:
    result = study("weak", {1: 1.0, 2: 1.9})
    assert result.best_for_cost is None
    assert "best size: 2 nodes for time\n" in result.summary() + "\n"


def test_a_single_size_has_no_fit_and_says_so() -> None:
    result = study("strong", {4: 1.0})
    assert result.fits == {}
    assert "a fit needs two" in result.summary()
    assert result.best_for_time.nodes == result.largest_efficient.nodes == 4


# --- the runner ---------------------------------------------------------------------------------------------------


def config(**changes: Any) -> SimulationConfig:
    """GPT-2 small on two nodes of two A100; `changes` replace whole sections."""
    sections: dict[str, Any] = {
        "hardware": {"profile": "dgx-a100", "gpus_per_node": 2, "num_nodes": 2},
        "model": {"name": "GPT2-Small"},
        "parallelism": {"strategy": "DDP", "dp_degree": 4},
        "training": {"batch_size_per_gpu": 8, "num_iterations": 1},
    }
    return SimulationConfig(**{**sections, **changes})


def test_the_scaling_study_of_the_readme(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    base_config = simsys.create_medium_scale_config()
    runner = simsys.ScalingStudyRunner(base_config)
    result = runner.run_scaling_study([1, 2, 4, 8, 16])
    assert runner.visualize("./results/scaling") == [Path("results/scaling/scaling_efficiency.png")]
    assert Path("results/scaling/scaling_efficiency.png").read_bytes().startswith(b"\x89PNG")
    rows = result.rows
    assert rows["gpus"] == [8, 16, 32, 64, 128]
    assert rows["efficiency"][0] == 1.0
    assert rows["efficiency"] == sorted(rows["efficiency"], reverse=True), "more GPUs, more communication"
    for gpus, iteration_s, samples_per_s in zip(rows["gpus"], rows["iteration_s"], rows["samples_per_s"], strict=True):
        assert samples_per_s == pytest.approx(gpus * 16 / iteration_s)


def test_weak_scaling_is_the_ratio_of_iteration_times() -> None:
    rows = ScalingStudyRunner(config()).run_scaling_study([1, 2, 4]).rows
    first = rows["iteration_s"][0]
    assert rows["batch_size_per_gpu"] == [8, 8, 8]
    assert rows["efficiency"] == pytest.approx([first / iteration_s for iteration_s in rows["iteration_s"]])


def test_strong_scaling_keeps_the_global_batch() -> None:
    rows = ScalingStudyRunner(config()).run_scaling_study([1, 2, 4, 8], mode="strong").rows
    assert rows["batch_size_per_gpu"] == [16, 8, 4, 2]
    first = rows["iteration_s"][0]
    ideal = [first / (size * time) for size, time in zip((1, 2, 4, 8), rows["iteration_s"], strict=True)]
    assert rows["efficiency"] == pytest.approx(ideal)
    assert rows["efficiency"][-1] < 0.9


def test_tensor_parallel_ranks_share_a_batch() -> None:
    base = config(parallelism={"strategy": "TP", "tp_degree": 2})
    rows = ScalingStudyRunner(base).run_scaling_study([1, 2], mode="strong").rows
    assert rows["batch_size_per_gpu"] == [16, 8], "two data-parallel ranks of 8 samples, then one of 16"
    assert rows["problem"] == ["", ""]


def test_one_gpu_without_parallelism_becomes_data_parallel() -> None:
    base = config(hardware={"gpu": "A100-SXM-80GB"}, parallelism={"strategy": "None", "dp_degree": 1})
    rows = ScalingStudyRunner(base).run_scaling_study([1, 4]).rows
    assert rows["gpus"] == [1, 4]
    assert rows["iteration_s"][1] > rows["iteration_s"][0], "gradients are averaged now"


def test_sizes_are_sorted_and_the_base_is_left_alone() -> None:
    base = config()
    assert ScalingStudyRunner(base).run_scaling_study([4, 1]).rows["nodes"] == [1, 4]
    assert base.hardware.num_nodes == 2
    assert base.parallelism.dp_degree == 4


def test_a_size_that_does_not_fit_is_a_row_with_its_reason() -> None:
    base = config(training={"batch_size_per_gpu": 60, "num_iterations": 1})
    rows = ScalingStudyRunner(base).run_scaling_study([1, 2, 4], mode="strong").rows
    assert "GPT2-Small does not fit into A100-SXM-80GB" in rows["problem"][0]
    assert "would fit" in rows["problem"][0]
    assert rows["iteration_s"][0] is rows["samples_per_s"][0] is rows["efficiency"][0] is None
    assert rows["efficiency"][1] == 1.0


@pytest.mark.parametrize(
    ("sizes", "mode", "message"),
    [
        ([], "weak", "at least one number of nodes"),
        ([1, 0], "weak", "positive integer, not 0"),
        ([1, 2.0], "weak", "positive integer, not 2.0"),
        ([True], "weak", "positive integer, not True"),
        ([1, 2, 1], "weak", "some twice"),
        ([1, 2], "week", "unknown mode 'week' of a scaling study, did you mean 'weak'"),
        ([32], "strong", "cannot be divided"),
    ],
)
def test_what_cannot_be_studied_is_refused(sizes: list[Any], mode: Any, message: str) -> None:
    with pytest.raises(UsageError, match=message):
        ScalingStudyRunner(config()).run_scaling_study(sizes, mode=mode)


def test_a_size_that_cannot_divide_the_global_batch_is_a_row_with_its_reason() -> None:
    rows = ScalingStudyRunner(config()).run_scaling_study([1, 3], "strong").rows
    assert rows["problem"][0] == ""
    assert "global batch of 32 cannot be divided evenly among 6 data-parallel ranks" in rows["problem"][1]


def test_a_size_that_needs_too_much_time_is_a_row_with_its_reason() -> None:
    rows = ScalingStudyRunner(config()).run_scaling_study([1, 64], limit_s=0.1).rows
    assert rows["problem"][0] == ""
    assert "more than --limit allows (0.1 s); --yes simulates it anyway" in rows["problem"][1]


def test_cost_and_energy_of_every_size_are_those_of_its_run() -> None:
    target = {"batch_size_per_gpu": 8, "num_iterations": 1, "target": {"tokens": 1e9}}
    result = ScalingStudyRunner(config(training=target)).run_scaling_study([1, 2])
    assert result.figures == list(FIGURES)
    one = simulate(config(hardware={"profile": "dgx-a100", "gpus_per_node": 2}, parallelism={}, training=target))
    assert {name: column[0] for name, column in result.rows.items() if name in FIGURES} == {
        name: one.metrics[name] for name in FIGURES
    }


def test_when_nothing_can_be_simulated_the_reason_is_an_error() -> None:
    runner = ScalingStudyRunner(config(training={"batch_size_per_gpu": 4000, "num_iterations": 1}))
    with pytest.raises(
        UsageError, match=r"none of these numbers of nodes can be simulated: .*does not fit .* would fit"
    ):
        runner.run_scaling_study([1, 2])


def test_a_batch_that_the_schedule_sets_cannot_be_divided() -> None:
    later = [{"from_iteration": 1, "batch_size_per_gpu": 4}]
    base = config(training={"batch_size_per_gpu": 8, "num_iterations": 2, "batch_schedule": later})
    assert ScalingStudyRunner(base).run_scaling_study([1, 2], mode="weak").rows["nodes"] == [1, 2]
    with pytest.raises(UsageError, match="strong scaling divides batch_size_per_gpu; let batch_schedule change the"):
        ScalingStudyRunner(base).run_scaling_study([1, 2], mode="strong")


def test_serving_is_not_scaled() -> None:
    workload = {"arrivals": {"kind": "all_at_once"}, "prompt_tokens": 8, "output_tokens": 8, "num_requests": 1}
    serving = SimulationConfig(
        hardware={"gpu": "H100-SXM"}, model={"name": "Llama3-8B"}, serving={}, workload=workload
    )
    with pytest.raises(UsageError, match="needs training, experiment is serving"):
        ScalingStudyRunner(serving)


def test_there_is_nothing_to_draw_before_a_study(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="call run_scaling_study first"):
        ScalingStudyRunner(config()).visualize(tmp_path)


def test_a_global_batch_grows_with_weak_scaling_and_is_kept_by_strong_scaling() -> None:
    def of(**training: Any) -> SimulationConfig:
        data = {"hardware": {"profile": "dgx-h100", "num_nodes": 1}, "model": {"name": "GPT2-Small"}}
        return SimulationConfig.model_validate({**data, "training": {"num_iterations": 1, **training}})

    whole, steps = (
        of(global_batch_size=64, batch_size_per_gpu=2),
        of(batch_size_per_gpu=2, gradient_accumulation_steps=4),
    )
    weak, same = (ScalingStudyRunner(each).run_scaling_study([1, 2, 4]) for each in (whole, steps))
    assert weak.rows == same.rows
    strong = ScalingStudyRunner(whole).run_scaling_study([1, 2, 4, 8], "strong")
    samples = [
        each.samples_per_s * each.iteration_s for each in strong.points if each.samples_per_s and each.iteration_s
    ]
    assert samples == pytest.approx([64, 64, 64])
    assert "does not divide global_batch_size 64" in strong.points[-1].problem
