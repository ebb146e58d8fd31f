"""Where medium folds no ranks, levels of detail are not compared; where it folds some, or none are alike, they are."""

from __future__ import annotations

from typing import Any

import pytest

from simsys.errors import InfeasibleError
from simsys.level_study.compare import compare
from simsys.level_study.folding import check_folding
from tests.helpers.level_study_toys import SETTINGS, jobs, serving, training

JITTER = {"jitter": {"compute": 0.05}}
STRAGGLER = {"exceptions": [{"gpus": [1], "speed": 0.8}]}
TENSOR = {"strategy": "TP_DDP", "tp_degree": 2}
OWN = {"batch_size_per_gpu": 2, "num_iterations": 4, "data_parallel": "frameworks.ddp:DDP"}


def on(imperfect: dict[str, Any], **changes: Any) -> Any:
    return training(hardware={"profile": "dgx-a100", "gpus_per_node": 4, **imperfect}, **changes)


@pytest.mark.parametrize(
    ("config", "why"),
    [
        (on(JITTER, parallelism=TENSOR), r"vary at random \(hardware.jitter\)"),
        (on(STRAGGLER, parallelism=TENSOR), "GPUs or links differ"),
        (on(STRAGGLER, training=OWN), "frameworks.ddp:DDP does with that is not known"),
    ],
    ids=["jitter", "straggler", "own module"],
)
def test_a_scenario_whose_ranks_do_not_fold_is_refused(config: Any, why: str) -> None:
    with pytest.raises(InfeasibleError, match=f"small: medium cannot fold any of the 4 ranks .*{why}") as caught:
        compare(config, SETTINGS)
    assert caught.value.exit_code == 3


@pytest.mark.parametrize(
    "config",
    [
        on({}),
        on(JITTER),
        on(STRAGGLER),
        on({}, training=OWN),
        on({}, parallelism={"strategy": "PP", "pp_stages": 4}),
        serving(hardware={"profile": "dgx-h100", "gpus_per_node": 4, **JITTER}, parallelism={"tp_degree": 2}),
        jobs(),
    ],
    ids=["alike", "jitter in one group", "straggler", "own module", "stages", "serving", "jobs"],
)
def test_others_are_not(config: Any) -> None:
    check_folding(config)
