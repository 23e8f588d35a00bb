"""The public Python API: linting, repair and conversion from a program."""

from __future__ import annotations

import errno
import functools
import os
import sys
import warnings
from collections.abc import Sequence
from dataclasses import replace
from typing import overload

from amplint.codemods.conversion import Converted, Remark, Wish
from amplint.codemods.registry import require
from amplint.engine.cache import Cache
from amplint.engine.config import ConfigError, Settings, require_valid
from amplint.engine.discover import Found, discover
from amplint.engine.fixing import Repaired
from amplint.engine.linting import Linted, lint_files, lint_text, text_target
from amplint.engine.projects import Projects
from amplint.engine.registry import load_registry
from amplint.engine.run import Linter
from amplint.findings import Applicability, Edit, Finding, Fix, Guessed, Note, Position, Severity, Span
from amplint.hardening import distrust
from amplint.records import dataclass
from amplint.rule import Registry, Rule
from amplint.source.encoding import SourceError, encode
from amplint.source.files import read

__all__ = [
    "Applicability",
    "ConfigError",
    "Converted",
    "Edit",
    "Finding",
    "Fix",
    "Guessed",
    "Note",
    "Position",
    "Remark",
    "Repaired",
    "RuleDescription",
    "Settings",
    "Severity",
    "Span",
    "check",
    "convert",
    "fix",
    "rules",
]

TextOrFile = str | bytes | os.PathLike[str]
Files = Sequence[os.PathLike[str]]

_UNNAMED = "<string>"
_BYTE_ORDER_MARK = "\ufeff"


@dataclass(frozen=True, slots=True)
class RuleDescription:
    """A rule: `fixable` is the best applicability of its fixes, None if it has no fix.

    `default` says whether it is on by default, `summary` is its one-line summary in Markdown, and `documentation` its
    page, published at `url`.
    """

    code: str
    name: str
    severity: Severity
    fixable: Applicability | None
    default: bool
    summary: str
    documentation: str
    url: str


def rules() -> tuple[RuleDescription, ...]:
    """All known rules, including those of plug-ins, by code."""
    return tuple(describe(rule) for rule in _registry().rules.values())


def describe(rule: type[Rule]) -> RuleDescription:
    """The description of `rule`."""
    facts = (rule.code, rule.name, rule.severity, rule.fixable, rule.default)
    return RuleDescription(*facts, rule.summary(), rule.page(), rule.url())


def check(
    source: TextOrFile | Files, settings: Settings | None = None, *, filename: str | None = None
) -> list[Finding]:
    """The findings in `source`, in the order of files and lines.

    A `str` or `bytes` is source text, located at `filename` if that is given: settings are searched for there, and
    imports are resolved from there. A path is a file or a folder, a sequence of paths several of them. Without
    `settings` the configuration file nearest to each file applies.

    Files that cannot be read or parsed yield a finding. Raises ConfigError for invalid settings, FileNotFoundError for
    a path that does not exist.
    """
    projects = _projects(settings)
    if isinstance(source, (str, bytes)):
        target = text_target(filename or _UNNAMED, projects)
        return lint_text(_raw(source), target, _linter(projects)).findings
    found = _found(source, projects, filename)
    results = lint_files(found.targets, _linter(projects), named=True)
    return [*found.problems, *(finding for linted in results for finding in linted.findings)]


@overload
def fix(
    source: TextOrFile, settings: Settings | None = None, *, filename: str | None = None, write: bool = False
) -> Repaired: ...


@overload
def fix(
    source: Files, settings: Settings | None = None, *, filename: None = None, write: bool = False
) -> list[Repaired]: ...


def fix(
    source: TextOrFile | Files,
    settings: Settings | None = None,
    *,
    filename: str | None = None,
    write: bool = False,
) -> Repaired | list[Repaired]:
    """Apply the safe fixes of the findings in `source`, and the unsafe ones if `settings` have `unsafe_fixes`.

    `source`, `settings` and `filename` are those of `check`. A text or a file has one result; a sequence of files and
    folders has a list of them, one for each file. With `write`, changed files are replaced, each atomically.

    Raises ConfigError and FileNotFoundError as `check` does, IsADirectoryError for a folder outside of a sequence, and
    ValueError if `write` is given for a text.
    """
    projects = _projects(settings)
    linter = _linter(projects)
    if isinstance(source, (str, bytes)):
        _refuse_to_write(write)
        raw = _raw(source)
        return _repaired(lint_text(raw, text_target(filename or _UNNAMED, projects), linter, fix=True), raw)
    found = _found(source, projects, filename, several=isinstance(source, Sequence))
    results = [Repaired(b"", b"", [problem], filename=problem.filename) for problem in found.problems]
    results += [_repaired(linted) for linted in lint_files(found.targets, linter, fix=True, write=write)]
    return results if isinstance(source, Sequence) else results[0]


