import json
import re

import pytest
import yaml
from click.testing import CliRunner

from simsys import search
from simsys.cli import cli
from simsys.config.experiment import SimulationConfig
from simsys.errors import UsageError

SMALL = {
    "hardware": {"profile": "dgx-h100", "gpus_per_node": 4},
    "model": {"name": "GPT2-Small"},
    "training": {"global_batch_size": 16, "num_iterations": 2},
    "search": {
        "over": {
            "parallelism.tp_degree": [1, 2, 4],
            "parallelism.pp_stages": [1, 2],
            "parallelism.strategy": ["DDP", "ZERO1", "FSDP"],
            "training.batch_size_per_gpu": "auto",
        }
    },
}


def changed(**sections):
    return {**SMALL, **{name: {**SMALL.get(name, {}), **section} for name, section in sections.items()}}


def asked(tmp_path, document, *options):
    path = tmp_path / "small.yaml"
    path.write_text(yaml.safe_dump(document))
    return CliRunner().invoke(cli, ["search", str(path), "--jobs", "1", *options])


def answer(tmp_path, document, *options):
    result = asked(tmp_path, document, "--json", *options)
    assert result.exit_code == 0, result.output
    return json.loads(result.stdout)


@pytest.fixture(scope="module")
def small(tmp_path_factory):
    """The answer for `SMALL`."""
    return answer(tmp_path_factory.mktemp("small"), SMALL)


def test_best_layout_is_the_best_of_all_simulated_ones(tmp_path, small):
    found = small
    every = answer(tmp_path, SMALL, "--top", "1000")

    assert found["considered"] == every["considered"] == found["pruned"] + found["simulated"]
    assert sum(every["reasons"].values()) + len(every["best"]) == every["considered"]
    seconds = [each["metrics"]["steady_iteration_s"] for each in every["best"]]
    assert found["best"][0]["metrics"]["steady_iteration_s"] <= min(seconds) * (
        1 + (found["best"][0]["expected_loss"] or 0)
    )
    assert min(seconds) == min(each["metrics"]["steady_iteration_s"] for each in found["best"])


def test_settings_of_the_answer_give_its_metrics_in_a_run(tmp_path, small):
    first = small["best"][0]
    (tmp_path / "small.yaml").write_text(yaml.safe_dump(SMALL))
    options = [text for path, value in first["settings"].items() for text in ("--set", f"{path}={json.dumps(value)}")]
    result = CliRunner().invoke(cli, ["run", str(tmp_path / "small.yaml"), "--no-files", "--json", *options])

    metrics = json.loads(result.stdout)["scenarios"][0]["metrics"]
    assert metrics["steady_iteration_s"] == first["metrics"]["steady_iteration_s"]


def test_answer_as_text_states_every_stage(tmp_path):
    result = asked(tmp_path, SMALL, "--top", "3")
    assert result.exit_code == 0, result.output
    assert re.search(
        r"stage 1: \d+ layouts by closed forms, \d+ fit .*\nstage 2: .*\nstage 3: 3 finalists", result.stdout
    )
    assert "expected loss against the best of these" in result.stdout


def test_maximum_is_the_minimum_of_the_time(tmp_path, small):
    fastest = small["best"]
    largest = answer(tmp_path, changed(search={"maximize": "tokens_per_s"}))["best"]
    assert max(each["metrics"]["tokens_per_s"] for each in largest) == max(
        each["metrics"]["tokens_per_s"] for each in fastest
    )


def test_conditions_hold_in_every_answer(tmp_path, small):
    free = small["best"]
    limit = sorted(each["metrics"]["peak_memory_share"] for each in free)[1] * 0.999
    bound = changed(search={"subject_to": [f"peak_memory_share < {limit}"]})
    found = answer(tmp_path, bound)
    assert all(each["metrics"]["peak_memory_share"] < limit for each in found["best"])
    assert any("does not hold" in reason for reason in found["reasons"])


