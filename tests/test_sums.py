"""Sums of floats are the same on every Python: `sum` compensates for rounding since 3.12, and did not before."""

from __future__ import annotations

import math
import subprocess
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner
from hypothesis import given
from hypothesis import strategies as st

from simsys.cli import cli
from simsys.sums import ordered_sum
from tests.helpers.places import ROOT

COMPENSATED = """
import builtins, functools, math, operator

def compensated(values, /, start=0):
    # As CPython since 3.12: the algorithm of Neumaier, as long as values are floats.
    total, lost = start, 0.0
    for value in values:
        after = total + value
        if type(total) is float and type(value) is float:
            lost += (total - after) + value if abs(total) >= abs(value) else (value - after) + total
        total = after
    return total + lost if lost and math.isfinite(lost) else total

assert compensated([0.1] * 10) == 1.0 != functools.reduce(operator.add, [0.1] * 10)
builtins.sum = compensated
"""
RUN = "from simsys.cli import cli\ncli.main(sys.argv[1:], prog_name='simsys')\n"

DATED = "_provenance.json"
"""End of the name of the only file with a date."""
SCENARIOS = """
defaults:
  model: {name: GPT2-Medium}
scenarios:
  - name: pipeline
    hardware: {gpu: A100-SXM-80GB, num_nodes: 2, gpus_per_node: 8}
    parallelism: {strategy: TP_PP_DDP, tp_degree: 2, pp_stages: 4}
    training: {batch_size_per_gpu: 1, gradient_accumulation_steps: 8, num_iterations: 2}
  - name: high
    hardware: {gpu: H100-SXM, num_nodes: 2, gpus_per_node: 2}
    parallelism: {strategy: FSDP}
    training: {batch_size_per_gpu: 2, num_iterations: 2}
    simulation: {lod: high}
  - name: serving
    hardware: {gpu: H100-SXM, gpus_per_node: 2}
    parallelism: {strategy: TP, tp_degree: 2}
    serving: {engine: vllm}
    workload:
      arrivals: {kind: poisson, rate: 20 req/s}
      prompt_tokens: {kind: lognormal, mean: 200, sigma: 0.8}
      output_tokens: {kind: lognormal, mean: 30, sigma: 0.8}
      num_requests: 40
"""


def results(folder: Path, setup: str) -> dict[str, bytes]:
    """Files of a run, in this process or, after `setup`, in a fresh interpreter."""
    folder.mkdir()
    file = folder.parent / "experiment.yaml"
    file.write_text(SCENARIOS, encoding="utf-8")
    arguments = ["run", str(file), "--out", str(folder), "--quiet"]
    if setup:
        command = [sys.executable, "-c", f"import sys\n{setup}{RUN}", *arguments]
        subprocess.run(command, check=True, capture_output=True)
    else:
        assert CliRunner().invoke(cli, arguments).exit_code == 0
    written = [path for path in folder.rglob("*") if path.is_file() and not path.name.endswith(DATED)]
    return {str(path.relative_to(folder)): path.read_bytes() for path in written}


@pytest.mark.slow
def test_results_do_not_depend_on_how_python_sums_floats(tmp_path: Path) -> None:
    plain, compensated = results(tmp_path / "plain", ""), results(tmp_path / "compensated", COMPENSATED)
    assert len(plain) > 6
    assert plain == compensated


@given(st.lists(st.floats(allow_nan=False, allow_infinity=False) | st.integers(-(2**53), 2**53)))
def test_values_are_added_one_after_the_other(values: list[float]) -> None:
    total: float = 0
    for value in values:
        total += value
    assert ordered_sum(values) == total or (math.isnan(total) and math.isnan(ordered_sum(values)))
    assert ordered_sum(iter(values)) == ordered_sum(values) or math.isnan(total)


def test_the_sum_of_nothing_is_zero() -> None:
    assert ordered_sum([]) == 0


def test_sum_of_floats_is_refused_in_simsys() -> None:
    code = compile("found = sum([0.5, 0.25])", str(ROOT / "simsys" / "some.py"), "exec")
    with pytest.raises(AssertionError, match="ordered_sum"):
        exec(code, {})
    exec(code.replace(co_filename="elsewhere.py"), found := {})
    assert found["found"] == 0.75
