"""Models whose forward pass certainly returns one tensor, by their classes."""

from __future__ import annotations

from collections.abc import Iterator

from amplint.semantics.reading.program import Program
from amplint.semantics.reading.scopes import dotted
from amplint.source import syntax as cst
from amplint.source.source import Chunk, Source
from amplint.source.tree import every, target_names
from amplint.torchlib.catalogue import OPERATIONS, operations_with
from amplint.torchlib.policy import MODULE_OPS
from amplint.training.bindings import bound_paths, called_name, constructor
from amplint.training.givers import is_model, models_by_settings, models_given
from amplint.training.operands import constructors
from amplint.training.surroundings import whole_program

_FUNCTIONAL = frozenset({"torch", "F", "nn.functional", "torch.nn.functional"})
_ONE = OPERATIONS.keys() - {"chunk", "split", "tensor_split", "unbind"} - operations_with("indices-too")
_ONE -= operations_with("indices-along") | operations_with("asks") | operations_with("returns")
_LAYERS = frozenset({*(cls for cls, op in MODULE_OPS.items() if op in _ONE), "Sequential"})
_DISPLAYS = (cst.Tuple, cst.List, cst.Dict, cst.ListComp, cst.DictComp)
_DEPTH = 4
"""The number of classes through which a result is followed."""


def gives_one_tensor(main: Source, call: cst.Call) -> bool:
    """Whether each class of the project that `call`, of a model, can run returns one tensor, and there is one."""
    path, program = dotted(call.func) or "", whole_program(main)
    made = (program.resolve(main, name) for name in constructors(main, path))
    models = [(program, one) for one in made if isinstance(one, Chunk) and one.is_class]
    models = models or [one for one in models_given(main, {path.rpartition(".")[2]}) if is_model(one[1])]
    models = models or models_by_settings(main)
    return bool(models) and all(returns_one_tensor(*one) for one in models)


def returns_one_tensor(program: Program, model: Chunk, depth: int = _DEPTH) -> bool:
    """Whether each result of the forward pass of a class is one tensor, by what computes it."""
    forward = next((one for one in every(model.module, cst.FunctionDef) if one.name.value == "forward"), None)
    returns = [one.value for one in every(forward, cst.Return)] if forward is not None else []
    if forward is None or not returns or not depth:
        return False
    judge = _Judge(program, model, forward, depth)
    return all(one is not None and judge.is_tensor(one) for one in returns)


class _Judge:
    """Judges expressions of one forward pass, each variable by the last statement that binds it whole."""

    def __init__(self, program: Program, model: Chunk, forward: cst.FunctionDef, depth: int) -> None:
        self._program = program
        self._model = model
        self._depth = depth
        self._assigns = list(every(forward, cst.Assign))
        self._asked = set[str]()

    def is_tensor(self, node: cst.BaseExpression) -> bool:
        """Whether an expression certainly is a tensor."""
        if isinstance(node, cst.BinaryOperation):
            return self.is_tensor(node.left) or self.is_tensor(node.right)
        if isinstance(node, cst.UnaryOperation):
            return self.is_tensor(node.expression)
        if isinstance(node, cst.IfExp):
            return self.is_tensor(node.body) and self.is_tensor(node.orelse)
        if isinstance(node, cst.Call):
            return self._is_call_of_one(node)
        return isinstance(node, cst.Name) and self._is_variable(node.value)

    def _is_variable(self, name: str) -> bool:
        binding = [one for one in self._assigns if any(name in target_names(each.target) for each in one.targets)]
        if name in self._asked or not binding or name not in bound_paths(binding[-1], whole=True):
            return False
        if any(isinstance(one.value, _DISPLAYS) for one in binding):
            return False
        self._asked.add(name)
        found = self.is_tensor(binding[-1].value)
        self._asked.discard(name)
        return found

    def _is_call_of_one(self, call: cst.Call) -> bool:
        path = dotted(call.func) or ""
        owner, _, name = path.rpartition(".")
        if owner in _FUNCTIONAL:
            return name in _ONE
        if owner == "self":
            made = list(self._made(path))
            return bool(made) and all(map(self._is_layer, made))
        method = isinstance(call.func, cst.Attribute) and "m" in OPERATIONS.get(call.func.attr.value, "")
        return method and called_name(call) in _ONE

    def _made(self, path: str) -> Iterator[cst.BaseExpression]:
        """What the class assigns to a path."""
        for one in every(self._model.module, cst.Assign):
            if path in bound_paths(one, whole=True):
                yield constructor(one.value)

    def _is_layer(self, made: cst.BaseExpression) -> bool:
        """Whether what a call of a class makes returns one tensor when it is called."""
        name = dotted(made.func) if isinstance(made, cst.Call) else None
        target = self._program.resolve(self._model.source, name) if name is not None else None
        if isinstance(target, Chunk):
            return target.is_class and returns_one_tensor(self._program, target, self._depth - 1)
        return called_name(made) in _LAYERS
