"""The device of some code, read from its text: CUDA only, or one chosen elsewhere."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING

from amplint.premises import Premise
from amplint.regex import regex
from amplint.semantics.reading.scopes import dotted, last_name
from amplint.semantics.words import HOLDS_SECTIONS, HOLDS_SETTINGS, NAMED_DEVICE
from amplint.source import syntax as cst
from amplint.source.imports import imports
from amplint.source.remembered import cached_per_chunk, cached_per_file
from amplint.source.source import WORD, Chunk, Source
from amplint.source.tree import every, target_names
from amplint.torchlib.frameworks import LIGHTNING_GPUS, loop_kind
from amplint.torchlib.names import AUTOCASTS, GRAD_SCALERS

if TYPE_CHECKING:
    from amplint.semantics.reading.program import Program

_AMP = regex(r"torch\.(?:cuda|cpu)\.amp\.\w+")
_DEVICE_WORDS = regex(r"(?i)cuda|device|gpu|cpu|(?<![a-z])mps\b|xpu|(?<![a-z])npu")
"""Words in conditions about devices."""
_IS_FLOAT16 = regex(r"== *(?:[\w.]*float16|[\w.]*half|[\"'](?:float16|fp16|16|half)[\"'])\W*$")
_CONDITION = regex(
    r"is_available\(|device_count|is_cuda|device(?:\.type|_type)?\s*(?:[!=]=|\bin\b|not in)|[\"'](?:cuda|cpu|mps)\b"
    r"|\b(?:use_|no_)?(?:cuda|gpu)s?\b(?!\.)"
)
"""Values of flags that depend on the available device."""
CUDA_ALONE = frozenset(
    [
        *("set_device", "synchronize", "current_device", "current_stream", "get_device_name", "get_device_properties"),
        *("get_device_capability", "mem_get_info", "Stream", "Event", "get_rng_state", "reset_peak_memory_stats"),
        *("reset_max_memory_allocated", "reset_accumulated_memory_stats", "memory_summary", "memory_snapshot"),
        *("ipc_collect", "default_stream", "set_per_process_memory_fraction", "CUDAGraph", "init"),
    ]
)
"""Functions and classes of `torch.cuda` that raise without CUDA."""
_NEEDS_CUDA = regex(
    rf"\.cuda\(|[\"']cuda\b|\.cuda\.(?:{'|'.join(sorted(CUDA_ALONE))})\b|assert\b.{{0,200}}cuda|raise\b"
)
_ASKED = regex(
    r"[\w.]{0,100}(?:device|type|kind)[\w.]{0,100}(?:\(\))? *== *(?:[\"']cuda[\"']|(?P<other>[\"'](?:cpu|mps)[\"']))$"
    r"|[\"']cuda[\"'] in [\w.()]+$|[\w.]*cuda\.is_available\(\)$"
)
"""A condition that distinguishes CUDA, or an `other` device, from the rest."""
_NOT_CPU = regex(r"^(?!.*(?:cuda|gpu)).*(?:device[\w.]{0,100}(?:\(\))? *!= *[\"']cpu[\"']|\bnot [\w.]{0,100}is_cpu\b)")
"""A condition that leaves out the CPU, and no other device."""
_IS_MPS = regex(r"[\w.]{0,100}device[\w.]{0,100}(?:\(\))? *== *[\"']mps[\"']$|[\w.]*mps\.is_available\(\)$")
"""A condition that holds for MPS alone: the CPU is left beside CUDA where it does not."""
_FIXED = regex(r"^(?:torch\.device\(\s*)?f?[\"'](\w+)[^\n]*$|^\d+\b|rank\b|gpu_id|current_device\(")
_ON_CUDA = regex(r"^(?:torch\.device\(\s*)?f?[\"']cuda|^\d+(?: if [^\n]* else \d+)?$")
_CHOICE = regex(r" if | else |is_available| or ")
_AMP_CLASSES = frozenset(name.rpartition(".")[2] for name in AUTOCASTS | GRAD_SCALERS)
_SCALER_GIVEN = regex(r"(?m)^[ \t]*([\w.]+)[^\n=]{0,200}=[ \t]*(?:\(\n)?[^\n]{0,200}\bGradScaler\b")
"""The target of an assignment that makes a scaler on its first or second line."""
_SCALER_CLASSES = frozenset(name.rpartition(".")[2] for name in GRAD_SCALERS)
_PRESENCE = regex(r"\bis (?:not )?None\b|\bbool\(")
"""Values of flags that tell whether there is an object."""
_CONDITIONAL = (cst.If, cst.IfExp, cst.BooleanOperation)
_DEVICES = regex(r"device|[\"']cpu[\"']")
_MAKES_DEVICE = regex(r"\btorch\.device\(|[\"'](?:cuda|cpu)\b[^\n]*(?: if | else )[^\n]*[\"'](?:cuda|cpu)\b")
"""A value that is a device, whatever the name it is assigned to."""
_BY_AVAILABILITY = regex(r"\bif\b[^\n]{0,200}cuda\.is_available\(\)[^\n]{0,200}\belse\b")
_LISTED = regex(r"^(?P<device>[\w.]+) if (?P=device) in [\[({][^\])}\n]+[\])}] else [\"']cpu[\"']$")
"""The type of a device that is in a list, and the CPU's for any other."""
_TRAINS = regex(r"(?<!autograd)\.backward\w*\(|\bGradScaler\b")
_KERNELS = regex(r"(?:triton|flash_attn|xformers|apex|mamba_ssm|causal_conv1d|cupy|numba\.cuda)\b")
"""Modules that need CUDA."""
_INDENTED = regex(r"(?m)^[ \t][^\n]*")
_GIVEN = regex(r"(?m)^[ \t]*((?:[\w.]+,[ \t]*)*[\w.]+)[ \t]*(?::[^=\n]+)?=(?!=)[ \t]*([^\n]+)")
"""A statement or an argument on a line of its own: the targets, and the value."""
_RETURNED = regex(r"(?m)^[ \t]*(?:def (\w+)\(|return\b[ \t]*([^\n]+))")
_OTHERS = r"[\"'](?:cpu|mps|xpu|npu|hpu)\b"
_CATERS_FOR_OTHERS = regex(
    rf"(?m)^[^\n#]{{0,400}}(?:\belse\b|\bor\b|is_available)[^\n]{{0,400}}{_OTHERS}"
    rf"|^[^\n#]{{0,400}}{_OTHERS}[^\n]{{0,400}}\belse\b"
    rf"|[\"']--\w*device\w*[\"'](?:[^)\n]|\n(?=[ \t]*[a-z]+ *=)){{0,600}}{_OTHERS}"
    r"|device(?:\.type|_type) *(?:[!=]=|in\b)|\bmps\.is_available|\bxpu\.is_available"
)
"""A choice between devices, an option for one, or a test of its type, that names another type than CUDA."""
_MOVES = frozenset({"to", "cuda", "cpu", "eval", "train", "requires_grad_"})
_PATH = regex(r"[A-Za-z_][\w.]*")
_FLAG_STEPS = 3


