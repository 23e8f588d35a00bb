"""Which device type the regions and the scaler are made for."""

from __future__ import annotations

from collections.abc import Sequence

import libcst as cst

from amplint.codemods.layout import Layout
from amplint.codemods.refusal import Refusal
from amplint.source.tree import walk

_MAKERS = ("device", "current_accelerator")
_NAMES = ("device", "self.device", "DEVICE")


def spell(layout: Layout, wanted: str, places: Sequence[cst.CSTNode]) -> str:
    """The expression of the device type that holds at all `places`: a string, or a variable's. Raises Refusal."""
    if wanted != "auto":
        return f'"{wanted}"'
    for name in _NAMES:
        if all(_is_device(layout, name, place) for place in places):
            return f"{name}.type"
    raise Refusal(places[0], "no torch.device that is known here tells the device; say which with --device")


def _is_device(layout: Layout, name: str, place: cst.CSTNode) -> bool:
    """Whether `name` is a `torch.device` at `place`: made in the function, the class or the file, or passed as one."""
    function = layout.function_of(place)
    if name.startswith("self."):
        owner = layout.method_owner(function)
        methods = [one for many in layout.functions.values() for one in many if layout.method_owner(one) is owner]
        bindings = [binding for method in methods for binding in layout.bindings(method, name)] if owner else []
        return bool(bindings) and all(_makes_device(binding) for binding in bindings)
    while function is not None:
        bindings = layout.bindings(function, name)
        if bindings:
            return all(_makes_device(binding) for binding in bindings)
        found = layout.parameter(function, name)
        if found is not None:
            annotation = found[1].annotation
            if annotation is not None and layout.rewrite.text(annotation.annotation) == "torch.device":
                return True
            passed = layout.passed(function, name) or ()
            return bool(passed) and all(
                isinstance(value, cst.Name) and _is_device(layout, value.value, value) for value in passed
            )
        function = layout.function_of(function)
    bindings = layout.bindings(None, name)
    return bool(bindings) and all(_makes_device(binding) for binding in bindings)


def _makes_device(binding: cst.CSTNode) -> bool:
    value = getattr(binding, "value", None)
    return isinstance(value, cst.Call) and any(
        isinstance(node, cst.Name) and node.value in _MAKERS for node in walk(value.func)
    )
