"""AMP704."""

from __future__ import annotations

from collections.abc import Iterator

from amplint.findings import Severity
from amplint.rule import Report, Rule
from amplint.semantics.events import InertDecorator


class DecoratorInert(Rule):
    """mmcv's `auto_fp16` or `force_fp32` decorates a module that never sets `fp16_enabled`.

    ## Why is this bad?
    Both decorators ask the module for its attribute `fp16_enabled`, and do nothing where there is none.
    `wrap_fp16_model`, too, switches on only modules that have it. The method then runs in whatever dtype its arguments
    have: float32 where float16 was meant, or float16 in a loss that was meant for float32. Nothing warns.

    ## Example
    ```python
    class Head(nn.Module):
        def __init__(self):
            super().__init__()
            self.conv = nn.Conv2d(256, 80, 1)

        @auto_fp16()
        def forward(self, features):
            return self.conv(features)
    ```

    ## Use instead
    ```python
    class Head(nn.Module):
        def __init__(self):
            super().__init__()
            self.conv = nn.Conv2d(256, 80, 1)
            self.fp16_enabled = False  # wrap_fp16_model switches it on
    ```
    Nothing is reported where a base class is not visible, nor for an abstract class: either leaves it to another class
    to set the attribute.

    ## References
    - <https://mmcv.readthedocs.io/en/v1.7.0/api.html#mmcv.runner.auto_fp16>
    """

    code = "AMP704"
    name = "decorator-inert"
    severity = Severity.WARNING
    screen = ((b"auto_fp16", b"force_fp32"), b"mm")
    reason = "The decorator does nothing for an object without that attribute, and wrap_fp16_model does not add it."

    def on_inert_decorator(self, event: InertDecorator) -> Iterator[Report]:
        yield self.report(
            event,
            f"{event.name} has no effect: this module never sets fp16_enabled",
            advice="Set self.fp16_enabled = False in __init__; wrap_fp16_model switches it on.",
        )
