"""AMP411."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from amplint.edits.repairs import keep_in_float32
from amplint.findings import Applicability, Fix, Severity
from amplint.rule import Claim, Report, Rule, Sign
from amplint.semantics.events import Event, Forward, Purpose

if TYPE_CHECKING:
    from amplint.source.rewrite import Rewriter


class NormLayerInHalf(Rule):
    """Batch normalisation trains with running statistics in half.

    ## Why is this bad?
    `model.half()` converts the running mean and variance of batch normalisation too. Each forward pass in training adds
    a small part of the batch's own to them: in float16 a variance past 65504 is infinite, after which the layer
    gives 0 in evaluation, and in bfloat16 the averages stop moving while they are still 2% or more from where they
    should be, the further the smaller `momentum` is. Layers of other norms keep no statistics; that an optimizer
    updates their half weights is AMP410's to tell.

    ## Example
    ```python
    model = models.resnet50().cuda().half()
    loss = loss_fn(model(images.half()).float(), labels)
    loss.backward()
    ```

    ## Use instead
    ```python
    model = models.resnet50().cuda()
    with torch.autocast("cuda", dtype=torch.float16):
        loss = loss_fn(model(images), labels)
    loss.backward()
    ```
    Where the model has to be half, convert the layers back: `if isinstance(layer, nn.BatchNorm2d): layer.float()`.
    PyTorch takes half inputs to float32 batch normalisation.

    ## Fix safety
    The fix takes the conversion away. The model then runs in float32, until you put an autocast region around it, and
    inputs that are converted elsewhere have to stay float32 too.

    ## References
    - <https://arxiv.org/abs/1710.03740>
    """

    code = "AMP411"
    name = "norm-layer-in-half"
    severity = Severity.WARNING
    goes_by = ("purpose", "statistics", "weights_cast")
    claims = (Claim(Sign.TAKES, ops=("batch_norm", "native_batch_norm")),)
    screen = ((b"half(", b"float16"), (b"BatchNorm", b"torchvision"), b"backward(")
    fixable = Applicability.UNSAFE
    reason = "Running averages lose small changes in half, and a variance past 65504 is infinite in float16."

    def on_forward(self, event: Forward) -> Iterator[Report]:
        trains = event.purpose is Purpose.TRAINING and event.training is not False
        if trains and event.statistics and event.weights_cast is not None:
            yield self.report(
                event,
                "the running statistics of batch normalisation are half while the model trains",
                advice="Keep the model in float32 and use autocast, or convert the layers back with .float().",
                at=event.weights_cast,
                notes=[(event.node, "this forward pass updates them")],
            )

    def fix(self, event: Event, rewrite: Rewriter) -> Fix | None:
        assert isinstance(event, Forward)
        return keep_in_float32(event, event.weights_cast, rewrite)
