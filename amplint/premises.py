"""What a finding takes for granted and nothing in sight shows, and what that leaves of its severity.

An error or a warning stands on what was seen, on every path that counts. Where one premise is unseen, the finding is an
info that names it. Where two are, or where nothing comes of it in the code at hand, it is left out unless its rule was
selected by its code, a prefix or ALL.
"""

from __future__ import annotations

import enum
from collections.abc import Iterable

from amplint.findings import Severity

MOST = 1
"""How many unseen premises a finding may rest on that is shown where nobody has asked for its rule."""


class Premise(enum.Enum):
    """Something that was not seen, as the end of a sentence that begins with "where".

    A premise that stands for two counts as two. One that makes a finding slight, as nothing comes of what it says, does
    so, too.
    """

    ANOTHER_DEVICE = "the device is of another type"
    REGION_OF_CALLER = "a caller has a region on"
    REGION_THERE = "a region is on there"
    RESUMED = "a later run restores this state"
    HALF_CHOSEN = "a half dtype is what is chosen"
    FLOAT16_CHOSEN = "float16 is what is chosen"
    HALF_ALIKE = "the dtype that it takes over is half"
    MANY = "there are more of them than half tells apart"
    OUT_OF_RANGE = "a number is past 65504"
    DIGITS = "digits count that the dtype does not have"
    WIDE_FIRST = "the first operation on it runs in float32"
    UPDATED = "an optimizer updates these weights"
    OTHER_DTYPE = "the tensor has another dtype"
    OTHER_WANTED = "the dtype asked for is another"
    NOT_REPLACED = "nothing replaces the empty tensor"
    COMPUTED_WITH = "what is converted is computed with"
    PRODUCTS = "the optimizer computes matrix products"
    FORWARD_FOLLOWS = "a forward pass follows in the region"
    FORWARD_ADDED = "a forward pass is added behind the step"
    RUNS_ELSEWHERE = "all that runs here can do without CUDA"
    TESTED = "more is meant than a test"
    MEASURED = "more is meant than to measure time or memory"

    @property
    def weight(self) -> int:
        """How many premises this one counts for."""
        return 2 if self in _SLIGHT else 1


_SLIGHT = frozenset({Premise.MEASURED, Premise.FORWARD_ADDED})


def weight(premises: Iterable[Premise]) -> int:
    """How many unseen premises these come to."""
    return sum(premise.weight for premise in set(premises))


def left_of(severity: Severity, premises: Iterable[Premise], *, asked: bool) -> Severity | None:
    """The severity of a finding that would have `severity` if all these premises were seen; None where it is left out.

    `asked` tells that its rule was selected, and not just left on.
    """
    count = weight(premises)
    if count > MOST and not asked:
        return None
    return Severity.INFO if count else severity


def named(premises: Iterable[Premise]) -> str:
    """The premises as a sentence, "" where there are none."""
    texts = [premise.value for premise in dict.fromkeys(premises)]
    return f"It holds where {' and '.join(texts)}, which is not seen." if texts else ""
