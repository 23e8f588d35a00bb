"""The shape of the house: which part may import which."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from dataclasses import dataclass
from graphlib import TopologicalSorter
from pathlib import Path

ROOT = Path(__file__).parents[1]
ENGINE = sorted((ROOT / "amplint").rglob("*.py"))
SEMANTICS = ROOT / "amplint" / "semantics"
RULES = sorted((ROOT / "rules").rglob("*.py"))

BOTTOM = {"findings", "claims", "premises", "records", "regex"}
MIDDLE = {"rule", "semantics", "fixes", "torchlib", "source", *BOTTOM}
ALLOWED = {
    "records": set[str](),
    "regex": set[str](),
    "installed": {"records"},
    "claims": {"records"},
    "findings": {"claims", "records", "regex"},
    "premises": {"findings"},
    "torchlib": BOTTOM,
    "source": BOTTOM,
    "semantics": {"source", "torchlib", *BOTTOM},
    "fixes": {"hardening", "source", "torchlib", *BOTTOM},
    "rule": {"installed", *BOTTOM},
    "edits": {"semantics", "source", "torchlib", *BOTTOM},
    "notebooks": {"source", *BOTTOM},
    "engine": {"hardening", "notebooks", *MIDDLE},
    "adoption": {"engine", "notebooks", *MIDDLE},
    "training": {"edits", "engine", *MIDDLE},
    "codemods": {"edits", "engine", "notebooks", "training", *MIDDLE},
    "trace": {"engine", "reports", "rule", "torchlib", "hardening", "__init__", *BOTTOM},
    "reports": {"engine", "notebooks", "trace", *MIDDLE},
    "api": {"codemods", "engine", "hardening", *MIDDLE},
    "agents": {"__init__", "api", "codemods", "engine", "reports", "trace", *MIDDLE},
    "fleet": {"__init__", "adoption", "engine", "hardening", "reports", *MIDDLE},
    "server": {"__init__", "adoption", "engine", "notebooks", "reports", *MIDDLE},
    "cli": {
        "adoption",
        "agents",
        "api",
        "codemods",
        "engine",
        "fleet",
        "reports",
        "server",
        "trace",
        "hardening",
        *MIDDLE,
    },
    "__main__": {"cli", "hardening"},
    "hardening": set[str](),
    "__init__": {"api"},
}
"""Part of amplint/ -> the other parts it may import."""

ALLOWED_FOR_TYPING = {**ALLOWED, "rule": {"semantics", "source", *BOTTOM}}
"""The same below `if TYPE_CHECKING:`."""

ALLOWED_IN_RULES = {
    "codemods",
    "edits",
    "premises",
    "records",
    "regex",
    "rule",
    "semantics",
    "findings",
    "torchlib",
    "source.rewrite",
    "source.syntax",
    "trace.check",
    "trace.compared",
    "trace.kinds",
    "trace.data",
}


ROOMS = (
    "words", "values", "events", "reading", "python", "configs", "regions", "memory", "tensors", "models", "seams",
    "losses", "accumulation", "frameworks", "protocol", "checkpoints", "custom_functions", "trackers", "__init__",
)  # fmt: skip
"""The parts of semantics: each imports only itself and what stands before it."""


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
    """The name of a file in messages."""
    return path.relative_to(ROOT).as_posix()


def test_every_part_is_known() -> None:
    assert {part_of(path) for path in ENGINE} <= set(ALLOWED)


def test_imports_run_one_way() -> None:
    wrong = [
        f"{relative(path)}:{found.row}: {part_of(path)} imports {found.module}"
        for path in ENGINE
        for found in imports_of(path)
        if found.module.startswith("amplint.")
        for other in [found.module.split(".")[1]]
        if other not in {part_of(path), *(ALLOWED_FOR_TYPING if found.typing_only else ALLOWED)[part_of(path)]}
    ]
    assert not wrong


def test_only_what_shows_a_record_imports_reports() -> None:
    importing = {
        relative(path)
        for path in ENGINE
        if part_of(path) == "trace"
        for found in imports_of(path)
        if is_below(found.module, "amplint.reports")
    }
    assert importing == {"amplint/trace/showing.py"}


def test_the_interpreter_names_no_tracker() -> None:
    """The rooms of semantics import one way, so its core of Python, `python`, knows none of the topics behind it."""
    wrong = [
        f"{relative(path)}:{found.row} imports {found.module}"
        for path in ENGINE
        if part_of(path) == "semantics"
        for found in imports_of(path)
        if is_below(found.module, "amplint.semantics")
        if ROOMS.index(found.module.split(".")[2]) > ROOMS.index(path.relative_to(SEMANTICS).with_suffix("").parts[0])
    ]
    assert not wrong


def test_the_interpreter_names_no_object_of_a_topic() -> None:
    """What the core of Python does with scalers and optimizers it asks of trackers, and of values."""
    topics = re.compile(r"\b(Scaler|Optimizer|scale_of|dtypes)\b")
    lines = [(path, line) for path in (SEMANTICS / "python").glob("*.py") for line in path.read_text().splitlines()]
    assert [(relative(path), line) for path, line in lines if topics.search(line.partition("#")[0])] == []


def test_there_are_no_circles() -> None:
    """`amplint` itself is left out: it loads the API on demand, and has the version that others import."""
    modules = {module_name(path): path for path in ENGINE}
    del modules["amplint"]
    graph = {name: {found.module for found in imports_of(path)} & modules.keys() for name, path in modules.items()}
    assert [*TopologicalSorter(graph).static_order()]


def module_name(path: Path) -> str:
    """The qualified name of a module or, for its `__init__`, a package."""
    return ".".join(path.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__")


def test_only_the_tracer_imports_torch() -> None:
    others = (path for path in [*ENGINE, *RULES] if path in RULES or part_of(path) != "trace")
    assert not [relative(path) for path in others for found in imports_of(path) if is_below(found.module, "torch")]


def test_rules_import_only_the_vocabulary() -> None:
    wrong = [
        f"{relative(path)}:{found.row} imports {found.module}"
        for path in RULES
        for found in imports_of(path)
        if is_below(found.module, "amplint")
        and not any(is_below(found.module, f"amplint.{name}") for name in ALLOWED_IN_RULES)
    ]
    assert not wrong


def test_the_engine_names_no_rule() -> None:
    named = re.compile(r"AMP[1-9]\d\d")
    wrong = [
        f"{relative(path)}:{node.lineno} names a rule"
        for path in ENGINE
        for node in constants(ast.parse(path.read_text(encoding="utf-8")))
        if named.search(node.value if isinstance(node.value, str) else node.value.decode("latin-1"))
    ]
    assert not wrong


def test_the_calls_of_a_scaler_are_written_in_one_place() -> None:
    code = re.compile(r"\}\.(?:unscale_|update)\(|\}\.(?:scale|step)\(\{")
    writing = {relative(path) for path in (*ENGINE, *RULES) if code.search(path.read_text("utf-8"))}
    assert writing == {"amplint/edits/protocol.py"}


def is_below(module: str, package: str) -> bool:
    """Whether `module` is `package` or lies in it."""
    return module == package or module.startswith(f"{package}.")


def constants(tree: ast.Module) -> Iterator[ast.Constant]:
    """The strings and bytes in `tree` that are no docstrings."""
    documented = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)
    bodies = [node.body for node in ast.walk(tree) if isinstance(node, documented) and node.body]
    docstrings = {body[0].value for body in bodies if isinstance(body[0], ast.Expr)}
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and node not in docstrings and isinstance(node.value, (str, bytes)):
            yield node
