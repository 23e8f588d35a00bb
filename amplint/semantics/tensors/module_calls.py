"""Calls of `torch.nn` objects: the parts of a `Sequential`, and one of several modules that a script chooses."""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping
from dataclasses import replace

from amplint.semantics.python import calls
from amplint.semantics.python.machine import Machine
from amplint.semantics.python.tracker import Call, Tracker
from amplint.semantics.tensors.layers import call_layer, of_unseen_layer
from amplint.semantics.values.arguments import Argument, Arguments
from amplint.semantics.values.choices import choice_of
from amplint.semantics.values.facts import NOTHING
from amplint.semantics.values.state import State
from amplint.semantics.values.values import Instance, Module, Ref, Several, Value


class ModuleCalls(Tracker):
    """Runs `torch.nn` objects. `option` is the one that runs as one of several, None outside of such a call."""

    def __init__(self, machine: Machine) -> None:
        super().__init__(machine)
        self.option: Module | None = None

    def callables(self) -> Mapping[type, Callable[[State, Call], Value]]:
        """Modules, and choices among them."""
        return {Module: self._call, Several: self._call_several}

    def describe(self, state: State) -> Mapping[str, object]:
        """The class of the module that runs as one of several."""
        return {"option": self.option.cls.rpartition(".")[2] if self.option is not None else ""}

    def _call(self, state: State, made: Call) -> Value:
        assert isinstance(made.callee, Module)
        if not made.callee.parts or not made.arguments.given:
            return call_layer(self.machine, state, made.node, made.callee, made.arguments)
        first = made.arguments.given[0]
        value = first.value
        for part in made.callee.parts:
            inner = replace(made, callee=part, arguments=Arguments((Argument(first.node, value, None, ""),)))
            if isinstance(part, Instance):
                value = calls.call_instance(self.machine, state, inner, part)
            elif isinstance(part, Module):
                value = self._call(state, inner)
            else:
                value = of_unseen_layer(self.machine, state, made.node, made.callee, inner.arguments)
        return value

    def _call_several(self, state: State, made: Call) -> Value:
        """Call each of the modules, or of their classes, and an unseen callee if it may be something else, too."""
        callee = made.callee
        assert isinstance(callee, Several)
        results: list[Value] = []
        outer, assumed = self.option, self.machine.assumed(state)
        possible = [one for one in callee.options if all(assumed.get(key) in (None, fact) for key, fact in one.facts)]
        for option in possible:
            twin = state.copy()
            twin.facts = {**state.facts, **dict(option.facts)}
            run = replace(made, callee=option.value)
            if isinstance(option.value, Ref):
                results.append(calls.library(self.machine, twin, run, option.value.name))
            else:
                assert isinstance(option.value, Module)
                self.option = option.value
                results.append(self._call(twin, run))
                self.option = outer
        if callee.open or not results:
            results.append(calls.unseen(self.machine, state, made))
        if not any(isinstance(result, Module) for result in results):
            return functools.reduce(self.machine.joined_value, results)
        facts = [*(dict(one.facts) for one in possible), *[NOTHING] * (len(results) - len(possible))]
        return choice_of(self.machine.fresh(), results, facts) or results[-1]
