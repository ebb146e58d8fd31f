"""One probe for each job."""

from __future__ import annotations

from simsys.probes import Probe
from simsys.traces.per_job import PerJob
from tests.helpers.traced_scenarios import JOBS, of, training


class Named(Probe):
    """A probe with a name."""

    def __init__(self, name: str) -> None:
        self.name = name


def test_without_jobs_there_is_one_probe() -> None:
    made = PerJob(training(), lambda config, job: Named(f"{config.name}{job}"))
    assert [(name, each.name) for name, each in made.parts.items()] == [("", "gpt2")]
    assert made.probe is made.parts[""]


def test_a_job_that_is_simulated_again_has_a_new_probe() -> None:
    made = PerJob(of(JOBS), lambda config, job: Named(f"{config.kind} {job}"))
    assert made.parts == {}
    last = [made.of_job(name) for name in ("large", "small", "large")][-1]
    assert [(name, each.name) for name, each in made.parts.items()] == [
        ("small", "training small"),
        ("large", "training large"),
    ]
    assert made.parts["large"] is last
    assert made.probe is made
