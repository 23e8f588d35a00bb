"""Attacks amplint for a while and says what it found, made small.

    python -m tests.fuzz --minutes 30 [--seed N] [--only TEXT] [--cases N] [--save FOLDER]

Case `i` of a job is made of the seed `N * 1,000,000 + i`, so that a run can be repeated. The exit status is 1 where a
case fails.
"""

from __future__ import annotations

import argparse
import faulthandler
import resource
import sys
import time
from collections import Counter
from pathlib import Path

from tests.chance import seeded
from tests.fuzz.checks import JOBS, failure_of
from tests.fuzz.smaller import same_way, smaller

SEEDS_PER_RUN = 1_000_000
STUCK_S = 300
SHRINKING_S = 60.0


def main() -> int:
    """Parse the command line, run, print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--minutes", type=float, default=30.0)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--only", default="", help="only jobs whose name contains this")
    parser.add_argument("--cases", type=int, default=SEEDS_PER_RUN, help="at most so many of each job")
    parser.add_argument("--save", type=Path, help="where failing cases are left")
    options = parser.parse_args()
    jobs = {name: job for name, job in JOBS.items() if options.only in name}
    end = time.monotonic() + 60 * options.minutes
    ran: Counter[str] = Counter()
    spent: Counter[str] = Counter()
    slowest: dict[str, float] = {}
    failures: dict[str, list[str]] = {}
    for number in range(options.cases):
        for name, (make, check) in jobs.items():
            if time.monotonic() > end:
                break
            seed = options.seed * SEEDS_PER_RUN + number
            faulthandler.dump_traceback_later(STUCK_S, exit=True)
            raw = make(seeded(seed))
            started = time.process_time()
            failure = failure_of(check, raw)
            seconds = time.process_time() - started
            faulthandler.cancel_dump_traceback_later()
            ran[name] += 1
            spent[name] += seconds
            slowest[name] = max(seconds, slowest.get(name, 0.0))
            known = failures.setdefault(name, [])
            if failure is None or any(same_way(failure, other) for other in known):
                continue
            known.append(failure)
            print(f"{name}, seed {seed}: {failure}", flush=True)
            small = smaller(raw, lambda each: same_way(failure, failure_of(check, each)), SHRINKING_S)  # noqa: B023
            if options.save is not None:
                options.save.mkdir(parents=True, exist_ok=True)
                (options.save / f"{name.replace(' ', '-')}-{seed}").write_bytes(small)
            print(small.decode(errors="backslashreplace")[:2_000], flush=True)
    print("\n| job | cases | failures | CPU seconds a case | slowest |\n|---|---|---|---|---|")
    for name, count in ran.items():
        mean = spent[name] / count
        print(f"| {name} | {count:,} | {len(failures[name])} | {mean:.2f} | {slowest[name]:.1f} |")
    memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024
    print(f"\n{ran.total():,} cases of seed {options.seed}, at most {memory:,} MB of memory")
    return int(any(failures.values()))


if __name__ == "__main__":
    sys.exit(main())
