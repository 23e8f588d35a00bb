"""The passes of the conversion, each on the result of the previous one."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import replace

from amplint.codemods.apex.availability import unguard
from amplint.codemods.apex.forward import enter_autocast
from amplint.codemods.apex.others import drop_imports, replace_others
from amplint.codemods.apex.pairs import Flags, join_pairs
from amplint.codemods.apex.protocol import Protocol, leave_regions
from amplint.codemods.apex.reach import Reach
from amplint.codemods.apex.setup import Setup, first_scale, setups
from amplint.codemods.apex.start import scaler_made, start_edits
from amplint.codemods.apex.uses import AMP, FP16_UTILS, aliases, is_of_amp, uses
from amplint.codemods.conditions import drop_empty, empty_conditions
from amplint.codemods.conversion import Plan, Remark, Wish
from amplint.codemods.editing import Passes, edited, remarks_on
from amplint.codemods.rows import rewritten, tidied
from amplint.edits.checkpoint_files import IMPORTS
from amplint.fixes.imports import add_imports
from amplint.training.refusal import Refusal
from amplint.training.script import Script

_REPAIRS = (
        "bce-in-autocast", "clip-without-unscale", "constant-overflows-half", "constant-vanishes-in-half",
        "cross-entropy-keeps-half", "evaluation-dtype-differs", "infinity-in-half", "loss-in-half",
        "scaler-not-checkpointed", "scheduler-after-skipped-step", "square-overflows-half",
)  # fmt: skip
"""The rules whose fixes complete the conversion: for regions and scaler, and for operations apex ran in float32."""
_WITHOUT_IMPORT = re.compile(r"^[^#\n]*?\b(amp\.(?:initialize|scale_loss|master_params))\(", re.MULTILINE)


def plan(text: str, wish: Wish, path: str) -> Plan:
    """Remove `apex.amp` from the text as a whole; refuse if a part of it is not understood."""
    orphan = _WITHOUT_IMPORT.search(text) if "apex" not in text else None
    if "apex" not in text and orphan is None:
        return Plan()
    try:
        script = Script(text, path)
        if orphan is not None:
            row = text.count("\n", 0, orphan.start(1)) + 1
            raise Refusal(row, f"{orphan.group(1)} is called here, and nothing in this file imports amp from apex")
        if not any(map(is_of_amp, (*aliases(script).values(), *(use.name for use in uses(script))))):
            return Plan()
        if wish.dtype != "float16":
            raise Refusal(1, "apex computes in float16: convert from apex first, then from float16 to bfloat16")
        new, remarks = _converted(script, wish)
    except Refusal as refusal:
        return Plan(refused=remarks_on(refusal, script))
    change = rewritten(text, tidied(text, new), "Use torch.autocast and torch.amp.GradScaler", remarks)
    return Plan((change,) if change is not None else (), repairs=_REPAIRS)


def _converted(original: Script, wish: Wish) -> tuple[str, list[Remark]]:
    """The new text, and remarks with rows of the old one."""
    passes = Passes(original)
    remarks: list[Remark] = []

    def note(new: Iterable[Remark]) -> None:
        remarks.extend(replace(remark, row=passes.row(remark.row)) for remark in new)

    with passes.mapped_refusals():
        passes.script = unguard(original)
        begun = first_scale(passes.script, uses(passes.script))
        if begun is not None:
            passes.script = edited(passes.script, [begun[1]])
        script = passes.script
        every = uses(script)
        calls = setups(script, every)
        if begun is not None and calls:
            calls[0] = replace(calls[0], scale=begun[0])
        if not calls:
            _without_setup(script)
            return _only_imported(script), remarks
        note(remark for setup in calls for remark in setup.remarks)
        _alike(script, calls)
        empty = empty_conditions(original)
        reach = Reach(script, calls)
        on = not calls[0].off
        training = on and reach.has_scaler
        protocol = Protocol(script, reach, every, on=training)
        edits = protocol.edits()
        note(protocol.remarks())
        if training:
            _check_optimizers(protocol, calls)
        scaler = reach.scaler if training else ""
        for index, setup in enumerate(calls):
            made = scaler_made(setup, scaler, wish) if training and index == 0 else None
            edits += start_edits(script, calls, setup, made, protocol.made_at)
        passes.script = edited(script, edits)
        passes.script = drop_imports(edited(passes.script, leave_regions(passes.script)))
        flags = Flags(calls[0].flags, calls[0].switches, calls[0].scope)
        passes.script = join_pairs(passes.script, reach, flags, scaler)
        script, more = replace_others(passes.script)
        note(more)
        passes.script = script
        passes.script = drop_empty(drop_imports(script), empty)
        _refuse_remaining_amp(passes.script)
        if on:
            passes.script = enter_autocast(passes.script, reach, flags, wish, training=training)
    text = passes.script.text
    return add_imports(text, ["import torch", *(IMPORTS if "os.path.exists(" in text else ())]), remarks


def _only_imported(script: Script) -> str:
    """The text without unused imports."""
    script = drop_imports(script)
    _refuse_remaining_amp(script)
    return script.text


def _without_setup(script: Script) -> None:
    for use in uses(script):
        if use.name.startswith(f"{FP16_UTILS}."):
            raise Refusal(script.row(use.node), f"PyTorch has nothing that {use.name} could become")
        if use.name.startswith(f"{AMP}."):
            raise Refusal(script.row(use.node), "amp.initialize is not called in this file")


def _alike(script: Script, calls: list[Setup]) -> None:
    """Raise Refusal if one scaler cannot serve all calls of `amp.initialize`."""
    first = calls[0]
    for setup in (one for one in calls[1:] if one.optimizers):
        if (setup.scope, setup.flags, setup.off) != (first.scope, first.flags, first.off):
            raise Refusal(script.row(setup.call), "amp.initialize is called in different ways in several places")
        together = script.statement(setup.call) in script.rewrite.block_of(first.call)
        if not together and (setup.choice is None or setup.choice is not first.choice):
            raise Refusal(script.row(setup.call), "amp.initialize is called in several branches")


def _check_optimizers(protocol: Protocol, calls: list[Setup]) -> None:
    """Raise Refusal if an optimizer gets no scaled gradients, or is stepped in unseen code."""
    script, reach = protocol.script, protocol.reach
    row = script.row(calls[0].call)
    if not protocol.scaled:
        raise Refusal(row, "this file never scales a loss with amp.scale_loss")
    stepped = {script.text_of(optimizer) for optimizer in protocol.steps().values()}
    for setup in calls:
        for target, given in setup.optimizers:
            if not any(reach.one_optimizer or text in (target, given) for text in stepped):
                raise Refusal(script.row(setup.call), f"the step of {target} is not in this file")


def _refuse_remaining_amp(script: Script) -> None:
    """Raise Refusal if a use of apex for mixed precision remains, or an import of it cannot be removed."""
    left = next(filter(is_of_amp, aliases(script).values()), None)
    if left is not None:
        raise Refusal(1, f"the import of {left} cannot be removed")
