"""A mistake in one setting hides no other mistake of the same scenario."""

from __future__ import annotations

from pathlib import Path

import pytest

from simsys.check import check_file
from simsys.check.valid_part import salvage
from simsys.errors import ConfigError

SCENARIO = """\
hardware: {profile: dgx-h100}
model: {name: Llama3-7B}
parallelism: {tp_degree: 3}
serving: {scheduler: chunked_prefil, max_num_seqs: 0}
workload: {arrivals: {kind: poisson, rate: 8}, prompt_tokens: 5, output_tokens: 0, num_requests: 10}
"""
FITTING = {
    "hardware": {"gpu": "H100-SXM"},
    "model": {"name": "GPT2-Small"},
    "training": {"batch_size_per_gpu": 8},
}


def places(text: str, folder: Path) -> list[str]:
    file = folder / "e.yaml"
    file.write_text(text, encoding="utf-8")
    with pytest.raises(ConfigError) as caught:
        check_file(file)
    return [f"{problem.line}:{problem.path}" for problem in caught.value.problems]


def test_wrong_values_and_wrong_names_are_reported_together(tmp_path: Path) -> None:
    assert places(SCENARIO, tmp_path) == [
        "2:model.name",
        "3:parallelism.tp_degree",
        "4:serving.scheduler",
        "4:serving.max_num_seqs",
        "5:workload.arrivals.rate",
        "5:workload.output_tokens",
    ]


@pytest.mark.parametrize(
    ("setting", "mistake", "hidden"),
    [
        ("profile: dgx-h100", "profile: 5", "3:parallelism.tp_degree"),
        ("name: Llama3-7B", "nam: Llama3-7B", "3:parallelism.tp_degree"),
        ("tp_degree: 3", "tp_degree: -3", "3:parallelism.dp_degree"),
    ],
)
def test_nothing_is_blamed_on_a_setting_that_was_left_out(
    setting: str, mistake: str, hidden: str, tmp_path: Path
) -> None:
    found = places(SCENARIO.replace(setting, mistake), tmp_path)
    assert hidden not in found
    assert "4:serving.max_num_seqs" in found
    assert len(found) == len(set(found))


def test_what_is_right_is_kept() -> None:
    rest = salvage({**FITTING, "name": "mine", "training": {"batch_size_per_gpu": 8, "num_iterations": -1}})
    assert rest is not None
    config, touched = rest
    assert config.name == "mine"
    assert config.training is not None
    assert config.training.batch_size_per_gpu == 8
    assert touched == {"training"}


def test_a_scenario_that_is_wrong_as_a_whole_cannot_be_salvaged() -> None:
    assert salvage({**FITTING, "serving": {}}) is None
