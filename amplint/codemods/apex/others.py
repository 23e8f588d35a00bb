"""Uses of apex besides `apex.amp`: replaced by PyTorch's equivalent, else kept with a remark."""

from __future__ import annotations

from collections.abc import Iterator

from amplint.codemods.apex.uses import AMP, FP16_UTILS, TO_FLOAT, aliases, imported, is_guarded, uses
from amplint.codemods.conversion import Remark
from amplint.codemods.editing import edited, without
from amplint.findings import Edit
from amplint.source import syntax as cst
from amplint.source.tree import bound_by
from amplint.training.names import Use
from amplint.training.refusal import Refusal, required
from amplint.training.script import Script

_MODULES = ("apex.parallel", "apex.optimizers", "apex.normalization")
_SUCCESSORS = {
    "apex.parallel.DistributedDataParallel": "torch.nn.parallel.DistributedDataParallel",
    "apex.parallel.distributed.DistributedDataParallel": "torch.nn.parallel.DistributedDataParallel",
    "apex.parallel.convert_syncbn_model": "torch.nn.SyncBatchNorm.convert_sync_batchnorm",
    "apex.parallel.SyncBatchNorm": "torch.nn.SyncBatchNorm",
    "apex.normalization.FusedLayerNorm": "torch.nn.LayerNorm",
    "apex.normalization.fused_layer_norm.FusedLayerNorm": "torch.nn.LayerNorm",
    "apex.optimizers.FusedAdam": "torch.optim.AdamW",
    "apex.optimizers.FusedSGD": "torch.optim.SGD",
}
_TAKES = {
    "torch.nn.parallel.DistributedDataParallel": {"module"},
    "torch.nn.SyncBatchNorm.convert_sync_batchnorm": {"module", "process_group"},
    "torch.nn.SyncBatchNorm": {"num_features", "eps", "momentum", "affine", "track_running_stats", "process_group"},
    "torch.nn.LayerNorm": {"normalized_shape", "eps", "elementwise_affine"},
    "torch.optim.AdamW": {"params", "lr", "betas", "eps", "weight_decay"},
    "torch.optim.SGD": {"params", "lr", "momentum", "dampening", "weight_decay", "nesterov"},
}
_IN_ORDER = {"torch.optim.SGD": 6, "torch.optim.AdamW": 2, "torch.nn.LayerNorm": 3, "torch.nn.SyncBatchNorm": 5}
"""The number of positional arguments with the same meaning in both; one by default."""
_DROPPED = {"delay_allreduce": None, "bias_correction": "True", "adam_w_mode": "True", "set_grad_none": None}
"""Keyword -> the only value with which it can be dropped, None for any."""
_FUSED = ("torch.optim.AdamW", "torch.optim.SGD")


def replace_others(script: Script) -> tuple[Script, list[Remark]]:
    """The script with PyTorch's equivalents, and remarks for review."""
    edits: list[Edit] = []
    remarks: list[Remark] = []
    reported: set[str] = set()
    guarded = _guarded(script)
    for use in uses(script):
        if _root(use.node) in guarded:
            continue
        if use.name == TO_FLOAT and use.call is not None and len(use.call.args) == 1:
            value = use.call.args[0].value
            edits.append(script.rewrite.replace(use.call, f"{script.rewrite.operand(value)}.item()"))
            continue
        if use.name == AMP or use.name.startswith((f"{AMP}.", FP16_UTILS)):
            raise Refusal(script.row(use.node), f"PyTorch has nothing that {use.name} could become")
        if use.name in ("apex", *_MODULES):
            continue
        successor = _SUCCESSORS.get(use.name)
        own = list(_replaced(script, use, successor)) if successor is not None else None
        row = script.row(use.node)
        if own and successor is not None:
            edits += own
            if successor.endswith("DistributedDataParallel") and use.call is not None:
                remarks.append(Remark(row, "unlike apex's, DistributedDataParallel of PyTorch broadcasts buffers"))
        elif use.name not in reported:
            reported.add(use.name)
            remarks.append(Remark(row, f"{use.name} still comes from apex: it has no equal in PyTorch"))
    return edited(script, edits), remarks


def _replaced(script: Script, use: Use, successor: str) -> Iterator[Edit]:
    """The edits of one use, none if its arguments mean something else in PyTorch."""
    call = use.call
    if call is None:
        yield script.rewrite.replace(use.node, successor)
        return
    kept, dropped = [], False
    for index, argument in enumerate(call.args):
        name = argument.keyword.value if argument.keyword is not None else None
        if argument.star or (name is None and index >= _IN_ORDER.get(successor, 1)):
            return
        if name is None or name in _TAKES[successor]:
            kept.append(script.text_of(argument))
            continue
        if name not in _DROPPED or _DROPPED[name] not in (None, script.text_of(argument.value)):
            return
        dropped = True
    names = {argument.keyword.value for argument in call.args if argument.keyword is not None}
    added = ["weight_decay=0.0"] if successor == "torch.optim.AdamW" and "weight_decay" not in names else []
    added += ["fused=True"] if successor in _FUSED else []
    if not dropped and not added:
        yield script.rewrite.replace(use.node, successor)
        return
    first, last = script.rows(call)
    if any("#" in script.lines.line(row) for row in range(first, last)):
        return
    if not dropped:
        yield script.rewrite.replace(use.node, successor)
        edit = script.rewrite.insert_argument(call, len(call.args), ", ".join(added))
        if edit is not None:
            yield edit
        return
    yield script.rewrite.replace(call, f"{successor}({', '.join([*kept, *added])})")


def drop_imports(script: Script) -> Script:
    """The script without unused imports from apex."""
    roots = {_root(use.node) for use in uses(script)}
    known = set(aliases(script))
    edits = []
    for statement in script.of_kind(cst.SimpleStatementLine):
        for small in statement.body:
            bound = {} if is_guarded(script, small) else dict(imported(script, small))
            dead = [name for name in bound if name not in roots]
            named = {item.name.value for item in small.names} if isinstance(small, cst.Global) else set()
            if named and named <= known - roots:
                removal = script.rewrite.remove_statement(statement)
                edits += [removal] if removal is not None else []
            starred = isinstance(small, cst.ImportFrom) and isinstance(small.names, cst.ImportStar)
            if isinstance(small, (cst.Import, cst.ImportFrom)) and dead and (len(dead) == len(bound) or not starred):
                edits += _removals(script, statement, small, dead)
    return edited(script, edits)


def _guarded(script: Script) -> set[str]:
    """The names bound by imports under `try`, which the script can do without."""
    found = (each for each in script.of_kind(cst.Import, cst.ImportFrom) if is_guarded(script, each))
    return {name for statement in found for name, _ in imported(script, statement)}


def _root(node: cst.BaseExpression) -> str:
    while isinstance(node, cst.Attribute):
        node = node.value
    return node.value if isinstance(node, cst.Name) else ""


def _removals(
    script: Script, statement: cst.SimpleStatementLine, small: cst.Import | cst.ImportFrom, dead: list[str]
) -> Iterator[Edit]:
    """The edits that remove the names `dead` from an import, or the whole statement."""
    names = () if isinstance(small.names, cst.ImportStar) else small.names
    gone = [index for index, alias in enumerate(names) if bound_by(alias) in dead]
    if len(gone) < len(names):
        yield from without(script, [script.source.span(alias) for alias in names], gone)
        return
    removal = script.rewrite.remove_statement(statement)
    yield required(removal, script.row(statement), "the import of apex shares its line with others")
