"""The page of runs."""

from __future__ import annotations

from dataclasses import replace
from hashlib import sha256
from pathlib import Path

import pytest

from simsys.config.experiment import SimulationConfig
from simsys.contents.run import read_run
from simsys.errors import UsageError
from simsys.html.blocks import Block, Figures, Page, Picture, Table
from simsys.html.page import render
from simsys.html.run import run_page
from simsys.html.sources import page_of_paths
from simsys.report.export import write_results
from simsys.report.metric_text import name_of, value_of
from simsys.simulation import simulate

SERVING = {
    "hardware": {"gpu": "A100"},
    "model": {"name": "Llama-2-7B"},
    "serving": {"engine": "vllm"},
    "workload": {
        "arrivals": {"kind": "poisson", "rate": "4 req/s"},
        "prompt_tokens": 200,
        "output_tokens": 20,
        "num_requests": 100,
    },
    "slo": {"ttft": "400 ms"},
}
TRAINING = {
    "hardware": {"profile": "dgx-a100", "gpus_per_node": 2},
    "model": {"name": "GPT2-Small"},
    "parallelism": {"strategy": "DDP"},
    "training": {"batch_size_per_gpu": 2, "num_iterations": 3},
}


@pytest.fixture(scope="module")
def folders(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    place = tmp_path_factory.mktemp("results")
    for name, given in {"serve": SERVING, "train": TRAINING}.items():
        config = SimulationConfig.model_validate({**given, "name": name})
        write_results(config, simulate(config), place)
    return {name: place / name for name in ("serve", "train")}


def blocks(page: Page, heading: str) -> list[Block]:
    return [block for section in page.sections if section.heading == heading for block in section.blocks]


def test_a_serving_run_shows_its_answer(folders: dict[str, Path]) -> None:
    run = read_run(folders["serve"])
    page = run_page([run])
    figures = next(block for block in blocks(page, "Headline") if isinstance(block, Figures)).figures
    shown = {figure.label: figure for figure in figures}
    assert shown["p50 TTFT"].value == value_of("p50_ttft_ms", run.metrics["p50_ttft_ms"])
    assert shown["p50 TPOT"].note.startswith("expected error")
    captions = [block.caption for block in blocks(page, "Where the time goes") if isinstance(block, Picture)]
    assert [text for text in captions if text.startswith("Distribution of TTFT")]
    tables = {block.caption: block for block in blocks(page, "Tables") if isinstance(block, Table)}
    assert len(tables["requests"].rows) == 100
    assert tables["requests"].data
    text = render(page)
    assert "SLO" in text
    assert f"simsys run {folders['serve'] / 'serve_config.yaml'}" in text


def test_a_training_run_shows_where_an_iteration_goes(folders: dict[str, Path]) -> None:
    page = run_page([read_run(folders["train"])])
    text = render(page)
    captions = [block.caption for block in blocks(page, "Where the time goes") if isinstance(block, Picture)]
    assert captions[0].startswith("Time of an iteration by cause")
    assert "stage 0, rank 0, compute" in text
    losses = next(block for block in blocks(page, "Bottlenecks") if isinstance(block, Table))
    assert len(losses.rows) == 3


def test_several_runs_share_a_page(folders: dict[str, Path]) -> None:
    page = run_page([read_run(folder) for folder in folders.values()])
    tables = [block for block in blocks(page, "Runs") if isinstance(block, Table)]
    assert [table.caption for table in tables] == ["Headline metrics: training", "Headline metrics: serving"]
    assert {"serve", "train"} <= {section.heading for section in page.sections}


def test_warnings_come_first(folders: dict[str, Path]) -> None:
    run = read_run(folders["serve"])
    doubtful = type(run)({**run.result, "warnings": ["doubt"]}, run.findings, run.tables)
    assert list(run_page([doubtful]).warnings) == ["doubt"]
    text = render(run_page([doubtful]))
    assert text.index("doubt") < text.index("<main")


def test_numbers_of_a_table_are_numbers(folders: dict[str, Path]) -> None:
    requests = read_run(folders["serve"]).tables["requests"]
    assert all(isinstance(value, float) for value in requests["arrival_s"])
    assert all(isinstance(value, int) for value in requests["prompt_tokens"])
    assert set(requests["state"]) == {"completed"}


def test_a_folder_without_its_optional_files_has_a_page(folders: dict[str, Path], tmp_path: Path) -> None:
    (tmp_path / "r_results.json").write_bytes((folders["train"] / "train_results.json").read_bytes())
    assert "All metrics" in render(run_page([read_run(tmp_path)]))


@pytest.mark.parametrize(
    ("name", "text", "message"),
    [
        ("r_ranks.csv", "a,b\n1\n", "different numbers of cells"),
        ("r_bottlenecks.json", "[]", "not a file of bottlenecks"),
        ("r_bottlenecks.json", "{", "JSON"),
    ],
)
def test_damaged_files_are_refused(
    folders: dict[str, Path], tmp_path: Path, name: str, text: str, message: str
) -> None:
    (tmp_path / "r_results.json").write_bytes((folders["train"] / "train_results.json").read_bytes())
    (tmp_path / name).write_text(text)
    with pytest.raises(UsageError, match=message):
        read_run(tmp_path)


def test_a_page_says_what_it_costs_and_what_it_depends_on(folders: dict[str, Path]) -> None:
    run = read_run(folders["serve"])
    page = run_page([run])
    costs = next(block for block in blocks(page, "What it costs") if isinstance(block, Figures)).figures
    assert {"USD per hour", "USD per million tokens", "energy per token"} <= {figure.label for figure in costs}
    tables = {block.caption: block for block in blocks(page, "How to repeat it") if isinstance(block, Table)}
    digests = dict(map(tuple, tables["Digests of what the figures depend on"].rows))
    assert digests["configuration"] == sha256(run.settings.encode()).hexdigest()
    assert digests.items() >= run.result["profiles"].items()
    assert dict(map(tuple, tables["Versions"].rows))["simsys that simulated"] == run.result["simsys_version"]


def test_every_headline_figure_has_its_expected_error(folders: dict[str, Path]) -> None:
    for folder in folders.values():
        page = run_page([read_run(folder)])
        figures = next(block for block in blocks(page, "Headline") if isinstance(block, Figures))
        notes = {figure.label: figure.note for figure in figures.figures}
        assert notes.pop("memory of the fullest GPU").startswith("of ")
        assert all(note.startswith("expected error") for note in notes.values())


def test_an_analyzed_run_has_simulated_remedies(folders: dict[str, Path]) -> None:
    page = page_of_paths([folders["serve"]], analyze=True)
    captions = [block.caption for block in blocks(page, "Bottlenecks") if isinstance(block, Table)]
    assert captions[:2] == ["Largest losses", "Losses by resource"]
    assert captions[2].startswith("Remedies, each simulated")


def test_ten_thousand_requests_are_a_page_to_send(folders: dict[str, Path]) -> None:
    run = read_run(folders["serve"])
    many = {**run.tables, "requests": {name: [*column] * 100 for name, column in run.tables["requests"].items()}}
    text = render(run_page([replace(run, tables=many)]))
    assert "10,000 rows" in text
    assert len(text.encode()) < 1_500_000


def test_names_and_values() -> None:
    assert name_of("p99_ttft_ms") == "p99 TTFT"
    assert name_of("served_requests_per_s") == "served requests per s"
    assert value_of("mfu", 0.5) == "50.0 %"
    assert value_of("mean_iteration_s", None) == "–"