@cached_per_file
def chosen_device(source: Source, node: cst.CSTNode) -> cst.BaseExpression | None:
    """The expression for the device of the work around `node`, if it can be of any type; None without evidence.

    A file that needs CUDA has none.
    """
    return device_of_work(source, node) if not _file_needs_cuda(source) else None


def device_of_work(source: Source, node: cst.CSTNode, *, beside_cpu: bool = False) -> cst.BaseExpression | None:
    """The expression for the device of the work around `node`, if it can be of any type; None without evidence.

    The function is searched first, then the top level and, for attributes of `self` and entries of settings, the class
    and its bases.
    Code restricted to one kind of device has none; if `beside_cpu`, a condition that only leaves the CPU out is no
    restriction.
    """
    if not _DEVICES.search(source.text) or _is_guarded(source, node, beside_cpu=beside_cpu):
        return None
    if _is_around_making(source, node) or _needs_scaler(source, node):
        return None
    around = [above for above in source.ancestors(node) if isinstance(above, (cst.FunctionDef, cst.ClassDef))]
    inherited = [base for above in around if isinstance(above, cst.ClassDef) for base in _bases(source, above)]
    top = [chunk.module for chunk in source.chunks if chunk.name is None]
    for tree in (*around, *inherited, *top):
        given = list(_devices_given(tree))
        for value in given:
            seen = isinstance(tree, cst.FunctionDef) or (isinstance(tree, cst.ClassDef) and _key(value))
            if (seen or _is_seen_outside(source, value)) and _is_open(source, value):
                return value
        if isinstance(tree, cst.FunctionDef) and any(_function_with_parameter(source, one) is tree for one in given):
            return None  # every caller of the function gives it one fixed device
    return None


def _is_around_making(source: Source, node: cst.CSTNode) -> bool:
    """Whether a region has no work on any device: its statements only make objects or take items, and may move them."""
    region = source.parent(node)
    region = source.parent(region) if isinstance(region, cst.WithItem) else None
    if not isinstance(region, cst.With) or not isinstance(region.body, cst.IndentedBlock):
        return False
    lines = region.body.body
    simple = [one for line in lines if isinstance(line, cst.SimpleStatementLine) for one in line.body]
    assigned = [one.value for one in simple if isinstance(one, cst.Assign)]
    return len(assigned) == len(simple) == len(lines) and all(map(_is_made_or_item, assigned))


