"""The recipes of docs/ci.md: their script lines are run as they stand, their YAML follows published schemas."""

from __future__ import annotations

import importlib.resources
import json
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import jsonschema
import pytest
import yaml

from tests.test_action import PYTHON
from tests.test_cli import BAD, GOOD

ROOT = Path(__file__).parents[1]
PAGE = (ROOT / "docs" / "ci.md").read_text(encoding="utf-8")
RECIPES = dict(re.findall(r"<!-- recipe: ([\w-]+) -->\n```\w+\n(.*?)^```$", PAGE, re.DOTALL | re.MULTILINE))
PIP = '#!/bin/sh\nprintf \'%s\\n\' "$@" >>"$STAND_IN_LOG"\n'


def schema(name: str) -> dict[str, Any]:
    """A published schema, from the package that keeps them."""
    found = importlib.resources.files("check_jsonschema") / "builtin_schemas" / "vendor" / f"{name}.json"
    read: dict[str, Any] = json.loads(found.read_text(encoding="utf-8"))
    return read


def lines_of(recipe: str) -> list[str]:
    """The texts that the service hands to a shell."""
    if recipe == "jenkins":
        return re.findall(r"\bsh '(.*)'", RECIPES[recipe])
    read = yaml.safe_load(RECIPES[recipe])
    if recipe == "gitlab-ci":
        return list(read["amplint"]["script"])
    return [step["script"] for step in read["steps"] if "script" in step]


REPORTS = {"gitlab-ci": "gl-code-quality-report.json", "azure-pipelines": "amplint.xml", "jenkins": "amplint.xml"}


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    """A repository with one finding, and beside it the programs that recipes call."""
    programs = tmp_path / "bin"
    programs.mkdir()
    amplint = f'#!/bin/sh\nexec "{sys.executable}" -P -m amplint "$@"\n'
    for name, text in (("pip", PIP), ("python", PYTHON), ("amplint", amplint)):
        (programs / name).write_text(text, encoding="utf-8")
        (programs / name).chmod(0o755)
    folder = tmp_path / "checkout"
    folder.mkdir()
    (folder / "train.py").write_text(BAD, encoding="utf-8")
    return folder


def run(recipe: str, checkout: Path) -> list[subprocess.CompletedProcess[str]]:
    """Run the script lines of `recipe` up to the first one that fails, as all of the services do."""
    environment = {
        "PATH": f"{checkout.parent / 'bin'}{os.pathsep}{os.environ['PATH']}",
        "XDG_CACHE_HOME": os.environ["XDG_CACHE_HOME"],
        "STAND_IN_LOG": str(checkout.parent / "log"),
        "STAND_IN_PYTHON": sys.executable,
    }
    ran = []
    for line in lines_of(recipe):
        ran.append(subprocess.run(["bash", "-c", line], cwd=checkout, env=environment, capture_output=True, text=True))
        if ran[-1].returncode:
            break
    return ran


@pytest.mark.parametrize("recipe", REPORTS)
def test_script_lines_run(recipe: str, checkout: Path) -> None:
    ran = run(recipe, checkout)
    assert [done.returncode for done in ran] == [0, 1], [done.stderr for done in ran]
    log = (checkout.parent / "log").read_text(encoding="utf-8").split()
    assert log[-2:] == ["install", "amplint"]
    assert "AMP205" in (checkout / REPORTS[recipe]).read_text(encoding="utf-8")
    if recipe == "azure-pipelines":
        assert "##vso[task.logissue type=error;" in ran[1].stdout

    (checkout / "train.py").write_text(GOOD, encoding="utf-8")
    assert [done.returncode for done in run(recipe, checkout)] == [0, 0]


@pytest.mark.parametrize("recipe", ["github-workflows", "gitlab-ci", "azure-pipelines"])
def test_recipes_follow_published_schemas(recipe: str) -> None:
    read = {"on" if key is True else key: value for key, value in yaml.safe_load(RECIPES[recipe]).items()}
    found = schema(recipe)
    jsonschema.validators.validator_for(found)(found).validate(read)


def test_the_action_follows_the_published_schema() -> None:
    found = schema("github-actions")
    action = yaml.safe_load((ROOT / "action.yml").read_text(encoding="utf-8"))
    jsonschema.validators.validator_for(found)(found).validate(action)


def test_reports_are_where_recipes_look_for_them() -> None:
    gitlab = yaml.safe_load(RECIPES["gitlab-ci"])["amplint"]
    assert gitlab["artifacts"]["reports"]["codequality"] == REPORTS["gitlab-ci"]
    assert gitlab["artifacts"]["when"] == "always"
    azure = yaml.safe_load(RECIPES["azure-pipelines"])["steps"][-1]
    assert (azure["inputs"]["testResultsFiles"], azure["condition"]) == (REPORTS["azure-pipelines"], "always()")


def test_the_shape_of_the_recipe_for_jenkins() -> None:
    recipe = RECIPES["jenkins"]
    assert recipe.count("{") == recipe.count("}")
    assert re.match(r"pipeline \{\n    agent \{.*\}\n    stages \{\n", recipe)
    assert f"junit '{REPORTS['jenkins']}'" in recipe.partition("always {")[2]


def test_the_recipe_for_github_names_inputs_of_the_action() -> None:
    action = yaml.safe_load((ROOT / "action.yml").read_text(encoding="utf-8"))
    (step,) = (
        step for step in yaml.safe_load(RECIPES["github-workflows"])["jobs"]["amplint"]["steps"] if "with" in step
    )
    assert set(step["with"]) <= set(action["inputs"])


def test_the_container_runs_amplint_as_nobody_special() -> None:
    text = (ROOT / "Containerfile").read_text(encoding="utf-8")
    lines = [line for line in text.splitlines() if line and not line.startswith("#")]
    stages = [number for number, line in enumerate(lines) if line.startswith("FROM ")]
    assert all(re.match(r"FROM python:3\.\d+-slim\b", lines[number]) for number in stages)
    last = lines[stages[-1] :]
    instructions = [line.partition(" ")[0] for line in last]
    assert set(instructions) <= {"FROM", "COPY", "RUN", "ENV", "USER", "WORKDIR", "ENTRYPOINT"}
    (user,) = (line.split()[1] for line in last if line.startswith("USER "))
    assert re.fullmatch(r"[1-9]\d*:[1-9]\d*", user)
    assert not [line for line in last[instructions.index("USER") :] if line.startswith("RUN ")]
    assert json.loads(last[-1].removeprefix("ENTRYPOINT ")) == ["amplint"]
    assert all("--from=" in line for line in last if line.startswith("COPY "))


def test_the_container_is_built_of_what_a_package_needs() -> None:
    taken = {line[1:] for line in (ROOT / ".dockerignore").read_text().splitlines() if line.startswith("!")}
    assert taken == {"amplint", "rules", "pyproject.toml", "README.md", "LICENSE"}
    assert all((ROOT / name).exists() for name in taken)
