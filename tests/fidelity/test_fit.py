"""Fits on runs whose true coefficients are known, and what cannot be fitted."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import date
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import yaml

from simsys.config.hardware import FitsLeftOut, load_engine, load_gpu, overlaid, without_fits
from simsys.errors import UnknownNameError, UsageError
from simsys.fidelity.calibrate import Calibration, calibrate
from simsys.fidelity.case import Case, Figures, Prediction, Unsupported
from simsys.fidelity.coefficients import SERVING, STORED, coefficients_of, from_unit, settings, to_unit
from simsys.fidelity.derivatives import Derivatives
from simsys.fidelity.fit import TAKES_LONG, fit, unseen
from simsys.fidelity.kernel_fit import KernelFit
from simsys.fidelity.predict import Simulations
from simsys.fidelity.problem import Problem
from simsys.fidelity.scenario_run import ScenarioRun
from simsys.report.calibration import calibration_text
from simsys.units import Dimension, parse

TRUE_LAYER_S, TRUE_STEP_S = 37e-6, 2.1e-3
TRUE_SHARE = 0.61
LONGEST = 1000


@dataclass(frozen=True)
class Toy:
    """Layers and a step of an engine, and bytes read at the share of the bandwidth that attention reaches."""

    layers: int
    nbytes: float = 0.0
    engine: str = "vllm"

    def expected_cpu_s(self) -> float:
        return float(self.layers > LONGEST)

    def figures(self) -> Figures:
        if self.layers < 0:
            raise Unsupported("no layers")
        engine, gpu = load_engine(self.engine), load_gpu("A100")
        share = gpu.efficiency.decode_attention["default"][0].memory
        seconds = engine.per_step + self.layers * engine.per_layer + self.nbytes / (gpu.memory_bandwidth * share)
        return {"seconds": seconds}


def measured(run: Toy, factor: float = 1.0) -> float:
    truth = {
        ("engine", "vllm"): {"per_layer": f"{TRUE_LAYER_S!r} s", "per_step": f"{TRUE_STEP_S!r} s"},
        ("gpu", "A100-SXM-80GB"): {
            "efficiency": {"decode_attention": {"default": [{"rows": 1, "compute": 0.5, "memory": TRUE_SHARE}]}}
        },
    }
    with overlaid(truth):
        return run.figures()["seconds"] * factor


def cases(runs: Sequence[Toy], groups: int = 4, factor: float = 1.0) -> list[Case]:
    return [
        Case(f"c{i}", "serving", f"g{i % groups}", "step_s", "s", measured(run, factor), run=run, figure="seconds")
        for i, run in enumerate(runs)
    ]


VARIED = [Toy(layers, nbytes) for layers in (1, 20, 80, 200) for nbytes in (0.0, 1e9, 2e10)]


def test_true_coefficients_are_found() -> None:
    with Simulations() as simulations:
        problem = Problem(cases(VARIED), simulations)
        found = fit(problem)
    values = {str(each): value for each, value in zip(found.coefficients, found.values, strict=True)}
    assert values["vllm per_layer"] == pytest.approx(TRUE_LAYER_S, rel=0.05)
    assert values["vllm per_step"] == pytest.approx(TRUE_STEP_S, rel=0.05)
    share = values["A100-SXM-80GB efficiency.decode_attention.default (memory)"]
    assert share == pytest.approx(TRUE_SHARE, rel=0.05)
    assert len(values) == 3, "what no row feels is not fitted"


@pytest.mark.slow
def test_rows_whose_derivatives_are_not_measured_have_those_of_rows_like_them(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    many = [Toy(layers, nbytes) for nbytes in (1e9, 2e10) for layers in range(10, 31)]
    with Simulations() as simulations:
        every = Problem(cases(many, groups=2), simulations)
        monkeypatch.setattr("simsys.fidelity.problem.MANY", 0)
        third = Problem(cases(many, groups=2), simulations)
        assert [str(each) for each in third.coefficients] == [str(each) for each in every.coefficients]
        all_measured, some = every.known[0].values, third.known[0].values
        assert 10 < sum((all_measured == some).all(axis=1)) < 25
        assert np.mean(np.isclose(some, all_measured, rtol=0.5, atol=0.05)) > 0.9, "but where the bytes change"
        assert fit(third).values == pytest.approx(fit(every).values, rel=0.05)


@pytest.mark.slow
def test_a_fit_without_some_rows_measures_no_derivatives(monkeypatch: pytest.MonkeyPatch) -> None:
    measurements: list[None] = []
    at = Derivatives.at

    def counting(*args: Any) -> Any:
        measurements.append(None)
        return at(*args)

    monkeypatch.setattr(Derivatives, "at", counting)
    with Simulations() as simulations:
        problem = Problem(cases(VARIED), simulations)
        whole = fit(problem)
        known = len(measurements)
        part = fit(problem, rows=[True] * (len(VARIED) - 1) + [False])
    assert known >= 1
    assert len(measurements) == known
    assert part.values == pytest.approx(whole.values, rel=0.05)


def test_a_coefficient_that_rows_take_to_its_bound_is_not_fitted() -> None:
    """Rows that are much faster than the memory allows ask for more than its whole bandwidth."""
    table = cases([Toy(1, nbytes) for nbytes in (1e11, 2e11, 3e11, 4e11, 5e11, 6e11, 7e11, 8e11)], factor=0.05)
    with Simulations() as simulations:
        problem = Problem(table, simulations)
        found = fit(problem)
    [stuck] = [name for name in found.at_bounds if "decode_attention" in name]
    assert stuck not in [str(each) for each in found.coefficients]
    assert "efficiency" not in found.overlay.get(("gpu", "A100-SXM-80GB"), {})


@pytest.mark.slow
def test_intervals_hold_what_was_fitted_and_are_wider_where_sources_contradict_each_other() -> None:
    agreed = cases(VARIED)
    apart = [replace(case, measured=case.measured * (1.3 if case.group < "g2" else 0.8)) for case in agreed]
    widths = []
    for table in (agreed, apart):
        with Simulations() as simulations:
            found = fit(Problem(table, simulations), draws=50)
        place = [str(each) for each in found.coefficients].index("vllm per_layer")
        low, high = found.intervals[place]
        assert low <= found.values[place] <= high
        widths.append(high / low)
    assert widths[1] > 1.2 * widths[0]


@pytest.mark.slow
def test_the_same_rows_give_the_same_fit() -> None:
    found = []
    for jobs in (1, 2):
        with Simulations(jobs) as simulations:
            found.append(fit(Problem(cases(VARIED), simulations), draws=5))
    assert found[0] == found[1]


def test_unseen_rows_are_predicted_by_a_fit_without_their_group() -> None:
    """One group is ten times slower than the truth: a fit that saw it would come nearer."""
    table = cases(VARIED, groups=2)
    table += [
        Case(f"odd{i}", "serving", "odd", "step_s", "s", 10 * measured(run), run=run, figure="seconds")
        for i, run in enumerate(VARIED)
    ]
    with Simulations() as simulations:
        problem = Problem(table, simulations)
        seen = simulations.predict(problem.cases, fit(problem).overlay)
        blind = unseen(problem, table, simulations, folds=3)
    errors = [[each.error for each in found if each.case.group == "odd"] for found in (seen, blind)]
    assert max(errors[1]) < -0.85
    assert sum(errors[0]) > sum(errors[1])


@pytest.mark.slow
def test_a_fit_that_begins_with_earlier_values_finds_the_same() -> None:
    found = []
    for warm in (False, True):
        with Simulations() as simulations:
            found.append(fit(Problem(cases(VARIED), simulations, warm=warm)))
    assert found[1].values == pytest.approx(found[0].values, rel=0.05)


def test_long_simulations_are_left_out_of_the_folds_with_their_reason(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("simsys.fidelity.fit.SLOW_S", 0.5)
    long = Case("long", "serving", "g0", "step_s", "s", 1.0, run=Toy(LONGEST + 1), figure="seconds")
    table = [*cases(VARIED), long]
    with Simulations() as simulations:
        blind = unseen(Problem(cases(VARIED), simulations), table, simulations, folds=2)
        assert simulations.profiles(Toy(LONGEST + 1)) == frozenset()
    assert [each.predicted is None for each in blind] == [*[False] * len(VARIED), True]
    assert blind[-1].reason == TAKES_LONG


def test_a_scenario_that_breaks_a_rule_is_not_predicted() -> None:
    degrees = {"strategy": "TP_EP_DDP", "tp_degree": 2, "ep_degree": 2}
    scenario = {
        "name": "row",
        "hardware": {"profile": "dgx-h100"},
        "model": {"name": "Mixtral-8x7B"},
        "training": {"batch_size_per_gpu": 1},
    }
    run = ScenarioRun.of({**scenario, "parallelism": {**degrees, "sequence_parallel": False}}, memory_limit=False)
    with pytest.raises(Unsupported, match="needs sequence_parallel"):
        run.figures()
    assert run.expected_cpu_s() == 0.0
    obeys = ScenarioRun.of({**scenario, "parallelism": {**degrees, "sequence_parallel": True}}, memory_limit=False)
    assert obeys.job().engine.name == "pytorch"


def test_a_server_that_does_not_fit_has_no_expected_time() -> None:
    """So that no calibration samples it for its short simulation."""
    served = {
        "hardware": {"profile": "dgx-h100"},
        "model": {"name": "Llama3-70B"},
        "serving": {"engine": "vllm"},
        "workload": {"arrivals": {"kind": "all_at_once"}, "prompt_tokens": 8, "output_tokens": 8, "num_requests": 1},
    }
    one, eight = (ScenarioRun.of({**served, "parallelism": {"tp_degree": tensor}}) for tensor in (1, 8))
    assert one.expected_cpu_s() == 0.0
    assert eight.expected_cpu_s() > 0.0
    with pytest.raises(Unsupported, match="does not fit"):
        one.figures()


def test_too_few_rows_or_nothing_that_varies_cannot_be_fitted() -> None:
    with Simulations() as simulations:
        with pytest.raises(UsageError, match="at least 4 rows that can be predicted, not 2"):
            Problem(cases([Toy(1), Toy(2), Toy(-1)][:2]), simulations)
        one_group = Problem(cases(VARIED, groups=1), simulations)
        with pytest.raises(UsageError, match="at least two groups"):
            unseen(one_group, one_group.cases, simulations)


def test_what_cannot_be_predicted_is_left_out() -> None:
    table = [*cases(VARIED), Case("x", "serving", "g0", "step_s", "s", 1.0, run=Toy(-1), figure="seconds")]
    with Simulations() as simulations:
        assert len(Problem(table, simulations).cases) == len(VARIED)


def test_a_run_is_simulated_once_for_the_numbers_that_it_reads(monkeypatch: pytest.MonkeyPatch) -> None:
    calls = 0
    figures = Toy.figures

    def counted(run: Toy) -> Figures:
        nonlocal calls
        calls += 1
        return figures(run)

    monkeypatch.setattr(Toy, "figures", counted)
    table = cases([Toy(1), Toy(1), Toy(2)])
    calls = 0
    with Simulations() as simulations:
        simulations.predict(table)
        simulations.predict(table, {("engine", "sglang"): {"per_layer": "1 us"}})
        assert calls == 2
        simulations.predict(table, {("engine", "vllm"): {"per_layer": "1 us"}})
        assert calls == 4


def test_bounds_are_kept_and_places_go_back_and_forth() -> None:
    for each in coefficients_of([("engine", "vllm"), ("gpu", "A100-SXM-80GB"), ("node", "dgx-a100")]):
        assert each.lower <= each.start <= each.upper
        assert from_unit(each, to_unit(each, each.start)) == pytest.approx(each.start)


def test_what_a_kernel_takes_besides_is_fitted_by_dtype() -> None:
    floors = [each for each in coefficients_of([("gpu", "H100-SXM")]) if each.path[:2] == ("kernel_floor", "gemm")]
    assert {each.path[2] for each in floors} >= {"default", "bf16", "fp8"}
    with overlaid(settings(floors, [1e-6 * (1 + place) for place in range(len(floors))])):
        found = load_gpu("H100").kernel_floor["gemm"]
    assert [found[each.path[2]] for each in floors] == pytest.approx([1e-6 * (1 + n) for n in range(len(floors))])


def test_what_is_stored_for_serving_alone_is_told_by_serving_alone() -> None:
    found = [each for each in coefficients_of([("gpu", "H100-SXM")]) if "grouped_gemm" in each.path]
    stored = {(each.path[2], each.column): each.families for each in found if each.path[2] in STORED}
    assert set(stored) == {(dtype, column) for dtype in STORED for column in ("compute", "memory")}
    assert set(stored.values()) == {SERVING}
    assert {each.families for each in found if each.path[2] not in STORED and each.column == "compute"} != {SERVING}


def test_both_columns_of_a_curve_can_be_set() -> None:
    found = [each for each in coefficients_of([("gpu", "A100-SXM-80GB")]) if each.path[:2] == ("efficiency", "gemm")]
    with overlaid(settings(found, [0.5] * len(found))):
        points = load_gpu("A100").efficiency.gemm["default"]
    assert max(point.compute for point in points) == pytest.approx(0.5)
    assert max(point.memory for point in points) == pytest.approx(0.5)
    assert len({point.compute for point in points}) > 1, "the shape of the curve stays"


@pytest.fixture(scope="module")
def calibration() -> Calibration:
    as_of = date(2026, 11, 22)
    command = "simsys calibrate mine.csv"
    return calibrate(cases(VARIED), tables=["mine.csv"], command=command, as_of=as_of, rows_of_a_group=100)


def test_a_calibration_is_written_with_where_it_comes_from(
    calibration: Calibration, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    files = calibration.write(tmp_path / "hardware_profiles")
    names = [
        "A100-SXM-80GB.yaml",
        "expected_errors.yaml",
        "expected_errors_by_regime.yaml",
        "expected_losses.yaml",
        "vllm.yaml",
    ]
    assert sorted(path.name for path in files) == names
    monkeypatch.setenv("SIMSYS_PATH", str(tmp_path))
    engine = load_engine("vllm")
    assert engine.per_layer == pytest.approx(TRUE_LAYER_S, rel=0.05)
    noted = engine.fits["per_layer"]
    assert noted.fitted_on == "12 rows of mine.csv"
    assert (noted.command, noted.as_of) == ("simsys calibrate mine.csv", date(2026, 11, 22))
    assert noted.error_of_fit is not None
    assert noted.error_of_fit < 0.02
    assert noted.error < 0.2
    assert "mine.csv" in engine.sources["per_layer"]
    low_s, high_s = (parse(str(end), Dimension.SECONDS) for end in noted.intervals["value"])
    assert low_s <= engine.per_layer <= high_s


def test_a_fit_that_does_not_predict_rows_it_has_not_seen_is_not_kept(
    calibration: Calibration, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its coefficients stay as they were, and so do the predictions of the page."""
    assert calibration.parts[0].helps

    def worse(*arguments: Any) -> list[Prediction]:
        return [replace(each, predicted=9.0 * each.case.measured) for each in unseen(*arguments)]

    monkeypatch.setattr("simsys.fidelity.calibrate.unseen", worse)
    found = calibrate(cases(VARIED), tables=["mine.csv"], command="", as_of=date(2026, 11, 22), rows_of_a_group=100)
    (part,) = found.parts
    assert not part.helps
    assert not found.documents
    before = {each.case.id: each.predicted for each in part.before}
    assert {each.case.id: each.predicted for each in found.unseen if each.case.id in before} == before
    assert "Not kept" in calibration_text(found)