def _is_made_or_item(value: cst.BaseExpression) -> bool:
    while isinstance(value, cst.Call) and isinstance(value.func, cst.Attribute) and value.func.attr.value in _MOVES:
        value = value.func.value
    if isinstance(value, cst.Subscript):
        return not any(every(value, cst.Call))
    return isinstance(value, cst.Call) and (last_name(value.func) or "")[:1].isupper()


def _bases(source: Source, cls: cst.ClassDef) -> list[cst.ClassDef]:
    """The bases of a class that the same file defines at its top level, and theirs."""
    found: list[cst.ClassDef] = []
    todo = [cls]
    while todo:
        names = {last_name(base.value) for base in todo.pop().bases}
        for chunk in source.chunks if names else ():
            new = [one for one in chunk.module.body if isinstance(one, cst.ClassDef) and one not in found]
            more = [one for one in new if chunk.name in names]
            found, todo = found + more, todo + more
    return found


@cached_per_file
def returns_device(function: cst.FunctionDef) -> bool:
    """Whether every value that a function returns is made by `torch.device(...)` in its own text."""
    if function.returns is not None and dotted(function.returns.annotation) == "torch.device":
        return True
    made: dict[str, list[cst.BaseExpression]] = {}
    for assign in every(function, cst.Assign):
        for target in assign.targets:
            for name in target_names(target.target):
                made.setdefault(name, []).append(assign.value)
    returned = [one.value for one in every(function, cst.Return)]
    return bool(returned) and all(value is not None and _gives_device(value, made) for value in returned)


def _gives_device(value: cst.BaseExpression, made: Mapping[str, list[cst.BaseExpression]]) -> bool:
    if isinstance(value, cst.IfExp):
        return _gives_device(value.body, made) and _gives_device(value.orelse, made)
    if isinstance(value, cst.Name):
        return value.value in made and all(map(_is_device_call, made[value.value]))
    return _is_device_call(value)


def _is_device_call(value: cst.BaseExpression) -> bool:
    return isinstance(value, cst.Call) and dotted(value.func) == "torch.device"


def is_by_availability(source: Source, value: cst.BaseExpression) -> bool:
    """Whether a device or its type is chosen by availability alone: `"cuda" if cuda.is_available() else ...`.

    For a variable or attribute, every value must be.
    """
    values = _assigned(source).get(dotted(value) or "", [])
    texts = values if isinstance(value, (cst.Name, cst.Attribute)) else [source.code(value)]
    return bool(texts) and all(_BY_AVAILABILITY.search(text) for text in texts)


def is_listed_or_cpu(source: Source, value: cst.BaseExpression) -> bool:
    """Whether a device type is the CPU's for each device that a list leaves out."""
    values = [source.code(value)]
    if isinstance(value, (cst.Name, cst.Attribute)):
        values = _assigned(source).get(dotted(value) or "", [])
    return bool(values) and all(_LISTED.match(text.strip()) for text in values)


def device_premises(source: Source) -> tuple[Premise, ...]:
    """The premises of a report that a device given to the code of a file is not a CUDA device.

    Without a visible choice of devices, or with code that needs CUDA, it may always be one. With such a choice, there
    are none.
    """
    text = source.text
    on_cuda = has_kernels(source) or "is_bf16_supported" in text or ("nccl" in text and "gloo" not in text)
    if on_cuda or not caters_for_others(source):
        return (Premise.ANOTHER_DEVICE, Premise.RUNS_ELSEWHERE)
    return ()


def device_of_function(source: Source, node: cst.CSTNode) -> cst.BaseExpression | None:
    """`device_of_work` for a function that can do without CUDA, whatever the rest of its file needs.

    A condition that only leaves the CPU out is no restriction to CUDA.
    """
    function = next((above for above in source.ancestors(node) if isinstance(above, cst.FunctionDef)), None)
    top = (chunk for chunk in source.chunks if chunk.name is None)
    if function is None or _tree_needs_cuda(source, function) or any(map(_needs_cuda, top)) or _loops_on_gpus(source):
        return None
    return device_of_work(source, node, beside_cpu=True)


@cached_per_file
def device_of_regions(source: Source) -> cst.BaseExpression | None:
    """The device type that the first region of a file is given by a variable, an attribute or a setting."""
    for chunk in source.chunks:
        for call in every(chunk.module, cst.Call) if "autocast" in chunk.text else ():
            first = next((one for one in call.args if _keyword(one) in ("", "device_type")), None)
            if last_name(call.func) == "autocast" and first is not None and _is_text_of_device(first.value):
                return first.value
    return None


def _is_text_of_device(value: cst.BaseExpression) -> bool:
    last = last_name(value) or ""
    return last in ("device_type", "type") or is_device_name(last)


