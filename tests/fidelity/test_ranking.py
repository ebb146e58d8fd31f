"""The choice among layouts: order and regret, against values worked out by hand."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from simsys.fidelity.case import Case, Prediction
from simsys.fidelity.ranking import LAYOUT, Candidate, Choice, Ranking, Worth, layout_choices, rankings, spearman
from simsys.fidelity.scenario_run import ScenarioRun


def row(layouts: str, predicted: float | None, measured: float, metric: str = "iteration_s") -> Prediction:
    """A row whose layout is told by what is predicted of it."""
    run = ScenarioRun.of({"takes": predicted})
    return Prediction(Case("x", "training", "g", metric, "s", measured, layouts=layouts, run=run), predicted)


def ranking_of(rows: list[Prediction]) -> Ranking | None:
    return rankings({LAYOUT: layout_choices(rows)}).get(LAYOUT)


def choice(*candidates: tuple[Worth, Worth]) -> Choice:
    """A choice among candidates given as predicted and measured worth."""
    return Choice.among([Candidate(row("a", 1.0, 1.0), predicted, measured, 1) for predicted, measured in candidates])


@given(st.lists(st.tuples(st.integers(0, 5), st.integers(0, 5)), min_size=3, max_size=12))
def test_the_rank_correlation_is_that_of_scipy(pairs: list[tuple[int, int]]) -> None:
    from scipy.stats import spearmanr  # takes a second, and no other test needs it

    left, right = ([float(pair[side]) for pair in pairs] for side in (0, 1))
    if len(set(left)) > 1 and len(set(right)) > 1:
        assert spearman(left, right) == pytest.approx(spearmanr(left, right).statistic)
    else:
        assert spearman(left, right) == 0.0


def test_regret_is_what_the_predicted_best_loses() -> None:
    found = ranking_of([row("a", 1.0, 12.0), row("a", 2.0, 10.0), row("a", 3.0, 15.0)])
    assert found is not None
    assert (found.sets, found.rows, found.spearman) == (1, 3, 0.5)
    assert found.loss == pytest.approx(0.2)


def test_more_throughput_is_better() -> None:
    rows = [row("a", p, m, "tokens_per_s") for p, m in [(1.0, 10.0), (2.0, 20.0), (3.0, 16.0)]]
    found = ranking_of(rows)
    assert found is not None
    assert found.loss == pytest.approx(0.25)


def test_sets_of_two_unset_or_unpredicted_rows_do_not_count() -> None:
    rows = [row("a", 1.0, 1.0), row("a", 2.0, 2.0), row("a", None, 3.0), *[row("", 1.0, 1.0)] * 5]
    assert ranking_of(rows) is None


def test_a_layout_that_was_measured_twice_counts_once() -> None:
    rows = [row("a", 1.0, 10.0), row("a", 1.0, 14.0), row("a", 2.0, 11.0), row("a", 3.0, 15.0)]
    found = ranking_of(rows)
    assert found is not None
    assert (found.sets, found.rows, found.spearman) == (1, 4, 0.5)
    assert found.loss == pytest.approx(12.0 / 11.0 - 1.0)
    assert ranking_of(rows[:3]) is None


def test_a_set_measured_alike_has_no_order() -> None:
    assert ranking_of([row("a", float(i), 7.0) for i in range(4)]) is None


def test_a_choice_within_limits_is_better_than_a_cheaper_one_beyond() -> None:
    cheap, within = Worth(0.2, 1.0), Worth(0.0, 2.0)
    found = choice((cheap, cheap), (within, within), (Worth(0.0, 3.0), Worth(0.0, 3.0)))
    assert (found.picked.measured, found.regret, found.spearman) == (within, 0.0, 1.0)


def test_a_choice_beyond_a_limit_loses_at_least_what_it_is_beyond() -> None:
    promised, kept = Worth(0.0, 1.0), Worth(0.25, 1.0)
    found = choice((promised, kept), (Worth(0.0, 2.0), Worth(0.0, 2.0)), (Worth(0.1, 3.0), Worth(0.1, 3.0)))
    assert found.regret == pytest.approx(0.25)
    assert found.loss_of("concurrency") == pytest.approx(0.2)
    assert Ranking.of([found], "concurrency").beyond == 1.0


def test_twice_the_cost_is_half_of_the_throughput() -> None:
    found = choice((Worth(0.0, 1.0), Worth(0.0, 4.0)), (Worth(0.0, 2.0), Worth(0.0, 2.0)))
    assert (found.loss_of(LAYOUT), found.loss_of("concurrency")) == (1.0, 0.5)
