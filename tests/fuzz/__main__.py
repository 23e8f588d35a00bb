"""Attacks amplint for a while and says what it found, made small.

    python -m tests.fuzz [--minutes 30] [--rounds N] [--seed N] [--only TEXT] [--save FOLDER]

A round has one case of most jobs, and five, two and two of those that lint, repair and convert trees. Case `i` of a
job is made of its name and the seed `N * 1,000,000 + i`: the same seed and `--rounds` are the same cases, wherever and
however often. The exit status is 1 where a case fails. A process of its own tries the cases; where it hangs or crashes,
that is a failure of the case.
"""

from __future__ import annotations

import argparse
import multiprocessing
import multiprocessing.connection
import resource
import sys
import time
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

from tests.chance import seeded
from tests.fuzz.checks import JOBS, Job, failure_of
from tests.fuzz.smaller import same_way, smaller

SEEDS_PER_RUN = 1_000_000
STUCK_S = 60
"""Processor seconds after which the process that makes the cases is ended."""
SHRINKING_S = 60.0
SHOWN = 2_000

Case = tuple[str, int]


@dataclass
class Tally:
    """What became of the cases of a job."""

    cases: int = 0
    seconds: float = 0.0
    slowest: float = 0.0
    failed: int = 0
    kinds: list[str] = field(default_factory=list)

    def add(self, seconds: float, failure: str | None) -> bool:
        """Count a case; whether it fails in a way that is new."""
        self.cases += 1
        self.seconds += seconds
        self.slowest = max(seconds, self.slowest)
        if failure is None:
            return False
        self.failed += 1
        if any(same_way(failure, other) for other in self.kinds):
            return False
        self.kinds.append(failure)
        return True


def order(jobs: dict[str, Job], rounds: int, seed: int) -> Iterator[Case]:
    """The cases, round by round."""
    for number in range(rounds):
        for name, job in jobs.items():
            for part in range(job.share):
                yield name, seed * SEEDS_PER_RUN + number * job.share + part


def raw_of(case: Case) -> bytes:
    """The bytes of a case."""
    name, seed = case
    return JOBS[name].make(seeded(f"{name} {seed}"))


def attack(cases: Iterator[Case], end: float, connection: multiprocessing.connection.Connection) -> None:
    """Say of each case that it begins, and what became of it."""
    for case in cases:
        if time.monotonic() > end:
            break
        connection.send(case)
        _allow(STUCK_S)
        raw = raw_of(case)
        started = time.process_time()
        failure = failure_of(JOBS[case[0]].check, raw)
        connection.send((time.process_time() - started, failure))
    connection.close()


def _allow(seconds: float) -> None:
    """Let the system end this process after so many more processor seconds, whatever it does then."""
    _, most = resource.getrlimit(resource.RLIMIT_CPU)
    resource.setrlimit(resource.RLIMIT_CPU, (int(time.process_time() + seconds) + 1, most))


def tell(case: Case, failure: str, folder: Path | None) -> None:
    """Print a failing case, made small where it can be run again, and leave it in `folder`."""
    name, seed = case
    print(f"{name}, seed {seed}: {failure}", flush=True)
    raw = raw_of(case)
    check = JOBS[name].check
    if not failure.startswith("the process"):
        raw = smaller(raw, lambda each: same_way(failure, failure_of(check, each)), SHRINKING_S)
    if folder is not None:
        folder.mkdir(parents=True, exist_ok=True)
        (folder / f"{name.replace(' ', '-')}-{seed}").write_bytes(raw)
    print(raw.decode(errors="backslashreplace")[:SHOWN], flush=True)


def main() -> int:
    """Parse the command line, run, print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--minutes", type=float, default=30.0)
    parser.add_argument("--rounds", type=int, help="so many rounds, however long they take")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--only", default="", help="only jobs whose name contains this")
    parser.add_argument("--save", type=Path, help="where failing cases are left")
    options = parser.parse_args()
    jobs = {name: job for name, job in JOBS.items() if options.only in name}
    end = time.monotonic() + 60 * options.minutes if options.rounds is None else float("inf")
    tallies = {name: Tally() for name in jobs}
    cases = order(jobs, SEEDS_PER_RUN if options.rounds is None else options.rounds, options.seed)
    with suppress(KeyboardInterrupt):  # what has been tried until then is told
        while _one_process(cases, end, tallies, options.save):
            pass
    print("\n| job | cases | failures | CPU seconds a case | slowest |\n|---|---|---|---|---|")
    for name, tally in tallies.items():
        if tally.cases:
            mean = tally.seconds / tally.cases
            print(f"| {name} | {tally.cases:,} | {tally.failed} | {mean:.2f} | {tally.slowest:.1f} |")
    memory = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss // 1024
    total = sum(tally.cases for tally in tallies.values())
    print(f"\n{total:,} cases of seed {options.seed}, at most {memory:,} MB of memory")
    return int(any(tally.failed for tally in tallies.values()))


def _one_process(cases: Iterator[Case], end: float, tallies: dict[str, Tally], folder: Path | None) -> bool:
    """Have a process attack with what is left of `cases`; whether it was ended by one of them."""
    receiving, sending = multiprocessing.Pipe(duplex=False)
    process = multiprocessing.get_context("fork").Process(target=attack, args=(cases, end, sending), daemon=True)
    process.start()
    sending.close()
    case: Case | None = None
    try:
        while True:
            case = receiving.recv()
            assert case == next(cases)
            seconds, failure = receiving.recv()
            if tallies[case[0]].add(seconds, failure):
                tell(case, failure, folder)
            case = None
    except EOFError:
        process.join()
    if case is None:
        assert process.exitcode == 0, process.exitcode
        return False
    failure = f"the process ended with {process.exitcode}"
    if tallies[case[0]].add(STUCK_S, failure):
        tell(case, failure, folder)
    return True


if __name__ == "__main__":
    sys.exit(main())
