"""What users name, and what is refused before anything runs."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from simsys import SimulationConfig
from simsys.comparisons.sources import read_sides
from simsys.errors import ConfigError, InfeasibleError, UnknownNameError, UsageError
from tests.helpers.compare_toys import BENCH, SERVING, TRAINING, written


def test_a_file_of_several_scenarios_is_several_sides(tmp_path: Path) -> None:
    file = written(tmp_path / "a.yaml", TRAINING)
    assert [side.label for side in read_sides([file])] == ["ddp", "half"]
    assert [side.label for side in read_sides([f"{file}:half", f"{file}:ddp"])] == ["half", "ddp"]


def test_a_measurement_a_scenario_and_a_config_are_sides(tmp_path: Path) -> None:
    file, bench = written(tmp_path / "a.yaml", SERVING), written(tmp_path / "bench.json", BENCH)
    config = SimulationConfig.model_validate({**SERVING, "name": "python"})
    sides = read_sides([bench, file, config])
    assert [(side.label, side.given) for side in sides] == [
        ("bench.json", "measurement"),
        ("chat", "scenario"),
        ("python", "scenario"),
    ]


def test_equal_names_become_places_then_numbers(tmp_path: Path) -> None:
    (tmp_path / "x").mkdir()
    one, other = (written(tmp_path / name, SERVING) for name in ("a.yaml", "x/a.yaml"))
    assert [side.label for side in read_sides([one, other])] == [f"{one}:chat", f"{other}:chat"]
    assert [side.label for side in read_sides([one, one])] == [f"{one}:chat #1", f"{one}:chat #2"]


def test_an_experiment_may_be_json(tmp_path: Path) -> None:
    assert len(read_sides([written(tmp_path / "a.json", TRAINING)])) == 2


@pytest.mark.parametrize(
    ("names", "message"),
    [
        (["missing.yaml", "a.yaml"], "missing.yaml: no such file or folder; give FILE, FILE:SCENARIO, a folder"),
        (["missing.yaml:x", "a.yaml"], "missing.yaml: no such file or folder"),
        (["chat.yaml"], "a comparison needs at least two"),
        (["a.yaml", "chat.yaml"], "only results of one kind can be compared: ddp is training, chat is serving"),
        (["a.yaml", "bench.json"], "only results of one kind can be compared: ddp is training, bench.json is serving"),
        (["chat.yaml", "list.json"], "list.json:1: no result of vllm bench serve, which is one JSON object"),
        (["chat.yaml", "odd.json"], "a result of vllm bench serve needs completed, a whole number from 1"),
        (["chat.yaml", "broken.json"], "broken.json:1:2: "),
        (["chat.yaml", "empty.json"], "without rates and latencies: nothing to compare"),
    ],
)
def test_what_cannot_be_compared_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, names: list[str], message: str
) -> None:
    monkeypatch.chdir(tmp_path)
    written(tmp_path / "a.yaml", TRAINING)
    written(tmp_path / "chat.yaml", SERVING)
    written(tmp_path / "bench.json", BENCH)
    written(tmp_path / "odd.json", {**BENCH, "completed": "many"})
    written(tmp_path / "empty.json", {key: BENCH[key] for key in list(BENCH)[:3]})
    (tmp_path / "list.json").write_text("[1]", encoding="utf-8")
    (tmp_path / "broken.json").write_text("{", encoding="utf-8")
    with pytest.raises(UsageError) as caught:
        read_sides(names)
    assert message in str(caught.value)


def test_an_unknown_scenario_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UnknownNameError, match="did you mean 'half'"):
        read_sides([written(tmp_path / "a.yaml", TRAINING) + ":hallf"])


@pytest.mark.parametrize("in_python", [False, True])
def test_a_scenario_that_does_not_fit_is_named(tmp_path: Path, in_python: bool) -> None:
    large: dict[str, Any] = {**SERVING, "model": {"name": "Llama3-70B"}}
    source = SimulationConfig.model_validate(large) if in_python else written(tmp_path / "a.yaml", large)
    with pytest.raises(InfeasibleError):
        read_sides([source, source])


def test_all_problems_of_a_file_are_listed(tmp_path: Path) -> None:
    wrong = {**SERVING, "hardware": {"gpu": "H1000"}, "model": {"name": "Llama3-9B"}}
    with pytest.raises(ConfigError) as caught:
        read_sides([written(tmp_path / "a.yaml", wrong)])
    assert len(caught.value.problems) == 2
