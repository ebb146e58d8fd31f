"""From a scenario's failures to the goodput of weeks of training."""

from __future__ import annotations

from simsys.build.cluster import Cluster
from simsys.config.iterations import FailuresConfig
from simsys.executors.iterations.campaign import Campaign, Progress
from simsys.executors.iterations.checkpoints import Checkpoints
from simsys.executors.iterations.goodput import goodput_metrics
from simsys.platform.environment import Environment
from simsys.rng import stream
from simsys.sums import ordered_sum


def failure_rates(failures: FailuresConfig, cluster: Cluster) -> dict[str, float]:
    """Failures per second of the whole cluster, by cause; the network cards of a single node are unused."""
    cards = cluster.num_nics if cluster.num_nodes > 1 else 0
    counts = {"gpu": cluster.num_gpus, "node": cluster.num_nodes, "link": cards}
    mtbf_s = {"gpu": failures.gpu_mtbf, "node": failures.node_mtbf, "link": failures.link_mtbf}
    return {cause: counts[cause] / each_s for cause, each_s in mtbf_s.items() if each_s is not None}


def run_campaign(
    failures: FailuresConfig,
    cluster: Cluster,
    iteration_s: float,
    checkpoints: Checkpoints | None,
    reading_s: float,
    seed: int,
) -> dict[str, float]:
    """Simulate the `duration` of `failures`; returns figures as `goodput_metrics`.

    Args:
        failures: Mean times between failures, and the time lost by each.
        cluster: GPUs, nodes and network cards that fail.
        iteration_s: Time of an iteration without failures (s).
        checkpoints: Interval and times of checkpoints; None if there are none.
        reading_s: Time to read a checkpoint after a failure (s).
        seed: The seed of the scenario.
    """
    progress, down_s = Progress(iteration_s), failures.detection + failures.restart + reading_s
    if checkpoints is not None:
        progress = Progress(iteration_s, checkpoints.interval, checkpoints.stop_s, checkpoints.background_s)
    rates = failure_rates(failures, cluster)
    env = Environment()
    campaign = Campaign(env, progress, rates, down_s, stream(seed, "failures"))
    env.process(campaign.run(failures.duration))
    env.run()
    return goodput_metrics(campaign.ledger, progress, failures.duration, ordered_sum(rates.values()))