def runs_on_given_device(source: Source, node: cst.CSTNode) -> bool:
    """Whether `node` is in a function whose work may be on any device, of a file that can do without CUDA.

    A file that names a device, and none but one for CUDA, has no other.
    """
    function = next((above for above in source.ancestors(node) if isinstance(above, cst.FunctionDef)), None)
    if function is None or has_kernels(source, needed=True) or _names_only_cuda(source):
        return False
    if _moves_to_cuda(source, function) or _has_region_for_device(function, node) or _needs_scaler(source, node):
        return False
    return not _is_guarded(source, node, beside_cpu=True) and not _file_needs_cuda(source)


@cached_per_file
def _moves_to_cuda(source: Source, function: cst.FunctionDef) -> bool:
    """Whether a function moves something to a variable for a CUDA device, perhaps by its index."""
    moved = (call.args[0].value for call in every(function, cst.Call) if last_name(call.func) == "to" and call.args)
    for device in moved:
        given = _assigned(source).get(dotted(device) or "", [])
        parameter = isinstance(device, cst.Name) and _function_with_parameter(source, device) is function
        if (given and all(map(_ON_CUDA.match, given))) or (
            parameter and _is_fixed_by_callers(source, function, source.code(device))
        ):
            return True
    return False


def _has_region_for_device(function: cst.FunctionDef, node: cst.CSTNode) -> bool:
    """Whether another region of a function gets a device type: this one is for a case, or a version, of its own."""
    regions = (call for call in every(function, cst.Call) if last_name(call.func) == "autocast" and call is not node)
    first = (call.args[0] for call in regions if call.args)
    return any(_keyword(one) in ("", "device_type") and _is_text_of_device(one.value) for one in first)


@cached_per_file
def _names_only_cuda(source: Source) -> bool:
    assigned = _assigned(source)
    names = {name for name in assigned if is_device_name(name.rpartition(".")[2])}
    named = [[value for value in assigned[name] if value.strip() not in names] for name in names]
    return bool(named) and not any(_can_differ(values, nowhere=False) for values in named)


def runs_where_called(source: Source, node: cst.CSTNode) -> bool:
    """Whether `node` is in a function whose callers choose the device: it can do without CUDA in a file that trains
    nothing.

    Kernels for CUDA alone that a file for other devices can do without, imported in a `try`, are no need.
    """
    return _is_in_open_function(source, node) and not has_kernels(source, needed=True)


def caters_for_others(source: Source) -> bool:
    """Whether a file chooses between devices, or tests for one, other than CUDA."""
    return _CATERS_FOR_OTHERS.search(source.text) is not None


def _is_in_open_function(source: Source, node: cst.CSTNode) -> bool:
    """Whether `node` is in a function that does not raise on a machine without CUDA, of a file that does not train."""
    if not any(isinstance(above, cst.FunctionDef) for above in source.ancestors(node)) or _is_guarded(source, node):
        return False
    around = [source.chunk_of(node), *(chunk for chunk in source.chunks if chunk.name is None)]
    return not _TRAINS.search(source.text) and not any(map(_needs_cuda, around))


def has_kernels(source: Source, *, needed: bool = False) -> bool:
    """Whether a file imports a library that works on CUDA only; if `needed`, outside of any block."""
    text = source.text if not needed else _INDENTED.sub("", source.text)
    return any(_KERNELS.match(one.module) for one in imports(text))


def _is_seen_outside(source: Source, value: cst.BaseExpression) -> bool:
    """Whether an expression has the same meaning outside of its function: an attribute of `self`, or a global."""
    root = value
    while isinstance(root, (cst.Attribute, cst.Subscript, cst.Call)):
        root = root.func if isinstance(root, cst.Call) else root.value
    if isinstance(root, cst.Name) and root.value == "self":
        return True
    return not any(isinstance(above, cst.FunctionDef) for above in source.ancestors(value))


def float32_elsewhere(source: Source, dtype: cst.BaseExpression) -> cst.IfExp | None:
    """The choice that makes a dtype float32 on other devices than CUDA; None if `dtype` is not the result of one."""
    choices: list[cst.BaseExpression] = [dtype]
    if isinstance(dtype, cst.Name):
        functions = (above for above in source.ancestors(dtype) if isinstance(above, cst.FunctionDef))
        assigned = every(next(functions, source.chunk_of(dtype).module), cst.Assign)
        choices = [node.value for node in assigned if dtype.value in target_names(node.targets[0].target)]
    choice = choices[0] if len(choices) == 1 else None
    if not isinstance(choice, cst.IfExp) or _is_guarded(source, dtype):
        return None
    asked = _ASKED.match(source.code(choice.test))
    elsewhere = None if asked is None else choice.body if asked["other"] else choice.orelse
    return choice if str(elsewhere and dotted(elsewhere)).endswith((".float32", ".float")) else None


