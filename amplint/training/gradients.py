"""Clipping, measurement and updates of gradients in a script."""

from __future__ import annotations

from collections.abc import Iterator

from amplint.semantics.reading.scopes import MODEL, dotted, kinds
from amplint.semantics.words import CLIPS, PARAMETERS
from amplint.source import syntax as cst
from amplint.source.source import Source
from amplint.source.tree import children, every, walk
from amplint.torchlib.methods import CLEARING
from amplint.training.bindings import bound_paths, called_name
from amplint.training.calls import Calls
from amplint.training.refusal import Refusal
from amplint.training.script import Script

_PARAMETERS = ("weight", "bias")
_COPIED = "gradients are copied from one model to another here, which would have to be unscaled behind that"


def gradient_uses(script: Script, calls: Calls, *, scaled: bool = True) -> list[cst.CSTNode]:
    """The calls that clip, the reads of `grad`, and the calls that do so in other files, in the order of the text.

    Raises Refusal if gradients are `scaled`, for that of a tensor not known to be a parameter of an optimizer.
    """
    own = {name for name, chunk in script.source.definitions.items() if chunk.name == name}
    found = list(_uses(script, own, scaled=scaled))
    for call in script.calls:
        work = _work_elsewhere(script, calls, call)
        if scaled and any(map(_copies, work)):
            raise Refusal(call, _COPIED)
        found += [call] if any(map(_works_on_gradients, work)) else []
    return sorted(dict.fromkeys(found), key=lambda node: script.source.span(node).start)


def _work_elsewhere(script: Script, calls: Calls, call: cst.Call) -> list[cst.CSTNode]:
    """The nodes of the functions of other files that `call` runs."""
    elsewhere = [function for function in calls.runs(call) if not script.source.owns(function)]
    functions = (one for one in (*elsewhere, *calls.reached(elsewhere)) if isinstance(one, cst.FunctionDef))
    found = [node for one in functions for node in _run_by(one)]
    trains = any(isinstance(one, cst.Call) and called_name(one) == "backward" for one in found)
    return [] if trains else found  # a training run of its own


def _run_by(function: cst.FunctionDef) -> Iterator[cst.CSTNode]:
    """The nodes of a function, without those of functions that it defines: defining them runs nothing."""
    waiting = [*children(function.body)]
    while waiting:
        node = waiting.pop()
        yield node
        waiting += children(node) if not isinstance(node, cst.FunctionDef) else ()


def _copies(node: cst.CSTNode) -> bool:
    """Whether `node` gives a parameter the gradient of another."""
    target = node.targets[0].target if isinstance(node, cst.Assign) else None
    if not isinstance(node, cst.Assign) or not isinstance(target, cst.Attribute) or "grad" not in target.attr.value:
        return False
    into = dotted(target.value)
    given = (one for one in every(node.value, cst.Attribute) if _is_gradient(one))
    return into is not None and any(dotted(one.value) not in (None, into) for one in given)


def _works_on_gradients(node: cst.CSTNode) -> bool:
    """Whether `node` clips, or computes with a gradient."""
    if isinstance(node, cst.Call):
        func = node.func
        of_gradient = isinstance(func, cst.Attribute) and _is_gradient(func.value) and func.attr.value not in CLEARING
        return of_gradient or bool(CLIPS.search(called_name(node)))
    if isinstance(node, cst.AugAssign):
        return _is_gradient(node.target)
    if isinstance(node, cst.BinaryOperation):
        return _is_gradient(node.left) or _is_gradient(node.right)
    return isinstance(node, cst.Arg) and _is_gradient(node.value)


def _is_gradient(node: cst.CSTNode) -> bool:
    while isinstance(node, cst.Attribute) and node.attr.value == "data":
        node = node.value
    path = dotted(node) or ""
    return path.endswith(".grad") and not path.startswith(("torch.", "autograd."))


def _uses(script: Script, own: set[str], *, scaled: bool) -> Iterator[cst.CSTNode]:
    for node in script.nodes:
        if scaled and _copies(node):
            raise Refusal(node, _COPIED)
        if isinstance(node, cst.Call):
            name = called_name(node)
            if CLIPS.search(name) and name not in own:
                yield node
        elif isinstance(node, cst.Attribute) and node.attr.value == "grad" and _reads(script.source, node):
            if scaled and not _of_parameter(script.source, node):
                raise Refusal(node, "the gradient of something that is not known to be a parameter is read")
            yield node


def _reads(source: Source, node: cst.Attribute) -> bool:
    """Whether the values of a gradient are read: it is not only compared with None, cleared or assigned."""
    above = source.parent(node)
    path = dotted(node) or ""
    if path.startswith(("torch.", "autograd.")) or isinstance(above, (cst.ComparisonTarget, cst.Comparison)):
        return False
    if isinstance(above, (cst.AssignTarget, cst.ImportAlias)):
        return False
    while isinstance(above, cst.Attribute):
        if above.attr.value in CLEARING:
            return False
        above = source.parent(above)
    return not isinstance(above, (cst.If, cst.BooleanOperation, cst.UnaryOperation)) or above is not source.parent(node)


def _of_parameter(source: Source, node: cst.Attribute) -> bool:
    owner = node.value
    if isinstance(owner, cst.Attribute):
        return owner.attr.value in _PARAMETERS or _is_model(source, dotted(owner.value) or "")
    if isinstance(owner, cst.Subscript):
        return _mentions_parameters(owner.value)
    if not isinstance(owner, cst.Name):
        return False
    for above in source.ancestors(node):
        if isinstance(above, cst.For) and owner.value in bound_paths(above):
            return _mentions_parameters(above.iter)
        for inner in walk(above) if isinstance(above, cst.BaseComp) else ():
            if isinstance(inner, cst.CompFor) and owner.value in bound_paths(inner):
                return _mentions_parameters(inner.iter)
    return False


def _is_model(source: Source, path: str) -> bool:
    """Whether the file uses `path`, or what it is an attribute of, as a model."""
    models = {one for chunk in source.chunks for one, kind in kinds(chunk.module).items() if kind == MODEL}
    return any(f"{path}.".startswith(f"{one}.") for one in models)


def _mentions_parameters(node: cst.CSTNode) -> bool:
    return any(isinstance(inner, cst.Name) and PARAMETERS.search(inner.value) for inner in walk(node))
