"""The model DB decides: medium costs what `aggregated_ops` say, high what `layers` say."""

from __future__ import annotations

import copy
import json
import re
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from simsys.check.scenario import check_config
from simsys.cli import cli
from simsys.config.experiment import SimulationConfig
from simsys.errors import UsageError
from simsys.executors import MIXTURES, Combination, costed_model
from simsys.model.aggregates import aggregated_ops, stated_ops
from simsys.model.model_db import FILENAME, load_model, model_names
from simsys.model.operators import OperatorKind
from simsys.model.scales import Scale, Scales
from simsys.parallel.passes import forward_pass
from simsys.simulation import simulate
from tests.helpers.places import ROOT

SHIPPED: dict[str, Any] = json.loads((ROOT / "model_db" / FILENAME).read_text(encoding="utf-8"))
MODELS = [name for name in SHIPPED if not name.startswith("$")]
SEED = """\
// model_characteristics_db.json
{
 "Llama3-8B": {
   // ... existing model parameters ...
   "aggregated_ops": {
     "prefill": { // Characterized for a representative number of prompt tokens, e.g., 512
       "total_flops_per_prompt_token": 1.5e9, 
       "total_memory_bytes_per_prompt_token": 1e6,
       "critical_path_factor": 1.0 
     },
     "decode": { // Characterized for a single token generation across a batch
       "total_flops_per_token_in_batch": 2e9, 
       "total_memory_bytes_per_token_in_batch": 1.2e6,
       "critical_path_factor": 1.0
     }
   },
   "layers": [ /* ... per-layer stats can still exist for PP or very detailed LoD ... */ ]
 }
}
"""  # noqa: W291
"""An entry as the first design of the model DB shows it, comments and all."""
Database = Callable[[str | dict[str, Any]], None]


