"""Scripts of one command: words are quoted, and read back as they were, by this reader and by a shell."""

from __future__ import annotations

import subprocess
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from simsys.deployments.shell import Raw, command_words, options_of, plain, script, script_options

WORDS = st.text(st.characters(blacklist_categories=["Cs", "Cc"]), min_size=1, max_size=12).filter(
    lambda text: not text.startswith("--") and text.strip() == text
)
VALUES = st.one_of(
    st.just(True), st.integers(-5, 10**9), st.floats(0.001, 1e6), WORDS.filter(lambda text: plain(text) == text)
)


@given(st.dictionaries(st.from_regex(r"\A[a-z][a-z.\-]{0,8}\Z"), VALUES, max_size=5), WORDS)
def test_words_are_read_back(options: dict[str, Any], word: str) -> None:
    text = script(["run it", word], options, ["A comment: 'quotes' and $PATH."])
    words = command_words(text)
    assert words[:2] == ["run it", word]
    assert options_of(words[2:]) == options


def test_a_shell_reads_the_same_words() -> None:
    odd = ["a b", "$HOME", "it's", '"', "\\", "`ls`", "*", "", "é", "#x", ";", "a\\\nb"]
    text = script(["printf", r"%s\0", *odd], {"o": "x y", "list": ["1", "2 3"], "flag": True}, [])
    found = subprocess.run(["sh", "-c", text], check=True, capture_output=True, text=True).stdout
    assert found.split("\0")[:-1] == [*odd, "--o", "x y", "--list", "1", "2 3", "--flag"]


def test_raw_words_are_expanded() -> None:
    text = script(["echo"], {"at": Raw('"${NODE:-here}:5"')}, [], program=["prog"], arguments={"n": 1})
    assert (
        subprocess.run(["sh", "-c", text], check=True, capture_output=True, text=True).stdout
        == "--at here:5 prog --n 1\n"
    )


@pytest.mark.parametrize(
    ("word", "value"), [("5", 5), ("0.5", 0.5), ("1e-05", 1e-05), ("true", True), ("fp8", "fp8"), ("0.22.1", "0.22.1")]
)
def test_numbers_are_told_from_text(word: str, value: Any) -> None:
    assert plain(word) == value


def test_options_in_comments() -> None:
    text = "#!/bin/bash\n#SBATCH --nodes=4\n#SBATCH --exclusive\n# SBATCH --no=1\n"
    assert script_options(text, "#SBATCH ") == {"nodes": 4, "exclusive": True}
