"""`simsys import-topology`: a profile that experiments in the folder use at once."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from simsys.cli import cli
from tests.helpers.machine_files import dgx_h100, h100_xml


@pytest.fixture(autouse=True)
def in_an_empty_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("topo.txt").write_text(dgx_h100())
    Path("dump.xml").write_text(h100_xml())


def simsys(*arguments: str) -> Result:
    return CliRunner().invoke(cli, list(arguments))


def test_an_experiment_uses_the_written_profile_with_the_times_of_the_shipped_one() -> None:
    written = simsys("import-topology", "dump.xml", "--name", "ours", "--out", ".")
    assert written.exit_code == 0, written.output
    assert written.stdout == "nodes/ours.yaml: use it with hardware: {profile: ours}\n"
    times = []
    for profile in ("ours", "dgx-h100"):
        Path("x.yaml").write_text(
            f"hardware: {{profile: {profile}, num_nodes: 2}}\nmodel: {{name: GPT2-Small}}\n"
            "parallelism: {strategy: DDP}\ntraining: {batch_size_per_gpu: 1, num_iterations: 1}\n"
        )
        run = simsys("run", "x.yaml", "--no-files", "--json")
        assert run.exit_code == 0, run.output
        times.append(json.loads(run.stdout)["scenarios"][0]["metrics"]["exposed_data_s"])
    assert times[0] == pytest.approx(times[1])


def test_without_a_folder_the_profile_is_printed() -> None:
    found = simsys("import-topology", "topo.txt")
    assert "name: topo\ngpu: H100-SXM\n" in found.stdout
    assert "note: network cards that are not near a GPU are left out: mlx5_8, mlx5_9" in found.stderr
    profile = json.loads(simsys("import-topology", "topo.txt", "--json", "--nic", "200 Gb/s").stdout)["profile"]
    assert profile["nics"]["bandwidth"] == "25 GB/s"


@pytest.mark.parametrize(
    ("arguments", "reason"),
    [
        (("none.txt",), "cannot read none.txt"),
        (("x.bin",), "this is not UTF-8 text"),
        (("empty.txt",), "there is no matrix of nvidia-smi topo -m here"),
        (("topo.txt", "--name", "../x"), "'../x' is no name of a profile"),
        (("topo.txt", "--nic", "fast"), "'fast' is not a bandwidth"),
        (("topo.txt", "--out", "dump.xml"), "dump.xml is a file, a folder is needed"),
    ],
)
def test_what_cannot_be_read_or_written_is_refused(arguments: tuple[str, ...], reason: str) -> None:
    Path("x.bin").write_bytes(b"GPU0 \xff\xfe")
    Path("empty.txt").write_text("")
    found = simsys("import-topology", *arguments)
    assert (found.exit_code, reason in found.output) == (2, True), found.output
