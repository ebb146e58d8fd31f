"""The error to expect, from predictions of unseen rows to the assumptions of a run."""

from __future__ import annotations

from pathlib import Path

import pytest

from simsys.build.job import build_job
from simsys.config.expected_errors import expected_errors
from simsys.config.experiment import SimulationConfig
from simsys.config.hardware import Named
from simsys.fidelity.case import Case, Prediction
from simsys.fidelity.expected import errors_to_expect
from simsys.report.yaml_text import yaml_text


def rows(metric: str, count: int, error: float, family: str = "training") -> list[Prediction]:
    case = Case("x", family, "g", metric, "s", 1.0)
    return [Prediction(case, 1.0 + error * (index + 1) / count) for index in range(count)]


def read(count: int, gpu: str) -> list[frozenset[Named]]:
    return [frozenset({("gpu", gpu), ("engine", "megatron")})] * count


@pytest.fixture
def known(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    found = errors_to_expect(
        [*rows("iteration_s", 10, 0.2), *rows("tpot_ms", 20, 0.1, "serving"), Prediction(rows("x", 1, 0.0)[0].case)],
        [*read(10, "A100-SXM-80GB"), *read(20, "H100-SXM"), frozenset()],
    )
    folder = tmp_path / "hardware_profiles" / "fits"
    folder.mkdir(parents=True)
    (folder / "expected_errors.yaml").write_text(yaml_text(found))
    monkeypatch.setenv("SIMSYS_PATH", str(tmp_path))


def test_errors_are_told_by_gpu_and_metric() -> None:
    found = errors_to_expect(rows("iteration_s", 10, 0.2), read(10, "A100-SXM-80GB"))
    assert found["training"]["A100-SXM-80GB"]["iteration_s"] == {"rows": 10, "median": 0.11, "nine_of_ten": 0.2}
    assert found["training"]["all"] == found["training"]["A100-SXM-80GB"]


def test_a_few_rows_say_nothing() -> None:
    assert errors_to_expect(rows("iteration_s", 7, 0.2), read(7, "A100-SXM-80GB")) == {}


@pytest.mark.usefixtures("known")
def test_a_run_names_the_error_of_its_gpu_or_says_that_there_is_none() -> None:
    [own] = expected_errors("training", "A100-SXM-80GB")
    assert own.endswith("half within 11%, nine of ten within 20% of 10 measured iterations on A100-SXM-80GB")
    [other] = expected_errors("training", "V100-SXM-32GB")
    assert "on other GPUs, none on V100-SXM-32GB" in other
    [serving] = expected_errors("serving", "H100-SXM")
    assert "TPOT half within 5%" in serving


@pytest.mark.usefixtures("known")
def test_it_is_among_the_assumptions() -> None:
    config = SimulationConfig(
        hardware={"gpu": "A100"}, model={"name": "GPT2-Small"}, training={"batch_size_per_gpu": 1}
    )
    assert expected_errors("training", "A100-SXM-80GB")[0] in build_job(config).assumptions()
