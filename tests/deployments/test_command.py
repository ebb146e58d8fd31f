"""`simsys emit`: files on disk or on the screen, from experiments and results, and its errors."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import yaml
from click.testing import CliRunner, Result

from simsys.cli import cli
from simsys.deployments import target_names

SERVING: dict[str, Any] = {
    "hardware": {"gpu": "H100-SXM"},
    "model": {"name": "Llama3-8B"},
    "serving": {"max_num_seqs": 32},
    "workload": {
        "arrivals": {"kind": "poisson", "rate": "6 req/s"},
        "prompt_tokens": 100,
        "output_tokens": 20,
        "num_requests": 20,
    },
}


@pytest.fixture(autouse=True)
def in_an_empty_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def run(*arguments: str) -> Result:
    return CliRunner().invoke(cli, list(arguments))


def experiment(**changes: Any) -> str:
    Path("x.yaml").write_text(yaml.safe_dump({"name": "chat", **SERVING, **changes}))
    return "x.yaml"


def test_files_are_printed() -> None:
    found = run("emit", experiment(), "--for", "vllm")
    assert found.exit_code == 0, found.stderr
    assert "--- chat, vllm: serve.sh" in found.stdout
    assert "  --max-num-seqs 32" in found.stdout
    assert list(Path().iterdir()) == [Path("x.yaml")]


def test_each_scenario_and_target_has_a_folder() -> None:
    scenarios = [{"name": "a"}, {"name": "b", "serving": {"max_num_seqs": 8}}]
    Path("x.yaml").write_text(yaml.safe_dump({"defaults": SERVING, "scenarios": scenarios}))
    found = run("emit", "x.yaml", "--for", "vllm", "--out", "out")
    assert found.exit_code == 0, found.stderr
    written = sorted(str(path) for path in Path("out").rglob("*") if path.is_file())
    assert written == ["out/a/vllm/serve.sh", "out/a/vllm/vllm.yaml", "out/b/vllm/serve.sh", "out/b/vllm/vllm.yaml"]
    assert yaml.safe_load(Path("out/b/vllm/vllm.yaml").read_text())["max-num-seqs"] == 8
    assert run("emit", "x.yaml", "--for", "vllm", "--scenario", "b").stdout.count("--- ") == 2


def test_a_folder_of_results_is_a_scenario() -> None:
    assert run("run", experiment(), "--out", "results", "--quiet").exit_code == 0
    of_result = run("emit", "results/chat", "--for", "vllm")
    assert of_result.exit_code == 0, of_result.stderr
    assert of_result.stdout == run("emit", "x.yaml", "--for", "vllm").stdout
    none = run("emit", "results", "--for", "vllm")
    assert none.exit_code == 2
    assert "here there are none" in none.stderr


def test_json_has_the_files() -> None:
    found = run("emit", experiment(), "--for", "vllm", "--json", "--out", "out")
    (emitted,) = json.loads(found.stdout)["emitted"]
    assert emitted["scenario"] == "chat"
    assert emitted["paths"] == ["out/chat/vllm/serve.sh", "out/chat/vllm/vllm.yaml"]
    assert emitted["files"][0]["text"] == Path("out/chat/vllm/serve.sh").read_text()


def test_settings_without_an_option_are_named_at_their_lines_and_nothing_is_written() -> None:
    text = yaml.safe_dump({"name": "chat", **SERVING, "serving": {"preemption": "swap", "precision": "int4"}})
    Path("x.yaml").write_text(text)
    found = run("emit", "x.yaml", "--for", "vllm", "--out", "out")
    assert found.exit_code == 2
    for key in ("preemption", "precision"):
        line = next(number for number, each in enumerate(text.splitlines(), 1) if f"{key}:" in each)
        assert f"x.yaml:{line}:" in found.stderr
        assert f"serving.{key}: vLLM 0.22" in found.stderr
    assert not Path("out").exists()


def test_a_scenario_that_does_not_pass_the_check_is_refused() -> None:
    found = run("emit", experiment(model={"name": "Llama3-70B"}), "--for", "vllm")
    assert found.exit_code == 3
    assert "x.yaml" in found.stderr


def test_unknown_targets_and_releases_are_refused() -> None:
    unknown = run("emit", experiment(), "--for", "vlm")
    assert unknown.exit_code == 2
    assert "unknown target 'vlm', did you mean 'vllm'?" in unknown.stderr
    other = run("emit", "x.yaml", "--for", "vllm", "--release", "0.6")
    assert other.exit_code == 2
    assert "was written for vLLM 0.22, not for 0.6" in other.stderr
    assert run("emit", "x.yaml").exit_code == 2


def test_documentation_lists_every_target() -> None:
    text = (Path(__file__).parents[2] / "docs" / "how-to" / "emit.md").read_text(encoding="utf-8")
    for name in target_names():
        assert f"`{name}`" in text
