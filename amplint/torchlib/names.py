"""PyTorch's API names: aliases of qualified names, and the kind of object they denote."""

from __future__ import annotations

from amplint.regex import regex

LIBRARIES = frozenset(
    [
        *("torch", "torchvision", "torchaudio", "apex", "accelerate", "deepspeed", "transformers", "diffusers"),
        *("lightning", "lightning_fabric", "pytorch_lightning", "mmcv", "mmengine", "horovod", "numpy"),
        *("torchao", "transformer_engine"),
    ]
)
"""Packages whose names always denote these libraries and are never resolved in the linted tree."""

NEVER_RENAMED = ("torch",)
"""Packages whose names denote nothing else, even if bound by `from utils import *`."""

GRAD_SCALERS = {
    "torch.amp.GradScaler": "cuda",
    "torch.amp.grad_scaler.GradScaler": "cuda",
    "torch.GradScaler": "cuda",
    "torch.cuda.amp.GradScaler": "cuda",
    "torch.cuda.amp.grad_scaler.GradScaler": "cuda",
    "torch.cpu.amp.GradScaler": "cpu",
    "torch.cpu.amp.grad_scaler.GradScaler": "cpu",
    "torch.distributed.fsdp.sharded_grad_scaler.ShardedGradScaler": "cuda",
}
"""Qualified name -> default device type."""

SCALER_PARAMETERS = ("device", "init_scale", "growth_factor", "backoff_factor", "growth_interval", "enabled")
"""Positional order of `torch.amp.GradScaler`; its deprecated spellings lack the first."""

AUTOCASTS = {
    "torch.autocast": None,
    "torch.amp.autocast": None,
    "torch.amp.autocast_mode.autocast": None,
    "torch.autocast_mode.autocast": None,
    "torch.cuda.amp.autocast": "cuda",
    "torch.cuda.amp.autocast_mode.autocast": "cuda",
    "torch.cpu.amp.autocast": "cpu",
    "torch.cpu.amp.autocast_mode.autocast": "cpu",
}
"""Qualified name -> its fixed device type, None if it is an argument."""

AUTOCAST_PARAMETERS = {
    None: ("device_type", "dtype", "enabled", "cache_enabled"),
    "cuda": ("enabled", "dtype", "cache_enabled"),
    "cpu": ("enabled", "dtype", "cache_enabled"),
}
"""Positional order of the constructor, per device type of the class."""

DEFAULT_AUTOCAST_DTYPE = {
    "cuda": "float16", "cpu": "bfloat16", "xpu": "float16", "mps": "float16", "hpu": "bfloat16", "mtia": "float16",
    "xla": "bfloat16",
}  # fmt: skip
"""`torch.get_autocast_dtype(device)` of torch 2.13, by default."""

INDEX_TAKEN_SINCE = (2, 4)
"""The first version whose `torch.autocast` accepts a device with an index (`cuda:0`) as its type."""

REENTRANT_CHOSEN_SINCE = (1, 11)
"""The first version whose `torch.utils.checkpoint` has `use_reentrant`; earlier ones refuse the keyword."""
REENTRANT_ASKED_SINCE = (2, 1)
"""The first version whose `torch.utils.checkpoint` warns where `use_reentrant` is not given (pull request 100551)."""

AUTOCAST_DEVICES = frozenset(DEFAULT_AUTOCAST_DTYPE) | {"ipu", "maia"}
"""The device types that `torch.autocast` of torch 2.13 accepts without a plug-in."""

SUCCESSORS = {
    **{
        f"torch.{device}.amp.{module}{name}": (f"torch.amp.{name}", device)
        for device, module, names in (
            ("cuda", "", "autocast GradScaler custom_fwd custom_bwd"),
            ("cuda", "autocast_mode.", "autocast custom_fwd custom_bwd"),
            ("cuda", "grad_scaler.", "GradScaler"),
            ("cpu", "", "autocast GradScaler"),
            ("cpu", "autocast_mode.", "autocast"),
            ("cpu", "grad_scaler.", "GradScaler"),
        )
        for name in names.split()
    },
    "torch.get_autocast_gpu_dtype": ("torch.get_autocast_dtype", "cuda"),
    "torch.set_autocast_gpu_dtype": ("torch.set_autocast_dtype", "cuda"),
    **{f"torch.get_autocast_{kind}_dtype": ("torch.get_autocast_dtype", kind) for kind in ("cpu", "ipu", "xla")},
    **{f"torch.set_autocast_{kind}_dtype": ("torch.set_autocast_dtype", kind) for kind in ("cpu", "ipu", "xla")},
    **{f"torch.is_autocast_{kind}_enabled": ("torch.is_autocast_enabled", kind) for kind in ("cpu", "ipu", "xla")},
    **{f"torch.set_autocast_{kind}_enabled": ("torch.set_autocast_enabled", kind) for kind in ("cpu", "ipu", "xla")},
}
"""Deprecated name -> its successor and the device type to pass to it; all of them warn in torch 2.13."""

DEPRECATED_SINCE = (2, 4)
"""The version since which the names in `SUCCESSORS` warn."""


