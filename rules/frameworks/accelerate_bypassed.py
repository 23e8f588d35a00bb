"""AMP705."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from amplint.findings import Applicability, Fix, Severity
from amplint.rule import Report, Rule
from amplint.semantics.events import Bypassed, ClipFollowed, ClippedTooEarly, Event, ScriptEnd
from amplint.source import syntax as cst
from amplint.torchlib.frameworks import INSTEAD, TITLES

if TYPE_CHECKING:
    from amplint.source.rewrite import Rewriter

PREPARES = {"accelerate": "accelerator.prepare()", "fabric": "fabric.setup()"}
CLIPPING = {"parameters", "max_norm", "norm_type", "clip_value"}


class AccelerateBypassed(Rule):
    """A plain `backward()`, `clip_grad_norm_()` or `step()` goes past Accelerate, Fabric or Lightning.

    ## Why is this bad?
    These frameworks own the loss scaler: `accelerator.backward(loss)` scales the loss, `accelerator.clip_grad_norm_`
    unscales the gradients before it clips them, and the step of a prepared optimizer divides them by the scale. After
    a plain `loss.backward()` that step raises (`Attempted step but _scale is None`), or divides gradients that never
    carried the scale; plain clipping compares gradients that still carry it with the limit. Accumulation over
    micro-batches, DeepSpeed and FSDP rely on these calls too, and Fabric raises `RuntimeError`. The precision is often
    chosen at the launch of a script, outside of it.

    An optimizer that was not prepared steps the gradients of `accelerator.backward(loss)` with the loss scale in them,
    65536 times too long, and on every micro-batch. Clipping by the framework does not unscale them either.

    With automatic optimization, Lightning runs the backward pass behind `training_step`. What that method clips, or a
    function that it calls, are the gradients of the batch before, or, where micro-batches add up, a sum that is not
    whole yet; after a step there are none. Those that the optimizer gets are clipped by
    `Trainer(gradient_clip_val=...)`, or in `configure_gradient_clipping`.

    ## Example
    ```python
    accelerator = Accelerator(mixed_precision="fp16")
    model, optimizer, loader = accelerator.prepare(model, optimizer, loader)
    for inputs, targets in loader:
        loss = criterion(model(inputs), targets)
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
    ```

    ## Use instead
    ```python
    for inputs, targets in loader:
        loss = criterion(model(inputs), targets)
        accelerator.backward(loss)
        accelerator.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
    ```
    Nothing is reported where the script itself asks for float32 or bfloat16 and accumulates nothing, or of clipping
    that another backward pass follows instead of a step. A step of an optimizer that was not prepared is an info where
    the script leaves the precision open.

    ## Fix safety
    The framework's call takes the place of PyTorch's. It is unsafe where the framework accumulates micro-batches: its
    `backward` also divides the loss, which the script may do itself. Not written automatically are Fabric's clipping,
    and several calls that clip: `accelerator.clip_grad_norm_` unscales the gradients of all optimizers, which a second
    call before the step must not do again.

    ## References
    - <https://huggingface.co/docs/accelerate/basic_tutorials/migration>
    - <https://lightning.ai/docs/fabric/stable/fundamentals/convert.html>
    - <https://lightning.ai/docs/pytorch/stable/model/manual_optimization.html>
    """

    code = "AMP705"
    name = "accelerate-bypassed"
    severity = Severity.ERROR
    only_numbers = True
    screen = (
        (b"ccelerator", b"Fabric", b"automatic_optimization", b"training_step"),
        (b"backward(", b"clip", b".grad"),
    )
    fixable = Applicability.SAFE
    reason = "The framework scales the loss and unscales the gradients; a call that goes past it meets the wrong scale."

    def __init__(self) -> None:
        self._clips: dict[cst.CSTNode, Bypassed] = {}
        self._order: dict[cst.CSTNode, bool] = {}

    def on_clip_followed(self, event: ClipFollowed) -> Iterator[Report]:
        self._order[event.node] = event.used or self._order.get(event.node, False)
        yield from ()

    def on_bypassed(self, event: Bypassed) -> Iterator[Report]:
        if event.call == "step":
            title = TITLES[event.manager.kind]
            yield self.report(
                event,
                f"this optimizer steps gradients that carry the loss scale of {title}, which has not prepared it",
                reason="Only the step of a prepared optimizer divides gradients by the scale.",
                advice=f"Step what {PREPARES[event.manager.kind]} returns for the optimizer.",
                notes=[(event.step, "the loss is scaled here")],
            )
        elif event.call == "backward":
            yield from self._bypass(event)
        else:
            self._clips.setdefault(event.node, event)

    def on_clipped_too_early(self, event: ClippedTooEarly) -> Iterator[Report]:
        yield self.report(
            event,
            "gradients are clipped in training_step, and Lightning runs the backward pass after it",
            reason="No gradient that the optimizer gets has been clipped.",
            advice="Give the Trainer gradient_clip_val, or clip in configure_gradient_clipping.",
            notes=[(event.clip, "the gradients change here")] if event.clip is not event.node else [],
        )

    def on_script_end(self, event: ScriptEnd) -> Iterator[Report]:
        self._clips = {node: clip for node, clip in self._clips.items() if self._order.get(node, True)}
        for clip in self._clips.values():
            yield from self._bypass(clip)

    def _is_one_of_several(self, event: Bypassed) -> bool:
        """Whether more than one call clips: Accelerate's clipping unscales all gradients, once a step."""
        managed = [clip for clip in self._clips.values() if clip.manager == event.manager]
        return event.manager.kind == "accelerate" and (len(managed) > 1 or bool(event.clips))

    def _bypass(self, event: Bypassed) -> Iterator[Report]:
        manager, clips = event.manager, event.call != "backward"
        unscaled = manager.precision == "float32" or (manager.precision == "bfloat16" and manager.kind == "accelerate")
        instead = INSTEAD[manager.kind].get(event.call)
        if instead is None or (unscaled and (clips or not manager.accumulates)):
            return
        what = f"{event.call} runs on gradients of" if clips else "backward() goes past"
        steps = [] if clips else event.steps_from(event.node)
        rest = ", which may still carry its loss scale" if clips else ", which steps this optimizer"
        advice = f"Write {instead}."
        if clips and self._is_one_of_several(event):
            advice = "Call accelerator.unscale_gradients() once, before the first of the calls that clip."
            if event.clips:
                advice = f"Let one call of {instead} clip them all: a second one unscales what is unscaled."
        severity = Severity.WARNING if event.reads else None
        yield self.report(event, f"{what} {TITLES[manager.kind]}{rest}", advice=advice, notes=steps, severity=severity)

    def fix(self, event: Event, rewrite: Rewriter) -> Fix | None:
        if not isinstance(event, Bypassed) or event.call == "step":
            return None
        call, manager = event.node, event.manager
        if not isinstance(call, cst.Call) or event.spelled is None or not rewrite.same_function(call, event.step):
            return None
        if event.call != "backward":
            named = {argument.keyword.value for argument in call.args if argument.keyword is not None}
            known = manager.kind == "accelerate" and named <= CLIPPING and (event.synced or not manager.accumulates)
            parts = rewrite.is_in_loop_without(call, "step")
            known = known and not (parts or self._is_one_of_several(event))
            edit = rewrite.replace(call.func, f"{event.spelled}.{event.call}")
            return Fix("Let the Accelerator clip", (edit,)) if known else None
        if not isinstance(call.func, cst.Attribute) or any(argument.star for argument in call.args):
            return None
        given = ", ".join(rewrite.text(node) for node in (call.func.value, *call.args))
        method = "manual_backward" if manager.kind == "lightning" else "backward"
        safe = Applicability.UNSAFE if manager.accumulates else Applicability.SAFE
        return Fix(
            "Let the framework run backward", (rewrite.replace(call, f"{event.spelled}.{method}({given})"),), safe
        )
