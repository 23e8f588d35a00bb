"""Patterns of .gitignore files: what git says of them, and what they cost."""

from __future__ import annotations

import shutil
import subprocess
import time
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, seed, settings
from hypothesis import strategies as st

from amplint.engine.globs import parse
from amplint.engine.patterns import Patterns

PIECES = ["a", "b", "ab", "*", "?", "[ab]", "[!a]", "[a-c]", "\\*", " ", ".", "[[:alpha:]]"]
SEGMENTS = st.one_of(
    st.just("**"),
    st.lists(st.sampled_from(PIECES), min_size=1, max_size=4).map(lambda pieces: "".join(pieces).replace("**", "*")),
)
LINES = st.builds(
    "{}{}{}".format,
    st.sampled_from(["", "", "", "!", "/"]),
    st.lists(SEGMENTS, min_size=1, max_size=4).map("/".join),
    st.sampled_from(["", "", "/"]),
)
NAMES = st.sampled_from(["a", "b", "c", "ab", "abc", "a.b", "*", "b a"])
PATHS = st.lists(NAMES, min_size=1, max_size=4).map("/".join)


@pytest.fixture(scope="module")
def repository(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An empty git repository."""
    folder = tmp_path_factory.mktemp("repository")
    subprocess.run(["git", "init", "-q"], cwd=folder, check=True)
    return folder


@pytest.mark.skipif(shutil.which("git") is None, reason="git is not installed")
@seed(22)
@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(lines=st.lists(LINES, min_size=1, max_size=4), paths=st.lists(PATHS, min_size=8, max_size=24, unique=True))
def test_git_agrees(repository: Path, lines: list[str], paths: list[str]) -> None:
    (repository / ".gitignore").write_text("\n".join(lines), encoding="utf-8")
    told = subprocess.run(
        ["git", "check-ignore", "--no-index", "-z", "--stdin"],
        cwd=repository,
        input="\0".join(paths),
        capture_output=True,
        text=True,
        check=False,
    )
    patterns = Patterns(str(repository), lines)
    ours = {path for path in paths if patterns.verdict(str(repository / path)) is True}
    assert ours == set(filter(None, told.stdout.split("\0"))), lines


@pytest.mark.parametrize("line", ["[z-a]", "[ab", "a\\", "[[:vowel:]]", "[", "a/[!]"])
def test_invalid_lines(line: str) -> None:
    with pytest.raises(ValueError, match=r"\w"):
        parse(line)
    assert Patterns("/", [line, "b"]).invalid == [line]


@pytest.mark.parametrize("line", ["", "   ", "# a", "/", "!"])
def test_lines_that_say_nothing(line: str) -> None:
    assert parse(line) is None


@pytest.mark.parametrize("piece", ["*a", "?*", "[ab]*", "**/a/", "**/*a", "*a/**/"])
def test_wildcards_are_not_tried_again_and_again(piece: str) -> None:
    patterns = Patterns("/r", [f"{piece * 40}b"])
    started = time.process_time()
    assert patterns.verdict("/r/" + "a/" * 60 + "a" * 200 + "c") is None
    assert time.process_time() - started < 1


def test_many_lines() -> None:
    started = time.process_time()
    patterns = Patterns("/r", [f"name{number}" for number in range(50_000)])
    assert patterns.verdict("/r/a/name49999/b") is True
    assert patterns.verdict("/r/a/name50000/b") is None
    assert time.process_time() - started < 2
