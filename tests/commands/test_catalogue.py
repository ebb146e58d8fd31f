"""Lists where an installed plug-in is broken, and words that are no command."""

from __future__ import annotations

from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from simsys.cli import cli


@pytest.fixture(autouse=True)
def in_an_empty_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


@pytest.fixture
def broken(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """An installed distribution whose module raises when it is imported; the place of the error."""
    site = tmp_path / "site"
    distribution = site / "broken_plug-1.dist-info"
    distribution.mkdir(parents=True)
    (distribution / "METADATA").write_text("Metadata-Version: 2.1\nName: broken-plug\nVersion: 1\n", encoding="utf-8")
    points = "[simsys.frameworks]\nbroken_one = broken_plug:Broken\n[simsys.collectives]\nbroken_two = broken_plug:X\n"
    (distribution / "entry_points.txt").write_text(points, encoding="utf-8")
    (site / "broken_plug.py").write_text("import math\nmath.sqrt(-1)\n", encoding="utf-8")
    monkeypatch.syspath_prepend(str(site))
    return f"{site / 'broken_plug.py'}:2"


def run(*arguments: str) -> Result:
    return CliRunner().invoke(cli, arguments)


@pytest.mark.parametrize(
    ("kind", "name", "other"), [("frameworks", "broken_one", "chunked_prefill"), ("collectives", "broken_two", "ring")]
)
def test_a_plug_in_that_cannot_be_imported_is_named_and_the_rest_is_listed(
    broken: str, kind: str, name: str, other: str
) -> None:
    result = run("list", kind)
    assert result.exit_code == 0
    assert f"\n{other} " in result.stdout
    assert name not in result.stdout
    assert f"note: {name} is left out: " in result.stderr
    assert broken in result.stderr


def test_using_it_says_where_it_is_broken_and_other_modules_work(broken: str) -> None:
    run("init", "--serving")
    few = ["--set", "workload.num_requests=3", "--quiet", "--no-files"]
    assert run("run", "serving.yaml", *few).exit_code == 0
    result = run("run", "serving.yaml", "--set", "serving.scheduler=broken_one", *few)
    assert result.exit_code == 2
    assert broken in result.stderr


def test_a_file_may_be_named_like_a_command() -> None:
    run("init", "--serving", "--out", "run")
    assert run("run", "run", "--set", "workload.num_requests=3", "--quiet", "--no-files").exit_code == 0
    assert run("check", "run").exit_code == 0


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["sweep", "statu"], "no such file or command 'statu', did you mean 'status'?"),
        (["lab", "trian"], "Did you mean 'train'"),
        (["chek"], "did you mean 'check'"),
        (["check", "e.yaml", "--jsno"], "No such option '--jsno'. Did you mean '--json'?"),
    ],
)
def test_a_wrong_word_has_a_suggestion(arguments: list[str], message: str) -> None:
    result = run(*arguments)
    assert result.exit_code == 2
    assert message in result.stderr


@pytest.mark.parametrize(
    ("name", "kind"),
    [("DeepSeek-V3", "model"), ("H100", "gpu"), ("mfu", "metric"), ("serving.max_num_seqs", "setting")],
)
def test_the_kind_of_a_name_may_be_left_out(name: str, kind: str) -> None:
    short, full = run("show", name), run("show", kind, name)
    assert short.exit_code == 0
    assert short.stdout == full.stdout


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("models", "a NAME is missing; 'simsys list models' lists them"),
        ("ring", "'ring' is the name of collective and of topology; write the KIND too: show collective ring"),
        ("DeepSek-V3", "unknown name 'DeepSek-V3', did you mean 'DeepSeek-V3'?"),
        ("nothing", "'simsys list KIND' lists the names of a KIND: models, gpus"),
    ],
)
def test_a_name_without_its_kind_has_to_be_that_of_one_thing(name: str, message: str) -> None:
    result = run("show", name)
    assert result.exit_code == 2
    assert message in result.stderr


@pytest.mark.parametrize("columns", ["40", "1", "wide"])
def test_a_narrow_terminal_is_no_problem(columns: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", columns)
    for arguments in (["run", "--help"], ["list", "gpus"], ["show", "gpu", "H100"], []):
        result = run(*arguments)
        assert (result.exit_code, "Traceback" in result.output) == (0, False)
