"""`python -m tests.variations`: the findings that are lost when programs of the fixtures are written in other ways."""

from __future__ import annotations

import argparse
import sys
import tempfile
from collections import Counter
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

from proof.programs import programs

from tests.variations.matrix import losses, variation
from tests.variations.transforms import TRANSFORMS


def main() -> None:
    """Print what is lost, and how much of how many for each transform."""
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--only", default="", help="parts of names of programs, separated by commas")
    options.add_argument("--transform", default=",".join(TRANSFORMS), help="transforms, separated by commas")
    options.add_argument("--first", type=int, default=99, help="as many programs of each rule")
    options.add_argument("--show", action="store_true", help="show the programs in which something is lost")
    given = options.parse_args()
    rules, told, gone_by = Counter[str](), Counter[str](), Counter[str]()
    for program in programs():
        chosen = program.is_bad and any(part in program.name for part in given.only.split(","))
        rules[program.code] += chosen
        if not chosen or rules[program.code] > given.first:
            continue
        with tempfile.TemporaryDirectory() as folder:
            for transform, gone in losses(program, given.transform.split(","), Path(folder)):
                told[transform] += len(program.expectations)
                gone_by[transform] += gone.total()
                for code in gone.elements():
                    print(f"LOST {program.name} {transform} {code}", flush=True)
                for name, text in (variation(program, transform) or {}).items() if gone and given.show else ():
                    print(f"--- {name}\n{text}")
    for transform, number in told.items():
        print(f"{transform:22s} lost {gone_by[transform]:3d} of {number}")
    print(f"{'all':22s} lost {gone_by.total():3d} of {told.total()}")


if __name__ == "__main__":
    main()
