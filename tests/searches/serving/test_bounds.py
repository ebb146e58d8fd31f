import pytest

from simsys.searches.serving.targets import missed
from tests.helpers.serving_spaces import every_size, random_question, run, serving, shown, space
from tests.helpers.thorough import cases

BOUNDED = {
    **dict.fromkeys(["num_gpus", "usd_per_hour", "usd_per_million_tokens", "usd_per_million_output_tokens"], False),
    **dict.fromkeys(
        [f"{each}_{name}_ms" for each in ("mean", "median", "p99") for name in ("ttft", "tpot", "e2el")], False
    ),
    **dict.fromkeys(["request_throughput", "output_throughput", "total_token_throughput", "slo_attainment"], True),
}


def losses(seed):
    """Deployments that meet the targets but were left out, wrong bounds, and counts."""
    return losses_of(*random_question(seed))


def losses_of(config, over):
    """As `losses`, of a given question."""
    every = every_size(space(config, over, judged=False).candidates())
    kept = {shown(each) for each in every_size(space(config, over).candidates())}
    lost, wrong, good = [], [], 0
    for each in every:
        metrics = run(each)
        if not metrics:
            continue
        if not missed(config, metrics):
            good += 1
            lost += [] if shown(each) in kept else [each.settings]
        divided = each.shape.divided(each.replicas) or (each.replicas, each.replicas)
        for name, largest in BOUNDED.items():
            value = {**metrics, "num_gpus": each.gpus}.get(name)
            best = each.values.best(name, each.gpus, each.shape.fleet.price, *divided)
            if value is not None and (value > best * (1 + 1e-9) if largest else value < best * (1 - 1e-9)):
                wrong.append((name, value, best, each.settings))
    return lost, wrong, good, len(every)


@pytest.mark.parametrize("seed", range(cases(40)))
def test_no_deployment_that_meets_the_targets_is_left_out_and_no_bound_is_beyond_its_value(seed):
    lost, wrong, _, _ = losses(seed)
    assert not lost
    assert not wrong


@pytest.mark.slow
def test_bounds_hold_in_many_spaces():
    found = [losses(seed) for seed in range(1000, 1620)]
    assert not [each for lost, wrong, _, _ in found for each in (*lost, *wrong)]
    assert sum(good > 0 for _, _, good, _ in found) > 150
    assert sum(count > 1 for *_, count in found) > 300


DRAFTS = {"speculative": {"draft_tokens": 2, "acceptance_rate": 0.7, "draft_layers": 1}}


@pytest.mark.parametrize("engine", [{}, DRAFTS], ids=["plain", "drafts"])
@pytest.mark.parametrize("rate", [4, 40])
def test_bounds_hold_for_ranks_that_share_their_experts(rate, engine):
    """Engines of a replica step together: each has its own requests, and the experts' part of all ranks."""
    slo = {"ttft": "200 ms", "tpot": "8 ms"}
    config = serving(
        model="gpt-oss-20b", rate=rate, prompt=300, count=40, slo=slo, serving={"engine": "vllm", **engine}
    )
    over = {
        "parallelism.attention_dp": [1, 2, 4],
        "parallelism.tp_degree": [1, 2],
        "parallelism.dp_degree": [1, 2],
        "parallelism.ep_degree": "auto",
    }
    lost, wrong, good, count = losses_of(config, over)
    assert not lost
    assert not wrong
    assert good > 0
    assert count > 12
