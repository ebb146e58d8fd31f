"""From paths to pages."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import CliRunner

from simsys.cli import cli
from simsys.config.experiment import SimulationConfig
from simsys.errors import UsageError
from simsys.html.blocks import Page, Picture, Table
from simsys.html.page import render
from simsys.html.sources import page_of_paths as page_of
from simsys.report.export import write_results
from simsys.simulation import simulate
from simsys.sweeps.api import sweep

DOCS = Path(__file__).parents[2] / "docs" / "explanation"
CONFIG = {
    "hardware": {"gpu": "H100-SXM"},
    "model": {"name": "GPT2-Small"},
    "training": {"batch_size_per_gpu": 8, "num_iterations": 2},
}
SEARCH = {
    "name": "s",
    "goal": {"metric": "mean_iteration_s", "direction": "minimize"},
    "best": [
        {"settings": {"parallelism.tp_degree": 1, "x": 1}, "metrics": {"mean_iteration_s": 2.0}, "group": 1},
        {"settings": {"parallelism.tp_degree": 2, "x": 1}, "metrics": {"mean_iteration_s": 3.0}, "group": 2},
    ],
    "considered": 10,
    "pruned": 8,
    "simulated": 2,
    "reasons": {"does not fit": 3, "the bound is worse": 5},
    "stages": ["stage 1"],
    "expected_loss": {"loss": 0.04, "sets": 7, "rows": 50},
    "notes": ["a doubt"],
    "fixed": {},
}
VALIDATION = {
    "validation": {
        "training": {
            "rows": 2,
            "predicted": 2,
            "median_error": 0.1,
            "by_gpu": {"A100": {"rows": 1, "median_error": 0.1}, "H100": {"rows": 1, "median_error": 0.2}},
        },
        "warnings": ["a doubt"],
    },
}


def tables(page: Page) -> dict[str, Table]:
    found = [block for section in page.sections for block in section.blocks]
    return {block.caption: block for block in found if isinstance(block, Table)}


@pytest.fixture(scope="module")
def results(tmp_path_factory: pytest.TempPathFactory) -> Path:
    place = tmp_path_factory.mktemp("results")
    for name, batch in (("one", 8), ("two", 16)):
        given = {**CONFIG, "name": name, "training": {"batch_size_per_gpu": batch, "num_iterations": 2}}
        config = SimulationConfig.model_validate(given)
        write_results(config, simulate(config), place)
    return place


def as_file(tmp_path: Path, data: object) -> Path:
    path = tmp_path / "printed.json"
    path.write_text(json.dumps(data))
    return path


def test_a_folder_of_folders_is_all_its_runs(results: Path) -> None:
    assert page_of([results]).title == "2 runs"
    assert page_of([results / "one"]).title == "one"


def test_a_sweep(tmp_path: Path) -> None:
    config = SimulationConfig.model_validate(CONFIG)
    sweep(config, {"training.batch_size_per_gpu": [4, 8, 16]}, folder=tmp_path / "s", jobs=1)
    page = page_of([tmp_path / "s"])
    assert page.headline == "3 points: 3 ok"
    assert [row[0] for row in tables(page)["Points"].rows] == [4, 8, 16]
    pictures = [block for section in page.sections for block in section.blocks if isinstance(block, Picture)]
    assert any("mean iteration by training.batch_size_per_gpu" in picture.caption for picture in pictures)
    render(page)


def test_a_comparison(results: Path, tmp_path: Path) -> None:
    printed = CliRunner().invoke(cli, ["compare", str(results / "one"), str(results / "two"), "--json"])
    (tmp_path / "c.json").write_text(printed.stdout)
    page = page_of([tmp_path / "c.json"])
    rows = {row[0]: row for row in tables(page)["Ratios"].rows}
    assert rows["mean_iteration_s"][4] == pytest.approx(rows["mean_iteration_s"][3] / rows["mean_iteration_s"][2])
    render(page)


def test_a_search(tmp_path: Path) -> None:
    page = page_of([as_file(tmp_path, SEARCH)])
    assert page.warnings == ["a doubt"]
    best = next(table for caption, table in tables(page).items() if caption.startswith("Best"))
    assert list(best.columns) == ["rank", "group", "parallelism.tp_degree", "mean_iteration_s"]
    assert tables(page)["Candidates by reason"].rows[0] == ["the bound is worse", 5]
    assert "n = 7 measured choices" in render(page)


def test_levels_of_detail() -> None:
    page = page_of([DOCS / "level-of-detail.json"])
    assert "a-1-gpu" in {row[0] for row in tables(page)["Medium against high"].rows}
    render(page)


def test_a_validation(tmp_path: Path) -> None:
    page = page_of([as_file(tmp_path, VALIDATION)])
    assert page.headline == "training: 2 of 2 rows, median error 10.0 %"
    assert [row[0] for row in tables(page)["by gpu"].rows] == ["A100", "H100"]
    render(page)


def test_an_analysis(tmp_path: Path) -> None:
    remedy = {"kind": "compute", "settings": {"serving.precision": "fp8"}, "gain": 0.5, "lost_before": 0.4}
    remedy |= {"lost_after": 0.1, "usd_ratio": 0.7, "gpus": 0, "note": ""}
    finding = {"kind": "kv_capacity", "severity": 0.4, "level": "high", "place": "rank 0", "text": "", "job": ""}
    found = {"name": "a", "findings": [finding], "remedies": [remedy], "simulated": 3, "notes": ["a doubt"]}
    page = page_of([as_file(tmp_path, {"analyses": [found]})])
    assert page.headline == "KV capacity takes 40.0 % of the time; serving.precision: fp8 gains 50.0 %"
    assert tables(page)["Remedies, each simulated (best of 3)"].rows[0][:3] == [1, "serving.precision: fp8", 0.5]
    assert "a doubt" in render(page)
    several = page_of([as_file(tmp_path, {"analyses": [found, {**found, "remedies": [], "findings": []}]})])
    assert "None of 3 simulated settings helps." in render(several)


def test_other_results_are_not_analyzed(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="remedies are simulated for folders of runs"):
        page_of([as_file(tmp_path, SEARCH)], analyze=True)


def test_a_scaling_study(tmp_path: Path) -> None:
    rows = {
        "nodes": [1, 2, 4],
        "gpus": [8, 16, 32],
        "samples_per_s": [1.0, 1.9, None],
        "efficiency": [1.0, 0.95, None],
    }
    study = {
        "mode": "weak",
        "rows": {**rows, "problem": ["", "", "too large"]},
        "base_nodes": 1,
        "breakdown_nodes": None,
    }
    found = {"schema_version": 1, "kind": "scaling", "name": "s", "studies": [study]}
    for data in (found, {"scenarios": [found]}):
        page = page_of([as_file(tmp_path, data)])
        assert page.headline == "weak scaling"
        assert page.warnings == ["weak scaling, 4 nodes: too large"]
        assert [len(row) for row in tables(page)["Sizes"].rows] == [5, 5, 5]
        render(page)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("{", "JSON"),
        ("[]", "not what one of these commands prints"),
        ('{"best": [], "considered": 1}', "incomplete or of another version"),
        ('{"comparison": 3}', "incomplete or of another version"),
        ('{"schema_version": 2, "comparison": {}}', "format 2 of the output of simsys compare; this is 1"),
    ],
)
def test_other_files_are_refused(tmp_path: Path, text: str, message: str) -> None:
    (tmp_path / "a.json").write_text(text)
    with pytest.raises(UsageError, match=message):
        page_of([tmp_path / "a.json"])


def test_unlike_things_do_not_share_a_page(results: Path, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="only folders of runs share a page"):
        page_of([results / "one", as_file(tmp_path, SEARCH)])


def test_the_command_writes_the_file_and_says_what_is_wrong(results: Path, tmp_path: Path) -> None:
    ran = CliRunner().invoke(cli, ["report", str(results), "--out", str(tmp_path / "r.html")])
    assert (ran.exit_code, ran.stdout.strip()) == (0, str(tmp_path / "r.html"))
    assert (tmp_path / "r.html").stat().st_size > 10_000
    for wrong in (tmp_path / "nothing", tmp_path):
        assert CliRunner().invoke(cli, ["report", str(wrong)]).exit_code == 2
