"""The published schemas of findings, rules and settings: what amplint writes and reads follows them."""

from __future__ import annotations

import json
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from jsonschema import Draft202012Validator

import amplint
from amplint.engine.config import READERS
from amplint.reports.context import Context, Sources
from amplint.reports.formats import FORMATS
from tests.conftest import Command
from tests.test_config import RULES
from tests.test_formats import EVIL_CONTEXT, EVIL_FINDING
from tests.test_reports import FINDING, PLAIN

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

ROOT = Path(__file__).parents[1]
CONTEXT = Context(RULES, Sources({"train.py": b""}))


def schema(name: str) -> Any:
    """A published schema."""
    return json.loads((ROOT / "docs" / f"{name}.schema.json").read_text(encoding="utf-8"))


def errors(name: str, value: object) -> list[str]:
    """What the schema `name` has against `value`."""
    return [error.message for error in Draft202012Validator(schema(name)).iter_errors(value)]


@pytest.mark.parametrize("name", ["amplint", "findings", "rules"])
def test_schemas_are_schemas(name: str) -> None:
    Draft202012Validator.check_schema(schema(name))


@pytest.mark.parametrize("findings", [[], [PLAIN], [FINDING, PLAIN], [EVIL_FINDING], [replace(FINDING, fix=None)]])
def test_findings_follow_the_schema(findings: list[amplint.Finding]) -> None:
    context = EVIL_CONTEXT if EVIL_FINDING in findings else CONTEXT
    assert not errors("findings", json.loads(FORMATS["json"](findings, context)))
    lines = [json.loads(line) for line in FORMATS["json-lines"](findings, context).splitlines()]
    assert len(lines) == len(findings)
    assert not errors("findings", lines)


def test_findings_of_every_kind_follow_the_schema(amplint: Command, project: Path) -> None:
    paths = [*(ROOT / "examples").glob("*.py"), *sorted((ROOT / "fixtures").glob("AMP*/bad_*.py"))[::12]]
    for index, path in enumerate(paths):
        (project / f"{index}.py").write_bytes(path.read_bytes())
    told = json.loads(amplint("check", "--select", "ALL", "--output-format", "json").out)
    assert len(told) > len(paths) / 2
    assert not errors("findings", told)


def test_what_is_no_finding_does_not_follow_the_schema() -> None:
    (finding,) = json.loads(FORMATS["json"]([FINDING], CONTEXT))
    wrong = [
        {**finding, "severity": "fatal"},
        {**finding, "more": 1},
        {**finding, "location": {"row": 0, "column": 1}},
        {name: value for name, value in finding.items() if name != "fix"},
    ]
    for each in wrong:
        assert errors("findings", [each])


def test_rules_follow_the_schema(amplint: Command) -> None:
    told = json.loads(amplint("rule", "--all", "--output-format", "json").out)
    assert not errors("rules", told)
    assert not errors("rules", [json.loads(amplint("rule", "AMP205", "--output-format", "json").out)])
    assert errors("rules", [{**told[0], "fix": "perhaps"}])


def test_the_schema_of_settings_knows_every_key() -> None:
    assert schema("amplint")["properties"].keys() == READERS.keys()


@pytest.mark.parametrize(
    ("text", "right"),
    [
        ("", True),
        ('select = ["ALL", "AMP2", "double-unscale"]\nignore = ["AMP7"]\nextend-select = []', True),
        ('exclude = ["a/"]\nmin-severity = "warning"\nunsafe-fixes = true\ntorch-version = "2.13"', True),
        ('[per-file-ignores]\n"tests/*" = ["AMP4"]', True),
        ('library-versions = { deepspeed = "0.17.4", transformers = ">=5" }', True),
        ('library-versions = { deepspeed = "new" }', False),
        ('library-versions = { numpy = "2" }', False),
        ('select = "ALL"', False),
        ("ignore = [1]", False),
        ('min-severity = "fatal"', False),
        ('unsafe-fixes = "yes"', False),
        ('torch-version = "0.4"', False),
        ("[per-file-ignores]\nx = 1", False),
        ("line-length = 100", False),
    ],
)
def test_the_schema_of_settings_agrees_with_the_command(
    text: str, right: bool, amplint: Command, project: Path
) -> None:
    (project / "amplint.toml").write_text(text)
    assert amplint("--show-settings").status == (0 if right else 2)
    assert (not errors("amplint", tomllib.loads(text))) is right


def test_settings_are_the_keys_of_the_configuration() -> None:
    names = {key.replace("-", "_") for key in READERS}
    assert set(amplint.Settings.__dataclass_fields__) - {"root", "file"} <= names
