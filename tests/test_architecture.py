"""The shape of the house: which part may import which, and how large a file may grow."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
ENGINE = sorted((ROOT / "amplint").rglob("*.py"))
RULES = sorted((ROOT / "rules").rglob("*.py"))

BOTTOM = {"findings", "claims"}
MIDDLE = {"rule", "semantics", "fixes", "torchlib", "source", *BOTTOM}
ALLOWED = {
    "claims": set[str](),
    "findings": {"claims"},
    "torchlib": BOTTOM,
    "source": BOTTOM,
    "semantics": {"source", "torchlib", *BOTTOM},
    "fixes": {"source", "torchlib", *BOTTOM},
    "rule": BOTTOM,
    "engine": MIDDLE,
    "codemods": {"engine", *MIDDLE},
    "trace": {"engine", "rule", "torchlib", "hardening", "__init__", *BOTTOM},
    "reports": {"engine", "trace", *MIDDLE},
    "cli": {"codemods", "engine", "reports", "trace", "hardening", *MIDDLE},
    "__main__": {"cli", "hardening"},
    "hardening": set[str](),
    "__init__": set[str](),
}
"""Part of amplint/ -> the other parts it may import."""

ALLOWED_FOR_TYPING = {**ALLOWED, "rule": {"semantics", "source", *BOTTOM}}
"""The same below `if TYPE_CHECKING:`."""

ALLOWED_IN_RULES = {
    "codemods",
    "rule",
    "semantics",
    "findings",
    "torchlib",
    "source.rewrite",
    "trace.check",
    "trace.compared",
    "trace.kinds",
    "trace.record",
}


@dataclass(frozen=True)
class Import:
    """One imported module; `typing_only` says that it stands below `if TYPE_CHECKING:`."""

    module: str
    row: int
    typing_only: bool


def imports_of(path: Path) -> Iterator[Import]:
    """Everything `path` imports, anywhere in it; `from a import b` counts as `a.b` where that is a module.

    Only rules import relatively, and only from their own family.
    """
    tree = ast.parse(path.read_text(encoding="utf-8"))
    typing_only = {
        inner
        for node in ast.walk(tree)
        if isinstance(node, ast.If) and "TYPE_CHECKING" in ast.unparse(node.test)
        for statement in node.body
        for inner in ast.walk(statement)
    }
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            for name in node.names:
                yield Import(name.name, node.lineno, node in typing_only)
        elif isinstance(node, ast.ImportFrom) and node.level:
            assert node.level == 1, f"{path}:{node.lineno} imports from outside its folder"
            assert path in RULES, f"{path}:{node.lineno}: imports are absolute"
        elif isinstance(node, ast.ImportFrom):
            for name in node.names:
                inner = f"{node.module}.{name.name}"
                found = inner if is_module(inner) else str(node.module)
                yield Import(found, node.lineno, node in typing_only)


def is_module(name: str) -> bool:
    """Whether `name` is a module or package of amplint/."""
    path = ROOT.joinpath(*name.split("."))
    return path.with_suffix(".py").exists() or path.is_dir()


def part_of(path: Path) -> str:
    """The part of amplint/ that `path` belongs to: a folder, or a module directly in it."""
    return path.relative_to(ROOT / "amplint").with_suffix("").parts[0]


def relative(path: Path) -> str:
    """The name of a parametrised case."""
    return path.relative_to(ROOT).as_posix()


def test_every_part_is_known() -> None:
    assert {part_of(path) for path in ENGINE} <= set(ALLOWED)


@pytest.mark.parametrize("path", ENGINE, ids=relative)
def test_imports_run_one_way(path: Path) -> None:
    part = part_of(path)
    for found in imports_of(path):
        top, _, inner = found.module.partition(".")
        other = inner.partition(".")[0]
        if top == "amplint" and other not in ("", part):
            allowed = ALLOWED_FOR_TYPING if found.typing_only else ALLOWED
            assert other in allowed[part], f"{relative(path)}:{found.row}: {part} imports {found.module}"


@pytest.mark.parametrize("path", ENGINE, ids=relative)
def test_only_the_tracer_imports_torch(path: Path) -> None:
    if part_of(path) != "trace":
        assert not [found for found in imports_of(path) if found.module.partition(".")[0] == "torch"]


@pytest.mark.parametrize("path", RULES, ids=relative)
def test_rules_import_only_the_vocabulary(path: Path) -> None:
    for found in imports_of(path):
        top, _, inner = found.module.partition(".")
        assert top != "torch", f"{relative(path)}:{found.row} imports torch"
        if top == "amplint":
            known = any(inner == name or inner.startswith(name + ".") for name in ALLOWED_IN_RULES)
            assert known, f"{relative(path)}:{found.row} imports {found.module}"


@pytest.mark.parametrize("path", ENGINE, ids=relative)
def test_the_engine_names_no_rule(path: Path) -> None:
    tree = ast.parse(path.read_text(encoding="utf-8"))
    docstrings = {
        node.body[0].value
        for node in ast.walk(tree)
        if isinstance(node, (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef))
        and node.body
        and isinstance(node.body[0], ast.Expr)
    }
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and node not in docstrings and isinstance(node.value, (str, bytes)):
            text = node.value if isinstance(node.value, str) else node.value.decode("latin-1")
            assert not re.search(r"AMP[1-9]\d\d", text), f"{relative(path)}:{node.lineno} names a rule"


@pytest.mark.parametrize("path", RULES, ids=relative)
def test_a_rule_is_short(path: Path) -> None:
    assert len(path.read_text(encoding="utf-8").splitlines()) < 100


@pytest.mark.parametrize("path", ENGINE, ids=relative)
def test_a_module_is_not_long(path: Path) -> None:
    assert len(path.read_text(encoding="utf-8").splitlines()) < 500
