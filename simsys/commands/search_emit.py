"""Options of `simsys search` that write the files with which real tools start the answer."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import wraps
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from simsys.commands.emit import write_emitted

if TYPE_CHECKING:
    from simsys.config.experiment import SimulationConfig
    from simsys.deployments.layouts import InexpressibleLayout


@dataclass(frozen=True)
class Emitted:
    """What was written for each target.

    Args:
        files: Target, place of the layout in the answer, and paths of the files.
        refused: Layouts that a target cannot express.
        scenarios: Scenario files, by place of the layout.
        asked: Whether files were asked for.
    """

    files: Sequence[tuple[str, int, list[Path]]] = ()
    refused: Sequence[InexpressibleLayout] = ()
    scenarios: Mapping[int, Path] = field(default_factory=dict)
    asked: bool = False

    def lines(self) -> list[str]:
        """The files of each target, and the settings that a target cannot express."""
        from simsys.report.text import wrap

        found = ["", "files:"] if self.asked else []
        for place, path in self.scenarios.items():
            found.append(f"  layout {place}: {path}")
        for target, place, paths in self.files:
            found.append(f"  layout {place}, {target}: {', '.join(map(str, paths))}")
        if self.refused:
            found += ["", "not expressible:"]
        for each in self.refused:
            head = f"layout {each.place}, {each.target}:"
            reasons = "; ".join(f"{problem.path}: {problem.message}" for problem in each.problems)
            found += wrap(reasons, f"  {head} ", "    ")
        return found

    def as_dict(self) -> dict[str, Any]:
        """The same as data; empty if no files were asked for."""
        if not self.asked:
            return {}
        return {
            "emitted": [
                {"target": target, "layout": place, "paths": list(map(str, paths))}
                for target, place, paths in self.files
            ],
            "scenarios": {str(place): str(path) for place, path in self.scenarios.items()},
            "not_expressible": [
                {
                    "target": each.target,
                    "layout": each.place,
                    "settings": {problem.path: problem.message for problem in each.problems},
                }
                for each in self.refused
            ],
        }


@dataclass(frozen=True)
class Emission:
    """Which files are asked for.

    Args:
        folder: The folder to write to; None for no files.
        targets: Names of the targets; all that start the scenario's engine if empty.
        number: Largest number of layouts for each target.
        checkpoint: Path or Hugging Face id of the weights.
    """

    folder: Path | None
    targets: Sequence[str]
    number: int
    checkpoint: str | None

    def check(self, config: SimulationConfig) -> None:
        """Refuse targets that cannot start the scenario, before anything is simulated.

        Raises:
            UsageError: With the engine that a target needs.
        """
        from simsys.deployments.layouts import targets_for

        if self.folder is None:
            if self.targets or self.number > 1 or self.checkpoint is not None:
                raise click.UsageError("--for, --emit-top and --checkpoint need --emit DIR")
            return
        targets_for(config, self.targets)

    def write(self, config: SimulationConfig, layouts: Sequence[Mapping[str, Any]]) -> Emitted:
        """Write ``FOLDER/NAME/PLACE/TARGET``, and the scenario of each written layout.

        Args:
            config: The scenario.
            layouts: Settings of the answers, the best one first.

        Raises:
            OutputError: A file cannot be written.
        """
        from simsys.deployments.layouts import emitted_layouts, targets_for
        from simsys.report.export import write_config

        if self.folder is None:
            return Emitted()
        names = targets_for(config, self.targets)
        written, refused = emitted_layouts(config, layouts, names, number=self.number, checkpoint=self.checkpoint)
        folder = self.folder / config.name
        configs = {each.place: each.config for each in sorted(written, key=lambda each: each.place)}
        scenarios = {place: write_config(layout, folder / str(place)) for place, layout in configs.items()}
        files = [
            (each.target, each.place, write_emitted(folder / str(each.place) / each.target, each.files))
            for each in written
        ]
        return Emitted(files, refused, scenarios, asked=True)


def emission_options(function: Callable[..., int]) -> Callable[..., int]:
    """Add the options, which the function gets as one argument ``emission``."""

    @click.option(
        "--emit",
        "folder",
        metavar="DIR",
        type=click.Path(path_type=Path),
        help="Write the files with which real tools start the best layout (docs/how-to/emit.md).",
    )
    @click.option(
        "--for",
        "targets",
        metavar="TARGET",
        multiple=True,
        help="With --emit: tool to write for; default: all that start the scenario's engine. Repeatable.",
    )
    @click.option(
        "--emit-top",
        "number",
        metavar="N",
        type=click.IntRange(1),
        default=1,
        help="With --emit: write the N best layouts that a tool can express, instead of one.",
    )
    @click.option("--checkpoint", help="With --emit: path or Hugging Face id of the weights.")
    @wraps(function)
    def with_emission(
        *args: Any,
        folder: Path | None,
        targets: Sequence[str],
        number: int,
        checkpoint: str | None,
        **options: Any,
    ) -> int:
        return function(*args, emission=Emission(folder, targets, number, checkpoint), **options)

    return with_emission
