"""AMP106."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from amplint.findings import Applicability, Fix, Severity
from amplint.premises import Premise
from amplint.rule import Claim, Report, Rule, Sign
from amplint.semantics.events import (
    AutocastCreated,
    AutocastUnused,
    DeviceFixed,
    DisabledForOneDevice,
    Event,
    Forward,
    NoContext,
    ScriptEnd,
)
from amplint.semantics.reading.scopes import dotted
from amplint.semantics.values.values import FALSE, Autocast, Ref
from amplint.source import syntax as cst
from amplint.torchlib.names import AUTOCAST_DEVICES, AUTOCASTS, DTYPES, HALF_DTYPES

WARNS_AND_SWITCHES_OFF = AUTOCAST_DEVICES - {"cuda"}
_FLOAT16 = frozenset({"float16"})
_WARNS = {"cuda": ", and PyTorch warns where there is no CUDA"}

if TYPE_CHECKING:
    from amplint.source.rewrite import Rewriter


class AutocastHasNoEffect(Rule):
    """An autocast region is set up in a way that leaves everything as it is.

    ## Why is this bad?
    `torch.autocast(...)` only builds a context; nothing is cast until a `with` statement or a decorator enters it. The
    class itself, without a call, is no context: `with autocast:` raises `TypeError`. A region for one device type casts
    nothing on another. And except on CUDA, PyTorch switches regions for other dtypes than float16 and bfloat16 off.

    So a region for `"cuda"` by name, in code that is given its device by a parameter, a setting or another tensor,
    works on some machines only, and so does a scaler. This is reported as an info where the file chooses between
    devices or has an option for one, neither a condition nor `enabled` asks for the device, and nothing in the file
    needs CUDA; so are float32 for any device but CUDA, and a region for the CPU on all devices that a list leaves out.

    Selected by its code, the rule also reports such scalers where no region is written for float16 and any device: on
    the CPU regions run in bfloat16, which needs no scaler. It also reports such scalers and regions where nothing shows
    that the device can be another one, and such regions in layers, which get no device but work on that of their input.
    Scalers for CUDA beside regions whose device type is a variable are reported then, as are regions and scalers in
    functions that nothing keeps to CUDA, and regions for float16 on whatever device they get. And a region that
    switches autocast off for `"cuda"`, or casts to float32 there, protects nothing under a caller's region for another
    device: an info where the file does not train, and the function does not need CUDA.
    `torch.get_autocast_dtype("cuda")` asks for the dtype of CUDA's regions, whatever device the work is given.

    A context that has been made is called only to decorate a function, `torch.cuda.amp` is a module, and what changes a
    setting, such as `torch.set_default_dtype`, is no context: all of them raise `TypeError` in a `with` statement.

    ## Example
    ```python
    torch.autocast("cpu", dtype=torch.bfloat16)
    logits = model(inputs)
    ```

    ## Use instead
    ```python
    with torch.autocast("cpu", dtype=torch.bfloat16):
        logits = model(inputs)
    ```

    Write `enabled=False` for a region that is meant to be off. float32 on CUDA is left alone: it lifts half weights.

    ## Fix safety
    The missing parentheses are added where the class needs no arguments; the code could only raise without them.

    ## References
    - <https://docs.pytorch.org/docs/stable/amp.html#torch.autocast>
    """

    code = "AMP106"
    name = "autocast-has-no-effect"
    severity = Severity.WARNING
    goes_by = ("arguments",)
    claims = (Claim(Sign.INERT),)
    screen = (
        (
            *(b"autocast", b"GradScaler", b"amp("),
            *(b"with torch.set_default_", b"with torch.set_float32_", b"with set_default_"),
        ),
    )
    assumed = ((b"autocast",),)
    fixable = Applicability.SAFE

    def __init__(self) -> None:
        self._regions = False
        self._scalers: list[DeviceFixed] = []
        self._entered: list[Autocast] = []
        self._disabled: list[DisabledForOneDevice] = []

    def on_device_fixed(self, event: DeviceFixed) -> Iterator[Report]:
        if event.scaler:
            self._scalers.append(event)
            return
        if event.asks:
            yield self._asked(event)
            return
        if event.listed:
            yield self.report(
                event,
                "this region is for the CPU on every device that the list leaves out",
                reason="On such a device nothing is cast.",
                advice="Pass the type of the device itself, and switch the region off where autocast is not available: "
                "`torch.amp.is_autocast_available(device_type)`.",
                severity=Severity.INFO,
                claims=(),
            )
            return
        self._regions = self._regions or not event.assumed
        alone = "wherever that is available" if event.by_availability else "alone"
        given = f"its work is given `{event.name}`" if event.chosen is not None else _kept_to_none(event)
        message = f"this region is for {event.device} {alone}, but {given}"
        reason = f"Where that is no {event.device} device, nothing is cast{_WARNS.get(event.device, '')}."
        yield self._fixed(event, message, reason)

    def on_disabled_for_one_device(self, event: DisabledForOneDevice) -> Iterator[Report]:
        self._disabled.append(event)
        yield from ()

    def on_script_end(self, event: ScriptEnd) -> Iterator[Report]:
        yield from self._protected()
        for scaler in () if self._regions else self._scalers[:1]:
            others = [region for region in self._entered if region.devices is None or region.devices - {scaler.device}]
            scales = any(region.dtypes == _FLOAT16 and not region.defaulted for region in others)
            unseen = () if scales else (Premise.REGION_THERE, Premise.FLOAT16_CHOSEN)
            given = f"the training is given `{scaler.name}`" if scaler.chosen is not None else _kept_to_none(scaler)
            message = f"this scaler is for {scaler.device} alone, but {given}"
            reason = f"Where that is no {scaler.device} device, losses are not scaled as they should be."
            yield self._fixed(scaler, message, reason, unseen)

    def _protected(self) -> Iterator[Report]:
        for event in self._disabled[:1]:
            others = dict.fromkeys(other.node for other in self._disabled if other.node is not event.node)
            yield self.report(
                event,
                f"this region {'keeps float32' if event.casts else 'switches autocast off'} on {event.device} alone",
                reason="Under a caller's region for another device, such as the CPU's, its work is still cast to half.",
                advice="Pass the type of the device of what it works on, such as `x.device.type`.",
                notes=[(other, "so does this one") for other in others],
                claims=(),
            )

    def _asked(self, event: DeviceFixed) -> Report:
        assert event.chosen is not None
        return self.report(
            event,
            f"this is the dtype of {event.device}'s regions alone, but the work is given `{event.name}`",
            reason=f"Under a region for another device than {event.device} it is a dtype that nothing is cast to.",
            advice=f"Ask for that device: `torch.get_autocast_dtype(torch.device({event.name}).type)`, and "
            "`torch.is_autocast_enabled(...)` in the same way.",
            notes=[(event.chosen, "the device is given here")],
            severity=Severity.INFO,
            claims=(),
        )

    def _fixed(self, event: DeviceFixed, message: str, reason: str, unseen: tuple[Premise, ...] = ()) -> Report:
        notes = [(event.chosen, "the device is given here")] if event.chosen is not None else []
        call = "torch.amp.GradScaler(" if event.scaler else "torch.autocast(device_type="
        device = f"torch.device({event.name})" if event.chosen is not None else "x.device"
        advice = f"Pass the type of that device: `{call}{device}.type{_other_arguments(event)})`."
        if not event.scaler and _names_float16(event):
            advice += " Leave the dtype to it: that of the CPU, bfloat16, needs no scaler."
        if event.to_numpy:
            advice = (
                f'Pass enabled={device}.type == "{event.device}": NumPy refuses the bfloat16 of the CPU\'s regions.'
            )
        return self.report(
            event,
            message,
            reason=reason,
            advice=advice,
            notes=notes,
            severity=Severity.INFO,
            claims=(),
            premises=unseen,
        )

    def on_autocast_unused(self, event: AutocastUnused) -> Iterator[Report]:
        if event.called:
            yield self.report(
                event,
                "this autocast context is never entered",
                reason="Building a context changes nothing; a `with` statement or a decorator has to enter it.",
                advice="Put the forward pass into a `with` statement with this context.",
                claims=(),
            )
        else:
            reason = "That raises TypeError: only the object that a call builds is a context."
            message, claims = "the autocast class is entered without being called", (Claim(Sign.RAISES),)
            yield self.report(event, message, reason=reason, advice="Call it.", claims=claims)

    def on_no_context(self, event: NoContext) -> Iterator[Report]:
        if event.module:
            message, reason = f"{event.api} is a module, and this calls it", "Only the class in it makes a context."
            advice = f"Call torch.amp.autocast, with the device type: it replaces {event.api}.autocast."
        elif event.called:
            message, reason = (
                f"this calls a context, {event.api}, that has been made already",
                "It needs a function to decorate.",
            )
            advice = "Leave the parentheses out."
        else:
            message, reason = (
                f"{event.api} is entered as a context",
                "It returns None and changes the setting for good.",
            )
            advice = "Call it as a statement, and call it again with the former value where that has to come back."
        reason = f"{reason} Python raises TypeError."
        claims = (Claim(Sign.RAISES),)
        yield self.report(event, message, reason=reason, advice=advice, severity=Severity.ERROR, claims=claims)

    def on_autocast_created(self, event: AutocastCreated) -> Iterator[Report]:
        devices = event.context.devices
        self._entered.append(event.context)
        argument, value = event.arguments.get("dtype", (None, None))
        dtype = DTYPES.get(value.name) if isinstance(value, Ref) else None
        spelled_out = argument is not None and isinstance(argument.value, cst.Attribute)
        wide = dtype is not None and dtype not in HALF_DTYPES and spelled_out and event.context.enabled != FALSE
        if wide and devices and devices <= WARNS_AND_SWITCHES_OFF:
            reason = f"PyTorch supports only float16 and bfloat16 here; with {dtype} it warns and casts nothing."
            advice = "Pass torch.bfloat16 or torch.float16, or enabled=False for a region that is meant to be off."
            message = f"autocast to {dtype} is switched off on this device type"
            yield self.report(event, message, reason=reason, advice=advice)
        elif event.float32_elsewhere is not None:
            yield self.report(
                event,
                "autocast to float32 is switched off on all devices but CUDA",
                reason="There PyTorch supports only float16 and bfloat16; with float32 it warns and casts nothing.",
                advice="Switch the region off where float32 is meant: pass enabled= with that condition.",
                notes=[(event.float32_elsewhere, "float32 is asked for here")],
                severity=Severity.INFO,
                claims=(),
            )
        elif dtype == "float16" and spelled_out and devices is None and event.context.enabled != FALSE:
            yield self.report(
                event,
                "this region is for float16 on whatever device it gets",
                reason="On the CPU PyTorch 2.2 takes bfloat16 alone: it warns and casts nothing.",
                advice="Leave the dtype to the device type, or choose it by that.",
                severity=Severity.INFO,
                claims=(),
                premises=[Premise.ANOTHER_DEVICE, Premise.OLD_ON_CPU],
            )

    def on_forward(self, event: Forward) -> Iterator[Report]:
        region, place = event.region, event.place
        if region is not None and region.devices and place is not None and place not in region.devices:
            message = f"this region is for {'/'.join(sorted(region.devices))}, but the model runs on {place}"
            notes, reason = [(event.node, "the model runs here")], "Autocast casts only on its own device type."
            yield self.report(event, message, reason=reason, advice=f'Pass "{place}".', at=region.node, notes=notes)

    def fix(self, event: Event, rewrite: Rewriter) -> Fix | None:
        if not isinstance(event, AutocastUnused) or event.called or AUTOCASTS.get(event.api) is None:
            return None
        return Fix("Call autocast", (rewrite.replace(event.node, f"{rewrite.text(event.node)}()"),))


def _other_arguments(event: DeviceFixed) -> str:
    """The arguments that the call keeps, by their keywords."""
    left_out = {"device_type", "dtype"} if _names_float16(event) else {"device_type"}
    given = event.node.args if isinstance(event.node, cst.Call) else ()
    names = [one.keyword.value for one in given if one.keyword is not None and one.keyword.value not in left_out]
    return "".join(f", {name}=..." for name in names)


def _names_float16(event: DeviceFixed) -> bool:
    """Whether a region is given float16 by its name."""
    given = event.node.args if isinstance(event.node, cst.Call) else ()
    return any(DTYPES.get(dotted(one.value) or "") == "float16" for one in given)


def _kept_to_none(event: DeviceFixed) -> str:
    """That the code around a region or a scaler can work on another device."""
    return f"nothing here keeps {event.name} to that device"
