"""Fixes that compute operations in float32, also in the files that a converted one imports."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace

from amplint.codemods.conversion import Cure, Remark
from amplint.edits.casting import tensor_evidence
from amplint.edits.functions import decorate
from amplint.findings import Applicability, Edit, Finding, Fix, Span
from amplint.fixes.apply import apply_verified
from amplint.semantics.models.half_outputs import is_loss
from amplint.semantics.reading.program import Program
from amplint.semantics.reading.scopes import dotted
from amplint.source import syntax as cst
from amplint.source.rewrite import Rewriter
from amplint.source.source import Chunk, Source
from amplint.source.tree import every, walk
from amplint.torchlib.catalogue import OPERATIONS
from amplint.torchlib.policy import MODULE_OPS
from amplint.training import sigmoids
from amplint.training.bindings import bound_paths, called_name
from amplint.training.floating import is_floating, needless_casts
from amplint.training.halves import ABOUT_HALF
from amplint.training.operands import (
    DECOMPOSITIONS,
    LOWERED,
    PRODUCTS,
    constructors,
    is_layer,
    is_lowered,
    is_off,
    is_refused,
    operands,
)
from amplint.training.results import is_wide, key_of, results_cast
from amplint.training.writes import Write, writes

_WIDENING = ("float", "double")
_ARITHMETIC = (cst.BinaryOperation, cst.UnaryOperation)
_PARTS = (cst.Call, cst.Subscript, cst.Attribute)
_CURED = (*ABOUT_HALF, "bce-in-autocast", "cross-entropy-keeps-half")
"""The rules whose fixes compute something in float32."""


def wrapped_in_float32(
    source: Source, statements: Sequence[cst.CSTNode], given: Iterable[cst.BaseExpression], device: str
) -> Fix | None:
    """The fix that runs adjacent statements in a region that is off, with float32 for what is `given` to them."""
    rewrite = Rewriter(source)
    wrapped = rewrite.wrap_statements(statements, f"with torch.autocast({device}, enabled=False)")
    if wrapped is None:
        return None
    casts = (rewrite.add_float(one) for one in given)
    return Fix("Compute the loss in float32", (*wrapped, *casts), Applicability.UNSAFE, ("import torch",))


def in_float32(
    source: Source, nodes: Iterable[cst.CSTNode], device: str | None, *, of_region: bool = False
) -> Fix | None:
    """The fix that computes the operations `nodes` in float32, those that autocast lowers in regions that are off.

    A variable is what a network is given, which computes in float32 then. None if something else in their statements
    needs autocast, if `device`, the device type as code, is unknown, or if what is cast may be no floating-point
    tensor, unless it is `of_region`: known to come of one.
    """
    rewrite, edits, lowered = Rewriter(source), list[Edit](), list[cst.CSTNode]()
    nodes = list(dict.fromkeys(one for node in nodes for one in (node, *_products_beside(rewrite, node))))
    for node in nodes:
        given = [node] if isinstance(node, (cst.Name, cst.Attribute)) else operands(source, node)
        leaves = [leaf for one in given for leaf in _leaves(source, one)]
        if not leaves or (leaves == [node] and not isinstance(node, (cst.Name, cst.Attribute))):
            return None
        if is_lowered(node) or is_refused(source, node) or node in given:
            statement = rewrite.statement_of(node)
            if not isinstance(statement, cst.SimpleStatementLine):
                return None
            if not is_off(source, statement) and statement not in lowered:
                lowered.append(statement)
                if node not in given and _needs_autocast(source, statement, nodes):
                    return None
        wide = {one for one in leaves if called_name(one) in _WIDENING or any(part in nodes for part in walk(one))}
        if not all(_takes_cast(source, node, one, of_region=of_region) for one in leaves if one not in wide):
            return None
        edits += (rewrite.add_float(one) for one in leaves if one not in wide or node in given)
    if lowered and device is None:
        return None
    wrapped = [wrapped_in_float32(source, group, (), device or "") for group in _adjacent(rewrite, lowered)]
    if None in wrapped:
        return None
    edits += (edit for fix in wrapped if fix is not None for edit in fix.edits)
    imports = ("import torch",) if lowered else ()
    compute = Fix("Compute this in float32", tuple(dict.fromkeys(edits)), Applicability.UNSAFE, imports)
    return compute if edits else None


def _takes_cast(source: Source, node: cst.CSTNode, leaf: cst.BaseExpression, *, of_region: bool) -> bool:
    """Whether `leaf` can be cast for the operation `node`: it is floating, or the operation takes nothing else."""
    floating = is_floating(source, leaf)
    name = called_name(node)
    made = constructors(source, dotted(node.func) or "") if isinstance(node, cst.Call) else set[str]()
    takes_any = name == "numpy" or ((is_loss(name) or is_layer(node)) and not (made and made <= MODULE_OPS.keys()))
    return floating is True or (floating is None and (of_region or not takes_any))


def _leaves(source: Source, node: cst.BaseExpression) -> list[cst.BaseExpression]:
    """The tensors of the arithmetic that `node` is, or itself if it combines no numbers and none certainly is one.

    With a number, as in `1 - p`, the arithmetic rounds in half already: its result is none that can be cast instead.
    """
    if isinstance(node, cst.UnaryOperation):
        return _leaves(source, node.expression)
    if isinstance(node, cst.Call) and len(node.args) == 1 and _is_elementwise(source, node):
        return _leaves(source, node.args[0].value)
    if not isinstance(node, cst.BinaryOperation) or is_lowered(node):
        return [node]
    combined = [*_combined(node)]
    others = [one for one in combined if not isinstance(one, (cst.Integer, cst.Float))]
    if len(others) == 1:
        return others
    names = [one for one in every(node, cst.Name) if _is_tensor(source, one)]
    inner = [one for one in names if not any(isinstance(each, _PARTS) for each in _between(source, one, node))]
    return [*inner] or ([node] if len(others) == len(combined) else [])


def _combined(node: cst.BaseExpression) -> Iterator[cst.BaseExpression]:
    """What arithmetic combines."""
    if isinstance(node, cst.UnaryOperation):
        yield from _combined(node.expression)
    elif isinstance(node, cst.BinaryOperation) and not is_lowered(node):
        yield from _combined(node.left)
        yield from _combined(node.right)
    else:
        yield node


def _between(source: Source, inner: cst.CSTNode, outer: cst.CSTNode) -> Iterator[cst.CSTNode]:
    """The nodes around `inner` within `outer`."""
    for one in source.ancestors(inner):
        if one is outer:
            return
        yield one


def _is_tensor(source: Source, name: cst.Name) -> bool:
    """Whether the function around a variable uses it as only a tensor can be used, arithmetic apart."""
    home = source.function_around(name)
    uses = (one for one in every(home, cst.Name) if one.value == name.value) if home is not None else ()
    return any(tensor_evidence(source, one) for one in uses if not isinstance(source.parent(one), _ARITHMETIC))


def _adjacent(rewrite: Rewriter, statements: list[cst.CSTNode]) -> list[list[cst.CSTNode]]:
    """`statements` in groups of those that follow one another in a block."""
    groups: list[list[cst.CSTNode]] = []
    for one in sorted(statements, key=lambda one: rewrite.span(one).start):
        block: list[cst.CSTNode] = [*rewrite.block_of(one)]
        if groups and groups[-1][-1] in block and block.index(groups[-1][-1]) + 1 == block.index(one):
            groups[-1].append(one)
        else:
            groups.append([one])
    return groups


def _products_beside(rewrite: Rewriter, node: cst.CSTNode) -> Iterator[cst.CSTNode]:
    """The products of matrices in the statement of one."""
    statement = rewrite.statement_of(node) if is_lowered(node) else None
    for one in every(statement, cst.Call, cst.BinaryOperation) if statement is not None else ():
        if is_lowered(one) and not is_layer(one):
            yield one


def _needs_autocast(source: Source, statement: cst.CSTNode, nodes: list[cst.CSTNode]) -> bool:
    """Whether a statement computes something other than `nodes` that cannot run on half and float32 without it."""
    for one in every(statement, cst.Call, cst.BinaryOperation):
        name = called_name(one)
        known = isinstance(one, cst.BinaryOperation) or name in OPERATIONS or name == "coalesce"
        computes = one not in nodes and not is_loss(name) and not _is_elementwise(source, one)
        if computes and (is_lowered(one) or not known):
            return True
    return False


def _is_elementwise(source: Source, node: cst.CSTNode) -> bool:
    """Whether `node` runs a layer that autocast does not lower, such as `self.sigmoid(x)`."""
    made = (
        constructors(source, dotted(node.func) or "") if isinstance(node, cst.Call) and is_layer(node) else set[str]()
    )
    return bool(made) and all(one.lower() in OPERATIONS.keys() - LOWERED for one in made)


def of_finding(source: Source, finding: Finding, device: str | None, *, assumed: bool = False) -> Fix | None:
    """The fix of a finding in the file `source` that leaves float32 as it was, where a region of another one leads.

    Where half is `assumed`, a NumPy array needs evidence that it is floating.
    """
    there = finding.elsewhere or finding
    if finding.name == "constant-overflows-half" and finding.fix and _is_computed(source, finding.fix.edits[0].span):
        return None
    if finding.name == "constant-overflows-half" and not finding.fix:
        return _limited(source, there.span)
    if finding.name == "inplace-or-out-under-autocast" and finding.fix and _is_written(source, there.span):
        return None
    if finding.name == "constant-vanishes-in-half":
        guarded = _guarded(source, there.span)
        casts = (Rewriter(source).add_float(one) for one in guarded)
        return Fix("Compute this in float32", tuple(casts), Applicability.UNSAFE) if guarded else None
    if finding.name == "loss-in-half" and finding.fix is None:
        return in_float32(source, _at(source, [there.span]), None)
    if finding.name == "unsupported-half-op" and finding.fix is not None:
        products = _products_around(source, there.span)
        fix = in_float32(source, products, device) if products else None
        edits = fix.edits if fix is not None else ()
        spans = [one.span for one in edits]
        own = [
            one
            for one in finding.fix.edits
            if not any(one.span.start <= each.start and each.end <= one.span.end for each in spans)
        ]
        return replace(fix or finding.fix, edits=(*edits, *own))
    if finding.name == "bce-in-autocast":
        spans = [there.span, *(note.span for note in finding.notes)]
        calls = (node for node in _at(source, spans) if isinstance(node, cst.Call) and _is_of_losses(source, node))
        return next((fix for call in calls if (fix := in_float32(source, [call], device)) is not None), None)
    if finding.name == "bfloat16-to-numpy":
        return of_array(source, there.span, of_region=finding.elsewhere is None and not assumed)
    return finding.fix


def remark_on(finding: Finding, program: Program, device: str | None) -> Remark:
    """A remark on a finding in a result, the main file of `program`, by rows of that."""
    there, source, where = finding.elsewhere, program.main, "in the result, "
    if there is not None:
        path = os.path.normpath(os.path.join(os.path.dirname(source.path), there.filename))
        source = next((one for one in program.sources if one.path == path), source)
        where = f"{there.filename}:{there.span.start.row}: "
    own = finding.name != "loss-in-half" or finding.fix is None
    half = finding.name in _CURED and (own if there is None else source is not program.main)
    fix = of_finding(source, finding, device) if half else None
    return Remark(finding.span.start.row, f"{where}{finding.message} ({finding.code})", cures=as_cures(source, fix))


def as_cures(source: Source, *fixes: Fix | None) -> tuple[Cure, ...]:
    """The cures that `fixes` of a file are, without absent ones."""
    return tuple(Cure(source.path, source.text, one) for one in fixes if one is not None)


def of_array(source: Source, span: Span, *, of_region: bool) -> Fix | None:
    """The fix that casts the tensor of which the call at `span` makes a NumPy array.

    One that comes `of_region` is cast unless it certainly is not floating.
    """
    calls = (one for one in _at(source, [span]) if isinstance(one, cst.Call) and called_name(one) == "numpy")
    return next((in_float32(source, [one], None, of_region=of_region) for one in calls), None)


def of_product(source: Source, span: Span, device: str | None) -> Fix | None:
    """The fix that computes the product of matrices at `span` in float32."""
    return next((in_float32(source, [one], device) for one in _at(source, [span])), None)


def of_write(source: Source, write: Write, device: str | None) -> Fix | None:
    """The fix that writes into a tensor in its dtype, products in a region that is off; float32 stays as it was."""
    like = write.into if called_name(write.into).endswith("_like") else None
    made_like = next(iter(operands(source, like)), None) if like is not None else None
    rewrite, into = Rewriter(source), source.code(made_like or write.into)
    edits = [rewrite.replace(one, f"{rewrite.operand(one)}.to({into}.dtype)") for one in write.cast]
    statement = rewrite.statement_of(write.node) if called_name(write.node).rstrip("_") in PRODUCTS else None
    off = wrapped_in_float32(source, [statement], (), device) if statement is not None and device and edits else None
    edits += off.edits if off is not None else ()
    imports = off.imports if off is not None else ()
    return Fix("Write in the dtype of the tensor", tuple(edits), Applicability.UNSAFE, imports) if edits else None


def of_rounding(source: Source, write: Write) -> Fix:
    """The fix that makes the tensor which takes float32 like a float32 one."""
    casts = tuple(map(Rewriter(source).add_float, write.cast))
    return Fix("Make the tensor float32", casts, Applicability.UNSAFE)


def of_kernel(source: Source, node: cst.CSTNode, device: str | None) -> Fix | None:
    """The fix that gives the passes of the autograd function in `node` float32, in a region that is off."""
    rewrite, edits = Rewriter(source), list[Edit | None]()
    for method in every(node, cst.FunctionDef):
        kind = {"forward": "custom_fwd", "backward": "custom_bwd"}.get(method.name.value)
        if kind is not None:
            names = [(dotted(one.decorator) or "").rpartition(".")[2] for one in method.decorators]
            static = names in (["staticmethod"], ["staticmethod", "once_differentiable"])
            wide = ", cast_inputs=torch.float32" if kind == "custom_fwd" else ""
            text = f"torch.amp.{kind}(device_type={device}{wide})"
            edits.append(decorate(method, text, rewrite) if static and device is not None else None)
    made = tuple(one for one in edits if one is not None)
    if len(made) != 2 or None in edits:
        return None
    return Fix("Give kernels float32", made, Applicability.UNSAFE, ("import torch",))


def of_sigmoids(chunk: Chunk, device: str | None) -> Fix | None:
    """The fix that computes the sigmoids that a model returns in float32."""
    found = sigmoids.returned(chunk)
    return in_float32(chunk.source, found, device) if found else None


def without_needless_casts(before: str, after: str, path: str) -> str:
    """The text `after` without the casts to float32 that `before` lacks and of which one is enough."""
    source = Source(path, after, path)
    for call in needless_casts(before, source):
        removed, _, why = apply_verified(after, [_without(source, [call])])
        return without_needless_casts(before, removed, path) if why is None and removed != after else after
    return after


def without_wide_casts(before: str, after: str, path: str) -> str:
    """The text `after` without the casts that `before` lacks of calls whose results are float32 by interpretation."""
    source, found = Source(path, after, path), list[cst.Call]()
    results = results_cast(after, path)
    for call in (one for chunk in source.chunks for one in every(chunk.module, cst.Call)) if results else ():
        cast = call.func.value if isinstance(call.func, cst.Attribute) and called_name(call) == "float" else None
        known = results.get(key_of(source, cast)) if cast is not None and source.code(call) not in before else None
        found += [call] if known and all(map(is_wide, known)) else []
    removed, _, why = apply_verified(after, [_without(source, found)] if found else [])
    return removed if why is None else after


def _without(source: Source, casts: Iterable[cst.Call]) -> Fix:
    """The fix that removes calls of `float()`."""
    parts = ((call.func.value, call) for call in casts if isinstance(call.func, cst.Attribute))
    edits = (Edit(Span(source.span(value).end, source.span(call).end), "") for value, call in parts)
    return Fix("Cast once", tuple(edits), Applicability.UNSAFE)


def _products_around(source: Source, span: Span) -> list[cst.CSTNode]:
    """The products of matrices in the function of a decomposition at `span`, which are as coarse as what they get."""
    calls = [one for one in _at(source, [span]) if called_name(one) in DECOMPOSITIONS]
    homes = (one for call in calls for one in source.ancestors(call) if isinstance(one, cst.FunctionDef))
    home = next(homes, None)
    found = every(home, cst.Call, cst.BinaryOperation) if home is not None else ()
    return [one for one in found if is_lowered(one) and not is_layer(one) and not is_off(source, one)]


def _limited(source: Source, span: Span) -> Fix | None:
    """The fix that fills a tensor, `-9e15 * torch.ones_like(scores)`, with the least number of its dtype instead."""
    rewrite = Rewriter(source)
    for number in _at(source, [span]):
        product = source.parent(number)
        beside = product.right if isinstance(product, cst.BinaryOperation) else None
        if beside is None or called_name(beside) != "ones_like" or not source.code(number).startswith("-"):
            continue
        for like in operands(source, beside):
            edit = rewrite.replace(number, f"torch.finfo({rewrite.operand(like)}.dtype).min")
            return Fix("Use the limit of the tensor's dtype", (edit,), Applicability.UNSAFE, ("import torch",))
    return None


def _is_computed(source: Source, span: Span) -> bool:
    """Whether the expression at `span` is a variable that its function computes of tensors."""
    for node in _at(source, [span]):
        home = source.function_around(node)
        given = (one.value for one in every(home, cst.Assign) if dotted(node) in bound_paths(one)) if home else ()
        return isinstance(node, cst.Name) and any(any(every(value, cst.Call)) for value in given)
    return False


def _is_written(source: Source, span: Span) -> bool:
    """Whether the call at `span` writes into its tensor, in whose dtype its operands can be cast."""
    found = (one for chunk in source.chunks_at(span.start.row) for one in writes(chunk))
    return any(one.cast and source.span(one.node) == span for one in found)


def _is_of_losses(source: Source, call: cst.Call) -> bool:
    """Whether `call` is no construction of a loss."""
    return not (called_name(call)[:1].isupper() and len(operands(source, call)) < 2)


def _guarded(source: Source, span: Span) -> list[cst.BaseExpression]:
    """What the number at `span` is to keep from 0, which decides the dtype of their operation."""
    for node in _at(source, [span]):
        above = source.parent(node)
        if isinstance(above, cst.Arg):
            above = source.parent(above)
        if isinstance(above, cst.BinaryOperation):
            return [one for one in (above.left, above.right) if one is not node]
        return operands(source, above) if isinstance(above, cst.Call) and called_name(above) in OPERATIONS else []
    return []


def _at(source: Source, spans: Iterable[Span]) -> Iterator[cst.BaseExpression]:
    """The outermost expressions at `spans`."""
    for span in spans:
        nodes = (node for chunk in source.chunks_at(span.start.row) for node in walk(chunk.module))
        found = next((one for one in nodes if isinstance(one, cst.BaseExpression) and source.span(one) == span), None)
        if found is not None:
            yield found
