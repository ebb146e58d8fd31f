"""Checks whether model states can be divided among the ranks as the options of data parallelism require."""

from __future__ import annotations

from simsys.build.rules.findings import Findings, Suggestion
from simsys.build.rules.nearest import nearest_divisors
from simsys.build.training_setup import TrainingSetup
from simsys.config.document import KeyPath
from simsys.errors import UsageError


def can_shard(setup: TrainingSetup, found: Findings) -> bool:
    """Whether the ranks can divide the model states; if not, record an error at the option."""
    options = setup.settings.options
    try:
        _ = setup.shards
    except UsageError as error:
        key = next((key for key in options if key in str(error)), None)
        path: KeyPath = ("training", "options") if key is None else ("training", "options", key)
        value = options.get(key or "")
        suggestion = None
        if key is not None and isinstance(value, int):
            near = nearest_divisors(setup.layout.replicas, value)
            suggestion = Suggestion([[{f"training.options.{key}": each}] for each in near])
        found.error(path, str(error), suggestion=suggestion)
        return False
    return True
