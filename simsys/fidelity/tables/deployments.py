"""How runs of tables were deployed where their rows do not say (``experiments/measured/deployments.yaml``)."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from math import ceil
from typing import Any, ClassVar, Literal, Self, TypeAlias

from pydantic import Field, PositiveInt, model_validator

from simsys.config.base import FrozenModel, invalid
from simsys.fidelity.case import Unsupported
from simsys.fidelity.tables.facts import Facts, Pattern, facts
from simsys.fidelity.tables.table import Row

Plain: TypeAlias = bool | int | float | str
Name: TypeAlias = Literal["users", "decode_tokens", "prompt_tokens", "answer_tokens", "stated"]
_LENGTHS = re.compile(r"(?:lengths \w+ in|draws from) \[(0?\.\d+)L, ?L\]")
"""Notes about lengths that are drawn up to the nominal one."""
_AROUND = re.compile(r"lengths \+-(\d{1,2})%")
"""Notes about lengths that are drawn around the nominal one."""
_REQUESTS = re.compile(r"^(\d{1,6}) requests\b")
"""Notes about the number of requests of a run."""


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


Amount: TypeAlias = int | Name | Formula


class Conditions(FrozenModel):
    """Conditions on the cells of a row, all of which must hold.

    Args:
        cells: Patterns by column.
        equal: Numbers of tokens by column.
        below: Upper limits by column, exclusive.
    """

    cells: dict[str, Pattern] = Field(default_factory=dict)
    equal: dict[str, int] = Field(default_factory=dict)
    below: dict[str, int] = Field(default_factory=dict)

    def hold(self, row: Row) -> bool:
        """Whether all conditions hold for a row."""
        return (
            all(pattern.search(row.text(column)) for column, pattern in self.cells.items())
            and all(row.length(column) == number for column, number in self.equal.items())
            and all(row.whole(column) < number for column, number in self.below.items())
        )


class Drafts(Conditions):
    """Runs with multi-token prediction that their rows do not state.

    Args:
        tokens: Drafted tokens of a step; 0 if runs with and without drafts look the same.
        source: Source of the fact.
    """

    tokens: int
    source: str


class LeftOut(Conditions):
    """Rows that are not predicted.

    Args:
        reason: What they measure instead, shown where rows that are not predicted are counted.
        source: Source of the fact.
    """

    reason: str
    source: str


class Correction(Conditions):
    """Rows that state another layout than the run had.

    Args:
        set: What the cells should say, by column.
        copy: Columns of the row as it is whose texts the cells should have, by column.
        source: Source of the fact.
    """

    set: dict[str, str] = Field(default_factory=dict)
    copied: dict[str, str] = Field(default_factory=dict, alias="copy")
    source: str

    def applied(self, row: Row) -> Row:
        """Return a row with the cells that it should have."""
        copied = {column: row.text(other) for column, other in self.copied.items()}
        return replace(row, cells={**row.cells, **copied, **self.set})


class Rule(Conditions):
    """Settings of the runs for which the conditions hold.

    Args:
        set: Plain values by setting, or by setting of a part of ``serving``.
        tokens: Amounts by setting.
        source: Source of the fact.
    """

    set: dict[str, Plain | dict[str, Plain]] = Field(default_factory=dict)
    tokens: dict[str, Amount] = Field(default_factory=dict)
    source: str


class Rounds(Conditions):
    """Requests that each user sends in a closed loop."""

    of_a_user: PositiveInt
    source: str


class Deployment(FrozenModel):
    """The runs of one publisher.

    Args:
        name: Name of the publisher.
        source: Where the publisher says how runs were deployed.
        rows: Patterns by column that its rows match.
        load_kind: The kind of load for which `settings` count.
        shortest: Smallest length of a prompt or an answer, over the nominal length.
        acceptance_rate: Probability that a drafted token is accepted if the tokens before it are.
        acceptance_source: Source of the rate.
        drafts: Runs with multi-token prediction.
        rounds: Runs whose users send another number of requests than `Loads.requests_per_user`.
        settings: Settings of ``serving``; of several rules for one setting, the first one that holds counts.
    """

    name: str
    source: str
    rows: dict[str, Pattern]
    load_kind: Literal["concurrency", "static_batch"] = "concurrency"
    shortest: float = 1.0
    acceptance_rate: float = 1.0
    acceptance_source: str = ""
    drafts: tuple[Drafts, ...] = ()
    rounds: tuple[Rounds, ...] = ()
    settings: tuple[Rule, ...]

    def match(self, row: Row) -> dict[str, str] | None:
        """Return the named groups of the patterns of `rows` in a row; None if they do not match."""
        found = [pattern.search(row.text(column)) for column, pattern in self.rows.items()]
        captured: dict[str, str] = {}
        for each in found:
            if each is None:
                return None
            captured |= each.groupdict()
        return captured

    def drafted(self, row: Row) -> int:
        """Return the drafted tokens of a step of a row's run.

        Raises:
            Unsupported: Runs with and without drafts look the same.
        """
        drafts = next((drafts for drafts in self.drafts if drafts.hold(row)), None)
        if drafts is not None and not drafts.tokens:
            raise Unsupported("whether it was with multi-token prediction is not stated")
        return drafts.tokens if drafts is not None else 0


class Deployments(Facts):
    """The deployments of all publishers, of which the first that matches a row counts, and facts about single rows."""

    filename: ClassVar[str] = "deployments.yaml"
    left_out: tuple[LeftOut, ...] = ()
    corrections: tuple[Correction, ...] = ()
    deployments: tuple[Deployment, ...]


@dataclass(frozen=True)
class _Amounts:
    """The named amounts of a row."""

    named: Mapping[str, int]

    def value(self, amount: Amount) -> int:
        """Return an amount in tokens."""
        if isinstance(amount, Formula):
            values = map(self.value, amount.sum or amount.largest)
            whole = sum(values) if amount.sum else max(values)
            return amount.multiple_of * ceil(whole / amount.multiple_of)
        return self.named[amount] if isinstance(amount, str) else amount


def corrected(row: Row) -> Row:
    """Return a row with the layout that its run had; the first correction whose conditions hold counts."""
    correction = next((each for each in facts(Deployments).corrections if each.hold(row)), None)
    return row if correction is None else correction.applied(row)


def deployment(row: Row) -> dict[str, Any]:
    """Return the settings of ``serving`` that are known of a row's run but not stated in the row.

    Raises:
        Unsupported: Whether the run used multi-token prediction is not known, or the row is left out.
    """
    left_out = next((each for each in facts(Deployments).left_out if each.hold(row)), None)
    if left_out is not None:
        raise Unsupported(left_out.reason)
    matching = next(_matching(row), None)
    if matching is None or row.text("load_kind") != matching[0].load_kind:
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


def lengths(row: Row) -> tuple[float, float]:
    """Return the smallest and the largest length of a prompt or an answer, over the nominal length."""
    notes = row.text("notes")
    if (around := _AROUND.search(notes)) is not None:
        share = int(around.group(1)) / 100.0
        return 1.0 - share, 1.0 + share
    if (drawn := _LENGTHS.search(notes)) is not None:
        return float(drawn.group(1)), 1.0
    return next((published.shortest for published, _ in _matching(row)), 1.0), 1.0


def requests_of(row: Row) -> int:
    """Return the number of requests of a closed loop; 0 if it is not known."""
    stated = _REQUESTS.search(row.text("notes"))
    if stated is not None:
        return int(stated.group(1))
    published = next((published for published, _ in _matching(row)), None)
    rounds = next((each for each in published.rounds if each.hold(row)), None) if published is not None else None
    return rounds.of_a_user * row.whole("load_value") if rounds is not None else 0


def _matching(row: Row) -> Iterator[tuple[Deployment, Mapping[str, str]]]:
    """Yield the deployments whose patterns a row matches, with the named groups."""
    for published in facts(Deployments).deployments:
        captured = published.match(row)
        if captured is not None:
            yield published, captured


def _nested(name: str, value: int) -> tuple[str, Any]:
    """Return the key of ``serving`` and the value of a setting, whose name may have a dot."""
    outer, _, inner = name.partition(".")
    return outer, {inner: value} if inner else value


def _settings(published: Deployment, row: Row, amounts: _Amounts) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for rule in published.settings:
        if rule.hold(row):
            own = rule.set | dict(_nested(name, amounts.value(amount)) for name, amount in rule.tokens.items())
            found = own | found
    return found
