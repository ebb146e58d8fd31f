"""The command line: what each command says, where, and with which exit code."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from io import StringIO
from pathlib import Path
from typing import Any

import pytest
import yaml
from click.testing import CliRunner, Result

import simsys.report.outcome
import simsys.report.progress
from simsys import SimulationConfig, __version__
from simsys.cli import cli
from simsys.errors import DeadlockError, OutputError
from simsys.report.catalogue import CATALOGUES, catalogue
from simsys.report.progress import ProgressLine
from simsys.report.threshold import Threshold

pytestmark = pytest.mark.skipif(os.name != "posix", reason="signals and devices are POSIX")

TRAINING: dict[str, Any] = {
    "name": "gpt2",
    "hardware": {"gpu": "A100-SXM-80GB"},
    "model": {"name": "GPT2-Small"},
    "training": {"batch_size_per_gpu": 2, "num_iterations": 2},
}
SERVING: dict[str, Any] = {
    "name": "llama",
    "hardware": {"gpu": "H100-SXM"},
    "model": {"name": "Llama3-8B"},
    "serving": {},
    "workload": {
        "arrivals": {"kind": "poisson", "rate": "6 req/s"},
        "prompt_tokens": 100,
        "output_tokens": 20,
        "num_requests": 20,
    },
}
TOO_LARGE: dict[str, Any] = {**SERVING, "name": "large", "model": {"name": "Llama3-70B"}}
ENDLESS: dict[str, Any] = {
    **SERVING,
    "name": "endless",
    "workload": {**SERVING["workload"], "num_requests": 100_000, "output_tokens": 1000},
    "simulation": {"lod": "high"},
}


@pytest.fixture(autouse=True)
def in_an_empty_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def write(*scenarios: dict[str, Any], name: str = "e.yaml") -> str:
    Path(name).write_text(yaml.safe_dump({"scenarios": list(scenarios)}), encoding="utf-8")
    return name


def run(*arguments: str) -> Result:
    """Run a command in this process; a traceback may never be shown."""
    result = CliRunner().invoke(cli, arguments)
    assert "Traceback" not in result.output
    return result


def process(*arguments: str, **options: Any) -> subprocess.CompletedProcess[str]:
    """Run a command as a user does."""
    command = [sys.executable, "-m", "simsys", *arguments]
    defaults: dict[str, Any] = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    return subprocess.run(command, text=True, check=False, **{**defaults, **options})


def files(folder: str = "results") -> list[str]:
    return sorted(str(path.relative_to(folder)) for path in Path(folder).rglob("*") if path.is_file())


# --- the start -----------------------------------------------------------------------------------------------------


def test_without_arguments_it_shows_three_examples_in_a_few_lines() -> None:
    result = run()
    assert result.exit_code == 0
    assert len(result.stdout.splitlines()) <= 12
    assert result.stdout.count("\n  simsys ") == 3


def test_version() -> None:
    result = run("--version")
    assert (result.exit_code, result.stdout) == (0, f"simsys, version {__version__}\n")


@pytest.mark.parametrize("command", ["run", "check", "list", "show"])
def test_help_of_a_command_imports_nothing_heavy(command: str) -> None:
    arguments = [sys.executable, "-X", "importtime", "-m", "simsys", command, "--help"]
    found = subprocess.run(arguments, capture_output=True, text=True, check=True)
    imported = {line.rsplit("|", 1)[1].strip() for line in found.stderr.splitlines() if "|" in line}
    assert "simsys.cli" in imported
    assert not imported & {"numpy", "pydantic", "yaml", "simpy", "pandas", "matplotlib", "networkx", "jinja2"}


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["rnu"], "No such command 'rnu', did you mean 'run'?"),
        (["run", "e.yaml", "--quite"], "'--quiet'"),
        (["run"], "Missing argument 'FILE'"),
        (["run", "e.yaml", "--lod", "hihg"], "'hihg' is not one of 'high', 'medium'"),
        (["run", "none.yaml"], "none.yaml: no such file"),
        (["check", "none.yaml"], "none.yaml: no such file"),
        (["run", "e.yaml", "--scenario", "gpt3"], "unknown scenario 'gpt3', did you mean 'gpt2'?"),
        (["run", "e.yaml", "--set", "seed"], "write a path, '=' and a value"),
        (["run", "e.yaml", "--fail-on", "mfu"], "'mfu' is not a condition"),
        (["run", "e.yaml", "--fail-on", "mfu>nan"], "'mfu>nan' is not a condition"),
        (["run", "e.yaml", "--fail-on", "mfuu>1"], "unknown metric in --fail-on 'mfuu', did you mean 'mfu'?"),
        (["run", "e.yaml", "--fail-on", "p99_ttft_ms>1"], "a metric of serving, but the file has training only"),
        (["list", "gpuz"], "unknown kind 'gpuz', did you mean 'gpus'?"),
        (["show", "gpu", "H1000"], "unknown gpu profile 'H1000', did you mean 'H100'?"),
        (["show", "topology", "rign"], "unknown topology 'rign', did you mean 'ring'?"),
        (["show", "models", "Lama3-8B"], "unknown model 'Lama3-8B', did you mean"),
    ],
)
def test_wrong_usage_is_2_with_a_suggestion(arguments: list[str], message: str) -> None:
    write(TRAINING)
    result = run(*arguments)
    assert result.exit_code == 2
    assert message in result.stderr


# --- run -----------------------------------------------------------------------------------------------------------


def test_answers_come_first_then_what_was_written() -> None:
    result = run("run", write(TRAINING, SERVING))
    assert (result.exit_code, result.stderr) == (0, "")
    lines = result.stdout.splitlines()
    assert lines[0].startswith("gpt2: ")
    assert "per iteration" in lines[0]
    (second,) = [line for line in lines if line.startswith("llama: ")]
    assert "TTFT p50" in second
    written = [line.strip() for line in lines if line.startswith("  results/")]
    assert sorted(written) == [f"results/{name}" for name in files()]
    assert files() == [
        "gpt2/gpt2_bottlenecks.json",
        "gpt2/gpt2_config.yaml",
        "gpt2/gpt2_iterations.csv",
        "gpt2/gpt2_ranks.csv",
        "gpt2/gpt2_results.json",
        "llama/llama_bottlenecks.json",
        "llama/llama_config.yaml",
        "llama/llama_metrics.prom",
        "llama/llama_requests.csv",
        "llama/llama_results.json",
        "llama/llama_serving.json",
        "llama/llama_timeline.csv",
    ]
    assert "\033" not in result.stdout


def test_quiet_is_one_line_for_each_scenario() -> None:
    result = run("run", write(TRAINING, SERVING), "--quiet", "--no-files")
    assert [line.partition(":")[0] for line in result.stdout.splitlines()] == ["gpt2", "llama"]
    assert not Path("results").exists()


@pytest.mark.parametrize("chosen", [["llama"], ["llama", "llama"], ["gpt2", "llama"]])
def test_scenarios_can_be_chosen(chosen: list[str]) -> None:
    options = [text for name in chosen for text in ("--scenario", name)]
    result = run("run", write(TRAINING, SERVING), "--quiet", "--no-files", *options)
    assert [line.partition(":")[0] for line in result.stdout.splitlines()] == list(dict.fromkeys(chosen))


def test_settings_and_the_level_of_detail_can_be_changed() -> None:
    result = run("run", write(TRAINING), "--set", "training.num_iterations=3", "--lod", "high", "--out", "there")
    assert result.exit_code == 0
    config = yaml.safe_load(Path("there/gpt2/gpt2_config.yaml").read_text(encoding="utf-8"))
    assert config["training"]["num_iterations"] == 3
    assert config["simulation"]["lod"] == "high"
    assert "level of detail high" in result.stdout


def test_scenarios_may_not_share_their_files() -> None:
    result = run("run", write(TRAINING, SERVING), "--set", "name=same")
    assert result.exit_code == 2
    assert "several scenarios are called same" in result.stderr
    assert not Path("results").exists()


def test_json_is_one_object_and_nothing_else() -> None:
    result = run("run", write(TRAINING, TOO_LARGE, SERVING), "--json")
    found = json.loads(result.stdout)
    assert result.exit_code == 3
    assert list(found) == ["schema_version", "scenarios", "files", "notes"]
    assert [scenario["name"] for scenario in found["scenarios"]] == ["gpt2", "large", "llama"]
    training, large, _ = found["scenarios"]
    written = json.loads(Path("results/gpt2/gpt2_results.json").read_text(encoding="utf-8"))
    performance = training.pop("performance")
    assert training == written
    assert sorted(performance) == ["cpu_s", "events_per_s", "wall_s"]
    assert sorted(large) == ["error", "exit_code", "name"]
    assert large["exit_code"] == 3
    assert sorted(found["files"]) == [f"results/{name}" for name in files()]


def test_what_does_not_fit_is_an_answer_and_the_others_are_run() -> None:
    result = run("run", write(TOO_LARGE, TRAINING), "--quiet")
    first, second = result.stdout.splitlines()
    assert result.exit_code == 3
    assert first.startswith("large: ")
    assert "does not fit" in first
    assert second.startswith("gpt2: ")
    assert len(files()) == 5


def test_what_does_not_fit_does_not_matter_if_it_is_not_chosen() -> None:
    assert run("run", write(TOO_LARGE, TRAINING), "--scenario", "gpt2").exit_code == 0


def test_with_a_wrong_configuration_nothing_is_run() -> None:
    wrong = {**SERVING, "model": {"name": "Llama3-9B"}, "hardware": {"gpu": "H10"}}
    result = run("run", write(TRAINING, wrong))
    assert (result.exit_code, result.stdout) == (2, "")
    assert "did you mean 'Llama3-8B'" in result.stderr
    assert "did you mean 'H100'" in result.stderr
    assert result.stderr.splitlines()[-1] == "2 problems"
    assert not Path("results").exists()


@pytest.mark.parametrize(
    ("condition", "code"),
    [
        ("mfu>0", 1),
        ("mfu>=1", 0),
        ("mfu < 1", 1),
        ("p99_ttft_ms>0", 1),
        ("p99_ttft_ms>1e9", 0),
        ("rejected>0", 0),
        ("rejected>=0", 1),
        ("overloaded>0", 0),
        ("request_goodput<1", 1),  # without targets there is no goodput, and no value cannot be good enough
    ],
)
def test_a_condition_decides_the_exit_code(condition: str, code: int) -> None:
    result = run("run", write(TRAINING, SERVING), "--no-files", "--quiet", "--fail-on", condition)
    assert result.exit_code == code
    assert ("failed: " in result.stderr) == bool(code)
    assert len(result.stdout.splitlines()) == 2


def test_a_condition_that_no_scenario_can_meet_is_refused_before_anything_is_run() -> None:
    result = run("run", write(TRAINING), "--fail-on", "p99_ttft_ms>200")
    assert (result.exit_code, result.stdout) == (2, "")
    assert not Path("results").exists()


def test_a_condition_is_read_as_written() -> None:
    assert Threshold.parse(" p99_ttft_ms >= 2e2 ") == Threshold("p99_ttft_ms", ">=", 200.0)


# --- errors --------------------------------------------------------------------------------------------------------


def failing(error: BaseException) -> Callable[..., Any]:
    def fail(*_: Any) -> Any:
        raise error

    return fail


@pytest.mark.parametrize(
    ("error", "code", "message"),
    [
        (DeadlockError("rank 0 waits for rank 1"), 4, "internal error: rank 0 waits for rank 1"),
        (ZeroDivisionError(), 4, "internal error: ZeroDivisionError in fail (test_cli.py:"),
        (KeyboardInterrupt(), 130, "interrupted; finished: none"),
    ],
)
def test_errors_are_messages_without_a_traceback(
    monkeypatch: pytest.MonkeyPatch, error: BaseException, code: int, message: str
) -> None:
    monkeypatch.setattr(simsys.report.outcome, "_simulate", failing(error))
    result = run("run", write(TRAINING))
    assert result.exit_code == code
    assert message in result.stderr


def test_debug_shows_where_an_error_comes_from(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(simsys.report.outcome, "_simulate", failing(ZeroDivisionError("division by zero")))
    result = CliRunner().invoke(cli, ["run", write(TRAINING), "--debug"])
    assert result.exit_code == 4
    assert "Traceback" in result.stderr
    assert "internal error: division by zero" in result.stderr


def test_files_that_cannot_be_written_do_not_cost_the_answer() -> None:
    Path("taken").write_text("kept", encoding="utf-8")
    result = run("run", write(TRAINING, SERVING), "--out", "taken", "--quiet")
    assert result.exit_code == OutputError.exit_code
    assert [line.partition(":")[0] for line in result.stdout.splitlines()] == ["gpt2", "llama"]
    assert result.stderr.count("taken is a file, a folder is needed") == 2
    assert Path("taken").read_text(encoding="utf-8") == "kept"


def test_results_of_another_configuration_are_kept_and_named() -> None:
    file = write(TRAINING)
    for _ in range(2):
        assert "kept" not in run("run", file, "--quiet").stderr
    changed = run("run", file, "--json", "--set", "training.num_iterations=3")
    kept = json.loads(changed.stdout)["scenarios"][0]["earlier_results"]
    assert f"gpt2: earlier results of another configuration are kept in {kept}" in changed.stderr
    assert files(kept) == files("results/gpt2")
    assert json.loads(Path(kept, "gpt2_results.json").read_text(encoding="utf-8"))["metrics"]["iterations"] == 2


def test_files_are_replaced_and_others_left_alone() -> None:
    Path("results/gpt2").mkdir(parents=True)
    for name in ("gpt2_results.json", "notes.txt"):
        Path("results/gpt2", name).write_text("mine", encoding="utf-8")
    assert run("run", write(TRAINING)).exit_code == 0
    assert Path("results/gpt2/notes.txt").read_text(encoding="utf-8") == "mine"
    assert Path("results/gpt2/gpt2_results.json").read_text(encoding="utf-8").startswith("{")


@pytest.mark.parametrize("arguments", [["list", "gpus"], ["--help"], ["run", "--help"], []])
def test_output_that_cannot_be_written_is_an_error(arguments: list[str]) -> None:
    with open("/dev/full", "w", encoding="utf-8") as full:
        found = process(*arguments, stdout=full)
    assert found.returncode == OutputError.exit_code
    assert found.stderr == "error: cannot write to standard output: No space left on device\n"


def test_closed_output_is_an_error() -> None:
    found = process("list", "gpus", stdout=None, preexec_fn=lambda: os.close(1))
    assert found.returncode == OutputError.exit_code
    assert found.stderr == "error: cannot write to standard output: it is closed\n"


def test_a_reader_that_has_seen_enough_is_no_error() -> None:
    write(TRAINING, SERVING)
    reading, writing = os.pipe()
    os.close(reading)
    with os.fdopen(writing, "w") as pipe:
        found = process("run", "e.yaml", stdout=pipe)
    assert (found.returncode, found.stderr) == (0, "")
    assert len(files()) == 12, "the files are written nevertheless"


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_an_interrupted_run_says_what_is_finished_and_how_to_go_on(number: int) -> None:
    file, seed = write(TRAINING, ENDLESS, SERVING), "simulation.seed=1"
    command = [sys.executable, "-m", "simsys", "run", file, "--set", seed, "--yes"]
    with subprocess.Popen(
        command,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        preexec_fn=lambda: signal.signal(number, signal.SIG_DFL),  # what is run in the background may ignore it
    ) as running:
        assert running.stdout is not None
        assert running.stdout.readline().startswith("gpt2: ")  # the first scenario is finished
        running.send_signal(number)
        _, errors = running.communicate(timeout=30)
    assert running.returncode == 130
    assert errors.splitlines() == [
        "interrupted; finished: gpt2",
        "to run the rest: simsys run e.yaml --scenario endless --scenario llama --set simulation.seed=1 --out results "
        "--yes",
    ]
    assert {name.partition("/")[0] for name in files()} == {"gpt2"}
    assert len(files()) == 5
    json.loads(Path("results/gpt2/gpt2_results.json").read_text(encoding="utf-8"))


def test_the_script_is_the_module(capfd: pytest.CaptureFixture[str]) -> None:
    program = "import sys; sys.argv[0] = 'simsys'; from simsys.__main__ import main; main()"
    script = subprocess.run([sys.executable, "-c", program, "lst"], capture_output=True, text=True, check=False)
    module = process("lst")
    assert (script.returncode, script.stdout, script.stderr) == (module.returncode, module.stdout, module.stderr)
    assert script.stderr.startswith("Usage: simsys [OPTIONS]")


# --- check ---------------------------------------------------------------------------------------------------------


def test_check_says_ok() -> None:
    result = run("check", write(TRAINING, SERVING))
    assert (result.exit_code, result.stdout) == (0, "e.yaml: ok, 2 scenarios: gpt2, llama\n")


@pytest.mark.parametrize("command", ["check", "run"])
@pytest.mark.parametrize(
    ("scenario", "code", "count"),
    [
        ({**TRAINING, "model": {"name": "GPT9"}, "training": {"batch_size": 2}}, 2, None),
        ({**TRAINING, "parallelism": {"dp_degree": 3}}, 2, 1),
        (TOO_LARGE, 3, 1),
    ],
)
def test_check_and_run_agree(command: str, scenario: dict[str, Any], code: int, count: int | None) -> None:
    result = run(command, write(scenario))
    assert result.exit_code == code
    if command == "check":
        assert result.stdout == ""
        last = result.stderr.splitlines()[-1]
        assert last.endswith("problem" if count == 1 else "problems")


def test_check_as_json() -> None:
    result = run("check", write(TRAINING, {**SERVING, "model": {"name": "Llama3-9B"}}), "--json")
    found = json.loads(result.stdout)
    assert result.exit_code == 2
    (problem,) = found["problems"]
    assert problem["path"] == "model.name"
    assert problem["file"] == "e.yaml"
    assert problem["line"] > 0
    assert json.loads(run("check", write(TRAINING), "--json").stdout)["scenarios"] == ["gpt2"]


def test_check_takes_settings() -> None:
    result = run("check", write(TRAINING), "--set", "hardware.gpu=H10")
    assert result.exit_code == 2
    assert "--set hardware.gpu=H10: hardware.gpu: " in result.stderr


# --- list and show -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", CATALOGUES)
def test_everything_that_is_listed_can_be_shown(kind: str) -> None:
    result = run("list", kind)
    assert result.exit_code == 0
    assert max(map(len, result.stdout.splitlines())) <= 80
    entries = json.loads(run("list", kind, "--json").stdout)["entries"]
    assert [entry["name"] for entry in entries] == list(catalogue(kind).names())
    for entry in entries:
        assert entry["name"] in result.stdout
    name = entries[0]["name"]
    assert run("show", kind, name).exit_code == 0
    assert json.loads(run("show", kind, name, "--json").stdout)["facts"]


def test_figures_have_units() -> None:
    (line,) = [line for line in run("list", "gpus").stdout.splitlines() if line.startswith("H100-SXM ")]
    assert "  80 GiB  " in line
    assert "  3.35 TB/s  989 TFLOP/s  " in line
    entries = json.loads(run("list", "gpus", "--json").stdout)["entries"]
    (entry,) = [entry for entry in entries if entry["name"] == "H100-SXM"]
    assert entry["memory_bytes"] == 80 * 2**30
    assert entry["bandwidth_bytes_per_s"] == 3.35e12


def test_a_profile_is_shown_with_its_sources_and_can_be_used_again() -> None:
    assert "aliases: [H100]\n" in run("show", "gpu", "H100").stdout
    text = run("show", "gpu", "H100", "--all").stdout
    shown = yaml.safe_load(text)
    assert shown["memory"] == "80 GiB"
    assert "datasheet" in shown["sources"]["memory"]
    mine = {**TRAINING, "hardware": {"gpu": shown}}
    assert run("check", write(mine)).exit_code == 0


def test_a_model_is_shown_with_its_parameters() -> None:
    text = run("show", "model", "llama3 8b").stdout
    assert "parameters: 8030261248\n" in text
    assert "bf16_weight: 16.1 GB\n" in text


def test_settings_are_for_the_scenarios_that_run() -> None:
    result = run(
        "run", write(TRAINING, SERVING), "--scenario", "llama", "--set", "workload.num_requests=3", "--no-files"
    )
    assert result.exit_code == 0, result.stderr
    assert "3 completed" in result.stdout
    assert run("run", write(TRAINING, SERVING), "--set", "workload.num_requests=3", "--no-files").exit_code == 2


# --- terminals -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("options", "env", "coloured"), [([], {}, True), (["--no-color"], {}, False), ([], {"NO_COLOR": "1"}, False)]
)
def test_colour_is_for_terminals_that_want_it(options: list[str], env: dict[str, str], coloured: bool) -> None:
    arguments = ["run", write(TRAINING), "--no-files", *options]
    result = CliRunner(env={"NO_COLOR": None, **env}).invoke(cli, arguments, color=True)
    assert ("\033[1m" in result.stdout) == coloured


class Terminal(StringIO):
    def isatty(self) -> bool:
        return True


def test_progress_is_shown_while_it_runs_and_cleared_at_the_end(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(simsys.report.progress, "QUIET_S", 0.0)
    monkeypatch.setattr(simsys.report.progress, "REFRESHES_PER_S", 50.0)
    monkeypatch.setenv("TERM", "xterm")
    terminal = Terminal()
    with ProgressLine(SimulationConfig(**SERVING), terminal) as progress:
        progress.request_finished(0, 1.0)
        progress.request_rejected(1, "too long", 2.0)
        given_up_s = time.monotonic() + 30.0
        while "requests" not in terminal.getvalue() and time.monotonic() < given_up_s:
            time.sleep(0.001)
    shown = terminal.getvalue()
    assert "llama: 2 of 20 requests" in shown
    assert "\033[2K" in shown[shown.rindex("requests") :]  # the line is erased at the end


def test_iterations_are_counted_once_whatever_the_number_of_ranks() -> None:
    progress = ProgressLine(SimulationConfig(**TRAINING), Terminal())
    for rank in range(4):
        progress.mark(rank, "iteration_start", 0.0)
        progress.mark(rank, "iteration_end", 1.0)
    assert (progress.done, progress.total, progress.unit) == (1, 2, "iterations")


def test_a_short_run_shows_no_progress() -> None:
    terminal = Terminal()
    with ProgressLine(SimulationConfig(**TRAINING), terminal):
        pass
    assert terminal.getvalue() == ""


# --- modules of one's own ------------------------------------------------------------------------------------------

LAST_COME = """
from frameworks.chunked_prefill import ChunkedPrefill
from simsys.framework import OrderedQueue


