"""How much of what amplint finds survives refactorings of the program.

    python -m benchmarks.refactored [--only TEXT] [--part N] [--refactorings NAMES] [--losses] [--show] [--run N]
        [--processes N]

Each program of the fixtures is refactored in every way of `REFACTORINGS` that applies to it, in a folder of its own.
A bad one is to have as many findings of its rule as before, and a good one is to have none. Printed are both by
refactoring and by rule. `--losses` names what is lost and what is new,
`--show` prints the refactored files with it.

`--run N` runs N refactored programs instead, chosen by a hash, and prints those that behave in another way than the
program did: it shows that the refactorings change nothing.
"""

from __future__ import annotations

import argparse
import ast
import hashlib
import os
import shutil
import sys
import tempfile
from collections import Counter
from collections.abc import Iterable, Iterator
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from pathlib import Path

from amplint.api import Settings, check
from benchmarks.refactorings import REFACTORINGS, SCRIPT, Files, Unsuited

FIXTURES = Path(__file__).parents[1] / "fixtures"
GUESSED = frozenset({"nondescript-names"})
"""Refactorings that take guesses by name away, whose losses can be right."""


@dataclass(frozen=True)
class Trial:
    """A refactored program: how many findings of its rule it had and has, and which are new."""

    program: str
    refactoring: str
    before: int
    kept: int
    new: tuple[str, ...]

    @property
    def code(self) -> str:
        """The code of the rule."""
        return self.program[:6]

    @property
    def is_bad(self) -> bool:
        """Whether the program has the mistake."""
        return "/bad_" in self.program


def refactored(text: str, name: str) -> Files | None:
    """The files of a refactored program, None where the refactoring does not apply or gives no program."""
    try:
        files = REFACTORINGS[name](ast.parse(text))
        for content in files.values():
            compile(content, SCRIPT, "exec")
    except (Unsuited, SyntaxError):
        return None
    return files


def found(files: Files, settings: Settings, beside: Path | None = None) -> Counter[str]:
    """How many findings of each code files have, with the settings files of the folder `beside` beside them."""
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder).resolve()
        (root / ".git").mkdir()
        for other in beside.iterdir() if beside is not None else ():
            if other.suffix != ".py" and other.is_file():
                shutil.copy(other, root / other.name)
        for name, text in files.items():
            (root / name).parent.mkdir(exist_ok=True)
            (root / name).write_text(text, encoding="utf-8")
        here = Path.cwd()
        os.chdir(root)
        try:
            findings = check([root / name for name in files], settings)
        finally:
            os.chdir(here)
    return Counter(finding.code for finding in findings)


def trials(path: Path, names: Iterable[str]) -> list[Trial]:
    """A program in each of its refactorings."""
    text = path.read_text(encoding="utf-8")
    code = path.parent.name[:6]
    settings = Settings(extend_select=(code,) if "# asked: yes" in text.splitlines() else ())
    before = found({SCRIPT: text}, settings, path.parent)
    results = []
    for name in names:
        files = refactored(text, name)
        if files is not None:
            after = found(files, settings, path.parent)
            kept = min(before[code], after[code])
            results.append(
                Trial(program_name(path), name, before[code], kept, tuple(sorted((after - before).elements())))
            )
    return results


def program_name(path: Path) -> str:
    """The name of a fixture in what is printed."""
    return path.relative_to(FIXTURES).as_posix()


def programs(only: str = "", part: int = 1) -> list[Path]:
    """The fixtures whose names contain a text, of these about one in `part`, chosen by a hash."""
    every = [path for path in sorted(FIXTURES.glob("AMP*/*.py")) if only in program_name(path)]
    return [path for path in every if _hash(program_name(path)) % part == 0]


def _hash(text: str) -> int:
    return int(hashlib.sha1(text.encode()).hexdigest()[:8], 16)


