"""The settings of each folder, resolved once per run."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from amplint.engine.config import ConfigError, Settings, load_folder
from amplint.engine.patterns import Patterns
from amplint.engine.select import Rules, matches, resolve


class Projects:
    """Settings by folder, each passed once through `override`, which applies the command line.

    With `fixed`, those settings apply everywhere and no configuration file is read.
    """

    def __init__(
        self,
        rules: Rules,
        override: Callable[[Settings], Settings] = lambda settings: settings,
        fixed: Settings | None = None,
    ) -> None:
        self.rules = rules
        self._override = override
        self._default = override(fixed or Settings())
        self._search = fixed is None
        self._known: dict[Path, Settings] = {}
        self._exclusions: dict[Settings, Patterns | None] = {}
        self._active: dict[tuple[Settings, tuple[bool, ...]], frozenset[str]] = {}
        self._per_file: dict[Settings, list[Patterns]] = {}

    def of(self, folder: Path) -> Settings:
        """The settings of the nearest configuration file in the absolute `folder` or above. Raises ConfigError."""
        if not self._search:
            return self._default
        if folder not in self._known:
            found = load_folder(folder, self.rules)
            if found is not None:
                self._known[folder] = self._override(found)
            else:
                self._known[folder] = self._default if folder == folder.parent else self.of(folder.parent)
        return self._known[folder]

    def excludes(self, settings: Settings) -> Patterns | None:
        """The compiled `exclude` patterns, None if there are none. Raises ConfigError."""
        if settings not in self._exclusions:
            self._exclusions[settings] = _compile(settings, settings.exclude) if settings.exclude else None
        return self._exclusions[settings]

    def active(self, settings: Settings, path: str) -> frozenset[str]:
        """The codes that are on for the file at the absolute `path`. Raises ConfigError."""
        if settings not in self._per_file:
            patterns = [_compile(settings, [pattern]) for pattern, _ in settings.per_file_ignores]
            self._per_file[settings] = patterns
        applying = tuple(patterns.verdict(path) is True for patterns in self._per_file[settings])
        if (settings, applying) not in self._active:
            self._active[settings, applying] = self._codes(settings, applying)
        return self._active[settings, applying]

    def asked(self, settings: Settings) -> frozenset[str]:
        """The codes of rules about programs that are selected explicitly, rather than on by default."""
        selectors = [*(settings.select or ()), *settings.extend_select]
        selected = (code for selector in selectors for code in matches(selector, self.rules))
        return frozenset(code for code in selected if self.rules[code].handlers())

    def _codes(self, settings: Settings, applying: tuple[bool, ...]) -> frozenset[str]:
        codes = resolve(self.rules, settings.select, settings.extend_select, settings.ignore)
        for (_, selectors), applies in zip(settings.per_file_ignores, applying, strict=True):
            if applies:
                codes &= resolve(self.rules, ["ALL"], (), selectors)
        return frozenset(code for code in codes if self.rules[code].severity >= settings.min_severity)


def _compile(settings: Settings, lines: list[str] | tuple[str, ...]) -> Patterns:
    patterns = Patterns(str(settings.root), lines)
    if patterns.invalid:
        raise ConfigError(f"{settings.file}: {patterns.invalid[0]!r} is not a valid pattern")
    return patterns
