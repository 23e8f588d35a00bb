"""AMP406."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from amplint.findings import Applicability, Fix, Severity
from amplint.premises import Premise
from amplint.rule import Claim, Report, Rule, Sign
from amplint.semantics.events import (
    ANGLES,
    COORDINATES,
    FREQUENCIES,
    INTEGERS,
    PAST,
    SIDES,
    USUALLY_FEW,
    AnglesCast,
    Because,
    Event,
    Evidence,
    FrequenciesRounded,
    Operation,
    PositionsConverted,
    TimestepsCast,
)
from amplint.semantics.tensors.tensors import FROM_PARAMETER
from amplint.semantics.values.values import Tensor
from amplint.source import syntax as cst
from amplint.torchlib.names import HALF_DTYPES, HALF_SIGNS
from amplint.torchlib.policy import LOWER

if TYPE_CHECKING:
    from amplint.source.rewrite import Rewriter

LIMITS = {"float16": 2048, "bfloat16": 256}


class IntegersInHalf(Rule):
    """Positions, indices or angles are computed in half.

    ## Why is this bad?
    float16 holds whole numbers exactly up to 2048, bfloat16 up to 256. Behind that neighbours fall together: in
    bfloat16 the positions 1001 to 1003 are 1000 or 1004. `torch.arange(n, dtype=torch.bfloat16)`, positions
    converted to the dtype of the activations, and rotary angles that a matrix product under autocast computes in
    half (`positions @ inv_freq`) work in tests and fail on long sequences or large images, and so do the timesteps
    of a diffusion model. So do frequencies that a conversion of the whole model has rounded: float32 does not bring
    their digits back. The rows and columns of an image are few enough for float16.

    Frequencies in half put angles off just as much, even where positions are float32.

    A warning needs a range whose bound is known to be past that, or angles. A range of unknown length that is made in
    half is an info, and so are frequencies that are made in half or rounded to it. Where the rule is selected by its
    code, it also reports other whole numbers that are converted to half, positions and frequencies in the dtype of
    another tensor, and products of positions and frequencies in functions that do not switch autocast off, which a
    region around their caller computes in half. All of these are infos.

    ## Example
    ```python
    positions = torch.arange(length, device=x.device, dtype=torch.bfloat16)
    angles = torch.outer(positions, inv_freq)
    ```

    ## Use instead
    ```python
    positions = torch.arange(length, device=x.device, dtype=torch.float32)
    angles = torch.outer(positions, inv_freq)
    cos = angles.cos().to(x.dtype)  # under autocast, in a region with enabled=False
    ```

    ## Fix safety
    Unsafe: positions are made in float32. What follows may have to be converted to the dtype that is wanted.

    ## References
    - <https://docs.pytorch.org/docs/stable/type_info.html#torch.torch.finfo>
    """

    code = "AMP406"
    name = "integers-in-half"
    severity = Severity.WARNING
    claims = (Claim(Sign.GIVES),)
    screen = (
        HALF_SIGNS,
        (b"arange", b"linspace", b"cumsum", b"randint", b"timestep", b"t_emb", b"time_emb", b"time_in"),
    )
    assumed = ((b"arange", b"linspace"),)
    fixable = Applicability.UNSAFE

    def on_operation(self, event: Operation) -> Iterator[Report]:
        rounded = _rounded_frequencies(event)
        if rounded is not None:
            yield self.report(
                event,
                "frequencies were rounded to half, and are converted back to float32",
                reason="The digits are lost: an angle is off by its share of a 500th, whole turns at far positions.",
                advice="Compute frequencies in float32 again, or keep their buffer out of the model's conversion.",
                claims=(),
                notes=[(rounded.node, rounded.text)] if rounded.node is not None else (),
            )
        if (half := _lost(event)) is not None:
            limits = " and ".join(f"{LIMITS[dtype]} in {dtype}" for dtype in sorted(half.dtypes, reverse=True))
            announced = half.because in (Because.ANNOUNCED, Because.ASSUMED)
            yield self.report(
                event,
                "whole numbers are rounded to half"
                if event.op == "to" and not announced
                else f"positions {'can be' if announced else 'are'} computed in half",
                reason=f"Whole numbers are exact up to {limits}; behind that neighbours fall together.",
                advice="Compute positions and angles in float32, and convert sines and cosines.",
                premises=_unseen(event, half, announced),
                at=half.node if announced and event.op in ("sin", "cos") else None,
                notes=[(half.node, half.text)] if half.node not in (None, event.node) else (),
            )

    def on_positions_converted(self, event: PositionsConverted) -> Iterator[Report]:
        yield self.report(
            event,
            "positions are converted to the dtype of another tensor, which can be half, before they become angles",
            reason="Whole numbers are exact up to 2048 in float16 and 256 in bfloat16; behind that neighbours fall "
            "together.",
            advice="Convert positions to float32, and sines and cosines to the dtype of the tensor.",
            premises=[Premise.HALF_ALIKE],
            notes=[(event.by, "frequencies are multiplied with them here")],
        )

    def on_frequencies_rounded(self, event: FrequenciesRounded) -> Iterator[Report]:
        announced = event.follows
        yield self.report(
            event,
            f"frequencies {'can be' if announced else 'are'} rounded to half before positions are multiplied by them",
            reason="Half has few bits for a frequency: an angle of 1000 is off by up to 2 in bfloat16, 0.2 in float16.",
            advice="Compute frequencies and angles in float32, and convert sines and cosines.",
            premises=(*([Premise.HALF_ALIKE] if announced else ()), Premise.MANY if event.few else Premise.FAR),
            claims=(),
            notes=[(event.by, "positions are multiplied by them here")],
        )

    def on_timesteps_cast(self, event: TimestepsCast) -> Iterator[Report]:
        yield self.report(
            event,
            "timesteps are rounded to bfloat16",
            reason="Of the numbers up to 1000 it keeps each fourth, so that neighbours get the same embedding.",
            advice="Keep timesteps in float32, and convert their embedding.",
            severity=Severity.INFO,
        )

    def on_angles_cast(self, event: AnglesCast) -> Iterator[Report]:
        yield self.report(
            event,
            f"angles are computed in half where autocast is on around the caller: it casts the operands of {event.op}",
            reason="A region applies to the functions that are called in it, and .float() on operands does not help.",
            advice="Compute them in a region with enabled=False, or by elementwise multiplication.",
        )

    def fix(self, event: Event, rewrite: Rewriter) -> Fix | None:
        if not isinstance(event, Operation):
            return None
        call, edit = event.node, None
        if isinstance(call, cst.Call) and event.op in ("arange", "linspace"):
            edit = rewrite.set_argument(call, "dtype", "torch.float32")
        elif isinstance(call, cst.Call) and event.op == "to":
            edit = rewrite.float_instead(call)
        return Fix("Keep positions in float32", (edit,), Applicability.UNSAFE, ("import torch",)) if edit else None


def _rounded_frequencies(event: Operation) -> Evidence | None:
    """The evidence that frequencies, one per channel, were half before this conversion to float32."""
    if event.op != "to" or event.result.dtype not in ("float32", "float64"):
        return None
    frequencies = event.operands[0]
    known = isinstance(frequencies.value, Tensor) and FREQUENCIES in frequencies.value.traits
    return frequencies.half if known and frequencies.dtype == "bfloat16" else None


def _unseen(event: Operation, half: Evidence, announced: bool) -> tuple[Premise, ...]:
    """The premises without evidence: that the dtype is half, and that the numbers are past what it counts."""
    if announced:
        return (Premise.HALF_ALIKE, Premise.MANY if SIDES in event.result.traits else Premise.LONG)
    operands = (operand.value.traits for operand in event.operands if isinstance(operand.value, Tensor))
    known = event.result.traits.union(*operands)
    if event.op in {"sin", "cos", *LOWER} or any(PAST[dtype] in known for dtype in half.dtypes):
        return ()
    return (Premise.LONG if event.op in ("arange", "linspace") else Premise.MANY,)


def _lost(event: Operation) -> Evidence | None:
    """The evidence for rounding integers, or angles computed from them, to half here."""
    traits = [operand.value.traits if isinstance(operand.value, Tensor) else () for operand in event.operands]
    were_half = any(operand.half is not None and operand.dtype in HALF_DTYPES for operand in event.operands)
    rounded = event.result.dtype in HALF_DTYPES and not were_half
    whole = any(INTEGERS in known for known in traits)
    if event.op in ("arange", "linspace") or (event.op == "to" and whole):
        announced = event.becomes is not None and event.becomes.because is Because.ANNOUNCED
        wanted = COORDINATES if announced else INTEGERS if rounded or (event.assumed and event.op != "to") else None
        few = SIDES in event.result.traits and event.becomes is not None and event.becomes.dtypes == {"float16"}
        few = few or (USUALLY_FEW in event.result.traits and event.op != "to")
        return event.becomes if wanted in event.result.traits and not few else None
    if event.op in LOWER and whole:
        return event.becomes if rounded else None
    if event.op in ("sin", "cos") and ANGLES in traits[0] and event.operands[0].dtype in (*HALF_DTYPES, FROM_PARAMETER):
        return event.operands[0].half
    return None
