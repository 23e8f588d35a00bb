"""Which files are linted."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from amplint.engine.discover import Found, discover
from amplint.engine.projects import Projects


def found(*paths: str) -> Found:
    """What `discover` makes of `paths`, without configuration."""
    return discover(paths, Projects({}))


def names(*paths: str) -> list[str]:
    """The names of the files that are found."""
    result = found(*paths)
    assert not result.problems
    assert not result.missing
    return [target.filename for target in result.targets]


def make(*paths: str) -> None:
    """Create empty files in the current folder, with their folders."""
    for path in paths:
        Path(path).parent.mkdir(parents=True, exist_ok=True)
        Path(path).touch()


def test_order_and_names(project: Path) -> None:
    make("b.py", "a/z.py", "a/c/y.py", "a.py", "notes.txt", "a/data.json", "B.py")
    assert names(".") == ["B.py", "a.py", "b.py", "a/z.py", "a/c/y.py"]
    assert names("a", "b.py") == ["a/z.py", "a/c/y.py", "b.py"]
    assert names("./a") == ["a/z.py", "a/c/y.py"]
    assert names(str(project / "a" / "c")) == [str(project / "a" / "c" / "y.py")]


def test_a_file_is_linted_once(project: Path) -> None:
    make("a.py", "b/c.py")
    assert names("a.py", ".", "a.py", "b/../a.py", "b") == ["a.py", "b/c.py"]


def test_named_files_need_no_suffix(project: Path) -> None:
    make("train", "build/made.py")
    assert names("train", "build/made.py") == ["train", "build/made.py"]


@pytest.mark.parametrize("folder", [".git", ".venv", "venv", "build", "dist", "node_modules", "site-packages"])
def test_folders_that_are_never_entered(project: Path, folder: str) -> None:
    make("a.py", f"{folder}/b.py", f"pkg/{folder}/c/d.py")
    assert names(".") == ["a.py"]
    assert names(f"pkg/{folder}") == [f"pkg/{folder}/c/d.py"]


def test_gitignore(project: Path) -> None:
    make("a.py", "gen.py", "out/b.py", "pkg/c.py", "pkg/gen.py", "pkg/keep/gen.py", "pkg/deep/only.py", "only.py")
    Path(".gitignore").write_text("# generated\ngen.py\n/out/\n/only.py\n!\n", encoding="utf-8")
    Path("pkg/keep/.gitignore").write_text("!gen.py\n", encoding="utf-8")
    assert names(".") == ["a.py", "pkg/c.py", "pkg/deep/only.py", "pkg/keep/gen.py"]
    assert names("gen.py") == ["gen.py"]


def test_gitignore_of_the_repository_counts_below_it(project: Path) -> None:
    make(".git/HEAD", "pkg/a.py", "pkg/gen.py", "out/b.py")
    Path(".gitignore").write_text("gen.py\nout/\n", encoding="utf-8")
    assert names("pkg") == ["pkg/a.py"]
    assert names("out") == ["out/b.py"]


def test_missing_paths(project: Path) -> None:
    make("a.py")
    result = found("gone", "a.py", "gone.py")
    assert result.missing == ["gone", "gone.py"]
    assert [target.filename for target in result.targets] == ["a.py"]


def test_linked_files_are_linted_under_one_name(project: Path) -> None:
    make("src/a.py", "outside/b.py", "src/data/c.py")
    os.symlink("a.py", "src/same.py")
    os.symlink("../outside/b.py", "src/b.py")
    os.symlink("../outside", "src/folder")
    assert names("src") == ["src/a.py", "src/b.py", "src/data/c.py"]
    os.symlink("src", "link")
    assert names("link/data") == ["link/data/c.py"]
    assert names("link") == ["link/a.py", "link/b.py", "link/data/c.py"]
