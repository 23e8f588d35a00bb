"""The device of some code, read from its text: CUDA only, or one chosen elsewhere."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING

from amplint.premises import Premise
from amplint.regex import regex
from amplint.semantics.reading.assigned import assigned_texts
from amplint.semantics.reading.cuda_needs import (
    chunk_needs_cuda,
    file_needs_cuda,
    has_kernels,
    loops_on_gpus,
    needs_cuda,
)
from amplint.semantics.reading.device_conditions import is_restricted, needs_scaler
from amplint.semantics.reading.scopes import dotted, last_name
from amplint.semantics.words import HOLDS_SECTIONS, HOLDS_SETTINGS, NAMED_DEVICE
from amplint.source import syntax as cst
from amplint.source.remembered import cached_per_file
from amplint.source.source import Chunk, Source
from amplint.source.tree import every, keyword_of, leading_text, target_names
from amplint.torchlib.names import AUTOCASTS, GRAD_SCALERS

if TYPE_CHECKING:
    from amplint.semantics.reading.program import Program

_FIXED = regex(r"^(?:torch\.device\(\s*)?f?[\"'](\w+)[^\n]*$|^\d+\b|rank\b|gpu_id|current_device\(")
_ON_CUDA = regex(r"^(?:torch\.device\(\s*)?f?[\"']cuda|^\d+(?: if [^\n]* else \d+)?$")
_CHOICE = regex(r" if | else |is_available| or ")
_AMP_CLASSES = frozenset(name.rpartition(".")[2] for name in AUTOCASTS | GRAD_SCALERS)
_DEVICES = regex(r"device|[\"']cpu[\"']")
_MAKES_DEVICE = regex(r"\btorch\.device\(|[\"'](?:cuda|cpu)\b[^\n]*(?: if | else )[^\n]*[\"'](?:cuda|cpu)\b")
"""A value that is a device, whatever the name it is assigned to."""
_BY_AVAILABILITY = regex(r"\bif\b[^\n]{0,200}cuda\.is_available\(\)[^\n]{0,200}\belse\b")
_OF_VARIABLE = regex(r"torch\.device\([ \t]*([\w.]+)[ \t]*\)$")
_OF_FUNCTION = regex(r"(?!torch\.)([\w.]+)\([^()]*\)$")
_LISTED = regex(r"^(?P<device>[\w.]+) if (?P=device) in [\[({][^\])}\n]+[\])}] else [\"']cpu[\"']$")
"""The type of a device that is in a list, and the CPU's for any other."""
_TRAINS = regex(r"(?<!autograd)\.backward\w*\(|\bGradScaler\b")
_OTHERS = r"[\"'](?:cpu|mps|xpu|npu|hpu)\b"
_CATERS_FOR_OTHERS = regex(
    rf"(?m)^[^\n#]{{0,400}}(?:\belse\b|\bor\b|is_available)[^\n]{{0,400}}{_OTHERS}"
    rf"|^[^\n#]{{0,400}}{_OTHERS}[^\n]{{0,400}}\belse\b"
    rf"|[\"']--\w*device\w*[\"'](?:[^)\n]|\n(?=[ \t]*[a-z]+ *=)){{0,600}}{_OTHERS}"
    r"|device(?:\.type|_type) *(?:[!=]=|in\b)|\bmps\.is_available|\bxpu\.is_available"
)
"""A choice between devices, an option for one, or a test of its type, that names another type than CUDA."""
_MOVES = frozenset({"to", "cuda", "cpu", "eval", "train", "requires_grad_"})


@cached_per_file
def chosen_device(source: Source, node: cst.CSTNode) -> cst.BaseExpression | None:
    """The expression for the device of the work around `node`, if it can be of any type; None without evidence.

    A file that needs CUDA has none.
    """
    return device_of_work(source, node) if not file_needs_cuda(source) else None


def device_of_work(source: Source, node: cst.CSTNode, *, beside_cpu: bool = False) -> cst.BaseExpression | None:
    """The expression for the device of the work around `node`, if it can be of any type; None without evidence.

    The function is searched first, then the top level and, for attributes of `self` and entries of settings, the class
    and its bases.
    Code restricted to one kind of device has none; if `beside_cpu`, a condition that only leaves the CPU out is no
    restriction.
    """
    if not _DEVICES.search(source.text) or is_restricted(source, node, beside_cpu=beside_cpu):
        return None
    if _is_around_making(source, node) or needs_scaler(source, node):
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
    values = assigned_texts(source).get(dotted(value) or "", [])
    texts = values if isinstance(value, (cst.Name, cst.Attribute)) else [source.code(value)]
    known = assigned_texts(source)
    inner = [(text, _OF_VARIABLE.match(text.strip())) for text in texts]
    texts = [one for text, name in inner for one in (known.get(name[1], [text]) if name is not None else [text])]
    return bool(texts) and all(_BY_AVAILABILITY.search(text) for text in texts)


def is_function_by_availability(program: Program, source: Source, value: cst.BaseExpression) -> bool:
    """Whether a device is what a function of the project gives, which chooses it by availability alone."""
    texts = assigned_texts(source).get(dotted(value) or "", [source.code(value)])
    called = [_OF_FUNCTION.match(text.strip()) for text in texts]
    found = [program.resolve(source, one[1]) if one is not None else None for one in called]
    returned = [
        assigned_texts(one.source).get(one.name or "", []) if isinstance(one, Chunk) and not one.is_class else []
        for one in found
    ]
    return bool(texts) and all(given and all(_BY_AVAILABILITY.search(text) for text in given) for given in returned)


