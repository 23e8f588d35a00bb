"""Configuration: `[tool.amplint]` in pyproject.toml, or amplint.toml; the nearest file upwards applies."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Mapping
from dataclasses import field, replace
from pathlib import Path
from typing import Any

from amplint.engine.select import Rules, UnknownSelector, hint, require
from amplint.findings import Severity
from amplint.records import dataclass
from amplint.semantics import SECONDS
from amplint.source.files import read
from amplint.torchlib import tables
from amplint.torchlib.changes import CHANGING
from amplint.torchlib.versions import Wanted, asked

FILES = ("amplint.toml", "pyproject.toml")
_SIZE_LIMIT = 10_000_000
"""Bytes above which a configuration file counts as unreadable."""

MAX_FILE_SIZE = 10_000_000
"""Bytes above which a file is not read where nobody says otherwise."""
_WITH_OUTPUTS = 10
"""How much larger a notebook may be, most of which are pictures."""


class ConfigError(Exception):
    """An invalid configuration or command line; the message is one line for the user."""


@dataclass(frozen=True)
class Settings:
    """What applies to the files below `root`. `select` None means the rules that are on by default.

    `torch_version` is that of PyTorch whose autocast policy counts, None for the newest known; `library_versions` are
    pairs of another library and a version or specifier that counts in place of what the project's files ask for. Files
    of more than `max_file_size` bytes are not read, and one is analysed for at most `max_seconds` of processor time.

    `file` is where the settings were read, None if they are the defaults. The patterns of `exclude` and
    `per_file_ignores` are those of .gitignore files, relative to `root`.
    """

    root: Path = field(default_factory=Path.cwd)
    file: Path | None = None
    select: tuple[str, ...] | None = None
    extend_select: tuple[str, ...] = ()
    ignore: tuple[str, ...] = ()
    per_file_ignores: tuple[tuple[str, tuple[str, ...]], ...] = ()
    exclude: tuple[str, ...] = ()
    min_severity: Severity = Severity.INFO
    unsafe_fixes: bool = False
    torch_version: str | None = None
    library_versions: tuple[tuple[str, str], ...] = ()
    max_file_size: int = MAX_FILE_SIZE
    max_seconds: float = SECONDS

    @property
    def libraries(self) -> tuple[Wanted, ...]:
        """The library versions that the settings specify."""
        place = str(self.file) if self.file is not None else "settings"
        pairs = ((package, asked(package, _specifier(text), place)) for package, text in self.library_versions)
        return tuple(wanted for _, wanted in pairs if wanted is not None)


def _specifier(text: str) -> str:
    """The specifier that a bare version stands for (`==`); a specifier is returned unchanged."""
    return f"=={text}" if text[:1].isdigit() else text


def size_limit(path: str, most: int = MAX_FILE_SIZE) -> int:
    """The bytes above which the file at `path` is not read, where `most` are those of a script."""
    return most * _WITH_OUTPUTS if path.endswith(".ipynb") else most


def load(file: Path, rules: Rules, root: Path | None = None) -> Settings | None:
    """The settings in `file` and in those it extends, or None for a pyproject.toml without a table for amplint.

    Raises ConfigError when a file cannot be read, is not TOML, or says something amplint does not know, and when files
    extend one another in a circle.
    """
    fields = _read(file, rules)
    if fields is None:
        return None
    chain = [file]
    while (extended := fields.pop("extend", None)) is not None:
        base = Path(os.path.normpath(chain[-1].parent / extended))
        if any(_same(base, known) for known in chain):
            circle = " -> ".join(map(str, [*chain, base]))
            raise ConfigError(f'{file}: "extend" leads in a circle: {circle}')
        inherited = _read(base, rules, by=chain[-1])
        if inherited is None:
            raise ConfigError(f"{base} has no table [tool.amplint], and {chain[-1]} extends it")
        more = (*inherited.get("extend_select", ()), *fields.get("extend_select", ()))
        fields = {**inherited, **fields, "extend_select": more, "extend": inherited.get("extend")}
        chain.append(base)
    return Settings(root=root or file.parent, file=file, **fields)


def _same(one: Path, other: Path) -> bool:
    return os.path.realpath(one) == os.path.realpath(other)


def _read(file: Path, rules: Rules, by: Path | None = None) -> dict[str, Any] | None:
    """The settings in `file`, which is extended `by` another, and under `extend` the file that it extends.

    None for a pyproject.toml without a table for amplint. Raises ConfigError.
    """
    try:
        raw = read(file, _SIZE_LIMIT)
        if file.name == "pyproject.toml" and b"amplint" not in raw:
            return None
        table: Any = _parse(raw)
    except (OSError, ValueError, RecursionError) as failure:
        why = failure.strerror if isinstance(failure, OSError) else failure
        raise ConfigError(f"{file}{f', which {by} extends,' if by else ':'} cannot be read: {why}") from None
    if file.name == "pyproject.toml":
        tools = table.get("tool", {})
        if not isinstance(tools, dict) or "amplint" not in tools:
            return None
        table = tools["amplint"]
    try:
        return _fields(table, rules)
    except (ConfigError, UnknownSelector) as failure:
        raise ConfigError(f"{file}: {failure}") from None


def load_folder(folder: Path, rules: Rules) -> Settings | None:
    """The settings of a configuration file directly in `folder`, None without one. Raises ConfigError."""
    for name in FILES:
        file = folder / name
        if file.is_file():
            settings = load(file, rules)
            if settings is not None:
                return settings
    return None


def require_valid(settings: Settings, rules: Rules) -> Settings:
    """Validate `settings` that a program built, with lists as tuples. Raises ConfigError as for a file."""
    try:
        per_file = dict(settings.per_file_ignores)
    except (TypeError, ValueError):
        raise ConfigError('"per_file_ignores" must be pairs of a pattern and a tuple of rules') from None
    try:
        libraries = dict(settings.library_versions)
    except (TypeError, ValueError):
        raise ConfigError('"library_versions" must be pairs of a library and a version') from None
    table: dict[str, Any] = {
        "extend-select": _listed(settings.extend_select),
        "ignore": _listed(settings.ignore),
        "exclude": _listed(settings.exclude),
        "unsafe-fixes": settings.unsafe_fixes,
        "max-file-size": settings.max_file_size,
        "max-seconds": settings.max_seconds,
        "library-versions": libraries,
        "per-file-ignores": {pattern: _listed(codes) for pattern, codes in per_file.items()},
    }
    if settings.select is not None:
        table["select"] = _listed(settings.select)
    if settings.torch_version is not None:
        table["torch-version"] = settings.torch_version
    _typed("min_severity", settings.min_severity, Severity, "a Severity")
    try:
        return replace(settings, root=Path(settings.root).absolute(), **_fields(table, rules))
    except UnknownSelector as failure:
        raise ConfigError(str(failure)) from None


def overridden(settings: Settings, table: Any, rules: Rules) -> Settings:
    """`settings` with the entries of `table`, in the form of a configuration file, applied on top.

    Raises ConfigError.
    """
    try:
        fields = _fields(table, rules)
    except UnknownSelector as failure:
        raise ConfigError(str(failure)) from None
    if "extend" in fields:
        raise ConfigError('"extend" is for configuration files')
    return replace(settings, **fields)


def severity(word: str) -> Severity:
    """The severity called `word`. Raises ConfigError."""
    labels = {level.label: level for level in Severity}
    if word not in labels:
        raise ConfigError(f'"{word}" is not a severity; use {", ".join(labels)}{hint(word, labels)}')
    return labels[word]


def _parse(raw: bytes) -> dict[str, Any]:
    if sys.version_info >= (3, 11):
        import tomllib
    else:
        import tomli as tomllib
    return tomllib.loads(raw.decode("utf-8"))


def _fields(table: Any, rules: Rules) -> dict[str, Any]:
    if not isinstance(table, dict):
        raise ConfigError("tool.amplint must be a table")
    found: dict[str, Any] = {}
    for key, value in table.items():
        if key not in READERS:
            raise ConfigError(f'unknown key "{key}"{hint(key, READERS)}')
        found[key.replace("-", "_")] = READERS[key](key, value, rules)
    return found


def _listed(value: Any) -> Any:
    """A tuple as the list that a configuration file would hold, anything else unchanged."""
    return list(value) if isinstance(value, tuple) else value


def _typed(key: str, value: Any, kind: type, description: str) -> Any:
    if not isinstance(value, kind):
        raise ConfigError(f'"{key}" must be {description}, not {value!r}')
    return value


def _positive(key: str, value: Any, kind: Any, description: str) -> Any:
    if isinstance(value, bool) or not isinstance(value, kind) or not value > 0:
        raise ConfigError(f'"{key}" must be {description} above 0, not {value!r}')
    return value


def _strings(key: str, value: Any) -> tuple[str, ...]:
    items = _typed(key, value, list, "a list of strings")
    return tuple(_typed(key, item, str, "a list of strings") for item in items)


def _path(key: str, value: Any) -> str:
    path: str = _typed(key, value, str, "the path of a file")
    if not path or not path.isprintable():
        raise ConfigError(f'"{key}" must be the path of a file, not {path!r}')
    return path


def _torch_version(key: str, value: Any) -> str:
    version: str = _typed(key, value, str, 'a string like "2.13"')
    try:
        tables.require(version)
    except tables.UnknownVersion as failure:
        raise ConfigError(f'"{key}": {failure}') from None
    return version


def _library_versions(key: str, value: Any) -> tuple[tuple[str, str], ...]:
    table: Mapping[str, Any] = _typed(key, value, dict, "a table from libraries to versions")
    for package, text in table.items():
        if package not in CHANGING:
            raise ConfigError(f'"{key}": no rule depends on the version of "{package}"{hint(str(package), CHANGING)}')
        text = _typed(f"{key}.{package}", text, str, 'a version like "1.2" or a specifier like ">=1.2,<2"')
        if asked(package, _specifier(text), "") is None:
            raise ConfigError(f'"{key}.{package}": "{text}" is no version and no specifier')
    return tuple(table.items())


def _selectors(key: str, value: Any, rules: Rules) -> tuple[str, ...]:
    found = _strings(key, value)
    try:
        require(found, rules)
    except UnknownSelector as failure:
        raise ConfigError(f'"{key}": {failure}') from None
    return found


def _per_file(key: str, value: Any, rules: Rules) -> tuple[tuple[str, tuple[str, ...]], ...]:
    table: Mapping[str, Any] = _typed(key, value, dict, "a table from patterns to lists of rules")
    return tuple((pattern, _selectors(f"{key}.{pattern}", codes, rules)) for pattern, codes in table.items())


READERS: dict[str, Callable[[str, Any, Rules], Any]] = {
    "extend": lambda key, value, _: _path(key, value),
    "select": _selectors,
    "extend-select": _selectors,
    "ignore": _selectors,
    "per-file-ignores": _per_file,
    "exclude": lambda key, value, _: _strings(key, value),
    "min-severity": lambda key, value, _: severity(_typed(key, value, str, "a string")),
    "unsafe-fixes": lambda key, value, _: _typed(key, value, bool, "true or false"),
    "torch-version": lambda key, value, _: _torch_version(key, value),
    "library-versions": lambda key, value, _: _library_versions(key, value),
    "max-file-size": lambda key, value, _: _positive(key, value, int, "a number of bytes"),
    "max-seconds": lambda key, value, _: float(_positive(key, value, (int, float), "a number of seconds")),
}
"""Key of a configuration file -> what makes a setting of its value."""
