"""Which device type the regions and the scaler are made for."""

from __future__ import annotations

from amplint.codemods.bindings import bound_paths
from amplint.codemods.calls import Calls
from amplint.codemods.refusal import Refusal
from amplint.codemods.script import Script
from amplint.source import syntax as cst
from amplint.source.tree import walk

_MAKERS = ("device", "current_accelerator")
_NAMES = ("device", "self.device", "DEVICE")


def spell(script: Script, calls: Calls, wanted: str, place: cst.CSTNode) -> str:
    """The expression of the device type that holds at `place`: a string, or a variable's. Raises Refusal."""
    if wanted != "auto":
        return f'"{wanted}"'
    for name in _NAMES:
        if _is_device(script, calls, name, place):
            return f"{name}.type"
    raise Refusal(place, "no torch.device that is known here tells the device; say which with --device")


def _is_device(script: Script, calls: Calls, name: str, place: cst.CSTNode) -> bool:
    """Whether `name` is a `torch.device` at `place`: made in the function, the class or the file, or passed as one."""
    function = script.function_of(place)
    if name.startswith("self."):
        owner = script.method_owner(function)
        bindings = [binding for method in calls.methods(owner) for binding in script.assignments(method, name)]
        return bool(bindings) and all(_makes_device(script, calls, binding) for binding in bindings)
    while function is not None:
        bindings = script.assignments(function, name)
        if bindings:
            return all(_makes_device(script, calls, binding) for binding in bindings)
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
    return bool(bindings) and all(_makes_device(script, calls, binding) for binding in bindings)


def _makes_device(script: Script, calls: Calls, binding: cst.CSTNode) -> bool:
    value = getattr(binding, "value", None)
    if isinstance(value, cst.Name):
        own = isinstance(binding, cst.Assign) and value.value in bound_paths(binding)
        return not own and _is_device(script, calls, value.value, value)
    return isinstance(value, cst.Call) and any(
        isinstance(node, cst.Name) and node.value in _MAKERS for node in walk(value.func)
    )