def successor_since(name: str) -> tuple[int, ...]:
    """The first version that surely has the successor of a deprecated `name`.

    Source: `torch/amp/__init__.py` of versions 1.13, 2.2, 2.3 and 2.4.
    """
    return {"autocast": (1, 13), "GradScaler": (2, 3)}.get(name.rpartition(".")[2], DEPRECATED_SINCE)


GRAD_MODES = {
    "torch.no_grad": False,
    "torch.autograd.no_grad": False,
    "torch.autograd.grad_mode.no_grad": False,
    "torch.inference_mode": False,
    "torch.autograd.grad_mode.inference_mode": False,
    "torch.enable_grad": True,
}
"""Qualified name -> whether operations within are recorded for autograd."""

AMP_MODULES = frozenset({"torch.amp", "torch.cuda.amp", "torch.cpu.amp"})
"""The modules with classes of autocast and of scalers."""
NO_CONTEXTS = frozenset(
    f"torch.{name}"
    for name in (
        *("set_default_dtype", "set_default_tensor_type", "set_default_device", "set_autocast_enabled"),
        *("set_autocast_dtype", "set_autocast_cache_enabled", "set_float32_matmul_precision", "manual_seed"),
        *("use_deterministic_algorithms", "cuda.set_device"),
    )
)
"""Functions that change a setting permanently: their result is no context."""

CUDA_ALONE = frozenset(
    [
        *("set_device", "synchronize", "current_device", "current_stream", "get_device_name", "get_device_properties"),
        *("get_device_capability", "mem_get_info", "Stream", "Event", "get_rng_state", "reset_peak_memory_stats"),
        *("reset_max_memory_allocated", "reset_accumulated_memory_stats", "memory_summary", "memory_snapshot"),
        *("ipc_collect", "default_stream", "set_per_process_memory_fraction", "CUDAGraph", "init"),
    ]
)
"""Functions and classes of `torch.cuda` that raise without CUDA."""
SHARDED_SCALER = "torch.distributed.fsdp.sharded_grad_scaler.ShardedGradScaler"

NEUTRAL_CONTEXTS = frozenset({"contextlib.nullcontext", "contextlib.suppress", "torch.profiler.record_function"})
EXIT_STACKS = frozenset({"contextlib.ExitStack", "contextlib.AsyncExitStack"})

CLIPPERS = {
    f"torch.nn.utils.{module}{name}": mutates
    for module in ("", "clip_grad.")
    for name, mutates in {
        "clip_grad_norm_": True,
        "clip_grad_norm": True,
        "clip_grad_value_": True,
        "clip_grads_with_norm_": True,
        "get_total_norm": False,
    }.items()
}
"""Qualified name -> whether it modifies the gradients."""

DTYPES = {
    "torch.float16": "float16", "torch.half": "float16", "torch.bfloat16": "bfloat16", "torch.float32": "float32",
    "torch.float": "float32", "torch.float64": "float64", "torch.double": "float64", "torch.int64": "int64",
    "torch.long": "int64", "torch.int32": "int32", "torch.int": "int32", "torch.bool": "bool", "torch.uint8": "uint8",
    "torch.int8": "int8", "torch.int16": "int16", "torch.short": "int16",
}  # fmt: skip
HALF_DTYPES = frozenset({"float16", "bfloat16"})
WIDE_DTYPES = frozenset({"float32", "float64"})
LEGACY_TENSORS = {
    "HalfTensor": "float16", "BFloat16Tensor": "bfloat16", "FloatTensor": "float32", "DoubleTensor": "float64",
    "LongTensor": "int64", "IntTensor": "int32", "ShortTensor": "int16", "CharTensor": "int8", "ByteTensor": "uint8",
    "BoolTensor": "bool",
}  # fmt: skip
"""Class of tensors, in `torch` and in `torch.cuda` -> their dtype."""
DEFAULT_SETTERS = frozenset({"torch.set_default_dtype", "torch.set_default_tensor_type"})
"""Functions that set the dtype of tensors and parameters that are constructed without one."""
FLOAT16_MAX = 65504.0
FLOAT32_MAX = 3.4028234663852886e38
FLOAT16_ROUNDS_TO_ZERO = 2.0**-25
FLOAT16_SMALLEST_NORMAL = 2.0**-14
FLOAT16_ROUNDS_TO_ONE = 2.0**-12
FLOAT32_ROUNDS_TO_ONE = 2.0**-25
"""The largest distances from 1 of a number below it that float16, and float32 too, round to 1."""


ANY_OPTIMIZER_CLASS = "torch.optim.Optimizer"
"""The base of all optimizers, which stands for one of several classes."""
_OTHER_OPTIMIZERS = regex(
    r"transformers\.(?:optimization\.)?(?:AdamW|Adafactor)|apex\.optimizers\.Fused\w+"
    r"|(?:bitsandbytes\.optim|lion_pytorch|prodigyopt|dadaptation|schedulefree|torch_optimizer|timm\.optim)\."
    r"(?:\w+\.)?(?!Lookahead|GlobalOptimManager|MockArgs)[A-Z]\w+"
)
"""Those of other libraries with the interface of PyTorch's; left out are those that wrap another one."""


