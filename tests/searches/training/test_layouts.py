"""The layouts of a training job: found by one process or by several, they are the same."""

from __future__ import annotations

from simsys.config.experiment import SimulationConfig
from simsys.config.search import SearchConfig
from simsys.searches.goal import Goal
from simsys.searches.simulated import Simulations
from simsys.searches.training import layouts
from simsys.searches.training.layouts import Layouts


def space() -> Layouts:
    config = SimulationConfig.model_validate(
        {
            "hardware": {"profile": "dgx-h100", "gpus_per_node": 4},
            "model": {"name": "Llama3-8B"},
            "training": {"global_batch_size": 12},
        }
    )
    asked = SearchConfig.model_validate({"minimize": "steady_iteration_s", "over": "auto"})
    return Layouts(config, asked, Goal.of(asked, "training"))


def test_several_processes_find_what_one_finds(monkeypatch):
    monkeypatch.setattr(layouts, "MANY_LAYOUTS", 0)
    one, several = space(), space()
    alone = [(each.fitting, each.least_key) for each in one.candidates()]
    with Simulations(2) as processes:
        together = [(each.fitting, each.least_key) for each in several.candidates(processes)]
    assert alone
    assert together == alone
    assert several.reasons == one.reasons
    assert sum(one.reasons.values()) + len(alone) == one.considered
    assert processes.cpu_s > 0.0


def test_a_prime_number_of_layers_has_pipelines_of_unequal_stages():
    config = SimulationConfig.model_validate(
        {
            "hardware": {"profile": "dgx-h100", "num_nodes": 2},
            "model": {"name": "Llama3-8B", "num_layers": 31},
            "training": {"global_batch_size": 16},
            "parallelism": {"tp_degree": 1},
        }
    )
    asked = SearchConfig.model_validate({"minimize": "steady_iteration_s", "over": "auto"})
    found = {
        each.settings["parallelism.pp_stages"]: each.settings.get("parallelism.stage_layers")
        for each in Layouts(config, asked, Goal.of(asked, "training")).candidates()
    }
    assert found[16] == [2] * 15 + [1]
    assert found[8] == [4] * 7 + [3]
    assert found[1] is None
