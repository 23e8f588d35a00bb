"""The scaler's state in checkpoints that code of other files saves and restores."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence

from amplint.codemods import parameters
from amplint.codemods.conversion import Cure, Remark
from amplint.codemods.mending import as_cures
from amplint.codemods.repairs import lint
from amplint.edits.checkpoints import one_for_each_dict, restored, saved
from amplint.findings import Applicability, Edit, Fix
from amplint.semantics.events import Place
from amplint.semantics.reading.scopes import dotted
from amplint.semantics.words import SCALER
from amplint.source import syntax as cst
from amplint.training.bindings import called_name, matched, positional
from amplint.training.script import Script, parsed
from amplint.training.states import RESTORES, SAVES, States, restored_by_importers, states_given, states_inherited

_MESSAGE = "the optimizer's state is {} here, the scaler's is not"
_RULE = "scaler-not-checkpointed"
_Cures = tuple[Cure, ...]


def remarks(text: str, path: str) -> Iterator[Remark]:
    """Remarks on states of the scaler of `text` that other files leave out, each with cures; none if one has none.

    A function first takes the scaler, and saves or restores its state; then the file passes it. What the file saves or
    restores itself comes last, so that no state is saved and not restored.
    """
    script = parsed(text, path)
    made = _made(script)
    found = [(states, _of_function(script, states, made)) for states in states_given(script)] if made else []
    for owner in _owners(script, made):
        found += [(states, _of_method(states, made)) for states in states_inherited(script, owner)]
    if made and not any(states.restores for states, _ in found) and f"{made}.load_state_dict" not in text:
        for source, call in restored_by_importers(script):
            where = os.path.relpath(source.path, os.path.dirname(path))
            yield Remark(1, f"{where}:{source.span(call).start.row}: {_MESSAGE.format('restored')}")
    if any(cures is None for _, cures in found):
        return
    for states, cures in found:
        if cures:
            done, calls = ("saved", states.saves) if states.saves else ("restored", states.restores)
            where = os.path.relpath(states.script.path, os.path.dirname(path))
            row = script.row(states.call) if states.call is not None else 1
            yield Remark(row, f"{where}:{states.script.row(calls[0])}: {_MESSAGE.format(done)}", cures=cures)
    if found and not any(cures for _, cures in found):
        own = (one for one in lint(text, path) if one.name == _RULE and one.elsewhere is None and one.fix is not None)
        for one in own:
            yield Remark(one.span.start.row, f"in the result, {one.message}", cures=as_cures(script.source, one.fix))


def _made(script: Script) -> str:
    """The variable or attribute of the file's scaler; empty unless there is just one."""
    made = [one for one in script.of_kind(cst.Assign) if called_name(one.value) == "GradScaler"]
    paths = {dotted(target.target) or "" for one in made for target in one.targets}
    return paths.pop() if len(paths) == 1 else ""


def _owners(script: Script, made: str) -> list[cst.ClassDef]:
    """The classes of the objects whose attribute the scaler is."""
    functions = [one for one in script.of_kind(cst.FunctionDef) if script.assignments(one, made)]
    owners = map(script.method_owner, functions if made.startswith("self.") else [])
    return [one for one in dict.fromkeys(owners) if one is not None]


def _of_function(script: Script, states: States, made: str) -> _Cures | None:
    """The cures by which a function gets the scaler, empty if it does; None if there are none."""
    call = states.call
    if call is None or not _is_bound(script, made, call):
        return None
    own = next((name for name in states.names if SCALER.search(name)), None)
    if own is None:
        return _with_parameter(states)
    if f"{own}.{SAVES}" not in states.text and f"{own}.{RESTORES}" not in states.text:
        return None
    if any(name == own for name, _ in matched(call, states.names)):
        return ()
    edit = script.rewrite.insert_argument(call, len(call.args), f"{own}={made}")
    return _cures(script, [edit] if edit is not None else [])


def _with_parameter(states: States) -> _Cures | None:
    """The cures by which a function takes the scaler, and saves and restores its state."""
    script, params = states.script, states.function.params
    if not parameters.takes_more(states.function) and (params.star_kwarg is not None or not params.kwonly_params):
        return None
    name = script.fresh("scaler")
    last = [*positional(states.function), *params.kwonly_params][-1]
    text = f"{name}: torch.amp.GradScaler | None = None" if last.annotation is not None else f"{name}=None"
    edits = _edits(states, name, f"{name} is not None")
    return _cures(script, [*edits, parameters.behind(script, last, text)] if edits else [])


def _of_method(states: States, made: str) -> _Cures | None:
    """The cures by which an inherited method saves and restores the state of the object's scaler, empty if it does."""
    if made in states.text:
        return ()
    return _cures(states.script, _edits(states, made, f'hasattr(self, "{made.removeprefix("self.")}")'))


def _edits(states: States, scaler: str, given: str) -> Sequence[Edit]:
    """The edits that save and restore the state of `scaler` beside the optimizer's, under a condition; all or none."""
    rewrite, edits = states.script.rewrite, list[Edit | None]()
    saves, restores = ([Place(one, one, scaler) for one in calls] for calls in (states.saves, states.restores))
    kept = one_for_each_dict(saves, rewrite)
    edits += (saved(one.node, scaler, rewrite, shared=len(kept) < len(saves), given=given) for one in kept)
    kept = one_for_each_dict(restores, rewrite)
    for call in (one.node for one in kept):
        assert isinstance(call, cst.Call)
        shared = len(kept) < len(restores)
        edits += [restored(call, scaler, rewrite, shared=shared, given=given) if call.args else None]
    known = [one for one in edits if one is not None]
    return known if len(known) == len(edits) else []


def _cures(script: Script, edits: Sequence[Edit]) -> _Cures | None:
    fix = Fix("Save and restore the scaler's state", tuple(edits), Applicability.UNSAFE)
    return as_cures(script.source, fix) if edits else None


def _is_bound(script: Script, made: str, call: cst.Call) -> bool:
    """Whether the scaler is bound where `call` runs, in each path."""
    function = script.function_of(call)
    if made.startswith("self."):
        owner = script.method_owner(function)
        return owner in _owners(script, made) and all(
            script.row(one) < script.row(call) for one in script.assignments(function, made)
        )
    while function is not None:
        bound = script.assignments(function, made)
        if bound or script.parameter(function, made) is not None:
            blocks = [block for _, block in script.enclosing_statements(call)]
            above = (one for one in bound if script.row(one) < script.row(call))
            return not bound or any(any(script.block_of(script.statement(one)) is b for b in blocks) for one in above)
        function = script.function_of(function)
    return bool(script.assignments(None, made))
