"""Settings of published recipes, for training runs whose rows leave them out (``measured/training_recipes.yaml``).

A recipe is a file of settings that a program ships for a model on a GPU, such as those of Megatron-Bridge.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

from pydantic import Field, PositiveInt

from simsys.fidelity.tables.deployments import Conditions
from simsys.fidelity.tables.facts import Facts, facts
from simsys.fidelity.tables.table import Row


class Recipe(Conditions):
    """Settings of the runs for which the conditions hold.

    Args:
        set: Values by section and setting of an experiment.
        largest_tensor: Largest tensor-parallel degree of rows that do not state the degrees; None if it is not known.
        source: Where the recipe stands.
    """

    largest_tensor: PositiveInt | None = None
    set: dict[str, dict[str, Any]] = Field(default_factory=dict)
    source: str


class TrainingRecipes(Facts):
    """All recipes; of several that set the same key, the first one that holds counts."""

    filename: ClassVar[str] = "training_recipes.yaml"
    recipes: tuple[Recipe, ...]


def with_recipe(row: Row, scenario: Mapping[str, Any]) -> dict[str, Any]:
    """Return an experiment with the settings of the recipes that a row matches; they replace assumed ones.

    Options are those of a strategy, so a recipe that sets the strategy replaces all of them.
    """
    found: dict[str, dict[str, Any]] = {}
    for recipe in facts(TrainingRecipes).recipes:
        if recipe.hold(row):
            for section, values in recipe.set.items():
                found[section] = _merged(values, found.get(section, {}))
    if "strategy" in found.get("parallelism", {}):
        scenario = _merged(scenario, {"training": {"options": None}})
    return _merged(scenario, found)


def _merged(given: Mapping[str, Any], changes: Mapping[str, Any]) -> dict[str, Any]:
    """Return nested settings with changes."""
    nested = {key: _merged(_mapping(given.get(key)), new) for key, new in changes.items() if isinstance(new, Mapping)}
    return {**given, **changes, **nested}


def _mapping(value: Any) -> Mapping[str, Any]:
    return value if isinstance(value, Mapping) else {}


def largest_tensor(row: Row) -> int | None:
    """Return the largest tensor-parallel degree of the recipes that a row matches; None if none says it."""
    holding = (recipe for recipe in facts(TrainingRecipes).recipes if recipe.hold(row))
    return next((recipe.largest_tensor for recipe in holding if recipe.largest_tensor is not None), None)
