"""Expected errors of runs: cross-validated errors of measured runs, by GPU, engine and regime."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any

import yaml

from simsys.build.regimes import regimes_of
from simsys.config.expected_errors import ALL, load_of
from simsys.config.hardware import Named
from simsys.fidelity.bands import band_of
from simsys.fidelity.case import Prediction
from simsys.fidelity.choices import ASKED, choices_of
from simsys.fidelity.errors import errors_of
from simsys.fidelity.ranking import Ranking, rankings
from simsys.fidelity.scenario_run import ScenarioRun
from simsys.report.files import write_files
from simsys.report.yaml_text import yaml_text

FEWEST = 8
"""Rows below which no error is stated."""
OF_LOAD = "ttft_ms"
"""The metric whose errors are stated by load."""
STATIC = "static_batch"

Place = tuple[str, ...]
"""Nested keys of the document."""


def errors_to_expect(predictions: Sequence[Prediction], read: Sequence[frozenset[Named]]) -> dict[str, Any]:
    """Return errors by family, GPU (and `ALL`) and metric: median, p90 and number of rows.

    Args:
        predictions: Predictions of held-out rows.
        read: The profiles that each of them read.
    """
    rows: dict[Place, list[Prediction]] = {}
    for each, profiles in zip(predictions, read, strict=True):
        if each.predicted is not None:
            for name in (ALL, *_gpus(profiles)):
                rows.setdefault((each.case.family, name, each.case.metric), []).append(each)
    return _document({place: own for place, own in rows.items() if len(own) >= FEWEST})


def with_errors_of(path: Path, own: Mapping[str, Mapping[str, Any]], source: str) -> str | None:
    """Return a file of `errors_to_expect` with other errors of some GPUs.

    Args:
        path: The file; there may be none.
        own: By family and GPU, the errors.
        source: What they come from, for a comment at the top.

    Returns:
        The text; None without errors.
    """
    if not own:
        return None
    text = path.read_text(encoding="utf-8") if path.is_file() else ""
    about = f"# Of {', '.join(sorted({gpu for gpus in own.values() for gpu in gpus}))} by"
    comments = [line for line in text.splitlines() if line.startswith("#") and not line.startswith(about)]
    found: dict[str, Any] = yaml.safe_load(text) or {}
    for family, gpus in own.items():
        found[family] = dict(sorted({**found.get(family, {}), **gpus}.items()))
    return "\n".join([*comments, f"{about} {source}", yaml_text(found)])


def errors_by_regime(predictions: Sequence[Prediction], read: Sequence[frozenset[Named]]) -> dict[str, Any]:
    """Return errors by family and engine, by family and regime, and of TTFT by load and GPU.

    For fewer than `FEWEST` rows, only their number is stated. Arguments as for `errors_to_expect`.
    """
    rows: dict[Place, list[Prediction]] = {}
    for each, profiles in zip(predictions, read, strict=True):
        if each.predicted is not None and isinstance(each.case.run, ScenarioRun):
            for place in _places(each, _gpus(profiles)):
                rows.setdefault((each.case.family, *place), []).append(each)
    return _document(rows)


def write_errors_by_regime(
    path: Path, predictions: Sequence[Prediction], read: Sequence[frozenset[Named]], *, heading: str
) -> list[Path]:
    """Write `errors_by_regime` as YAML.

    Args:
        path: The file.
        predictions: Predictions of held-out rows.
        read: The profiles that each of them read.
        heading: The comment at the top of the file.

    Raises:
        OutputError: If that fails.
    """
    return _write_commented(path, errors_by_regime(predictions, read), heading)


def losses_to_expect(predictions: Sequence[Prediction]) -> dict[str, Any]:
    """Return, by family, the loss of the choice of a search, then of each kind of choice if there are several.

    Args:
        predictions: Predictions of held-out rows.

    Returns:
        Content of the file that `simsys.config.expected_losses` reads.
    """
    found: dict[str, Any] = {}
    for family, choices in sorted(choices_of(predictions).items()):
        kinds = {kind: _loss(ranking) for kind, ranking in rankings(choices).items()}
        if ASKED.get(family) in kinds:
            found[family] = {**kinds[ASKED[family]], **({"choices": kinds} if len(kinds) > 1 else {})}
    return found


def _loss(ranking: Ranking) -> dict[str, Any]:
    return {
        "loss": round(ranking.loss, 4),
        "sets": ranking.sets,
        "rows": ranking.rows,
        "rank_correlation": round(ranking.spearman, 3),
        **({"beyond_limits": round(ranking.beyond, 3)} if ranking.beyond else {}),
    }


def write_expected_losses(path: Path, predictions: Sequence[Prediction], *, heading: str) -> list[Path]:
    """Write `losses_to_expect` as YAML; arguments and errors as `write_errors_by_regime`."""
    return _write_commented(path, losses_to_expect(predictions), heading)


def _write_commented(path: Path, content: dict[str, Any], heading: str) -> list[Path]:
    comments = "".join(f"# {line}\n" for line in heading.splitlines())
    text = comments + yaml_text(content)
    return write_files(path.parent, {path.name: lambda file: file.write(text)})


def _places(prediction: Prediction, gpus: Sequence[str]) -> Iterator[Place]:
    """Yield the places of the document where the error of a prediction counts."""
    case = prediction.case
    assert isinstance(case.run, ScenarioRun)
    engine, regimes = _facets(case.run)
    yield "engines", engine, case.metric
    for regime in regimes:
        yield "regimes", regime, case.metric
    load = load_of(prediction.figures)
    if case.metric == OF_LOAD and case.tags.get("load_kind") != STATIC and load is not None:
        for name in (ALL, *gpus):
            yield "loads", load, name, case.metric


@cache
def _facets(run: ScenarioRun) -> tuple[str, Sequence[str]]:
    """Return the engine and the regimes of a run."""
    job = run.job()
    return job.engine.name, regimes_of(job)


def _gpus(profiles: frozenset[Named]) -> list[str]:
    return [name for kind, name in sorted(profiles) if kind == "gpu"]


def _document(rows: Mapping[Place, Sequence[Prediction]]) -> dict[str, Any]:
    """Return nested mappings with the errors at each place."""
    found: dict[str, Any] = {}
    for place, own in sorted(rows.items()):
        inner = found
        for key in place[:-1]:
            inner = inner.setdefault(key, {})
        inner[place[-1]] = _errors(own) if len(own) >= FEWEST else {"rows": len(own)}
    return found


def _errors(rows: Sequence[Prediction]) -> dict[str, Any]:
    errors = errors_of(rows)
    assert errors.median_error is not None
    assert errors.p90_error is not None
    return {
        "rows": errors.predicted,
        "median": round(errors.median_error, 3),
        "nine_of_ten": round(errors.p90_error, 3),
        "band": [round(end, 3) for end in band_of([each.error for each in rows])],
    }
