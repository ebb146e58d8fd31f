"""The greatest rate that meets an SLO: known from queueing theory, bracketed, deterministic."""

from __future__ import annotations

import pickle

import pytest

from simsys import SimulationConfig
from simsys.capacity import GreatestRate, greatest_rate, steady_state
from simsys.capacity.rate import at_rate, rate_of
from simsys.errors import UsageError
from simsys.simulation import simulate
from tests.helpers.capacity_toys import chat, one_seat
from tests.helpers.places import ROOT


@pytest.fixture(scope="module")
def service_s() -> tuple[float, float]:
    """Time of prefill and of the whole service of a request that is alone."""
    metrics = simulate(one_seat(0.001)).metrics
    return metrics["mean_prefill_ms"] / 1e3, metrics["mean_inference_ms"] / 1e3


@pytest.fixture(scope="module")
def answer() -> GreatestRate:
    """The answer for `chat`."""
    return greatest_rate(chat(4.0))


@pytest.mark.parametrize("wait", [*(pytest.param(wait, marks=pytest.mark.slow) for wait in (0.25, 8.0)), 1.0])
def test_one_server_has_the_rate_of_pollaczek_and_khinchine(service_s: tuple[float, float], wait: float) -> None:
    """The mean wait of M/D/1 is load / (2 (1 - load)) services, of which the greatest load follows."""
    prefill_s, each_s = service_s
    expected = 2.0 * wait / (1.0 + 2.0 * wait) / each_s
    slo = {"mean_ttft": f"{prefill_s + wait * each_s!r} s"}
    found = greatest_rate(one_seat(0.5 / each_s, slo=slo))
    assert found.requests_per_s == pytest.approx(expected, rel=0.04)


def test_the_answer_meets_the_slo_and_two_percent_more_do_not(answer: GreatestRate) -> None:
    config, found = chat(), answer
    assert found.requests_per_s is not None
    assert found.missing_per_s is not None
    assert found.requests_per_s < found.missing_per_s <= 1.02 * found.requests_per_s
    at_best = steady_state(at_rate(config, found.requests_per_s))
    assert at_best.is_steady
    assert at_best.metrics["slo_met"] == 1
    rates = {"goodput": found.requests_per_s, "goodput_missing": found.missing_per_s, "goodput_unit": "req/s"}
    assert found.metrics == {**at_best.metrics, **rates}
    more = steady_state(at_rate(config, 1.02 * found.requests_per_s))
    assert not (more.is_steady and more.metrics["slo_met"])
    assert found.simulations <= 12
    bracket = f"({found.requests_per_s:.4g}–{found.missing_per_s:.4g})"
    assert found.text == f"greatest rate: {found.requests_per_s:.3g} req/s {bracket}, steady; 8 simulations"


@pytest.mark.slow
def test_it_is_deterministic_and_can_be_pickled() -> None:
    config = one_seat(1.0, slo={"p90_ttft": "1 s"})
    first = greatest_rate(config, tolerance=0.2)
    second = pickle.loads(pickle.dumps(greatest_rate))(config, tolerance=0.2)
    assert first == second
    assert pickle.loads(pickle.dumps(first)) == first


@pytest.mark.slow
def test_where_the_search_begins_matters_less_than_the_tolerance() -> None:
    rates = [
        greatest_rate(one_seat(rate_per_s, slo={"p90_ttft": "1 s"}), tolerance=0.1).requests_per_s or 0.0
        for rate_per_s in (0.1, 50.0)
    ]
    assert 0.0 < max(rates) <= 1.1 * min(rates)


@pytest.mark.slow
def test_a_stricter_slo_never_has_a_greater_rate() -> None:
    rates = [
        greatest_rate(one_seat(0.5, slo={"p90_ttft": f"{limit_ms} ms"}), tolerance=0.2).requests_per_s or 0.0
        for limit_ms in (10, 500, 4000)
    ]
    assert rates == sorted(rates)
    assert rates[0] == 0.0
    assert 0.0 < rates[1] < rates[-1]


