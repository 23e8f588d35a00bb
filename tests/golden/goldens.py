"""The files in which events and findings of programs are kept, and what has become different since."""

from __future__ import annotations

import difflib
import hashlib
import itertools
from collections import defaultdict
from collections.abc import Iterable, Iterator
from pathlib import Path

from amplint.engine.modules import Lookups, Modules
from amplint.engine.screen import follows
from amplint.rule import Rule
from amplint.semantics.reading.program import Program, nothing
from amplint.source.source import Source
from tests.dtypes.verdict import claims
from tests.golden.corpora import Corpus, Sample
from tests.golden.recording import RULES, Rendering, record

FOLDER = Path(__file__).parent / "expected"
HEAD = "== "
"""Begins the line with the name of a program."""


def path_of(corpus: Corpus) -> Path:
    """The file that a corpus is kept in."""
    return FOLDER / f"{corpus.name}.txt"


def recorded(corpus: Corpus) -> dict[str, list[str]]:
    """What amplint says now, by program."""
    return {sample.name: [*_record(corpus, sample)] for sample in corpus.samples()}


def kept(corpus: Corpus) -> dict[str, list[str]]:
    """What the file says, by program."""
    found: dict[str, list[str]] = {}
    path = path_of(corpus)
    for line in path.read_text(encoding="utf-8").splitlines() if path.exists() else ():
        if line.startswith(HEAD):
            lines = found[line.removeprefix(HEAD)] = []
        else:
            lines.append(line)
    return found


def keep(corpus: Corpus) -> None:
    """Write the file anew."""
    path = path_of(corpus)
    path.parent.mkdir(parents=True, exist_ok=True)
    lines = (line for name, told in recorded(corpus).items() for line in (HEAD + name, *told))
    path.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8", newline="\n")


def differences(corpus: Corpus) -> Iterator[str]:
    """The lines that differ, as a unified diff for each program."""
    before, now = kept(corpus), recorded(corpus)
    for name in dict.fromkeys([*before, *now]):
        place = f"{corpus.name}: {name}"
        yield from difflib.unified_diff(before.get(name, []), now.get(name, []), place, place, "kept", "now", 1, "")


def _record(corpus: Corpus, sample: Sample) -> Iterator[str]:
    source = Source(Path(sample.path).name or "program.py", sample.text, sample.path)
    follow = Lookups(Modules(), source) if sample.path and follows(sample.text.encode()) else nothing
    program = Program(source, follow)
    rules = [rule for rule in RULES if rule.default or corpus.opportunities]
    rendering = Rendering(program)
    told, found = record(rendering, rules, assuming=False)
    if corpus.readable:
        yield from (*told, *found)
    else:
        yield f"text {_digest(sample.text)}"
        yield from _digests(line for line in told if not line.endswith(" idle"))
        yield from _headlines(found)
    if corpus.dtypes:
        yield from _claims(sample.text)
    elif corpus.readable:
        yield from _assuming(rendering, told, found, rules)


def _assuming(rendering: Rendering, told: list[str], found: list[str], rules: list[type[Rule]]) -> Iterator[str]:
    """What is different where tensors of unknown dtype are taken for half."""
    assumed, assumed_findings = record(rendering, rules, assuming=True)
    before, now = list(_digests(told)), list(_digests(assumed))
    yield from (f"not assuming: {line}" for line in before if line not in now)
    yield from (f"assuming: {line}" for line in now if line not in before)
    yield from (f"assuming: {line}" for line in assumed_findings if assumed_findings != found)


def _headlines(found: list[str]) -> Iterator[str]:
    """The findings, each with a digest of its notes and its repair."""
    starts = [row for row, line in enumerate(found) if not line.startswith(" ")]
    for first, last in itertools.pairwise([*starts, len(found)]):
        yield f"{found[first]} {_digest(*found[first + 1 : last])}"


def _digests(told: Iterable[str]) -> Iterator[str]:
    """The row and kind of events, and a digest of what else there is to tell."""
    groups: dict[tuple[str, str], list[str]] = defaultdict(list)
    for line in told:
        place, kind = line.split(" ")[:2]
        groups[place.rpartition(":")[0], kind].append(line)
    yield from (f"{row} {kind} {_digest(*lines)}" for (row, kind), lines in groups.items())


def _digest(*lines: str) -> str:
    return hashlib.blake2b("\n".join(lines).encode(), digest_size=3).hexdigest()


def _claims(text: str) -> Iterator[str]:
    """The dtypes and ranks of the values that a program shows, and where it raises."""
    found = claims(text)
    for row, dtypes in sorted(found.dtypes.items()):
        supposed = f" supposes {_either(found.supposed[row])}" if found.supposed[row] != dtypes else ""
        yield f"{row} is {_either(dtypes)}{supposed} rank {_either(found.ranks[row])}"
    for name, rows in (("raises", found.raises), ("always raises", found.always), ("unsure", found.unsure)):
        yield f"{name} {' '.join(map(str, sorted(rows)))}".rstrip()


def _either(options: Iterable[str | int | None]) -> str:
    return "|".join(sorted(map(str, options)))