class LastCome(ChunkedPrefill):
    def make_queue(self):
        return OrderedQueue(lambda request: -request)
"""


@pytest.mark.parametrize(
    ("folder", "commands"), [("beside", (["run"], ["lod", "--repeats", "1"])), (".", (["run"],))], ids=["beside", "."]
)
def test_a_module_beside_the_experiment_file_or_in_the_current_folder_is_found(
    folder: str, commands: tuple[list[str], ...]
) -> None:
    Path("beside").mkdir()
    Path(folder, "last_come.py").write_text(LAST_COME, encoding="utf-8")
    file = write({**SERVING, "serving": {"scheduler": "last_come:LastCome"}}, name="beside/e.yaml")
    for command in commands:
        result = run(*command, file, "--no-files", "--json")
        assert result.exit_code == 0, result.stderr
        assert json.loads(result.stdout)["scenarios"]
        assert "last_come" not in sys.modules


def test_a_module_that_is_nowhere_is_looked_for_in_places_that_are_named() -> None:
    result = run("check", write({**SERVING, "serving": {"scheduler": "nowhere:Scheduler"}}))
    assert result.exit_code == 2
    assert "No module named 'nowhere'; searched in the folder of the experiment file" in result.stderr
    assert os.getcwd() not in sys.path


MARK = "open('executed', 'a').write(__name__)\n"


def test_nothing_that_lies_beside_the_experiment_is_executed_unless_it_names_it() -> None:
    for name in (
        "org/python/core.py",
        "org/python/__init__.py",
        "org/__init__.py",
        "yaml.py",
        "scipy.py",
        "helper.py",
    ):
        Path(name).parent.mkdir(parents=True, exist_ok=True)
        Path(name).write_text(MARK, encoding="utf-8")
    Path("last_come.py").write_text(LAST_COME, encoding="utf-8")
    file = write({**SERVING, "serving": {"scheduler": "last_come:LastCome"}})
    assert run("check", file).exit_code == 0
    for command in (["run", "--no-files"], ["lod", "--repeats", "1", "--no-files"]):
        result = process(*command, file)
        assert result.returncode == 0, result.stderr
    assert not Path("executed").exists()


def test_check_says_which_modules_it_imported() -> None:
    Path("last_come.py").write_text(LAST_COME, encoding="utf-8")
    file = write({**SERVING, "serving": {"scheduler": "last_come:LastCome"}})
    result = process("check", file)
    assert result.stdout.splitlines()[0] == f"imported: last_come from {Path('last_come.py').resolve()}"
    listed = json.loads(run("check", file, "--json").stdout)["modules"]
    assert listed == [{"name": "last_come", "file": str(Path("last_come.py").resolve())}]
    assert "imported" not in run("check", write(TRAINING)).stdout


@pytest.mark.parametrize("command", ["check", "run", "memory", "topology", "collectives", "lod"])
def test_modules_can_be_refused(command: str) -> None:
    Path("marked.py").write_text(MARK, encoding="utf-8")
    result = run(command, write({**SERVING, "serving": {"scheduler": "marked:X"}}), "--no-modules")
    assert result.exit_code == 2, result.output
    assert "'marked' is not imported, because of --no-modules" in result.stderr
    assert not Path("executed").exists()


def test_a_module_of_several_files_is_a_package() -> None:
    Path("lab").mkdir()
    Path("lab/__init__.py").touch()
    Path("lab/base.py").write_text(LAST_COME, encoding="utf-8")
    Path("lab/mine.py").write_text(
        "from .base import LastCome\nfrom lab.base import LastCome as Same\n", encoding="utf-8"
    )
    result = run("check", write({**SERVING, "serving": {"scheduler": "lab.mine:Same"}}))
    assert result.exit_code == 0, result.stderr
    assert "lab" not in sys.modules


@pytest.mark.parametrize(
    ("text", "line"),
    [("x = 1\n1 / 0\n", 2), ("def f(:\n", 1), ("\nraise SystemExit(7)\n", 2), ("import not_there\n", 1)],
)
def test_an_error_in_a_module_names_its_file_and_line(text: str, line: int) -> None:
    Path("broken.py").write_text(text, encoding="utf-8")
    result = run("check", write({**SERVING, "serving": {"scheduler": "broken:X"}}))
    assert result.exit_code == 2
    assert f"broken.py:{line})" in result.stderr
    assert "bug" not in result.stderr


def test_an_error_of_a_module_while_it_runs_names_its_file_and_line() -> None:
    Path("last_come.py").write_text(LAST_COME.replace("return Ord", "1 / 0\n        return Ord"), encoding="utf-8")
    result = run("run", write({**SERVING, "serving": {"scheduler": "last_come:LastCome"}}))
    assert result.exit_code == 2
    assert "last_come.py:8: ZeroDivisionError: division by zero" in result.stderr


def test_an_error_of_a_module_in_a_process_of_the_simulation_names_its_file_and_line() -> None:
    text = "from simsys.framework import DataParallel\nclass Mine(DataParallel):\n"
    text += "    def after_backward(self, block, *, last_micro_batch):\n        raise {}\n"
    training = {**TRAINING, "training": {**TRAINING["training"], "data_parallel": "mine:Mine"}}
    for error in ("ZeroDivisionError('no')", "SystemExit(7)"):
        Path("mine.py").write_text(text.format(error), encoding="utf-8")
        result = run("run", write(training))
        assert result.exit_code == 2
        assert f"mine.py:4: {error.partition('(')[0]}: " in result.stderr


def test_what_simsys_refuses_in_a_module_has_its_line() -> None:
    Path("mine.py").write_text(
        "from simsys.framework import DataParallel, Scheduler\n"
        "class Mine(DataParallel):\n"
        "    def finish(self):\n"
        "        return self.rank.all_reduce(1.0, over='date')\n"
        "class Idle(Scheduler):\n"
        "    def schedule(self):\n"
        "        return []\n",
        encoding="utf-8",
    )
    training = {**TRAINING["training"], "data_parallel": "mine:Mine"}
    result = run("run", write({**TRAINING, "hardware": {"profile": "dgx-a100"}, "training": training}))
    assert "no parallel axis 'date'" in result.stderr
    assert "mine.py:4)" in result.stderr
    result = run("run", write({**SERVING, "serving": {"scheduler": "mine:Idle"}}))
    assert f"scheduler Idle ({Path('mine.py').resolve()}:5) leaves 20 requests waiting" in result.stderr


# --- the terminal --------------------------------------------------------------------------------------------------

STEERING = "\x1b[31m\x9b2J\u202e\x07"


def test_what_steers_a_terminal_is_escaped() -> None:
    file = write({**TRAINING, "model": {"name": f"GPT{STEERING}"}})
    for command in ("check", "run"):
        errors = run(command, file).stderr
        assert "GPT" in errors
        assert not set("\x1b\x9b\u202e\x07") & set(errors)
    for arguments in (
        ["check", f"no{STEERING}.yaml"],
        ["show", "gpu", STEERING],
        [STEERING],
        ["run", "--x" + STEERING],
    ):
        result = run(*arguments)
        assert result.exit_code == 2
        assert "[31m" in result.stderr
        assert not set("\x1b\x9b\u202e\x07") & set(result.stderr)
