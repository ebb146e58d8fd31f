"""What a shell completes by name: the values of options and arguments."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

import click


def kinds(_: click.Context, __: click.Parameter, incomplete: str) -> list[str]:
    """Kinds of `simsys list`."""
    from simsys.report.catalogue import CATALOGUES

    return _beginning(CATALOGUES, incomplete)


def kinds_singular(_: click.Context, __: click.Parameter, incomplete: str) -> list[str]:
    """Kinds of `simsys show`."""
    from simsys.report.catalogue import SINGULAR

    return _beginning(SINGULAR.values(), incomplete)


def names_of_kind(ctx: click.Context, _: click.Parameter, incomplete: str) -> list[str]:
    """Names of the kind that is given before."""
    from simsys.errors import SimsysError
    from simsys.report.catalogue import catalogue

    try:
        return _beginning(catalogue(ctx.params.get("kind") or "").names(), incomplete)
    except SimsysError:
        return []


def scenarios(ctx: click.Context, _: click.Parameter, incomplete: str) -> list[str]:
    """Scenarios of the file that is given before."""
    import yaml

    file = ctx.params.get("file") or next(iter(ctx.args), "")  # an option without its value ends the parsing
    try:
        data = yaml.safe_load(Path(file).read_text(encoding="utf-8"))
        parts = data.get("scenarios", [data])
        return _beginning([part["name"] for part in parts], incomplete)
    except (OSError, ValueError, TypeError, KeyError, AttributeError, yaml.YAMLError):  # not yet a file with scenarios
        return []


def settings(_: click.Context, __: click.Parameter, incomplete: str) -> list[str]:
    """Paths of settings."""
    from simsys.report.setting_facts import setting_names

    return _beginning(setting_names(), incomplete)


def metrics(_: click.Context, __: click.Parameter, incomplete: str) -> list[str]:
    """Names of metrics."""
    from simsys.metrics.definitions import metrics_by_name

    return _beginning(metrics_by_name(), incomplete)


def _beginning(names: Iterable[str], incomplete: str) -> list[str]:
    return [name for name in names if str(name).lower().startswith(incomplete.lower())]
