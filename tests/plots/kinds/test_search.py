"""What settings are worth, and the Pareto front."""

from __future__ import annotations

import pytest

from simsys.contents.printed import Printed
from simsys.plots.kinds.search import MOST_VALUES
from simsys.plots.picture import draw
from tests.helpers.plot_toys import found


def values(content: Printed) -> list[float]:
    """The places of the values of all settings."""
    axes = draw(content, "sensitivity").axes[0]
    return [float(each.get_offsets()[0][0]) for each in axes.collections]


def test_each_value_stands_for_its_best_candidate() -> None:
    best = 1.0 + 0.2 + 0.1 / 4
    tp = [(1.0 + 0.2 * degree + 0.1 / 4) / best for degree in (1, 2, 4, 8)]
    size = [(1.2 + 0.1 / size) / best for size in (1, 2, 4)]
    assert sorted(values(found())) == pytest.approx(sorted([*tp, *size]))


def test_of_many_values_some_are_shown_with_the_best_and_the_worst() -> None:
    many = [{"settings": {"x": value}, "metrics": {"mean_iteration_s": 1.0 + value}} for value in range(100)]
    places = values(Printed("search", {**found().data, "best": many}, "many"))
    assert len(places) == MOST_VALUES
    assert (min(places), max(places)) == (1.0, 100.0)


def test_the_front_has_the_candidates_that_no_other_one_beats() -> None:
    axes = draw(found(), "pareto").axes[0]
    front = next(line for line in axes.lines if "no other" in str(line.get_label()))
    metrics = [each["metrics"] for each in found().data["best"]]
    points = [(each["samples_per_s"], each["peak_memory_bytes"] / 2**30) for each in metrics]
    beaten = {
        one for one in points for more, less in points if (more, less) != one and more >= one[0] and less <= one[1]
    }
    assert sorted(zip(front.get_xdata(), front.get_ydata(), strict=True)) == sorted(set(points) - beaten)