def is_about_devices(source: Source, condition: cst.CSTNode) -> bool:
    """Whether a condition tests the device, directly or through flags, or a scaler that only CUDA has."""
    return _tests_device(source, condition) or _tests_scaler(source, condition)


def _tests_scaler(source: Source, condition: cst.CSTNode) -> bool:
    """Whether a condition, or the value of a flag in it, reads a scaler that is None without a certain device."""
    scalers = _scalers_of_device(source)
    flags = _flags(source.code(condition)) if scalers else set[str]()
    tests = (value for flag in flags for value in _assigned(source).get(flag, ()) if _PRESENCE.search(value))
    return not scalers.isdisjoint(flags) or any(not scalers.isdisjoint(_flags(value)) for value in tests)


@cached_per_file
def _scalers_of_device(source: Source) -> frozenset[str]:
    """The last names of the scalers of a file that it makes only where a condition on the device holds."""
    names = {target.rpartition(".")[2] for target in _SCALER_GIVEN.findall(source.text)}
    if not any("None" in value or value.endswith("(") for name in names for value in _assigned(source).get(name, ())):
        return frozenset()
    found: dict[str, bool] = {}
    for chunk in source.chunks:
        for given in every(chunk.module, cst.Assign) if "GradScaler" in chunk.text else ():
            for call in every(given.value, cst.Call):
                if last_name(call.func) in _SCALER_CLASSES:
                    names = {last_name(target.target) for target in given.targets} - {""}
                    asked = _is_made_for_device(source, call)
                    found.update({name: asked and found.get(name, True) for name in names})
    return frozenset(name for name, asked in found.items() if asked)


def _is_made_for_device(source: Source, call: cst.Call) -> bool:
    inner: cst.CSTNode = call
    for above in source.ancestors(call):
        if isinstance(above, (cst.If, cst.IfExp)) and inner is above.body and _tests_device(source, above.test):
            return True
        inner = above
    return False


def _needs_scaler(source: Source, node: cst.CSTNode) -> bool:
    """Whether the function around `node` goes on with a scaler that is None without a certain device."""
    function = next((above for above in source.ancestors(node) if isinstance(above, cst.FunctionDef)), None)
    scalers = _scalers_of_device(source) if function is not None else frozenset[str]()
    calls = every(function, cst.Call) if scalers and function is not None else ()
    return any(
        isinstance(call.func, cst.Attribute)
        and last_name(call.func.value) in scalers
        and set(_branches(source, call)) <= set(_branches(source, node))
        for call in calls
    )


def _branches(source: Source, node: cst.CSTNode) -> Iterator[int]:
    """The identities of the branches and functions around `node`."""
    inner = node
    for above in source.ancestors(node):
        if isinstance(above, cst.FunctionDef):
            yield id(above)
        elif isinstance(above, _CONDITIONAL) and inner not in (
            getattr(above, "test", None),
            getattr(above, "left", None),
        ):
            yield id(inner)
        inner = above


def _tests_device(source: Source, condition: cst.CSTNode) -> bool:
    """Whether a condition tests the device, directly or through flags."""
    text = _AMP.sub("", source.code(condition))
    if _DEVICE_WORDS.search(text):
        return True
    if _IS_FLOAT16.search(text):
        return False  # a dtype that was chosen by what the device supports
    flags, seen = _flags(text), set[str]()
    for _ in range(1 if _compares_numbers(condition) else _FLAG_STEPS):
        values = [_AMP.sub("", value) for flag in flags - seen for value in _assigned(source).get(flag, ())]
        if any(_CONDITION.search(value) for value in values):
            return True
        seen |= flags
        flags = set().union(*(_flags(value) for value in values if len(value) < 80))
    return _is_set_by_device(source, condition)


def _flags(text: str) -> set[str]:
    """The variables and attributes that an expression reads: `args.amp` and `amp`, without `args` itself."""
    names = _PATH.findall(text)
    return {*names, *(name.rpartition(".")[2] for name in names)}


def _compares_numbers(condition: cst.CSTNode) -> bool:
    """Whether a condition is that one number is greater than another: a flag that chooses a device is no operand."""
    ordering = (cst.LessThan, cst.LessThanEqual, cst.GreaterThan, cst.GreaterThanEqual)
    return isinstance(condition, cst.Comparison) and isinstance(condition.comparisons[0].operator, ordering)


def _is_set_by_device(source: Source, condition: cst.CSTNode) -> bool:
    """Whether a condition is an attribute of `self` that is on only where the file asks for the device."""
    if not isinstance(condition, cst.Attribute) or dotted(condition.value) != "self":
        return False
    given = _attributes_given(source).get(condition.attr.value, ())
    on = [one for one in given if not (isinstance(one.value, cst.Name) and one.value.value in ("False", "None"))]
    return bool(on) and all(any(_CONDITION.search(asked) for asked in _asked_for(source, one)) for one in on)


