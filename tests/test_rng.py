from __future__ import annotations

import os
import subprocess
import sys

import pytest

from simsys.rng import stream


def test_equal_arguments_give_equal_numbers() -> None:
    assert stream(42, "arrivals").random(5).tolist() == stream(42, "arrivals").random(5).tolist()


@pytest.mark.parametrize(("seed", "name"), [(43, "arrivals"), (42, "prompt_tokens"), (0, "arrivals"), (42, "")])
def test_another_seed_or_name_gives_other_numbers(seed: int, name: str) -> None:
    assert stream(42, "arrivals").random() != stream(seed, name).random()


def test_the_numbers_are_pinned() -> None:
    """A change here changes every seeded result."""
    assert stream(42, "arrivals").integers(0, 10**6, 4).tolist() == [516137, 527143, 642864, 525074]


def test_streams_are_not_correlated() -> None:
    first, second = (stream(7, name).standard_normal(100_000) for name in ("arrivals", "prompt_tokens"))
    assert abs(float((first * second).mean())) < 0.015  # five standard errors


def test_a_negative_seed_is_refused() -> None:
    with pytest.raises(ValueError, match="non-negative"):
        stream(-1, "arrivals")


def test_numbers_do_not_depend_on_string_hashing() -> None:
    program = "from simsys.rng import stream; print(hash('a'), stream(42, 'arrivals').random())"
    hashes, numbers = set(), set()
    for hash_seed in ("0", "1"):
        environment = {**os.environ, "PYTHONHASHSEED": hash_seed}
        command = [sys.executable, "-c", program]
        result = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
        hashed, number = result.stdout.split()
        hashes.add(hashed)
        numbers.add(number)
    assert len(hashes) == 2
    assert len(numbers) == 1


def test_importing_does_not_import_numpy() -> None:
    program = (
        "import sys, simsys.rng, simsys.serving.arrivals, simsys.serving.lengths; sys.exit('numpy' in sys.modules)"
    )
    assert subprocess.run([sys.executable, "-c", program], check=False).returncode == 0
