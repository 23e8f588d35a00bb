"""Kills `amplint --fix` at random moments and looks at what is left.

    python -m tests.kill [--runs N] [--files N] [--seed N]

Every file has to be as it was or as a repair makes it, no process may live on, and after the next run nothing may lie
there that was not there before. Every tenth run is repeated on a disk that is full and on one that cannot be written,
where such disks can be mounted. The exit status is 1 where that is not so.
"""

from __future__ import annotations

import argparse
import errno
import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.processes import lives, wait_until, workers

BAD = """\
import torch


def train(model, optimizer, batches):
    scaler = torch.amp.GradScaler("cuda")
    for batch, target in batches:
        optimizer.zero_grad()
        with torch.autocast("cuda", dtype=torch.float16):
            loss = (model(batch) - target).square().mean()
        scaler.scale(loss).backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        scaler.step(optimizer)
        scaler.update()
"""
FIXED = BAD.replace("        torch.nn.utils.clip", "        scaler.unscale_(optimizer)\n        torch.nn.utils.clip")
SIGNALS = (signal.SIGKILL, signal.SIGTERM, signal.SIGINT)
COMMAND = (sys.executable, "-m", "amplint", "--fix", "--no-cache")
PADDING = "# what makes the file large\n" * 150
"""So that the files are analysed in several processes."""


def texts(folder: Path, files: int) -> dict[Path, str]:
    """What the files hold besides the code."""
    return {folder / f"train{number}.py": f"{PADDING}\n# {number}\n" for number in range(files)}


def write(files: dict[Path, str]) -> None:
    """Make every file as it was."""
    for path, rest in files.items():
        path.write_text(BAD + rest, encoding="utf-8")


def state(files: dict[Path, str], seen: Counter[str]) -> None:
    """Count the files that are old, new and anything else."""
    for path, rest in files.items():
        text = path.read_text(encoding="utf-8") if path.exists() else None
        seen["old" if text == BAD + rest else "new" if text == FIXED + rest else "torn or missing"] += 1


def start(folder: Path) -> subprocess.Popen[bytes]:
    """The command, running in a folder."""
    environment = {**os.environ, "PYTHONSAFEPATH": "1"}
    return subprocess.Popen(COMMAND, cwd=folder, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, env=environment)


def orphans(pids: set[int]) -> int:
    """How many of these processes live on for more than five seconds."""
    wait_until(lambda: not any(map(lives, pids)), 5)
    return sum(map(lives, pids))


@contextmanager
def disk(size: int) -> Iterator[Path]:
    """A small disk of its own. Raises OSError where none can be had."""
    with tempfile.TemporaryDirectory() as folder:
        mount = ["mount", "-t", "tmpfs", "-o", f"size={size}", "tmpfs", folder]
        if shutil.which("mount") is None or subprocess.run(mount, capture_output=True, check=False).returncode:
            raise OSError("no disk can be mounted here")
        try:
            yield Path(folder)
        finally:
            subprocess.run(["umount", "--lazy", folder], check=True)


def refuse(folder: Path, how: str) -> None:
    """Let nothing be written to a disk any more."""
    if how == "read-only":
        subprocess.run(["mount", "-o", "remount,ro", str(folder)], check=True)
        return
    with (folder / "filling").open("wb", buffering=0) as file:
        try:
            while file.write(bytes(4096)):
                pass
        except OSError as failure:
            if failure.errno != errno.ENOSPC:
                raise


def refused(how: str, runs: int, amount: int, chance: random.Random) -> Counter[str]:
    """What became of runs on a disk that cannot be written, every second of which is killed."""
    seen: Counter[str] = Counter()
    with disk(20_000 * amount + 1_000_000) as place:
        (place / "amplint.toml").touch()
        files = texts(place, amount)
        write(files)
        refuse(place, how)
        before = {path.name for path in place.iterdir()}
        started = time.monotonic()
        seen[f"status {start(place).wait()}"] += 1
        lasts = time.monotonic() - started
        state(files, seen)
        for run in range(1, runs):
            process = start(place)
            if run % 2:
                time.sleep(chance.uniform(0.05, 1.05) * lasts)
                process.send_signal(SIGNALS[run // 2 % len(SIGNALS)])
            seen[f"status {process.wait()}"] += 1
            state(files, seen)
        seen["left behind"] = len({path.name for path in place.iterdir()} - before)
        seen["torn or missing"] += seen["new"]  # nothing can have been written
    return seen


def main() -> int:
    """Parse the command line, run, print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=int, default=100)
    parser.add_argument("--files", type=int, default=200)
    parser.add_argument("--seed", type=int, default=22)
    options = parser.parse_args()
    signal.signal(signal.SIGINT, signal.default_int_handler)  # what a shell starts in the background ignores it
    chance = random.Random(options.seed)
    seen: Counter[str] = Counter()
    statuses: Counter[str] = Counter()
    left = living = after_next = 0
    with tempfile.TemporaryDirectory() as folder:
        place = Path(folder, "project")
        place.mkdir()
        (place / "amplint.toml").touch()
        files = texts(place, options.files)
        write(files)
        started = time.monotonic()
        start(place).wait()
        lasts = time.monotonic() - started
        expected = {"amplint.toml", *(path.name for path in files)}
        for run in range(options.runs):
            write(files)
            number = SIGNALS[run % len(SIGNALS)]
            both = [start(place) for _ in range(1 + (run % 5 == 4))]  # every fifth time two at once
            time.sleep(chance.uniform(0.05, 1.05) * lasts)
            pids = {pid for process in both for pid in workers(process.pid)} if both[0].poll() is None else set()
            for process in both:
                process.send_signal(number)
            for process in both:
                statuses[f"{number.name} {process.wait()}"] += 1
            living += orphans(pids)
            state(files, seen)
            left += len({path.name for path in place.iterdir()} - expected)
            if run % 10 == 9:
                start(place).wait()
                after_next += len({path.name for path in place.iterdir()} - expected)
                for path in place.iterdir():
                    if path.name not in expected:
                        path.unlink()
        shutil.rmtree(place)
    told = ", ".join(f"{count:,} {what}" for what, count in sorted(seen.items()))
    print(f"{options.runs} runs over {options.files} files, one of which takes {lasts:.1f} s: {told}")
    print("exit statuses:", ", ".join(f"{what}: {count}" for what, count in sorted(statuses.items())))
    print(f"files besides: {left} after the kill, {after_next} after the next run; processes that live on: {living}")
    wrong = seen["torn or missing"] + living + after_next
    for how in ("full", "read-only"):
        try:
            told = refused(how, options.runs // 10, options.files, chance)
        except OSError as failure:
            print(f"a disk that is {how}: skipped, {failure}")
            continue
        print(f"a disk that is {how}:", ", ".join(f"{count:,} {what}" for what, count in sorted(told.items())))
        wrong += told["torn or missing"] + told["left behind"]
    return int(bool(wrong))


if __name__ == "__main__":
    sys.exit(main())
