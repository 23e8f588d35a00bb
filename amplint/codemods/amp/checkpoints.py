"""The scaler as an additional argument of functions that save or restore an optimizer's state."""

from __future__ import annotations

from amplint.codemods.amp.scalers import Scalers
from amplint.codemods.script import Script
from amplint.codemods.training.observed import Observed
from amplint.source import syntax as cst

_STATES = ("state_dict", "load_state_dict")


def pass_scaler_with_state(script: Script, observed: Observed, scalers: Scalers) -> None:
    """Pass the scaler to functions that access the state of an optimizer parameter. Raises Refusal."""
    states = [call for name in _STATES for call in observed.calls.ending(name)]
    found = True
    while found:  # a function may pass it on to another
        found = False
        for call in states:
            function, owner = script.function_of(call), _owner(call)
            if function is None or owner is None or scalers.serves(function, owner):
                continue
            passed = observed.calls.arguments_for(function, owner) or ()
            if passed and all(scalers.serves(script.function_of(value), script.text_of(value)) for value in passed):
                scalers.pass_scaler(function, owner, call)
                found = True


def _owner(call: cst.Call) -> str | None:
    func = call.func
    return func.value.value if isinstance(func, cst.Attribute) and isinstance(func.value, cst.Name) else None
