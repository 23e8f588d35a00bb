"""Selection of a run's findings by a baseline and by changed lines."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence

from amplint.adoption.baseline import Baseline, BaselineError, Compared, LineText, Scope, may_be_known, missing
from amplint.adoption.changed import Changes
from amplint.adoption.git import GitError
from amplint.cli.failures import Failure
from amplint.cli.options import Options
from amplint.engine.discover import Target
from amplint.engine.projects import Projects
from amplint.findings import Finding
from amplint.reports.context import Sources


class Adoption:
    """The findings to report, given the baseline and the revision that `options` name, and the remarks on the others.

    `given` maps file names to content that is not on disk, and may be filled later. Raises Failure if the baseline or
    the revision is unusable.
    """

    def __init__(self, options: Options, given: Mapping[str, bytes]) -> None:
        self.remarks: list[str] = []
        self._options = options
        self._given = given
        self._baseline = _load(options) if options.baseline is not None else None
        self._changes = Changes(options.diff_base, given) if options.diff_base is not None else None
        if self._changes is not None:
            try:
                self._changes.require(os.curdir if options.from_stdin else _first_folder(options.paths))
            except GitError as failure:
                raise Failure(str(failure)) from None

    def kept(self, findings: Sequence[Finding], targets: Sequence[Target], projects: Projects) -> list[Finding]:
        """The `findings` to report; writes a baseline that is to be updated or shrunk. Raises Failure."""
        found = [*findings]
        line_text = Sources(self._given).line
        if self._baseline is not None:
            found = self._compared(self._baseline, found, line_text, _scope(self._options, targets, projects))
        if self._changes is not None:
            try:
                new = self._changes.concern(found, [target.path for target in targets])
            except GitError as failure:
                raise Failure(str(failure)) from None
            if len(new) < len(found):
                self.remarks.append(
                    f"{_count(len(found) - len(new))} in lines unchanged since {self._options.diff_base}."
                )
            found = new
        return found

    def _compared(
        self, baseline: Baseline, findings: list[Finding], line_text: LineText, scope: Scope
    ) -> list[Finding]:
        compared = baseline.compare(findings, line_text, scope)
        if self._options.update_baseline:
            updated = baseline.updated(findings, line_text, compared.gone)
            _write(updated)
            new = len(updated.entries - baseline.entries)
            gone = len(compared.gone)
            self.remarks.append(f"{baseline.path}: {_count(len(updated.entries), 'known ')}, {new} new, {gone} gone.")
            return [finding for finding in compared.new if not may_be_known(finding)]
        if self._options.shrink_baseline and compared.gone:
            _write(baseline.updated((), line_text, compared.gone))
        self.remarks += _remarks(compared, shrunk=self._options.shrink_baseline)
        return compared.new


def _scope(options: Options, targets: Sequence[Target], projects: Projects) -> Scope:
    """The files and folders linted."""
    folders = () if options.from_stdin else options.paths or (os.curdir,)
    return Scope(
        {target.path: projects.active(target.settings, target.path) for target in targets},
        tuple(os.path.abspath(path) for path in folders if not os.path.isfile(path)),
    )


def _load(options: Options) -> Baseline:
    path = str(options.baseline)
    try:
        return Baseline.load(path)
    except FileNotFoundError:
        if options.update_baseline:
            return Baseline(path)
        raise Failure(str(missing(path))) from None
    except BaselineError as failure:
        raise Failure(str(failure)) from None


def _write(baseline: Baseline) -> None:
    try:
        baseline.write()
    except OSError as failure:
        raise Failure(f"{baseline.path} cannot be written: {failure.strerror or failure}") from None


def _remarks(compared: Compared, *, shrunk: bool) -> list[str]:
    known, gone = len(compared.known), len(compared.gone)
    remarks = [f"{_count(known)} known by the baseline."] if known else []
    if gone and shrunk:
        remarks.append(f"{_count(gone, 'old ')} gone, and dropped from the baseline.")
    elif gone:
        remarks.append(f"{_count(gone, 'old ')} gone; --shrink-baseline drops what is gone from the baseline.")
    return remarks


def _first_folder(paths: Sequence[str]) -> str:
    existing = [path for path in paths if os.path.exists(path)] or [os.curdir]
    return existing[0] if os.path.isdir(existing[0]) else os.path.dirname(existing[0]) or os.curdir


def _count(number: int, kind: str = "") -> str:
    return f"{number} {kind}finding{'' if number == 1 else 's'}"
