"""Regular expressions compiled on first use: a run uses few of the two hundred that it loads."""

from __future__ import annotations

import re
from typing import Any, AnyStr, cast


class Regex:
    """A compiled `text`, on first use."""

    def __init__(self, text: str | bytes, flags: int) -> None:
        self._text, self._flags = text, flags

    def __getattr__(self, name: str) -> Any:
        found = getattr(re.compile(self._text, self._flags), name)
        setattr(self, name, found)
        return found


def regex(text: AnyStr, flags: int = 0) -> re.Pattern[AnyStr]:
    """`re.compile(text, flags)`, deferred."""
    return cast("re.Pattern[AnyStr]", Regex(text, flags))
