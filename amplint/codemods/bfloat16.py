"""`--from float16`: float16 autocast becomes bfloat16, which has the range of float32 and needs no scaler."""

from __future__ import annotations

import re
from dataclasses import replace

from amplint.codemods.bfloat16_scalers import KIND, Scalers
from amplint.codemods.conditions import drop_empty, empty_conditions, folded_condition, with_edited_conditions
from amplint.codemods.conversion import Plan, Remark, Wish
from amplint.codemods.editing import Passes, edited, remarks_on
from amplint.codemods.rows import rewritten, row_after, row_before, tidied
from amplint.findings import Edit
from amplint.fixes.imports import remove_stale_imports
from amplint.source import syntax as cst
from amplint.torchlib.names import AUTOCASTS, GRAD_SCALERS, SUCCESSORS
from amplint.training.names import Use, library_uses
from amplint.training.objects import Objects
from amplint.training.refusal import Refusal
from amplint.training.script import Script

_FLOAT16 = ("torch.float16", "torch.half")
_HALVES = re.compile(r"\.half\(\)|\bfloat16\b|torch\.half\b")
_BOTH = re.compile(r"\bbfloat16\b")
STILL = "this still speaks of float16"
_NUMPY = "numpy() refuses bfloat16: it needs float() before it, unless this is float32"
REPAIRS = ("bfloat16-to-numpy", "bfloat16-addend-lost")


def plan(text: str, wish: Wish, path: str) -> Plan:
    """Convert every autocast region of a script to bfloat16 and remove its scalers; refuse if one of them remains."""
    if "autocast" not in text and "GradScaler" not in text:
        return Plan()
    script = Script(text, path)
    try:
        new = _converted(script)
    except Refusal as refusal:
        return Plan(refused=remarks_on(refusal, script))
    new = tidied(text, new)
    change = rewritten(text, new, "Use bfloat16, without a scaler")
    if change is None:
        return Plan()
    return Plan((replace(change, left=_left(text, new, path)),), repairs=REPAIRS)


def _left(text: str, new: str, path: str) -> tuple[Remark, ...]:
    """Remarks on remaining mentions of float16 and on uses that bfloat16 does not support."""
    found = [one for one in halves(new) if one.row == row_after(text, new, row_before(text, new, one.row))]
    script = Script(new, path)
    scopes = {script.scope(use.node) for use in _torch(script)}
    for call in script.calls:
        numpy = isinstance(call.func, cst.Attribute) and call.func.attr.value == "numpy" and not call.args
        if numpy and script.scope(call) in scopes and ".float()" not in script.text_of(call):
            found.append(Remark(script.row(call), _NUMPY))
    return tuple(found)


def halves(text: str) -> list[Remark]:
    """Remarks on the rows whose text mentions float16, and not bfloat16 as well."""
    rows = ((row, line.partition("#")[0]) for row, line in enumerate(text.splitlines(), 1))
    return [Remark(row, STILL) for row, code in rows if _HALVES.search(code) and not _BOTH.search(code)]


def _torch(script: Script) -> list[Use]:
    """The uses of autocast and of scaler classes."""
    return [use for use in library_uses(script, "torch") if use.name in AUTOCASTS or use.name in GRAD_SCALERS]


def _scalers(script: Script) -> Scalers:
    classes = [use for use in _torch(script) if use.name in GRAD_SCALERS]
    return Scalers(script, [use for use in classes if not script.rewrite.names_type(use.node)])


