"""Arguments that autocast refuses."""

from __future__ import annotations

from collections.abc import Iterator

from amplint.semantics.events import AutocastCreated
from amplint.semantics.values.values import Const, Device, Ref, Value
from amplint.source import syntax as cst
from amplint.torchlib.names import AUTOCAST_PARAMETERS, AUTOCASTS, DTYPES

TAKES = {"device_type": "str", "dtype": "torch.dtype", "enabled": "bool"}


def is_refused(event: AutocastCreated) -> bool:
    """Whether a call that makes a context raises, or entering the context does."""
    return lacks_type(event) or next(wrongly_typed_arguments(event), None) is not None or bool(unknown(event))


def lacks_type(event: AutocastCreated) -> bool:
    """Whether a call leaves out the device type that its callee requires."""
    return event.certain and event.needs_type and not event.positional and "device_type" not in event.arguments


def unknown(event: AutocastCreated) -> list[tuple[cst.Arg, str]]:
    """The arguments for parameters that there are not, with their keywords."""
    order = AUTOCAST_PARAMETERS[AUTOCASTS[event.api]]
    given = event.node.args if isinstance(event.node, cst.Call) and not is_newer_too(event) else ()
    named = [(one, one.keyword.value) for one in given if one.keyword is not None]
    return [(one, name) for one, name in named if name not in order]


def is_newer_too(event: AutocastCreated) -> bool:
    """Whether the name that is called is that of the newer class on the usual path."""
    return AUTOCASTS[event.api] is not None and event.needs_type


def wrongly_typed_arguments(event: AutocastCreated) -> Iterator[tuple[str, str]]:
    """The parameters with arguments of a wrong type, each with that type."""
    for parameter, taken in TAKES.items():
        if parameter in event.arguments and (kind := kind_of(*event.arguments[parameter])) not in ("", taken):
            yield parameter, kind


def kind_of(argument: cst.Arg, value: Value) -> str:
    """The type of an argument, "" if that is not certain."""
    if isinstance(value, Device) or (isinstance(value, Ref) and value.name in DTYPES):
        return "torch.device" if isinstance(value, Device) else "torch.dtype"
    if isinstance(argument.value, cst.Comparison):
        return "bool"
    return type(value.value).__name__ if isinstance(value, Const) and value.value is not None else ""
