"""Putting something else in the place of attributes, for a while."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any

_MISSING = object()


@contextlib.contextmanager
def replaced(owner: Any, **attributes: Any) -> Iterator[None]:
    """Give `owner`, a module or class, these attributes, and what it had before at the end."""
    before = {name: vars(owner).get(name, _MISSING) for name in attributes}
    for name, value in attributes.items():
        setattr(owner, name, value)
    try:
        yield
    finally:
        for name, value in before.items():
            if value is _MISSING:
                delattr(owner, name)
            else:
                setattr(owner, name, value)
