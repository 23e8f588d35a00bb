"""AMP107."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from amplint.findings import Applicability, Fix, Severity
from amplint.premises import Premise
from amplint.rule import Claim, Report, Rule, Sign
from amplint.semantics.events import AutocastCreated, DecoratorRefused, Event, ScalerCreated
from amplint.source import syntax as cst
from amplint.torchlib.names import (
    AUTOCAST_PARAMETERS,
    AUTOCASTS,
    INDEX_TAKEN_SINCE,
    SCALER_PARAMETERS,
    SHARDED_SCALER,
    SUCCESSORS,
)

from .refused import TAKES, kind_of, lacks_type, unknown, wrongly_typed_arguments

BELONGS_TO = {"torch.dtype": "dtype", "bool": "enabled"}
_NEWER = "torch.amp.autocast"
_NO_NUMBER = "PyTorch raises TypeError where the first loss is scaled: its scale is to be a number."
_NO_DEVICE = "Leave it out, or call torch.amp.GradScaler, which has it."
_REFUSED = {
    "init_scale": {
        "str": (_NO_NUMBER, _NO_DEVICE),
        "torch.device": (_NO_NUMBER, _NO_DEVICE),
        "bool": ("True is a scale of 1, which scales nothing, and False one of 0.", "Pass it as enabled."),
    },
    "device": {"bool": ("The scaler is enabled, whatever the flag.", "Pass it as enabled.")},
}
"""A parameter of a scaler -> the types of arguments that do not belong there -> why, and what to do."""

if TYPE_CHECKING:
    from amplint.source.rewrite import Rewriter


class AutocastArguments(Rule):
    """Autocast, or a scaler, gets arguments that it rejects.

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

    `torch.amp.GradScaler` has a parameter `device`, none called `device_type`; its deprecated spellings have neither,
    and begin with `init_scale`: a device there raises where the first loss is scaled, a flag is a scale of 1 or 0.
    `torch.cuda.amp.autocast` has no `device_type` either: the device is part of its name. The decorators `custom_fwd`
    and `custom_bwd` of `torch.amp` need it, by name; those of `torch.cuda.amp` do not have it.
    A file that imports `autocast` from `torch.amp`, and from `torch.cuda.amp` where that fails, has to pass the type.

    PyTorch before 2.4 also refuses a device type with an index (`"cuda:0"`), which `str(device)` can be. That is
    reported as an info, unless the configuration says which `torch-version` the code is for. A written `"cuda:0"` is
    left alone.

    ## Fix safety
    The call could only raise. A device becomes its type, a dtype or bool gets its name; a missing type is not guessed.

    ## References
    - <https://docs.pytorch.org/docs/stable/amp.html#torch.autocast>
    """

    code = "AMP107"
    name = "autocast-arguments"
    severity = Severity.ERROR
    anywhere = True
    goes_by = ("arguments",)
    claims = (Claim(Sign.RAISES),)
    screen = ((b"autocast", b"GradScaler", b"custom_fwd", b"custom_bwd"),)
    every_path = True
    fixable = Applicability.SAFE

    def on_autocast_created(self, event: AutocastCreated) -> Iterator[Report]:
        order = AUTOCAST_PARAMETERS[AUTOCASTS[event.api]]
        reason = f"PyTorch raises an error: the parameters of {event.api} are {', '.join(order)}."
        for parameter, kind in wrongly_typed_arguments(event):
            message = f"autocast gets a {kind} for {parameter}, which takes a {TAKES[parameter]}"
            advice = f"Pass it as {BELONGS_TO[kind]}." if kind in BELONGS_TO else f"Pass a {TAKES[parameter]}."
            severity = Severity.WARNING if event.by_use and kind == "torch.device" else None
            at = event.arguments[parameter][0]
            yield self.report(event, message, reason=reason, advice=advice, at=at, severity=severity)
            return
        for argument, name in unknown(event):
            reason = f"PyTorch raises TypeError: the parameters of {event.api} are {', '.join(order)}."
            message = f"autocast has no parameter {name}"
            has_it = AUTOCASTS[event.api] is not None and name == "device_type"
            advice = "Pass it as dtype." if name.endswith("type") else "Leave it out."
            advice = f"Call {_NEWER}, which has it." if has_it else advice
            yield self.report(event, message, reason=reason, advice=advice, at=argument)
            return
        if lacks_type(event):
            newer = f"PyTorch raises TypeError: {_NEWER} begins with device_type."
            yield self.report(event, "autocast gets no device type", reason=newer, advice='Pass one, such as "cuda".')
        if event.indexed is not None and not (event.torch is not None and event.torch.least >= INDEX_TAKEN_SINCE):
            stated = () if event.torch is not None else (Premise.OLDER_TORCH,)
            yield self.report(
                event,
                "autocast gets the text of a device, which can hold an index",
                reason='PyTorch before 2.4 refuses "cuda:0" as a device type; later versions take it.',
                advice="Pass the type alone, `device.type`.",
                at=event.arguments["device_type"][0],
                severity=Severity.INFO,
                claims=(),
                premises=(*event.indexed, *stated),
                on_one_path=not event.indexed,
            )

    def on_scaler_created(self, event: ScalerCreated) -> Iterator[Report]:
        order = SCALER_PARAMETERS[1:] if event.scaler.cls in SUCCESSORS else SCALER_PARAMETERS
        for argument in event.call.args if event.scaler.cls != SHARDED_SCALER else ():
            if argument.keyword is not None and argument.keyword.value not in order:
                reason = f"PyTorch raises TypeError: its parameters are {', '.join(order)}."
                message = f"the scaler has no parameter {argument.keyword.value}"
                advice = "Pass the device as `device`, or first." if "device" in order else "Leave it out."
                yield self.report(event, message, reason=reason, advice=advice, at=argument)
                return
        given = zip(order, event.positional, strict=False) if event.scaler.cls != SHARDED_SCALER else ()
        for parameter, (argument, value) in given:
            kind = kind_of(argument, value)
            if kind in _REFUSED.get(parameter, ()):
                reason, advice = _REFUSED[parameter][kind]
                claims = self.claims if kind != "bool" else ()
                message = f"the scaler gets a {kind} for {parameter}"
                yield self.report(event, message, reason=reason, advice=advice, at=argument, claims=claims)

    def on_decorator_refused(self, event: DecoratorRefused) -> Iterator[Report]:
        yield self.report(
            event,
            f"{event.api} gets no device type",
            reason="PyTorch raises TypeError where the class is defined: device_type is required, and by name alone.",
            advice='Pass it, such as device_type="cuda".',
        )

    def fix(self, event: Event, rewrite: Rewriter) -> Fix | None:
        if isinstance(event, DecoratorRefused):
            given = event.by_position
            if given is None or not isinstance(given.value, cst.SimpleString):
                return None
            named = f"device_type={rewrite.text(given.value)}"
            return Fix("Pass the device type by name", (rewrite.replace(given, named),))
        if not isinstance(event, AutocastCreated):
            return None
        parameter, kind = next(wrongly_typed_arguments(event), ("", ""))
        own = BELONGS_TO.get(kind)
        if kind == "torch.device":
            device = event.arguments[parameter][0].value
            return Fix("Pass the type of the device", (rewrite.replace(device, f"{rewrite.operand(device)}.type"),))
        if own and own not in event.arguments and parameter not in ("device_type", *event.positional[:-1]):
            argument = event.arguments[parameter][0]
            return Fix(f"Pass it as {own}", (rewrite.replace(argument, f"{own}={rewrite.text(argument.value)}"),))
        return None
