"""Device memory: what is in use, the peak, running out, and wrong names."""

from __future__ import annotations

import math

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from simsys.errors import InternalError, OutOfMemoryError, UsageError
from simsys.platform.memory import DeviceMemory

GB = 1e9

sizes = st.floats(0.0, 1e11)
actions = st.lists(st.tuples(st.integers(0, 7), sizes), max_size=60)


@settings(max_examples=300)
@given(actions, st.sampled_from([1e9, 5e10, math.inf]))
def test_any_sequence_keeps_the_books(actions: list[tuple[int, float]], capacity_bytes: float) -> None:
    """Name n is freed if it is there, else allocated; the books must be those of a plain dictionary."""
    memory, held, peak = DeviceMemory(capacity_bytes), dict[str, float](), 0.0
    for number, nbytes in actions:
        name = str(number)
        if name in held:
            assert memory.free(name) == held.pop(name)
        elif sum(held.values()) + nbytes <= capacity_bytes * (1 - 1e-9):
            memory.allocate(name, nbytes)
            held[name] = nbytes
        elif sum(held.values()) + nbytes > capacity_bytes * (1 + 1e-9):
            with pytest.raises(OutOfMemoryError):
                memory.allocate(name, nbytes)
        peak = max(peak, sum(held.values()))
        assert memory.allocations == held
        assert list(memory.allocations) == list(held)
        assert memory.in_use_bytes == pytest.approx(sum(held.values()), abs=1e-3)
        assert 0.0 <= memory.in_use_bytes <= memory.peak_bytes <= capacity_bytes
        assert memory.peak_bytes == pytest.approx(peak, abs=1e-3)
    for name in held:
        memory.free(name)
    assert memory.in_use_bytes == 0.0


def test_all_of_it_can_be_used() -> None:
    memory = DeviceMemory(80 * GB)
    memory.allocate("weights", 60 * GB)
    memory.allocate("cache", 20 * GB)
    assert memory.in_use_bytes == memory.peak_bytes == 80 * GB


def test_running_out_says_who_wants_what_and_who_holds_the_rest() -> None:
    memory = DeviceMemory(80 * GB, "GPU 3")
    for index, size in enumerate((1, 30, 2, 20, 3, 10)):
        memory.allocate(f"part{index}", size * GB)
    with pytest.raises(OutOfMemoryError) as caught:
        memory.allocate("activations", 15 * GB)
    message = str(caught.value)
    assert message.startswith("GPU 3 is out of memory: activations needs 15 GB, 14 GB of 80 GB are free")
    assert "part1 30 GB, part3 20 GB, part5 10 GB, part4 3 GB" in message  # the largest, in order
    assert "part0" not in message
    assert caught.value.exit_code == 3
    assert memory.in_use_bytes == 66 * GB  # nothing was taken


def test_running_out_of_an_empty_device() -> None:
    with pytest.raises(OutOfMemoryError, match="held: nothing"):
        DeviceMemory(1 * GB).allocate("weights", 2 * GB)


def test_a_name_is_taken_once_until_it_is_freed() -> None:
    memory = DeviceMemory(10 * GB, "GPU 0")
    memory.allocate("weights", 1.0)
    with pytest.raises(InternalError, match="GPU 0: allocation 'weights' exists already"):
        memory.allocate("weights", 1.0)
    memory.free("weights")
    memory.allocate("weights", 2.0)
    assert memory.allocations == {"weights": 2.0}


def test_what_is_not_there_cannot_be_freed() -> None:
    with pytest.raises(InternalError, match="no allocation 'cache'"):
        DeviceMemory(1.0).free("cache")


@pytest.mark.parametrize("nbytes", [-1.0, math.nan, math.inf])
def test_impossible_sizes_are_refused(nbytes: float) -> None:
    memory = DeviceMemory(math.inf)
    with pytest.raises(UsageError, match="not negative"):
        memory.allocate("weights", nbytes)
    assert not memory.allocations


def test_the_view_of_the_allocations_is_a_copy() -> None:
    memory = DeviceMemory(1.0)
    memory.allocations["weights"] = 1.0
    assert not memory.allocations
