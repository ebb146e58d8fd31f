"""Checks whether a workload can be read, and whether any of its requests can be served."""

from __future__ import annotations

from contextlib import suppress

from simsys.build.resolved_serving import ResolvedServing
from simsys.build.rules.findings import Findings, Suggestion
from simsys.build.rules.registry import Parts, rule
from simsys.build.workload import build_requests
from simsys.config.document import KeyPath
from simsys.config.experiment import SimulationConfig
from simsys.config.lengths import EmpiricalLength, FixedLength, Length, TraceLength, UniformLength
from simsys.config.workload import WorkloadConfig
from simsys.errors import SimsysError, TraceError, UsageError
from simsys.framework import FRAMEWORKS, Scheduler
from simsys.model.model import Model
from simsys.serving.requests import RequestTable
from simsys.units import LONGEST_S

MOST_DRAWN = 1_000_000
"""The most independent requests that the check draws. Of more, some arrive in any time that is long enough for them,
and the mean of their rate says how long they arrive."""


@rule("workload")
def requests_can_be_served(parts: Parts, found: Findings) -> None:
    """The files of a workload can be read, and not every request is longer than the model's context."""
    config, workload = parts.config, parts.config.timed_workload
    assert workload is not None
    if workload.missing:
        found.error(("workload",), workload.missing)
        return
    if _takes_ages(workload, found):
        return
    parts.requests = _drawn_if_needed(config, workload, found)
    parts.shortest_request_tokens = _shortest_request(workload, parts.requests)
    if parts.serving is not None:
        _check_step(parts.serving, _shortest_prompt(workload, parts.requests), found)
    if parts.model is not None:
        _check_context(config, parts.model, parts.shortest_request_tokens, found)


def _drawn_if_needed(config: SimulationConfig, workload: WorkloadConfig, found: Findings) -> RequestTable | None:
    """The requests if only they show whether they can be made; of very many independent ones, only files are read."""
    shared = workload.sessions is not None or workload.prefixes is not None  # they may have too many blocks
    if workload.trace is None and not shared and workload.expected_requests > MOST_DRAWN:
        if workload.num_requests is None and workload.expected_requests > workload.most_requests:
            return _build(config, workload, found)  # an error before anything is drawn
        if _files(workload):
            _build(config, workload.model_copy(update={"num_requests": 1, "duration": None}), found)
        return None
    uncertain = workload.trace is not None or workload.duration is not None or shared or _lasts_long(workload)
    return _build(config, workload, found) if uncertain or _files(workload) else None


def _lasts_long(workload: WorkloadConfig) -> bool:
    """Whether random arrivals may last longer than can be simulated."""
    rate = getattr(workload.arrivals, "rate", None)
    return rate is not None and (workload.num_requests or 1) / rate > LONGEST_S / 1000


def _takes_ages(workload: WorkloadConfig, found: Findings) -> bool:
    """Record a rate so low that requests arrive for longer than can be simulated."""
    rate = getattr(workload.arrivals, "rate", None)
    if rate is None or workload.num_requests is None or workload.num_requests / rate <= LONGEST_S:
        return False
    lasts_s = workload.num_requests / rate
    message = f"{workload.num_requests} requests arrive for {lasts_s:.3g} s, at most {LONGEST_S:g} s (300 years) are"
    found.error(
        ("workload", "arrivals", "rate"),
        f"{message} simulated; write {workload.num_requests / LONGEST_S:g} req/s or more",
    )
    return True


def _build(config: SimulationConfig, workload: WorkloadConfig, found: Findings) -> RequestTable | None:
    try:
        return build_requests(workload, config.simulation.seed, config.folder)
    except UsageError as error:
        found.error(_place(config, workload, error), str(error))
        return None


