"""The expected error of a ratio: which measured pairs it is from, and what is said where there are none."""

from __future__ import annotations

from pathlib import Path

import pytest

from simsys.config.expected_ratios import OTHER_GPU, SAME, RatioError, ratio_error
from simsys.report.yaml_text import yaml_text


def figures(median: float) -> dict[str, float]:
    return {"median": median, "nine_of_ten": 2 * median, "pairs": 30, "rows": 20, "sources": 2}


@pytest.fixture(autouse=True)
def _measured(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    few = {**figures(0.01), "pairs": 7}
    kinds = {"layout": figures(0.05), "model": few, SAME: figures(0.1), OTHER_GPU: figures(0.2)}
    known = {"kinds": kinds, "aspects": ["GPU", "engine", "layout", "model"]}
    fits = tmp_path / "hardware_profiles" / "fits"
    fits.mkdir(parents=True)
    text = yaml_text({"training": {"iteration_s": known}})
    (fits / "expected_ratios.yaml").write_text(text, encoding="utf-8")
    monkeypatch.setenv("SIMSYS_PATH", str(tmp_path))


@pytest.mark.parametrize(
    ("aspects", "median", "kind"),
    [
        (["layout"], 0.05, "layout"),
        (["model"], 0.1, SAME),
        (["layout", "model"], 0.1, SAME),
        (["GPU", "layout"], 0.2, OTHER_GPU),
    ],
)
def test_the_same_kind_of_pairs_counts_then_its_class(aspects: list[str], median: float, kind: str) -> None:
    found = ratio_error("training", "iteration_s", aspects)
    assert isinstance(found, RatioError)
    assert (found.median, found.kind) == (median, kind)


@pytest.mark.parametrize(
    ("family", "metric", "aspects", "missing"),
    [
        ("training", "iteration_s", ["layout", "network", "nodes"], "network, nodes"),
        ("training", "iteration_s", ["engine"], "engine"),
        ("training", "iteration_s", ["GPU", "engine"], "GPU, engine"),
        ("training", "other", ["layout"], "layout"),
        ("serving", "ttft_ms", ["layout"], "layout"),
    ],
)
def test_what_was_not_measured_is_named(family: str, metric: str, aspects: list[str], missing: str) -> None:
    assert ratio_error(family, metric, aspects) == f"no measurements of pairs that differ in: {missing}"


def test_the_number_of_sources_is_part_of_the_text() -> None:
    found = RatioError(0.1, 0.2, 30, 20, 1, SAME)
    assert found.text() == "median 10 %, p90 20 % (n = 30 measured pairs of 20 values, 1 source, same GPU and engine)"
