"""Which device type the regions and the scaler are made for."""

from __future__ import annotations

from collections.abc import Sequence

import libcst as cst

from amplint.codemods.calls import Calls
from amplint.codemods.refusal import Refusal
from amplint.codemods.script import Script
from amplint.source.tree import walk

_MAKERS = ("device", "current_accelerator")
_NAMES = ("device", "self.device", "DEVICE")


def spell(script: Script, calls: Calls, wanted: str, places: Sequence[cst.CSTNode]) -> str:
    """The expression of the device type that holds at all `places`: a string, or a variable's. Raises Refusal."""
    if wanted != "auto":
        return f'"{wanted}"'
    for name in _NAMES:
        if all(_is_device(script, calls, name, place) for place in places):
            return f"{name}.type"
    raise Refusal(places[0], "no torch.device that is known here tells the device; say which with --device")


def _is_device(script: Script, calls: Calls, name: str, place: cst.CSTNode) -> bool:
    """Whether `name` is a `torch.device` at `place`: made in the function, the class or the file, or passed as one."""
    function = script.function_of(place)
    if name.startswith("self."):
        owner = script.method_owner(function)
        bindings = [binding for method in calls.methods(owner) for binding in script.assignments(method, name)]
        return bool(bindings) and all(_makes_device(binding) for binding in bindings)
    while function is not None:
        bindings = script.assignments(function, name)
        if bindings:
            return all(_makes_device(binding) for binding in bindings)
        found = script.parameter(function, name)
        if found is not None:
            annotation = found[1].annotation
            if annotation is not None and script.text_of(annotation.annotation) == "torch.device":
                return True
            passed = calls.passed(function, name) or ()
            return bool(passed) and all(
                isinstance(value, cst.Name) and _is_device(script, calls, value.value, value) for value in passed
            )
        function = script.function_of(function)
    bindings = script.assignments(None, name)
    return bool(bindings) and all(_makes_device(binding) for binding in bindings)


def _makes_device(binding: cst.CSTNode) -> bool:
    value = getattr(binding, "value", None)
    return isinstance(value, cst.Call) and any(
        isinstance(node, cst.Name) and node.value in _MAKERS for node in walk(value.func)
    )
