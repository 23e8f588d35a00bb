"""AMP410."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from amplint.edits.repairs import keep_in_float32
from amplint.findings import Applicability, Fix, Severity
from amplint.rule import Claim, Report, Rule, Sign
from amplint.semantics.events import Event, HalfLooped, HalfStepped
from amplint.torchlib.frameworks import TITLES

if TYPE_CHECKING:
    from amplint.source.rewrite import Rewriter

RATIO = {"float16": 2048, "bfloat16": 256}
_BY_LAUNCH = ", unless a launcher brings DeepSpeed or FSDP"


class HalfParametersTrained(Rule):
    """An optimizer updates parameters that are stored in half.

    ## Why is this bad?
    A weight has to keep the sum of many small updates. In float16 an update is lost altogether where it is less than
    1/2048 of the weight, in bfloat16 where it is less than 1/256 of it, and late in training most of them are: the loss
    stops falling, and nothing tells why. Mixed precision keeps float32 weights ("master weights") for this reason and
    computes with half copies of them, which is what autocast makes.

    ## Example
    ```python
    model = Net().cuda().bfloat16()
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-3)
    loss = loss_fn(model(inputs.bfloat16()), targets)
    ```

    ## Use instead
    ```python
    model = Net().cuda()
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-3)
    with torch.autocast("cuda", dtype=torch.bfloat16):
        loss = loss_fn(model(inputs), targets)
    ```
    Layers and parameters can also be made in half, by `dtype=`, or `params_dtype=` of Transformer Engine, and a model
    can hold another one that was converted or loaded in half. Nothing is reported where the optimizer is given float32
    copies of the parameters, or may keep copies of its own. Weights that were frozen in half, of which some are made
    trainable again, and those that a method of the model returns for the optimizer, are an info.

    The Trainer of Hugging Face, or Lightning's, updates half weights as well where it is asked for no mixed precision.
    A launcher may bring DeepSpeed or FSDP, which make float32 copies: this is an info.

    ## Fix safety
    Unsafe: the conversions to half go from the model and from what else is converted in the same functions. The model
    then takes twice the memory and runs in float32, until you put an autocast region around its forward pass.

    ## References
    - <https://arxiv.org/abs/1710.03740>
    """

    code = "AMP410"
    name = "half-parameters-trained"
    severity = Severity.WARNING
    claims = (Claim(Sign.HOLDS, ops=("step",)),)
    screen = ((b"half", b"float16"), (b".step(", b".train(", b".fit("), (b"optim", b"Trainer"))
    fixable = Applicability.UNSAFE

    def on_half_stepped(self, event: HalfStepped) -> Iterator[Report]:
        if event.shards is not None and event.shards.dtype == event.dtype:
            return  # AMP711 reports a policy that promises float32 weights
        yield self.report(
            event,
            f"the optimizer updates {event.dtype} parameters, of which there is no float32 copy",
            reason=f"{event.dtype} loses an update below 1/{RATIO[event.dtype]} of the weight{_decay(event)}.",
            advice="Keep the parameters in float32 and let autocast cast them.",
            at=event.cast,
            notes=[(event.made, "the optimizer is made here"), (event.node, "this step rounds the updates")],
        )

    def on_half_looped(self, event: HalfLooped) -> Iterator[Report]:
        told = f"{TITLES[event.kind_of_loop]} updates {event.dtype} weights, of which there is no float32 copy"
        yield self.report(
            event,
            told + _BY_LAUNCH,
            reason=f"{event.dtype} loses an update below 1/{RATIO[event.dtype]} of the weight.",
            advice="Keep the weights in float32 and ask for mixed precision.",
            severity=Severity.INFO,
            notes=[(event.cast, f"the weights become {event.dtype} here")],
        )

    def fix(self, event: Event, rewrite: Rewriter) -> Fix | None:
        if not isinstance(event, HalfStepped):
            return None
        return keep_in_float32(event, event.cast, rewrite)


def _decay(event: HalfStepped) -> str:
    """The remark that weight decay is lost, if it is for every weight: below half a step of the dtype."""
    lost = event.decay is not None and 0 < event.decay < 0.5 / RATIO[event.dtype]
    return f", and with it all of the weight decay: {event.decay:.1g} of the weight" if lost else ""
