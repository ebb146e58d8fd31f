"""Options of commands as people write them: other names, sizes, JSON, files, and options that hide others."""

from __future__ import annotations

from pathlib import Path

import pytest

from simsys.deployments.launch import Launch
from simsys.errors import UsageError

KNOWN = ("model", "max-model-len", "tensor-parallel-size", "no-enable-prefix-caching", "config-json", "dtype")
LAUNCH = Launch(
    starts=(("tool", "serve"), ("-m", "tool.server"), ("tool/image*",)),
    positional="model",
    other_names={"tp": "tensor-parallel-size"},
    other_values={"dtype": {"half": "float16", "usual": "auto"}},
    without_effect=frozenset({"port", "*log-*"}),
    hides={"quantization": ("dtype",)},
    only={"dataset": ("random",)},
    config=("config",),
    sizes=True,
    nested=True,
)


def options(line: str, folder: Path = Path()) -> dict[str, object]:
    words = LAUNCH.arguments(line.split())
    assert words is not None
    return LAUNCH.options(words, KNOWN, folder)


@pytest.mark.parametrize(
    "line",
    [
        "tool serve M -tp 4",
        "tool serve M --tp=4",
        "python -m tool.server --model M --tensor_parallel_size 4",
        "docker run --gpus all tool/image:v1 --model M --tensor-parallel-size 4",
        "/usr/bin/tool serve M --tensor-parallel-size=4",
    ],
)
def test_each_way_of_writing_is_the_same(line: str) -> None:
    assert options(line) == {"model": "M", "tensor-parallel-size": 4}


def test_other_commands_are_not_its_own() -> None:
    assert LAUNCH.arguments(["tool", "bench", "serve"]) is None
    assert LAUNCH.arguments(["serve"]) is None


def test_sizes_and_booleans_are_numbers_and_flags() -> None:
    assert options("tool serve M --max-model-len 32k")["max-model-len"] == 32_000
    assert options("tool serve M --max-model-len 1.5K")["max-model-len"] == 1536
    assert options("tool serve M --enable-prefix-caching False")["no-enable-prefix-caching"] is True


def test_values_that_mean_the_default_are_as_if_left_out() -> None:
    assert options("tool serve M --dtype auto") == {"model": "M"}
    assert options("tool serve M --dtype usual") == {"model": "M"}
    assert options("tool serve M --dtype half")["dtype"] == "float16"
    assert "dtype" not in options("tool serve M --dtype half --quantization fp8")


def test_json_has_one_form_and_may_be_given_by_keys() -> None:
    words = ["M", "--config-json", '{"a":1,"b":"x"}']
    assert LAUNCH.options(words, KNOWN, Path())["config-json"] == '{"a": 1, "b": "x"}'
    assert options("tool serve M --config-json.a 1 --config-json.b x")["config-json"] == '{"a": 1, "b": "x"}'
    with pytest.raises(UsageError, match="no JSON"):
        LAUNCH.options(["M", "--config-json", "{a"], KNOWN, Path())


def test_a_file_of_options_counts_where_the_command_says_nothing(tmp_path: Path) -> None:
    (tmp_path / "c.yaml").write_text("model: other\nmax_model_len: 4096\n")
    assert options("tool serve M --config c.yaml", tmp_path) == {"model": "M", "max-model-len": 4096}
    with pytest.raises(UsageError, match=r"cannot read .*none.yaml"):
        options("tool serve M --config none.yaml", tmp_path)
    (tmp_path / "c.yaml").write_text("- 1\n")
    with pytest.raises(UsageError, match="options are needed, with their values"):
        options("tool serve M --config c.yaml", tmp_path)


def test_options_without_effect_are_known_by_name() -> None:
    names = ("port", "disable_log-requests", "no-disable-log-stats", "max-model-len")
    assert [LAUNCH.changes_nothing(name) for name in names] == [True, True, True, False]


def test_what_cannot_be_read_is_refused() -> None:
    with pytest.raises(UsageError, match="--dataset sharegpt cannot be read; possible: random"):
        options("tool serve M --dataset sharegpt")
    with pytest.raises(UsageError, match="'N' belongs to no option"):
        options("tool serve M N")
