"""Choices among measured runs that differ in one choice alone, by family of runs and kind of choice."""

from __future__ import annotations

from collections.abc import Sequence

from simsys.fidelity.case import Prediction
from simsys.fidelity.errors import split
from simsys.fidelity.ranking import LAYOUT, Choice, layout_choices
from simsys.fidelity.serving_choices import DEPLOYMENT, serving_choices

ASKED = {"training": LAYOUT, "serving": DEPLOYMENT}
"""The kind of choice that a search of each family makes."""


def choices_of(predictions: Sequence[Prediction]) -> dict[str, dict[str, list[Choice]]]:
    """Return the choices among at least three candidates, by family and kind; kinds without choices are left out.

    Args:
        predictions: Predictions of measured runs of any families.
    """
    families = split(predictions, lambda each: each.case.family)
    found = {name: family_choices(name, own) for name, own in families.items()}
    return {name: kinds for name, kinds in found.items() if kinds}


def family_choices(family: str, predictions: Sequence[Prediction]) -> dict[str, list[Choice]]:
    """Return the choices of one family by kind; kinds without choices are left out.

    Args:
        family: ``training``, ``serving`` or ``collectives``.
        predictions: Predictions of measured runs of that family.
    """
    kinds = serving_choices(predictions) if family == "serving" else {LAYOUT: layout_choices(predictions)}
    return {kind: own for kind, own in kinds.items() if own}
