"""Discovery: from the paths on the command line to the files to lint, in an order determined by their names alone."""

from __future__ import annotations

import errno
import os
from collections.abc import Iterable, Iterator
from dataclasses import field
from pathlib import Path

from amplint.engine.config import Settings
from amplint.engine.diagnostics import UnreadableFile, diagnostic
from amplint.engine.patterns import Chain, gitignore, gitignores_above, ignored
from amplint.engine.projects import Projects
from amplint.findings import Finding
from amplint.records import dataclass

NEVER_ENTERED = frozenset(
    {
        *(".git", ".hg", ".svn", ".venv", "venv", ".tox", ".nox", ".eggs", "build", "dist", "node_modules"),
        *("__pycache__", "__pypackages__", "site-packages", ".mypy_cache", ".ruff_cache"),
        *(".pytest_cache", ".ipynb_checkpoints"),
    }
)

SUFFIXES = (".py", ".ipynb")
"""How the files end that are looked for in folders."""


@dataclass(frozen=True)
class Target:
    """A file to lint: its name as reports show it, its absolute path and the settings that apply."""

    filename: str
    path: str
    settings: Settings


@dataclass
class Found:
    """The files, the diagnostics about folders that could not be entered, and the given paths that do not exist."""

    targets: list[Target] = field(default_factory=list)
    problems: list[Finding] = field(default_factory=list)
    missing: list[str] = field(default_factory=list)


@dataclass(frozen=True)
class _Folder:
    shown: str
    path: str
    settings: Settings
    chain: Chain


def discover(paths: Iterable[str], projects: Projects) -> Found:
    """The files among and below `paths`. Explicitly named files are always included, even if excluded or ignored.

    Raises ConfigError if a configuration file on the way is invalid.
    """
    found = Found()
    for given in paths:
        path = os.path.abspath(given)
        shown = given[2:] if given.startswith("./") and len(given) > 2 else given
        if os.path.isdir(path):
            _walk(shown, path, projects, found)
        elif os.path.exists(path):
            found.targets.append(Target(shown, path, projects.of(Path(path).parent)))
        elif os.path.islink(path):
            found.problems.append(_broken_link(shown, path))
        else:
            found.missing.append(given)
    found.targets = list({target.path: target for target in reversed(found.targets)}.values())[::-1]
    return found


def _walk(shown: str, path: str, projects: Projects, found: Found) -> None:
    top = os.path.realpath(path)
    todo = [_Folder("" if shown == "." else shown, path, projects.of(Path(path)), gitignores_above(path))]
    while todo:
        folder = todo.pop()
        try:
            with os.scandir(folder.path) as listing:
                entries = sorted(listing, key=lambda entry: entry.name)
        except OSError as failure:
            found.problems.append(_unreadable(folder.shown or ".", failure))
            continue
        names = {entry.name for entry in entries}
        settings = folder.settings
        if not names.isdisjoint(("amplint.toml", "pyproject.toml")):
            settings = projects.of(Path(folder.path))
        chain = folder.chain
        if ".gitignore" in names and (own := gitignore(folder.path)) is not None:
            chain = [*chain, own]
        here = _Folder(folder.shown, folder.path, settings, chain)
        below = list(_entries(here, entries, top, projects, found))
        todo.extend(reversed(below))


def _entries(
    folder: _Folder, entries: list[os.DirEntry[str]], top: str, projects: Projects, found: Found
) -> Iterator[_Folder]:
    """Collect the Python files among `entries` and yield the folders to enter."""
    exclusions = projects.excludes(folder.settings)
    chain = [*folder.chain, exclusions] if exclusions else folder.chain
    for entry in entries:
        shown = os.path.join(folder.shown, entry.name)
        path = os.path.join(folder.path, entry.name)
        python = entry.name.endswith(SUFFIXES)
        if entry.is_symlink():
            if _link(shown, path, top, python, chain, found):
                found.targets.append(Target(shown, path, folder.settings))
        elif entry.is_dir(follow_symlinks=False):
            if entry.name not in NEVER_ENTERED and not ignored(chain, path, folder=True):
                yield _Folder(shown, path, folder.settings, folder.chain)
        elif python and entry.is_file(follow_symlinks=False) and not ignored(chain, path):
            found.targets.append(Target(shown, path, folder.settings))


def _link(shown: str, path: str, top: str, python: bool, chain: Chain, found: Found) -> bool:
    """Whether a symbolic link is a file to lint.

    Linked folders are not entered; loops and dangling links are reported.
    """
    if ignored(chain, path):
        return False
    real = os.path.realpath(path)
    if os.path.isdir(path):
        if os.path.join(os.path.realpath(os.path.dirname(path)), "").startswith(os.path.join(real, "")):
            message = "a symbolic link to a folder it lies in; it is not followed"
            found.problems.append(diagnostic(UnreadableFile, shown, message))
        return False
    if os.path.isfile(path):
        return python and not real.startswith(os.path.join(top, ""))
    if not os.path.exists(path):
        problem = _broken_link(shown, path)
        if python or "loop" in problem.message:
            found.problems.append(problem)
    return False


def _broken_link(shown: str, path: str) -> Finding:
    try:
        os.stat(path)
    except OSError as failure:
        if failure.errno == errno.ELOOP:
            return diagnostic(UnreadableFile, shown, "a loop of symbolic links")
        if failure.errno != errno.ENOENT:
            return _unreadable(shown, failure)
    return diagnostic(UnreadableFile, shown, f"a symbolic link to {os.readlink(path)}, which does not exist")


def _unreadable(shown: str, failure: OSError) -> Finding:
    return diagnostic(UnreadableFile, shown, f"cannot be read: {failure.strerror or failure}")
