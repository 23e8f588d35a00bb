"""Configs of mmcv 1.x: `optimizer`, `optimizer_config` and `fp16` become one `optim_wrapper`."""

from __future__ import annotations

import re
from dataclasses import replace

from amplint.codemods.conversion import Remark
from amplint.codemods.editing import edited
from amplint.codemods.mmcv.inheritance import BASES, WRAPPER, Inherited, inherited
from amplint.codemods.mmcv.settings import NAMES, Setting, assignments, items, key, read
from amplint.codemods.mmcv.spelling import spelled
from amplint.codemods.mmcv.wrapper import Piece, Wrapper
from amplint.codemods.rows import tidied
from amplint.findings import Edit
from amplint.source import syntax as cst
from amplint.source.tree import walk
from amplint.training.bindings import bound_names
from amplint.training.refusal import Refusal
from amplint.training.script import Script

_OTHERS = ("lr_config", "momentum_config", "runner", "total_epochs", "evaluation", "checkpoint_config", "log_config")
"""Settings that have another form in mmengine, too."""
_TELLING = (BASES, "optimizer_config", *_OTHERS, "custom_hooks", "dist_params", "resume_from", "workflow")
_ABOUT = re.compile(r"fp16|mixed|precision|\bamp\b|loss.?scal|placeholder|half|optimi|grad|clip|accum|cumul|norm", re.I)


def is_config(script: Script) -> bool:
    """Whether a file configures an optimizer in the style of mmcv 1.x."""
    values = {name: [node.value for _, node in assignments(script, name)] for name in NAMES}
    written = {name: items(found[-1]) for name, found in values.items() if found}
    telling = any(assignments(script, name) for name in _TELLING)
    typed = any(key(item) == "type" for item in written.get("optimizer") or ())
    telling = telling or (typed and all(isinstance(each, cst.SimpleStatementLine) for each in script.top))
    if written.get("optimizer_config") is not None:
        return True
    if any(key(item) == "loss_scale" for item in written.get("fp16") or ()):
        return True
    return telling and any(
        items(value) is not None or script.text_of(value) == "None" for found in values.values() for value in found
    )


def converted(text: str, path: str, seen: tuple[str, ...] = ()) -> tuple[str, list[Remark]]:
    """The new text of a config and remarks for review, by rows of the old one. Raises Refusal."""
    script = Script(text, path)
    if not is_config(script):
        own = next((name for name in NAMES if seen and assignments(script, name)), None)
        if own is not None:
            raise Refusal(1, f"whether its {own} is that of mmcv is not known")
        return text, []
    if assignments(script, WRAPPER):
        both = next((name for name in NAMES[1:] if assignments(script, name)), None)
        if both is None:
            return text, []
        raise Refusal(script.row(assignments(script, both)[0][0]), f"both {both} and {WRAPPER} are set")
    settings = read(script)
    above = inherited(text, path, _text, seen)
    wrapper = Wrapper(script, settings, above)
    pieces = _with_comments(script, settings, wrapper.pieces())
    new = edited(script, _edits(script, settings, pieces)).text
    return _ended(text, tidied(text, new)), [*wrapper.remarks, *_remarks(script, above)]


def _ended(text: str, new: str) -> str:
    """`new` without blank rows at its end that `text` does not have."""
    ends = text[len(text.rstrip("\r\n")) :]
    return new.rstrip("\r\n") + ends if new.strip() else ""


def _text(text: str, path: str, seen: tuple[str, ...]) -> str:
    return converted(text, path, seen)[0]


def _edits(script: Script, settings: dict[str, Setting], pieces: list[Piece]) -> list[Edit]:
    """The edits that replace the first of `settings` by one statement and remove the others."""
    place = next(iter(settings.values()))
    carried = {piece.origin for piece in pieces}
    edits = []
    for setting in settings.values():
        first, last = script.rows(setting.statement)
        if setting is place and pieces:
            _require_bound_names(script, settings, place)
            edits.append(Edit(script.lines.rows(first, last), spelled(script, pieces) + _end(script, last)))
        else:
            above = len(_removed_comments(script, settings, setting, carried=setting.name in carried))
            edits.append(Edit(script.lines.rows(first - above, last), ""))
        edits += [Edit(script.lines.rows(*script.rows(statement)), "") for statement in setting.dead]
    return edits


def _end(script: Script, row: int) -> str:
    return script.source.newline if row < len(script.lines) else ""


def _removed_comments(
    script: Script, settings: dict[str, Setting], setting: Setting, *, carried: bool = True
) -> tuple[str, ...]:
    """The comments above a setting that are removed with it: those above nothing else, dropped only if about it."""
    rows = [script.rows(each.statement) for each in settings.values()]
    first, last = script.rows(setting.statement)
    ends = last == len(script.lines) or script.lines.blank(last + 1) or any(last + 1 == row for row, _ in rows)
    between = any(end == first - len(setting.comments) - 1 for _, end in rows)
    mentioned = any(_ABOUT.search(comment) for comment in setting.comments)
    return setting.comments if (between or ends) and (mentioned or carried) else ()


def _with_comments(script: Script, settings: dict[str, Setting], pieces: list[Piece]) -> list[Piece]:
    """The pieces with the comments above the settings that they come from."""
    place = next(iter(settings.values()))
    found = []
    reported = {place.name}
    for piece in pieces:
        comments = piece.comments
        if piece.origin is not None and piece.origin not in reported:
            reported.add(piece.origin)
            comments = (*_removed_comments(script, settings, settings[piece.origin]), *comments)
        found.append(replace(piece, comments=comments))
    return found


def _require_bound_names(script: Script, settings: dict[str, Setting], place: Setting) -> None:
    """Raise Refusal if a value that moves up to `place` uses a name that is bound later."""
    limit = script.row(place.statement)
    for setting in settings.values():
        here = script.row(setting.statement)
        names = {node.value for node in walk(setting.value) if isinstance(node, cst.Name)}
        for statement in script.top:
            between = min(here, limit) <= script.row(statement) < max(here, limit)
            if between and statement is not place.statement and statement is not setting.statement:
                for node in walk(statement):
                    if names & set(bound_names(node)):
                        raise Refusal(here, "a name that this uses gets its value too late for optim_wrapper")


def _remarks(script: Script, above: Inherited) -> list[Remark]:
    found = []
    if above.wrapper is None:
        why = f"{above.missing} cannot be read: it has to be converted as well"
        found.append(Remark(above.row, why))
    others = [(script.row(assignments(script, name)[0][0]), name) for name in _OTHERS if assignments(script, name)]
    if others:
        names = ", ".join(name for _, name in sorted(others))
        found.append(Remark(min(others)[0], f"{names}: mmengine has other settings in their place, left to you"))
    return found