@pytest.fixture
def database(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Database:
    """Writes a model DB that comes before the shipped one."""
    folder = tmp_path / "model_db"
    folder.mkdir()
    monkeypatch.setenv("SIMSYS_PATH", str(tmp_path))

    def write(content: str | dict[str, Any]) -> None:
        text = content if isinstance(content, str) else json.dumps(content)
        (folder / FILENAME).write_text(text, encoding="utf-8")

    return write


def entry_of(name: str, without: str = "") -> dict[str, Any]:
    """The shipped entry, without one of its parts."""
    return {key: copy.deepcopy(value) for key, value in SHIPPED[name].items() if key != without}


def scenario(name: str, lod: str, **changes: Any) -> SimulationConfig:
    """Few requests for a decoder, one iteration for all else."""
    if SHIPPED[name]["family"] == "decoder":
        serves = {
            "serving": {"max_num_batched_tokens": 2048, "max_num_seqs": 64},
            "workload": {
                "arrivals": {"kind": "all_at_once"},
                "prompt_tokens": 512,
                "output_tokens": 8,
                "num_requests": 6,
            },
        }
    else:
        serves = {"training": {"batch_size_per_gpu": 4, "num_iterations": 1}}
    return SimulationConfig.model_validate(
        {
            "hardware": {"gpu": "H200", "gpus_per_node": 1},
            "model": {"name": name},
            "simulation": {"lod": lod},
            **serves,
            **changes,
        }
    )


def trained(name: str, lod: str) -> SimulationConfig:
    """One iteration, whatever the model."""
    given = scenario("ResNet-50", lod).model_dump(exclude_unset=True)
    return SimulationConfig.model_validate({**given, "model": {"name": name, "sequence_length": 1024}})


def times_ms(config: SimulationConfig, made_of: Combination | None = None) -> list[float]:
    """What the answer is about."""
    metrics = simulate(config, made_of=made_of).metrics
    if config.training is not None:
        return [1e3 * metrics["mean_iteration_s"]]
    return [metrics["mean_ttft_ms"], metrics["mean_tpot_ms"], metrics["mean_e2el_ms"]]


@cache
def shipped_times_ms(name: str, lod: str) -> list[float]:
    """What the answer is about, with the shipped model DB."""
    return times_ms(scenario(name, lod))


@pytest.mark.parametrize("name", MODELS)
def test_shipped_macro_operations_agree_with_layers_and_have_factor_1(name: str) -> None:
    stated = SHIPPED[name]["aggregated_ops"]
    model = load_model(name)
    derived = aggregated_ops(model)
    assert {step: list(amounts) for step, amounts in stated.items()} == {step: list(a) for step, a in derived.items()}
    for step, amounts in stated.items():
        assert amounts["critical_path_factor"] == 1
        assert amounts == pytest.approx(derived[step], rel=1e-9)
    assert (model.scales, model.warnings) == (None, ())


FEW = ["GPT2-Small", "Llama3-8B", "Qwen3-30B-A3B", "BERT-Base", "T5-Large", "ResNet-50"]


@pytest.mark.parametrize("name", FEW)
def test_the_levels_agree_on_shipped_models(name: str) -> None:
    assert times_ms(scenario(name, "medium")) == pytest.approx(times_ms(scenario(name, "high")), rel=1e-9)


@pytest.mark.parametrize(
    ("name", "step", "key"),
    [
        (name, step, key)
        for name in FEW
        for step, amounts in SHIPPED[name]["aggregated_ops"].items()
        for key, amount in amounts.items()
        if amount
    ],
)
def test_a_changed_number_of_a_macro_operation_changes_medium_alone(
    name: str, step: str, key: str, database: Database
) -> None:
    before = {lod: shipped_times_ms(name, lod) for lod in ("medium", "high")}
    entry = entry_of(name)
    entry["aggregated_ops"][step][key] *= 1000  # since much is hidden below what takes longer in the same kernel
    database({name: entry})
    assert sum(times_ms(scenario(name, "medium"))) > 1.0001 * sum(before["medium"])
    assert times_ms(scenario(name, "high")) == before["high"]


@pytest.mark.parametrize("key", ["flop_per_token", "elements_per_token"])
def test_a_changed_number_of_the_layers_changes_high_alone(key: str, database: Database) -> None:
    before = {lod: times_ms(scenario("Llama3-8B", lod)) for lod in ("medium", "high")}
    entry = entry_of("Llama3-8B")
    for layer in entry["layers"]:
        for operator in layer["operators"]:
            if key in operator:
                operator[key] *= 100
    database({"Llama3-8B": entry})
    assert sum(times_ms(scenario("Llama3-8B", "high"))) > 2 * sum(before["high"])
    assert times_ms(scenario("Llama3-8B", "medium")) == pytest.approx(before["medium"], rel=1e-9)


def test_what_a_step_costs_is_what_its_macro_operation_says(database: Database) -> None:
    entry = entry_of("Llama3-8B")
    entry["aggregated_ops"]["prefill"] |= {"total_flops_per_prompt_token": 3e10, "weight_bytes_per_step": 4e10}
    entry["aggregated_ops"]["decode"] |= {"total_flops_per_token_in_batch": 5e9, "kv_bytes_per_context_token": 1e6}
    database({"Llama3-8B": entry})
    model = costed_model(load_model("Llama3-8B"), "medium")
    operators = [operator for block in model.blocks for operator in block.operators]
    prompts = [operator.costed(prompts=True) for operator in operators]
    decode = [operator.costed(prompts=False) for operator in operators]
    assert sum(op.flop_per_token for op in prompts if not op.per_logit) == pytest.approx(3e10)
    assert sum(2 * op.parameters_read(1.0) for op in prompts if not op.per_logit) == pytest.approx(4e10)
    assert sum(op.flop_per_token for op in decode) == pytest.approx(5e9)
    cached = [op.elements_per_context_token for op in decode if op.kind is OperatorKind.DECODE_ATTENTION]
    assert 2 * sum(cached) == pytest.approx(1e6)
    assert sum(op.parameters for op in operators) == SHIPPED["Llama3-8B"]["parameters"], "what is stored stays"


def test_high_costs_what_the_layers_say(database: Database) -> None:
    entry = entry_of("Llama3-8B")
    entry["aggregated_ops"]["decode"]["critical_path_factor"] = 9
    database({"Llama3-8B": entry})
    model = costed_model(load_model("Llama3-8B"), "high")
    assert all(operator.scales is None for block in model.blocks for operator in block.operators)


def test_the_critical_path_factor_multiplies_the_time_of_kernels(database: Database) -> None:
    """Of its macro operation alone, but for what the host adds."""
    one = {"arrivals": {"kind": "all_at_once"}, "prompt_tokens": 2000, "output_tokens": 9, "num_requests": 1}
    config = scenario("Llama-2-13B", "medium", workload=one)
    plain = simulate(config).metrics
    entry = entry_of("Llama-2-13B")
    found = {}
    for factor in (2, 3):
        entry["aggregated_ops"]["decode"]["critical_path_factor"] = factor
        database({"Llama-2-13B": entry})
        found[factor] = simulate(config).metrics
    more_ms = found[2]["mean_tpot_ms"] - plain["mean_tpot_ms"]
    assert found[3]["mean_tpot_ms"] - found[2]["mean_tpot_ms"] == pytest.approx(more_ms, rel=1e-6)
    assert more_ms > 0.6 * plain["mean_tpot_ms"]
    assert plain["mean_ttft_ms"] < found[2]["mean_ttft_ms"] < 1.05 * plain["mean_ttft_ms"], "of a prompt, the head"


def scaled(name: str, prefill: float, decode: float) -> dict[str, Any]:
    """The entry with all amounts of both macro operations multiplied, each by something else."""
    entry = entry_of(name)
    for step, ratio in (("prefill", prefill), ("decode", decode)):
        amounts = entry["aggregated_ops"][step]
        for place, key in enumerate(amounts):
            amounts[key] *= ratio + 0.1 * place
    return entry


LONG = {
    "arrivals": {"kind": "poisson", "rate": "40 req/s"},
    "prompt_tokens": {"kind": "uniform", "low": 10, "high": 1500},
    "output_tokens": {"kind": "uniform", "low": 1, "high": 60},
    "num_requests": 30,
}


@pytest.mark.parametrize(("name", "prefill", "decode"), [("Llama3-8B", 2.0, 0.5), ("Qwen3-30B-A3B", 0.3, 3.0)])
def test_all_ways_to_carry_out_a_step_cost_the_same(
    name: str, prefill: float, decode: float, database: Database
) -> None:
    """Runs of steps, single steps, and passes layer by layer, with prompts and decoding sequences in one pass."""
    database({name: scaled(name, prefill, decode)})
    serving = {"max_num_batched_tokens": 512, "max_num_seqs": 64}
    runs = scenario(name, "medium", workload=LONG, serving=serving)
    steps = scenario(name, "medium", workload=LONG, serving={**serving, "stepping": True})
    assert times_ms(steps) == times_ms(runs)
    assert times_ms(runs, MIXTURES["macro operations"]) == pytest.approx(times_ms(runs), rel=1e-9)


def test_parallelism_divides_what_macro_operations_say(database: Database) -> None:
    database({"Llama3-8B": scaled("Llama3-8B", 1.5, 2.0)})
    model = costed_model(load_model("Llama3-8B"), "medium")
    whole, half = (forward_pass(model, degree) for degree in (1, 2))
    flop = [
        sum(op.costed(prompts=True).flop_per_token * each.repeat for each in plan.stretches for op in each.operators)
        for plan in (whole, half)
    ]
    assert flop[1] == pytest.approx(flop[0] / 2)


def test_memory_does_not_depend_on_macro_operations(database: Database) -> None:
    before = [simulate(config("GPT2-Small", "medium")).memory_bytes for config in (scenario, trained)]
    database({"GPT2-Small": scaled("GPT2-Small", 2.0, 3.0)})
    assert [simulate(config("GPT2-Small", "medium")).memory_bytes for config in (scenario, trained)] == before


def test_training_costs_prefill_and_the_head_costs_decode_and_factors_add_no_flop(database: Database) -> None:
    plain = simulate(trained("GPT2-XL", "medium")).metrics
    entry = entry_of("GPT2-XL")
    entry["aggregated_ops"]["prefill"]["critical_path_factor"] = 3
    database({"GPT2-XL": entry})
    slower = simulate(trained("GPT2-XL", "medium")).metrics
    assert slower["mean_iteration_s"] > 1.3 * plain["mean_iteration_s"]
    assert slower["mfu"] * slower["mean_iteration_s"] == pytest.approx(plain["mfu"] * plain["mean_iteration_s"])
    entry["aggregated_ops"]["decode"]["critical_path_factor"] = 3
    database({"GPT2-XL": entry})
    assert simulate(trained("GPT2-XL", "medium")).metrics["mean_iteration_s"] > 1.01 * slower["mean_iteration_s"]
    assert times_ms(trained("GPT2-XL", "high")) == pytest.approx([1e3 * plain["mean_iteration_s"]], rel=1e-9)


@pytest.mark.parametrize("lod", ["medium", "high"])
def test_a_check_warns_where_the_two_disagree(lod: str, database: Database, tmp_path: Path) -> None:
    entry = entry_of("Llama3-8B")
    entry["aggregated_ops"]["decode"] |= {"total_flops_per_token_in_batch": 1.6e10, "critical_path_factor": 1.2}
    database({"Llama3-8B": entry})
    file = tmp_path / "scenario.json"
    file.write_text(json.dumps(scenario("Llama3-8B", lod).model_dump(mode="json", exclude_unset=True)))
    found = CliRunner().invoke(cli, ["check", str(file), "--json"])
    assert found.exit_code == 0
    (warning,) = json.loads(found.stdout)["warnings"]
    assert warning["message"] == (
        "aggregated_ops of Llama3-8B, used at medium, differ from its layers, used at high: "
        "decode.total_flops_per_token_in_batch 1.6e+10 (layers: 1.50093e+10), "
        "decode.critical_path_factor 1.2 (layers: 1)"
    )
    assert warning["path"] == "model"
    assert any("differ from its layers" in each for each in simulate(scenario("Llama3-8B", lod)).warnings)


@pytest.mark.parametrize("name", [name for name in MODELS if SHIPPED[name]["family"] != "encoder_decoder"])
def test_macro_operations_alone_are_enough_for_medium_and_refused_by_name_at_high(
    name: str, database: Database
) -> None:
    database({name: entry_of(name, without="layers")})
    model = load_model(name)
    assert not model.layered
    costed = costed_model(model, "medium")
    assert costed.parameters == pytest.approx(SHIPPED[name]["parameters"])
    for step, amounts in SHIPPED[name]["aggregated_ops"].items():
        assert stated_ops(model)[step] == pytest.approx(amounts, rel=1e-9)
    with pytest.raises(UsageError, match=f"of {re.escape(name)}, the model DB has aggregated_ops alone; high detail"):
        costed_model(model, "high")


@pytest.mark.parametrize("name", ["Llama3-8B", "Qwen3-30B-A3B", "BERT-Base", "ResNet-50"])
def test_a_model_of_macro_operations_runs_at_medium(name: str, database: Database) -> None:
    with_layers = times_ms(scenario(name, "medium"))
    database({name: entry_of(name, without="layers")})
    assert check_config(scenario(name, "medium")) == []
    assert times_ms(scenario(name, "medium")) == pytest.approx(with_layers, rel=0.6), "one roofline instead of many"


def test_high_detail_of_macro_operations_is_an_error_at_the_level_with_what_would_help(
    database: Database, tmp_path: Path
) -> None:
    database({"GPT2-Small": entry_of("GPT2-Small", without="layers")})
    file = tmp_path / "scenario.yaml"
    file.write_text(
        "hardware: {gpu: H200, gpus_per_node: 1}\nmodel: {name: GPT2-Small}\nsimulation: {lod: high}\n"
        "training: {batch_size_per_gpu: 1, num_iterations: 1}\n"
    )
    found = CliRunner().invoke(cli, ["check", str(file)])
    assert found.exit_code == 2
    assert (
        "3:19: simulation.lod: of GPT2-Small, the model DB has aggregated_ops alone; high detail needs its layers, "
        "medium does not; write lod: medium"
    ) in " ".join(found.output.split())


def test_a_draft_model_of_macro_operations_is_refused_at_high_too(database: Database) -> None:
    database({"GPT2-Small": entry_of("GPT2-Small", without="layers")})
    drafted = {"speculative": {"draft_model": "GPT2-Small", "draft_tokens": 2, "acceptance_rate": 0.5}}
    assert check_config(scenario("Llama3-8B", "medium", serving=drafted)) == []
    (problem,) = check_config(scenario("Llama3-8B", "high", serving=drafted))
    assert problem.path == "serving.speculative.draft_model"
    assert problem.message.startswith("of GPT2-Small, the model DB has aggregated_ops alone")


def test_the_literal_entry_of_the_first_design_is_loaded_and_costs_what_it_says(database: Database) -> None:
    database(SEED)
    model = load_model("Llama3-8B")
    assert stated_ops(model) == {
        "prefill": {
            "total_flops_per_prompt_token": 1.5e9,
            "total_memory_bytes_per_prompt_token": 1e6,
            "weight_bytes_per_step": 0.0,
            "attention_flops_per_token_pair": 0.0,
            "critical_path_factor": 1.0,
        },
        "decode": {
            "total_flops_per_token_in_batch": 2e9,
            "total_memory_bytes_per_token_in_batch": 1.2e6,
            "weight_bytes_per_step": 0.0,
            "kv_bytes_per_context_token": 0.0,
            "attention_flops_per_context_token": 0.0,
            "critical_path_factor": 1.0,
        },
    }
    assert times_ms(trained("Llama3-8B", "medium"))[0] > 0
    (problem,) = check_config(scenario("Llama3-8B", "medium"))
    assert problem.message == (
        "the model DB says nothing about the KV cache of Llama3-8B; add decode.kv_bytes_per_context_token to its "
        "aggregated_ops"
    )


def test_the_literal_entry_serves_once_it_says_how_large_its_cache_is(database: Database) -> None:
    known = '"total_memory_bytes_per_token_in_batch"'
    database(SEED.replace(known, f'"kv_bytes_per_context_token": 131072, {known}'))
    assert check_config(scenario("Llama3-8B", "medium")) == []
    assert times_ms(scenario("Llama3-8B", "medium"))[0] > 0


def test_numbers_that_agree_within_rounding_are_no_difference(database: Database) -> None:
    entry = entry_of("Llama3-8B")
    entry["aggregated_ops"]["prefill"]["total_flops_per_prompt_token"] *= 1 + 1e-10
    database({"Llama3-8B": entry})
    assert load_model("Llama3-8B").scales is None
    entry["aggregated_ops"]["prefill"]["total_flops_per_prompt_token"] *= 1 + 1e-6
    database({"Llama3-8B": entry})
    scales = load_model("Llama3-8B").scales
    assert scales == Scales(Scale(flop=pytest.approx(1 + 1e-6, abs=1e-9)))


def test_amounts_that_are_not_given_are_those_of_the_layers(database: Database) -> None:
    entry = entry_of("Llama3-8B")
    given = ("total_flops_per_prompt_token", "total_memory_bytes_per_prompt_token")
    entry["aggregated_ops"]["prefill"] = {key: entry["aggregated_ops"]["prefill"][key] for key in given}
    database({"Llama3-8B": entry})
    assert load_model("Llama3-8B").scales is None


def test_all_shipped_models_are_here() -> None:
    assert sorted(MODELS) == model_names()
