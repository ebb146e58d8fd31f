"""The models of contention by name, in one place."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from simsys.platform.fair import FairNetwork
from simsys.platform.fifo import CutThroughNetwork, StoreAndForwardNetwork
from simsys.platform.network import Network

NETWORKS: Mapping[tuple[str, str], type[Network[Any, Any]]] = {
    ("fifo", "cut_through"): CutThroughNetwork,
    ("fifo", "store_and_forward"): StoreAndForwardNetwork,
    ("fair", "cut_through"): FairNetwork,
}
"""Networks by contention and switching, named as in an experiment file."""
