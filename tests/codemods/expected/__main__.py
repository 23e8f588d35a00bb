"""Shows which results of codemods are not those that are kept.

python -m tests.codemods.expected [--update] [--only TEXT]

With `--update` the files in tests/codemods/expected are written anew. TEXT is part of a file's path.
"""

from __future__ import annotations

import argparse
import difflib
import sys

from tests.codemods.expected import HERE, cases


def main() -> None:
    """Parse the command line, print or write."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--update", action="store_true", help="write the files anew")
    parser.add_argument("--only", default="", help="only files whose path contains this")
    options = parser.parse_args()
    chosen = [case for case in cases() if options.only in str(case.path.relative_to(HERE))]
    if options.update:
        for path in () if options.only else HERE.rglob("*.diff"):
            path.unlink()
        for case in chosen:
            case.path.parent.mkdir(exist_ok=True)
            case.path.write_text(case.now(), encoding="utf-8", newline="\n")
        return
    changed = False
    for case in chosen:
        kept, now = case.kept(), case.now()
        changed = changed or kept != now
        place = str(case.path.relative_to(HERE))
        sys.stdout.writelines(difflib.unified_diff(kept.splitlines(True), now.splitlines(True), place, place, n=1))
    sys.exit(changed)


if __name__ == "__main__":
    main()
