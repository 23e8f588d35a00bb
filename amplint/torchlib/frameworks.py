"""Frameworks that scale losses and step optimizers themselves, and the names that create or refer to their objects."""

from __future__ import annotations

from amplint.regex import regex
from amplint.torchlib.practice import PRACTICES

LIBRARIES = ("accelerate", "lightning", "lightning_fabric", "pytorch_lightning", "transformers", "trl")
"""The packages of frameworks with a setting for mixed precision."""
MANAGERS = {
    "accelerate.Accelerator": "accelerate",
    "accelerate.accelerator.Accelerator": "accelerate",
    "lightning.Fabric": "fabric",
    "lightning.fabric.Fabric": "fabric",
    "lightning.fabric.fabric.Fabric": "fabric",
    "lightning_fabric.Fabric": "fabric",
    "lightning_fabric.fabric.Fabric": "fabric",
}
"""Qualified name of a class -> the framework."""

XLA = "torch_xla."
"""Prefix of functions that step the optimizer passed to them, on TPUs; such a step has no GradScaler."""

PRECISION_PARAMETER = {"accelerate": "mixed_precision", "fabric": "precision"}
PRECISIONS = {
    "no": "float32", "32": "float32", "32-true": "float32", 32: "float32",
    "fp16": "float16", "16-mixed": "float16", 16: "float16", "16": "float16",
    "bf16": "bfloat16", "bf16-mixed": "bfloat16",
}  # fmt: skip
"""The frameworks' names of a mixed precision -> the dtype of its autocast regions, float32 for none."""

DIVIDING = frozenset(practice.manager for practice in PRACTICES if practice.manager and practice.divided)
"""Frameworks whose `backward` divides the loss by the configured number of micro-batches.

Source: `Accelerator.backward`, unchanged from accelerate 0.12 to 1.15; DeepSpeed, which it can run, divides as well.
"""
WINDOW = "accumulate"
"""The method by which such a framework begins a micro-batch; its prepared optimizers step at the end of a window."""
CLIPPING = frozenset({"clip_grad_norm_", "clip_grad_value_"})
"""Methods that unscale and clip at once, whether or not a window ends (accelerate 0.12 to 1.15).

Under DeepSpeed, which clips itself, they do nothing.
"""
UNSCALING = "unscale_gradients"
"""Method that unscales the gradients of all prepared optimizers, as clipping does first (accelerate 0.12 to 1.15)."""
PREPARING = frozenset({"prepare", "prepare_model", "prepare_optimizer", "setup", "setup_module", "setup_optimizers"})
"""Methods that return their arguments prepared for the framework's step."""

LAUNCHING = "launch"
"""Method of Fabric that runs a function in its processes, with itself as the first argument.

Source: `Fabric.launch` and `Fabric._wrap_and_launch` of lightning 2.0 to 2.6.
"""
UNWRAPPING = "unwrap_model"
"""Method that returns the model without the wrapper of the framework."""
NEUTRAL_METHODS = frozenset(
    {
        *("accumulate", "no_sync", "join_uneven_inputs", "main_process_first", "local_main_process_first", "profile"),
        *("gather", "gather_for_metrics", "reduce", "pad_across_processes", "all_gather", "all_reduce", "barrier"),
        *("print", "log", "log_dict", "wait_for_everyone", "init_trackers", "get_tracker", "end_training"),
        *("save", "save_state", "save_model", "get_state_dict", "register_for_checkpointing", "skip_first_batches"),
    }
)
"""Other methods, which do not affect models, optimizers and gradients."""
COLLECTING = frozenset({"gather", "gather_for_metrics", "reduce", "pad_across_processes", "all_gather", "all_reduce"})
"""Those that return the tensors of all ranks in the dtype of the given ones.

Source: `gather`, `reduce` and `pad_across_processes` in `utils/operations.py` of accelerate 0.12 to 1.15, `all_gather`
and `all_reduce` of lightning 2.0 to 2.6, where `reduce` divides in that dtype.
"""

