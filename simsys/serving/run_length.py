"""Largest number of steps of a run before the KV cache changes the choices of the policy."""

from __future__ import annotations

from bisect import bisect_right

from simsys.serving.engine_state import EngineState


def steps_that_fit(engine: EngineState, steps: int) -> int:
    """Number of next steps with enough KV blocks, at least one; sequences decode in them, or there are chunks."""
    decode, free = engine.scheduler.decode, engine.kv.free_blocks
    if not engine.chunks:
        return max(1, decode.steps_within(free, steps))

    def blocks(steps: int) -> int:
        return (decode.missing_blocks(steps) if engine.decoding else 0) + blocks_of_chunks(engine, steps)

    return max(1, bisect_right(range(1, steps + 1), free, key=blocks))


def blocks_of_chunks(engine: EngineState, steps: int) -> int:
    """Blocks of the chunks of a number of steps of the run, without the first step."""
    computed, kv = engine.sequences.computed_tokens, engine.kv
    return sum(kv.missing_blocks(request, computed[request] + tokens * steps) for request, tokens in engine.chunks)


def grown_blocks(engine: EngineState) -> int:
    """Blocks allocated by completed steps of the current run."""
    if not engine.left:
        return 0
    passed = engine.stepper.passed()
    grown = blocks_of_chunks(engine, passed + 1) if engine.chunks else 0
    return grown + engine.scheduler.decode.missing_blocks(passed) if engine.decoding else grown


def steps_until_prefix_eviction(engine: EngineState, steps: int) -> int:
    """Decode steps until the cached prefix of a waiting request starts to be evicted.

    The scheduler must be asked again then: a shorter prefix may let the request fit into a step with fewer blocks.
    """
    decode, kv = engine.scheduler.decode, engine.kv
    most = decode.missing_blocks(steps - 1)
    spare = min((kv.spare_blocks(request, most) for request in engine.scheduler.considers()), default=most)
    return steps if spare >= most else 1 + decode.steps_within(spare, steps - 1)
