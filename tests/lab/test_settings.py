"""What the lab refuses of a scenario, all at once; no PyTorch is needed for that."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from simsys.errors import ConfigError, UsageError
from simsys.lab.scenario import lab_job, threads_of
from simsys.lab.settings import settings_of
from tests.helpers.lab_runs import scenario, written


def refused(folder: Path, content: dict[str, Any]) -> str:
    with pytest.raises(ConfigError) as caught:
        settings_of(lab_job(written(folder, content)))
    return str(caught.value)


def test_a_scenario_that_the_lab_carries_out(tmp_path: Path) -> None:
    job = lab_job(written(tmp_path, scenario("FSDP")))
    settings = settings_of(job)
    assert (settings.strategy, settings.batch_size, settings.micro_batches) == ("fsdp", 2, 2)
    assert settings.options["reshard_after_forward"] is True
    assert threads_of(settings.lab, 2) == 1


def test_one_rank_needs_no_strategy(tmp_path: Path) -> None:
    assert settings_of(lab_job(written(tmp_path, scenario("DDP", 1)))).strategy == "none"


def test_what_cannot_be_carried_out(tmp_path: Path) -> None:
    text = refused(tmp_path, scenario("ZERO2"))
    assert "the lab has None, DDP, ZERO1 and FSDP" in text
    content = scenario("FSDP", training={"options": {"offload": "none"}, "attention": "eager"})
    text = refused(tmp_path, content)
    assert "training.options.offload" in text
    assert "training.attention" in text


def test_tensor_parallelism(tmp_path: Path) -> None:
    content = {**scenario("TP"), "parallelism": {"strategy": "TP", "tp_degree": 2}}
    assert "data parallelism only" in refused(tmp_path, content)


def test_text_needs_a_file(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="kind: text needs a file"):
        lab_job(written(tmp_path, scenario("DDP", lab={"data": {"kind": "text"}})))


def test_serving_is_no_training(tmp_path: Path) -> None:
    content = scenario("DDP")
    load = {"arrivals": {"kind": "poisson", "rate": "1 req/s"}, "prompt_tokens": 8, "output_tokens": 8}
    serving = {key: value for key, value in content.items() if key not in ("training", "lab")}
    serving |= {"serving": {"engine": "vllm"}, "workload": {**load, "num_requests": 2}, "parallelism": {}}
    with pytest.raises(UsageError, match="training scenarios"):
        lab_job(written(tmp_path, serving))