TITLES = {
    "accelerate": "the Accelerator", "fabric": "Fabric", "lightning": "Lightning", "deepspeed": "DeepSpeed",
    "loop": "the Trainer", "lightning loop": "the Trainer", "half loop": "the Trainer",
}  # fmt: skip
INSTEAD = {
    "accelerate": {"backward": "accelerator.backward(loss)", "clip_grad_norm_": "accelerator.clip_grad_norm_(...)",
                   "clip_grad_value_": "accelerator.clip_grad_value_(...)"},
    "fabric": {"backward": "fabric.backward(loss)", "clip_grad_norm_": "fabric.clip_gradients(..., max_norm=...)",
               "clip_grad_value_": "fabric.clip_gradients(..., clip_val=...)"},
    "lightning": {"backward": "self.manual_backward(loss)"}, "loop": {"backward": "self.accelerator.backward(loss)"},
}  # fmt: skip
"""Framework -> PyTorch's call -> its equivalent in the framework."""

LIGHTNING_PACKAGES = frozenset({"lightning", "pytorch_lightning"})
LIGHTNING_GPUS = frozenset({"gpu", "cuda"})
"""Accelerators of Lightning that raise without a GPU.

Source: `_AcceleratorConnector` of lightning 2.0 to 2.6, whose regions of mixed precision are for CUDA with either.
"""
LOOPS = {"loop": "train", "lightning loop": "fit", "half loop": "fit"}
"""Kind of an object that runs the training loop -> its method that does."""
WITHOUT_PARAMETERS = ("Tokenizer", "TokenizerFast", "Processor", "FeatureExtractor")
"""Ends of the names of classes of transformers that are no models."""
FEATURE_EXTRACTORS = ("ImageProcessor", "ImageProcessorFast", "FeatureExtractor")
"""Ends of the names of those that return nothing but pictures or sounds."""
EXTRACTED = frozenset({"pixel_values", "pixel_values_videos", "input_features", "input_values"})
"""The pictures and sounds among what processors of transformers return, which are float32.

Source: `BatchFeature.to` of transformers, which converts them only to a dtype that it is given.
"""
CONFIGURED_BY_LAUNCHERS = frozenset({"accelerate", "fabric", "loop"})
"""Kinds of objects that take DeepSpeed or FSDP from the command that launches the script.

Source: `accelerate launch` sets `ACCELERATE_USE_DEEPSPEED` and `ACCELERATE_USE_FSDP`, which `AcceleratorState` reads
(accelerate 1.15, `state.py`), also for the `Accelerator` of transformers' Trainer; Lightning's `fabric run`.
"""
PREDICTS = "predict"
"""The method of Lightning's loop that returns a list of what `predict_step` does, in the precision of training.

Source: `MixedPrecision.predict_step_context` and `HalfPrecision.forward_context` of lightning 2.0 to 2.6.
"""
ALL_HALF = {"16-true": "float16", "bf16-true": "bfloat16"}
"""Precisions of Lightning that cast the module, and scale no loss -> the dtype.

Source: `HalfPrecision.convert_module` of lightning 2.1 to 2.6, which has no `pre_backward` of its own; that of Fabric
and that of the Trainer are alike.
"""
_REPLICATING = ("ddp", "ddp_spawn", "ddp_fork", "ddp_notebook")
_UNUSED = ("_find_unused_parameters_true", "_find_unused_parameters_false")
PLAIN_STRATEGIES = frozenset({"auto", *_REPLICATING, *(name + unused for name in _REPLICATING for unused in _UNUSED)})
"""Strategies that leave the precision to Lightning.

Source: `DDPStrategy.register_strategies` of lightning 2.0 to 2.6; a `DDPStrategy` has no precision of its own either.
"""
PLAIN_STRATEGY = "DDPStrategy"
SHARDING_STRATEGIES = frozenset({"fsdp", "fsdp_cpu_offload"})
"""Strategies that convert the module as well for one of the precisions `ALL_HALF`, and scale no loss.

Source: `FSDPPrecision.convert_module` and its scaler, for "16-mixed" alone, in `fabric/plugins/precision/fsdp.py` and
`pytorch/plugins/precision/fsdp.py` of lightning 2.1 to 2.6.
"""
SHARDING_STRATEGY = "FSDPStrategy"
BY_HAND = frozenset({"clip_gradients"})
"""Methods of a Lightning module that do not unscale gradients; the loop does so in its optimizers' `step()`.

Source: `LightningModule.clip_gradients` and `MixedPrecision.optimizer_step` of lightning 2.0 to 2.6. With automatic
optimization, the loop clips after that.
"""
SCALED_IN = "on_after_backward"
"""The hook of a Lightning module that runs between the backward pass and the unscaling of gradients.

Source: `LightningModule.on_after_backward` of lightning 1.5 to 2.6.
"""
UNSCALED_IN = frozenset({"on_before_optimizer_step"})
"""Hooks of a Lightning module that run between the unscaling of gradients and the optimizer's step.

Source: `MixedPrecision.optimizer_step` and `_after_closure` of lightning 2.0 to 2.6.
"""
ROUNDING = frozenset(
    {
        *("adamw_torch", "adamw_torch_fused", "adamw_hf", "adamw_apex_fused", "adafactor", "sgd"),
        *("adamw_8bit", "adamw_bnb_8bit", "paged_adamw_8bit", "paged_adamw_32bit"),
    }
)
"""Values of `TrainingArguments(optim=...)` for optimizers that round each update to the dtype of its weight.

The first is the default. Source: `OptimizerNames` of transformers 4.30 to 5.23; others compensate, or are unknown.
"""
MATCHED = {
    "fp16.enabled": ("fp16", False),
    "bf16.enabled": ("bf16", False),
    "gradient_clipping": ("max_grad_norm", 1.0),
    "gradient_accumulation_steps": ("gradient_accumulation_steps", 1),
}
"""Setting of DeepSpeed's configuration, unless "auto" -> the equivalent argument of `TrainingArguments`, with its
default.

If they differ, training raises ValueError at its start. Source: `HfTrainerDeepSpeedConfig` in transformers 4.30 to
5.23, in which `fp16_full_eval` and `bf16_full_eval` count as well.
"""
ALSO_HALF = frozenset({"fp16_full_eval", "bf16_full_eval", "half_precision_backend", "fp16_backend", "fp16_opt_level"})
"""Arguments that change the required values of these."""
ASKING_FOR_BFLOAT16 = frozenset({"is_bf16_supported", "is_torch_bf16_gpu_available", "is_bfloat16_supported"})
"""Functions of PyTorch, transformers and unsloth that say whether the device computes in bfloat16."""
LAUNCHED_BY = frozenset({"compute_environment", "distributed_type"})
"""The settings that identify a file as one that `accelerate config` writes and `accelerate launch` reads."""
DEEPSPEED_FILE = "deepspeed_config_file"
"""The setting of `deepspeed_config` there with the path of DeepSpeed's own configuration.

With it, none of `LEFT_TO_FILE` may be set, nor a mixed precision: `Accelerator()` raises ValueError. Source:
`DeepSpeedPlugin._deepspeed_config_checks` and `commands/launch.py` of accelerate 0.17 to 1.15.
"""
LEFT_TO_FILE = (
    *("gradient_accumulation_steps", "gradient_clipping", "zero_stage", "zero3_save_16bit_model"),
    *("offload_optimizer_device", "offload_param_device", "offload_optimizer_nvme_path", "offload_param_nvme_path"),
)
TRAINING_SETTINGS = frozenset(
    {
        *("per_device_train_batch_size", "per_device_eval_batch_size", "max_grad_norm", "output_dir"),
        *("num_train_epochs", "lr_scheduler_type"),
    }
)
"""Settings of which two identify a file as arguments of Hugging Face's Trainer."""
ASKED_DTYPES = ("torch_dtype", "dtype")
"""Arguments, and attributes of configurations, for the dtype of weights; the first one is the older name.

Source: `PretrainedConfig` of transformers 4.9 to 5.24.
"""
WEIGHTS_DTYPES = ("dtype", "torch_dtype", "model_dtype", "bnb_4bit_compute_dtype")
"""Settings beside these for the dtype in which weights are loaded, or quantized weights are computed with.

Sources: `ModelConfig` of trl 0.7 to 1.0, the recipes of Hugging Face's alignment-handbook and open-r1.
"""
MODEL_SECTION = "model"
"""The beginning of the name of a section, beside that of the arguments, with settings of the model that is trained."""
QUANTIZERS = frozenset({"transformers.BitsAndBytesConfig", "diffusers.BitsAndBytesConfig"})
"""Classes of configurations that quantize weights as they are loaded."""
COMPUTE_DTYPE = "bnb_4bit_compute_dtype"
"""Their argument for the dtype of products with 4-bit weights, whose inputs are cast to it.

Source: `Linear4bit.forward` of bitsandbytes 0.41 to 0.50, which casts input, bias and result.
"""
IN_4_BITS, IN_8_BITS, DTYPE_IN_8_BITS = "load_in_4bit", "load_in_8bit", "float16"
"""Their arguments that quantize, and the dtype to which products with 8-bit weights cast their input.

Source: `MatMul8bitLt.forward` of bitsandbytes 0.37 to 0.50, which warns of each other dtype.
"""
ADAPTING = frozenset({"peft.get_peft_model", "peft.prepare_model_for_kbit_training"})
"""Functions that return the model they are passed, with adapters or prepared for them."""
ADAPTERS = frozenset(
    f"peft.{name}" for name in ("LoraConfig", "AdaLoraConfig", "LoHaConfig", "LoKrConfig", "IA3Config")
)
"""Classes of configurations of adapters."""
COPIED = "modules_to_save"
"""Their argument for layers of which copies are trained, in the dtype of the layers."""
CASTS_ADAPTERS = "autocast_adapter_dtype"
"""The argument of `get_peft_model` without which adapters of half weights become float32, copies of layers do not.

Source: `BaseTuner._cast_adapter_dtype` of peft 0.12 to 0.21; before, adapters had the dtype of the weights.
"""
ADDING = "add_adapter"
"""The method of models of transformers and diffusers that adds adapters in the dtype of the weights.

Source: `PeftAdapterMixin.add_adapter` of transformers 4.33 to 5.24 and of diffusers 0.24 to 0.42.
"""
PIPELINES = "diffusers."
"""Prefix of the classes whose objects hold the models that they get by keyword, and convert them with themselves.

Source: `DiffusionPipeline.from_pretrained` and `DiffusionPipeline.to` of diffusers 0.40.
"""
CASTS_NO_INPUT = ("diffusers.UNet", "diffusers.Flux", "diffusers.SD3", "diffusers.AutoencoderKL")
"""Prefixes of the qualified names of models whose first layer gets the input as it is passed.

Source: `forward` of `UNet2DConditionModel`, `FluxTransformer2DModel` and `SD3Transformer2DModel`, and `encode` and
`decode` of `AutoencoderKL`, in diffusers.
"""
LAYER_INPUTS = frozenset({"sample", "hidden_states", "x", "z"})
"""The keywords of that input, which is the first argument."""
PLAIN_LAYERS = frozenset(
    {
        *("lm_head", "embed_out", "score", "visual_projection", "text_projection"),
        *("conv_in", "conv_out", "quant_conv", "post_quant_conv"),
    }
)
"""Attributes of models of transformers and diffusers that are linear or convolutional layers, which cast no input.

Source: the models for causal language modelling, `GPTNeoXForCausalLM`, those for sequence classification, and
`CLIPModel` in transformers; `UNet2DConditionModel` and `AutoencoderKL` in diffusers.
"""
GIVES_EMBEDDINGS = frozenset({"get_input_embeddings"})
"""Methods of models of transformers that return the layer which embeds tokens."""
EMBEDDINGS = frozenset({"embed_tokens", "wte", "word_embeddings"})
"""Attributes of models of transformers that are such layers, which return rows of their weights.

Source: `modeling_llama.py`, `modeling_gpt2.py`, `modeling_bert.py` and models derived from them in transformers 4.57.
"""
EMBEDDED = "inputs_embeds"
"""The keyword of embeddings for a model of transformers, which it does not convert to the dtype of its weights."""
NUMBERS = frozenset({"init_noise_sigma", "scaling_factor", "shift_factor", "num_train_timesteps"})
"""Attributes of diffusers' schedulers and configurations that are numbers, or tensors without dimensions."""
SWITCHES_ADAPTERS = frozenset({"enable_adapters", "disable_adapters", "set_adapter", "set_adapters"})
"""Methods that choose among adapters, and convert none."""
DTYPE_NAMES = {
    **dict.fromkeys(("float16", "fp16", "half", "torch.float16"), "float16"),
    **dict.fromkeys(("bfloat16", "bf16", "torch.bfloat16"), "bfloat16"),
}
"""Names of the half dtypes in configuration files."""
ADAPTED_BY = frozenset({"use_peft", "load_in_4bit", "load_in_8bit", "use_lora", "lora", "peft", "finetuning_type"})
"""Settings beside these for adapters or quantized weights; so are those that begin with "lora_"."""
TRAINER_STEP = "training_step"
"""Method of Hugging Face's Trainer that runs the backward pass, which subclasses may override."""
RETURNED_LOSS = "loss"
"""The key of the loss, where such a method of Lightning returns a dictionary."""
TRAINER_METHODS = frozenset({TRAINER_STEP, "compute_loss", "prediction_step"})
"""Its methods that are passed the model, which subclasses may override."""
OWN_LOOP = frozenset({"train", "fit", "_inner_training_loop", "create_accelerator_and_postprocess", "_wrap_model"})
"""Its methods by which a subclass may bring a loop, an engine or weights of its own."""
MAKES_OPTIMIZER = frozenset({"create_optimizer", "create_optimizer_and_scheduler", "get_optimizer_cls_and_kwargs"})
"""Its methods by which a subclass may bring an optimizer that compensates for rounding."""
OPTIMIZERS_OF = "configure_optimizers"
"""The method of a Lightning module that returns the optimizers of the loop."""
LOSS_METHOD, COUNTED = "compute_loss", "num_items_in_batch"
"""The method of a Trainer that computes the loss of a micro-batch, and its parameter for the items of all of them."""
COUNTING_TRAINERS = frozenset({"transformers.Trainer", "transformers.Seq2SeqTrainer"})
COUNTING_MODELS = ("ForCausalLM",)
"""Endings of classes of models whose `forward` takes that number.

The Trainer does not divide their loss by the number of micro-batches, whatever `compute_loss` makes of it, if batches
have labels: with four of them and a mean, gradients are four times those of one batch. Source: `Trainer.training_step`
and `Trainer.get_batch_samples` of transformers 4.57.3, and a run with a small Llama.
"""
LABELS, MODEL_LOSS = "labels", "loss"
"""The key of a batch by which items are counted, and the field of a model's output for which there must be one."""
SAY_HOW_TO_DIVIDE = frozenset(
    {
        *("model_accepts_loss_kwargs", "compute_loss_func", "gradient_accumulation_steps"),
        *("current_gradient_accumulation_steps", "training_step", "get_batch_samples"),
    }
)
"""Names in a class of Trainers that divides by itself, or lets the Trainer divide."""
LOSS_SCALING_NAMES = frozenset({"do_grad_scaling", "use_apex", "scaler"})
"""Names in such a method that scales the loss by itself, as up to transformers 4.30."""
ARGUMENT_PARSERS = frozenset({"transformers.HfArgumentParser", "trl.TrlParser", "trl.scripts.TrlParser"})
"""Classes that construct objects of their argument classes from a command line, a file or a dictionary."""
PARSING_METHODS = frozenset(
    {
        *("parse_args_into_dataclasses", "parse_json_file", "parse_yaml_file", "parse_dict", "parse_args_and_config"),
    }
)
"""Their methods that return one object of each class, in order."""
_LIGHTNING_LOOPS = frozenset(
    f"{module}.Trainer"
    for module in ("lightning", "lightning.pytorch", "pytorch_lightning", "lightning.pytorch.trainer")
)
_TRL_ARGUMENTS = (
    *("SFTConfig", "DPOConfig", "KTOConfig", "ORPOConfig", "CPOConfig", "RewardConfig", "GRPOConfig", "BCOConfig"),
    *("GKDConfig", "NashMDConfig", "PPOConfig", "PRMConfig", "RLOOConfig", "XPOConfig"),
)
"""Suffixes of classes that derive from `TrainingArguments` of transformers (trl 0.12 to 1.0)."""
_ARGUMENTS_BEHIND = ("DPOTrainer", "KTOTrainer", "BCOTrainer", "GKDTrainer", "GRPOTrainer")
"""Suffixes of loops whose arguments are the third parameter, behind another model or the rewards.

Source: their signatures in trl, since settings such as `beta` moved into the arguments; the first `GKDTrainer` had no
model in front of its teacher.
"""
_TRAINER_PACKAGES = ("transformers.", "trl.", "sentence_transformers.")
"""Packages of transformers' loop and of classes that derive from it (sentence-transformers 3.0 to 5.2)."""


