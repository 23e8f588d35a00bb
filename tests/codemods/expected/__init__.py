"""Results of codemods on whole programs, kept as diffs to be read.

`python -m tests.codemods.expected` shows what has changed since, and with `--update` writes the files anew.
"""

from __future__ import annotations

import difflib
import itertools
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from amplint.codemods import Wish
from tests.codemods.larger_batches import MANY
from tests.codemods.running import conversion

HERE = Path(__file__).parent
DTYPES = ("float16", "bfloat16")
HALF = Wish(to="amp", device="cpu")
NARROWED = Wish(source="float16")
APEX = Wish(source="apex")
CUDA_AMP = Wish(source="cuda-amp")
ACCUMULATED = Wish(accumulate=MANY)


@dataclass(frozen=True)
class Case:
    """A program in one of the folders beside this one, and what it is to become; `first` is what it becomes before."""

    folder: str
    program: str
    wish: Wish
    first: Wish | None = None

    def __str__(self) -> str:
        return f"{self.program}.{_words(self.wish)}"

    @property
    def path(self) -> Path:
        """The file that keeps the result."""
        return HERE / self.folder / f"{self}.diff"

    @property
    def before(self) -> str:
        """The text that is converted."""
        text = (HERE.parent / self.folder / f"{self.program}.py").read_text(encoding="utf-8")
        return conversion(text, self.first).text if self.first is not None else text

    def kept(self) -> str:
        """What the file says."""
        return self.path.read_text(encoding="utf-8") if self.path.exists() else ""

    def now(self) -> str:
        """What the file should say: the changes, then what is refused or left to a person."""
        before = self.before
        found = conversion(before, self.wish)
        old, new = before.splitlines(keepends=True), found.text.splitlines(keepends=True)
        told = [("refused", one) for one in found.refused] + [("check", one) for one in found.left]
        remarks = [f"{kind} {remark.row}: {remark.text}\n" for kind, remark in told]
        return "".join([*difflib.unified_diff(old, new, "before", "after", n=1), *remarks]) or "nothing to convert\n"


def programs(folder: str) -> list[str]:
    """The names of the programs in a folder beside this one."""
    return sorted(path.stem for path in (HERE.parent / folder).glob("*.py"))


def in_pairs(program: str) -> list[Wish]:
    """The wishes for one of `programs`: of program, device and dtype, each with each other, but not all three.

    `auto` needs a `torch.device` that tells the device.
    """
    text = (HERE.parent / "programs" / f"{program}.py").read_text(encoding="utf-8")
    devices = ("cuda", "cpu", "auto") if "torch.device(" in text else ("cuda", "cpu")
    dtypes = itertools.cycle(DTYPES if programs("programs").index(program) % 2 else reversed(DTYPES))
    wishes = [Wish(to="amp", device=device, dtype=dtype) for device, dtype in zip(devices, dtypes, strict=False)]
    flagged = any(word in text for word in ("ArgumentParser", "click"))
    return [*wishes, Wish(to="amp", device="cpu", add_flag=True)] if flagged else wishes


def of_programs() -> Iterator[Case]:
    """To mixed precision, on CPUs in both dtypes, and from float16 to bfloat16."""
    for program in programs("programs"):
        trained = [Wish(to="amp", device="cpu", dtype=dtype) for dtype in DTYPES]
        for wish in dict.fromkeys([*trained, *in_pairs(program)]):
            yield Case("programs", program, wish)
        yield Case("programs", program, NARROWED, HALF)


def of_accumulation() -> Iterator[Case]:
    """To micro-batches, whatever the precision."""
    for folder in ("programs", "micro_batches"):
        for program in programs(folder):
            yield Case(folder, program, ACCUMULATED)


def of_apex() -> Iterator[Case]:
    """Away from apex, and then to bfloat16."""
    for program in programs("apex_programs"):
        yield Case("apex_programs", program, APEX)
        if program != "off":
            yield Case("apex_programs", program, NARROWED, APEX)


def of_cuda_amp() -> Iterator[Case]:
    """Away from names that are deprecated."""
    for program in programs("cuda_amp_programs"):
        yield Case("cuda_amp_programs", program, CUDA_AMP)


def cases() -> list[Case]:
    """All there are."""
    return [*of_programs(), *of_accumulation(), *of_apex(), *of_cuda_amp()]


def _words(wish: Wish) -> str:
    goal = [wish.to, wish.device, wish.dtype] if wish.to is not None else []
    source = [f"from-{wish.source}"] if wish.source is not None else []
    more = ["flag"] * wish.add_flag + [f"accumulate-{wish.accumulate}"] * (wish.accumulate is not None)
    return "-".join([*source, *goal, *more])
