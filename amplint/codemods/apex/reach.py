"""Which names mean the initialised models and optimizers in which function, and how the scaler gets there."""

from __future__ import annotations

import functools
from collections.abc import Iterable

from amplint.codemods.apex.setup import Setup
from amplint.codemods.apex.uses import names_in
from amplint.codemods.refusal import Refusal, required
from amplint.codemods.scopes import Scope
from amplint.codemods.script import Script
from amplint.source import syntax as cst
from amplint.source.lower import parse_expression

ROUNDS = 10


class Reach:
    """What the expressions of a script mean that name what `amp.initialize` was called with.

    `scaler` is the name of the new scaler and `home` the function that makes it. Where the optimizer is an attribute of
    `self`, so is the scaler.
    """

    def __init__(self, script: Script, setups: list[Setup]) -> None:
        self.script = script
        self.setups = setups
        self.home = setups[0].scope
        self._known: dict[Scope, dict[str, set[str]]] = {}
        for setup in setups:
            for kind, pairs in (("model", setup.models), ("optimizer", setup.optimizers)):
                for target, given in pairs:
                    self._learn(setup.scope, target, kind)
                    self._learn(setup.scope, given, kind)
        for _ in range(ROUNDS):
            before = sum(len(texts) for texts in self._known.values())
            self._follow()
            if before == sum(len(texts) for texts in self._known.values()):
                break
        self.handed: list[Scope] = []

    @functools.cached_property
    def in_class(self) -> Scope | None:
        """The class whose attribute the scaler is, None where it is a variable."""
        owner = self.script.class_of(self.home)
        known = self._known.get(owner, {}).items() if owner is not None else ()
        return owner if any(text.startswith("self.") and "optimizer" in kinds for text, kinds in known) else None

    @functools.cached_property
    def has_scaler(self) -> bool:
        """Whether there is an optimizer, and so a scaler."""
        return any(setup.optimizers for setup in self.setups)

    @functools.cached_property
    def one_optimizer(self) -> bool:
        """Whether all that means an optimizer means the same one."""
        return sum(len(setup.optimizers) for setup in self.setups) == 1

    @functools.cached_property
    def scaler(self) -> str:
        """A name for the scaler that the file does not use for anything else."""
        free = self.script.free("scaler", "grad_scaler", "loss_scaler")
        name = required(free, self.setups[0].call, "the file has other scalers already")
        return name if self.in_class is None else f"self.{name}"

    def named(self, scope: Scope, kind: str) -> list[str]:
        """The expressions that mean a model, or an optimizer, in the function `scope`, in the order of their setup."""
        found = self._visible(scope).items()
        return [text for text, kinds in found if kind in kinds]

    def means(self, scope: Scope, text: str, kind: str) -> bool:
        """Whether `text` means a model, or an optimizer, in the function `scope`."""
        return kind in self._visible(scope).get(text, ())

    def scaler_in(self, scope: Scope) -> str | None:
        """How the function `scope` spells the scaler, None where it is out of reach."""
        if self.in_class is not None:
            return self.scaler if self.script.class_of(scope) == self.in_class else None
        near = scope[: len(self.home)] == self.home
        return self.scaler if near or any(scope[: len(each)] == each for each in self.handed) else None

    def need(self, scopes: Iterable[Scope]) -> None:
        """Hand the scaler to these functions, by a parameter where it is not in reach. Raises Refusal."""
        todo = list(scopes)
        while todo:
            scope = todo.pop()
            if self.scaler_in(scope) is None:
                callers = self._callers(scope)
                self.handed.append(scope)
                todo += [self.script.scope(call) for call in callers]

    def can_need(self, scope: Scope) -> bool:
        """Hand the scaler to a function if that is possible."""
        before = list(self.handed)
        try:
            self.need([scope])
        except Refusal:
            self.handed = before
        return self.scaler_in(scope) is not None

    def _callers(self, scope: Scope) -> list[cst.Call]:
        """The calls of the function `scope`, each of which can hand it a scaler."""
        function = self.script.functions.get(scope)
        if function is None or self.in_class is not None or len(scope) != 1:
            row = self.script.row(function) if function is not None else self.script.row(self.setups[0].call)
            name = scope[-1] if scope else "the top level"
            raise Refusal(row, f"{name} steps an optimizer that another class or function has handed to amp.initialize")
        name = scope[0]
        mentions = [node for node in self.script.of_kind(cst.Name) if node.value == name]
        called: dict[cst.CSTNode, cst.Call] = {call.func: call for call in self.script.calls}
        calls = [called[node] for node in mentions if node in called]
        others = [node for node in mentions if node not in called and node is not function.name]
        others = [node for node in others if not self._is_attribute(node)]
        if others or not calls:
            at = self.script.row(others[0]) if others else self.script.row(function)
            raise Refusal(at, f"{name} needs the scaler, and not all that calls it is in sight")
        made = self.script.row(self.setups[0].call)
        early = [call for call in calls if self.script.scope(call) == self.home and self.script.row(call) < made]
        if early:
            raise Refusal(self.script.row(early[0]), f"{name} is called before there is a scaler")
        if any(argument.star for call in calls for argument in call.args):
            raise Refusal(self.script.row(calls[0]), f"what {name} is called with is not written out")
        return calls

    def _is_attribute(self, node: cst.Name) -> bool:
        above = self.script.source.parent(node)
        return isinstance(above, cst.Attribute) and above.attr is node

    def calls_of(self, scope: Scope) -> list[cst.Call]:
        """The calls of the top-level function `scope` by its name."""
        return [c for c in self.script.calls if isinstance(c.func, cst.Name) and (c.func.value,) == scope]

    def _learn(self, scope: Scope, text: str, kind: str) -> None:
        owner = self.script.class_of(scope)
        home = owner if owner is not None and text.startswith("self.") else scope
        self._known.setdefault(home, {}).setdefault(text, set()).add(kind)

    def _visible(self, scope: Scope) -> dict[str, set[str]]:
        found: dict[str, set[str]] = {}
        for length in range(len(scope) + 1):
            for text, kinds in self._known.get(scope[:length], {}).items():
                root = text.partition(".")[0]
                inner = (scope[:more] for more in range(length + 1, len(scope) + 1))
                if root == "self" or not any(self.script.binds(each, root) for each in inner):
                    found[text] = kinds
        return found

    def _follow(self) -> None:
        """Learn what the calls of functions in the file and assignments hand on."""
        for call in self.script.calls:
            self._follow_call(call)
        for node in self.script.of_kind(cst.Assign):
            if isinstance(node.value, (cst.Name, cst.Attribute)) and len(node.targets) == 1:
                target = node.targets[0].target
                if isinstance(target, (cst.Name, cst.Attribute)):
                    scope, given = self.script.scope(node), self.script.text_of(node.value)
                    for kind in self._visible(scope).get(given, set()).copy():
                        self._learn(scope, self.script.text_of(target), kind)

    def _follow_call(self, call: cst.Call) -> None:
        scope = self.script.scope(call)
        target = self.script.target(call)
        if target is None:
            return
        names = self.script.parameters(target)
        names = names[1:] if isinstance(call.func, cst.Attribute) else names
        visible = self._visible(scope)
        for index, argument in enumerate(call.args):
            if argument.star:
                return
            name = argument.keyword.value if argument.keyword is not None else None
            if name is None and index < len(names):
                name = names[index]
            if name is not None and isinstance(argument.value, (cst.Name, cst.Attribute)):
                for kind in visible.get(self.script.text_of(argument.value), set()).copy():
                    self._learn(target, name, kind)

    def same_flag(self, flag: cst.BaseExpression | str, here: Scope, there: Scope) -> bool:
        """Whether a condition means in the function `there` what it means in `here`."""
        node = parse_expression(flag) if isinstance(flag, str) else flag
        names = names_in(node) - {"self"}
        uses_self = "self" in names_in(node)
        if uses_self and self.script.class_of(here) != self.script.class_of(there):
            return False
        return all(
            self._binder(here, name) == self._binder(there, name) or self._twins(here, there, name) for name in names
        )

    def _binder(self, scope: Scope, name: str) -> Scope:
        near = (scope[:length] for length in range(len(scope), 0, -1))
        return next((each for each in near if self.script.binds(each, name)), ())

    def _twins(self, here: Scope, there: Scope, name: str) -> bool:
        """Whether both functions have a parameter of this name, which then is taken to be the same thing."""
        one, other = self._binder(here, name), self._binder(there, name)
        if not other or name not in self.script.parameters(other):
            return False
        return name in self.script.parameters(one) or (bool(one) and bool(self._hands_on(one, other, name)))

    def _hands_on(self, one: Scope, other: Scope, name: str) -> list[cst.Call]:
        """The calls by which `one` hands its variable `name` to the parameter of that name of `other`."""
        found = []
        for call in self.calls_of(other):
            if self.script.scope(call) == one:
                names = self.script.parameters(other)
                for index, argument in enumerate(call.args):
                    to = argument.keyword.value if argument.keyword else names[index] if index < len(names) else ""
                    if to == name and self.script.text_of(argument.value) == name:
                        found.append(call)
        return found
