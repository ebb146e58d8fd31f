from collections import Counter
from math import inf

import pytest

from simsys.searches.candidates import SizedCandidate
from simsys.searches.result import Answer
from simsys.searches.simulated import Outcome
from simsys.searches.sizes import Sizes, settled


class Series(SizedCandidate):
    """Sizes 1, 2, 3 ..., each at a price, of which all from `needed` on do."""

    def __init__(self, needed, price, most=1000, place=0, family=""):
        self.needed, self.price, self.place, self.last_place, self._family = needed, price, place, most - 1, family

    @property
    def size(self):
        return self.place + 1

    @property
    def least_key(self):
        return self.size * self.price

    @property
    def known(self):
        return {}

    @property
    def settings(self):
        return {"size": self.size}

    @property
    def family(self):
        return self._family

    def resized(self, place):
        return Series(self.needed, self.price, self.last_place + 1, place, self._family)

    def task(self, *, short):
        return self.size >= self.needed + (0 if short else 2)

    def metrics(self, found):
        return found

    def simplicity(self, metrics):
        return (self.size,)


class Simulated:
    """Stands for the processes that simulate."""

    def __init__(self):
        self.count = 0

    def run(self, tasks, most):
        for place, does in enumerate(tasks):
            self.count += 1
            yield place, Outcome({"does": does})


def judge(candidate, outcome):
    return Answer(candidate.settings, {}, candidate.least_key) if outcome.metrics["does"] else None


def key(answer):
    return answer.value


def found(series, top):
    sizes, simulated = Sizes(series, key, top), Simulated()
    answers = sizes.simulate(simulated, judge, 10_000)
    return sizes, sorted(answer.value for _, answer in answers), simulated


def test_smallest_size_is_found_in_few_simulations():
    _, values, simulated = found([Series(700, 1.0)], 1)
    assert values == [700.0]
    assert simulated.count <= 22


def test_candidates_that_cannot_be_cheaper_need_one_simulation_each():
    others = [Series(500, 1.0) for _ in range(200)]
    _, values, simulated = found([Series(100, 1.0), *others], 1)
    assert values[0] == 100.0
    # The first round looks at all 16 at once; the others are refused at the largest size that is still cheaper.
    assert simulated.count <= 16 * 12 + 200


def test_candidates_beyond_the_best_by_their_bound_need_no_simulation():
    _, values, simulated = found([Series(3, 1.0), *(Series(3, 1.0, place=50) for _ in range(200))], 1)
    assert values[0] == 3.0
    assert simulated.count <= 16 * 8


def test_every_family_has_its_best_size():
    sizes, values, _ = found([Series(3, 1.0, family="a"), Series(40, 9.0, family="b"), Series(50, 9.0, family="b")], 1)
    assert values[:2] == [3.0, 360.0]
    assert sizes.limits.families == {"a": 3.0, "b": 360.0}


def test_every_size_is_counted():
    sizes, values, simulated = found([Series(7, 1.0, most=20), Series(9, 1.0, most=20)], 1)
    reasons = Counter()
    assert sizes.left_out(reasons) == 0
    failures = simulated.count - sum(course._met for course in sizes.courses)
    assert sum(reasons.values()) + failures + len(values) == 40


def test_simulations_that_are_not_allowed_are_stated():
    sizes = Sizes([Series(700, 1.0)], key, 1)
    assert sizes.simulate(Simulated(), judge, 2) == []
    assert sizes.limits.overall == inf
    assert sizes.left_out(Counter()) == 1


@pytest.mark.parametrize("top", [1, 2])
def test_a_size_that_is_too_small_for_the_whole_run_grows(top):
    _, _, simulated = found([], 1)
    answers = [
        (each, judge(each, Outcome({"does": True}))) for each in (Series(4, 1.0, place=3), Series(5, 1.0, place=4))
    ]
    final, count, grown = settled(answers, key, top, simulated, judge)
    assert sorted(answer.value for _, answer in final)[:top] == [6.0, 7.0][:top]
    assert count == simulated.count == grown + len(final)


class Rounds(Simulated):
    """Notes the sizes of the rounds."""

    def __init__(self):
        super().__init__()
        self.sizes = []

    def run(self, tasks, most):
        self.sizes.append(len(tasks))
        return super().run(tasks, most)


class Hopeless(Series):
    """Sizes that do in the short run, but not in the whole one."""

    def resized(self, place):
        return Hopeless(self.needed, self.price, self.last_place + 1, place, self._family)

    def task(self, *, short):
        return short


def test_a_family_without_an_answer_has_two_finalists_in_a_round():
    each = [Hopeless(1, 100.0, most=1, family="a") for _ in range(7)]
    each.append(Series(1, 9.0, most=3, place=2, family="b"))
    answers = [(one, judge(one, Outcome({"does": True}))) for one in each]
    rounds = Rounds()
    final, count, _ = settled(answers, key, 1, rounds, judge)
    assert [answer.value for _, answer in final] == [27.0]
    assert rounds.sizes == [3, 2, 2, 1]
    assert count == 8
