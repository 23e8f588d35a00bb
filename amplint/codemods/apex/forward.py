"""The autocast regions of a script that apex no longer patches."""

from __future__ import annotations

from amplint.codemods.apex.pairs import Flags
from amplint.codemods.apex.reach import Reach
from amplint.codemods.conversion import Wish
from amplint.codemods.editing import edited
from amplint.codemods.writers.gathering import assign_losses, separate_regions
from amplint.codemods.writers.regions import Regions
from amplint.semantics.reading.scopes import dotted
from amplint.source import syntax as cst
from amplint.source.tree import every
from amplint.training.flow import Flow
from amplint.training.observed import Goal, Observed, observe
from amplint.training.refusal import Refusal
from amplint.training.scopes import Scope
from amplint.training.script import Script


def enter_autocast(script: Script, reach: Reach, flags: Flags, wish: Wish, *, training: bool) -> Script:
    """The script with its forward passes under autocast. Raises Refusal if those of a loss are not visible."""

    def header(place: cst.CSTNode, *, training: bool) -> str | None:
        return _header(reach, flags, wish, script.scope(place), training=training)

    def can_be(place: cst.CSTNode) -> bool:
        entered = (one for one in script.source.ancestors(place) if isinstance(one, cst.With))
        inside = any("autocast" in script.text_of(item) for one in entered for item in one.items)
        return not inside and header(place, training=False) is not None

    def known(place: cst.CSTNode) -> str:
        found = header(place, training=not any(place in region.statements for region in regions.evaluation))
        if found is None:
            raise Refusal(place, "whether mixed precision is on cannot be told here")
        return found

    observed = observe(script, Goal.REGIONS)
    _add_scaled(script, observed, reach.scaler if training else "")
    _add_handed(script, observed, reach)
    named = assign_losses(script, observed.losses)
    if named is not None:
        return enter_autocast(edited(script, named.fix.edits), reach, flags, wish, training=training)
    flow = Flow(script, observed)
    regions = Regions(script, observed, flow, can_be)
    for refusal in regions.alone.values():
        raise refusal
    moved = separate_regions(script, flow, regions)
    if moved is not None:
        return enter_autocast(edited(script, moved.fix.edits), reach, flags, wish, training=training)
    regions.shorten()
    if not regions.rows():
        raise Refusal(1, "no forward pass of a model is in sight")
    return edited(script, regions.edits(known))


def _add_scaled(script: Script, observed: Observed, scaler: str) -> None:
    """Replace the losses in `observed` by those that `scaler` scales, and add its steps."""
    observed.losses.clear()
    for call in script.calls:
        name = dotted(call.func)
        if name in (f"{scaler}.step", f"{scaler}.update", f"{scaler}.unscale_"):
            observed.steps[call] = call.func
        elif isinstance(call.func, cst.Attribute) and call.func.attr.value == "backward":
            if call not in observed.backwards:
                observed.backwards.append(call)
            loss = _scaled(script, call.func.value, scaler)
            if loss is not None:
                observed.losses[call] = loss


def _add_handed(script: Script, observed: Observed, reach: Reach) -> None:
    """Add calls on a model whose result is assigned as the forward passes of losses without another one."""
    homes = {script.function_of(loss) for loss in observed.losses.values()}
    homes -= {script.function_of(call) for call in observed.forwards}
    for call in script.calls:
        if script.function_of(call) in homes and isinstance(script.source.parent(call), cst.Assign):
            given = (call.func, *(argument.value for argument in call.args))
            if any(reach.objects.means(script.scope(call), script.text_of(each), "model") for each in given):
                observed.forwards.add(call)


def _scaled(script: Script, loss: cst.BaseExpression, scaler: str) -> cst.BaseExpression | None:
    """The operand that `scaler` scales to `loss`, also where the result has a name."""
    values = [loss]
    for statement in script.rewrite.block_of(loss):
        for assign in every(statement, cst.Assign) if isinstance(statement, cst.SimpleStatementLine) else ():
            if script.text_of(assign.targets[0].target) == script.text_of(loss):
                values.append(assign.value)
    calls = (call for value in values for call in every(value, cst.Call))
    return next((call.args[0].value for call in calls if dotted(call.func) == f"{scaler}.scale"), None)


def _header(reach: Reach, flags: Flags, wish: Wish, scope: Scope, *, training: bool) -> str | None:
    """The header of a region in the function `scope`; None if nothing there says whether it is enabled."""
    device = '"cpu", dtype=torch.float16' if wish.device == "cpu" else '"cuda"'
    if not flags.texts:
        return f"torch.autocast({device})"
    same = all(reach.same_flag(text, flags.home, scope) for text in flags.texts)
    scaler = reach.scaler_in(scope) if reach.has_scaler else None
    plain = len(flags.texts) == 1 and flags.switches == flags.texts and "!=" not in flags.texts[0]
    if scaler is not None and not (same and (plain or not training)):
        return f"torch.autocast({device}, enabled={scaler}.is_enabled())"
    return f"torch.autocast({device}, enabled={' and '.join(flags.switches)})" if same else None
