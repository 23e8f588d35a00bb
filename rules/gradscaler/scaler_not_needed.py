"""AMP209."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import TYPE_CHECKING

from amplint.findings import Applicability, Fix, Severity
from amplint.premises import Premise
from amplint.rule import Report, Rule
from amplint.semantics.events import BFLOAT16, Backward, Event, ScalerCreated, ScriptEnd
from amplint.semantics.values.values import FALSE, TRUE
from amplint.source import syntax as cst
from amplint.torchlib.names import SCALER_PARAMETERS, SUCCESSORS

if TYPE_CHECKING:
    from amplint.source.rewrite import Rewriter

_RANGE = "bfloat16 has the range of float32: small gradients do not vanish in it."


class ScalerNotNeeded(Rule):
    """A scaler serves bfloat16 autocast, or nothing at all.

    ## Why is this bad?
    Loss scaling brings gradients into the narrow range of float16. bfloat16 has the range of float32, so nothing is
    gained, while every step multiplies and checks all gradients, waits for the result, and is skipped now and then when
    the scale has grown until something overflows. That goes for a scaler that is on for float16 and for bfloat16, too.
    A scaler that nothing uses only looks as if losses were scaled, and one that is always on scales float32 losses
    where a setting leaves autocast off. That is reported where the rule is selected by its code.

    Where the rule is selected by its code, a scaler that is always on beside a region whose dtype comes from out of
    sight is reported, too, one that a function is given and scales the loss of a bfloat16 region with, and one whose
    flag asks for float16 where no choice in sight is that, so that its calls pass everything through.

    ## Example
    ```python
    scaler = torch.amp.GradScaler("cuda")
    with torch.autocast("cuda", dtype=torch.bfloat16):
        loss = loss_fn(model(inputs), targets)
    ```

    ## Use instead
    ```python
    scaler = torch.amp.GradScaler("cuda", enabled=dtype == torch.float16)
    with torch.autocast("cuda", dtype=dtype):
        loss = loss_fn(model(inputs), targets)
    ```

    ## Fix safety
    Unsafe: steps that the scaler would have skipped are taken, and the gradients lose its rounding. The scaler is
    switched off for good, which makes its calls pass everything through; one that is never used is removed. Where the
    script chooses between float16 and bfloat16 there is no fix.

    ## References
    - <https://docs.pytorch.org/docs/stable/amp.html#gradient-scaling>
    """

    code = "AMP209"
    name = "scaler-not-needed"
    severity = Severity.INFO
    applies_to_bfloat16 = True
    fix_fits_one_dtype = True
    goes_by = ("for_bfloat16",)
    screen = (b"GradScaler",)
    fixable = Applicability.UNSAFE

    def __init__(self) -> None:
        self.made: dict[cst.CSTNode, list[ScalerCreated]] = {}
        self.on: set[cst.CSTNode] = set()
        self.backwards: dict[cst.CSTNode, dict[cst.CSTNode, set[bool]]] = {}
        self.either: set[cst.CSTNode] = set()
        self.unknown: set[cst.CSTNode] = set()
        self.undecided: set[cst.CSTNode] = set()
        self.ruled_out: dict[cst.CSTNode, list[ScalerCreated]] = {}
        self.in_float16 = False
        self.regions: dict[cst.CSTNode, cst.CSTNode] = {}
        self.optional: dict[cst.CSTNode, set[cst.CSTNode | None]] = {}
        """The regions that a setting switches, by the scaler that is always on; None for losses without one."""

    def on_scaler_created(self, event: ScalerCreated) -> Iterator[Report]:
        if event.ruled_out:
            self.ruled_out.setdefault(event.node, []).append(event)
        elif event.scaler.enabled != FALSE:
            self.on.add(event.node)
            if not event.only_float16:
                self.made.setdefault(event.node, []).append(event)
        yield from ()

    def on_backward(self, event: Backward) -> Iterator[Report]:
        self.in_float16 |= any(one.context.is_float16_on_cuda for one in event.regions)
        if event.scaler is not None and event.scaler.created is not None:
            known = self.backwards.setdefault(event.scaler.created, {}).setdefault(event.node, set())
            known |= {True} if event.scales_bfloat16 else set()
            known |= {False} if event.may_scale_float16 else set()
            self.undecided |= set() if event.is_float16 else {event.scaler.created}
            self.unknown |= {event.scaler.created} if event.scales_unknown else set()
            if event.scaler.enabled == TRUE:
                found = {one.context.node if one.optional else None for one in event.regions} or {None}
                self.optional.setdefault(event.scaler.created, set()).update(found)
            if (event.scales_bfloat16 or event.scales_unknown) and (region := _bfloat16_region(event)) is not None:
                self.regions.setdefault(event.scaler.created, region)
        elif event.scaler is not None and event.scaler.enabled != FALSE and event.may_scale_bfloat16:
            yield self.report(
                event,
                "this scaler scales a bfloat16 loss, which needs no scaling",
                reason=_RANGE,
                advice="Pass one that is on for float16 only, or none.",
                premises=(Premise.SCALER_ON,),
            )

    def on_script_end(self, event: ScriptEnd) -> Iterator[Report]:
        for node, off in self.ruled_out.items():
            if (
                node not in self.on
                and not self.in_float16
                and any(one.scaler.symbol in event.index.idle for one in off)
            ):
                yield self.report(
                    replace(off[0], guesses=()),
                    "this scaler is never switched on",
                    reason="Its flag asks for float16, and none of the dtypes that are chosen from is that.",
                    advice="Remove it, or choose float16 where the hardware has no bfloat16.",
                    premises=(Premise.FLOAT16_MEANT,),
                )
        for node, made in self.made.items():
            seen = self.backwards.get(node, {}).values()
            shown = bool(seen) and all(True in known for known in seen)
            either = any(False in known for known in seen)
            named = not either and all(one.for_bfloat16 for one in made)
            float16 = node in self.backwards and node not in self.undecided
            asked = [one for one in made if one.for_bfloat16 or one.also_bfloat16] if not float16 else []
            unnamed = replace(made[0], guesses=())
            notes = [(self.regions[node], "this region can be bfloat16")] if node in self.regions else []
            if all(one.never_read for one in made):
                reason, advice = "No loss is scaled by it.", "Remove it, or scale the loss of a float16 region with it."
                yield self.report(unnamed, "this scaler is never used", reason=reason, advice=advice)
            elif (named or shown) and not event.index.halves:
                yield self.report(
                    unnamed if shown else made[0],
                    f"this scaler {'can serve' if either else 'serves'} bfloat16, which needs no loss scaling",
                    reason=_RANGE,
                    advice="Switch it on for float16 only.",
                    notes=notes,
                )
            elif asked and not event.index.halves:
                self.either.add(node)
                yield self.report(
                    asked[0],
                    "this scaler is made for bfloat16, too, which needs no loss scaling",
                    reason=_RANGE,
                    advice="Make it, or switch it on, for float16 only.",
                )
            elif node in self.unknown and not event.index.halves:
                self.either.add(node)
                yield self.report(
                    unnamed,
                    "this scaler is on whatever dtype the region is given",
                    reason=_RANGE,
                    advice="Switch it on for float16 only: `enabled=dtype == torch.float16`.",
                    notes=notes,
                    premises=(Premise.BFLOAT16_PASSED,),
                )
            elif None not in (switched := self.optional.get(node, {None})) and not event.index.halves:
                self.either.add(node)
                yield self.report(
                    unnamed,
                    "this scaler is on even where a setting leaves autocast off",
                    reason="Float32 losses need no scaling, and steps are skipped where scaled gradients overflow.",
                    advice="Switch it by the same setting: `enabled=...`.",
                    notes=[(region, "this region can be off") for region in switched if region is not None],
                    premises=(Premise.LEFT_OFF,),
                )

    def fix(self, event: Event, rewrite: Rewriter) -> Fix | None:
        if not isinstance(event, ScalerCreated):
            return None
        if event.node in self.either or any(False in known for known in self.backwards.get(event.node, {}).values()):
            return None
        if event.never_read:
            edit, message = rewrite.remove_statement(event.node), "Remove the scaler"
        else:
            position = SCALER_PARAMETERS.index("enabled") - (event.scaler.cls in SUCCESSORS)
            edit = rewrite.set_argument(event.call, "enabled", "False", position)
            message = "Switch the scaler off"
        return Fix(message, (edit,), Applicability.UNSAFE) if edit else None


def _bfloat16_region(event: Backward) -> cst.CSTNode | None:
    """A region of the loss that is bfloat16, or whose dtype comes from out of sight."""
    contexts = (region.context for region in event.regions)
    return next((one.node for one in contexts if one.dtypes is None or one.dtypes == BFLOAT16), None)
