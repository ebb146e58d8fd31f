"""From the description of a workload to its requests: the one place that knows both sides."""

from __future__ import annotations

from pathlib import Path

from simsys.config.arrivals import AllAtOnceArrivals, Arrivals, ConstantArrivals, GammaArrivals, PoissonArrivals
from simsys.config.lengths import FixedLength, Length, LognormalLength, NormalLength, TraceLength, UniformLength
from simsys.config.workload import TraceConfig, WorkloadConfig
from simsys.errors import TraceError
from simsys.rng import stream
from simsys.serving import arrivals, lengths
from simsys.serving.requests import RequestTable
from simsys.serving.traces import read_trace


def build_requests(workload: WorkloadConfig, seed: int, base_folder: Path) -> RequestTable:
    """Draw or read the requests of a workload.

    Each column has its own random stream, so changing one distribution leaves the other columns as they were,
    and the first n requests are the same whatever `num_requests` is.

    Args:
        workload: What to draw or read.
        seed: The scenario's seed.
        base_folder: Where a relative path of a trace starts: the folder of the experiment file.

    Raises:
        TraceError: If the trace cannot be read or holds fewer requests than asked for.
        UsageError: If a rate is so low that arrivals lie beyond what a float can hold.
    """
    trace = _read(workload.trace, workload.num_requests, base_folder) if workload.trace else _NO_TRACE
    count = workload.num_requests or len(trace)
    return RequestTable(
        arrival_s=_arrivals(workload.arrivals, count, seed, trace),
        prompt_tokens=_lengths(workload.prompt_tokens, count, seed, "prompt_tokens", trace.prompt_tokens),
        output_tokens=_lengths(workload.output_tokens, count, seed, "output_tokens", trace.output_tokens),
    )


_NO_TRACE = RequestTable([], [], [])


def _read(trace: TraceConfig, num_requests: int | None, base_folder: Path) -> RequestTable:
    path = base_folder / Path(trace.path).expanduser()
    table, _ = read_trace(path, max_requests=num_requests or trace.max_requests, rate_scale=trace.rate_scale)
    if num_requests is not None and len(table) < num_requests:
        raise TraceError(f"{path}: holds {len(table)} requests, but num_requests asks for {num_requests}")
    return table


def _arrivals(config: Arrivals, count: int, seed: int, trace: RequestTable) -> list[float]:
    rng = stream(seed, "arrivals")
    match config:
        case PoissonArrivals():
            return arrivals.poisson(config.rate, count, rng)
        case GammaArrivals():
            return arrivals.gamma(config.rate, config.burstiness, count, rng)
        case ConstantArrivals():
            return arrivals.constant(config.rate, count)
        case AllAtOnceArrivals():
            return arrivals.all_at_once(count)
        case _:
            return trace.arrival_s


def _lengths(config: Length, count: int, seed: int, name: str, traced: list[int]) -> list[int]:
    rng = stream(seed, name)
    match config:
        case FixedLength():
            return lengths.fixed(config.tokens, count)
        case UniformLength():
            return lengths.uniform(config.low, config.high, count, rng)
        case NormalLength():
            return lengths.normal(config.mean, config.std, config.min, config.max, count, rng)
        case LognormalLength():
            return lengths.lognormal(config.mean, config.sigma, config.min, config.max, count, rng)
        case TraceLength():
            return traced
