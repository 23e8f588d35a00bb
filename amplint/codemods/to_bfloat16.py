"""`--to bfloat16`: all float16 computation of a file becomes bfloat16, including regions, casts and settings."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from amplint.codemods import bfloat16, cuda_amp
from amplint.codemods.conversion import Change, Plan, Remark, Wish
from amplint.findings import Edit, Fix
from amplint.semantics.reading.scopes import dotted
from amplint.source import syntax as cst
from amplint.source.tree import every, keyword_of
from amplint.torchlib.frameworks import DTYPE_NAMES, LIBRARIES, loop_kind
from amplint.training.names import library_uses
from amplint.training.script import Script
from amplint.training.surroundings import modules

_WORDS = ("half", "float16", "fp16", '"16', "'16", "precision=16")
_DTYPES = ("torch.float16", "torch.half")
_SPELLED = {"16-mixed": "bf16-mixed", "16-true": "bf16-true", "16": "bf16-mixed", "fp16": "bf16"}
_NAMES = frozenset({*DTYPE_NAMES, "float32", "fp32"})
_SETTINGS = (".json", ".yaml", ".yml")
_Found = tuple[Edit, Remark]


def plan(text: str, wish: Wish, path: str) -> Plan:
    """Convert regions and scalers first, then other mentions of float16; what remains is reported."""
    if not any(word in text for word in (*_WORDS, "autocast", "GradScaler")):
        return Plan()
    named = cuda_amp.plan(text, wish, path)
    if named.changes or named.refused:
        return named
    regions = bfloat16.plan(text, wish, path)
    if regions.refused:
        return regions
    if regions.changes:
        changes = [replace(one, left=tuple(_without_half_remarks(one.left))) for one in regions.changes]
        return replace(regions, changes=tuple(changes))
    script = Script(text, path)
    found = [*_casts(script), *_switches(script), *_deepspeed(script)]
    if found:
        fix = Fix("Compute in bfloat16", tuple(edit for edit, _ in found))
        done = sorted(dict.fromkeys(remark for _, remark in found), key=lambda remark: remark.row)
        return Plan((Change(fix, tuple(done)),), repairs=bfloat16.REPAIRS)
    return Plan(left=(*bfloat16.halves(text), *_files(script)))


def _without_half_remarks(remarks: tuple[Remark, ...]) -> Iterator[Remark]:
    """`remarks` without those on code that is converted next."""
    return (remark for remark in remarks if remark.text != bfloat16.STILL)


def _casts(script: Script) -> Iterator[_Found]:
    """`torch.float16`, and `half()` of tensors and modules."""
    for use in library_uses(script, "torch"):
        if use.name in _DTYPES and isinstance(use.node, cst.Attribute) and not _is_chosen(script, use.node):
            edit = script.rewrite.replace(use.node.attr, "bfloat16")
            yield edit, Remark(script.row(use.node), "name bfloat16")
    own = "half" in {function.name.value for function in script.functions.values()}
    for call in script.calls if not own else ():
        halves = isinstance(call.func, cst.Attribute) and call.func.attr.value == "half" and not call.args
        if halves and not _is_chosen(script, call):
            assert isinstance(call.func, cst.Attribute)
            yield script.rewrite.replace(call.func.attr, "bfloat16"), Remark(script.row(call), "cast to bfloat16")


def _is_chosen(script: Script, node: cst.CSTNode) -> bool:
    """Whether the dtype selects a value or a branch: as a key, or as an operand of a comparison in a condition."""
    for above in script.source.ancestors(node):
        names: list[cst.CSTNode] = [above.key] if isinstance(above, cst.DictElement) else []
        if isinstance(above, (cst.If, cst.IfExp)):
            for comparison in every(above.test, cst.Comparison):
                names += [comparison.left, *(target.comparator for target in comparison.comparisons)]
        texts = [str(one.evaluated_value) for one in names if isinstance(one, cst.SimpleString)]
        if not _NAMES.isdisjoint(texts):
            return True
    return False


def _switches(script: Script) -> Iterator[_Found]:
    """The settings of frameworks: `fp16=True`, `precision="16-mixed"`, `mixed_precision="fp16"`."""
    for use in library_uses(script, *LIBRARIES):
        for argument in use.call.args if use.call is not None else ():
            name = keyword_of(argument)
            remark = Remark(script.row(argument), "ask the framework for bfloat16")
            if name == "fp16" and loop_kind(use.name) == "arguments" and dotted(argument.value) == "True":
                assert argument.keyword is not None
                yield script.rewrite.replace(argument.keyword, "bf16"), remark
            elif name in ("precision", "mixed_precision"):
                spelled = script.text_of(argument.value).strip("'\"")
                if spelled in _SPELLED and isinstance(argument.value, (cst.SimpleString, cst.Integer)):
                    yield script.rewrite.replace(argument.value, f'"{_SPELLED[spelled]}"'), remark


def _deepspeed(script: Script) -> Iterator[_Found]:
    """DeepSpeed's `"fp16": {"enabled": ...}` in a dictionary; the other entries are about the loss scale."""
    for element in script.of_kind(cst.DictElement):
        if script.text_of(element.key).strip("'\"") != "fp16" or not isinstance(element.value, cst.Dict):
            continue
        entries = [one for one in element.value.elements if isinstance(one, cst.DictElement)]
        enabled = [one for one in entries if script.text_of(one.key).strip("'\"") == "enabled"]
        if len(enabled) == 1 and len(entries) == len(element.value.elements):
            said = f'{{"enabled": {script.text_of(enabled[0].value)}}}'
            remark = Remark(script.row(element.key), "let DeepSpeed compute in bfloat16")
            yield script.rewrite.replace(element.key, '"bf16"'), remark
            yield script.rewrite.replace(element.value, said), remark


def _files(script: Script) -> Iterator[Remark]:
    """Remarks on configuration files that the script names and that mention float16."""
    for node in script.of_kind(cst.SimpleString):
        name = str(node.evaluated_value)
        if script.path and name.endswith(_SETTINGS):
            place = modules().folders.file(script.path, name)
            raw = (modules().contents.raw(place) or b"") if place is not None else b""
            if b"fp16" in raw or b"float16" in raw:
                yield Remark(script.row(node), f"{name} speaks of float16 as well")
