"""The conformance kit: rules that every framework module must obey."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any

from pydantic import ValidationError

from simsys.framework import DataParallel, DecodePhase, PrefillPhase, Router, Scheduler, TrainingFramework
from simsys.ops import Operation, Recv
from simsys.parallel.pipeline_schedule import Schedule
from simsys.probes import Probe
from simsys.sums import ordered_sum
from simsys.testing.runs import TrainingCase, TrainingRun, cases
from simsys.testing.schedules import check_schedule
from simsys.testing.serving_runs import ServingCase, ServingRun
from simsys.testing.subclass import check_class, sort_of
from simsys.testing.toys import STEPPING

AGREEMENT = 1e-9
"""Largest relative difference of times between the levels of detail without contention."""

SORTS: tuple[type, ...] = (DataParallel, TrainingFramework, Schedule, Scheduler, PrefillPhase, DecodePhase, Router)
"""The bases of framework modules."""
HOME = "simsys.framework"
Case = TrainingCase | ServingCase
Run = TrainingRun | ServingRun


def check_framework(module: type, **options: Any) -> str:
    """Check a framework module on toys.

    It must be deterministic; have frozen options that refuse unknown keys; let every member join its collectives and
    receive every message; do the same in steps that it declares to be the same; free the memory of an iteration and
    all KV blocks; end every request exactly once, obey the limits of a batch and produce every requested token; end;
    have equal times at high and medium, with and without multi-step runs; and be independent of observation. A
    schedule must order every pass once and never deadlock.

    Args:
        module: A subclass of `DataParallel`, `TrainingFramework`, `Schedule`, `Scheduler`, `PrefillPhase`,
            `DecodePhase` or `Router`.
        options: Its settings, if the defaults do not suffice.

    Returns:
        ``ok``.

    Raises:
        AssertionError: Which rule is broken, and how.
    """
    check_class(module, sort_of(module, SORTS, object), "framework module", HOME)
    check_options(module, options)
    if issubclass(module, Schedule):
        check_schedule(module)
    for case in cases(module, options):
        place = f"{module.__name__} {case.words}"
        recording = attempt(place, "recording", case)
        check_run(place, recording, case)
        if attempt(place, "recording", case) != recording:
            raise AssertionError(f"{place}: not deterministic: two recordings differ")
        check_levels(place, case)
    return "ok"


def check_scheduler(module: type, **options: Any) -> str:
    """Check a scheduler of serving engines; rules, arguments and errors as `check_framework`.

    It must serve every request of two toy workloads, with an ample and with a small KV cache, in any order.

    Returns:
        ``ok``.

    Raises:
        AssertionError: Which rule is broken, and how.
    """
    check_class(module, Scheduler, "scheduler", HOME)
    return check_framework(module, **options)


def check_options(module: type, given: dict[str, Any]) -> None:
    """Options are immutable and refuse unknown keys."""
    options = getattr(module, "Options", None)
    if options is None:
        return
    place = f"{module.__name__}.Options"
    try:
        options(**{**given, "no_such_option": 1})
    except ValidationError:
        pass
    else:
        raise AssertionError(f"{place}: an unknown key is accepted; derive it from the base class' Options")
    for name, value in dict(options(**given)).items():
        try:
            setattr(options(**given), name, value)
        except ValidationError:
            continue
        raise AssertionError(f"{place}: {name} can be changed; derive it from the base class' Options")


def attempt(place: str, level: str, case: Case, *probes: Probe) -> Run:
    """Run, and turn what goes wrong into a message that names the module and the level."""
    try:
        return case.run(level, probes)
    except Exception as error:
        raise AssertionError(f"{place}, {level}: {error}") from error


def check_run(place: str, run: Run, case: Case) -> None:
    """Check the records of one run."""
    if isinstance(run, TrainingRun):
        check_training(place, run)
        check_messages(place, run.operations)
        check_steps(place, run)
    else:
        assert isinstance(case, ServingCase)
        check_serving(place, run, case)


def check_training(place: str, run: TrainingRun) -> None:
    """All ranks end, with the memory they had before the first iteration."""
    if run.leaks:
        raise AssertionError(f"{place}: memory does not return to its start: {run.leaks[0]}")


def check_steps(place: str, run: TrainingRun) -> None:
    """Steps that the data-parallel module declares to be the same have the same operations."""
    every, first = run.same_steps
    for rank, ends in run.operations_by_step.items() if every else ():
        operations = [op for op in run.operations if op["rank"] == rank]
        steps = [operations[start:end] for start, end in zip([0, *ends], ends, strict=False)]
        for number, step in enumerate(steps[1:] if first else steps[2:], 1 if first else 2):
            if step != steps[number - 1]:
                declared = "same_first_step" if number == 1 else "same_every_step"
                message = f"{place}: step {number} of rank {rank} differs from step {number - 1}: {declared}"
                raise AssertionError(message)


def check_messages(place: str, operations: list[dict[str, Any]]) -> None:
    """Every message sent is received."""
    sent = Counter((op["rank"], op["peer"], op["tag"]) for op in operations if op["verb"] == "send")
    received = Counter((op["peer"], op["rank"], op["tag"]) for op in operations if op["verb"] == "recv")
    for (src, dst, tag), count in (sent - received).items():
        raise AssertionError(f"{place}: {count} messages from rank {src} to {dst} (tag {tag!r}) are never received")


def check_serving(place: str, run: ServingRun, case: ServingCase) -> None:
    """Requests end once with all their tokens, limits hold, and the KV cache is empty in the end."""
    counts = Counter((event, request) for event, request, _ in run.history)
    completed = []
    for request in range(len(case.requests)):
        ends = counts["finished", request] + counts["rejected", request]
        if ends != 1:
            raise AssertionError(f"{place}: request {request} ends {ends} times, not once")
        if counts["finished", request]:
            completed.append(request)
            if counts["first token", request] != 1:
                raise AssertionError(f"{place}: request {request} has {counts['first token', request]} first tokens")
    lost = case.replicas * case.num_blocks - run.free_blocks
    if lost or run.held:
        raise AssertionError(f"{place}: {lost} KV blocks are not given back (held by requests: {run.held})")
    check_tokens(place, run, case, completed)


def check_tokens(place: str, run: ServingRun, case: ServingCase, completed: list[int]) -> None:
    """Every output token goes through the head once; every prompt token is processed, again only if preempted."""
    output_tokens = sum(case.requests.output_tokens[request] for request in completed)
    logits = ordered_sum(steps * logits for steps, _, logits, _ in run.forwarded)
    if logits != output_tokens:
        raise AssertionError(f"{place}: {logits:g} output tokens are computed, {output_tokens} are asked for")
    prompt_tokens = sum(case.requests.prompt_tokens[request] for request in completed)
    preempted = any(event == "preempted" for event, _, _ in run.history)
    if run.prompt_tokens < prompt_tokens or (run.prompt_tokens > prompt_tokens and not preempted):
        raise AssertionError(f"{place}: {run.prompt_tokens} prompt tokens are computed, {prompt_tokens} are given")


def check_levels(place: str, case: Case) -> None:
    """Two runs are equal, an observer changes nothing, and the levels agree."""
    medium, high = attempt(place, "medium", case), attempt(place, "high", case)
    if attempt(place, "medium", case) != medium:
        raise AssertionError(f"{place}: not deterministic: two runs at medium detail differ")
    for level, run in (("medium", medium), ("high", high)):
        check_run(f"{place}, {level}", run, case)
        if attempt(place, level, case, Listener()) != run:
            raise AssertionError(f"{place}: observing it changes the result at {level} detail")
    if isinstance(case, ServingCase):
        check_stepping(place, case, medium)
    ranks = list(medium.iteration_end_s) if isinstance(medium, TrainingRun) else []
    for (what, expected), (_, found) in zip(times(medium, ranks), times(high, ranks), strict=True):
        if abs(expected - found) > AGREEMENT * abs(expected):
            raise AssertionError(f"{place}: {what} is at {found} s at high and at {expected} s at medium detail")


def check_stepping(place: str, case: Case, medium: Run) -> None:
    """Long runs of steps are what single steps are."""
    stepping = attempt(place, STEPPING, case)
    for (what, expected), (_, found) in zip(times(stepping, []), times(medium, []), strict=True):
        if expected != found:
            raise AssertionError(
                f"{place}: a long run of steps is not what its single steps are: {what} is at {found} s, "
                f"and at {expected} s step by step"
            )


def times(run: Run, ranks: Sequence[int]) -> list[tuple[str, float]]:
    """Named times that both levels have, in a fixed order; in training for `ranks`."""
    if isinstance(run, TrainingRun):
        return [
            (f"the end of iteration {i} on rank {rank}", time_s)
            for rank in ranks
            for i, time_s in enumerate(run.iteration_end_s[rank])
        ]
    # Simultaneous events may be reported in another order.
    return sorted((f"request {request}: {event}", time_s) for event, request, time_s in run.history)


class Listener(Probe):
    """Hears everything and does nothing with it."""

    def operation(self, op: Operation, started_s: float, ended_s: float) -> None:
        """Record the event."""

    def waited(self, op: Recv, started_s: float, sent_s: float, ended_s: float) -> None:
        """Record the event."""

    def mark(self, rank: int, name: str, now_s: float) -> None:
        """Record the event."""

    def memory(self, rank: int, in_use_bytes: float, now_s: float) -> None:
        """Record the event."""
