"""The numbered examples of `simsys run --example`: shipped scenarios that show one thing each."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from simsys.data import shipped_folder
from simsys.errors import UnknownNameError


@dataclass(frozen=True)
class Example:
    """Scenarios of a shipped file.

    Args:
        what: What they show.
        filename: The file, in the shipped folder ``experiments``.
        names: The scenarios; all of the file if empty.
        scaling: Whether they are simulated on several numbers of nodes, as by `simsys scale`.
    """

    what: str
    filename: str
    names: Sequence[str] = ()
    scaling: bool = False

    @property
    def file(self) -> Path:
        """Path of the file."""
        return shipped_folder("experiments") / self.filename


PRESETS = {
    size: Example(f"the preset {size}", "presets.yaml", (f"{size}_scale",)) for size in ("small", "medium", "large")
}
"""What `simsys run --preset` simulates, by its size."""

EXAMPLES = {
    "1": Example("a first training job: GPT-2 small on one node", "presets.yaml", ("small_scale",)),
    "2": Example("a GPU, a network and a model of your own, by numbers", "examples.yaml", ("custom_experiment",)),
    "3": Example("a scaling study from one node to eight", "presets.yaml", ("medium_scale",), scaling=True),
    "4": Example(
        "algorithms of collectives compared: ring, tree, the fastest of each",
        "examples.yaml",
        ("pattern_ring", "pattern_tree", "pattern_auto"),
    ),
    "5": Example("all scenarios of a file: training and serving", "experiment_config.yaml"),
}
"""The examples by their numbers."""


def example_row(name: str) -> dict[str, Any]:
    """What an example shows, for a table.

    Raises:
        UnknownNameError: If there is none of this number.
    """
    if name not in EXAMPLES:
        raise UnknownNameError("example", name, EXAMPLES)
    return {"command": f"simsys run --example {name}", "what": EXAMPLES[name].what}


def example_facts(name: str) -> dict[str, Any]:
    """What an example shows, its file and its scenarios; raises as `example_row`."""
    row = example_row(name)
    example = EXAMPLES[name]
    verb = "scale" if example.scaling else "run"
    words = ["simsys", verb, str(example.file), *(f"--scenario {each}" for each in example.names)]
    return {"name": name, **row, "file": str(example.file), "same_as": " ".join(words)}
