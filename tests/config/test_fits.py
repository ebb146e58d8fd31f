"""Fitted values over profiles: whose they replace, and what is noted of them."""

from __future__ import annotations

from pathlib import Path

import pytest

from simsys.config.hardware import load_engine, load_gpu, overlaid, profiles_read
from simsys.errors import ConfigError

FIT = """\
per_layer: 12 us
sources: {per_layer: "fitted to 40 rows of mine.csv"}
fits: {per_layer: {fitted_on: 40 rows of mine.csv, error: 0.11, error_of_fit: 0.08}}
"""


def put(root: Path, text: str, place: str = "fits/engines/vllm.yaml") -> None:
    path = root / "hardware_profiles" / place
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)


@pytest.fixture
def root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("SIMSYS_PATH", str(tmp_path))
    return tmp_path


def test_a_fit_of_the_user_replaces_what_the_profile_says_and_nothing_else(root: Path) -> None:
    plain = load_engine("vllm")
    put(root, FIT)
    fitted = load_engine("vllm")
    assert fitted.per_layer == 12e-6
    assert fitted.fits["per_layer"].error == 0.11
    assert "40 rows" in fitted.sources["per_layer"]
    assert fitted.gpu_memory_utilization == plain.gpu_memory_utilization
    assert fitted.per_request == 28e-3, "the profile's: parts of two fits do not belong together"


def test_who_extends_a_profile_extends_its_fit(root: Path) -> None:
    put(root, FIT)
    assert load_engine({"extends": "vllm", "per_request": "1 ms"}).per_layer == 12e-6
    assert load_engine({"extends": "vllm", "per_layer": "1 ms"}).per_layer == 1e-3


def test_a_shipped_fit_is_not_for_the_users_own_profile_of_that_name(root: Path, tmp_path: Path) -> None:
    own = tmp_path / "first" / "hardware_profiles"
    put(root, FIT)
    put(tmp_path / "first", "extends: pytorch-eager\nper_layer: 3 us\n", "engines/vllm.yaml")
    assert load_engine("vllm", [own]).per_layer == 3e-6


def test_what_is_wrong_in_a_fit_is_told_at_its_place(root: Path) -> None:
    put(root, FIT.replace("12 us", "12"))
    with pytest.raises(ConfigError, match=r"fits/engines/vllm\.yaml:1:12: per_layer"):
        load_engine("vllm")


def test_an_overlay_lasts_as_long_as_its_context() -> None:
    before = load_gpu("A100").memory_bandwidth
    with overlaid({("gpu", "A100-SXM-80GB"): {"memory_bandwidth": "1 TB/s"}}), profiles_read() as read:
        assert load_gpu("A100").memory_bandwidth == 1e12
    assert load_gpu("A100").memory_bandwidth == before
    assert set(read) == {("gpu", "A100-SXM-80GB")}
