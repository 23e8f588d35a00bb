"""Findings under the current content of the configuration files that a script reads.

A script is interpreted twice: first with its settings unknown, since files and the command line can set anything, then
with the files' content. Findings of the second pass alone, or more severe there, name the settings they depend on.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping, Sequence, Set
from dataclasses import replace
from typing import TYPE_CHECKING

from amplint.engine.diagnostics import ALWAYS_ON
from amplint.engine.dispatch import Dispatcher
from amplint.engine.modules import Lookups
from amplint.engine.screen import follows, screen, words_of
from amplint.findings import Applicability, Finding, Note, Severity, Span
from amplint.regex import regex
from amplint.rule import Rule
from amplint.semantics import interpret, reads_configs
from amplint.semantics.configs.display import dictionaries, name_of
from amplint.semantics.reading.program import Program
from amplint.source import syntax as cst
from amplint.source.configs.names import named
from amplint.torchlib.configs import DECIDING

if TYPE_CHECKING:
    from amplint.engine.job import Job
    from amplint.source.configs.file import ConfigFile

_HYDRA_FOLDER = regex(rb"""\bconfig_path\s*=\s*["']([\w./-]+)["']""")
_HYDRA_NAME = regex(rb"""\bconfig_name\s*=\s*["']([\w./-]+)["']""")
MOST_NOTES = 4
NAMED_IN_MESSAGES = 2


def with_settings(
    program: Program, found: list[Finding], rules: Sequence[type[Rule]], job: Job, lookups: Lookups
) -> list[Finding]:
    """`found`, and the further findings under the current content of configuration files.

    Imported files are followed even from a script without training code of its own, which passes settings on.
    """
    launched = program.launched_by() if b"Accelerator(" in job.raw else None
    files = [*_named(program, job.raw), *([launched] if launched is not None else [])]
    if not files:
        return found
    if not follows(job.raw):
        program = Program(program.main, lookups, job.torch, whole=job.whole, around=lookups)
    texts = [source.text.encode() for source in (*program.sources, *files)]
    others = [rule for rule in job.others if rule not in rules]
    rules = (*rules, *screen(others, b"\n".join(texts), job.asked))
    if not rules:
        return found
    if launched is None and not reads_configs(program, job.seconds):
        return found
    known = _weights(found)
    once = {rule.code for rule in rules if rule.once} & {finding.code for finding in found}
    more = [finding for finding in _read(program, rules, job, configs=True) if _is_more_severe(finding, known, once)]
    if not program.assumed or not more:
        return found
    if any(finding.elsewhere is not None for finding in more):
        known |= _weights(_read(program, rules, job, configs=False))
        more = [finding for finding in more if _is_more_severe(finding, known, once)]
    replaced = {(finding.code, finding.span) for finding in more if finding.elsewhere is None}
    kept = [finding for finding in found if (finding.code, finding.span) not in replaced]
    resting = [_with_config_dependency(finding, program) for finding in more]
    return sorted([*kept, *resting], key=lambda finding: (finding.span, finding.code))


def _read(program: Program, rules: Sequence[type[Rule]], job: Job, *, configs: bool) -> list[Finding]:
    """The findings in `program`, including those in other files that it enters."""
    assuming = [rule for rule in rules if rule.assumed and rule.code in job.asked]
    dispatcher = Dispatcher(program, rules, job.asked, whole=True)
    words = words_of(assuming) if assuming else None
    interpret(program, dispatcher.emit, dispatcher.kinds, words, job.seconds, configs=configs)
    return dispatcher.findings()


_Place = tuple[str, Span, Note | None]


def _weights(found: Iterable[Finding]) -> dict[_Place, Severity]:
    return {_place(finding): finding.severity for finding in found}


def _place(finding: Finding) -> _Place:
    return finding.code, finding.span, finding.elsewhere and replace(finding.elsewhere, message="")


def _is_more_severe(finding: Finding, known: Mapping[_Place, Severity], once: Set[str]) -> bool:
    """Whether a finding is more severe than an info, and than the `known` severity at its place."""
    least = max(Severity.INFO, known.get(_place(finding), Severity.INFO))
    return finding.severity > least and finding.code not in once and finding.code not in ALWAYS_ON


def _named(program: Program, raw: bytes) -> Iterator[ConfigFile]:
    """The configuration files that a script names."""
    folders = [name.decode(errors="replace") for name in _HYDRA_FOLDER.findall(raw)]
    primary = [name.decode(errors="replace").removesuffix(".yaml") for name in _HYDRA_NAME.findall(raw)]
    below = (f"./{folder}/{name}.yaml" for folder in folders or ["."] for name in primary)
    for name in (*named(raw), *below):
        file = program.config(name)
        if file is not None:
            yield file


def _with_config_dependency(finding: Finding, program: Program) -> Finding:
    """`finding` with a statement that it depends on configuration files, and the settings it may depend on.

    Its fix is not safe, since other settings may need none.
    """
    folder = os.path.dirname(program.main.path)
    files = {os.path.relpath(path, folder): file for path, file in program.assumed.items()}
    names = sorted(os.path.basename(name) for name in files)
    more = len(names) - NAMED_IN_MESSAGES
    shown = ", ".join(names[:NAMED_IN_MESSAGES]) + (f" and {more} more" if more > 0 else "")
    used = frozenset().union(*(chunk.used for chunk in program.chunks))
    notes = [note for name, file in files.items() for note in _notes(file, name, used)]
    message = f"{finding.message} (with {shown} as {'it is' if len(names) == 1 else 'they are'})"
    fix = finding.fix and replace(finding.fix, applicability=Applicability.UNSAFE)
    return replace(finding, message=message, notes=(*finding.notes, *notes[:MOST_NOTES]), fix=fix)


def _notes(file: ConfigFile, name: str, used: frozenset[str]) -> Iterator[Note]:
    """The settings of `file` that decide about precision, among those that the script names."""
    for tree in dictionaries(file.root):
        for entry in tree.elements:
            key = name_of(entry) if isinstance(entry, cst.DictElement) else None
            value = entry.value
            if key not in used or not isinstance(value, (cst.Name, cst.SimpleString, cst.BaseNumber)):
                continue
            if any(word in key.lower() for word in DECIDING):
                yield Note(f"{key} is {file.code(value)} here", file.span(entry), name)
