"""What a result says of itself: in one line to Python, and in JSON which program and profiles it comes from."""

from __future__ import annotations

from pathlib import Path

import pytest

from simsys import DistributedAISimulator, SimulationConfig, __version__
from simsys.metrics.result import RunResult

SERVING = {
    "name": "chat",
    "hardware": {"gpu": "H100-SXM"},
    "model": {"name": "Llama3-8B"},
    "serving": {},
    "workload": {
        "arrivals": {"kind": "poisson", "rate": "20 req/s"},
        "prompt_tokens": 64,
        "output_tokens": 8,
        "num_requests": 300,
    },
}
TRAINING = {
    "name": "gpt",
    "hardware": {"gpu": "A100"},
    "model": {"name": "GPT2-Small"},
    "training": {"batch_size_per_gpu": 1, "num_iterations": 1},
}


def run(scenario: dict[str, object]) -> RunResult:
    return DistributedAISimulator(SimulationConfig(**scenario)).run()


@pytest.mark.parametrize(
    ("scenario", "parts"),
    [
        (SERVING, ("'chat'", "kind=serving", "lod=medium", "served_requests_per_s=", "p50_ttft_ms=")),
        (TRAINING, ("'gpt'", "kind=training", "mean_iteration_s=", "mfu=")),
        ({**TRAINING, "jobs": [{"name": "a"}]}, ("kind=jobs", "jobs=1", "makespan_s=")),
    ],
)
def test_python_prints_a_result_in_a_line(scenario: dict[str, object], parts: tuple[str, ...]) -> None:
    text = repr(run(scenario))
    assert len(text) < 200
    assert "\n" not in text
    assert all(part in text for part in parts)
    assert "warnings" not in text


def test_a_printed_result_says_how_many_warnings_it_has() -> None:
    result = RunResult("r", "training", "medium", "none", {}, {}, warnings=("a", "b"))
    assert repr(result) == "<RunResult 'r' kind=training, lod=medium, warnings=2>"


def test_json_names_the_version_and_the_profiles() -> None:
    found = run(TRAINING).as_dict()
    assert found["simsys_version"] == __version__
    assert set(found["profiles"]) == {"engine pytorch", "fabric infiniband-hdr", "gpu A100-SXM-80GB"}
    assert found["profiles"] == run(TRAINING).as_dict()["profiles"]
    assert set(map(len, found["profiles"].values())) == {12}


def test_another_number_in_a_profile_is_another_digest(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    before = run(TRAINING).profiles
    folder = tmp_path / "hardware_profiles" / "engines"
    folder.mkdir(parents=True)
    (folder / "pytorch.yaml").write_text("extends: vllm\nper_layer: 99 us\nsources: {per_layer: user}\n")
    monkeypatch.setenv("SIMSYS_PATH", str(tmp_path))
    after = run(TRAINING).profiles
    assert after["engine pytorch"] != before["engine pytorch"]
    assert after["gpu A100-SXM-80GB"] == before["gpu A100-SXM-80GB"]
