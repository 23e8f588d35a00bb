"""Values of which one is chosen out of sight."""

from __future__ import annotations

from amplint.semantics.values.values import Const, OneOf, Ref, Value
from amplint.torchlib.names import DTYPES


def alternatives(values: tuple[Value, ...]) -> OneOf | None:
    """One value for several strings or dtypes that are all possible, None for anything else."""
    options: set[str] = set()
    for value in values:
        if isinstance(value, Const) and isinstance(value.value, str):
            options.add(value.value)
        elif isinstance(value, Ref) and value.name in DTYPES:
            options.add(value.name)
        elif isinstance(value, OneOf):
            options |= value.options
        else:
            return None
    return OneOf(frozenset(options)) if options else None
