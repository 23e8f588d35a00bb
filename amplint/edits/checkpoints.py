"""Edits that put a scaler's state into a checkpoint and take it out again."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from amplint.edits.checkpoint_files import IMPORTS, loaded_beside, saved_beside
from amplint.findings import Edit, Fix
from amplint.semantics.events import CheckpointLacksScaler, Place
from amplint.semantics.words import OPTIMIZER_ENTRY
from amplint.source import syntax as cst

if TYPE_CHECKING:
    from amplint.source.rewrite import Rewriter


def add_scaler(event: CheckpointLacksScaler, rewrite: Rewriter) -> Fix | None:
    """Save the scaler's state beside the optimizer's, and restore it behind it, wherever both are in sight."""
    saves = [] if event.saved else [_saving(event, places, rewrite) for places in _together(event.saves, rewrite)]
    restores = [_restoring(event, places, rewrite) for places in _together(event.restores, rewrite)]
    saving, restoring = ([edit for edit in edits if edit is not None] for edits in (saves, restores))
    unsaved = not event.saved and not event.saves
    if len(saving) < len(saves) or unsaved or not (saving or restoring):
        return None
    what = "Save and restore" if saving and restoring else "Save" if saving else "Restore"
    imports = IMPORTS if any("os.path.exists(" in edit.content for edit in restoring) else ()
    return Fix(f"{what} the scaler's state", (*saving, *restoring), imports=imports)


def _together(places: Iterable[Place], rewrite: Rewriter) -> list[list[Place]]:
    """`places` by the dict that they write into or read: several optimizers that share a scaler need one entry."""
    groups: dict[object, list[Place]] = {}
    for place in places:
        given = place.node.args[0].value if isinstance(place.node, cst.Call) and place.node.args else None
        elements = (one for one in rewrite.source.ancestors(place.node) if isinstance(one, cst.DictElement))
        display = rewrite.source.parent(next(elements, place.node))
        shared = rewrite.text(given.value) if isinstance(given, cst.Subscript) else display
        groups.setdefault((place.scaler, shared), []).append(place)
    return list(groups.values())


def _saving(event: CheckpointLacksScaler, places: Sequence[Place], rewrite: Rewriter) -> Edit | None:
    place = places[-1]
    if place.scaler is None:
        return None
    state = f"{place.scaler}.state_dict()"
    if event.perhaps_none:
        state += f" if {place.scaler} is not None else None"
    for above in rewrite.source.ancestors(place.node):
        if isinstance(above, cst.DictElement) and isinstance(above.key, cst.SimpleString):
            return _append(above.value, above, f"{_entry(rewrite.text(above.key), places)}: {state}", rewrite)
        if isinstance(above, cst.Arg) and above.keyword is not None and _builds_dict(rewrite.source.parent(above)):
            return _append(above.value, above, f"{_renamed(above.keyword.value)}={state}", rewrite)
        if isinstance(above, cst.Assign) and isinstance(above.targets[0].target, cst.Subscript):
            target = rewrite.text(above.targets[0].target)
            return rewrite.insert_after(above, f"{_renamed(target)} = {state}") if _renamed(target) != target else None
        if isinstance(above, cst.BaseStatement):
            break
    return saved_beside(place.node, state, rewrite)


def _append(value: cst.CSTNode, item: cst.CSTNode, text: str, rewrite: Rewriter) -> Edit:
    start = rewrite.span(item).start
    before = rewrite.row_before(start)
    gap = f"\n{before}" if not before.strip() else " "
    return rewrite.replace(value, f"{rewrite.text(value)},{gap}{text}")


def _builds_dict(call: cst.CSTNode | None) -> bool:
    return isinstance(call, cst.Call) and isinstance(call.func, cst.Name) and call.func.value == "dict"


def _renamed(text: str) -> str:
    """`text`, which names the optimizer's entry, for the scaler's."""
    return OPTIMIZER_ENTRY.compiled.sub("scaler", text, count=1)


def _entry(key: str, places: Sequence[Place]) -> str:
    """The key of the scaler's state beside that of an optimizer's, without its name where several share the scaler."""
    renamed = _renamed(key)
    return f"{key[0]}scaler{key[0]}" if renamed != key and len(places) > 1 else renamed


def _restoring(event: CheckpointLacksScaler, places: Sequence[Place], rewrite: Rewriter) -> Edit | None:
    place = places[-1]
    if place.scaler is None or not isinstance(place.node, cst.Call) or not place.node.args:
        return None
    given = place.node.args[0].value
    there = f"{place.scaler} is not None and " if event.perhaps_none else ""
    if not isinstance(given, cst.Subscript):
        return loaded_beside(place.node, place.scaler, rewrite, there)
    key = rewrite.text(given.slice[0])
    entry = _entry(key, places)
    if entry == key or key[0] not in "\"'" or not isinstance(given.value, (cst.Name, cst.Attribute, cst.Subscript)):
        return None
    checkpoint = rewrite.text(given.value)
    return rewrite.insert_after(
        place.node,
        f"if {there}{checkpoint}.get({entry}):\n    {place.scaler}.load_state_dict({checkpoint}[{entry}])",
    )