def loop_kind(name: str) -> str | None:
    """The kind of object that a call of a qualified name constructs: `arguments` of a loop, a loop, or None."""
    if name in _LIGHTNING_LOOPS:
        return "lightning loop"
    if not name.startswith(_TRAINER_PACKAGES):
        return None
    if name.endswith(("TrainingArguments", *_TRL_ARGUMENTS)):
        return "arguments"
    return "loop" if name.endswith("Trainer") else None


def place_of_arguments(name: str) -> int:
    """The position of its arguments among those that the constructor of a loop of a qualified name gets."""
    return 2 if name.endswith(_ARGUMENTS_BEHIND) else 1


HIDDEN_STATES = {"last_hidden_state": 3, "pooler_output": 2, "text_embeds": 2, "image_embeds": 2}
"""Fields of what models of transformers return that have the dtype of the weights -> the number of dimensions.

Source: the norm layers and poolers in `modeling_*.py` of transformers 4.57, which return the dtype of their input.
Logits are no such field: models for causal language modelling have converted them to float32 up to 4.44.
"""
LAYER_STATES = ("hidden_states", "encoder_hidden_states", "decoder_hidden_states")
"""Fields that are tuples of such tensors, one for each layer."""
_KEEPS_FLOAT32 = "Blip"
"""A part of the names of models with layers that stay in float32 whatever dtype they are loaded in.

Source: `_keep_in_fp32_modules` of `Blip2PreTrainedModel` in transformers 4.57, whose states are among the fields.
"""
STATES_FIRST = regex(r"(?:Model|Encoder)(?:WithProjection)?\.from_pretrained$")
"""Classes of models without a head, whose first output is `last_hidden_state`."""


