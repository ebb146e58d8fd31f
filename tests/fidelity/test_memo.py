"""A calibration that was interrupted goes on where it was, and ends as if it had not been."""

from __future__ import annotations

from collections.abc import Callable
from datetime import date
from pathlib import Path

import pytest

from simsys.config.hardware import Named
from simsys.errors import OutputError
from simsys.fidelity import memo as memos
from simsys.fidelity import predict
from simsys.fidelity.calibrate import Calibration, calibrate
from simsys.fidelity.case import Figures, Outcome
from simsys.fidelity.memo import FILENAME, Memo
from tests.fidelity.test_fit import VARIED, Toy, cases

VLLM: Named = ("engine", "vllm")
SGLANG: Named = ("engine", "sglang")
GIVEN = cases(VARIED, groups=3)


@pytest.fixture
def simulated(monkeypatch: pytest.MonkeyPatch) -> list[Toy]:
    """The runs that were simulated, in order."""
    found: list[Toy] = []
    figures = Toy.figures

    def counted(run: Toy) -> Figures:
        found.append(run)
        return figures(run)

    monkeypatch.setattr(Toy, "figures", counted)
    return found


def calibrated(memo: Memo | None = None, progress: Callable[[int, int], None] | None = None) -> Calibration:
    return calibrate(
        GIVEN,
        tables=["mine.csv"],
        command="simsys calibrate mine.csv",
        as_of=date(2026, 11, 29),
        progress=progress,
        memo=memo,
    )


def written(found: Calibration, folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in found.write(folder)}


def test_an_interrupted_calibration_goes_on_and_writes_the_same_bytes(tmp_path: Path, simulated: list[Toy]) -> None:
    whole = written(calibrated(), tmp_path / "whole")
    of_all = len(simulated)
    calls: list[int] = []

    def interrupt(done: int, total: int) -> None:
        calls.append(done)
        if len(calls) == 80:
            raise KeyboardInterrupt

    simulated.clear()
    with pytest.raises(KeyboardInterrupt):
        calibrated(Memo.of(tmp_path), interrupt)
    before, memo = len(simulated), Memo.of(tmp_path)
    assert 0 < len(memo) <= before < of_all
    simulated.clear()
    assert written(calibrated(memo), tmp_path / "again") == whole
    assert len(simulated) < of_all - before / 2
    simulated.clear()
    assert written(calibrated(Memo.of(tmp_path)), tmp_path / "known") == whole
    assert not simulated, "everything is known"
    memo.remove()
    assert not list(tmp_path.glob(f"{FILENAME}*"))


def outcome(figure: float, *read: Named) -> Callable[[], Outcome]:
    return lambda: Outcome({"seconds": figure}, "", frozenset(read or (VLLM,)))


def unexpected() -> Outcome:
    raise AssertionError("is known")


def test_settings_of_profiles_that_a_run_does_not_read_do_not_count(tmp_path: Path) -> None:
    memo, run = Memo.of(tmp_path), Toy(3)
    assert memo.outcome(run, {}, outcome(1.5)).figures == {"seconds": 1.5}
    for overlay in ({}, {SGLANG: {"per_layer": "9 us"}}):
        assert memo.outcome(run, overlay, unexpected) == Outcome({"seconds": 1.5}, "", frozenset([VLLM]))
    assert memo.outcome(run, {VLLM: {"per_layer": "9 us"}}, outcome(0.1 + 0.2)).figures["seconds"] == 0.1 + 0.2
    assert memo.outcome(run, {VLLM: {"per_layer": "9 us"}}, unexpected).figures["seconds"] == 0.1 + 0.2
    assert memo.outcome(Toy(4), {}, outcome(7.0)).figures == {"seconds": 7.0}
    assert len(memo) == 3


def test_why_a_run_has_no_figures_is_kept(tmp_path: Path) -> None:
    memo = Memo.of(tmp_path)
    none = Outcome({}, "does not fit", frozenset([VLLM]))
    assert memo.outcome(Toy(3), {}, lambda: none) == memo.outcome(Toy(3), {}, unexpected) == none


def test_an_outcome_with_other_profiles_than_before_is_not_kept(tmp_path: Path) -> None:
    memo = Memo.of(tmp_path)
    memo.outcome(Toy(3), {}, outcome(1.0))
    other = {VLLM: {"extends": "sglang"}}
    assert memo.outcome(Toy(3), other, outcome(2.0, VLLM, SGLANG)).figures == {"seconds": 2.0}
    assert memo.outcome(Toy(3), other, outcome(3.0, VLLM, SGLANG)).figures == {"seconds": 3.0}
    assert memo.outcome(Toy(3), {}, unexpected).figures == {"seconds": 1.0}


def test_nothing_is_known_after_a_change_of_code_or_data(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (own := tmp_path / "own" / "hardware_profiles").mkdir(parents=True)
    monkeypatch.setenv("SIMSYS_PATH", str(own.parent))
    Memo.of(tmp_path).outcome(Toy(3), {}, outcome(1.0))
    (own / "notes.txt").write_text("read by none")
    assert len(Memo.of(tmp_path)) == 1
    (own / "mine.yaml").write_text("extends: A100")
    assert len(Memo.of(tmp_path)) == 0
    Memo.of(tmp_path).outcome(Toy(3), {}, outcome(1.0))
    monkeypatch.setattr(memos, "__version__", "0.0.1")
    assert len(Memo.of(tmp_path)) == 0


def test_processes_share_what_they_know(tmp_path: Path) -> None:
    with predict.Simulations(2, memo=Memo.of(tmp_path)) as simulations:
        found = simulations.predict(GIVEN)
    assert len(Memo.of(tmp_path)) == len(VARIED)
    with predict.Simulations() as simulations:
        assert found == simulations.predict(GIVEN)


@pytest.mark.parametrize("content", [b"", b"no database" * 1000])
def test_a_file_that_is_no_memo_is_refused_by_its_name(tmp_path: Path, content: bytes) -> None:
    (tmp_path / FILENAME).write_bytes(content)
    if not content:
        assert len(Memo.of(tmp_path)) == 0
        return
    with pytest.raises(OutputError, match=FILENAME):
        Memo.of(tmp_path)


def test_a_folder_that_cannot_be_made_is_refused_by_its_name(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(OutputError, match="file"):
        Memo.of(tmp_path / "file" / "profiles")


def test_a_memo_that_is_broken_meanwhile_is_refused_by_its_name(tmp_path: Path) -> None:
    memo = Memo.of(tmp_path)
    (tmp_path / FILENAME).write_bytes(b"no database" * 1000)
    with pytest.raises(OutputError, match=FILENAME):
        memo.outcome(Toy(3), {}, outcome(1.0))
    memo.remove()
    with pytest.raises(OutputError, match=FILENAME):
        memo.remove()


def test_links_that_lead_nowhere_do_no_harm(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (own := tmp_path / "own" / "hardware_profiles").mkdir(parents=True)
    (own / "mine.yaml").symlink_to(tmp_path / "none.yaml")
    monkeypatch.setenv("SIMSYS_PATH", str(own.parent))
    assert len(Memo.of(tmp_path)) == 0
