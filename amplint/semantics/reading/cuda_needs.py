"""Code that raises on a machine without CUDA."""

from __future__ import annotations

from typing import TYPE_CHECKING

from amplint.regex import regex
from amplint.semantics.reading.device_conditions import is_restricted
from amplint.semantics.reading.scopes import dotted
from amplint.source import syntax as cst
from amplint.source.imports import imports
from amplint.source.remembered import cached_per_chunk, cached_per_file
from amplint.source.source import Chunk, Source
from amplint.source.tree import every, keyword_of, leading_text
from amplint.torchlib.frameworks import LIGHTNING_GPUS, loop_kind
from amplint.torchlib.names import CUDA_ALONE

if TYPE_CHECKING:
    from amplint.semantics.reading.program import Program

_QUANTIZED = frozenset({"load_in_4bit", "load_in_8bit"})
"""Keywords that load weights for the kernels of bitsandbytes."""
_NEEDS_CUDA = regex(
    rf"\.cuda\(|[\"']cuda\b|\.cuda\.(?:{'|'.join(sorted(CUDA_ALONE))})\b|assert\b.{{0,200}}cuda|raise\b|flash_attention"
    rf"|{'|'.join(sorted(_QUANTIZED))}|device_map[ \t]*=[ \t]*[{{\d]"
)
_KERNELS = regex(
    r"(?:triton|flash_attn|xformers|apex|mamba_ssm|causal_conv1d|cupy|numba\.cuda|unsloth|bitsandbytes|transformer_engine"
    r"|tinycudann|selective_scan_cuda|spconv|torchsparse|nvdiffrast|tutel|vllm)\b"
)
"""Modules that need CUDA."""
_MENTIONS_CUDA = regex(r"cuda|flash_attention|load_in_[48]bit|device_map")
_INDENTED = regex(r"(?m)^[ \t][^\n]*")


def has_kernels(source: Source, *, needed: bool = False) -> bool:
    """Whether a file imports a library that works on CUDA only; if `needed`, outside of any block."""
    text = source.text if not needed else _INDENTED.sub("", source.text)
    return any(_KERNELS.match(one.module) for one in imports(text))


def file_needs_cuda(source: Source) -> bool:
    """Whether a file raises on a machine without CUDA, or runs in Trainers for GPUs alone."""
    return any(map(chunk_needs_cuda, source.chunks)) or loops_on_gpus(source)


def is_kept_to_cuda(program: Program) -> bool:
    """Whether a file that the linted one reaches needs CUDA: it compiles code for it, or imports kernels for it alone.

    So does one that makes an object of a class which raises without CUDA.
    """
    reached = (source for source in program.sources if source is not program.main)
    if any(_compiles_cuda(source.text) for source in program.sources) or any(map(_needs_kernels, reached)):
        return True
    made = {one for chunk in program.main.chunks for one in program.mentions.get(chunk, ()) if one.is_class}
    return any(chunk_needs_cuda(one) and _constructor_needs_cuda(one) for one in made)


@cached_per_file
def _needs_kernels(source: Source) -> bool:
    return has_kernels(source, needed=True)


def _compiles_cuda(text: str) -> bool:
    """Whether code compiles files in CUDA's language when it is imported."""
    return "cpp_extension" in text and "load(" in text and (".cu'" in text or '.cu"' in text)


def _constructor_needs_cuda(chunk: Chunk) -> bool:
    methods = (one for one in every(chunk.module, cst.FunctionDef) if one.name.value == "__init__")
    return any(needs_cuda(chunk.source, one) for one in methods)


@cached_per_file
def loops_on_gpus(source: Source) -> bool:
    """Whether every Lightning Trainer of a file is for GPUs alone, so that its modules and their devices are on one."""
    if "Trainer" not in source.text or "lightning" not in source.text:
        return False
    made = [
        call
        for chunk in source.chunks
        if "Trainer" in chunk.text
        for call in every(chunk.module, cst.Call)
        if _is_lightning_loop(source, call.func)
    ]
    return bool(made) and all(_asks_for_gpus(call) and not is_restricted(source, call) for call in made)


def _is_lightning_loop(source: Source, called: cst.BaseExpression) -> bool:
    """Whether a callee is Lightning's Trainer, or a method that makes one."""
    root, _, rest = (dotted(called) or "").partition(".")
    bound = source.imports.get(root)
    if bound is None:
        return False
    name = ".".join(filter(None, (bound.module, bound.name, rest)))
    return "lightning loop" in (loop_kind(name), loop_kind(name.rpartition(".")[0]))


def _asks_for_gpus(call: cst.Call) -> bool:
    """Whether a Trainer gets an accelerator, or a number of GPUs, without which it raises."""
    given = {keyword_of(argument): argument.value for argument in call.args}
    accelerator, gpus = given.get("accelerator"), given.get("gpus")
    if isinstance(accelerator, cst.SimpleString) and accelerator.raw_value in LIGHTNING_GPUS:
        return True
    if isinstance(gpus, (cst.List, cst.Tuple)):
        return bool(gpus.elements)
    if isinstance(gpus, cst.UnaryOperation):
        gpus = gpus.expression
    if isinstance(gpus, cst.SimpleString):
        return gpus.raw_value != "0"
    return isinstance(gpus, cst.Integer) and gpus.value != "0"


@cached_per_chunk
def chunk_needs_cuda(chunk: Chunk) -> bool:
    """Whether `chunk` raises on a machine without CUDA, irrespective of its arguments."""
    if not _MENTIONS_CUDA.search(chunk.text) or not _NEEDS_CUDA.search(chunk.code):
        return False
    return needs_cuda(chunk.source, chunk.module)


def needs_cuda(source: Source, tree: cst.CSTNode) -> bool:
    """Whether `tree` asserts that there is CUDA, raises without it, or uses it outside of a condition on devices.

    Models of transformers raise without CUDA where they are asked for FlashAttention.
    """
    if any("cuda" in source.code(node.test) for node in every(tree, cst.Assert)):
        return True
    for branch in every(tree, cst.If):
        asked = "cuda.is_available" in source.code(branch.test)
        if asked and any(every(branch, cst.Raise)):
            return True
    return any(_runs_on_cuda(call) and not is_restricted(source, call) for call in every(tree, cst.Call))


def _runs_on_cuda(call: cst.Call) -> bool:
    name = call.func.attr.value if isinstance(call.func, cst.Attribute) else ""
    path = dotted(call.func) or ""
    if name == "cuda" or (name in CUDA_ALONE and path.startswith("torch.cuda.")):
        return True
    named = [argument for argument in call.args if name in ("to", "device") or keyword_of(argument) == "device"]
    mapped = (argument.value for argument in call.args if keyword_of(argument) == "device_map")
    kernels = [argument for argument in call.args if keyword_of(argument) == "attn_implementation"]
    quantized = (argument for argument in call.args if keyword_of(argument) in _QUANTIZED)
    return (
        any(leading_text(argument.value).startswith("cuda") for argument in named)
        or any(map(_is_mapped_to_gpu, mapped))
        or any(leading_text(argument.value).startswith("flash_attention") for argument in kernels)
        or any(dotted(argument.value) == "True" for argument in quantized)
    )


def _is_mapped_to_gpu(value: cst.BaseExpression) -> bool:
    """Whether a map of devices names CUDA, or a device by its number, which is that of an accelerator."""
    parts = (
        [one.value for one in value.elements if isinstance(one, cst.DictElement)]
        if isinstance(value, cst.Dict)
        else [value]
    )
    return any(isinstance(one, cst.Integer) or leading_text(one).startswith("cuda") for one in parts)
