"""Code of other files that saves or restores the state of a training file's optimizers."""

from __future__ import annotations

from collections.abc import Iterator, Set
from typing import NamedTuple

from amplint.semantics.reading.scopes import dotted
from amplint.semantics.words import OPTIMIZER_NAME
from amplint.source import syntax as cst
from amplint.source.source import Chunk, Source
from amplint.source.tree import every
from amplint.training.bindings import called_name, matched, positional
from amplint.training.derived import bases_elsewhere
from amplint.training.givers import importers
from amplint.training.script import Script, parsed
from amplint.training.surroundings import whole_program

SAVES, RESTORES = "state_dict", "load_state_dict"


class States(NamedTuple):
    """The `saves` and `restores` of the state of optimizers in a `function` of another file, `script`.

    The training file runs it by the `call`; None for a method that its class inherits.
    """

    script: Script
    function: cst.FunctionDef
    saves: list[cst.Call]
    restores: list[cst.Call]
    call: cst.Call | None = None

    @property
    def names(self) -> list[str]:
        """The parameters of the function."""
        params = (*positional(self.function), *self.function.params.kwonly_params)
        return [one.name.value for one in params]

    @property
    def text(self) -> str:
        """The code of the function."""
        return self.script.text_of(self.function)


def states_given(script: Script) -> Iterator[States]:
    """The functions of other files that the file calls with its optimizers."""
    program = whole_program(script.source)
    for call in script.calls:
        target = program.resolve(script.source, dotted(call.func) or "")
        if not isinstance(target, Chunk) or target.is_class or target.words.isdisjoint((SAVES, RESTORES)):
            continue
        other = parsed(target.source.text, target.source.path)
        function = other.functions.get((target.name or "",)) if target.source is not script.source else None
        if function is not None:
            called = States(other, function, [], [], call)
            given = matched(call, called.names)
            owners = {name for name, one in given if _is_optimizer(name) or _is_optimizer(dotted(one.value) or "")}
            yield from _with_states(called, owners)


def states_inherited(script: Script, owner: cst.ClassDef) -> Iterator[States]:
    """The methods of base classes in other files that save or restore the optimizers of the object."""
    for base in bases_elsewhere(script, owner):
        other = parsed(base.source.text, base.source.path)
        for scope, function in other.functions.items():
            if scope[:-1] == (base.name,):
                owners = {_owner(one) for one in every(function, cst.Call)}
                mine = {one for one in owners if one.startswith("self.") and _is_optimizer(one)}
                yield from _with_states(States(other, function, [], []), mine)


def restored_when_made(script: Script, owner: cst.ClassDef) -> bool:
    """Whether the constructors of base classes in other files restore the state of an optimizer."""
    made = set[str]()
    for base in bases_elsewhere(script, owner):
        for function in every(base.module, cst.FunctionDef):
            if function.name.value == "__init__":
                made |= {called_name(one) for one in every(function, cst.Call)} | {"__init__"}
    return any(states.restores and states.function.name.value in made for states in states_inherited(script, owner))


def restored_by_importers(script: Script) -> Iterator[tuple[Source, cst.Call]]:
    """The calls that restore the state of an optimizer in files that import this one, each with its file."""
    for source in importers(script.source):
        for call in (one for chunk in source.chunks for one in every(chunk.module, cst.Call)):
            if called_name(call) == RESTORES and _is_optimizer(_owner(call)):
                yield source, call


def _with_states(states: States, owners: Set[str]) -> Iterator[States]:
    """`states` with the calls that save or restore the state of one of `owners`, if there are any."""
    calls = [one for one in every(states.function, cst.Call) if _owner(one) in owners]
    saves, restores = ([one for one in calls if called_name(one) == kind] for kind in (SAVES, RESTORES))
    if calls:
        yield states._replace(saves=saves, restores=restores)


def _owner(call: cst.Call) -> str:
    """The object whose state `call` takes or restores; empty for another call."""
    func = call.func if called_name(call) in (SAVES, RESTORES) else None
    return (dotted(func.value) or "") if isinstance(func, cst.Attribute) else ""


def _is_optimizer(name: str) -> bool:
    return OPTIMIZER_NAME.search(name) is not None
