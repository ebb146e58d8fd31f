"""How an operation is simulated: one executor per level of detail, chosen once, by name."""

from __future__ import annotations

from simsys.executors.base import Executor
from simsys.executors.high import HighDetail
from simsys.executors.medium import MediumDetail

LEVELS: dict[str, type[Executor]] = {"high": HighDetail, "medium": MediumDetail}
"""The only place where a level of detail has a name."""

__all__ = ["LEVELS", "Executor", "HighDetail", "MediumDetail"]