def test_only_named_profiles_are_fitted_and_other_errors_stay(tmp_path: Path) -> None:
    given = {"tables": ["mine.csv"], "as_of": date(2026, 11, 22), "rows_of_a_group": 100}
    point = {"rows": 1, "compute": 0.5, "memory": 0.5}
    kernels = [KernelFit("L40S", "gemm", "bf16", 4e-6, [point], 90, 0.01, 0.02)]
    found = calibrate(cases(VARIED), kernels, command="simsys calibrate mine.csv", only=["A100-SXM-80GB"], **given)
    assert set(found.documents) == {("gpu", "A100-SXM-80GB")}
    errors = tmp_path / "fits" / "expected_errors.yaml"
    errors.parent.mkdir()
    errors.write_text(
        "# Of all by another command.\nserving:\n  all:\n    e2e_s: {rows: 9}\n  T4:\n    e2e_s: {rows: 8}\n"
    )
    for _ in range(2):
        names = [path.name for path in found.write(tmp_path)]
        assert names == ["A100-SXM-80GB.yaml", "expected_errors.yaml"]
        text = errors.read_text()
        assert text.splitlines()[:2] == [
            "# Of all by another command.",
            "# Of A100-SXM-80GB by `simsys calibrate mine.csv`, 2026-11-22.",
        ]
        known = yaml.safe_load(text)["serving"]
        assert (known["all"], known["T4"]) == ({"e2e_s": {"rows": 9}}, {"e2e_s": {"rows": 8}})
        assert list(known) == ["A100-SXM-80GB", "T4", "all"]
    with pytest.raises(UnknownNameError, match="unknown profile 'A100-SXM', did you mean '"):
        calibrate(cases(VARIED), command="", only=["A100-SXM"], **given)
    with pytest.raises(UsageError, match="no coefficient can be fitted"):
        calibrate(cases(VARIED), command="", only=["T4"], **given)


