"""Small, idealised hardware, models and workloads with times that can be computed by hand."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

from simsys.collectives.choose import cheapest
from simsys.executors import LEVELS
from simsys.executors.execution_model import ExecutionModel
from simsys.executors.executor import Executor
from simsys.executors.recording import Recording
from simsys.model.model import Model
from simsys.model.operators import OperatorKind
from simsys.model.transformer import build_transformer
from simsys.model.transformer_architecture import gpt_architecture
from simsys.model.work import Precision
from simsys.parallel.layout import Layout
from simsys.platform.device_spec import DeviceSpec, EfficiencyCurve
from simsys.platform.environment import Environment
from simsys.platform.platform import Platform
from simsys.platform.topology import Topology, full_mesh
from simsys.probes import Probe, Probes
from simsys.rng import stream
from simsys.serving.requests import RequestTable

TOY_LINK_BYTES_PER_S = 1e9
TOY_LINK_LATENCY_S = 1e-6
TOY_HOST_BYTES_PER_S = 10e9
STEPPING = "stepping"
"""Medium detail in which every run of serving steps is one step long."""
MAX_EVENTS = 300_000
"""Number of events after which a run on toy scenarios counts as endless."""
RUNS: dict[str, Callable[..., Executor]] = {"recording": Recording, **LEVELS, STEPPING: LEVELS["medium"]}
"""Ways to carry out operations, by name."""


def toy_device() -> DeviceSpec:
    """A GPU without losses: 1 TFLOP/s in every dtype, 100 GB/s, 10 GB of memory; all efficiencies are 1.

    Its host is reached at 1 GB/s in each direction after 1 us, and updates at 10 GB/s.
    """
    perfect = {"default": EfficiencyCurve(rows=(1.0,), compute=(1.0,), memory=(1.0,))}
    return DeviceSpec(
        name="toy",
        peak_flop_per_s=dict.fromkeys(("fp32", "tf32", "fp16", "bf16", "fp8"), 1e12),
        memory_bytes=10e9,
        memory_bytes_per_s=100e9,
        link_bytes_per_s=TOY_LINK_BYTES_PER_S,
        link_latency_s=TOY_LINK_LATENCY_S,
        pcie_bytes_per_s=TOY_LINK_BYTES_PER_S,
        pcie_latency_s=TOY_LINK_LATENCY_S,
        tdp_watt=100.0,
        usd_per_hour=1.0,
        curves={kind.value: perfect for kind in OperatorKind},
        floor_s={},
        host_update_bytes_per_s=TOY_HOST_BYTES_PER_S,
    )


def toy_platform(num_gpus: int = 1, topology: Topology | None = None) -> Platform:
    """Several of `toy_device`, joined by `topology`.

    Args:
        num_gpus: How many.
        topology: Links; by default each pair has its own of 1 GB/s and 1 us, so that nothing contends.
    """
    links = topology if topology is not None else full_mesh(num_gpus, TOY_LINK_BYTES_PER_S, TOY_LINK_LATENCY_S)
    return Platform([toy_device()] * num_gpus, links)


def toy_executor(level: str, layout: Layout, roles: Sequence[Sequence[int]], probes: Iterable[Probe] = ()) -> Executor:
    """An executor over as many toy GPUs as the layout has ranks.

    Args:
        level: ``recording``, a level of detail, or ``stepping``.
        layout: The arrangement of the ranks.
        roles: Sets of ranks that do the same work at the same time.
        probes: Observers.
    """
    model = ExecutionModel(cheapest, Precision(), per_layer_s=1e-6, stepping=level == STEPPING)
    return RUNS[level](toy_platform(layout.world_size), model, roles, Probes(probes))


def finish(env: Environment) -> None:
    """Run to the end, which must come within `MAX_EVENTS` events."""
    for _ in range(MAX_EVENTS):
        if env.peek() == float("inf"):
            return
        env.step()
    raise AssertionError(f"no end within {MAX_EVENTS} events, at {env.now} s")


def toy_model(num_layers: int = 2) -> Model:
    """A decoder of hidden size 64 with 4 heads and a vocabulary of 256: some 130 thousand parameters."""
    architecture = gpt_architecture(
        "toy", num_layers=num_layers, hidden_size=64, num_attention_heads=4, vocab_size=256, max_context_tokens=64
    )
    return build_transformer(architecture)


def toy_requests(
    count: int = 40, *, seed: int = 0, rate_per_s: float = 20e3, max_prompt: int = 40, max_output: int = 24
) -> RequestTable:
    """Poisson arrivals with lengths drawn evenly from 1 to `max_prompt` and `max_output` tokens.

    The default rate keeps a `toy_device` with a `toy_model` busy, so that requests queue.
    """
    arrivals = stream(seed, "arrivals").exponential(1.0 / rate_per_s, count).cumsum().tolist()
    prompts = stream(seed, "prompt_tokens").integers(1, max_prompt, count, endpoint=True).tolist()
    outputs = stream(seed, "output_tokens").integers(1, max_output, count, endpoint=True).tolist()
    return RequestTable(arrivals, prompts, outputs)