def _asked_for(source: Source, given: cst.Assign) -> Iterator[str]:
    """What holds where an attribute is on: the value it is given, with its flags, and the conditions around it."""
    value = _AMP.sub("", source.code(given.value))
    yield value
    for flag in WORD.findall(value):
        yield from (_AMP.sub("", one) for one in _assigned(source).get(flag, ()))
    inner: cst.CSTNode = given
    for above in source.ancestors(given):
        if isinstance(above, cst.If) and inner is above.body:
            yield _AMP.sub("", source.code(above.test))
        inner = above


@cached_per_file
def _attributes_given(source: Source) -> dict[str, list[cst.Assign]]:
    """Attribute of `self` -> the assignments to it."""
    found: dict[str, list[cst.Assign]] = {}
    for chunk in source.chunks:
        for given in every(chunk.module, cst.Assign):
            for target in given.targets:
                if isinstance(target.target, cst.Attribute) and dotted(target.target.value) == "self":
                    found.setdefault(target.target.attr.value, []).append(given)
    return found


def _is_guarded(source: Source, node: cst.CSTNode, *, beside_cpu: bool = False) -> bool:
    """Whether `node` runs on some devices only, apart from conditions that leave the CPU out if `beside_cpu`."""
    if isinstance(node, cst.Call) and isinstance(node.func, cst.Name) and _is_chosen_by_device(source, node.func.value):
        return True
    inner = node
    for above in source.ancestors(node):
        if isinstance(above, (cst.FunctionDef, cst.ClassDef)) and any(
            "skip" in text and is_about_devices(source, decorator.decorator)
            for decorator in above.decorators
            if (text := source.code(decorator.decorator))
        ):
            return True
        if (
            isinstance(above, (cst.If, cst.IfExp))
            and inner is not above.test
            and is_about_devices(source, above.test)
            and not _leaves_others(source.code(above.test), holds=inner is above.body, beside_cpu=beside_cpu)
        ):
            return True
        if isinstance(above, cst.IndentedBlock) and any(
            is_about_devices(source, test) and not _leaves_others(source.code(test), holds=False, beside_cpu=beside_cpu)
            for test in _left_before(above, inner)
        ):
            return True
        inner = above
    return False


@cached_per_file
def _is_chosen_by_device(source: Source, name: str) -> bool:
    """Whether a callable that is called by `name` is a choice that depends on the device."""
    given = (node for chunk in source.chunks if name in chunk.words for node in every(chunk.module, cst.Assign))
    values = [node.value for node in given if name in target_names(node.targets[0].target)]
    return any(isinstance(value, cst.IfExp) and is_about_devices(source, value.test) for value in values)


def _leaves_others(condition: str, *, holds: bool, beside_cpu: bool) -> bool:
    """Whether a condition that `holds`, or does not, leaves other devices than CUDA; `beside_cpu` if not the CPU."""
    if holds:
        return beside_cpu and _NOT_CPU.search(condition) is not None
    return _IS_MPS.match(condition) is not None


def _left_before(block: cst.IndentedBlock, end: cst.CSTNode) -> Iterator[cst.BaseExpression]:
    """The conditions under which statements of `block` before `end` leave it."""
    for statement in block.body:
        if statement is end:
            return
        if isinstance(statement, cst.If) and any(every(statement.body, cst.Return, cst.Raise, cst.Continue)):
            yield statement.test


def _file_needs_cuda(source: Source) -> bool:
    return any(map(_needs_cuda, source.chunks)) or _loops_on_gpus(source)


def is_kept_to_cuda(program: Program) -> bool:
    """Whether a file that the linted one reaches compiles CUDA code, or a class that it makes raises without CUDA."""
    if any(_compiles_cuda(source.text) for source in program.sources):
        return True
    made = {one for chunk in program.main.chunks for one in program.mentions.get(chunk, ()) if one.is_class}
    return any(_needs_cuda(one) and _constructor_needs_cuda(one) for one in made)


def _compiles_cuda(text: str) -> bool:
    """Whether code compiles files in CUDA's language when it is imported."""
    return "cpp_extension" in text and "load(" in text and (".cu'" in text or '.cu"' in text)


def _constructor_needs_cuda(chunk: Chunk) -> bool:
    methods = (one for one in every(chunk.module, cst.FunctionDef) if one.name.value == "__init__")
    return any(_tree_needs_cuda(chunk.source, one) for one in methods)


