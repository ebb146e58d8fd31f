"""Figures of other simulators stand beside the scenarios that do the same work."""

from __future__ import annotations

from pathlib import Path

import experiments
from simsys.check import check_file
from simsys.level_study.peers import CONTENDED, LLAMA, PEERS

FILE = Path(next(iter(experiments.__path__))) / "level_of_detail.yaml"


def test_the_work_is_the_same() -> None:
    configs = {built.config.name: built.config for built in check_file(FILE)}
    for name, gpus in ((LLAMA, 1), (CONTENDED, 2)):
        config = configs[name]
        assert config.workload is not None
        assert (config.model.name, config.hardware.profile) == ("Llama-2-7B", "dgx-a100")
        assert config.parallelism.tp_degree == config.hardware.gpus_per_node == gpus
        assert config.workload.arrivals.model_dump() == {"kind": "poisson", "rate": 6.0}
    assert configs[CONTENDED].workload.num_requests == 300


def test_every_peer_has_a_scenario_and_a_range() -> None:
    for peer in PEERS:
        assert peer.scenario in (LLAMA, CONTENDED)
        assert 0 < peer.least <= peer.most
