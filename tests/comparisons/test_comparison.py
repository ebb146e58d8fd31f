"""Ratios, intervals, verdicts and conditions."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import simsys.comparisons.comparison as module
from simsys import SimulationConfig
from simsys.comparisons.comparison import Comparison, Pair, Ratio, compare
from simsys.comparisons.expected import Expected
from simsys.errors import UsageError
from simsys.report.export import json_text
from simsys.report.threshold import Threshold
from tests.helpers.compare_toys import BENCH, SERVING, TRAINING, training_side, written

KNOWN = Expected("", 0.05, 0.2, 10)


@pytest.mark.parametrize(
    ("ratio", "low", "high", "expected", "exceeds"),
    [
        (1.19, None, None, KNOWN, False),
        (1.21, None, None, KNOWN, True),
        (1 / 1.21, None, None, KNOWN, True),
        (0.84, None, None, KNOWN, False),  # above 1 / 1.2
        (1.3, 0.9, 1.9, KNOWN, False),
        (1.3, 1.2, 1.4, KNOWN, True),
        (None, None, None, KNOWN, None),
        (9.0, None, None, Expected("no measurements"), None),
    ],
)
def test_a_difference_counts_if_neither_error_nor_chance_explains_it(
    ratio: float | None, low: float | None, high: float | None, expected: Expected, exceeds: bool | None
) -> None:
    assert Ratio("m", "s", 1.0, 1.0, ratio, low, high, expected).exceeds is exceeds


def test_ratios_are_to_the_first_side_and_undefined_for_zero() -> None:
    pair = Pair(training_side("a", data_s=0.0), training_side("b", mean_iteration_s=2.0, data_s=1.0))
    first = pair.ratios[0]
    assert (first.metric, first.base, first.value, first.ratio) == ("mean_iteration_s", 1.0, 2.0, 2.0)
    zero = pair.ratio("data_s")
    assert zero is not None
    assert zero.ratio is None
    assert pair.ratio("mean_ttft_ms") is None


def test_causes_are_sorted_by_their_difference() -> None:
    pair = Pair(training_side("a"), training_side("b", compute_s=1.25, bubble_s=0.25))
    assert [(each.name, each.difference_s) for each in pair.causes][:2] == [
        ("forward and backward", 0.5),
        ("bubble", 0.125),
    ]


def test_common_random_numbers_make_the_interval_narrow() -> None:
    """With the same seeds the difference is that of the settings; with others, that of the requests too."""
    config = SimulationConfig.model_validate(SERVING)
    slower = config.model_copy(update={"name": "b", "hardware": config.hardware.model_copy(update={"gpu": "A100"})})
    found = compare(config, slower, seeds=4)
    ratio = found.pairs[0].ratio("mean_e2el_ms")
    assert ratio is not None
    assert ratio.low is not None
    assert ratio.high is not None
    assert ratio.low < ratio.ratio < ratio.high  # type: ignore[operator]
    here, there = ([run["mean_e2el_ms"] for run in side.runs] for side in found.sides)
    crossed = [value / base for base, value in zip(here, there[::-1], strict=True)]
    assert ratio.high - ratio.low < max(crossed) - min(crossed)


def test_the_same_scenario_twice_differs_in_nothing(tmp_path: Path) -> None:
    file = written(tmp_path / "a.yaml", SERVING)
    pair = compare(file, file).pairs[0]
    assert {each.ratio for each in pair.ratios} <= {1.0, None}
    assert all(each.difference_s == 0.0 for each in pair.causes)
    assert {each.expected.text for each in pair.headline if each.metric == "mean_tpot_ms"} == {"the same settings"}


def test_conditions_are_checked_before_anything_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = written(tmp_path / "a.yaml", TRAINING)
    monkeypatch.setattr(module, "simulated", pytest.fail)
    with pytest.raises(UsageError, match="did you mean 'mean_iteration_s'"):
        compare(file, thresholds=[Threshold.parse("mean_iteration ratio > 1", "ratio")])
    with pytest.raises(UsageError, match="a metric of serving, but the file has training only"):
        compare(file, thresholds=[Threshold.parse("p99_ttft_ms ratio > 1", "ratio")])


@pytest.mark.parametrize(
    ("condition", "found"),
    [
        ("mean_iteration_s ratio > 1.9", ["b / a: the ratio of mean_iteration_s is 2, > 1.9"]),
        ("mean_iteration_s ratio > 2", []),
        ("mean_iteration_s ratio<=2", ["b / a: the ratio of mean_iteration_s is 2, <= 2"]),
        ("data_s ratio > 2", ["b / a: the ratio of data_s has no value"]),
        ("goodput ratio > 2", ["b / a: the ratio of goodput has no value"]),
    ],
)
def test_conditions_hold_for_ratios(condition: str, found: list[str]) -> None:
    sides = [training_side("a", data_s=0.0), training_side("b", mean_iteration_s=2.0)]
    assert Comparison(sides).failures([Threshold.parse(condition, "ratio")]) == found


def test_several_seeds_need_scenarios(tmp_path: Path) -> None:
    file, bench = written(tmp_path / "a.yaml", SERVING), written(tmp_path / "b.json", BENCH)
    with pytest.raises(UsageError, match=r"several seeds need scenarios, but b\.json is no scenario"):
        compare(file, bench, seeds=2)


def test_different_seeds_are_a_warning(tmp_path: Path) -> None:
    file = written(tmp_path / "a.yaml", SERVING)
    other = written(tmp_path / "b.yaml", {**SERVING, "name": "b", "simulation": {"seed": 7}})
    assert compare(file, other).warnings == ["the seeds differ (chat 42, b 7), so a part of the difference is chance"]
    (warning,) = compare(file, other, seeds=2).warnings
    assert warning == "the seeds of the scenarios differ (chat 42, b 7), but all runs have those of the first one"


def test_tables_and_the_short_form(tmp_path: Path) -> None:
    found = compare(written(tmp_path / "a.yaml", TRAINING))
    table = found.table()
    assert list(table["metric"][:2]) == ["mean_iteration_s", "steady_iteration_s"]
    assert set(table["other"]) == {"half"}
    assert set(found.causes()["cause"]) >= {"forward and backward", "optimizer"}
    assert repr(found).startswith("<Comparison with 'ddp', 'half' mean_iteration_s x0.")
    assert len(repr(found)) < 80


def test_it_is_json(tmp_path: Path) -> None:
    found = compare(written(tmp_path / "a.yaml", TRAINING))
    pair = json.loads(json_text(found.as_dict()))["pairs"][0]
    assert pair["differs_in"] == ["global batch", "micro-batch"]
    assert pair["settings"] == {"training.batch_size_per_gpu": [2, 1]}
    assert pair["ratios"][0]["metric"] == "mean_iteration_s"
