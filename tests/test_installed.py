"""Entry points are found where `importlib.metadata` finds them."""

from __future__ import annotations

import importlib.metadata
import sys
import zipfile
from pathlib import Path

import pytest

from amplint.installed import EntryPoint, entry_points

LIST = (
    "[other]\nx = y\n[tests.group]\n# none = here\nplain = json\nmember = json.decoder : JSONDecoder.decode [extra]\n"
)


def names(group: str) -> set[tuple[str, str]]:
    return {(entry.name, entry.value) for entry in entry_points(group)}


@pytest.mark.parametrize("group", ["console_scripts", "amplint.rules", "pytest11", "nobody's"])
def test_what_is_installed(group: str) -> None:
    assert names(group) == {(entry.name, entry.value) for entry in importlib.metadata.entry_points(group=group)}


def test_the_first_of_two_copies_counts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for folder, text in (("new", LIST), ("old", "[tests.group]\nold = json\n"), ("bare", "")):
        metadata = tmp_path / folder / f"Some_Package-{len(folder)}.dist-info"
        metadata.mkdir(parents=True)
        (metadata / "METADATA").write_text("Name: some-package\n", encoding="utf-8")
        if text:
            (metadata / "entry_points.txt").write_text(text, encoding="utf-8")
    monkeypatch.setattr(sys, "path", [str(tmp_path / "new"), str(tmp_path / "old"), *sys.path])
    plain, member = sorted(entry_points("tests.group"), key=lambda entry: entry.name, reverse=True)
    assert plain.load() is __import__("json")
    assert member == EntryPoint("member", "json.decoder : JSONDecoder.decode [extra]")
    assert member.load() is __import__("json").JSONDecoder.decode
    monkeypatch.setattr(sys, "path", [str(tmp_path / "bare"), *sys.path])
    assert names("tests.group") == set()


def test_archives(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    archive = tmp_path / "packages.zip"
    with zipfile.ZipFile(archive, "w") as file:
        file.writestr("some-1.dist-info/METADATA", "Name: some\n")
        file.writestr("some-1.dist-info/entry_points.txt", LIST)
    monkeypatch.setattr(sys, "path", [*sys.path, str(archive)])
    assert {name for name, _ in names("tests.group")} == {"plain", "member"}