def test_an_slo_that_one_request_alone_misses_has_no_rate() -> None:
    found = greatest_rate(chat().with_({"slo": {"tpot": "5 ms"}}))
    assert found.requests_per_s is None
    assert found.metrics == {}
    assert found.text == "no rate meets the SLO: 0.0% of the requests meet all targets, 99 % have to"
    assert found.simulations <= 4


@pytest.mark.slow
def test_further_demands_count(answer: GreatestRate) -> None:
    def small_batch(metrics: object) -> list[str]:
        assert isinstance(metrics, dict)
        return ["the batch is too large"] if metrics["mean_batch_size"] > 8.0 else []

    strict = greatest_rate(chat(4.0), also=small_batch, tolerance=0.2)
    assert strict.requests_per_s is not None
    assert answer.requests_per_s is not None
    assert strict.requests_per_s < answer.requests_per_s
    assert strict.metrics["mean_batch_size"] <= 8.0


@pytest.mark.parametrize(
    ("config", "message"),
    [
        (chat(slo=None), "that under an SLO"),
        (chat().with_({"workload.arrivals": {"kind": "closed_loop", "concurrency": 4}}), "not of kind closed_loop"),
        (
            chat().with_(
                {"workload.arrivals": {"kind": "time_varying", "rates": [{"duration": "9 s", "rate": "1 req/s"}]}}
            ),
            "not of kind time_varying",
        ),
    ],
)
def test_a_question_without_an_answer_is_refused(config: SimulationConfig, message: str) -> None:
    with pytest.raises(UsageError, match=message):
        greatest_rate(config)


@pytest.mark.slow
def test_a_trace_is_replayed_faster() -> None:
    from simsys.build.workload import build_requests

    config = SimulationConfig.from_yaml(ROOT / "experiments" / "serving.yaml", "chat-trace")
    config = config.with_({"workload.num_requests": 500, "simulation.duration": None})
    faster = at_rate(config, 3.0 * rate_of(config))
    assert faster.workload is not None
    assert faster.workload.trace is not None
    assert faster.workload.trace.rate_scale == pytest.approx(12.0)
    assert rate_of(faster) == pytest.approx(3.0 * rate_of(config))
    assert config.workload is not None
    one, three = (build_requests(each.workload, 1, config.folder) for each in (config, faster) if each.workload)
    assert one.prompt_tokens == three.prompt_tokens
    found = greatest_rate(config.with_({"slo": {"p90_ttft": "500 ms"}}), tolerance=0.3)
    assert found.requests_per_s is not None
    assert found.requests_per_s > rate_of(config)


@pytest.mark.slow
def test_rates_of_conversations_have_their_unit() -> None:
    lengths = {"workload.prompt_tokens": 200, "workload.output_tokens": 50}
    config = chat(4.0).with_({**lengths, "workload.sessions": {"turns": 3, "think_time": "1 s"}})
    found = greatest_rate(config, tolerance=0.5)
    assert found.unit == "conversations/s"
    assert " conversations/s (" in found.text
    assert found.requests_per_s is not None
    assert found.metrics["served_requests_per_s"] == pytest.approx(3.0 * found.requests_per_s, rel=0.1)


def test_gaps_between_arrivals_keep_their_ratios() -> None:
    from simsys.build.workload import build_requests

    for kind in ({"kind": "gamma", "burstiness": 0.5, "rate": "1 req/s"}, {"kind": "poisson", "rate": "1 req/s"}):
        config = chat().with_({"workload.arrivals": kind})
        faster = at_rate(config, 3.0)
        assert rate_of(faster) == 3.0
        assert config.workload is not None
        assert faster.workload is not None
        one, three = (build_requests(each.workload, 1, config.folder) for each in (config, faster))
        assert one.prompt_tokens == three.prompt_tokens
        assert one.arrival_s == pytest.approx([3.0 * time_s for time_s in three.arrival_s], rel=1e-12)
