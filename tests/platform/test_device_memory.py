"""Device memory: what is in use, the peak, running out, and wrong names."""

from __future__ import annotations

import math

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from simsys.errors import InternalError, OutOfMemoryError, UsageError
from simsys.platform.device_memory import DeviceMemory

GB = 1e9

sizes = st.integers(0, 10**11)
actions = st.lists(st.tuples(st.integers(0, 7), sizes, st.booleans()), max_size=60)


@settings(max_examples=300)
@given(actions, st.sampled_from([1e9, 5e10, math.inf]))
def test_any_sequence_keeps_the_books(actions: list[tuple[int, int, bool]], capacity_bytes: float) -> None:
    """Each action gives back up to so much, or takes so much; the books must be those of a plain dictionary."""
    memory, held, peak, at_peak = DeviceMemory(capacity_bytes), dict[str, int](), 0, dict[str, int]()
    for number, nbytes, giving in actions:
        name = str(number)
        if giving and name in held:
            given = min(nbytes, held[name])
            assert memory.free(name, given) == given
            held[name] -= given
            if not held[name]:
                del held[name]
        elif sum(held.values()) + nbytes <= capacity_bytes:
            memory.allocate(name, nbytes)
            held[name] = held.get(name, 0) + nbytes
        else:
            with pytest.raises(OutOfMemoryError):
                memory.allocate(name, nbytes)
        if sum(held.values()) > peak:
            peak, at_peak = sum(held.values()), dict(held)
        assert memory.held == held
        assert memory.in_use_bytes == sum(held.values())
        assert memory.peak_bytes == peak <= capacity_bytes
        assert memory.held_at_peak == at_peak
    for name in held:
        memory.free(name)
    assert memory.in_use_bytes == 0
    assert memory.held == {}


@given(st.lists(st.floats(1e-3, 1e9), min_size=1, max_size=30))
def test_parts_of_a_byte_are_rounded_up_so_that_nothing_is_left_in_the_end(amounts: list[float]) -> None:
    memory = DeviceMemory(math.inf)
    for nbytes in amounts:
        memory.allocate("buffer", nbytes)
    assert sum(amounts) <= memory.in_use_bytes + 1e-6
    for nbytes in reversed(amounts):
        memory.free("buffer", nbytes)
    assert memory.in_use_bytes == 0


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


def test_more_of_a_name_comes_on_top() -> None:
    memory = DeviceMemory(10 * GB, "GPU 0")
    memory.allocate("weights", 1.0)
    memory.allocate("weights", 2.0)
    assert memory.held == {"weights": 3}
    with pytest.raises(InternalError, match="GPU 0: 4 bytes of 'weights' cannot be given back, it holds 3"):
        memory.free("weights", 4.0)
    assert memory.free("weights") == 3
    assert memory.held == {}


def test_what_is_not_there_cannot_be_freed() -> None:
    with pytest.raises(InternalError, match="no allocation 'cache'"):
        DeviceMemory(1.0).free("cache")


@pytest.mark.parametrize("nbytes", [-1.0, math.nan, math.inf])
def test_impossible_sizes_are_refused(nbytes: float) -> None:
    memory = DeviceMemory(math.inf)
    with pytest.raises(UsageError, match="not negative"):
        memory.allocate("weights", nbytes)
    assert not memory.held


def test_the_view_of_the_allocations_is_a_copy() -> None:
    memory = DeviceMemory(1.0)
    memory.held["weights"] = 1.0
    assert not memory.held
