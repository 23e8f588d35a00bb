"""Methods decorated with `auto_fp16` and `force_fp32` of mmcv, and other mixed-precision names of mmcv in a file."""

from __future__ import annotations

import re
from collections.abc import Iterator

from amplint.records import dataclass
from amplint.source import syntax as cst
from amplint.source.tree import walk
from amplint.training.bindings import positional
from amplint.training.names import Use, imported
from amplint.training.refusal import Refusal, required
from amplint.training.script import Script

AUTO, FORCE = "auto_fp16", "force_fp32"
FLAG = "fp16_enabled"
REFUSED = {
    "wrap_fp16_model": "nothing reads fp16_enabled any more: enter torch.autocast round the calls of the model",
    "Fp16OptimizerHook": "mmengine has no hook for the optimizer: its runner takes an optim_wrapper",
    "GradientCumulativeOptimizerHook": "mmengine has no hook for the optimizer: its runner takes an optim_wrapper",
    "GradientCumulativeFp16OptimizerHook": "mmengine has no hook for the optimizer: its runner takes an optim_wrapper",
    "build_optimizer": "mmengine builds optimizers with build_optim_wrapper(model, cfg.optim_wrapper)",
}
"""APIs of mmcv 1.x in training code without a certain conversion."""
_LIBRARY = re.compile(r"mm[a-z0-9]+(?![^.])")
_OUTPUT = {AUTO: "out_fp32", FORCE: "out_fp16"}


@dataclass(frozen=True, slots=True)
class Decorated:
    """A method whose arguments `names` mmcv casts; `output` says that it casts the result back as well."""

    function: cst.FunctionDef
    decorator: cst.Decorator
    name: str
    names: tuple[str, ...]
    output: bool


def known(script: Script) -> dict[str, str]:
    """The names that the file imports from libraries of OpenMMLab, with their qualified names."""
    every = (one for statement in script.of_kind(cst.Import, cst.ImportFrom) for one in imported(script, statement))
    return {bound: name for bound, name in every if _LIBRARY.match(name)}


def decorated(script: Script, found: list[Use]) -> Iterator[Decorated]:
    """The decorated methods. Raises Refusal for any other use."""
    for use in found:
        row = script.row(use.node)
        name = use.name.rpartition(".")[2]
        if name not in (AUTO, FORCE, *REFUSED):
            continue
        if name in REFUSED:
            raise Refusal(row, REFUSED[name])
        decorator = script.source.parent(use.call) if use.call is not None else None
        function = script.source.parent(decorator) if isinstance(decorator, cst.Decorator) else None
        if use.call is None or not isinstance(decorator, cst.Decorator) or not isinstance(function, cst.FunctionDef):
            raise Refusal(row, f"{name} decorates no method here")
        if not isinstance(function.body, cst.IndentedBlock):
            raise Refusal(row, "the method shares its row with its body")
        if function.asynchronous is not None or any(isinstance(node, cst.Yield) for node in walk(function.body)):
            raise Refusal(row, "the method gives its results one by one")
        yield _read(script, function, decorator, name, use.call)


def _read(script: Script, function: cst.FunctionDef, decorator: cst.Decorator, name: str, call: cst.Call) -> Decorated:
    row, why = script.row(call), f"what {name} is called with is not written out"
    given = required(script.rewrite.arguments(call, ("apply_to", _OUTPUT[name])), row, why)
    output = script.text_of(given[_OUTPUT[name]]) if _OUTPUT[name] in given else "False"
    if output not in ("True", "False"):
        raise Refusal(row, why)
    params = function.params
    plain = [param.name.value for param in positional(function)][1:]
    target = given.get("apply_to")
    if target is None or script.text_of(target) == "None":
        flags = {param.name.value for param in positional(function) if _is_flag(param)}
        return Decorated(
            function, decorator, name, tuple(each for each in plain if each not in flags), output == "True"
        )
    chosen = _strings(target)
    if chosen is None:
        raise Refusal(row, f"what {name} applies to is not written out")
    names = [*plain, *(param.name.value for param in params.kwonly_params)]
    unknown = set(chosen) - set(names) if isinstance(chosen, tuple) else set()
    if unknown and params.star_kwarg is not None and name == FORCE:
        raise Refusal(row, f"{min(unknown)} comes with **{params.star_kwarg.name.value}")
    return Decorated(function, decorator, name, tuple(each for each in names if each in chosen), output == "True")


def _is_flag(param: cst.Param) -> bool:
    """Whether the default of a parameter shows that it is no tensor."""
    default = param.default
    truth = isinstance(default, cst.Name) and default.value in ("True", "False")
    return truth or isinstance(default, (cst.Integer, cst.Float, cst.SimpleString))


def _strings(node: cst.BaseExpression) -> tuple[str, ...] | str | None:
    """The names in `apply_to`; a plain string contains every name that is a substring. None if they are unknown."""
    if isinstance(node, (cst.SimpleString, cst.ConcatenatedString)):
        text = node.evaluated_value
        return text if isinstance(text, str) else None
    if isinstance(node, (cst.Tuple, cst.List)):
        found = [each.value.evaluated_value for each in node.elements if isinstance(each.value, cst.SimpleString)]
        strings = tuple(each for each in found if isinstance(each, str))
        return strings if len(strings) == len(node.elements) else None
    return None
