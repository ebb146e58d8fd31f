"""How runs of tables were deployed where their rows do not say (``experiments/measured/deployments.yaml``)."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from math import ceil
from typing import Any, ClassVar, Literal, Self, TypeAlias

from pydantic import Field, PositiveInt, model_validator

from simsys.config.base import FrozenModel, invalid
from simsys.fidelity.case import Unsupported
from simsys.fidelity.tables.facts import Facts, Pattern, facts
from simsys.fidelity.tables.table import Row

Name: TypeAlias = Literal["users", "decode_tokens", "prompt_tokens", "answer_tokens", "stated"]
_LENGTHS = re.compile(r"lengths \w+ in \[(0?\.\d+)L, ?L\]")
"""How notes say that lengths are drawn."""


class Formula(FrozenModel):
    """A sum of amounts, or the largest of them, rounded up to a multiple."""

    sum: tuple[Amount, ...] = ()
    largest: tuple[Amount, ...] = ()
    multiple_of: PositiveInt = 1

    @model_validator(mode="after")
    def _is_one(self) -> Self:
        if bool(self.sum) == bool(self.largest):
            raise invalid("either a sum or the largest of several amounts is needed")
        return self


Amount: TypeAlias = PositiveInt | Name | Formula


class Conditions(FrozenModel):
    """What a row has to say.

    Args:
        cells: Patterns by column.
        equal: Numbers by column.
        below: Numbers by column, of which the row has less.
    """

    cells: dict[str, Pattern] = Field(default_factory=dict)
    equal: dict[str, int] = Field(default_factory=dict)
    below: dict[str, int] = Field(default_factory=dict)

    def hold(self, row: Row) -> bool:
        """Whether a row says all of it."""
        return (
            all(pattern.search(row.text(column)) for column, pattern in self.cells.items())
            and all(row.length(column) == number for column, number in self.equal.items())
            and all(row.whole(column) < number for column, number in self.below.items())
        )


class Drafts(Conditions):
    """Runs with multi-token prediction, which their rows do not say.

    Args:
        tokens: How many are drafted in a step; 0 if runs with and without look the same.
        source: Who says so.
    """

    tokens: int
    source: str


class Rule(Conditions):
    """Settings of some runs.

    Args:
        set: Plain values by setting.
        tokens: Amounts by setting.
        source: Who says so.
    """

    set: dict[str, bool | int | float | str] = Field(default_factory=dict)
    tokens: dict[str, Amount] = Field(default_factory=dict)
    source: str


class Deployment(FrozenModel):
    """The runs of one publisher.

    Args:
        name: Of the publisher.
        source: Where the publisher says how runs were deployed.
        rows: Patterns that cells of its rows match, by column.
        shortest: Least length of a prompt or an answer, over the nominal one.
        acceptance_rate: Of a drafted token, those before it being accepted.
        acceptance_source: Who says so.
        drafts: Runs with multi-token prediction.
        settings: Settings of ``serving``; of several rules that set the same, the first that holds counts.
    """

    name: str
    source: str
    rows: dict[str, Pattern]
    shortest: float = 1.0
    acceptance_rate: float = 1.0
    acceptance_source: str = ""
    drafts: tuple[Drafts, ...] = ()
    settings: tuple[Rule, ...]

    def match(self, row: Row) -> dict[str, str] | None:
        """What the patterns of `rows` capture in a row; None if they do not match."""
        found = [pattern.search(row.text(column)) for column, pattern in self.rows.items()]
        captured: dict[str, str] = {}
        for each in found:
            if each is None:
                return None
            captured |= each.groupdict()
        return captured

    def drafted(self, row: Row) -> int:
        """Tokens that are drafted in a step of a row's run.

        Raises:
            Unsupported: It is known that this is not stated.
        """
        drafts = next((drafts for drafts in self.drafts if drafts.hold(row)), None)
        if drafts is not None and not drafts.tokens:
            raise Unsupported("whether it was with multi-token prediction is not stated")
        return drafts.tokens if drafts is not None else 0


class Deployments(Facts):
    """The deployments of all publishers; the first that matches a row counts."""

    filename: ClassVar[str] = "deployments.yaml"
    deployments: tuple[Deployment, ...]


@dataclass(frozen=True)
class _Amounts:
    """The named amounts of a row."""

    named: Mapping[str, int]

    def value(self, amount: Amount) -> int:
        """An amount in tokens."""
        if isinstance(amount, Formula):
            values = map(self.value, amount.sum or amount.largest)
            whole = sum(values) if amount.sum else max(values)
            return amount.multiple_of * ceil(whole / amount.multiple_of)
        return self.named[amount] if isinstance(amount, str) else amount


def deployment(row: Row) -> dict[str, Any]:
    """Settings of ``serving`` that are known of a row's run beyond what the row says.

    Raises:
        Unsupported: It is known that what matters is not stated.
    """
    matching = next(_matching(row), None)
    if row.text("load_kind") != "concurrency" or matching is None:
        return {}
    published, captured = matching
    users, drafted = row.whole("load_value"), published.drafted(row)
    named = {name: int(text) for name, text in captured.items()} | {
        "users": users,
        "decode_tokens": users * (1 + drafted),
        "prompt_tokens": row.length("input_len"),
        "answer_tokens": row.length("output_len"),
    }
    found = _settings(published, row, _Amounts(named))
    if drafted:
        rate = published.acceptance_rate
        found["speculative"] = {"draft_tokens": drafted, "acceptance_rate": rate, "draft_layers": 1}
    return found


def shortest(row: Row) -> float:
    """The least length of a prompt or an answer, over the nominal one."""
    drawn = _LENGTHS.search(row.text("notes"))
    if drawn is not None:
        return float(drawn.group(1))
    return next((published.shortest for published, _ in _matching(row)), 1.0)


def _matching(row: Row) -> Iterator[tuple[Deployment, Mapping[str, str]]]:
    """The deployments whose patterns a row matches, with what these capture."""
    for published in facts(Deployments).deployments:
        captured = published.match(row)
        if captured is not None:
            yield published, captured


def _settings(published: Deployment, row: Row, amounts: _Amounts) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for rule in published.settings:
        if rule.hold(row):
            own = rule.set | {name: amounts.value(amount) for name, amount in rule.tokens.items()}
            found = own | found
    return found