@cached_per_file
def _loops_on_gpus(source: Source) -> bool:
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
    return bool(made) and all(_asks_for_gpus(call) and not _is_guarded(source, call) for call in made)


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
    given = {_keyword(argument): argument.value for argument in call.args}
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
def _needs_cuda(chunk: Chunk) -> bool:
    """Whether `chunk` raises on a machine without CUDA, irrespective of its arguments."""
    if "cuda" not in chunk.text or not _NEEDS_CUDA.search(chunk.code):
        return False
    return _tree_needs_cuda(chunk.source, chunk.module)


def _tree_needs_cuda(source: Source, tree: cst.CSTNode) -> bool:
    if any("cuda" in source.code(node.test) for node in every(tree, cst.Assert)):
        return True
    for branch in every(tree, cst.If):
        asked = "cuda.is_available" in source.code(branch.test)
        if asked and any(every(branch, cst.Raise)):
            return True
    return any(_runs_on_cuda(call) and not _is_guarded(source, call) for call in every(tree, cst.Call))


def _runs_on_cuda(call: cst.Call) -> bool:
    name = call.func.attr.value if isinstance(call.func, cst.Attribute) else ""
    path = dotted(call.func) or ""
    if name == "cuda" or (name in CUDA_ALONE and path.startswith("torch.cuda.")):
        return True
    named = [argument for argument in call.args if name in ("to", "device") or _keyword(argument) == "device"]
    return any(_text(argument.value).startswith("cuda") for argument in named)


def _devices_given(tree: cst.CSTNode) -> Iterator[cst.BaseExpression]:
    """The arguments in calls of `tree` that are devices, other than those of regions and scalers, and parameters."""
    for call in every(tree, cst.Call):
        name = call.func.attr if isinstance(call.func, cst.Attribute) else call.func
        called = name.value if isinstance(name, cst.Name) else ""
        if called in _AMP_CLASSES:
            continue
        moves = called in ("to", "to_device", "move_to_device")
        for argument in call.args:
            moved = moves and argument.keyword is None
            if _keyword(argument) == "device" or _is_device(argument.value) or (moved and _may_be_device(argument)):
                yield argument.value
    if isinstance(tree, cst.FunctionDef):
        parameters = (*tree.params.params, *tree.params.kwonly_params)
        yield from (one.name for one in parameters if is_device_name(one.name.value))


def _may_be_device(argument: cst.Arg) -> bool:
    """Whether the destination of a tensor or a model may be a device by its form."""
    return bool(_key(argument.value)) or isinstance(argument.value, (cst.Name, cst.Attribute))


def _is_device(value: cst.BaseExpression) -> bool:
    """Whether an expression is a device, by its last name."""
    last = value.attr if isinstance(value, cst.Attribute) else value
    return isinstance(last, cst.Name) and is_device_name(last.value)


def is_device_name(name: str) -> bool:
    """Whether a name is a device's: PyTorch's `device`, or a guess."""
    return name == "device" or NAMED_DEVICE.search(name) is not None


def _key(value: cst.BaseExpression) -> str:
    """`device` for `options["device"]` and `options.get("device")`, empty for anything else."""
    if isinstance(value, cst.Subscript) and len(value.slice) == 1 and isinstance(value.slice[0].slice, cst.Index):
        text = _text(value.slice[0].slice.value)
    elif isinstance(value, cst.Call) and isinstance(value.func, cst.Attribute) and value.func.attr.value == "get":
        text = _text(value.args[0].value) if value.args else ""
    else:
        return ""
    return text if is_device_name(text) else ""


def _is_open(source: Source, value: cst.BaseExpression) -> bool:
    """Whether a device can be of any type, as far as this file decides it."""
    if _key(value):
        return True
    if not isinstance(value, (cst.Name, cst.Attribute)) or not (_is_device(value) or _holds_device(source, value)):
        return False
    if isinstance(value, cst.Attribute):
        if not isinstance(value.value, cst.Name) or value.value.value != "self":
            *outer, last = (dotted(value.value) or "").split(".")
            if not outer and last in source.imports and last != "torch":
                return True  # a device for the whole program
            return HOLDS_SETTINGS.search(last) is not None or any(map(HOLDS_SECTIONS.search, outer))
        return _can_differ(_assigned(source).get(f"self.{value.attr.value}", []), nowhere=True)
    function = _function_with_parameter(source, value)
    if function is not None:
        return not _is_fixed_by_callers(source, function, value.value)
    return _can_differ(_assigned(source).get(value.value, []), nowhere=False)


def _function_with_parameter(source: Source, value: cst.BaseExpression) -> cst.FunctionDef | None:
    """The innermost function around a name that has a parameter of that name."""
    if not isinstance(value, cst.Name):
        return None
    above = (one for one in source.ancestors(value) if isinstance(one, cst.FunctionDef))
    return next((one for one in above if value.value in (known.name.value for known in _parameters(one))), None)


def _parameters(function: cst.FunctionDef) -> list[cst.Param]:
    return [*function.params.params, *function.params.kwonly_params]


