"""From the settings of clients that give up to their columns of the request table."""

from __future__ import annotations

import math
from dataclasses import replace
from pathlib import Path

from simsys.build.distributions import draw_lengths, draw_times, draw_uniform
from simsys.config.cancellation import CancellationConfig, RetryConfig
from simsys.errors import UsageError
from simsys.serving.requests import RequestTable
from simsys.serving.selection import with_attempts

MOST_ATTEMPTS = 10_000_000
"""Largest number of requests with all their retries."""


def with_cancellation(config: CancellationConfig, table: RequestTable, seed: int, base_folder: Path) -> RequestTable:
    """Return the requests with the times and tokens at which clients cancel them, and rows for retries.

    Args:
        config: When clients give up.
        table: The requests.
        seed: The scenario's seed; each kind of draw has its own stream.
        base_folder: Folder from which the relative path of a file of lengths starts.

    Raises:
        UsageError: If there are too many requests with all their retries.
    """
    count = len(table)
    table = replace(table, ttft_timeout_s=config.ttft_timeout or math.inf, timeout_s=config.timeout or math.inf)
    if config.share is not None:
        share = config.share
        chosen = [drawn < share for drawn in draw_uniform(1.0, count, seed, "cancellation.share")]
        if config.after is not None:
            times_s = draw_times(config.after, count, seed, "cancellation.after")
            cancel_s = [time_s if each else math.inf for each, time_s in zip(chosen, times_s, strict=True)]
            table = replace(table, cancel_s=cancel_s)
        if config.after_tokens is not None:
            tokens = draw_lengths(config.after_tokens, count, seed, "cancellation.after_tokens", base_folder)
            enough = [number if each else 0 for each, number in zip(chosen, tokens, strict=True)]
            table = replace(table, cancel_tokens=enough)
    return table if config.retry is None else _with_retries(config.retry, table, seed)


def _with_retries(retry: RetryConfig, table: RequestTable, seed: int) -> RequestTable:
    count, most = len(table), retry.attempts
    if count * (1 + most) > MOST_ATTEMPTS:
        raise UsageError(
            f"{count:,} requests with {most} retries each are more than {MOST_ATTEMPTS:,}: give fewer retry.attempts"
        )
    waits_s = [min(retry.max_backoff, retry.backoff * retry.factor**number) for number in range(most)] * count
    if retry.jitter:
        drawn = draw_uniform(1.0, count * most, seed, "cancellation.jitter")
        waits_s = [wait_s * part for wait_s, part in zip(waits_s, drawn, strict=True)]
    return with_attempts(table, most, waits_s)
