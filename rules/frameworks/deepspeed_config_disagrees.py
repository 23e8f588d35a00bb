"""AMP723."""

from __future__ import annotations

from collections.abc import Iterator

from amplint.findings import Severity
from amplint.rule import Report, Rule
from amplint.semantics.events import EngineDisagrees, LaunchOverruled
from amplint.semantics.values.values import Const, Value


class DeepspeedConfigDisagrees(Rule):
    """A DeepSpeed configuration says another precision, clipping or accumulation than what starts it.

    ## Why is this bad?
    Hugging Face's Trainer compares the configuration with its own arguments and ends with `ValueError: Please correct
    the following DeepSpeed config values that mismatch TrainingArguments values` where they differ: `fp16.enabled` and
    `bf16.enabled` with `fp16` and `bf16`, `gradient_clipping` with `max_grad_norm` (1.0 by default), and
    `gradient_accumulation_steps`. `Accelerator(mixed_precision="bf16")` refuses a configuration in which `fp16` is
    enabled, and the other way round.

    `Trainer(precision="16-mixed")` of Lightning, with a configuration in its `DeepSpeedStrategy`, adds the block `fp16`
    where it is missing. Where `bf16` is enabled, both then are, and DeepSpeed ends with `AssertionError: bfloat16 and
    fp16 modes cannot be simultaneously enabled`. The same goes for `"bf16-mixed"` and `fp16`.

    A file for `accelerate launch` that names a `deepspeed_config_file` leaves precision, clipping and accumulation to
    that file: where it sets them as well, `Accelerator()` ends with `ValueError: When using deepspeed_config_file, the
    following accelerate config variables will be ignored`.

    ## Example
    ```python
    args = TrainingArguments("out", bf16=True, deepspeed="ds_config.json")  # with {"fp16": {"enabled": true}, ...}
    ```

    ## Use instead
    ```python
    args = TrainingArguments("out", bf16=True, deepspeed="ds_config.json")  # with {"bf16": {"enabled": "auto"}, ...}
    ```
    Configurations are dictionaries in the script, and files that it names. Nothing is reported of settings that are
    `"auto"`, and of arguments that are not constants.

    ## References
    - <https://huggingface.co/docs/transformers/deepspeed>
    - <https://huggingface.co/docs/accelerate/usage_guides/deepspeed>
    - <https://github.com/shibing624/MedicalGPT/issues/191>
    - <https://github.com/huggingface/transformers/issues/39849>
    """

    code = "AMP723"
    name = "deepspeed-config-disagrees"
    severity = Severity.ERROR
    screen = (
        (b"deepspeed", b"DeepSpeed"),
        (b"TrainingArguments", b"Config(", b"DeepSpeedPlugin", b"DeepSpeedStrategy"),
    )
    configs = True

    def on_engine_disagrees(self, event: EngineDisagrees) -> Iterator[Report]:
        ours, theirs = _shown(event.ours), _shown(event.theirs)
        adds = event.argument == "precision"
        yield self.report(
            event,
            f"{event.starter} has {event.argument}={ours}, and DeepSpeed's configuration {event.setting}={theirs}",
            reason="DeepSpeed raises AssertionError: fp16 and bf16 are enabled at once, since the Trainer adds its own."
            if adds
            else "It ends with ValueError as training begins: the two must say the same.",
            advice="Leave both blocks out of the configuration."
            if adds
            else 'Write "auto" in the configuration, which then goes by the argument.',
            notes=[(event.written, f"{event.setting} is {theirs} here")],
        )

    def on_launch_overruled(self, event: LaunchOverruled) -> Iterator[Report]:
        yield self.report(
            event,
            f"{event.setting} is set beside deepspeed_config_file, which alone may set it",
            reason="Accelerator() raises ValueError: ... the following accelerate config variables will be ignored.",
            advice="Leave it out here, and set it in DeepSpeed's own file.",
            notes=[(event.file, "DeepSpeed's own file is named here")],
        )


def _shown(value: Value) -> str:
    return repr(value.value) if isinstance(value, Const) else "another value"
