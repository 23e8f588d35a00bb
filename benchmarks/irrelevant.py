"""Python code that has nothing to do with mixed precision, for measuring what it adds to the cost of a script."""

from __future__ import annotations

FUNCTION = '''\

def describe_{number}(path, rows, verbose=False):
    """Write a table of numbers and return their mean."""
    names = sorted(row["name"] for row in rows)
    total = 0
    for index, row in enumerate(rows):
        if row["value"] is None:
            continue
        total += row["value"] * {number}
        if verbose:
            print(f"{{index}}: {{row['name']}} {{row['value']:.3f}}")
    with open(path, "w") as file:
        file.write(", ".join(names))
        file.write(str(total))
    return total / max(1, len(rows))


TITLES_{number} = [f"figure {{index}}" for index in range({number})]
if len(TITLES_{number}) > 3:
    SHORT_{number} = TITLES_{number}[:3]
else:
    SHORT_{number} = TITLES_{number}
'''


def irrelevant(lines: int) -> str:
    """About this many lines of it, at least one function."""
    return "".join(FUNCTION.format(number=number) for number in range(max(1, lines // FUNCTION.count("\n"))))
