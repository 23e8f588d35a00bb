"""Parameters and layers made in float32 for a layer that is given: adapters of models whose weights can be half."""

from __future__ import annotations

from amplint.semantics.events import ParameterApart
from amplint.semantics.python.machine import Machine
from amplint.semantics.tensors.owners import layers_sized
from amplint.semantics.tensors.provenance import creating_call
from amplint.semantics.tensors.tensors import Tensors
from amplint.semantics.values.arguments import Arguments
from amplint.semantics.values.state import State
from amplint.semantics.values.values import Tensor
from amplint.source import syntax as cst


def report(machine: Machine, state: State, node: cst.Call, content: Tensor) -> None:
    """Emit a parameter with this content, if a function that says nothing of dtypes makes it for a given layer."""
    made = creating_call(machine, content.symbol)
    layer = machine[Tensors].beside.get(made) if made is not None else None
    if made is not None and layer is not None:
        _emit(machine, state, node, made, layer)


def report_layer(machine: Machine, state: State, node: cst.Call, arguments: Arguments) -> None:
    """Emit a layer that is constructed in a size of another one, which the constructor of a module is given."""
    function = machine.calls[-1] if machine.calls else None
    if isinstance(function, cst.FunctionDef) and function.name.value == "__init__":
        layer = next((name for value in arguments.values for name in layers_sized(machine, value)), None)
        if layer is not None:
            _emit(machine, state, node, node, layer)


def _emit(machine: Machine, state: State, node: cst.Call, made: cst.Call, layer: str) -> None:
    source = machine.program.source_of(node)
    function = source.function_around(node) if source is not None else None
    if source is not None and function is not None and "dtype" not in source.code(function):
        machine.emit(state, ParameterApart, node, made=made, layer=layer, assumed=True)
