"""A trace beside the prediction of its run."""

from __future__ import annotations

from pathlib import Path

import pytest

from simsys.errors import UsageError
from simsys.report.files import write_files
from simsys.simulation import simulate
from simsys.traces.kineto_file import read_kineto
from simsys.traces.prediction import compare_with_prediction
from simsys.traces.scenario_trace import ScenarioTrace
from tests.helpers.kineto_like import document, two_steps, write
from tests.helpers.traced_scenarios import SERVING, of, training


@pytest.mark.parametrize("measured_at", ["medium", "high"])
def test_a_simulated_trace_is_predicted_exactly(tmp_path: Path, measured_at: str) -> None:
    config = training(measured_at, 4, strategy="FSDP", dp_degree=4)
    made = ScenarioTrace(config)
    result = simulate(config, [made.probe])
    (path,) = write_files(tmp_path, {"x_trace.json.gz": lambda file: made.write(result, file)})
    found = compare_with_prediction([read_kineto(path)], training("medium", 4, strategy="FSDP", dp_degree=4))
    assert len(found) == (1 if measured_at == "medium" else 4)
    for each in found:
        assert each.predicted.step_s == pytest.approx(each.measured.step_s, rel=1e-6)
        assert each.predicted.compute_s == pytest.approx(each.measured.compute_s, rel=1e-6)
        assert dict(each.predicted.exposed_s) == pytest.approx(dict(each.measured.exposed_s), abs=1e-6)


def test_the_prediction_is_the_mean_of_all_iterations(tmp_path: Path) -> None:
    trace = read_kineto(write(tmp_path / "a.json", two_steps()))
    config = training("medium", 50)
    (found,) = compare_with_prediction([trace], config)
    assert found.predicted.step_s == pytest.approx(simulate(config).metrics["mean_iteration_s"], rel=1e-9)
    assert (found.steps, found.rank, found.file) == (3, 0, str(tmp_path / "a.json"))


def test_what_cannot_be_compared_is_refused(tmp_path: Path) -> None:
    whole = read_kineto(write(tmp_path / "a.json", two_steps()))
    bare = read_kineto(write(tmp_path / "b.json", document([("kernel", "gemm", 0.0, 10.0, 5.0)], [])))
    far = read_kineto(write(tmp_path / "c.json", two_steps(rank=9)))
    for trace, config, expected in [
        (bare, training(), "call prof.step"),
        (whole, of(SERVING), "compared with training"),
        (far, training(), "of rank 9, and gpt2 has ranks 0 to 3"),
    ]:
        with pytest.raises(UsageError, match=expected):
            compare_with_prediction([trace], config)
