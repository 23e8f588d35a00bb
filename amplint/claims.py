"""Claims and marks: what a run shows if a finding is true, declared by rules, and what a run did show."""

from __future__ import annotations

import enum

from amplint.records import dataclass

HALF = ("float16", "bfloat16")


class Sign(enum.Enum):
    """The kinds of observations at a place.

    TAKES and GIVES: an operation takes, or gives, only floating tensors of the claim's dtypes. WIDENS: it returns
    float32 for a mixture of half and float32 tensors. STAYS_WIDE: it computes in float32 inside of an enabled region.
    REGION_ON: it runs in an enabled region. REGION_OFF: it runs outside of one, and other operations inside of one.
    INERT: nothing runs in an enabled region there. HOLDS: an optimizer steps parameters of the claim's dtypes, the
    optimizer there if the claim is about a `step`. RAISES: it raises with one of the claim's texts, with any if there
    are none. CAN_RAISE: the same, but depending on the path: a run without the exception is no evidence. NOT_FINITE: it
    makes inf or NaN.
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
    """One observation that a run makes if a finding is true; `ops` are the operations meant, by name, none for any."""

    sign: Sign
    dtypes: tuple[str, ...] = HALF
    texts: tuple[str, ...] = ()
    ops: tuple[str, ...] = ()


class Verdict(enum.Enum):
    """The verdict of a run on a finding. UNDECIDED: the place ran, and the claim cannot be observed there."""

    CONFIRMED = "confirmed"
    CONTRADICTED = "contradicted"
    NOT_EXERCISED = "not exercised"
    UNDECIDED = "undecided"


@dataclass(frozen=True, slots=True)
class Mark:
    """A run's verdict and `text`, the observation: `mul took float16, gave float16 (3 times)`."""

    verdict: Verdict
    text: str = ""
