"""What a release is made of: pinned actions, no stored secrets, a wheel that is the same wherever it is built."""

from __future__ import annotations

import importlib.metadata
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import yaml
from packaging.requirements import Requirement

ROOT = Path(__file__).parents[1]
WORKFLOWS = sorted((ROOT / ".github/workflows").glob("*.yml"))
PINNED = re.compile(r"[\w./-]+@[0-9a-f]{40}")


@pytest.mark.parametrize("path", [*WORKFLOWS, ROOT / "action.yml"], ids=lambda path: path.name)
def test_actions_are_pinned_to_commits(path: Path) -> None:
    used = re.findall(r"uses: *(\S+)", path.read_text(encoding="utf-8"))
    assert used
    assert [one for one in used if not PINNED.fullmatch(one)] == []


@pytest.mark.parametrize("path", WORKFLOWS, ids=lambda path: path.name)
def test_workflows_may_write_nothing_by_default_and_hold_no_secrets(path: Path) -> None:
    text = path.read_text(encoding="utf-8")
    assert "secrets." not in text
    assert yaml.safe_load(text)["permissions"] in ({}, {"contents": "read"})


def test_a_release_is_attested_and_published_by_identity() -> None:
    jobs = yaml.safe_load((ROOT / ".github/workflows/release.yml").read_text(encoding="utf-8"))["jobs"]
    build, publish = jobs["build"], jobs["publish"]
    assert build["permissions"] == {"contents": "read", "id-token": "write", "attestations": "write"}
    assert publish["permissions"] == {"id-token": "write"}
    assert any("attest-build-provenance" in step.get("uses", "") for step in build["steps"])
    assert all("with" not in step or "password" not in step["with"] for step in publish["steps"])


def test_a_wheel_is_the_same_wherever_it_is_built(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SOURCE_DATE_EPOCH", "1700000000")
    built = []
    for place in ("one", "another/deeper"):
        checkout, out = tmp_path / place, tmp_path / f"{place}-wheel"
        checkout.mkdir(parents=True)
        for folder in ("amplint", "rules"):
            shutil.copytree(ROOT / folder, checkout / folder, ignore=shutil.ignore_patterns("__pycache__"))
        for name in ("pyproject.toml", "README.md", "LICENSE"):
            shutil.copyfile(ROOT / name, checkout / name)
        options = ["--quiet", "--no-index", "--no-deps", "--no-build-isolation", "--wheel-dir", str(out)]
        subprocess.run([sys.executable, "-m", "pip", "wheel", *options, str(checkout)], check=True, capture_output=True)
        (wheel,) = out.iterdir()
        built.append(wheel.read_bytes())
    assert built[0] == built[1]


def needed(name: str) -> set[str]:
    """A distribution and all that it requires on this Python, without extras."""
    try:
        requires = importlib.metadata.requires(name) or []
    except importlib.metadata.PackageNotFoundError:
        return set()
    wanted = map(Requirement, requires)
    plain = (one.name for one in wanted if one.marker is None or one.marker.evaluate({"extra": ""}))
    return {name.lower()}.union(*map(needed, plain))


def test_licences_of_dependencies_are_listed() -> None:
    page = (ROOT / "docs/reliability.md").read_text(encoding="utf-8").lower()
    assert [name for name in sorted(needed("amplint") - {"amplint"}) if f"| {name} |" not in page] == []
