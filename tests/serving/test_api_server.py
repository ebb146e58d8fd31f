"""The server before the engine: its queue, against SimPy's resources and queueing theory, and in a scenario."""

from __future__ import annotations

from typing import Any

import pytest
import simpy
from hypothesis import given
from hypothesis import strategies as st

from simsys import DistributedAISimulator, SimulationConfig
from simsys.errors import UsageError
from simsys.serving.api_server import ApiServer

TIMES = st.lists(st.tuples(st.floats(0, 10), st.integers(1, 1000)), min_size=1, max_size=30)


@given(st.integers(1, 4), TIMES)
def test_a_request_is_ready_when_a_resource_of_simpy_would_have_served_it(count: int, drawn: Any) -> None:
    drawn = sorted(drawn, key=lambda each: each[0])
    prompts = [tokens for _, tokens in drawn]
    server = ApiServer(count, 0.1, 1e-3, prompts)
    found = [server.ready_s(request, now_s) for request, (now_s, _) in enumerate(drawn)]

    env, ready_s = simpy.Environment(), dict[int, float]()
    processes = simpy.Resource(env, count)

    def served(request: int) -> Any:
        yield env.timeout(drawn[request][0])
        with processes.request() as turn:
            yield turn
            yield env.timeout(0.1 + 1e-3 * prompts[request])
        ready_s[request] = env.now

    for request in range(len(drawn)):
        env.process(served(request))
    env.run()
    assert found == pytest.approx([ready_s[request] for request in range(len(drawn))])


def test_a_server_has_a_process() -> None:
    with pytest.raises(UsageError, match="at least one process, not 0"):
        ApiServer(0, 1.0, 0.0, [])


def scenario(api_server: Any, lod: str = "medium", **workload: Any) -> SimulationConfig:
    load = {"arrivals": {"kind": "poisson", "rate": "5 req/s"}, "prompt_tokens": 64, "output_tokens": 2}
    return SimulationConfig.model_validate(
        {
            "hardware": {"profile": "dgx-h100", "gpus_per_node": 1},
            "model": {"name": "GPT2-Small"},
            "serving": {"engine": "vllm", "api_overhead": "0 s", "api_server": api_server},
            "workload": {**load, "num_requests": 20_000, **workload},
            "simulation": {"lod": lod},
        }
    )


def test_mean_wait_is_that_of_the_queue_m_d_1() -> None:
    """Pollaczek and Khinchine: rho x service / (2 x (1 - rho)); the engine itself waits for hardly any."""
    service_s, rate = 0.1, 5.0
    rho = service_s * rate
    expected_ms = 1e3 * (service_s + rho * service_s / (2.0 * (1.0 - rho)))
    metrics = DistributedAISimulator(scenario({"per_request": "100 ms"})).run().metrics
    assert metrics["mean_queue_ms"] == pytest.approx(expected_ms, rel=0.04)


def test_tokens_take_time_too_and_more_processes_less() -> None:
    def ttft_ms(api_server: Any) -> float:
        return float(DistributedAISimulator(scenario(api_server, num_requests=500)).run().metrics["mean_ttft_ms"])

    slow, wide = ttft_ms({"per_prompt_token": "2 ms"}), ttft_ms({"per_prompt_token": "2 ms", "count": 4})
    assert ttft_ms(None) + 64 * 2.0 <= wide < slow
    assert ttft_ms({"per_request": "128 ms"}) == pytest.approx(slow, rel=1e-9)


def test_both_levels_agree() -> None:
    each = [
        DistributedAISimulator(scenario({"per_request": "150 ms"}, lod, num_requests=100)).run().metrics
        for lod in ("medium", "high")
    ]
    for name in ("mean_ttft_ms", "p99_ttft_ms", "mean_tpot_ms", "p99_queue_ms"):
        assert each[0][name] == pytest.approx(each[1][name], rel=1e-9)


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({}, "a server that needs no time has no effect"),
        ({"per_request": "1 ms", "count": 0}, "api_server.count"),
        ({"per_token": "1 ms"}, "per_token"),
    ],
)
def test_what_has_no_effect_or_is_unknown_is_refused(given: Any, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        scenario(given)
