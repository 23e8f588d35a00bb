"""The device type of regions and scaler."""

from __future__ import annotations

from amplint.source import syntax as cst
from amplint.source.tree import walk
from amplint.training.calls import Calls
from amplint.training.definitions import reaching_definitions, values_of
from amplint.training.refusal import Refusal
from amplint.training.script import Script

_MAKERS = ("device", "current_accelerator")
_NAMES = ("device", "self.device", "DEVICE")
_DEEP = 8


def spell(script: Script, calls: Calls, wanted: str, place: cst.CSTNode) -> str:
    """The expression of the device type at `place`: a string, or an attribute of a variable. Raises Refusal."""
    if wanted != "auto":
        return f'"{wanted}"'
    for name in _NAMES:
        if _is_device(script, calls, name, place):
            return f"{name}.type"
    raise Refusal(place, "no torch.device that is known here tells the device; say which with --device")


def _is_device(script: Script, calls: Calls, name: str, place: cst.CSTNode, deep: int = _DEEP) -> bool:
    """Whether `name` is a `torch.device` at `place`: made in the function, class or file, or passed as an argument."""
    _, function = reaching_definitions(script, calls, place, name)
    parameter = script.parameter(function, name) if function is not None else None
    annotation = parameter[1].annotation if parameter is not None else None
    if annotation is not None and script.text_of(annotation.annotation) == "torch.device":
        return True
    values = values_of(script, calls, place, name)
    return bool(values) and all(value is not None and _makes_device(script, calls, value, deep) for value in values)


def _makes_device(script: Script, calls: Calls, value: cst.BaseExpression, deep: int) -> bool:
    if isinstance(value, cst.Name):
        return deep > 0 and _is_device(script, calls, value.value, value, deep - 1)
    return isinstance(value, cst.Call) and any(
        isinstance(node, cst.Name) and node.value in _MAKERS for node in walk(value.func)
    )