def is_listed_or_cpu(source: Source, value: cst.BaseExpression) -> bool:
    """Whether a device type is the CPU's for each device that a list leaves out."""
    values = [source.code(value)]
    if isinstance(value, (cst.Name, cst.Attribute)):
        values = assigned_texts(source).get(dotted(value) or "", [])
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
    if function is None or needs_cuda(source, function) or any(map(chunk_needs_cuda, top)) or loops_on_gpus(source):
        return None
    return device_of_work(source, node, beside_cpu=True)


@cached_per_file
def device_of_regions(source: Source) -> cst.BaseExpression | None:
    """The device type that the first region of a file is given by a variable, an attribute or a setting."""
    for chunk in source.chunks:
        for call in every(chunk.module, cst.Call) if "autocast" in chunk.text else ():
            first = next((one for one in call.args if keyword_of(one) in ("", "device_type")), None)
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
    if _moves_to_cuda(source, function) or _has_region_for_device(function, node) or needs_scaler(source, node):
        return False
    return not is_restricted(source, node, beside_cpu=True) and not file_needs_cuda(source)


@cached_per_file
def _moves_to_cuda(source: Source, function: cst.FunctionDef) -> bool:
    """Whether a function moves something to a variable for a CUDA device, perhaps by its index."""
    moved = (call.args[0].value for call in every(function, cst.Call) if last_name(call.func) == "to" and call.args)
    for device in moved:
        given = assigned_texts(source).get(dotted(device) or "", [])
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
    return any(keyword_of(one) in ("", "device_type") and _is_text_of_device(one.value) for one in first)


@cached_per_file
def _names_only_cuda(source: Source) -> bool:
    assigned = assigned_texts(source)
    names = {name for name in assigned if is_device_name(name.rpartition(".")[2])}
    named = [[value for value in assigned[name] if value.strip() not in names] for name in names]
    return bool(named) and not any(_can_differ(values, nowhere=False) for values in named)


def runs_where_called(source: Source, node: cst.CSTNode) -> bool:
    """Whether `node` is in a function whose callers choose the device: it can do without CUDA in a file that trains
    nothing.

    Kernels for CUDA alone that a file for other devices can do without, imported in a `try`, are no need.
    """
    return _is_in_open_function(source, node) and not has_kernels(source, needed=True)


@cached_per_file
def caters_for_others(source: Source) -> bool:
    """Whether a file chooses between devices, or tests for one, other than CUDA."""
    return _CATERS_FOR_OTHERS.search(source.text) is not None


def _is_in_open_function(source: Source, node: cst.CSTNode) -> bool:
    """Whether `node` is in a function that does not raise on a machine without CUDA, of a file that does not train."""
    if not any(isinstance(above, cst.FunctionDef) for above in source.ancestors(node)) or is_restricted(source, node):
        return False
    around = [source.chunk_of(node), *(chunk for chunk in source.chunks if chunk.name is None)]
    return not _TRAINS.search(source.text) and not any(map(chunk_needs_cuda, around))


def _is_seen_outside(source: Source, value: cst.BaseExpression) -> bool:
    """Whether an expression has the same meaning outside of its function: an attribute of `self`, or a global."""
    root = value
    while isinstance(root, (cst.Attribute, cst.Subscript, cst.Call)):
        root = root.func if isinstance(root, cst.Call) else root.value
    if isinstance(root, cst.Name) and root.value == "self":
        return True
    return not any(isinstance(above, cst.FunctionDef) for above in source.ancestors(value))


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
            if keyword_of(argument) == "device" or _is_device(argument.value) or (moved and _may_be_device(argument)):
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
        text = leading_text(value.slice[0].slice.value)
    elif isinstance(value, cst.Call) and isinstance(value.func, cst.Attribute) and value.func.attr.value == "get":
        text = leading_text(value.args[0].value) if value.args else ""
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
        return _can_differ(assigned_texts(source).get(f"self.{value.attr.value}", []), nowhere=True)
    function = _function_with_parameter(source, value)
    if function is not None:
        return not _is_fixed_by_callers(source, function, value.value)
    return _can_differ(assigned_texts(source).get(value.value, []), nowhere=False)


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
                if keyword_of(argument) == parameter or (not keyword_of(argument) and index == position)
            ]
            if given:
                yield given[0]
            elif parameters[position].default is not None:
                yield parameters[position].default if own and not any(one.star for one in call.args) else None


def _holds_device(source: Source, value: cst.BaseExpression) -> bool:
    """Whether a variable or attribute only holds devices."""
    values = assigned_texts(source).get(dotted(value) or "", [])
    return bool(values) and all(map(_MAKES_DEVICE.search, values))


def _can_differ(values: list[str], *, nowhere: bool) -> bool:
    """Whether a device with these values can be of several types; `nowhere` is the answer without values."""
    if not values:
        return nowhere
    fixed = [None if _CHOICE.search(value) else _FIXED.search(value) for value in values]
    return not all(fixed) or len({found.group(1) for found in fixed if found is not None}) > 1
