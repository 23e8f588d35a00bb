"""Conditions on the device type, and the code that they restrict."""

from __future__ import annotations

from collections.abc import Iterator

from amplint.regex import regex
from amplint.semantics.reading.assigned import assigned_texts, passed_names
from amplint.semantics.reading.scopes import dotted, last_name
from amplint.source import syntax as cst
from amplint.source.remembered import cached_per_file
from amplint.source.source import WORD, Source
from amplint.source.tree import every, target_names
from amplint.torchlib.names import GRAD_SCALERS

_AMP = regex(r"torch\.(?:cuda|cpu)\.amp\.\w+")
_DEVICE_WORDS = regex(r"(?i)cuda|device|gpu|cpu|(?<![a-z])mps\b|xpu|(?<![a-z])npu")
"""Words in conditions about devices."""
_IS_FLOAT16 = regex(r"== *(?:[\w.]*float16|[\w.]*half|[\"'](?:float16|fp16|16|half)[\"'])\W*$")
_CONDITION = regex(
    r"is_available\(|device_count|is_cuda|device(?:\.type|_type)?\s*(?:[!=]=|\bin\b|not in)|[\"'](?:cuda|cpu|mps)\b"
    r"|\b(?:use_|no_)?(?:cuda|gpu)s?\b(?!\.)"
)
"""Values of flags that depend on the available device."""
_ASKED = regex(
    r"[\w.]{0,100}(?:device|type|kind)[\w.]{0,100}(?:\(\))? *== *(?:[\"']cuda[\"']|(?P<other>[\"'](?:cpu|mps)[\"']))$"
    r"|[\"']cuda[\"'] in [\w.()]+$|[\w.]*cuda\.is_available\(\)$"
)
"""A condition that distinguishes CUDA, or an `other` device, from the rest."""
_NOT_CPU = regex(r"^(?!.*(?:cuda|gpu)).*(?:device[\w.]{0,100}(?:\(\))? *!= *[\"']cpu[\"']|\bnot [\w.]{0,100}is_cpu\b)")
"""A condition that leaves out the CPU, and no other device."""
_IS_MPS = regex(r"[\w.]{0,100}device[\w.]{0,100}(?:\(\))? *== *[\"']mps[\"']$|[\w.]*mps\.is_available\(\)$")
"""A condition that holds for MPS alone: the CPU is left beside CUDA where it does not."""
_SCALER_GIVEN = regex(r"(?m)^[ \t]*([\w.]+)[^\n=]{0,200}=[ \t]*(?:\(\n)?[^\n]{0,200}\bGradScaler\b")
"""The target of an assignment that makes a scaler on its first or second line."""
_SCALER_CLASSES = frozenset(name.rpartition(".")[2] for name in GRAD_SCALERS)
_PRESENCE = regex(r"\bis (?:not )?None\b|\bbool\(")
"""Values of flags that tell whether there is an object."""
_CONDITIONAL = (cst.If, cst.IfExp, cst.BooleanOperation)
_PATH = regex(r"[A-Za-z_][\w.]*")
_FLAG_STEPS = 3


def float32_elsewhere(source: Source, dtype: cst.BaseExpression) -> cst.IfExp | None:
    """The choice that makes a dtype float32 on other devices than CUDA; None if `dtype` is not the result of one."""
    choices: list[cst.BaseExpression] = [dtype]
    if isinstance(dtype, cst.Name):
        functions = (above for above in source.ancestors(dtype) if isinstance(above, cst.FunctionDef))
        assigned = every(next(functions, source.chunk_of(dtype).module), cst.Assign)
        choices = [node.value for node in assigned if dtype.value in target_names(node.targets[0].target)]
    choice = choices[0] if len(choices) == 1 else None
    if not isinstance(choice, cst.IfExp) or is_restricted(source, dtype):
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
    tests = (value for flag in flags for value in assigned_texts(source).get(flag, ()) if _PRESENCE.search(value))
    return not scalers.isdisjoint(flags) or any(not scalers.isdisjoint(_flags(value)) for value in tests)


@cached_per_file
def _scalers_of_device(source: Source) -> frozenset[str]:
    """The last names of the scalers of a file that it makes only where a condition on the device holds."""
    names = {target.rpartition(".")[2] for target in _SCALER_GIVEN.findall(source.text)}
    values = [value for name in names for value in assigned_texts(source).get(name, ())]
    if not any("None" in value or value.endswith("(") for value in values):
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


def needs_scaler(source: Source, node: cst.CSTNode) -> bool:
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
        new = flags - seen
        values = [_AMP.sub("", value) for flag in new for value in assigned_texts(source).get(flag, ())]
        values += [name for flag in new for name in passed_names(source).get(flag, ())]
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
    return bool(on) and all(any(_CONDITION.search(asked) for asked in _conditions_of(source, one)) for one in on)


def _conditions_of(source: Source, given: cst.Assign) -> Iterator[str]:
    """What holds where an attribute is on: the value it is given, with its flags, and the conditions around it."""
    value = _AMP.sub("", source.code(given.value))
    yield value
    for flag in WORD.findall(value):
        yield from (_AMP.sub("", one) for one in assigned_texts(source).get(flag, ()))
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


def is_restricted(source: Source, node: cst.CSTNode, *, beside_cpu: bool = False) -> bool:
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
