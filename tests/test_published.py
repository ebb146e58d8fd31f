"""The published figures and the script that compares them with simsys; no threshold on how well they fit."""

from __future__ import annotations

import csv
import importlib.util
import json
import math
import sys
from dataclasses import replace
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from simsys.config.hardware import load_engine, load_node
from simsys.model.model_db import load_model

ROOT = Path(__file__).resolve().parents[1]


def _script() -> ModuleType:
    """The script as a module; it lies outside the packages."""
    path = ROOT / "scripts" / "check_published.py"
    spec = importlib.util.spec_from_file_location(path.stem, path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[path.stem] = module  # dataclasses look their module up
    spec.loader.exec_module(module)
    return module


check = _script()
FIGURES = check.read_figures()
BY_GROUP = {group: [figure for figure in FIGURES if figure.group == group] for group in check.GROUPS.values()}
SMALL = [figures[0] for figures in BY_GROUP.values()]


def figure(measured: float, **changes: object) -> Any:
    return replace(BY_GROUP["training"][0], measured=measured, **changes)


def test_the_table_is_a_spread_of_all_groups() -> None:
    assert 40 <= len(FIGURES) <= 60
    assert min(map(len, BY_GROUP.values())) >= 8
    assert len(set(FIGURES)) == len(FIGURES)


def test_the_columns_are_those_of_a_figure() -> None:
    with check.FIGURES.open(encoding="utf-8", newline="") as file:
        assert next(csv.reader(file)) == list(check.Figure.__dataclass_fields__)


@pytest.mark.parametrize("published", FIGURES, ids=lambda f: f.label)
def test_every_figure_is_well_formed(published: Any) -> None:
    f = published
    assert len(f.source) > 20
    assert 0 < f.measured < math.inf
    assert f.num_nodes >= 1
    assert 1 <= f.gpus_per_node <= load_node(f.profile).gpus_per_node
    if f.metric == "all_reduce_s":
        assert f.message_bytes >= 2**20
        assert (f.model, f.engine, f.batch_size) == ("", "NCCL", 0)
        return
    load_engine(check.ENGINE_PROFILES.get(f.engine, f.engine))
    load_model(f.model)
    assert f.batch_size >= 1
    if f.group == "training":
        assert f.gradient_accumulation_steps >= 1
        assert (f.output_tokens, f.optimizer in ("adam", "sgd")) == (0, True)
    else:
        assert min(f.input_tokens, f.output_tokens) >= 1
        assert f.num_nodes == 1


@pytest.mark.parametrize(("predicted", "error"), [(3.0, 0.5), (1.0, -0.5), (2.0, 0.0)])
def test_the_error_is_relative_to_the_measurement(predicted: float, error: float) -> None:
    assert check.Outcome(figure(2.0), predicted).error == error


def test_the_summary_of_hand_made_errors() -> None:
    outcomes = [check.Outcome(figure(10.0), predicted) for predicted in (11.0, 8.0, 16.0)]
    outcomes[1] = check.Outcome(figure(10.0, used_for="a coefficient"), 8.0)
    summary = check.summarise(outcomes)
    assert summary["rows"] == 3
    assert summary["median_abs_error"] == pytest.approx(0.2)
    assert summary["mean_abs_error"] == pytest.approx(0.3)
    assert summary["bias"] == pytest.approx((0.1 - 0.2 + 0.6) / 3)
    assert (summary["independent_rows"], summary["independent_median_abs_error"]) == (2, pytest.approx(0.35))
    assert summary["worst_error"] == pytest.approx(0.6)
    assert summary["worst"] == outcomes[2].figure.label


def test_groups_keep_to_themselves() -> None:
    groups = check.by_group([check.Outcome(f, f.measured * (1 + i)) for i, f in enumerate(SMALL)])
    assert [summary["bias"] for summary in groups.values()] == pytest.approx([0.0, 1.0, 2.0, 3.0])


def test_markdown_rows_have_as_many_cells_as_the_head() -> None:
    text = check.tables([check.Outcome(f, f.measured) for f in SMALL], markdown=True)
    for table in text.split("\n\n"):
        assert len({line.count("|") for line in table.splitlines()}) == 1
    assert "| +0% |" in text


@pytest.mark.parametrize("published", SMALL, ids=lambda f: f.group)
def test_one_figure_of_each_group_is_predicted(published: Any) -> None:
    assert 0 < check.predict(published) < math.inf


def test_an_all_reduce_takes_longer_for_more_bytes() -> None:
    small = BY_GROUP["collectives >= 1 MiB"][0]
    assert check.predict(replace(small, message_bytes=2 * small.message_bytes)) > check.predict(small)


def test_a_static_batch_is_served_at_once() -> None:
    published = next(f for f in BY_GROUP["serving throughput"] if f.batch_size > 1)
    config = check.scenario(published)
    assert config.workload.num_requests == config.serving.max_num_seqs == published.batch_size
    assert config.serving.max_num_batched_tokens == published.batch_size * published.input_tokens
    assert config.parallelism.tp_degree == published.gpus_per_node


def test_json_holds_groups_and_figures(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr(check, "read_figures", lambda: SMALL)
    monkeypatch.setattr(sys, "argv", ["check_published.py", "--json"])
    check.main()
    printed = json.loads(capsys.readouterr().out)
    assert set(printed["groups"]) == set(BY_GROUP)
    assert [row["measured"] for row in printed["rows"]] == [f.measured for f in SMALL]
