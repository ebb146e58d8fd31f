from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import pytest

import simsys.sweeps.points as module
from simsys.errors import ConfigError
from simsys.sweeps.plan import SEED
from simsys.sweeps.points import changes, points_of
from tests.helpers.places import ROOT
from tests.helpers.sweeps import BASE, SERVING, plan

GRID = {"parallelism.tp_degree": "1..8 x2", "parallelism.pp_stages": [1, 2, 3]}


def values(tmp_path: Path, sweep: dict[str, Any], base: Any = BASE) -> list[tuple[Any, ...]]:
    return [point.values for point in points_of(plan(tmp_path, sweep, base))]


def test_conditions_leave_points_out(tmp_path: Path) -> None:
    found = values(tmp_path, {"over": GRID, "where": "tp_degree * pp_stages <= num_gpus"})
    assert found == [(t, p) for t in (1, 2, 4, 8) for p in (1, 2, 3) if t * p <= 8]


def test_the_number_of_gpus_follows_settings_that_vary(tmp_path: Path) -> None:
    sweep = {"over": {"hardware.num_nodes": [1, 2], "parallelism.tp_degree": [4, 8]}, "where": "tp_degree <= num_gpus"}
    assert values(tmp_path, sweep) == [(1, 4), (2, 4), (2, 8)]
    profiles = {"over": {"hardware": [{"profile": "dgx-h100"}, {"gpu": "H100-SXM"}]}, "where": "num_gpus == 8"}
    assert values(tmp_path, profiles) == [({"profile": "dgx-h100"},)]


def test_a_quantity_in_a_condition_is_in_base_units(tmp_path: Path) -> None:
    sweep = {"over": {"workload.arrivals.rate": "1..8 x2 req/s", "slo.ttft": ["100 ms", "1 s"]}, "where": "ttft < 0.5"}
    assert {value[1] for value in values(tmp_path, sweep, SERVING)} == {"100 ms"}


@pytest.mark.parametrize(
    ("where", "text"),
    [
        ("tp_degre <= 4", "unknown setting 'tp_degre', did you mean 'tp_degree'"),
        ("dp_degree <= 4", "parallelism.dp_degree has no value"),
        ("tp_degree <= 'x'", "cannot be evaluated"),
        ("tp_degree > 1000", "no point meets the conditions: all 12 are left out"),
        ("enabled == 1", "unknown setting|may be"),
    ],
)
def test_a_condition_that_cannot_hold_is_refused_at_its_place(tmp_path: Path, where: str, text: str) -> None:
    with pytest.raises(ConfigError, match=text) as caught:
        values(tmp_path, {"over": GRID, "where": where})
    assert caught.value.problems[0].line


def test_repeats_have_consecutive_seeds(tmp_path: Path) -> None:
    sweep = {"over": {"parallelism.tp_degree": [1, 2]}, "repeats": 3}
    found = plan(tmp_path, sweep, {**BASE, "simulation": {"seed": 7}})
    points = points_of(found)
    assert [point.seed for point in points] == [7, 8, 9, 7, 8, 9]
    assert len({point.key for point in points}) == 6
    assert changes(found, points[1]) == {"parallelism.tp_degree": 1, SEED: 8}


def test_a_key_depends_on_settings_alone_not_on_their_order_or_on_names(tmp_path: Path) -> None:
    first = points_of(plan(tmp_path, {"over": {"parallelism.tp_degree": [1, 2]}}))
    turned = points_of(plan(tmp_path, {"over": {"parallelism.tp_degree": [2, 1]}}, {"name": "other", **BASE}))
    assert [point.key for point in first] == [point.key for point in reversed(turned)]


def test_a_key_changes_with_the_version(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    sweep = {"over": {"parallelism.tp_degree": [1]}}
    before = points_of(plan(tmp_path, sweep))[0].key
    monkeypatch.setattr(module, "__version__", "0.0.0")
    assert points_of(plan(tmp_path, sweep))[0].key != before


def test_a_key_changes_with_a_profile_or_a_file_that_the_scenario_names(tmp_path: Path) -> None:
    folder = tmp_path / "hardware_profiles" / "gpus"
    folder.mkdir(parents=True)
    shutil.copy(ROOT / "hardware_profiles" / "gpus" / "H100-SXM.yaml", folder)
    sweep = {"over": {"workload.num_requests": [5]}}
    trace = tmp_path / "trace.csv"
    trace.write_text("arrival_s,prompt_tokens,output_tokens\n0,10,10\n", encoding="utf-8")
    base = {**SERVING, "workload": {"trace": "trace.csv"}}
    keys = [points_of(plan(tmp_path, sweep, base))[0].key]
    with (folder / "H100-SXM.yaml").open("a", encoding="utf-8") as file:
        file.write("\n# changed\n")
    keys.append(points_of(plan(tmp_path, sweep, base))[0].key)
    trace.write_text("arrival_s,prompt_tokens,output_tokens\n0,11,10\n", encoding="utf-8")
    keys.append(points_of(plan(tmp_path, sweep, base))[0].key)
    assert len(set(keys)) == 3
