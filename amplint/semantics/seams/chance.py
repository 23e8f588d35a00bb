"""Randomness in a segment: reachable dropout layers and random functions."""

from __future__ import annotations

from amplint.semantics.python import attributes
from amplint.semantics.python.definitions import node_of
from amplint.semantics.python.machine import Machine
from amplint.semantics.python.modules import evaluate_silently
from amplint.semantics.reading.scopes import dotted
from amplint.semantics.values.state import State
from amplint.semantics.values.values import Class, Function, Instance, Items, Method, Module, Value
from amplint.source import syntax as cst
from amplint.source.tree import walk
from amplint.torchlib.catalogue import fact_values, operations_with
from amplint.torchlib.policy import words

_LAYERS = frozenset(fact_values("drops").values())
_LAYERS_WITH_DROPOUT = words("Transformer TransformerEncoderLayer TransformerDecoderLayer")
_FUNCTIONS = operations_with("drops") | {"bernoulli", "bernoulli_"}
_DEPTH = 4


def drawn(machine: Machine, state: State, value: Value, depth: int = _DEPTH) -> cst.CSTNode | None:
    """The node that draws random numbers when `value` is called; None if no visible code does."""
    if not depth:
        return None
    if isinstance(value, Module):
        held = [*value.parts, *state.heap.get(value.symbol, {}).values()]
        return _layer(value) or _first(machine, state, held, depth)
    if isinstance(value, Instance):
        forward = attributes.find_method(machine, state, value.cls, "forward")
        own = _in_body(machine, state, forward, value, depth) if forward is not None else None
        return own or _first(machine, state, list(state.heap.get(value.symbol, {}).values()), depth)
    if isinstance(value, Method) and value.function is not None:
        return _in_body(machine, state, value.function, value.owner, depth)
    if isinstance(value, Function):
        return _in_body(machine, state, value, None, depth)
    if isinstance(value, Items):
        return _first(machine, state, list(value.values), depth)
    return None


def _first(machine: Machine, state: State, values: list[Value], depth: int) -> cst.CSTNode | None:
    runs = (value for value in values if isinstance(value, (Module, Instance, Items)))
    found = (drawn(machine, state, value, depth - 1) for value in runs)
    return next((node for node in found if node is not None), None)


def _layer(module: Module) -> cst.CSTNode | None:
    name, made = module.cls.rpartition(".")[2], module.made
    given = made.args if isinstance(made, cst.Call) else ()
    named = [a.value for a in given if a.keyword is None or a.keyword.value == "p"]
    if name in _LAYERS:
        return made if not named or not _is_zero(named[0]) else None
    if name in _LAYERS_WITH_DROPOUT:
        asked = [a.value for a in given if a.keyword is not None and a.keyword.value == "dropout"]
        return made if not asked or not _is_zero(asked[0]) else None
    return None


def _is_zero(node: cst.BaseExpression) -> bool:
    return isinstance(node, (cst.Integer, cst.Float)) and node.evaluated_value == 0


def _in_body(machine: Machine, state: State, function: Function, owner: Value | None, depth: int) -> cst.CSTNode | None:
    body = node_of(function)
    bound: dict[str, Value] = {}
    if owner is not None and isinstance(body, cst.FunctionDef) and body.params.params:
        bound[body.params.params[0].name.value] = owner
    for node in walk(body):
        if not isinstance(node, cst.Call):
            continue
        if (dotted(node.func) or "").rpartition(".")[2] in _FUNCTIONS:
            return node
        called = evaluate_silently(machine, state, function.frame, node.func, bound)
        runs = isinstance(called, (Module, Instance, Function, Method)) and not isinstance(called, Class)
        if runs and (found := drawn(machine, state, called, depth - 1)) is not None:
            return found
    return None
