"""AMP722."""

from __future__ import annotations

from collections.abc import Iterator

from amplint.findings import Severity
from amplint.rule import Report, Rule
from amplint.semantics.configs.display import dictionaries, find, get, names
from amplint.semantics.events import EngineConfigured
from amplint.semantics.values.values import TRUE, Items, number
from amplint.source import syntax as cst
from amplint.torchlib.changes import SETTINGS_CHECKED
from amplint.torchlib.deepspeed import CASTS_OF_FLOAT16, KNOWN_BY, OF_BFLOAT16, OF_FLOAT16, PRECISIONS, SCALE_POWER
from amplint.torchlib.versions import assumed

HIGHEST_POWER = 24


class DeepspeedConfigContradiction(Rule):
    """A DeepSpeed configuration asks for precisions that exclude each other, or for a scale where there is none.

    ## Why is this bad?
    `"fp16"` and `"bf16"` cannot both be enabled: DeepSpeed ends with `AssertionError: bfloat16 and fp16 modes cannot be
    simultaneously enabled`. The block `"bf16"` has no scale of losses, and no `auto_cast` of inputs: these settings of
    the block `"fp16"` had no effect there, and since 0.17.1 `deepspeed.initialize` raises `ValidationError: Extra
    inputs are not permitted`. Where the project asks for older versions alone, in a lock file, its requirements or
    pyproject.toml, that is a warning.

    An `initial_scale_power` of 32 is a scale of 4294967296, past which gradients above 0.000015 overflow in float16:
    the first steps are all skipped, until the scale has come down. That is an info; the default is 16.

    The configuration is a dictionary in the script, or a file in JSON or YAML: one that a linted script names, or one
    that is given to amplint itself. A dictionary that a function returns needs no engine in sight, if a setting such as
    `"zero_optimization"` tells what it is for.

    ## Example
    ```json
    {
      "train_batch_size": 8,
      "fp16": {"enabled": true},
      "bf16": {"enabled": true, "loss_scale_window": 100}
    }
    ```

    ## Use instead
    ```json
    {
      "train_batch_size": 8,
      "bf16": {"enabled": true}
    }
    ```
    Nothing is reported of blocks that are not written out.

    ## References
    - <https://www.deepspeed.ai/docs/config-json/>
    - <https://github.com/h2oai/h2o-llmstudio/pull/1063>
    - <https://github.com/deepspeedai/DeepSpeed/issues/1773>
    """

    code = "AMP722"
    name = "deepspeed-config-contradiction"
    severity = Severity.ERROR
    screen = (
        (b"deepspeed", b"DeepSpeedStrategy", *sorted(map(str.encode, KNOWN_BY))),
        (b"config", b"TrainingArguments", *sorted(map(str.encode, KNOWN_BY))),
        (b"fp16", b"bf16"),
        b"enabled",
    )
    configs = True

    def on_engine_configured(self, event: EngineConfigured) -> Iterator[Report]:
        blocks = {name: block for name in PRECISIONS if isinstance(block := get(event.config, name), Items)}
        notes = [(event.node, "this gets the configuration")] if isinstance(event.node, cst.Call) else []
        if len(blocks) == len(PRECISIONS) and all(get(block, "enabled") == TRUE for block in blocks.values()):
            yield self.report(
                event,
                "fp16 and bf16 are both enabled",
                reason="DeepSpeed raises: bfloat16 and fp16 modes cannot be simultaneously enabled.",
                advice="Enable one of them.",
                at=_written(event, "bf16"),
                notes=notes,
            )
        asked = event.version
        refused = asked.has(SETTINGS_CHECKED) if asked is not None else None
        for name in sorted(names(blocks.get("bf16")) & (OF_FLOAT16 | CASTS_OF_FLOAT16) - OF_BFLOAT16):
            why = ": nothing scales losses there" if name in OF_FLOAT16 else ", which is one of fp16"
            yield self.report(
                event,
                f"bf16 has no setting {name}{why}",
                reason="DeepSpeed raises ValidationError since 0.17.1, and ignored it before; "
                + f"{assumed(SETTINGS_CHECKED, asked)}.",
                advice="Leave it out.",
                at=_written(event, "bf16", name),
                notes=notes,
                severity=Severity.WARNING if refused is False else None,
            )
        setting, default = SCALE_POWER
        power = number(get(blocks.get("fp16"), setting))
        if power is not None and power > HIGHEST_POWER and get(blocks.get("fp16"), "enabled") == TRUE:
            yield self.report(
                event,
                f"the first scale is 2**{power:g}: the first steps are skipped until it has come down",
                advice=f"Leave it at {default}.",
                at=_written(event, "fp16", setting),
                severity=Severity.INFO,
            )


def _written(event: EngineConfigured, block: str, *keys: str) -> cst.CSTNode:
    """The key of an entry of a block, or of the block itself, else the display that should have it."""
    alone = (event.blocks or {}).get(block)
    tree, keys = (event.written, (block, *keys)) if alone is None else (alone, keys)
    found = (find(inner, *keys) for inner in dictionaries(tree))
    entry = next(filter(None, found), None)
    return entry.key if entry is not None else tree
