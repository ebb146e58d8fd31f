"""Small random spaces, and their layouts simulated one by one."""

from __future__ import annotations

import random

from simsys.check.remedies import changed
from simsys.config.experiment import SimulationConfig
from simsys.searches.training.axes import layout_axes
from simsys.searches.training.base import Base
from simsys.searches.training.closed_forms import ClosedForms
from simsys.searches.training.layouts import division_problem

VALUES = {
    "parallelism.tp_degree": [1, 2, 3, 4],
    "parallelism.cp_degree": [1, 2],
    "parallelism.pp_stages": [1, 2, 3, 4],
    "parallelism.strategy": ["DDP", "ZERO1", "ZERO2", "FSDP", "HSDP"],
    "parallelism.schedule": ["1f1b", "gpipe", "interleaved", "zero_bubble"],
    "parallelism.virtual_stages": [1, 2, 3],
    "training.batch_size_per_gpu": [1, 2, 4],
    "training.activation_recompute": ["none", "selective", "half", "full"],
}


def training(model="GPT2-Small", nodes=2, gpus=4, batch=24, engine="pytorch", layers=None, **sections):
    return SimulationConfig.model_validate(
        {
            "hardware": {"profile": "dgx-h100", "gpus_per_node": gpus, "num_nodes": nodes},
            "model": {"name": model, **({} if layers is None else {"num_layers": layers})},
            "training": {"global_batch_size": batch, "num_iterations": 2, "engine": engine},
            **sections,
        }
    )


def random_question(seed):
    """A scenario and the settings that vary, two values of each at most."""
    draw = random.Random(seed)
    config = training(
        nodes=draw.choice([1, 2, 3]),
        gpus=draw.choice([2, 4, 8]),
        batch=draw.choice([16, 24, 48]),
        engine=draw.choice(["pytorch", "megatron"]),
        layers=draw.choice([None, 11]),
    )
    over = {key: draw.sample(values, min(len(values), draw.choice([1, 2, 2]))) for key, values in VALUES.items()}
    over["parallelism.tp_degree"] = [1, draw.choice([2, 4])]
    return config, over


def candidates(config, over="auto", exact=True):
    """The layouts that fit, with exact bounds or some with loose ones."""
    base = Base.of(config)
    axes = layout_axes(base, over)
    forms = ClosedForms(base, axes, computed=True)
    found = []
    for division in axes.divisions(base.cluster.num_gpus, base.tokens):
        if not division_problem(base, division, axes):
            found += [
                forms.tightened(each) if exact and not each.exact else each for each in forms.candidates(division)
            ]
    return base, axes, found


def settled(base, candidate):
    """The scenario of a layout."""
    return changed(base.config, base.settings(candidate.division, candidate.variant))
