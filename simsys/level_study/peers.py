"""What other simulators were measured to take for the same work: constants, which nothing here measures again."""

from __future__ import annotations

from typing import NamedTuple


class Peer(NamedTuple):
    """One figure of another simulator.

    Args:
        name: Which.
        least: What was measured, at least.
        most: The same, at most.
        unit: Of both.
        scenario: The name of the scenario here that does the same work.
    """

    name: str
    least: float
    most: float
    unit: str
    scenario: str


MACHINE = "a shared two-core x86 machine"
"""Machine of the measurements, which were made at another time than the others on the page."""
LLAMA = "peer-llama2-7b-6-per-s"
CONTENDED = "peer-llama2-7b-tp2-300"
PEERS = (
    Peer("Vidur", 405.0, 422.0, "requests per CPU-second", LLAMA),
    Peer("TokenSim (on SimPy)", 370.0, 370.0, "requests per CPU-second", LLAMA),
    Peer("BLIS (in Go)", 2430.0, 2520.0, "requests per CPU-second", LLAMA),
    Peer("a peer with contended links", 157.0, 396.0, "seconds", CONTENDED),
)
