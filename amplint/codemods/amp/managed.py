"""Scripts trained by a framework, which has its own setting for mixed precision."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator

from amplint.codemods.conversion import Change, Plan, Remark
from amplint.findings import Edit, Fix
from amplint.records import dataclass
from amplint.semantics.reading.scopes import dotted
from amplint.source import syntax as cst
from amplint.torchlib.frameworks import LIBRARIES, MANAGERS, PRECISIONS, is_lightning_module, loop_kind
from amplint.training.names import Use, library_uses
from amplint.training.script import Script
from amplint.training.surroundings import modules

_MIXED = {"float16": '"16-mixed"', "bfloat16": '"bf16-mixed"'}
_SHORT = {"float16": "fp16", "bfloat16": "bf16"}
_PARSER = "transformers.HfArgumentParser"
_COMMAND = ".LightningCLI"
_SWITCHED = ("arguments", "lightning loop")
_OFF = frozenset({"False", "None"} | {str(name) for name, dtype in PRECISIONS.items() if dtype == "float32"})
_OF_LAUNCHER = re.compile(rb"^mixed_precision:[ \t]*['\"]?(\w+)", re.MULTILINE)


def may_be(text: str) -> bool:
    """Whether `text` mentions one of these frameworks."""
    return any(library in text for library in LIBRARIES)


@dataclass(frozen=True, slots=True)
class _Switch:
    """The argument `name` that enables mixed precision with `value`, and `others` that do so too."""

    name: str
    value: str
    others: tuple[str, ...] = ()


def plan(script: Script, dtype: str) -> Plan | None:
    """Enable mixed precision where a framework is set up; None if none is.

    A setting that is enabled already, in whatever dtype, is left alone.
    """
    known = list(_uses(script))
    found = [use for use in known if use.name in MANAGERS or loop_kind(use.name) in _SWITCHED]
    remarks = list(_elsewhere(script, known, dtype, setup=bool(found)))
    if not found and not remarks:
        return None
    setting = _Setting(script, dtype)
    for use in found:
        assert use.call is not None
        setting.set(use, use.call)
    return Plan(tuple(setting.changes), tuple(setting.refused), (*remarks, *setting.left))


def _uses(script: Script) -> Iterator[Use]:
    """The calls of these frameworks."""
    return (use for use in library_uses(script, *LIBRARIES) if use.call is not None or is_lightning_module(use.name))


def _elsewhere(script: Script, known: list[Use], dtype: str, *, setup: bool) -> Iterator[Remark]:
    """Remarks on settings that the file leaves to the command line or a configuration."""
    short, mixed = _SHORT[dtype], _MIXED[dtype].strip('"')
    for use in known:
        row = script.row(use.node)
        if use.name == _PARSER:
            yield Remark(row, f"the Trainer brings mixed precision of its own: run this with --{short}")
        elif use.name.endswith(_COMMAND):
            yield Remark(row, f"Lightning brings mixed precision of its own: run this with --trainer.precision {mixed}")
        elif setup or any(other.name == _PARSER for other in known):
            continue
        elif loop_kind(use.name) == "loop":
            yield Remark(row, f"the Trainer brings mixed precision of its own: its arguments take {short}=True")
        elif is_lightning_module(use.name) and ".backward(" not in script.text:
            yield Remark(row, f'Lightning brings mixed precision of its own: its Trainer takes precision="{mixed}"')


class _Setting:
    """Sets the switches of a file."""

    def __init__(self, script: Script, dtype: str) -> None:
        self._script = script
        self._dtype = dtype
        self.changes: list[Change] = []
        self.refused: list[Remark] = []
        self.left: list[Remark] = []
        self._beside: list[Remark] = []

    def set(self, use: Use, call: cst.Call) -> None:
        """Enable mixed precision in the object that `call` constructs."""
        script, switch = self._script, _switch(use.name, self._dtype)
        row = script.row(use.node)
        self._beside.clear()
        given = {name: script.rewrite.find_argument(call, name) for name in (switch.name, *switch.others)}
        on = [name for name, found in given.items() if found is not None and not _is_off(script, found.value)]
        if on:
            found = given[on[0]]
            if on[0] == switch.name and found is not None:
                self._by_default(row, switch, found.value)
            return
        if MANAGERS.get(use.name) == "accelerate" and not self._launched(row):
            return
        own = given[switch.name]
        if own is not None:
            edit: Edit | None = script.rewrite.replace(own.value, switch.value)
        else:
            hidden = [argument.value for argument in call.args if argument.star == "**"]
            display = self._display(hidden[0]) if len(hidden) == 1 else None
            if display is not None:
                self._in_dictionary(row, switch, display)
                return
            edit = script.rewrite.set_argument(call, switch.name, switch.value)
        if edit is None:
            self.refused.append(Remark(row, f"this takes {switch.name}={switch.value}, and ** hides what it is given"))
            return
        self._change(row, switch, edit)

    def _change(self, row: int, switch: _Switch, edit: Edit) -> None:
        remark = Remark(row, f"ask the framework for mixed precision: {switch.name}={switch.value}")
        self.changes.append(Change(Fix("Switch mixed precision on", (edit,)), (remark,), tuple(self._beside)))

    def _by_default(self, row: int, switch: _Switch, value: cst.BaseExpression) -> None:
        """Set the default of the field that `value` reads, if the settings class is in the file."""
        if not isinstance(value, cst.Attribute):
            return
        fields = (one for one in self._script.of_kind(cst.AnnAssign) if self._declares(one, value.attr.value))
        field = next(fields, None)
        default = field.value if field is not None else None
        if default is None:
            text = self._script.text_of(value)
            self.left.append(Remark(row, f"{text} decides on mixed precision here: give it {switch.value}"))
        elif _is_off(self._script, default):
            self._change(self._script.row(default), switch, self._script.rewrite.replace(default, switch.value))

    def _declares(self, node: cst.AnnAssign, name: str) -> bool:
        """Whether `node` declares the field `name` of a class."""
        return self._script.function_of(node) is None and dotted(node.target) == name

    def _display(self, node: cst.BaseExpression) -> cst.Dict | cst.Call | None:
        """The dictionary bound to a variable by its only assignment, a display or `dict()`."""
        given = self._script.assignments(self._script.function_of(node), dotted(node) or "")
        given = given or self._script.assignments(None, dotted(node) or "")
        value = getattr(given[0], "value", None) if len(given) == 1 else node if isinstance(node, cst.Dict) else None
        if isinstance(value, cst.Call):
            return value if dotted(value.func) == "dict" and value.args else None
        return value if isinstance(value, cst.Dict) else None

    def _in_dictionary(self, row: int, switch: _Switch, display: cst.Dict | cst.Call) -> None:
        """Enable mixed precision in a dictionary of keyword arguments."""
        script = self._script
        if isinstance(display, cst.Call):
            values = {one.keyword.value: one.value for one in display.args if one.keyword is not None}
            last: cst.CSTNode = display.args[-1]
            text, hidden = f"{switch.name}={switch.value}", any(one.star for one in display.args)
        else:
            entries = [one for one in display.elements if isinstance(one, cst.DictElement)]
            values = {script.text_of(one.key).strip("'\""): one.value for one in entries}
            hidden = len(entries) < len(display.elements) or not entries
            last = display.elements[-1] if display.elements else display
            text = f'"{switch.name}": {switch.value}'
        on = [name for name in (switch.name, *switch.others) if name in values and not _is_off(script, values[name])]
        if on:
            return
        if hidden:
            self.refused.append(Remark(row, f"this takes {switch.name}={switch.value}, and ** hides what it is given"))
        elif switch.name in values:
            self._change(row, switch, script.rewrite.replace(values[switch.name], switch.value))
        else:
            assert isinstance(last, (cst.Arg, cst.DictElement))
            before = script.rewrite.row_before(script.rewrite.span(last).start)
            gap = " " if before.strip() else script.source.newline + before
            self._change(row, switch, script.rewrite.replace(last.value, f"{script.text_of(last.value)},{gap}{text}"))

    def _launched(self, row: int) -> bool:
        """Whether no configuration file of `accelerate launch` beside the script enables mixed precision."""
        place = modules().evidence.launched_by(self._script.path) if self._script.path else None
        found = _OF_LAUNCHER.search(modules().contents.raw(place) or b"") if place is not None else None
        if found is None or place is None:
            return True
        if found.group(1).decode() != "no":
            return False
        self._beside.append(Remark(row, f"{os.path.basename(place)} says no, and what the script says counts"))
        return True


def _is_off(script: Script, node: cst.BaseExpression) -> bool:
    """Whether `node` spells float32, or a disabled setting."""
    return script.text_of(node).strip("'\"") in _OFF


def _switch(name: str, dtype: str) -> _Switch:
    if MANAGERS.get(name) == "accelerate":
        return _Switch("mixed_precision", f'"{_SHORT[dtype]}"')
    if loop_kind(name) == "arguments":
        other = "bf16" if dtype == "float16" else "fp16"
        return _Switch(_SHORT[dtype], "True", (other, "half_precision_backend"))
    return _Switch("precision", _MIXED[dtype], ("plugins",))
