"""Where a script clips, measures or changes gradients."""

from __future__ import annotations

from collections.abc import Iterator

from amplint.codemods.bindings import bound_paths
from amplint.codemods.refusal import Refusal
from amplint.codemods.script import Script
from amplint.semantics.reading.scopes import dotted
from amplint.semantics.words import CLIPS, PARAMETERS
from amplint.source import syntax as cst
from amplint.source.source import Source
from amplint.source.tree import walk
from amplint.torchlib.methods import CLEARING

_PARAMETERS = ("weight", "bias")


def gradient_uses(script: Script) -> list[cst.CSTNode]:
    """The calls that clip and the attributes `grad` that are read, in the order of the text.

    Raises Refusal for the gradient of what is not known to be a parameter of an optimizer.
    """
    own = {name for name, chunk in script.source.definitions.items() if chunk.name == name}
    return list(_uses(script, own))


def _uses(script: Script, own: set[str]) -> Iterator[cst.CSTNode]:
    for node in script.nodes:
        if isinstance(node, cst.Call):
            name = (dotted(node.func) or "").rpartition(".")[2]
            if CLIPS.search(name) and name not in own:
                yield node
        elif isinstance(node, cst.Attribute) and node.attr.value == "grad" and _reads(script.source, node):
            if not _of_parameter(script.source, node):
                raise Refusal(node, "the gradient of something that is not known to be a parameter is read")
            yield node


def _reads(source: Source, node: cst.Attribute) -> bool:
    """Whether the values of a gradient matter: it is not only compared with None, cleared or given."""
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
        return owner.attr.value in _PARAMETERS
    if not isinstance(owner, cst.Name):
        return False
    for above in source.ancestors(node):
        if isinstance(above, cst.For) and owner.value in bound_paths(above):
            return _mentions_parameters(above.iter)
        for inner in walk(above) if isinstance(above, cst.BaseComp) else ():
            if isinstance(inner, cst.CompFor) and owner.value in bound_paths(inner):
                return _mentions_parameters(inner.iter)
    return False


def _mentions_parameters(node: cst.CSTNode) -> bool:
    return any(isinstance(inner, cst.Name) and PARAMETERS.search(inner.value) for inner in walk(node))
