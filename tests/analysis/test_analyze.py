"""Five planted bottlenecks are named first, at their place, and the first remedy removes them."""

from __future__ import annotations

import json
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from simsys.analysis.analyze import Analysis, analyze
from simsys.config.experiment import SimulationConfig
from simsys.errors import UsageError
from simsys.report.export import write_results
from simsys.simulation import simulate
from tests.helpers.planted import planted

EXPECTED: dict[str, tuple[str, str, str, dict[str, Any]]] = {
    "slow-link": ("network", "exposed data communication", "from port 0 of node 1", {"network.degradations": []}),
    "small-cache": ("kv_capacity", "queueing", "the cache of 250 blocks", {"serving.num_gpu_blocks_override": None}),
    "tiny-batch": ("compute", "kernel inefficiency", "", {"training.batch_size_per_gpu": 16}),
    "tiny-serving-batch": ("queueing", "queueing", "batches are at max_num_seqs (2)", {"serving.max_num_seqs": 64}),
    "slow-gpu": ("compute", "waiting for other ranks", "GPU 3 (node 0) at 40 % speed", {"hardware.exceptions": []}),
    "long-pipeline": ("bubble", "bubble", "the pipeline dimension", {}),
}


@cache
def analyzed(name: str) -> Analysis:
    (found,) = analyze(planted(name))
    return found


@pytest.mark.parametrize("name", EXPECTED)
def test_a_planted_bottleneck_is_named_first_and_the_first_remedy_removes_it(name: str) -> None:
    kind, loss, place, settings = EXPECTED[name]
    analysis = analyzed(name)
    first, remedy = analysis.findings[0], analysis.remedies[0]
    assert first.kind == kind
    assert first.level == "bound"
    assert first.losses[0].name == analysis.losses[0].name == loss
    assert place in first.place
    assert settings.items() <= remedy.settings.items()
    assert remedy.removes
    again = analyze(planted(name).with_(remedy.settings), simulations=0)[0]
    lost = {each.name: each.share for each in again.losses}
    assert lost.get(loss, 0.0) / (1.0 + remedy.gain) <= first.losses[0].share / 2


def test_the_gain_is_that_of_the_changed_scenario() -> None:
    analysis = analyzed("slow-gpu")
    before = simulate(planted("slow-gpu")).metrics
    for remedy in analysis.remedies[:3]:
        after = simulate(planted("slow-gpu").with_(remedy.settings)).metrics
        assert after["samples_per_s"] / before["samples_per_s"] - 1 == pytest.approx(remedy.gain)
        ratio = after["usd_per_million_tokens"] / before["usd_per_million_tokens"]
        assert remedy.usd_ratio == pytest.approx(ratio)


def test_the_three_largest_losses_are_always_there_and_all_resources() -> None:
    analysis = analyze(planted("tiny-batch"), simulations=0)[0]
    assert len(analyzed("slow-link").losses) == 3
    assert {each.kind for each in analysis.findings} == {"compute", "memory", "network", "bubble", "host"}
    assert analysis.remedies == []
    assert analysis.notes == ["no remedies were simulated (--simulations 0)"]


def test_few_simulations_leave_settings_out_and_say_so() -> None:
    analysis = analyze(planted("slow-gpu"), simulations=3)[0]
    assert analysis.simulated == 3
    assert "were not simulated" in analysis.notes[0]
    assert "were not simulated" in analyze(planted("slow-gpu"), limit_s=0.001)[0].notes[0]


def test_jobs_that_share_a_cluster_are_named_and_have_no_remedies() -> None:
    config = SimulationConfig(
        hardware={"profile": "dgx-h100", "num_nodes": 2},
        model={"name": "GPT2-Small"},
        training={"batch_size_per_gpu": 2, "num_iterations": 1},
        jobs=[{"name": "a", "gpus": 8}, {"name": "b", "gpus": 8}],
    )
    (found,) = analyze(config)
    assert {each.job for each in found.findings} == {"a", "b"}
    assert found.remedies == ()
    assert "not for jobs" in found.notes[0]


def folder_of(tmp_path: Path, name: str = "tiny-batch") -> Path:
    config = planted(name)
    write_results(config, simulate(config), tmp_path)
    return tmp_path / name


def test_results_are_analyzed_as_their_scenario(tmp_path: Path) -> None:
    found = analyze(folder_of(tmp_path), simulations=0)[0]
    assert [each.as_dict() for each in found.findings] == [
        each.as_dict() for each in analyze(planted("tiny-batch"), simulations=0)[0].findings
    ]
    assert found.notes == ["no remedies were simulated (--simulations 0)"]


def test_other_figures_than_the_results_are_noted(tmp_path: Path) -> None:
    file = folder_of(tmp_path) / "tiny-batch_results.json"
    content = json.loads(file.read_text())
    content["metrics"]["mean_iteration_s"] *= 2
    file.write_text(json.dumps(content))
    assert "mean_iteration_s was" in analyze(file.parent, simulations=0)[0].notes[0]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda folder: (folder / "tiny-batch_config.yaml").unlink(), "tiny-batch_config.yaml is missing"),
        (lambda folder: (folder / "tiny-batch_results.json").unlink(), "no results of simsys run"),
        (lambda folder: (folder / "tiny-batch_results.json").write_text("{}"), "no schema_version"),
        (lambda folder: (folder / "tiny-batch_results.json").write_text("{"), "tiny-batch_results.json"),
        (
            lambda folder: (folder / "tiny-batch_results.json").write_text('{"schema_version": 99}'),
            "format 99 of results",
        ),
    ],
    ids=["no scenario", "no results", "not ours", "damaged", "newer"],
)
def test_results_that_are_incomplete_newer_or_not_ours_are_refused(tmp_path: Path, change: Any, message: str) -> None:
    folder = folder_of(tmp_path)
    change(folder)
    with pytest.raises(UsageError, match=message):
        analyze(folder)


def test_a_measurement_has_no_remedies(tmp_path: Path) -> None:
    file = folder_of(tmp_path, "small-cache") / "small-cache_serving.json"
    with pytest.raises(UsageError, match="a result of simsys run; give its folder"):
        analyze(file)
    content = {**json.loads(file.read_text()), "backend": "vllm", "endpoint_type": "vllm"}
    (tmp_path / "measured.json").write_text(json.dumps(content))
    with pytest.raises(UsageError, match="has no scenario"):
        analyze(tmp_path / "measured.json")


def test_it_is_data_for_json() -> None:
    data = json.loads(json.dumps(analyzed("slow-link").as_dict(), allow_nan=False))
    first = data["findings"][0]
    assert first["evidence"]["bytes_per_s"] == pytest.approx(first["evidence"]["usual_bytes_per_s"] * 0.02)
    assert data["remedies"][0]["removes"] is True