def is_optimizer(name: str) -> bool:
    """Whether a qualified name is an optimizer class of `torch.optim`, or one with the same interface."""
    module, _, cls = name.rpartition(".")
    return _OTHER_OPTIMIZERS.fullmatch(name) is not None or (
        cls[:1].isupper()
        and module.startswith("torch.optim")
        and not module.endswith(("lr_scheduler", "swa_utils"))
        and cls != "Optimizer"
    )


def derives_optimizer(name: str) -> bool:
    """Whether a class with this base is an optimizer."""
    return name in (ANY_OPTIMIZER_CLASS, "torch.optim.optimizer.Optimizer") or is_optimizer(name)


_PRECISION = regex(r"(?i)(?:^|[^a-z0-9])(?:b?fp?|b?float|true|mixed)?-?(?:16|32)(?:$|[^0-9])|amp|half")


def is_precision(text: object) -> bool:
    """Whether a string can denote a computation precision (`fp16`, `bf16-mixed`, `float32`, `amp`)."""
    return isinstance(text, str) and _PRECISION.search(text) is not None


SCALER_SIGNS = (b"GradScaler", b"unscale_", b".scale(", b"caler.step(", b'caler"].step(', b"caler'].step(")
"""Byte strings of which a file that uses a gradient scaler contains at least one."""
HALF_SIGNS = regex(rb"autocast|half|float16|HalfTensor|def \w+\([^)]{0,4000}dtype")
"""Text in a file in which a tensor can be known to be half.

Repetitions in such patterns are bounded, so that a search is linear in the length of the text.
"""
HALF_ASSUMED = regex(
    HALF_SIGNS.pattern
    + rb"|type_as\(|\.to\([^()]{0,400}dtype|Parameter\(|(?<![a-z])[gG]at(?:es?|ing)\b|[rR]out(?:er|ing)"
    rb"|saved_tensors|norm\([^\n]{0,400}\.grad\b|\.grad\b[^\n]{0,400}\.norm\("
)
"""Text in a file whose operations depend on half even where tensors are only assumed to be."""
_LIMITS_OF_WIDE = rb"|finfo\((?:(?:torch|np|numpy)\.float(?:32|64)?\b|float|[\"']float|\))"
HUGE_NUMBERS = regex(
    rb"finfo\([\w.]{1,80}\.dtype\)|"
    rb"\d(?:\.?[eE]\+?\d|\d{5}|_\d{3}| ?\*\* ?\d| ?<< ?\d)|\b[6-9]\d{4}|maxsize|float_info|\biinfo\(|\bpow\(\d"
    + _LIMITS_OF_WIDE
)
HUGE_ASSUMED = regex(HUGE_NUMBERS.pattern + rb"|\b(?:NEG|NEAR\w*|ALMOST|MINUS|BIG|LARGE|HUGE|VERY)_[A-Z]+\b")
"""The same, and names of constants that another file may define."""
TINY_NUMBERS = regex(
    rb"\d(?:\.?[eE]-0?[5-9]| ?\*\* ?\(?-)|[eE]-\d\d|\.0000|float_info|\bpow\(\d+, ?-|\bexp\(-\d" + _LIMITS_OF_WIDE
)
INFINITIES = regex(rb"[\"'][-+]?[iI]nf|\.[iI]nf\b|import .{0,400}\binf\b")
TO_FLOAT32 = "to_float32"
"""The function, of codemods, that makes half tensors float32 wherever they stand in a value."""
LIBRARIES_OF_ARRAYS = ("numpy", "sklearn", "scipy")
"""The libraries, by their modules, that make NumPy arrays of tensors."""
SUMMARIES = frozenset(
    [
        *("add_audio", "add_embedding", "add_histogram", "add_image", "add_images", "add_image_with_boxes", "add_mesh"),
        *("add_pr_curve", "add_scalar", "add_scalars", "add_video"),
    ]
)
"""Methods of summary writers that make NumPy arrays of tensors.

Source: `make_np` of PyTorch 2.13, which converts bfloat16 before; tensorboardX 2.6 does not.
"""
WRITERS_WITHOUT_BFLOAT16 = "tensorboardX"
LIBRARIES_WITHOUT_FLOAT16 = ("cv2", "PIL", "numpy.linalg", "scipy.ndimage")
"""The libraries, by their modules, that raise for NumPy arrays of float16."""
FLOAT32_KERNELS = frozenset(
    {"fast_transformers", "kaolin", "knn_cuda", "MinkowskiEngine", "nvdiffrast", "pointnet2_ops", "pytorch3d"}
    | {"warpctc_pytorch", "warprnnt_pytorch"}
)
"""The libraries with kernels that dispatch on float32, and float64, alone, and convert nothing below autocast."""
UNSCALES = "_unscale_grads_"
"""The method of a gradient scaler that refuses float16 gradients, unless a script replaces it.

Source: `GradScaler._unscale_grads_` in `torch/amp/grad_scaler.py` of PyTorch 1.6 to 2.13, with a last argument for it.
"""
