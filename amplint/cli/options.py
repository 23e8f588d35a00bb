"""The options of `amplint check`, and the settings that follow from them."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from amplint.engine.config import ConfigError, Settings, load, severity
from amplint.engine.projects import Projects
from amplint.engine.select import Rules, UnknownSelector, matches, require
from amplint.records import dataclass


@dataclass(frozen=True)
class Options:
    """The values given; None, or an empty tuple, for an absent option without a default."""

    paths: tuple[str, ...]
    fix: bool
    unsafe_fixes: bool | None
    diff: bool
    select: tuple[str, ...]
    ignore: tuple[str, ...]
    extend_select: tuple[str, ...]
    min_severity: str | None
    output_format: str
    output_file: Path | None
    statistics: bool
    trace: Path | None
    exit_zero: bool
    no_cache: bool
    cache_dir: Path | None
    stdin_filename: str | None
    config: Path | None
    isolated: bool
    show_settings: bool
    show_files: bool
    show_fixes: bool
    baseline: Path | None
    update_baseline: bool
    shrink_baseline: bool
    diff_base: str | None
    add_ignore: bool
    watch: bool
    quiet: bool

    @property
    def from_stdin(self) -> bool:
        """Whether standard input is linted instead of files."""
        return "-" in self.paths or (self.stdin_filename is not None and not self.paths)

    def conflicts(self) -> str | None:
        """The conflict between the options, None if there is none."""
        if self.from_stdin and self.paths not in ((), ("-",)):
            return "- (standard input) cannot be combined with other paths."
        if self.fix and self.diff:
            return "--fix writes and --diff does not: give one of them."
        if self.isolated and self.config is not None:
            return "--isolated takes no configuration and --config names one: give one of them."
        if self.update_baseline and self.shrink_baseline:
            return "--update-baseline records what is new and --shrink-baseline does not: give one of them."
        if (self.update_baseline or self.shrink_baseline) and self.baseline is None:
            return "--update-baseline and --shrink-baseline need --baseline FILE."
        if self.diff_base is not None and (self.fix or self.diff or self.update_baseline or self.shrink_baseline):
            return "--diff-base looks at a part of the files: repairs and baselines are for whole files."
        if (self.fix or self.diff) and (self.update_baseline or self.add_ignore):
            return "--fix and --diff repair what --update-baseline and --add-ignore would keep: give one of them."
        if self.show_fixes and not (self.fix or self.diff):
            return "--show-fixes needs --fix or --diff."
        if self.from_stdin and (self.update_baseline or self.shrink_baseline or self.add_ignore or self.watch):
            return "standard input is no file to be written or watched."
        if self.watch and (self.fix or self.add_ignore or self.update_baseline or self.shrink_baseline):
            return "--watch writes nothing: leave out what does."
        return None

    def cache_folder(self) -> Path | None:
        """The cache folder, None for no cache."""
        if self.no_cache:
            return None
        if self.cache_dir is not None:
            return self.cache_dir.absolute()
        from amplint.engine.store import user_folder

        return user_folder()

    def projects(self, rules: Rules) -> Projects:
        """The settings of every folder under these options. Raises ConfigError."""
        for name in ("select", "extend_select", "ignore"):
            try:
                require(_split(getattr(self, name)), rules)
            except UnknownSelector as failure:
                raise ConfigError(f"--{name.replace('_', '-')}: {failure}") from None
        fixed = Settings() if self.isolated else None
        if self.config is not None:
            fixed = load(self.config, rules, root=Path.cwd())
            if fixed is None:
                raise ConfigError(f"{self.config} has no table [tool.amplint]")
        return Projects(rules, functools.partial(self._over, self._selects_opportunities(rules)), fixed)

    def _selects_opportunities(self, rules: Rules) -> bool:
        """Whether `--select` names only rules that are off by default: their repairs are then requested."""
        selected = {code for selector in _split(self.select) for code in matches(selector, rules)}
        return bool(selected) and not any(rules[code].default for code in selected)

    def _over(self, opportunities: bool, settings: Settings) -> Settings:
        """`settings` with the command line applied; `--select` replaces the selection."""
        if self.select:
            settings = replace(settings, select=_split(self.select), extend_select=(), ignore=())
        return replace(
            settings,
            extend_select=(*settings.extend_select, *_split(self.extend_select)),
            ignore=(*settings.ignore, *_split(self.ignore)),
            min_severity=severity(self.min_severity) if self.min_severity else settings.min_severity,
            unsafe_fixes=settings.unsafe_fixes or opportunities if self.unsafe_fixes is None else self.unsafe_fixes,
        )


def _split(values: Sequence[str]) -> tuple[str, ...]:
    return tuple(word for value in values for part in value.split(",") if (word := part.strip()))