def test_rows_that_read_no_named_profile_are_left_out() -> None:
    gpus = {"dgx-a100": "A100-SXM-80GB", "dgx-h100": "H100-SXM"}
    runs = [
        ScenarioRun.of(
            {
                "hardware": {"profile": node, "num_nodes": 1},
                "model": {"name": "GPT2-Small"},
                "training": {"batch_size_per_gpu": 1},
            }
        )
        for node in gpus
    ]
    every = [Case(f"c{i}", "training", "g", "iteration_s", "s", 1.0, run=run) for i, run in enumerate(runs)]
    nothing, unbuilt = replace(every[0], run=None), cases(VARIED[:1])
    simulations = Simulations()
    assert simulations.reading([*every, nothing], list(gpus.values())) == every
    assert simulations.reading([*every, *unbuilt], ["H100-SXM"]) == [every[1], *unbuilt]
    assert not simulations.reading(every, ["T4"])


def test_a_fit_of_some_profiles_leaves_the_earlier_fits_of_others_in_place(
    calibration: Calibration, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Fits of all profiles to a table are left out of a fit of all to it, else only those of the profiles fitted."""
    calibration.write(tmp_path / "hardware_profiles")
    monkeypatch.setenv("SIMSYS_PATH", str(tmp_path))
    fitted_s = load_engine("vllm").per_layer
    with without_fits(FitsLeftOut(["mine.csv"])):
        own_s = load_engine("vllm").per_layer
    assert fitted_s == pytest.approx(TRUE_LAYER_S, rel=0.05)
    assert own_s != fitted_s
    for only, expected_s in ((["A100-SXM-80GB"], fitted_s), (["vllm"], own_s)):
        with without_fits(FitsLeftOut(["mine.csv"], only)):
            assert load_engine("vllm").per_layer == expected_s


@pytest.mark.slow
def test_a_calibration_begins_before_any_fit_to_the_same_table(
    calibration: Calibration, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What was fitted to them has seen the rows that are kept from a fit."""
    calibration.write(tmp_path / "hardware_profiles")
    (part,) = calibration.parts
    before_s = {each.named: each.start for each in part.problem.coefficients if each.path == ("per_layer",)}
    monkeypatch.setenv("SIMSYS_PATH", str(tmp_path))
    for table in ("other.csv", "mine.csv"):
        known, left_out = table == "mine.csv", FitsLeftOut([table])
        with without_fits(left_out):
            found_s = load_engine("vllm").per_layer
        assert found_s == pytest.approx(before_s["engine", "vllm"] if known else TRUE_LAYER_S, rel=0.05)
        with Simulations(2 if known else 1, left_out=left_out) as simulations:
            found = [each.predicted for each in simulations.predict(part.problem.cases)]
        assert (found == [each.predicted for each in part.before]) == known
