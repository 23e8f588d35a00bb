"""Repairs of custom autograd functions: decorators that apply forward's autocast state to backward."""

from __future__ import annotations

from typing import TYPE_CHECKING

from amplint.findings import Applicability, Edit, Fix
from amplint.semantics.events import MixedBackward, PassRaises, Unpaired
from amplint.source import syntax as cst

if TYPE_CHECKING:
    from amplint.source.rewrite import Rewriter


def pair(event: Unpaired, rewrite: Rewriter) -> Fix | None:
    """Add the missing decorator of the pair, spelled and imported like the present one."""
    module, _, present = event.api.rpartition(".")
    kin = "custom_bwd" if present == "custom_fwd" else "custom_fwd"
    call = event.decorator if isinstance(event.decorator, cst.Call) else None
    spelled = call.func if call is not None else event.decorator
    imports: tuple[str, ...] = ()
    if not module or event.bound:
        whole = rewrite.text(spelled)
        text = f"{whole.removesuffix(present)}{kin}"
        named = isinstance(spelled, cst.Name) and text not in rewrite.source.text
        if named or not whole.endswith(present):
            return None
    elif isinstance(spelled, cst.Attribute):
        text = f"{rewrite.text(spelled.value)}.{kin}"
    else:
        text, imports = kin, (f"from {module} import {kin}",)
    device = rewrite.find_argument(call, "device_type") if call is not None else None
    if device is not None:
        text += f"(device_type={rewrite.text(device.value)})"
    edit = rewrite.replace(event.instead, text) if event.instead is not None else decorate(event.method, text, rewrite)
    return Fix(f"Decorate {event.method.name.value} with {kin}", (edit,), imports=imports) if edit else None


def decorate(method: cst.FunctionDef, text: str, rewrite: Rewriter) -> Edit | None:
    """Insert the decorator `text` directly above the `def` of `method`."""
    if not method.decorators:
        return rewrite.insert_before(method, f"@{text}")
    last = method.decorators[-1].decorator
    indentation = rewrite.row_before(rewrite.span(last).start)
    return rewrite.replace(last, f"{rewrite.text(last)}{rewrite.source.newline}{indentation}{text}")


def restore(event: MixedBackward | PassRaises, rewrite: Rewriter) -> Fix | None:
    """Decorate both passes, so that backward runs in the autocast state of forward."""
    forward = decorate(event.forward, f'torch.amp.custom_fwd(device_type="{event.device}")', rewrite)
    backward = decorate(event.backward, f'torch.amp.custom_bwd(device_type="{event.device}")', rewrite)
    if forward is None or backward is None:
        return None
    return Fix("Decorate both passes", (forward, backward), Applicability.UNSAFE, ("import torch",))
