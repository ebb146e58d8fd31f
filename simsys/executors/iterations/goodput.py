"""Goodput: the share of time in which a failing job makes progress."""

from __future__ import annotations

from math import exp, expm1, sqrt

from simsys.executors.iterations.campaign import Ledger, Progress


def goodput_metrics(ledger: Ledger, progress: Progress, duration_s: float, failures_per_s: float) -> dict[str, float]:
    """Metrics of a campaign.

    Goodput is the time of the kept iterations without failures and checkpoints, over the whole time. The optimal
    checkpoint interval is Young's: ``sqrt(2 · stop · MTBF)`` of work (Young 1974; Daly 2006, eq. 9).
    """
    failures = sum(ledger.failures.values())
    figures: dict[str, float] = {
        "goodput": ledger.iterations * progress.iteration_s / duration_s,
        "campaign_s": duration_s,
        "kept_iterations": ledger.iterations,
        "failures": failures,
        **{f"{cause}_failures": count for cause, count in ledger.failures.items()},
        "lost_s": ledger.lost_s,
        "down_s": ledger.down_s,
        "saving_s": ledger.checkpoint_s,
    }
    if failures_per_s:
        figures["mtbf_s"] = 1.0 / failures_per_s
        if progress.interval:
            best_s = sqrt(2.0 * progress.stop_s / failures_per_s)
            figures["optimal_checkpoint_interval"] = max(1, round(best_s / progress.iteration_s))
    return figures


def expected_goodput(progress: Progress, failures_per_s: float, down_s: float) -> float:
    """Expectation for exponential failures and checkpoints that are written while training stops.

    With MTBF M, work τ between checkpoints, stop δ and downtime R, a segment takes on average
    ``exp(R/M) · M · (exp((τ+δ)/M) − 1)`` (Daly 2006, "A higher order estimate of the optimum checkpoint interval for
    restart dumps", eq. 13, without the last segment's special case).
    """
    work_s = progress.interval * progress.iteration_s
    segment_s = exp(down_s * failures_per_s) / failures_per_s * expm1((work_s + progress.stop_s) * failures_per_s)
    return work_s / segment_s
