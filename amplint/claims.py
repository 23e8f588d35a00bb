"""What a run would show where a finding is true, said by rules, and what a run did show, said of findings."""

from __future__ import annotations

import enum

from amplint.records import dataclass

HALF = ("float16", "bfloat16")


class Sign(enum.Enum):
    """The kinds of things that a run shows at a place.

    TAKES and GIVES: an operation takes, or gives, only floating tensors of the claim's dtypes. WIDENS: it makes float32
    of half tensors among float32 ones. STAYS_WIDE: it computes in float32 although its region is on. REGION_ON: it runs
    with a region that is on. REGION_OFF: it runs without one, and others with one. INERT: nothing runs with one there.
    HOLDS: an optimizer steps parameters of the claim's dtypes, the one there where the claim is about a `step`. RAISES:
    it raises with one of the claim's texts, any of them where there are none. CAN_RAISE: the same where that depends on
    the way there: a run without it says nothing. NOT_FINITE: it makes inf or NaN.
    """

    TAKES = "takes"
    GIVES = "gives"
    WIDENS = "widens"
    STAYS_WIDE = "stays wide"
    REGION_ON = "region on"
    REGION_OFF = "region off"
    INERT = "inert"
    HOLDS = "holds"
    RAISES = "raises"
    CAN_RAISE = "can raise"
    NOT_FINITE = "not finite"


@dataclass(frozen=True, slots=True)
class Claim:
    """One thing that a run shows where a finding is true; `ops` are the operations meant, by name, none for any."""

    sign: Sign
    dtypes: tuple[str, ...] = HALF
    texts: tuple[str, ...] = ()
    ops: tuple[str, ...] = ()


class Verdict(enum.Enum):
    """What a run says of a finding. UNDECIDED: its place ran, and what the finding claims cannot be seen there."""

    CONFIRMED = "confirmed"
    CONTRADICTED = "contradicted"
    NOT_EXERCISED = "not exercised"
    UNDECIDED = "undecided"


@dataclass(frozen=True, slots=True)
class Mark:
    """The verdict of a run, and `text`, what was measured: `mul took float16, gave float16 (3 times)`."""

    verdict: Verdict
    text: str = ""
