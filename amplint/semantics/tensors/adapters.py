"""Parameters made in float32 for a layer that is given: adapters of models whose weights can be half."""

from __future__ import annotations

from amplint.semantics.events import ParameterApart
from amplint.semantics.python.machine import Machine
from amplint.semantics.tensors.conversions import home
from amplint.semantics.tensors.provenance import creating_call
from amplint.semantics.tensors.tensors import Tensors
from amplint.semantics.values.state import State
from amplint.semantics.values.values import Tensor
from amplint.source import syntax as cst


def report(machine: Machine, state: State, node: cst.Call, content: Tensor) -> None:
    """Emit a parameter with this content, if a function that says nothing of dtypes makes it for a given layer."""
    made = creating_call(machine, content.symbol)
    layer = machine[Tensors].beside.get(made) if made is not None else None
    source = machine.program.source_of(node)
    function = home(source, node) if source is not None else None
    if made is None or layer is None or source is None or function is None or "dtype" in source.code(function):
        return
    machine.emit(state, ParameterApart, node, made=made, layer=layer, assumed=True)