@overload
def convert(
    source: TextOrFile,
    *,
    to: str | None = None,
    source_api: str | None = None,
    dtype: str = "float16",
    device: str = "cuda",
    accumulate: int | None = None,
    add_flag: bool = False,
    settings: Settings | None = None,
    filename: str | None = None,
    write: bool = False,
) -> Converted: ...


@overload
def convert(
    source: Files,
    *,
    to: str | None = None,
    source_api: str | None = None,
    dtype: str = "float16",
    device: str = "cuda",
    accumulate: int | None = None,
    add_flag: bool = False,
    settings: Settings | None = None,
    filename: None = None,
    write: bool = False,
) -> list[Converted]: ...


def convert(
    source: TextOrFile | Files,
    *,
    to: str | None = None,
    source_api: str | None = None,
    dtype: str = "float16",
    device: str = "cuda",
    accumulate: int | None = None,
    add_flag: bool = False,
    settings: Settings | None = None,
    filename: str | None = None,
    write: bool = False,
) -> Converted | list[Converted]:
    """Rewrite `source` as `amplint convert` does: the whole file with certainty, or not at all.

    `to` is the target (`"amp"`, `"bfloat16"`, `"float8"`), `source_api` the API to replace (`"apex"`, `"cuda-amp"`,
    `"float16"`, `"mmcv"`), `accumulate` the number of batches per step; `dtype`, `device` and `add_flag` are options of
    `"amp"`. Files given together are converted as one program. Of `settings`, `exclude` applies. `source`, `filename`,
    `write` and the results are as for `fix`.

    Refusals, and files that cannot be read or written, are part of the result. Raises ConfigError for invalid options
    or settings, and FileNotFoundError, IsADirectoryError and ValueError as `fix` does.
    """
    wish = Wish(to, source_api, dtype, device, add_flag, accumulate)
    try:
        require(wish)
    except ValueError as failure:
        raise ConfigError(str(failure)) from None
    from amplint.codemods.files import convert_files, convert_text  # imports many modules

    projects = _projects(settings)
    if isinstance(source, (str, bytes)):
        _refuse_to_write(write)
        target = text_target(filename or _UNNAMED, projects)
        return convert_text(target.filename, target.path, wish, _raw(source))
    found = _found(source, projects, filename, several=isinstance(source, Sequence))
    results = [Converted(problem.filename, b"", b"", failure=problem.message) for problem in found.problems]
    results += convert_files(found.targets, wish, write=write)
    return results if isinstance(source, Sequence) else results[0]


def _projects(settings: Settings | None) -> Projects:
    known = _registry().rules
    return Projects(known, fixed=None if settings is None else require_valid(settings, known))


def _linter(projects: Projects) -> Linter:
    return Linter(projects, Cache(None))


def _raw(source: str | bytes) -> bytes:
    """Source text in the bytes of a file."""
    if isinstance(source, bytes):
        return source
    try:
        if source.startswith(_BYTE_ORDER_MARK):
            return encode(source[1:], "utf-8-sig")
        return encode(source)
    except SourceError:
        return source.encode("utf-8", "surrogatepass")


def _found(
    source: os.PathLike[str] | Files, projects: Projects, filename: str | None, *, several: bool = True
) -> Found:
    """The files among and below the paths; unless `several` are allowed, exactly one, or one problem."""
    if filename is not None:
        raise ValueError("filename names a text; a path has a name")
    paths = source if isinstance(source, Sequence) else [source]
    for path in paths:
        if not isinstance(path, os.PathLike):
            raise TypeError(f"a path is an os.PathLike, such as pathlib.Path, not {type(path).__name__}")
    names = [os.fsdecode(path) for path in paths]
    found = discover(names, projects)
    for name in found.missing:
        raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), name)
    if not several and os.path.isdir(names[0]):
        raise IsADirectoryError(errno.EISDIR, "a folder has many results: hand it in in a list", names[0])
    return found


def _repaired(linted: Linted, raw: bytes | None = None) -> Repaired:
    """The result for a file, or for the text `raw`, including one without repairs."""
    name = linted.target.filename
    if linted.repaired is not None:
        return replace(linted.repaired, filename=name)
    content = raw if raw is not None else _content(linted.target.path)
    return Repaired(content, content, linted.findings, filename=name)


def _content(path: str) -> bytes:
    try:
        return read(path)
    except OSError:
        return b""  # already reported as a finding


def _refuse_to_write(write: bool) -> None:
    if write:
        raise ValueError("a text is in no file that could be written")


@functools.cache
def _registry() -> Registry:
    """All rules. Plug-ins are never loaded from the current folder; those that fail to load are warned of."""
    path = [*sys.path]
    distrust([os.curdir])
    try:
        registry = load_registry()
    finally:
        sys.path[:] = path
    for broken in registry.broken:
        message = f"the plug-in {broken.name} could not be loaded, its rules are missing: {broken.why}"
        warnings.warn(message, RuntimeWarning, stacklevel=2)
    return registry
