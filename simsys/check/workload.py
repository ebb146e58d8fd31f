"""Whether a workload can be read, and whether any of its requests can be served."""

from __future__ import annotations

from simsys.build.workload import build_requests
from simsys.check.findings import Findings
from simsys.config.document import KeyPath
from simsys.config.experiment import SimulationConfig
from simsys.config.lengths import FixedLength, Length, TraceLength, UniformLength
from simsys.errors import TraceError
from simsys.model.model import Model
from simsys.serving.requests import RequestTable


def check_workload(config: SimulationConfig, model: Model | None, found: Findings) -> int:
    """Read the trace, if there is one, and compare the shortest request with the model's context.

    Returns:
        Tokens (prompt and output) of the shortest request that the workload can hold.
    """
    if config.workload is None:
        return 1
    requests = _read_trace(config, found) if config.workload.trace is not None else None
    shortest = _shortest_request(config, requests)
    if model is not None:
        _check_context(config, model, shortest, found)
    return shortest


def _read_trace(config: SimulationConfig, found: Findings) -> RequestTable | None:
    assert config.workload is not None
    try:
        return build_requests(config.workload, config.simulation.seed, config.folder)
    except TraceError as error:
        few = "num_requests asks for" in str(error)
        path: KeyPath = ("workload", "num_requests") if few else ("workload", "trace", "path")
        found.error(path, str(error))
        return None


def _shortest_request(config: SimulationConfig, requests: RequestTable | None) -> int:
    workload = config.workload
    assert workload is not None
    if requests is not None and len(requests):
        return min(map(sum, zip(requests.prompt_tokens, requests.output_tokens, strict=True)))
    return _shortest(workload.prompt_tokens) + _shortest(workload.output_tokens)


def _shortest(length: Length) -> int:
    """The fewest tokens that a distribution can draw."""
    match length:
        case FixedLength():
            return length.tokens
        case UniformLength():
            return length.low
        case TraceLength():
            return 1
        case _:
            return length.min


def _check_context(config: SimulationConfig, model: Model, shortest: int, found: Findings) -> None:
    """A request beyond the context is rejected and counted; a workload of nothing else is a mistake."""
    assert config.serving is not None
    limit = config.serving.max_model_len or model.max_context_tokens
    if model.kv_elements_per_token and limit and shortest > limit:
        whose = "max_model_len" if config.serving.max_model_len else f"the context of {model.name}"
        message = f"every request has {shortest} tokens or more (prompt and output), {whose} is {limit}"
        found.error(("workload", "prompt_tokens"), f"{message}: all would be rejected")
