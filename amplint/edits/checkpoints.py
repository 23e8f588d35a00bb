"""Edits that save a scaler's state in a checkpoint and restore it."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import TYPE_CHECKING

from amplint.edits.checkpoint_files import IMPORTS, loaded_beside, saved_beside
from amplint.findings import Edit, Fix
from amplint.semantics.events import CheckpointLacksScaler, Place
from amplint.semantics.words import OPTIMIZER_ENTRY
from amplint.source import syntax as cst
from amplint.source.tree import every, keyword_of

if TYPE_CHECKING:
    from amplint.source.rewrite import Rewriter


def add_scaler(event: CheckpointLacksScaler, rewrite: Rewriter) -> Fix | None:
    """Save the scaler's state beside the optimizer's, and restore it after it, if both places are known."""
    if _is_unbound(event, rewrite):
        return None
    saves = [] if event.saved else one_for_each_dict(event.saves, rewrite)
    restores = [*event.restores] if event.saved else one_for_each_dict(event.restores, rewrite)
    shared = not event.saved and len(saves) + len(restores) < len(event.saves) + len(event.restores)
    places = [_saving(event, place, rewrite, shared=shared) for place in saves]
    others = [_restoring(event, place, rewrite, shared=shared) for place in restores]
    saving, restoring = ([edit for edit in edits if edit is not None] for edits in (places, others))
    unsaved = not event.saved and not event.saves
    if len(saving) < len(saves) or unsaved or not (saving or restoring):
        return None
    what = "Save and restore" if saving and restoring else "Save" if saving else "Restore"
    imports = IMPORTS if any("os.path.exists(" in edit.content for edit in restoring) else ()
    return Fix(f"{what} the scaler's state", (*saving, *restoring), imports=imports)


def _saving(event: CheckpointLacksScaler, place: Place, rewrite: Rewriter, *, shared: bool) -> Edit | None:
    if place.scaler is None:
        return None
    return saved(place.node, place.scaler, rewrite, shared=shared, given=_given_if(event, place.scaler, rewrite))


def _restoring(event: CheckpointLacksScaler, place: Place, rewrite: Rewriter, *, shared: bool) -> Edit | None:
    if place.scaler is None or not isinstance(place.node, cst.Call) or not place.node.args:
        return None
    if not (isinstance(place.node.func, cst.Attribute) and place.node.func.attr.value == "load_state_dict"):
        return _given(place.node, place.scaler, rewrite, shared=shared)
    return restored(place.node, place.scaler, rewrite, shared=shared, given=_given_if(event, place.scaler, rewrite))


def _given_if(event: CheckpointLacksScaler, scaler: str, rewrite: Rewriter) -> str:
    """The condition under which there is a scaler; empty if there always is."""
    return f"{scaler} is not None" if event.perhaps_none or _is_asked_for(scaler, rewrite) else ""


def _given(call: cst.Call, scaler: str, rewrite: Rewriter, *, shared: bool) -> Edit | None:
    """`scaler` given beside the optimizer to a call that restores its keyword arguments, by their names."""
    for index, argument in enumerate(call.args):
        name = keyword_of(argument)
        if _renamed(name) != name:
            return rewrite.insert_argument(call, index + 1, f"{'scaler' if shared else _renamed(name)}={scaler}")
    return None


def _is_unbound(event: CheckpointLacksScaler, rewrite: Rewriter) -> bool:
    """Whether the scaler is only made under a condition that does not hold wherever its state is saved or restored.

    Otherwise its name is bound to something else, such as None, or to another scaler.
    """
    made = event.scaler.created
    if made is None or not rewrite.source.owns(made):
        return False
    above = list(rewrite.source.ancestors(made))
    target = next((one.targets[0].target for one in above if isinstance(one, cst.Assign)), None)
    within = above[: next((i for i, one in enumerate(above) if isinstance(one, cst.FunctionDef)), len(above))]
    choices = [one for one in within if isinstance(one, cst.If) and not _is_main_guard(one)]
    if not choices or not isinstance(target, (cst.Name, cst.Attribute)):
        return False
    name = re.escape(rewrite.text(target).rpartition(".")[2])
    bound = re.findall(rf"(?m)(?<![\w(,]){name}\b(?:[ \t]*:[^=\n]+)?[ \t]*=(?!=)", rewrite.source.text)
    places = [place.node for place in (*event.saves, *event.restores)]
    return len(bound) == 1 and not all(choices[0] in rewrite.source.ancestors(one) for one in places)


def _is_main_guard(one: cst.If) -> bool:
    return any(name.value == "__name__" for name in every(one.test, cst.Name))


def _is_asked_for(scaler: str, rewrite: Rewriter) -> bool:
    """Whether the file assigns None to `scaler`, an expression, or tests whether it is None."""
    name = re.escape(scaler.rpartition(".")[2])
    given = rf"\b{name}\b(?:[ \t]*:[^=\n]+)?[ \t]*=[^=\n][^\n]*\bNone\b|\b{name}\b[ \t]*=[ \t]*None\b"
    asked = rf"\b{name}\b[ \t]+is\b|\b(?:if|and|or|not)[ \t]+(?:\w+\.)*{name}\b(?![.(\w])"
    return re.search(f"{given}|{asked}", rewrite.source.text) is not None


def one_for_each_dict(places: Iterable[Place], rewrite: Rewriter) -> list[Place]:
    """The last of `places` in each dict with the optimizer that comes first in its function: these share a scaler."""
    groups: dict[tuple[cst.CSTNode | None, str | None, object], list[Place]] = {}
    for place in places:
        function = rewrite.source.function_around(place.node)
        groups.setdefault((function, place.scaler, _holder(place.node, rewrite)), []).append(place)
    first, kept = dict[object, str](), list[Place]()
    for (home, _, _), group in groups.items():
        owners = [_owner(place.node, rewrite) for place in group]
        kept += [group[-1]] if first.setdefault(home, owners[0]) in owners else []
    return kept


def _holder(node: cst.CSTNode, rewrite: Rewriter) -> object:
    """The dict display that `node` stands in, or the dict that it writes or reads: the expression, since its row."""
    given = node.args[0].value if isinstance(node, cst.Call) and node.args else None
    elements = (one for one in rewrite.source.ancestors(node) if _is_entry(one, rewrite))
    display = rewrite.source.parent(next(elements, node))
    target = display.targets[0].target if isinstance(display, cst.Assign) else given
    if not isinstance(target, cst.Subscript):
        return display
    name, row = rewrite.text(target.value), rewrite.source.span(node).start.row
    assigns = (one for chunk in rewrite.source.chunks for one in every(chunk.module, cst.Assign))
    bound = (one for one in assigns if any(rewrite.text(each.target) == name for each in one.targets))
    return name, max((begun for one in bound if (begun := rewrite.source.span(one).start.row) <= row), default=0)


def _owner(node: cst.CSTNode, rewrite: Rewriter) -> str:
    func = node.func if isinstance(node, cst.Call) else node
    return rewrite.text(func.value) if isinstance(func, cst.Attribute) else ""


def _is_entry(node: cst.CSTNode, rewrite: Rewriter) -> bool:
    """Whether `node` is an element of a dict display."""
    keyword = isinstance(node, cst.Arg) and node.keyword is not None and _builds_dict(rewrite.source.parent(node))
    return keyword or (isinstance(node, cst.DictElement) and isinstance(node.key, cst.SimpleString))


def saved(node: cst.CSTNode, scaler: str, rewrite: Rewriter, *, shared: bool = False, given: str = "") -> Edit | None:
    """The state of `scaler` saved beside the optimizer's, which `node` takes: in its dict, or in a file of its own.

    The entry goes by the name of the optimizer's, or by none if optimizers have `shared` the scaler. It is None unless
    the condition `given` holds, if there is one.
    """
    state = f"{scaler}.state_dict()" + (f" if {given} else None" if given else "")
    for above in rewrite.source.ancestors(node):
        if isinstance(above, cst.DictElement) and isinstance(above.key, cst.SimpleString):
            key = rewrite.text(above.key)
            entry = _entry(key, shared)
            return _append(above.value, above, f"{entry}: {state}", rewrite) if entry != key else None
        if isinstance(above, cst.Arg) and above.keyword is not None and _builds_dict(rewrite.source.parent(above)):
            name = "scaler" if shared else _renamed(above.keyword.value)
            return _append(above.value, above, f"{name}={state}", rewrite)
        target = above.targets[0].target if isinstance(above, cst.Assign) else None
        if isinstance(target, cst.Subscript):
            key = rewrite.text(target.slice[0])
            entry = f"{rewrite.text(target.value)}[{_renamed(key)}]"
            return rewrite.insert_after(above, f"{entry} = {state}") if _renamed(key) != key else None
        held = _held_by(target, rewrite) if isinstance(target, cst.Name) else None
        if held is not None:
            return saved(held, scaler, rewrite, shared=shared, given=given)
        if isinstance(above, cst.BaseStatement):
            break
    return saved_beside(node, state, rewrite)


def _held_by(variable: cst.Name, rewrite: Rewriter) -> cst.CSTNode | None:
    """The value of the only entry of a dict display in the function around that reads `variable`."""
    functions = (one for one in rewrite.source.ancestors(variable) if isinstance(one, cst.FunctionDef))
    function = next(functions, None)
    elements: list[cst.DictElement | cst.Arg] = []
    if function is not None:
        elements += [*every(function, cst.DictElement), *every(function, cst.Arg)]
    found = [one.value for one in elements if _is_entry(one, rewrite) and rewrite.text(one.value) == variable.value]
    return found[0] if len(found) == 1 else None


def _append(value: cst.CSTNode, item: cst.CSTNode, text: str, rewrite: Rewriter) -> Edit:
    start = rewrite.span(item).start
    before = rewrite.row_before(start)
    gap = f"\n{before}" if not before.strip() else " "
    return rewrite.replace(value, f"{rewrite.text(value)},{gap}{text}")


def _builds_dict(call: cst.CSTNode | None) -> bool:
    return isinstance(call, cst.Call) and isinstance(call.func, cst.Name) and call.func.value == "dict"


def _renamed(text: str) -> str:
    """`text`, the optimizer's entry, renamed for the scaler."""
    return OPTIMIZER_ENTRY.compiled.sub("scaler", text, count=1)


def _entry(key: str, shared: bool) -> str:
    """The scaler's key, derived from the optimizer's, whose name is dropped if several share the scaler."""
    renamed = _renamed(key)
    return f"{key[0]}scaler{key[0]}" if renamed != key and shared else renamed


def restored(node: cst.Call, scaler: str, rewrite: Rewriter, *, shared: bool = False, given: str = "") -> Edit | None:
    """The state of `scaler` restored after the optimizer's, which `node` restores, where the checkpoint holds it.

    If there is a condition `given`, it has to hold, too.
    """
    state = node.args[0].value
    there = f"{given} and " if given else ""
    if not isinstance(state, cst.Subscript):
        return loaded_beside(node, scaler, rewrite, there)
    key = rewrite.text(state.slice[0])
    entry = _entry(key, shared)
    if entry == key or key[0] not in "\"'" or not isinstance(state.value, (cst.Name, cst.Attribute, cst.Subscript)):
        return None
    checkpoint = rewrite.text(state.value)
    return rewrite.insert_after(
        node, f"if {there}{checkpoint}.get({entry}):\n    {scaler}.load_state_dict({checkpoint}[{entry}])"
    )