def returns_states(name: str) -> bool:
    """Whether the objects that a qualified name loads return hidden states in the dtype of their weights."""
    return name.startswith("transformers.") and name.endswith(".from_pretrained") and _KEEPS_FLOAT32 not in name


_LANGUAGE_MODELS = ("ForCausalLM", "ForImageTextToText")
"""Suffixes of classes of transformers whose published weights are mostly bfloat16."""
GONE_SINCE_5 = frozenset(
    {
        *("tokenizer", "evaluation_strategy", "overwrite_output_dir", "save_safetensors", "logging_dir", "no_cuda"),
        *("per_gpu_train_batch_size", "per_gpu_eval_batch_size", "fp16_backend", "half_precision_backend"),
        *("use_mps_device", "jit_mode_eval", "use_ipex", "group_by_length", "push_to_hub_token"),
    }
)
"""Arguments of `Trainer` and `TrainingArguments` that version 5 refuses: a script with one is for an older version."""


def takes_embeddings(name: str) -> bool:
    """Whether a qualified name loads a model that refuses embeddings in another dtype than that of its weights.

    Source: the decoders of transformers 4.57, whose norm layers do not convert float32 to the dtype of their weights;
    those of T5 do.
    """
    return name.startswith("transformers.") and name.removesuffix(".from_pretrained").endswith(_LANGUAGE_MODELS)


def is_configuration(name: str) -> bool:
    """Whether a qualified name makes a configuration of a model of transformers, which can name a dtype."""
    return name.startswith("transformers.") and name.removesuffix(".from_pretrained").endswith("Config")


def makes_from_configuration(name: str) -> bool:
    """Whether a qualified name makes a model of transformers with random weights, in the dtype of a configuration."""
    return name.startswith("transformers.Auto") and name.endswith(".from_config")


def loads_as_saved(name: str) -> bool:
    """Whether a qualified name loads weights in the saved dtype, in the newest version."""
    cls, _, method = name.rpartition(".")
    return name.startswith("transformers.") and method == "from_pretrained" and cls.endswith(_LANGUAGE_MODELS)


def is_mixed_by_default(name: str) -> bool:
    """Whether a qualified name is a class of arguments that ask for bfloat16 unless told otherwise.

    Source: `bf16` in the configurations of trl 0.19 to 1.0.
    """
    return name.startswith("trl.") and name.endswith(_TRL_ARGUMENTS)


def is_lightning_module(name: str) -> bool:
    """Whether a qualified name is Lightning's own module class."""
    return name.endswith(".LightningModule") and name.partition(".")[0] in LIGHTNING_PACKAGES
