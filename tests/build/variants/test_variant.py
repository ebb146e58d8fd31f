"""An engine setting is named in few files, and a variant of an engine in one."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

import pytest

import simsys
from simsys.build.rules.registry import RULES
from simsys.build.serving_memory import ServingMemory
from simsys.build.variants.variant import VARIANTS, Variant, variant
from simsys.check import check_config
from simsys.config.experiment import SimulationConfig
from simsys.config.serving import ServingConfig
from simsys.serving.intake import Intake
from simsys.simulation import simulate

SOURCE = Path(simsys.__file__).parent
MOST_FILES = 3
SETTINGS = (
    *("scheduler_recv_interval", "batch_wait_timeout_iters", "batch_wait_max_tokens_ratio", "speculative"),
    "scheduler_reserve_full_isl",
    *("autoscaling", "preemption", "swap_space", "api_overhead", "max_cudagraph_capture_size", "engine_release"),
)
OTHER_WORDS = {"metrics", "fidelity", "deployments", "capacity", "searches", "aspects.py"}
"""Packages in which a setting's name means a metric, a column of a table of measurements, another tool's option, a
scenario whose replicas are not counted, or one for which a search has no bound.

A setting without an option is refused by its name, and one without an aspect is an aspect of its own, so these tables
need not follow."""


@cache
def names_in(file: Path) -> frozenset[str]:
    return frozenset(_names_in(file))


def _names_in(file: Path) -> Iterator[str]:
    """Attributes, arguments, fields and texts of a file, without its docstrings."""
    tree = ast.parse(file.read_text(encoding="utf-8"))
    prose = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr)}
    for node in ast.walk(tree):
        match node:
            case ast.Attribute(attr=name) | ast.keyword(arg=str(name)):
                yield name
            case ast.AnnAssign(target=ast.Name(id=name)):
                yield name
            case ast.Constant(value=str(text)) if id(node) not in prose:
                yield from (text, *text.removeprefix("serving.").split(".")[:1])


@pytest.mark.parametrize("setting", SETTINGS)
def test_an_engine_setting_touches_few_files(setting: str) -> None:
    assert setting in ServingConfig.model_fields
    files = [
        str(file.relative_to(SOURCE))
        for file in sorted(SOURCE.rglob("*.py"))
        if not OTHER_WORDS.intersection(file.parts) and setting in names_in(file)
    ]
    assert 0 < len(files) <= MOST_FILES, files


def test_the_builder_names_no_variant() -> None:
    names = {type(each).__name__ for each in VARIANTS}
    assert len(names) >= 8
    assert not names.intersection(names_in(SOURCE / "build" / "serving.py"))


def test_every_rule_is_about_a_setting() -> None:
    for rule in RULES:
        section, _, name = rule.setting.partition(".")
        field = SimulationConfig.model_fields[section]
        (model,) = [each for each in (field.annotation, *getattr(field.annotation, "__args__", ())) if fields_of(each)]
        assert not name or name in fields_of(model), rule.setting


def fields_of(kind: Any) -> dict[str, Any]:
    found: dict[str, Any] = getattr(kind, "model_fields", {})
    return found


class Doorman(Intake):
    """Lets requests in one run of steps after they come."""

    let_in = 0

    @property
    def longest_run(self) -> int:
        return 1

    def passes(self, request: int) -> bool:
        if not self.engine.left:
            return True
        self.waiting.append(request)
        return False

    def ran(self, steps: int, *, prompts: bool) -> None:
        Doorman.let_in += len(self.waiting)
        self.release()


def scenario(**serving: Any) -> SimulationConfig:
    return SimulationConfig.model_validate(
        {
            "hardware": {"gpu": "H100-SXM"},
            "model": {"name": "GPT2-Small"},
            "serving": serving,
            "workload": {
                "arrivals": {"kind": "constant", "rate": "500 req/s"},
                "prompt_tokens": 64,
                "output_tokens": 16,
                "num_requests": 16,
            },
        }
    )


def test_a_variant_of_ones_own_is_one_class(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("simsys.build.variants.variant.VARIANTS", own := list(VARIANTS))
    monkeypatch.setattr(Doorman, "let_in", 0)

    @variant
    class WithADoorman(Variant):
        regime = "a doorman"

        def on(self, settings: ServingConfig) -> bool:
            return settings.max_num_seqs == 7

        def assumptions(self, setup: ServingMemory) -> Iterator[str]:
            yield "a doorman lets requests in"

        def intake(self, pool: ServingMemory, together: list[Intake]) -> Intake:
            return Doorman()

    assert len(own) == len(VARIANTS) + 1
    plain, with_it = simulate(scenario(max_num_seqs=8)), simulate(scenario(max_num_seqs=7))
    assert "a doorman lets requests in" in with_it.assumptions
    assert "a doorman lets requests in" not in plain.assumptions
    assert Doorman.let_in > 0
    assert with_it.metrics["completed"] == 16


def test_a_rule_of_a_variant_is_one_of_the_check() -> None:
    (problem,) = check_config(scenario(batch_wait_max_tokens_ratio=0.5))
    assert problem.path == "serving.batch_wait_max_tokens_ratio"
