"""Fingerprints of projects, which spare a warm run the searches of all files."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from amplint.engine.modules import Answers, Lookups, Modules, is_still_valid
from amplint.engine.modules.mentions import Mentions
from amplint.source.source import Source


@pytest.fixture
def project(tmp_path: Path) -> Path:
    (tmp_path / ".git").mkdir()
    (tmp_path / "parts").mkdir()
    (tmp_path / "parts" / "other.py").write_text("use_amp = True\n", encoding="utf-8")
    (tmp_path / "README.md").write_text("Start it with `python train.py`.\n", encoding="utf-8")
    (tmp_path / "data.bin").write_bytes(b"one")
    (tmp_path / "train.py").write_text("import torch\n", encoding="utf-8")
    return tmp_path


def asked(project: Path) -> Answers:
    path = str(project / "train.py")
    lookups = Lookups(Modules(), Source(path, "import torch\n", path))
    main = Source(path, "import torch\n", path)
    assert lookups.sets(main, "use_amp")
    assert lookups.unresolved(main) is None
    return lookups.answers()


def test_a_project_that_stays_is_not_searched(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    answers = asked(project)

    def refuse(*_: object) -> bool:
        raise AssertionError("searched again")

    monkeypatch.setattr(Mentions, "sets", refuse)
    assert is_still_valid(Modules(), answers)


CHANGES: dict[str, Callable[[Path], object]] = {
    "content": lambda root: (root / "parts" / "other.py").write_text(
        "use_amp = False\nuse_amp = 1\n", encoding="utf-8"
    ),
    "a new file": lambda root: (root / "parts" / "new.yaml").write_text("a: 1\n", encoding="utf-8"),
    "documentation": lambda root: (root / "README.md").write_text("PYTHONPATH=parts\n", encoding="utf-8"),
    "a name": lambda root: (root / "data.bin").rename(root / "other.bin"),
    "a link": lambda root: (root / "link").symlink_to(root / "parts"),
}


@pytest.mark.parametrize("change", CHANGES.values(), ids=list(CHANGES))
def test_a_project_that_changes_is_searched_again(
    project: Path, monkeypatch: pytest.MonkeyPatch, change: Callable[[Path], object]
) -> None:
    answers, searched = asked(project), list[str]()
    change(project)

    def sets(self: Mentions, importer: str, name: str) -> bool:
        searched.append(name)
        return True

    monkeypatch.setattr(Mentions, "sets", sets)
    assert is_still_valid(Modules(), answers)
    assert searched == ["use_amp"]


def test_what_is_searched_again_may_differ(project: Path) -> None:
    answers = asked(project)
    (project / "parts" / "other.py").write_text("", encoding="utf-8")
    assert not is_still_valid(Modules(), answers)


def test_a_file_outside_of_its_project_has_no_fingerprint(project: Path) -> None:
    assert Modules().fingerprints.of(str(project / "train.py"))
    assert not Modules().fingerprints.of(str(project / "missing.py"))
    (project / "parts" / "link").symlink_to(project)
    assert not Modules().fingerprints.of(str(project / "train.py"))
