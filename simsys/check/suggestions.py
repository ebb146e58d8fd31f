"""Suggestions for errors: proposed settings with which the scenario passes the check."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from itertools import groupby

from simsys.build.rules.findings import FITS, VALID, Findings, Remedy, Suggestion
from simsys.check.remedies import remedy_text
from simsys.check.trials import Trials
from simsys.config.places import key_path
from simsys.errors import Fix, Problem

MOST_FURTHERED = 2
"""Most proposals for one scenario that are combined with remedies for too little memory."""


def settle(
    found: Findings, trials: Trials, furthered: Callable[[Remedy], Sequence[Fix] | None], *, memory: bool = True
) -> None:
    """Append the helpful settings to each error for which settings were proposed.

    A setting helps if the scenario has no error with it. If there is no such setting and the scenario has other
    errors, a setting helps if it removes the error and adds none. Since memory is checked only in a scenario without
    errors, the text then does not claim that the scenario fits.

    Args:
        found: The errors and the proposals; helpful proposals become fixes.
        trials: Checks the scenario with other settings.
        furthered: Returns the further settings with which a valid scenario with given settings fits into memory; None
            if that scenario has errors.
        memory: Whether the trials check memory too.
    """
    searches = iter(range(MOST_FURTHERED))
    said = [(problem.path, problem.message) for problem in found.errors]
    for place, problem in enumerate(found.errors):
        suggestion = found.suggestions.get(said[place])
        if suggestion is None:
            continue
        others = frozenset(said[:place] + said[place + 1 :])
        fixes = _helping(suggestion, trials, frozenset()) or _with_more(suggestion, furthered, searches)
        if not fixes and others:
            fixes = [replace(fix, alone=False) for fix in _helping(suggestion, trials, others)]
        certain = memory and all(fix.alone for fix in fixes)
        found.errors[place] = _advised(problem, suggestion if certain else _of_memory_unknown(suggestion), fixes)


def _helping(suggestion: Suggestion, trials: Trials, others: frozenset[tuple[str, str]]) -> list[Fix]:
    fixes: list[Fix] = []
    for group in suggestion.groups:
        if len(fixes) == suggestion.most:
            break
        for remedy in group:
            left = trials.problems(remedy)
            if left is not None and left <= others:
                fixes.append(Fix(remedy))
                break
    return fixes


def _with_more(
    suggestion: Suggestion, furthered: Callable[[Remedy], Sequence[Fix] | None], searches: Iterator[int]
) -> list[Fix]:
    """The first proposal that helps together with remedies for too little memory."""
    for remedy in (remedy for group in suggestion.groups for remedy in group):
        fixes = furthered(remedy)
        if fixes:
            return list(fixes)[:1]
        if fixes is not None and next(searches, None) is None:
            break
    return []


def _of_memory_unknown(suggestion: Suggestion) -> Suggestion:
    return replace(suggestion, form=VALID) if suggestion.form == FITS else suggestion


def _advised(problem: Problem, suggestion: Suggestion, fixes: Sequence[Fix]) -> Problem:
    if not fixes:
        return problem
    told = suggestion.form.format(options_text([fix.edits for fix in fixes]))
    return replace(problem, message=f"{problem.message}; {told}", fixes=tuple(fixes))


def options_text(remedies: Iterable[Remedy]) -> str:
    """Short text of alternatives; values of one setting are listed in order.

    Example:
        >>> options_text([{"parallelism.tp_degree": 4}, {"parallelism.tp_degree": 2}, {"hardware.num_nodes": 2}])
        'tp_degree: 2 or 4 or num_nodes: 2'
    """
    texts: list[str] = []
    for paths, group in groupby(remedies, key=_paths):
        if len(paths) > 1:
            texts += [remedy_text({_name(path): value for path, value in remedy.items()}) for remedy in group]
            continue
        values = [remedy[paths[0]] for remedy in group]
        if all(isinstance(value, int) for value in values):
            values.sort()
        first = remedy_text({_name(paths[0]): values[0]})
        texts.append(" or ".join([first, *(remedy_text({"": value}).removeprefix(": ") for value in values[1:])]))
    return " or ".join(texts)


def _paths(remedy: Remedy) -> tuple[str, ...]:
    return tuple(remedy)


def _name(path: str) -> str:
    """The name of a setting in messages: the last part of its path."""
    return str(key_path(path)[-1])
