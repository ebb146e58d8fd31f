from pathlib import Path

import pytest

from simsys.config.expected_losses import MeasuredLoss, measured_loss

LOSS = MeasuredLoss(loss=0.0437, sets=156, rows=1172, rank_correlation=0.859)


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("SIMSYS_PATH", str(tmp_path))
    (tmp_path / "hardware_profiles" / "fits").mkdir(parents=True)
    return tmp_path / "hardware_profiles" / "fits"


def test_loss_is_read_from_the_first_folder_that_has_it(folder: Path) -> None:
    text = "training: {loss: 0.0437, sets: 156, rows: 1172, rank_correlation: 0.859}\n"
    (folder / "expected_losses.yaml").write_text(text)
    assert measured_loss("training") == LOSS
    assert measured_loss("serving") is None


def test_kinds_of_choices_are_beside_the_one_of_a_search(folder: Path) -> None:
    own = "loss: 0.1, sets: 2, rows: 9, rank_correlation: 0.5, beyond_limits: 0.5"
    (folder / "expected_losses.yaml").write_text(f"serving: {{{own}, choices: {{parallelism: {{{own}}}}}}}\n")
    assert measured_loss("serving") == MeasuredLoss(0.1, 2, 9, 0.5, beyond_limits=0.5)


def test_text_has_the_number_of_choices() -> None:
    assert LOSS.text() == (
        "expected loss against the best of these: 4.4 % (n = 156 measured choices among 1172 held-out rows)"
    )