def _all_trials(paths: list[Path], names: list[str], processes: int) -> Iterator[Trial]:
    if processes < 2:
        for path in paths:
            yield from trials(path, names)
        return
    with ProcessPoolExecutor(processes) as pool:
        for results in pool.map(trials, paths, [names] * len(paths), chunksize=8):
            yield from results


def _print_table(done: list[Trial], of: str, rows: Iterable[str]) -> None:
    print(f"{of:24} {'bad kept':>18} {'more':>6} {'good with new':>16}")
    for row in rows:
        mine = [
            one for one in done if row in (one.refactoring, one.code, "all" if one.refactoring not in GUESSED else "")
        ]
        bad, good = [one for one in mine if one.is_bad], [one for one in mine if not one.is_bad]
        if mine:
            kept, before = sum(one.kept for one in bad), sum(one.before for one in bad)
            share = f"{kept}/{before} {kept / before:6.1%}" if before else ""
            noise = f"{sum(bool(one.new) for one in good)}/{len(good)}"
            print(f"{row:24} {share:>18} {sum(bool(one.new) for one in bad):>6} {noise:>16}")


def _behaviours(paths: list[Path], names: list[str], count: int) -> None:
    """Run refactored programs beside the originals and print those that differ."""
    sys.path.insert(0, str(FIXTURES.parent / "tests"))
    from proof.client import ProofServer
    from proof.programs import Program

    pairs = [(path, name) for path in paths for name in names]
    pairs.sort(key=lambda pair: _hash(f"{pair[0].name} {pair[1]}"))
    ran = 0
    with ProofServer() as server:
        for path, name in pairs:
            program = Program(path)
            files = refactored(program.text, name)
            if ran >= count:
                break
            if files is None or len(files) > 1 or "tqdm" in files[SCRIPT]:
                continue
            ran += 1
            texts = program.text, files[SCRIPT]
            try:
                one, other = (
                    server.run(text, program.name, cuda=program.cuda, framework=program.framework) for text in texts
                )
            except ValueError as error:
                print(f"{name}: {program_name(path)}: {error}")
                continue
            shown = [outcome.symptoms() for outcome in (one, other)]
            if shown[0] != shown[1] or repr(one.result) != repr(other.result):
                print(
                    f"{name}: {program_name(path)}: {shown[0]} became {shown[1]}, {one.result}, {other.result}",
                    flush=True,
                )
    print(f"{ran} programs ran")


def main(arguments: Iterable[str] | None = None) -> None:
    """Parse the command line, refactor, lint, and print the tables."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", default="", help="only fixtures whose name contains this")
    parser.add_argument("--part", type=int, default=1, help="only about one fixture in so many")
    parser.add_argument("--refactorings", default="", help="only these")
    parser.add_argument("--losses", action="store_true", help="print what is lost and what is new")
    parser.add_argument("--show", action="store_true", help="print the refactored files with it")
    parser.add_argument("--run", type=int, default=0, help="run this many refactored programs instead")
    parser.add_argument("--processes", type=int, default=1)
    options = parser.parse_args(list(arguments) if arguments is not None else None)

    wanted = [one for one in options.refactorings.split(",") if one]
    names = [one for one in REFACTORINGS if not wanted or one in wanted]
    paths = programs(options.only, options.part)
    if options.run:
        _behaviours(paths, names, options.run)
        return
    done = []
    for trial in _all_trials(paths, names, options.processes):
        done.append(trial)
        changed = trial.kept < trial.before or trial.new
        if changed and (options.losses or options.show):
            lost = f" {trial.code} {trial.kept}/{trial.before}" if trial.kept < trial.before else ""
            print(f"{trial.refactoring}: {trial.program}:{lost} {' '.join('+' + one for one in trial.new)}", flush=True)
            if options.show:
                files = refactored((FIXTURES / trial.program).read_text(encoding="utf-8"), trial.refactoring) or {}
                for name, text in files.items():
                    print(f"--- {name}\n{text}")
    _print_table(done, "refactoring", [*names, "all"])
    print()
    _print_table(done, "rule", sorted({trial.code for trial in done}))


if __name__ == "__main__":
    main()
