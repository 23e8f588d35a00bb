"""Mixed precision of libraries: their own casts, loss scaling, division and clipping, by version.

`docs/today.md` is generated from this table, and `tests/test_practice.py` compares the installed libraries.
"""

from __future__ import annotations

from amplint.records import dataclass
from amplint.torchlib.sharding import FULLY_SHARD, WRAPPER


@dataclass(frozen=True, slots=True)
class Practice:
    """The behaviour of a library with mixed precision requested by `asked`, in the `versions` that were read.

    `casts`, `scales`, `divides` and `clips` are about weights and values, the loss, the loss again (over micro-batches)
    and gradients. `manager` is the kind of its objects in `frameworks`, and with `divided` their `backward` divides the
    loss. `key` names the entry.
    """

    key: str
    title: str
    versions: str
    asked: str
    casts: str
    scales: str
    divides: str
    clips: str
    source: str
    manager: str = ""
    divided: bool = False


PRACTICES = (
    Practice(
        "autocast",
        "PyTorch alone",
        "torch 2.5 to 2.15",
        '`torch.autocast("cuda", dtype=...)` around forward pass and loss',
        casts="The operands of each operation, by the lists of the device. Weights stay as they are; the casts of "
        "those that need gradients are kept until the outermost region ends.",
        scales="Nothing: `scaler.scale(loss)` of a `GradScaler` is for float16.",
        divides="Nothing: the script does.",
        clips="Nothing: `clip_grad_norm_` behind `scaler.unscale_(optimizer)`.",
        source="<https://docs.pytorch.org/docs/stable/amp.html>",
    ),
    Practice(
        "fully_shard",
        "FSDP2: `fully_shard`",
        f"torch 2.13, which has it since {FULLY_SHARD.since}",
        "`fully_shard(model, mp_policy=MixedPrecisionPolicy(...))`",
        casts="Weights to `param_dtype` for each pass, inputs too, outputs to `output_dtype` if there is one. No "
        "autocast: a loss gets what the model returns. Buffers stay. Weights, gradients and the optimizer's "
        "state are kept in the dtype that the weights came in. Gradients are added up in `reduce_dtype`, "
        "else in `param_dtype`.",
        scales="Nothing: `GradScaler` for float16.",
        divides="By the number of ranks, not by that of micro-batches.",
        clips="Nothing: `torch.nn.utils.clip_grad_norm_` knows the norm over all ranks.",
        source=f"<{FULLY_SHARD.source}>",
    ),
    Practice(
        "fsdp",
        "FSDP1: `FullyShardedDataParallel`",
        f"torch 2.13, which has it since {WRAPPER.since}",
        "`FullyShardedDataParallel(model, mixed_precision=MixedPrecision(...))`",
        casts="Weights to `param_dtype` for each pass, inputs too, and buffers to `buffer_dtype`. No autocast. "
        "Weights and the optimizer's state are kept in the dtype that the weights came in. Gradients are "
        "added up in `reduce_dtype`, else in `param_dtype`.",
        scales="Nothing: `ShardedGradScaler` for float16.",
        divides="By the number of ranks, not by that of micro-batches.",
        clips="Nothing: `model.clip_grad_norm_()`; PyTorch's function sees one rank's part.",
        source=f"<{WRAPPER.source}>",
    ),
    Practice(
        "deepspeed",
        "DeepSpeed",
        "deepspeed 0.16 to 0.19.6",
        'the blocks `"fp16"`, `"bf16"` and `"torch_autocast"` of its configuration',
        casts='`"fp16"` and `"bf16"` convert the model; the optimizer updates float32 copies of its weights. No '
        'autocast, but for `"torch_autocast"`.',
        scales='With `"fp16"`, in `engine.backward()`.',
        divides="By `gradient_accumulation_steps`, in `engine.backward()`.",
        clips="To `gradient_clipping` of the configuration, in `engine.step()`; without it nothing is clipped.",
        source="`runtime/engine.py`, `runtime/torch_autocast.py`",
    ),
    Practice(
        "accelerate",
        "Accelerate",
        "accelerate 0.12 to 1.15",
        '`Accelerator(mixed_precision="fp16" or "bf16")`, or its launcher\'s file',
        casts="Autocast around the forward pass of a prepared model, whose outputs become float32. Weights stay "
        "as they are, unless DeepSpeed or FSDP runs.",
        scales='With `"fp16"`, in `accelerator.backward()`.',
        divides="By `gradient_accumulation_steps`, in `accelerator.backward()`.",
        clips="`accelerator.clip_grad_norm_()` unscales and clips wherever it is called, and belongs under `if "
        "accelerator.sync_gradients:`. With DeepSpeed it does nothing.",
        source="`Accelerator.backward`, `Accelerator.prepare_model`",
        manager="accelerate",
        divided=True,
    ),
    Practice(
        "fabric",
        "Fabric",
        "lightning 2.0 to 2.6",
        '`Fabric(precision="16-mixed", "bf16-mixed", "16-true" or "bf16-true")`',
        casts="`-mixed`: autocast around the forward pass of a model from `setup()`, whose outputs become "
        "float32. `-true`: the weights themselves, and no copy is kept.",
        scales='With `"16-mixed"`, in `fabric.backward()`; not with `"16-true"`.',
        divides="Nothing: the script does.",
        clips="`fabric.clip_gradients()` unscales first.",
        source="`MixedPrecision` and `HalfPrecision` in `fabric/plugins/precision`",
        manager="fabric",
    ),
    Practice(
        "lightning",
        "Lightning's Trainer",
        "lightning 2.0 to 2.6",
        '`Trainer(precision="16-mixed", "bf16-mixed", "16-true" or "bf16-true")`',
        casts="`-mixed`: autocast around `training_step`, the loss included. `-true`: the weights themselves, and "
        "no copy is kept. `predict()` returns what `predict_step` does, without a conversion.",
        scales='With `"16-mixed"`; not with `"16-true"`.',
        divides="By `accumulate_grad_batches`, unless the module optimises by hand.",
        clips="To `gradient_clip_val`, unscaled. `self.clip_gradients()` of a module that optimises by hand takes "
        "gradients with the scale in them.",
        source="`MixedPrecision.optimizer_step`, `LightningModule.clip_gradients`",
    ),
    Practice(
        "transformers",
        "Hugging Face's Trainer",
        "transformers 4.30 to 5.24",
        "`TrainingArguments(fp16=True or bf16=True)`",
        casts="Autocast by Accelerate. Weights stay in the dtype in which `from_pretrained` has loaded them.",
        scales="With `fp16`, by Accelerate.",
        divides="By the number of micro-batches. Since 4.46 by that of tokens, where the model takes "
        "`num_items_in_batch`.",
        clips="To `max_grad_norm`, 1.0 unless said otherwise; with DeepSpeed to its `gradient_clipping` alone.",
        source="`Trainer.training_step`",
    ),
    Practice(
        "torchao",
        "Float8 by torchao",
        "torchao 0.18",
        "`convert_to_float8_training(model, module_filter_fn=...)`",
        casts="Operands of each linear layer that the filter lets through, all without one, to float8 with a "
        "scale of their own. Weights stay as they are.",
        scales="Nothing, and nothing needs it.",
        divides="Nothing: the script does.",
        clips="Nothing.",
        source="<https://docs.pytorch.org/ao/stable/api_reference/api_ref_float8.html>",
    ),
    Practice(
        "transformer_engine",
        "Float8 by Transformer Engine",
        "transformer_engine 0.6 to 2.10",
        "`with te.fp8_autocast(enabled=True):`, since 2.8 `te.autocast`, around the forward pass of its layers",
        casts="Operands of its own layers in the region, to float8 by a recipe. The backward pass belongs outside. "
        "Weights stay in `params_dtype`, float32 without it, and are what the optimizer updates.",
        scales="Nothing, and nothing needs it.",
        divides="Nothing: the script does.",
        clips="Nothing.",
        source="<https://docs.nvidia.com/deeplearning/transformer-engine/user-guide/examples/fp8_primer.html>",
    ),
)