def test_pareto_has_no_layout_that_another_one_beats(tmp_path):
    names = ("steady_iteration_s", "peak_memory_share")
    found = answer(tmp_path, SMALL, "--pareto", *names)["best"]
    points = [tuple(each["metrics"][name] for name in names) for each in found]
    assert len(points) > 1
    assert not [(a, b) for a in points for b in points if a != b and all(x <= y for x, y in zip(a, b, strict=True))]


def test_settings_outside_the_layout_vary_too(tmp_path):
    found = answer(tmp_path, changed(search={"over": {"hardware.gpus_per_node": [2, 4]}}))
    assert {each["settings"]["hardware.gpus_per_node"] for each in found["best"]} == {2, 4}


def test_nothing_feasible_is_exit_code_3_with_reasons(tmp_path):
    document = changed(search={"subject_to": ["peak_memory_share < 0.0001"]})
    result = asked(tmp_path, document)
    assert result.exit_code == 3
    assert "nothing is feasible" in result.stdout
    assert "peak_memory_share < 0.0001 does not hold" in result.stdout


def test_indivisible_batch_is_a_reason(tmp_path):
    result = asked(
        tmp_path, changed(training={"global_batch_size": 15}, search={"over": {"parallelism.tp_degree": [1]}})
    )
    assert result.exit_code == 3
    assert "do not divide the global batch" in result.stdout


@pytest.mark.parametrize(
    ("sections", "message"),
    [
        ({"search": {"minimize": "steady_iteration"}}, "did you mean 'steady_iteration_s'"),
        ({"search": {"subject_to": ["memory"]}}, "is not a condition"),
        ({"search": {"subject_to": ["peak_memory < 1"]}}, "unknown metric in search.subject_to"),
        ({"search": {"over": {"parallelism.tp_degre": [1]}}}, "did you mean 'tp_degree'"),
        ({"search": {"over": {"parallelism.tp_degree": [0]}}}, "positive integers are needed, not 0"),
        ({"search": {"over": {"parallelism.strategy": ["ZERO"]}}}, "unknown value 'ZERO', did you mean"),
        ({"search": {"over": {"parallelism.dp_degree": [1]}}}, "it follows from the number of GPUs"),
        ({"search": {"over": {"hardware.gpus": [1]}}}, "unknown key 'gpus'"),
        ({"search": {"over": {}}}, "search.over"),
        ({"search": {"minimize": "mfu", "maximize": "mfu"}}, "one goal"),
        ({"training": {"global_batch_size": None, "batch_size_per_gpu": 1}}, "write training.global_batch_size"),
    ],
)
def test_bad_question_is_refused_before_anything_runs(tmp_path, sections, message):
    result = asked(tmp_path, changed(**sections))
    assert result.exit_code == 2
    assert message in result.stderr


def test_absurd_space_is_refused_with_its_count(tmp_path):
    over = {f"model.{key}": list(range(1, 10_001)) for key in ("num_layers", "hidden_size", "vocab_size")}
    result = asked(tmp_path, changed(search={"over": over}))
    assert result.exit_code == 2
    assert "1,000,000,000,000 layouts" in result.stderr


def test_search_of_several_jobs_is_refused(tmp_path):
    document = {
        "hardware": {"profile": "dgx-h100"},
        "model": {"name": "GPT2-Small"},
        "training": {"global_batch_size": 8},
        "jobs": [{"name": "a", "gpus": 8}],
        "search": {"maximize": "tokens_per_s"},
    }
    result = asked(tmp_path, document)
    assert result.exit_code == 2
    assert "is for one training job or one serving scenario" in result.stderr


def test_python_answer_has_a_table_and_a_short_repr():
    config = SimulationConfig.model_validate(SMALL)
    found = search(config, maximize="mfu", top=3)
    assert re.fullmatch(r"SearchResult\(experiment: mfu 0\.\d+, 3 of \d+ layouts\)", repr(found))
    table = found.table()
    assert len(table) == 3
    assert table["mfu"].is_monotonic_decreasing or table["group"].is_monotonic_increasing


def test_two_goals_in_python_are_refused():
    with pytest.raises(UsageError, match="one goal"):
        search(SimulationConfig.model_validate(SMALL), minimize="mfu", maximize="mfu")
