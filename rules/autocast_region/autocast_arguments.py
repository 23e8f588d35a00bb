"""AMP107."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from amplint.findings import Applicability, Fix, Severity
from amplint.rule import Claim, Report, Rule, Sign
from amplint.semantics.events import AutocastCreated, Event
from amplint.semantics.values.values import Const, Device, Ref, Value
from amplint.source import syntax as cst
from amplint.torchlib.names import AUTOCAST_PARAMETERS, AUTOCASTS, DTYPES

TAKES = {"device_type": "str", "dtype": "torch.dtype", "enabled": "bool"}
BELONGS_TO = {"torch.dtype": "dtype", "bool": "enabled"}

if TYPE_CHECKING:
    from amplint.source.rewrite import Rewriter


class AutocastArguments(Rule):
    """Autocast gets arguments that it rejects.

    ## Why is this bad?
    `torch.autocast(device_type, dtype, enabled)` takes a plain type string such as `"cuda"`, a dtype and a bool; the
    old `torch.cuda.amp.autocast(enabled, dtype)` has another order. A wrong or missing device type raises when the
    context is built, a bool for `dtype` or a dtype for `enabled` when it is entered: often not before the first batch,
    and with the old class not on a machine without CUDA.

    ## Example
    ```python
    device = torch.device("cuda")
    with torch.autocast(device, True):
        loss = model(inputs)
    ```

    ## Use instead
    ```python
    with torch.autocast(device.type, enabled=True):
        loss = model(inputs)
    ```

    A device type with an index (`"cuda:0"`) works and is not reported.

    ## Fix safety
    The call could only raise. A device becomes its type, a dtype or bool gets its name; a missing type is not guessed.

    ## References
    - <https://docs.pytorch.org/docs/stable/amp.html#torch.autocast>
    """

    code = "AMP107"
    name = "autocast-arguments"
    severity = Severity.ERROR
    goes_by = ("arguments",)
    claims = (Claim(Sign.RAISES),)
    screen = (b"autocast",)
    every_path = True
    fixable = Applicability.SAFE

    def on_autocast_created(self, event: AutocastCreated) -> Iterator[Report]:
        order = AUTOCAST_PARAMETERS[AUTOCASTS[event.api]]
        reason = f"PyTorch raises an error: the parameters of {event.api} are {', '.join(order)}."
        for parameter, kind in _misplaced(event):
            message = f"autocast gets a {kind} for {parameter}, which takes a {TAKES[parameter]}"
            advice = f"Pass it as {BELONGS_TO[kind]}." if kind in BELONGS_TO else f"Pass a {TAKES[parameter]}."
            yield self.report(event, message, reason=reason, advice=advice, at=event.arguments[parameter][0])
            return
        if event.certain and "device_type" in order and "device_type" not in event.arguments:
            yield self.report(event, "autocast gets no device type", reason=reason, advice='Pass one, such as "cuda".')

    def fix(self, event: Event, rewrite: Rewriter) -> Fix | None:
        assert isinstance(event, AutocastCreated)
        parameter, kind = next(_misplaced(event), ("", ""))
        own = BELONGS_TO.get(kind)
        if kind == "torch.device":
            device = event.arguments[parameter][0].value
            return Fix("Pass the type of the device", (rewrite.replace(device, f"{rewrite.operand(device)}.type"),))
        if own and own not in event.arguments and parameter not in ("device_type", *event.positional[:-1]):
            argument = event.arguments[parameter][0]
            return Fix(f"Pass it as {own}", (rewrite.replace(argument, f"{own}={rewrite.text(argument.value)}"),))
        return None


def _misplaced(event: AutocastCreated) -> Iterator[tuple[str, str]]:
    """The parameters that get what they do not take, each with the type of what it gets."""
    for parameter, taken in TAKES.items():
        if parameter in event.arguments and (kind := _kind(*event.arguments[parameter])) not in ("", taken):
            yield parameter, kind


def _kind(argument: cst.Arg, value: Value) -> str:
    """The type of what is passed, "" where that is not certain."""
    if isinstance(value, Device) or (isinstance(value, Ref) and value.name in DTYPES):
        return "torch.device" if isinstance(value, Device) else "torch.dtype"
    if isinstance(argument.value, cst.Comparison):
        return "bool"
    return type(value.value).__name__ if isinstance(value, Const) and value.value is not None else ""
