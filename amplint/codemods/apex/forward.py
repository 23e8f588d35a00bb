"""The autocast regions of a script that apex no longer patches."""

from __future__ import annotations

from amplint.codemods.apex.pairs import Flags
from amplint.codemods.apex.passes import Passes, Stretch
from amplint.codemods.apex.reach import Reach
from amplint.codemods.conversion import Wish
from amplint.codemods.refusal import Refusal, required
from amplint.codemods.scopes import Scope
from amplint.codemods.script import Script
from amplint.findings import Edit
from amplint.source import syntax as cst


def enter_autocast(script: Script, reach: Reach, flags: Flags, wish: Wish, *, training: bool) -> Script:
    """The script with its forward passes under autocast. Raises Refusal where those of a loss are not in sight."""

    def known(scope: Scope) -> bool:
        return _header(reach, flags, wish, scope, training=False) is not None

    passes = Passes(script, lambda scope, text: reach.objects.means(scope, text, "model"))
    regions: dict[cst.BaseStatement, Stretch] = {}
    for backward in passes.backwards if training else ():
        if not _scaled(script, backward, reach.scaler):
            continue
        region = passes.training(backward)
        if region is None:
            raise Refusal(script.row(backward), "the forward pass that this loss comes from is not in this file")
        regions.setdefault(region.first, region)
    for region in passes.evaluations(known):
        if not any(_overlap(script, region, other) for other in regions.values()):
            regions[region.first] = region
    if not regions:
        raise Refusal(1, "no forward pass of a model is in sight")
    edits: list[Edit] = []
    ordered = sorted(regions.values(), key=lambda region: script.row(region.first))
    for region in ordered:
        header = _header(reach, flags, wish, region.scope, training=region.training)
        if header is None:
            raise Refusal(script.row(region.first), "whether mixed precision is on cannot be told here")
        block = list(script.block_of(region.first))
        statements = block[block.index(region.first) : block.index(region.last) + 1]
        edits += required(script.rewrite.wrap_statements(statements, header), region.first)
    return script.apply(edits)


def _scaled(script: Script, backward: cst.Call, scaler: str) -> bool:
    """Whether a backward pass runs on a scaled loss, perhaps by the name of one."""
    loss = backward.func.value if isinstance(backward.func, cst.Attribute) else backward
    if f"{scaler}.scale(" in script.text_of(loss):
        return True
    named = f"{script.text_of(loss)} = {scaler}.scale("
    return any(script.text_of(each).startswith(named) for each in script.rewrite.block_of(backward))


def _overlap(script: Script, one: Stretch, other: Stretch) -> bool:
    first, last = script.rows(one.first)[0], script.rows(one.last)[1]
    start, end = script.rows(other.first)[0], script.rows(other.last)[1]
    return first <= end and start <= last


def _header(reach: Reach, flags: Flags, wish: Wish, scope: Scope, *, training: bool) -> str | None:
    """The header of a region in the function `scope`, None where nothing there tells whether it should be on."""
    device = '"cpu", dtype=torch.float16' if wish.device == "cpu" else '"cuda"'
    if not flags.texts:
        return f"with torch.autocast({device})"
    same = all(reach.same_flag(text, flags.home, scope) for text in flags.texts)
    scaler = reach.scaler_in(scope) if reach.has_scaler else None
    plain = len(flags.texts) == 1 and flags.switches == flags.texts and "!=" not in flags.texts[0]
    if scaler is not None and not (same and (plain or not training)):
        return f"with torch.autocast({device}, enabled={scaler}.is_enabled())"
    return f"with torch.autocast({device}, enabled={' and '.join(flags.switches)})" if same else None
