"""Shows what amplint says of the kept programs that it did not say before.

python -m tests.golden [--update] [--only TEXT]

With `--update` the files in tests/golden/expected are written anew. TEXT is part of a file's name.
"""

from __future__ import annotations

import argparse
import sys

from tests.golden.corpora import corpora
from tests.golden.goldens import differences, keep


def main() -> None:
    """Parse the command line, print or write."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--update", action="store_true", help="write the files anew")
    parser.add_argument("--only", default="", help="only files whose name contains this")
    options = parser.parse_args()
    changed = False
    for corpus in corpora():
        if options.only not in corpus.name:
            continue
        if options.update:
            keep(corpus)
        for line in () if options.update else differences(corpus):
            changed = True
            print(line)
    sys.exit(changed)


if __name__ == "__main__":
    main()
