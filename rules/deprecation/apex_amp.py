"""AMP702."""

from __future__ import annotations

from collections.abc import Iterator

from amplint.findings import Severity
from amplint.rule import Report, Rule
from amplint.semantics.events import ApiUse
from amplint.source import syntax as cst
from amplint.torchlib.legacy import APEX, APEX_MODULES


class ApexAmp(Rule):
    """Mixed precision comes from NVIDIA's apex (`apex.amp`, `apex.fp16_utils`).

    ## Why is this bad?
    NVIDIA no longer maintains `apex.amp`: PyTorch's own autocast and GradScaler took its place in 2020. It has to be
    built for each version of PyTorch and CUDA, patches PyTorch's functions while the program runs, and knows neither
    bfloat16 nor `torch.compile`.

    ## Example
    ```python
    from apex import amp

    model, optimizer = amp.initialize(model, optimizer, opt_level="O1")
    for inputs, targets in loader:
        optimizer.zero_grad()
        loss = criterion(model(inputs), targets)
        with amp.scale_loss(loss, optimizer) as scaled_loss:
            scaled_loss.backward()
        torch.nn.utils.clip_grad_norm_(amp.master_params(optimizer), 1.0)
        optimizer.step()
    ```

    ## Use instead
    ```python
    scaler = torch.amp.GradScaler("cuda")
    for inputs, targets in loader:
        optimizer.zero_grad()
        with torch.autocast("cuda"):
            loss = criterion(model(inputs), targets)
        scaler.scale(loss).backward()
        scaler.unscale_(optimizer)
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        scaler.step(optimizer)
        scaler.update()
    ```
    There is one finding for a file, at the first place that uses apex; its notes are the other places, so that none is
    forgotten. An import that only stands in for a missing `torch.amp` is left alone, and so are `apex.parallel`,
    `apex.optimizers` and `apex.normalization`.

    ## References
    - <https://nvidia.github.io/apex/amp.html>
    - <https://docs.pytorch.org/docs/stable/notes/amp_examples.html>
    """

    code = "AMP702"
    name = "apex-amp"
    severity = Severity.INFO
    anywhere = True
    once = True
    screen = (b"apex", (b"amp", b"fp16_utils"))
    reason = "PyTorch's own autocast and GradScaler took its place; it is no longer maintained."

    def on_api_use(self, event: ApiUse) -> Iterator[Report]:
        imported = isinstance(event.node, cst.ImportAlias)
        module = next((module for module in APEX_MODULES if f"{event.name}.".startswith(f"{module}.")), None)
        if module is None or ".__" in event.name or (event.name.count(".") != module.count(".") + 1 and not imported):
            return
        successor = APEX.get(event.name, "torch.autocast and torch.amp.GradScaler")
        yield self.report(event, f"{event.name} is no longer maintained", advice=f"Use {successor}.")
