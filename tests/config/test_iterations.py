"""Mistakes in what is said of iterations: each at its line, with what would be right."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from pydantic import ValidationError

from simsys.check import check_config
from simsys.config.experiment import SimulationConfig
from simsys.config.iterations import TargetConfig
from simsys.config.validation import validate
from simsys.errors import ConfigError
from tests.check.test_check import problems


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "job.yaml"


TEXT = """\
hardware: {gpu: H100, gpus_per_node: 8}
model: {name: GPT2-Medium}
training:
  batch_size_per_gpu: 8
  num_iterations: 100
"""
SCHEDULE = """\
  gradient_accumulation_steps: 4
  batch_schedule:
    - {from_iteration: 0, gradient_accumulation_steps: 8}
    - {from_iteration: 10, gradient_accumulation_steps: 12}
parallelism: {pp_stages: 4, virtual_stages: 2, schedule: interleaved}
"""


def test_all_of_it_together_is_sound(file: Path) -> None:
    between = """\
  checkpoint: {interval: 100, storage_bandwidth: 10 GB/s, asynchronous: true}
  data_loading: {time: 50 ms, prefetch: false}
"""
    assert problems(file, TEXT + between + SCHEDULE) == []


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        (
            "checkpoint: {interval: 0, storage_bandwidth: 10 GB/s}",
            "6:26: training.checkpoint.interval: must be above 0, not 0",
        ),
        (
            "checkpoint: {interval: 101, storage_bandwidth: 10 GB/s}",
            "6:26: training.checkpoint.interval: no checkpoint is ever taken: there are 100 iterations, fewer than",
        ),
        (
            "checkpoint: {interval: 10}",
            "6:3: training.checkpoint: missing required key 'storage_bandwidth'",
        ),
        (
            "checkpoint: {interval: 10, storage_bandwidth: 10 GB}",
            "6:49: training.checkpoint.storage_bandwidth: '10 GB' is a size, a bandwidth is needed, e.g. '900 GB/s'",
        ),
        (
            "checkpoint: {interval: 10, storage_bandwidth: 10}",
            "6:49: training.checkpoint.storage_bandwidth: 10 has no unit; write e.g. '10 GB/s'",
        ),
        (
            "checkpoint: {interval: 10, storage_bandwidth: 0 GB/s}",
            "6:49: training.checkpoint.storage_bandwidth: '0 GB/s' is zero",
        ),
        (
            "checkpoint: {interval: 10, storage_bandwidth: 1 GB/s, asynchron: true}",
            "6:57: training.checkpoint.asynchron: unknown key 'asynchron', did you mean 'asynchronous'?",
        ),
        (
            "checkpoint: {interval: 10, storage_bandwidth: 1 GB/s, asynchronous: often}",
            "6:71: training.checkpoint.asynchronous: true or false is needed, not 'often'",
        ),
        ("data_loading: {time: -5 ms}", "6:24: training.data_loading.time: '-5 ms' is negative; a time cannot be"),
        ("data_loading: {time: 5}", "6:24: training.data_loading.time: 5 has no unit; write e.g. '5 ms'"),
        ("data_loading: {prefetch: true}", "6:3: training.data_loading: missing required key 'time'"),
        (
            "batch_schedule: [{from_iteration: 5, batch_size_per_gpu: 1}, {from_iteration: 5, batch_size_per_gpu: 2}]",
            "6:81: training.batch_schedule[1].from_iteration: must be above 5, where the entry before begins, not 5",
        ),
        (
            "batch_schedule: [{from_iteration: 100, batch_size_per_gpu: 1}]",
            "6:37: training.batch_schedule[0].from_iteration: iteration 100 is never reached: the last of 100 is 99",
        ),
        (
            "batch_schedule: [{from_iteration: -1, batch_size_per_gpu: 1}]",
            "6:37: training.batch_schedule[0].from_iteration: must be at least 0, not -1",
        ),
        (
            "batch_schedule: [{from_iteration: 5}]",
            "6:20: training.batch_schedule[0]: an entry sets gradient_accumulation_steps, batch_size_per_gpu or both",
        ),
        (
            "batch_schedule: [{batch_size_per_gpu: 5}]",
            "6:20: training.batch_schedule[0]: missing required key 'from_iteration'",
        ),
        (
            "batch_schedule: [{from_iteration: 5, batch_size_per_gpu: 0}]",
            "6:60: training.batch_schedule[0].batch_size_per_gpu: must be above 0, not 0",
        ),
        (
            "batch_schedule: [{from_iteration: 5, batch_size_per_gpu: 5000000000}]",
            "6:60: training.batch_schedule[0].batch_size_per_gpu: must be at most 1000000000, not 5000000000",
        ),
        ("batch_schedule: 5", "6:19: training.batch_schedule: a list is needed, not 5"),
    ],
)
def test_mistakes(file: Path, line: str, expected: str) -> None:
    (found,) = problems(file, f"{TEXT}  {line}\n")
    assert found.startswith(expected)


def test_a_phase_that_the_pipeline_schedule_refuses(file: Path) -> None:
    found = problems(file, TEXT + SCHEDULE.replace("12}", "6}"))
    assert found == [
        "9:57: training.batch_schedule[1].gradient_accumulation_steps: interleaving needs micro-batches in multiples "
        "of 4 stages, not 6; gradient_accumulation_steps: 4 or 8 would fit"
    ]


def test_plain_settings_that_never_hold_are_not_held_against_the_schedule(file: Path) -> None:
    text = TEXT + SCHEDULE.replace("  gradient_accumulation_steps: 4\n", "  gradient_accumulation_steps: 3\n")
    assert problems(file, text) == []
    (found,) = problems(file, text.replace("from_iteration: 0", "from_iteration: 1"))
    assert "interleaving needs micro-batches in multiples of 4 stages, not 3" in found
    assert "parallelism.virtual_stages" in found


def test_a_phase_that_does_not_fit_into_memory(file: Path) -> None:
    assert problems(file, TEXT) == []
    (found,) = problems(file, f"{TEXT}  batch_schedule: [{{from_iteration: 9, batch_size_per_gpu: 4000}}]\n")
    assert "are available" in found


def given(**training: Any) -> dict[str, Any]:
    settings = {"batch_size_per_gpu": 1, "num_iterations": 20, **training}
    return {"hardware": {"gpu": "H100"}, "model": {"name": "GPT2-Small"}, "training": settings}


def test_python_gets_the_same_paths() -> None:
    with pytest.raises(ConfigError, match=r"training\.batch_schedule\[0\]\.from_iteration: iteration 20 is never"):
        validate(given(batch_schedule=[{"from_iteration": 20, "batch_size_per_gpu": 2}]), SimulationConfig)
    config = SimulationConfig(
        **given(
            gradient_accumulation_steps=4, batch_schedule=[{"from_iteration": 2, "gradient_accumulation_steps": 5}]
        )
        | {
            "hardware": {"gpu": "H100", "gpus_per_node": 2},
            "parallelism": {"pp_stages": 2, "virtual_stages": 2, "schedule": "interleaved"},
        }
    )
    (problem,) = check_config(config)
    assert problem.path == "training.batch_schedule[0].gradient_accumulation_steps"


@pytest.mark.parametrize(
    ("written", "tokens"), [("15T", 15e12), ("1.5 T", 1.5e12), ("300B", 3e11), ("20 M", 2e7), (".5K", 500), (1e9, 1e9)]
)
def test_tokens_may_be_written_in_thousands_to_trillions(written: str | float, tokens: float) -> None:
    assert TargetConfig(tokens=written).tokens == tokens


@pytest.mark.parametrize("written", ["15 X", "0T", "T", "-1B", "1 TB", "15t"])
def test_other_numbers_of_tokens_are_refused(written: str) -> None:
    with pytest.raises(ValidationError, match="tokens"):
        TargetConfig(tokens=written)
