"""AMP722."""

from __future__ import annotations

from collections.abc import Iterator

from amplint.findings import Severity
from amplint.rule import Report, Rule
from amplint.semantics.events import EngineConfigured
from amplint.semantics.values.values import TRUE, Const, Items, Value, number
from amplint.source import syntax as cst
from amplint.torchlib.deepspeed import OF_BFLOAT16, OF_FLOAT16, PRECISIONS, SCALE_POWER

HIGHEST_POWER = 24


class DeepspeedConfigContradiction(Rule):
    """A DeepSpeed configuration asks for precisions that exclude each other, or for a scale where there is none.

    ## Why is this bad?
    `"fp16"` and `"bf16"` cannot both be enabled: DeepSpeed ends with `AssertionError: bfloat16 and fp16 modes cannot be
    simultaneously enabled`. The block `"bf16"` has no scale of losses: its settings had no effect there, and since
    0.17.1 `deepspeed.initialize` raises `ValidationError: Extra inputs are not permitted`.

    An `initial_scale_power` of 32 is a scale of 4294967296, past which gradients above 0.000015 overflow in float16:
    the first steps are all skipped, until the scale has come down. That is an info; the default is 16.

    ## Example
    ```python
    config = {"train_batch_size": 8, "fp16": {"enabled": True}, "bf16": {"enabled": True, "loss_scale_window": 100}}
    engine, *_ = deepspeed.initialize(model=model, config=config)
    ```

    ## Use instead
    ```python
    config = {"train_batch_size": 8, "bf16": {"enabled": True}}
    engine, *_ = deepspeed.initialize(model=model, config=config)
    ```
    Nothing is reported of files in JSON, nor of blocks that are not written out.

    ## References
    - <https://www.deepspeed.ai/docs/config-json/>
    - <https://github.com/h2oai/h2o-llmstudio/pull/1063>
    - <https://github.com/deepspeedai/DeepSpeed/issues/1773>
    """

    code = "AMP722"
    name = "deepspeed-config-contradiction"
    severity = Severity.ERROR
    screen = (b"deepspeed", (b"config", b"TrainingArguments"), (b"fp16", b"bf16"), b"enabled")

    def on_engine_configured(self, event: EngineConfigured) -> Iterator[Report]:
        blocks = {name: block for name in PRECISIONS if isinstance(block := _get(event.config, name), Items)}
        if len(blocks) == len(PRECISIONS) and all(_get(block, "enabled") == TRUE for block in blocks.values()):
            yield self.report(
                event,
                "fp16 and bf16 are both enabled",
                reason="DeepSpeed raises: bfloat16 and fp16 modes cannot be simultaneously enabled.",
                advice="Enable one of them.",
                at=_written(event.written, "bf16"),
                notes=[(event.node, "this gets the configuration")],
            )
        for name in _names(blocks.get("bf16")) & OF_FLOAT16 - OF_BFLOAT16:
            yield self.report(
                event,
                f"bf16 has no setting {name}: nothing scales losses there",
                reason="DeepSpeed raises ValidationError since 0.17.1, and ignored it before.",
                advice="Leave it out.",
                at=_written(event.written, name),
                notes=[(event.node, "this gets the configuration")],
            )
        setting, default = SCALE_POWER
        power = number(_get(blocks.get("fp16"), setting))
        if power is not None and power > HIGHEST_POWER and _get(blocks.get("fp16"), "enabled") == TRUE:
            yield self.report(
                event,
                f"the first scale is 2**{power:g}: the first steps are skipped until it has come down",
                advice=f"Leave it at {default}.",
                at=_written(event.written, setting),
                severity=Severity.INFO,
            )


def _get(settings: Items | None, key: str) -> Value | None:
    keys = (settings.keys or ()) if settings is not None else ()
    return settings.values[keys.index(Const(key))] if settings is not None and Const(key) in keys else None


def _names(settings: Items | None) -> set[str]:
    keys = (settings.keys or ()) if settings is not None else ()
    return {key.value for key in keys if isinstance(key, Const) and isinstance(key.value, str)}


def _written(tree: cst.CSTNode, key: str) -> cst.CSTNode | None:
    """Where `key` stands in the dictionary that is written at `tree`."""
    todo = [tree]
    while todo:
        node = todo.pop()
        for element in node.elements if isinstance(node, cst.Dict) else ():
            if isinstance(element, cst.DictElement):
                if isinstance(element.key, cst.SimpleString) and element.key.evaluated_value == key:
                    return element.key
                todo.append(element.value)
    return None
