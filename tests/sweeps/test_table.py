from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from simsys.errors import UnknownNameError, UsageError
from simsys.sweeps import export
from simsys.sweeps.export import write_table
from simsys.sweeps.run import run_sweep
from simsys.sweeps.statistics import half_width, mean
from simsys.sweeps.store import Store
from simsys.sweeps.table import table_of
from tests.helpers.sweeps import BASE, SERVING, InThisProcess, plan


def store_of(folder: Path, sweep: dict[str, Any], base: Any = BASE) -> Store:
    run_sweep(plan(folder, sweep, base), folder / "out", InThisProcess)
    return Store(folder / "out")


def test_a_row_has_settings_metrics_costs_and_reasons(tmp_path: Path) -> None:
    with store_of(
        tmp_path, {"over": {"parallelism.tp_degree": [1, 7], "training.batch_size_per_gpu": [1, 10**6]}}
    ) as store:
        table = table_of(store)
    assert list(table)[:4] == ["parallelism.tp_degree", "training.batch_size_per_gpu", "state", "fits"]
    assert table["state"] == ["ok", "does not fit", "refused", "refused"]
    assert table["fits"] == [True, False, None, None]
    assert table["num_gpus"] == [8, None, None, None]
    assert table["mean_iteration_s"][0] > 0
    assert table["usd_per_million_tokens"][0] > 0
    assert [bool(text) for text in table["reason"]] == [False, True, True, True]
    assert {len(column) for column in table.values()} == {4}


def test_repeats_are_means_with_confidence_intervals(tmp_path: Path) -> None:
    sweep = {"over": {"workload.arrivals.rate": ["4 req/s", "40 req/s"]}, "repeats": 3}
    with store_of(tmp_path, sweep, SERVING) as store:
        merged, each = table_of(store), table_of(store, each_seed=True)
    assert merged["runs"] == [3, 3]
    assert each["seed"] == [42, 43, 44] * 2
    values = each["p99_ttft_ms"][:3]
    assert len(set(values)) == 3
    assert merged["p99_ttft_ms"][0] == mean(values)
    assert merged["p99_ttft_ms_ci95"][0] == half_width(values)


def test_targets_are_met_by_a_share_of_requests(tmp_path: Path) -> None:
    sweep = {"over": {"slo.ttft": ["1 us", "10 s"]}}
    with store_of(tmp_path, sweep, SERVING) as store:
        assert table_of(store)["meets_slo"] == [False, True]
        median_ms = table_of(store)["p50_ttft_ms"][1]
    for share, met in ((0.4, True), (0.9, False)):
        sweep = {"over": {"slo.ttft": [f"{median_ms} ms"], "slo.attainment": [share]}}
        with store_of(tmp_path / str(share), sweep, SERVING) as store:
            assert table_of(store)["meets_slo"] == [met]


def test_limits_of_statistics_count(tmp_path: Path) -> None:
    sweep = {"over": {"slo.p99_itl": ["1 us", "10 s"]}}
    with store_of(tmp_path, sweep, SERVING) as store:
        assert table_of(store)["meets_slo"] == [False, True]


def test_metrics_are_chosen(tmp_path: Path) -> None:
    sweep = {"over": {"training.num_iterations": [1]}, "metrics": ["bubble_s"]}
    with store_of(tmp_path, sweep) as store:
        assert "bubble_s" in table_of(store)
        assert "mfu" not in table_of(store)
        assert {"bubble_s", "mfu", "compute_s"} <= set(table_of(store, ["all"]))
        with pytest.raises(UnknownNameError, match="did you mean 'bubble_s'"):
            table_of(store, ["bubbles"])


def test_a_point_that_has_not_run_is_missing(tmp_path: Path) -> None:
    with store_of(tmp_path, {"over": {"training.num_iterations": [1, 2]}}) as store:
        folder = store.folder
    with Store(folder, write=True) as store:
        store._base.execute("DELETE FROM rows WHERE key = (SELECT key FROM points WHERE position = 1)")
        assert table_of(store)["state"] == ["ok", "missing"]


def test_parquet_without_pyarrow_says_what_to_install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(__import__("sys").modules, "pyarrow", None)
    with pytest.raises(UsageError, match=r"pip install 'simsys\[parquet\]'"):
        write_table({"a": [1]}, tmp_path / "t.parquet")
    with pytest.raises(UsageError, match=r"ends with .csv or .parquet"):
        write_table({"a": [1]}, tmp_path / "t.xlsx")


def test_parquet_has_the_same_table(tmp_path: Path) -> None:
    parquet = pytest.importorskip("pyarrow.parquet")
    table = {"a": [1, 2.5, None], "b": ["x", 4, None], "c": [True, None, False]}
    write_table(table, tmp_path / "t.parquet")
    found = parquet.read_table(tmp_path / "t.parquet").to_pydict()
    assert found == {"a": [1.0, 2.5, None], "b": ["x", "4", None], "c": [True, None, False]}


def test_columns_of_several_types_become_text() -> None:
    assert export._of_one_type([1, 2.5, None]) == [1.0, 2.5, None]
    assert export._of_one_type(["x", 4]) == ["x", "4"]
    assert export._of_one_type([1, 2]) == [1, 2]