def _is_fixed_by_callers(
    source: Source, function: cst.FunctionDef, parameter: str, seen: frozenset[cst.FunctionDef] = frozenset()
) -> bool:
    """Whether the file calls a function, each time with a rank or another fixed device for a parameter.

    That can be the default of the parameter, or such a parameter of the caller's own.
    """
    known, others = False, list[str]()
    for value in _given_by_callers(source, function, parameter):
        value = _held(source, value) if isinstance(value, cst.Name) else value
        text = source.code(value) if value is not None else ""
        passing = _function_with_parameter(source, value) if value is not None and not _FIXED.search(text) else None
        if passing is not None and passing not in seen:
            known = _is_fixed_by_callers(source, passing, text, seen | {function})
        elif isinstance(value, cst.SimpleString):
            known = _ON_CUDA.match(text) is not None
        else:
            others.append(text)
            continue
        if not known:
            return False
    return (known or bool(others)) and not _can_differ(others, nowhere=not known)


def _held(source: Source, name: cst.Name) -> cst.BaseExpression:
    """The string that a variable holds in the innermost function around it, which binds it once; else the variable."""
    function = next((above for above in source.ancestors(name) if isinstance(above, cst.FunctionDef)), None)
    if function is None or _function_with_parameter(source, name) is function:
        return name
    assigns = every(function, cst.Assign)
    bound = [one for one in assigns for target in one.targets if name.value in target_names(target.target)]
    others: list[cst.CSTNode] = [one.target for one in every(function, cst.AnnAssign)]
    others += [one.target for one in every(function, cst.AugAssign)]
    others += [one.target for one in every(function, cst.NamedExpr)]
    others += [one.target for one in every(function, cst.For)]
    others += [one.name for one in every(function, cst.AsName)]
    others += [one.name for one in every(function, cst.NameItem)]
    if len(bound) != 1 or any(name.value in target_names(other) for other in others):
        return name
    return bound[0].value if isinstance(bound[0].value, cst.SimpleString) else name


def _given_by_callers(source: Source, function: cst.FunctionDef, parameter: str) -> Iterator[cst.BaseExpression | None]:
    """What the calls of a function in its file give for a parameter, or its default; None where that is unknown."""
    name, parameters = function.name.value, _parameters(function)
    position = next(index for index, one in enumerate(parameters) if one.name.value == parameter)
    for chunk in source.chunks if parameters else ():
        for call in every(chunk.module, cst.Call) if name in chunk.words else ():
            if last_name(call.func) != name:
                continue
            own = isinstance(call.func, cst.Name) or dotted(call.func) == f"self.{name}"
            bound = parameters[0].name.value == "self" and isinstance(call.func, cst.Attribute)
            given = [
                argument.value
                for index, argument in enumerate(call.args, start=int(bound))
                if _keyword(argument) == parameter or (not _keyword(argument) and index == position)
            ]
            if given:
                yield given[0]
            elif parameters[position].default is not None:
                yield parameters[position].default if own and not any(one.star for one in call.args) else None


def _holds_device(source: Source, value: cst.BaseExpression) -> bool:
    """Whether a variable or attribute only holds devices."""
    values = _assigned(source).get(dotted(value) or "", [])
    return bool(values) and all(map(_MAKES_DEVICE.search, values))


def _can_differ(values: list[str], *, nowhere: bool) -> bool:
    """Whether a device with these values can be of several types; `nowhere` is the answer without values."""
    if not values:
        return nowhere
    fixed = [None if _CHOICE.search(value) else _FIXED.search(value) for value in values]
    return not all(fixed) or len({found.group(1) for found in fixed if found is not None}) > 1


@cached_per_file
def _assigned(source: Source) -> dict[str, list[str]]:
    """Variable, attribute, keyword or function -> the values that `source` assigns to it or it returns."""
    found: dict[str, list[str]] = {}
    for targets, value in _GIVEN.findall(source.text):
        for target in targets.split(","):
            last = target.rpartition(".")[2].strip()
            found.setdefault(target.strip(), []).append(value)
            if value.strip() != last:
                found.setdefault(last, []).append(value)
    function = ""
    for name, value in _RETURNED.findall(source.text):
        function = name or function
        if value:
            found.setdefault(function, []).append(value)
    return found


def _keyword(argument: cst.Arg) -> str:
    return argument.keyword.value if argument.keyword is not None else ""


def _text(node: cst.BaseExpression) -> str:
    """The text of a string, or of the first part of an f-string."""
    if isinstance(node, cst.SimpleString):
        return node.raw_value
    first = node.parts[0] if isinstance(node, cst.FormattedString) and node.parts else None
    return first.value if isinstance(first, cst.FormattedStringText) else ""
