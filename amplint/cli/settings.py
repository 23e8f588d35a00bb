"""`--show-settings` and `--show-files`: the settings of a path with their origin, and the files to lint."""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Sequence
from pathlib import Path

from amplint.engine.projects import Projects
from amplint.reports.text import visible
from amplint.torchlib.tables import versions


def describe_files(filenames: Iterable[str]) -> str:
    """The names of files, one per line."""
    return "".join(f"{visible(name)}\n" for name in filenames)


def describe_settings(paths: Sequence[str], projects: Projects) -> str:
    """The settings for the first of `paths`, in the syntax of the configuration file. Raises ConfigError."""
    path = os.path.abspath(paths[0] if paths else ".")
    settings = projects.of(Path(path) if os.path.isdir(path) else Path(path).parent)
    selected = sorted(projects.active(settings, path))
    per_file = ", ".join(f"{json.dumps(key)} = {json.dumps(codes)}" for key, codes in settings.per_file_ignores)
    libraries = ", ".join(f"{name} = {json.dumps(text)}" for name, text in settings.library_versions)
    lines = [
        f"# Settings for {visible(path)}",
        f"# file: {visible(str(settings.file or 'none found, these are the defaults'))}",
        f"# root of the patterns: {visible(str(settings.root))}",
        f"min-severity = {json.dumps(settings.min_severity.label)}",
        f"unsafe-fixes = {json.dumps(settings.unsafe_fixes)}",
        f"torch-version = {json.dumps(settings.torch_version or versions()[-1])}",
        f"library-versions = {{ {libraries} }}" if libraries else "library-versions = {}",
        f"max-file-size = {settings.max_file_size}",
        f"max-seconds = {settings.max_seconds:g}",
        f"exclude = {json.dumps(settings.exclude)}",
        f"per-file-ignores = {{ {per_file} }}" if per_file else "per-file-ignores = {}",
        "select = [",
        *(f'    "{code}",  # {projects.rules[code].name}' for code in selected),
        "]",
    ]
    return "\n".join(lines) + "\n"