def _place(config: SimulationConfig, workload: WorkloadConfig, error: UsageError) -> KeyPath:
    """The setting that an error of the requests is about."""
    message = str(error)
    if "think times" in message:
        return ("workload", "trace" if workload.sessions is None else "sessions", "think_time")
    if "images" in message:
        return ("workload", "images")
    if "retry.attempts" in message:
        return ("workload", "cancellation", "retry", "attempts")
    if "turns in all" in message:
        return ("workload", "sessions", "turns")
    if "that may be shared" in message:
        return ("workload", "prefixes" if workload.prefixes is not None else "sessions")
    if not isinstance(error, TraceError):
        if workload.duration is None:
            return ("workload", "arrivals")
        return ("workload", "duration") if workload is config.workload else ("simulation", "duration")
    if "num_requests asks for" in message:
        return ("workload", "num_requests")
    for path, file in _files(workload).items():
        if file in message.partition(": ")[0]:
            return path
    return ("workload", "trace", "path")


def _files(workload: WorkloadConfig) -> dict[KeyPath, str]:
    """Files of observed lengths, by the path of their setting."""
    parts: dict[KeyPath, Length | None] = {
        ("workload", "prompt_tokens"): workload.prompt_tokens,
        ("workload", "output_tokens"): workload.output_tokens,
        ("workload", "sessions", "turns"): workload.sessions.turns if workload.sessions else None,
        ("workload", "cancellation", "after_tokens"): (
            workload.cancellation.after_tokens if workload.cancellation else None
        ),
        ("workload", "prefixes", "tokens"): workload.prefixes.tokens if workload.prefixes else None,
    }
    return {
        (*path, "file"): part.file
        for path, part in parts.items()
        if isinstance(part, EmpiricalLength) and part.file is not None
    }


def _shortest_request(workload: WorkloadConfig, requests: RequestTable | None) -> int:
    if requests is not None:
        return min(map(sum, zip(requests.prompt_tokens, requests.output_tokens, strict=True)))
    return _shortest_prompt(workload, requests) + _shortest(workload.output_tokens)


def _shortest_prompt(workload: WorkloadConfig, requests: RequestTable | None) -> int:
    if requests is not None:
        return min(requests.prompt_tokens)
    prefix = _shortest(workload.prefixes.tokens) if workload.prefixes is not None else 0
    return prefix + _shortest(workload.prompt_tokens)


def _shortest(length: Length) -> int:
    """The fewest tokens that a distribution can draw; 1 for lengths from files."""
    match length:
        case FixedLength():
            return length.tokens
        case UniformLength():
            return length.low
        case TraceLength():
            return 1
        case EmpiricalLength():
            return min(length.values or [1])
        case _:
            return length.min


def _check_context(config: SimulationConfig, model: Model, shortest: int, found: Findings) -> None:
    """A request beyond the context is rejected and counted; a workload with only such requests is an error."""
    assert config.serving is not None
    limit = config.serving.max_model_len or model.max_context_tokens
    if model.kv_elements_per_token and limit and shortest > limit:
        whose = "max_model_len" if config.serving.max_model_len else f"the context of {model.name}"
        message = f"every request has {shortest} tokens or more (prompt and output), {whose} is {limit}"
        found.error(("workload", "prompt_tokens"), f"{message}: all would be rejected")


def _check_step(settings: ResolvedServing, shortest: int, found: Findings) -> None:
    """A prompt that exceeds a step and cannot be cut is rejected; a workload with only such prompts is an error."""
    name, limit = settings.scheduler, settings.max_num_batched_tokens
    cuts = True
    with suppress(SimsysError):  # an unknown module is reported by another rule
        cuts = FRAMEWORKS.get(name, Scheduler).cuts_prompts
    if not cuts and shortest > limit:
        message = f"every prompt has {shortest} tokens or more, which {name} does not cut: all would be rejected"
        suggestion = Suggestion([[{"serving.max_num_batched_tokens": shortest}]], "write {} or more")
        found.error(("workload", "prompt_tokens"), message, suggestion=suggestion)
