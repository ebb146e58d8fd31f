"""Conditions on settings, such as ``tp_degree * pp_stages <= num_gpus``: parsed, never executed as Python."""

from __future__ import annotations

import ast
import math
import operator
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from simsys.errors import UsageError

_BINARY: dict[type[ast.operator], Callable[[Any, Any], Any]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Div: operator.truediv,
    ast.FloorDiv: operator.floordiv,
    ast.Mod: operator.mod,
}
_COMPARE: dict[type[ast.cmpop], Callable[[Any, Any], bool]] = {
    ast.Lt: operator.lt,
    ast.LtE: operator.le,
    ast.Gt: operator.gt,
    ast.GtE: operator.ge,
    ast.Eq: operator.eq,
    ast.NotEq: operator.ne,
    ast.In: lambda value, choices: value in choices,
    ast.NotIn: lambda value, choices: value not in choices,
}
_FUNCTIONS: dict[str, Callable[..., Any]] = {
    "min": min,
    "max": max,
    "abs": abs,
    "log2": math.log2,
}
_ALLOWED = f"numbers, texts, names of settings, + - * / // %, comparisons, in, and, or, not, {', '.join(_FUNCTIONS)}"
MAX_LENGTH = 1000

Lookup = Callable[[str], Any]
"""The value of a setting by its name."""


@dataclass(frozen=True, slots=True)
class Condition:
    """A condition on settings.

    Args:
        text: The condition as written.
        tree: Its expression; all parts are known to be allowed.
        names: The names of settings in it, in order; each is the last part of a path, or a dotted path.
    """

    text: str
    tree: ast.expr
    names: tuple[str, ...]

    def holds(self, lookup: Lookup) -> bool:
        """Whether the condition holds.

        Args:
            lookup: Finds the value of a name; quantities are in base units (s, bytes, bytes/s …).

        Raises:
            UsageError: If values of these types cannot be computed with or compared.
        """
        try:
            return bool(_value(self.tree, lookup))
        except (TypeError, ValueError, ArithmeticError) as error:
            values = ", ".join(f"{name} = {lookup(name)!r}" for name in self.names)
            raise UsageError(f"{self.text!r} cannot be evaluated with {values}: {error}") from None


def parse_condition(text: str) -> Condition:
    """Read a condition.

    Raises:
        UsageError: If it is no expression of the allowed parts.

    Example:
        >>> parse_condition("tp_degree * pp_stages <= num_gpus").names
        ('tp_degree', 'pp_stages', 'num_gpus')
    """
    if len(text) > MAX_LENGTH:
        raise UsageError(f"a condition has at most {MAX_LENGTH} characters, not {len(text)}")
    try:
        tree = ast.parse(text.strip(), mode="eval").body
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        raise UsageError(f"{text!r} is not a condition; write e.g. tp_degree * pp_stages <= num_gpus") from None
    names: dict[str, None] = {}
    try:
        _check(tree, text, names)
    except RecursionError:
        raise UsageError("the condition is nested too deeply") from None
    if not names:
        raise UsageError(f"{text!r} names no setting, so it is the same for all points")
    return Condition(text, tree, tuple(names))


def _check(node: ast.expr, text: str, names: dict[str, None]) -> None:
    """Refuse what is not allowed, and collect names."""
    name = _dotted(node)
    if name is not None:
        names[name] = None
        return
    if isinstance(node, ast.Constant) and isinstance(node.value, int | float | str | bool | None):
        return
    inner = _parts(node)
    if inner is None:
        raise UsageError(f"{ast.unparse(node)!r} in {text!r} is not allowed in a condition; allowed are {_ALLOWED}")
    for each in inner:
        _check(each, text, names)


def _parts(node: ast.expr) -> list[ast.expr] | None:
    """The expressions inside an allowed one; None if it is not allowed."""
    found: list[ast.expr] | None = None
    if isinstance(node, ast.BoolOp):
        found = node.values
    elif isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not | ast.USub):
        found = [node.operand]
    elif isinstance(node, ast.BinOp) and type(node.op) in _BINARY:
        found = [node.left, node.right]
    elif isinstance(node, ast.Compare) and all(type(op) in _COMPARE for op in node.ops):
        found = [node.left, *node.comparators]
    elif isinstance(node, ast.List | ast.Tuple):
        found = node.elts
    elif isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in _FUNCTIONS:
        found = None if node.keywords else node.args
    return found


def _dotted(node: ast.expr) -> str | None:
    """The name of a setting that an expression is, such as ``tp_degree`` or ``parallelism.tp_degree``."""
    if isinstance(node, ast.Name):
        return node.id
    if isinstance(node, ast.Attribute):
        before = _dotted(node.value)
        return None if before is None else f"{before}.{node.attr}"
    return None


def _value(node: ast.expr, lookup: Lookup) -> Any:
    """The value of an allowed expression."""
    name = _dotted(node)
    if name is not None:
        return lookup(name)
    if isinstance(node, ast.Constant):
        return node.value
    if isinstance(node, ast.BoolOp):
        every = isinstance(node.op, ast.And)
        return (all if every else any)(_value(each, lookup) for each in node.values)
    if isinstance(node, ast.UnaryOp):
        value = _value(node.operand, lookup)
        return not value if isinstance(node.op, ast.Not) else -value
    if isinstance(node, ast.BinOp):
        return _computed(node, lookup)
    if isinstance(node, ast.Compare):
        values = [_value(each, lookup) for each in (node.left, *node.comparators)]
        pairs = zip(node.ops, values, values[1:], strict=False)
        return all(_COMPARE[type(op)](left, right) for op, left, right in pairs)
    if isinstance(node, ast.Call):
        assert isinstance(node.func, ast.Name)
        return _FUNCTIONS[node.func.id](*(_value(each, lookup) for each in node.args))
    assert isinstance(node, ast.List | ast.Tuple)
    return [_value(each, lookup) for each in node.elts]


def _computed(node: ast.BinOp, lookup: Lookup) -> Any:
    """The value of an arithmetic expression of numbers; texts are not repeated or joined."""
    left, right = _value(node.left, lookup), _value(node.right, lookup)
    if not all(isinstance(each, int | float) for each in (left, right)):
        raise TypeError("arithmetic needs numbers")
    return _BINARY[type(node.op)](left, right)