def _converted(script: Script) -> str:
    ours, scalers = _torch(script), _scalers(script)
    old = next((use for use in ours if use.name in SUCCESSORS), None)
    regions = [edit for use in ours if use.name in AUTOCASTS for edit in [_region(script, use)] if edit is not None]
    if not regions and not list(scalers.objects.known):
        return script.text
    if not regions:
        raise Refusal(script.row(ours[0].node), "the float16 region this scaler serves is not in sight")
    _refuse_foreign_scaler(script, scalers)
    if old is not None:
        raise Refusal(script.row(old.node), f"{old.name} is deprecated: convert from cuda-amp first")
    conditions, empty = scalers.conditions(), empty_conditions(script)
    passes = Passes(script)
    with passes.mapped_refusals():
        passes.script = edited(script, regions)
        passes.script = _never_skipped(passes.script)
        scalers = _scalers(passes.script)
        passes.script = edited(passes.script, scalers.edits())
        passes.script = _joined(passes.script, conditions)
        passes.script = drop_empty(passes.script, empty)
        _refuse_remaining_scaler(passes.script, scalers)
    return remove_stale_imports(script.text, passes.script.text)


def _never_skipped(script: Script) -> Script:
    """The script without tests of whether the scaler has skipped a step."""

    def edit_of(script: Script, node: cst.If) -> Edit | None:
        value = _scalers(script).comparison(node.test) if isinstance(node.test, cst.Comparison) else None
        return folded_condition(script, node, taken=value) if value is not None else None

    script = with_edited_conditions(script, edit_of)
    gone = (script.rewrite.remove_statement(node) for node in _scalers(script).readings())
    return edited(script, (edit for edit in gone if edit is not None))


def _region(script: Script, use: Use) -> Edit | None:
    """The edit that converts one region to bfloat16; None if it is bfloat16 already."""
    row = script.row(use.node)
    if use.call is None:
        if script.rewrite.names_type(use.node):
            return None
        raise Refusal(row, "autocast is handed on instead of being called")
    if any(argument.star for argument in use.call.args):
        raise Refusal(row, "what autocast is called with is not written out")
    given = script.rewrite.find_argument(use.call, "dtype", 1)
    if given is not None:
        dtype = script.text_of(given.value)
        if dtype in ("torch.bfloat16", "torch.float32", "torch.float", "None"):
            return None
        if dtype not in _FLOAT16:
            raise Refusal(row, f"which dtype {dtype} is cannot be told")
        return script.rewrite.replace(given.value, "torch.bfloat16")
    device = script.rewrite.find_argument(use.call, "device_type", 0)
    enabled = script.rewrite.find_argument(use.call, "enabled")
    on_cpu = device is not None and script.text_of(device.value).strip("'\"") == "cpu"
    if on_cpu or (enabled is not None and script.text_of(enabled.value) == "False"):
        return None
    return script.rewrite.insert_argument(use.call, 1, "dtype=torch.bfloat16")


def _joined(script: Script, conditions: set[str]) -> Script:
    """The script with one side of each `if` whose sides differed in the scaler alone."""

    def edit_of(script: Script, node: cst.If) -> Edit | None:
        rest = node.orelse.body if isinstance(node.orelse, cst.Else) else None
        same = rest is not None and script.text_of(node.test) in conditions and node.body.deep_equals(rest)
        return folded_condition(script, node, taken=True) if same else None

    return with_edited_conditions(script, edit_of)


def _refuse_foreign_scaler(script: Script, scalers: Scalers) -> None:
    """Raise Refusal if a scaler from elsewhere scales a loss."""
    for call in script.calls:
        func = call.func
        if isinstance(func, cst.Attribute) and not scalers.means(func.value):
            above = script.source.parent(call)
            backward = isinstance(above, cst.Attribute) and above.attr.value == "backward"
            if func.attr.value == "unscale_" or (func.attr.value == "scale" and backward):
                raise Refusal(script.row(call), f"where {script.text_of(func.value)} is made is not in sight")


def _refuse_remaining_scaler(script: Script, scalers: Scalers) -> None:
    """Raise Refusal if a use of the scaler remains."""
    for node in Objects(script, scalers.objects.known).mentions(KIND):
        raise Refusal(script.row(node), f"what {script.text_of(node)} is used for here is not understood")
    for use in _torch(script):
        if use.name in GRAD_SCALERS:
            raise Refusal(script.row(use.node), "a scaler from code out of sight is expected here")
