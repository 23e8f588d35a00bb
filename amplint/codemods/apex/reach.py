"""Aliases of the initialised models and optimizers in each function, and the way of the scaler to it."""

from __future__ import annotations

import functools
from collections.abc import Iterable

from amplint.codemods.apex.setup import Setup
from amplint.codemods.apex.uses import names_in
from amplint.source import syntax as cst
from amplint.source.lower import parse_expression
from amplint.training.calls import Calls
from amplint.training.objects import Objects
from amplint.training.refusal import Refusal, required
from amplint.training.scopes import Scope
from amplint.training.script import Script


class Reach:
    """The meaning of expressions that name arguments of `amp.initialize`.

    `scaler` is the name of the new scaler and `home` the function that constructs it. If the optimizer is an attribute
    of `self`, so is the scaler.
    """

    def __init__(self, script: Script, setups: list[Setup]) -> None:
        self.script = script
        self.setups = setups
        self.home = setups[0].scope
        self.objects = Objects(
            script,
            (
                (setup.scope, text, kind)
                for setup in setups
                for kind, pairs in (("model", setup.models), ("optimizer", setup.optimizers))
                for pair in pairs
                for text in pair
            ),
        )
        self.calls = Calls(script, {})
        self.receivers: list[Scope] = []

    @functools.cached_property
    def in_class(self) -> Scope | None:
        """The class of which the scaler is an attribute; None if it is a variable."""
        owner = self.script.class_of(self.home)
        known = (text for scope, text, kind in self.objects.known if scope == owner and kind == "optimizer")
        return owner if owner is not None and any(text.startswith("self.") for text in known) else None

    @functools.cached_property
    def has_scaler(self) -> bool:
        """Whether there is an optimizer, and so a scaler."""
        return any(setup.optimizers for setup in self.setups)

    @functools.cached_property
    def one_optimizer(self) -> bool:
        """Whether all names of an optimizer refer to the same one."""
        return len({pair for setup in self.setups for pair in setup.optimizers}) == 1

    @functools.cached_property
    def scaler(self) -> str:
        """A name for the scaler that is unused in the file."""
        free = self.script.free("scaler", "grad_scaler", "loss_scaler")
        name = required(free, self.setups[0].call, "the file has other scalers already")
        return name if self.in_class is None else f"self.{name}"

    def scaler_in(self, scope: Scope) -> str | None:
        """The expression of the scaler in the function `scope`; None if it is not available."""
        if self.in_class is not None:
            return self.scaler if self.script.class_of(scope) == self.in_class else None
        near = scope[: len(self.home)] == self.home
        return self.scaler if near or any(scope[: len(each)] == each for each in self.receivers) else None

    def need(self, scopes: Iterable[Scope]) -> None:
        """Pass the scaler to these functions, by a parameter if it is not available. Raises Refusal."""
        todo = list(scopes)
        while todo:
            scope = todo.pop()
            if self.scaler_in(scope) is None:
                callers = self._callers(scope)
                self.receivers.append(scope)
                todo += [self.script.scope(call) for call in callers]

    def can_need(self, scope: Scope) -> bool:
        """Pass the scaler to a function if possible; return whether it was."""
        before = list(self.receivers)
        try:
            self.need([scope])
        except Refusal:
            self.receivers = before
        return self.scaler_in(scope) is not None

    def _callers(self, scope: Scope) -> list[cst.Call]:
        """The call sites of the function `scope`, each of which can pass it a scaler. Raises Refusal."""
        function = self.script.functions.get(scope)
        if function is None or self.in_class is not None or len(scope) != 1:
            row = self.script.row(function) if function is not None else self.script.row(self.setups[0].call)
            name = scope[-1] if scope else "the top level"
            raise Refusal(row, f"{name} steps an optimizer that another class or function has handed to amp.initialize")
        name, calls = scope[0], self.calls.callers(function)
        if not calls:
            raise Refusal(function, f"{name} needs the scaler, and not all that calls it is in sight")
        made = self.script.row(self.setups[0].call)
        early = [call for call in calls if self.script.scope(call) == self.home and self.script.row(call) < made]
        if early:
            raise Refusal(self.script.row(early[0]), f"{name} is called before there is a scaler")
        if any(argument.star for call in calls for argument in call.args):
            raise Refusal(self.script.row(calls[0]), f"what {name} is called with is not written out")
        return calls

    def same_flag(self, flag: cst.BaseExpression | str, here: Scope, there: Scope) -> bool:
        """Whether a condition has the same meaning in the functions `here` and `there`."""
        node = parse_expression(flag) if isinstance(flag, str) else flag
        names = names_in(node) - {"self"}
        uses_self = "self" in names_in(node)
        if uses_self and self.script.class_of(here) != self.script.class_of(there):
            return False
        return all(
            self._binder(here, name) == self._binder(there, name) or self._have_common_parameter(here, there, name)
            for name in names
        )

    def _binder(self, scope: Scope, name: str) -> Scope:
        near = (scope[:length] for length in range(len(scope), 0, -1))
        return next((each for each in near if self.script.binds(each, name)), ())

    def _have_common_parameter(self, here: Scope, there: Scope, name: str) -> bool:
        """Whether both functions have a parameter of this name, which then is assumed to be the same value."""
        one, other = self._binder(here, name), self._binder(there, name)
        if not other or name not in self.script.parameters(other):
            return False
        return name in self.script.parameters(one) or (bool(one) and self._passes_variable(one, other, name))

    def _passes_variable(self, one: Scope, other: Scope, name: str) -> bool:
        """Whether `one` passes its variable `name` to the parameter of that name of `other`."""
        return any(
            self.script.bound_parameter(call, argument) == name and self.script.text_of(argument.value) == name
            for call in self.script.calls
            if self.script.target(call) == other and self.script.scope(call) == one
            for argument in call.args
        )
