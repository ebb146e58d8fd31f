"""Facts that tables leave out: the files are valid, name what exists, and a mistake is reported at its line."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from simsys.config.hardware import load_engine, load_fabric, load_gpu, load_node
from simsys.errors import ConfigError
from simsys.fidelity.tables.deployments import Deployments
from simsys.fidelity.tables.engine_names import TrainingEngines, engine_of, habits_of
from simsys.fidelity.tables.facts import Facts, _read, facts
from simsys.fidelity.tables.hardware_names import Machines, machine_of
from simsys.fidelity.tables.model_names import Models
from simsys.fidelity.tables.serving_engines import ServingEngines, engine_setup
from simsys.fidelity.tables.serving_load import Loads
from simsys.fidelity.tables.training_recipes import TrainingRecipes
from simsys.fidelity.tables.words import Words, meaning, training_words
from tests.helpers.places import ROOT

FOLDER = ROOT / "experiments" / "measured"
KINDS = [Deployments, Loads, Machines, Models, ServingEngines, TrainingEngines, TrainingRecipes, Words]


def edited(kind: type[Facts], old: str, new: str, folder: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """The error of a file in which one text is another."""
    place = folder / "experiments" / "measured"
    shutil.copytree(FOLDER, place)
    text = (FOLDER / kind.filename).read_text(encoding="utf-8")
    assert old in text
    (place / kind.filename).write_text(text.replace(old, new, 1), encoding="utf-8")
    monkeypatch.setattr("simsys.fidelity.tables.facts.shipped_folder", lambda name: folder / name)
    with pytest.raises(ConfigError) as found:
        _read.__wrapped__(kind)
    return str(found.value)


def test_every_file_of_facts_has_a_reader_and_says_where_it_comes_from() -> None:
    assert {kind.filename for kind in KINDS} == {file.name for file in FOLDER.glob("*.yaml")}
    assert all(facts(kind).source for kind in KINDS)


def test_the_profiles_that_facts_name_exist() -> None:
    machines = facts(Machines)
    for machine in machines.machines:
        assert load_gpu(machine.gpu).name == machine.gpu
        assert load_fabric(machine.fabric)
        assert not machine.node or load_node(machine.node)
    assert all(load_node(node.node) for node in machines.nodes)
    assert all(load_gpu(gpu).name == gpu for gpu in machines.kernel_systems.values())
    training, serving = facts(TrainingEngines), facts(ServingEngines)
    profiles = [*(named.profile for named in training.names), training.otherwise, *training.habits]
    profiles += [setup.profile for setup in serving.setups.values()]
    assert {load_engine(profile).name for profile in profiles} == set(profiles)


def test_every_habit_names_its_source() -> None:
    assert all(habits.source for habits in facts(TrainingEngines).habits.values())


def test_a_program_has_its_habits_and_others_have_none() -> None:
    assert engine_of("Megatron-DeepSpeed") == "deepspeed"
    assert not habits_of("deepspeed").scatter_gather
    assert habits_of("deepspeed").waits_for_sends
    assert habits_of("torchtitan").selective_recompute == "half"
    assert habits_of("of another name") == habits_of("and another")
    assert not habits_of("of another name").waits_for_sends


def test_an_earlier_version_of_an_engine_is_set_up_as_it_was() -> None:
    assert engine_setup("vLLM").profile == "vllm"
    assert engine_setup("vLLM", "0.6.3").profile == "vllm-v0"
    assert engine_setup("vLLM", "2023-10").scheduler == "vllm_v0"
    assert engine_setup("NVIDIA TensorRT-LLM", "0.5").step_tokens == 2048


def test_the_first_pattern_counts() -> None:
    assert machine_of("H100-SXM-80GB 350 W power cap").gpu == "H100-SXM-350W"
    assert machine_of("H100-SXM-80GB").gpu == "H100-SXM"
    assert meaning("bf16 with fp8 matrix products", training_words().precisions) == "fp8"
    assert meaning("int8", training_words().precisions) is None


@pytest.mark.parametrize(
    ("kind", "old", "new", "message"),
    [
        (Machines, "gpu: GH200-96GB", "gpus: GH200-96GB", "unknown key 'gpus', did you mean 'gpu'"),
        (Machines, "'gb200'", "'gb200('", "not a regular expression"),
        (TrainingEngines, "waits_for_sends: true ", "waits_for_sends: perhaps ", "true or false is needed"),
        (
            ServingEngines,
            "{beginnings: [sglang], setup: sglang}",
            "{beginnings: [sglang], setup: sg}",
            "no setup is called 'sg'",
        ),
        (Deployments, "{largest: [16384, decode_tokens]}", "{largest: [16384, decoded]}", "is not one of"),
        (Loads, "fewest_requests: 16", "fewest_requests: 0", "must be above 0, not 0"),
        (Models, "source: Krell", "sauce: Krell", "missing required key 'source'"),
        (Words, "means: fp4", "means: [fp4]", "text is needed, not a list"),
    ],
)
def test_a_mistake_is_reported_at_its_line(
    kind: type[Facts], old: str, new: str, message: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    said = edited(kind, old, new, tmp_path, monkeypatch)
    assert message in said
    assert f"{kind.filename}:" in said
    assert said.split(f"{kind.filename}:", 1)[1][0].isdigit()
