"""The calls of `amp.initialize`: models, optimizers, and the conditions that enable mixed precision."""

from __future__ import annotations

from collections.abc import Iterator

from amplint.codemods.apex.booleans import as_boolean
from amplint.codemods.apex.uses import AMP, INITIALIZE
from amplint.codemods.conditions import conjunction
from amplint.codemods.conversion import Remark
from amplint.findings import Edit
from amplint.records import dataclass
from amplint.source import syntax as cst
from amplint.training.names import Use
from amplint.training.places import clauses
from amplint.training.refusal import Refusal, required
from amplint.training.scopes import Scope
from amplint.training.script import Script

_PARAMETERS = (
    "models", "optimizers", "enabled", "opt_level", "cast_model_type", "patch_torch_functions", "keep_batchnorm_fp32",
    "master_weights", "loss_scale", "cast_model_outputs", "num_losses", "verbosity", "min_loss_scale", "max_loss_scale",
)  # fmt: skip
_SCALERS, _FIRST = f"{AMP}._amp_state.loss_scalers", ".loss_scalers[0]._loss_scale"
_LEVELS = ("O0", "O1", "O2", "O3")
Pair = tuple[str, str]


@dataclass(frozen=True, slots=True)
class Setup:
    """One call of `amp.initialize`.

    `pairs` are the targets of its result, each with the argument. `flags` are the conditions whose conjunction enables
    mixed precision, and `switches` the same as booleans; `guards` are the `if` statements around the call that some of
    them come from. `choice` is the `if` around the call of which each branch initializes. `off` says that it is never
    enabled. `scale` is the initial loss scale.
    """

    call: cst.Call
    scope: Scope
    models: tuple[Pair, ...]
    optimizers: tuple[Pair, ...]
    flags: tuple[str, ...]
    switches: tuple[str, ...]
    guards: tuple[cst.If, ...]
    choice: cst.If | None
    off: bool
    scale: str | None
    remarks: tuple[Remark, ...]

    @property
    def pairs(self) -> tuple[Pair, ...]:
        """Models and optimizers, in this order."""
        return (*self.models, *self.optimizers)


def setups(script: Script, uses: list[Use]) -> list[Setup]:
    """The calls of `amp.initialize` among `uses`, those with an optimizer first."""
    found = []
    for use in uses:
        if use.name == INITIALIZE:
            if use.call is None:
                raise Refusal(script.row(use.node), "amp.initialize is handed on instead of being called")
            found.append(_read(script, use.call, uses))
    return sorted(found, key=lambda setup: not setup.optimizers)


def first_scale(script: Script, uses: list[Use]) -> tuple[str, Edit] | None:
    """The initial loss scale that a statement sets, and the edit that removes the statement.

    apex has no argument for it: scripts set `amp._amp_state.loss_scalers[0]._loss_scale`.
    """
    for use in uses:
        if use.name == _SCALERS:
            statement = script.statement(use.node)
            simple = statement if isinstance(statement, cst.SimpleStatementLine) else None
            only = simple.body[0] if simple is not None and len(simple.body) == 1 else None
            named = isinstance(only, cst.Assign) and script.text_of(only.targets[0].target).endswith(_FIRST)
            if isinstance(only, cst.Assign) and named and len(only.targets) == 1 and _is_number(only.value):
                removal = script.rewrite.remove_statement(statement)
                return (script.text_of(only.value), removal) if removal is not None else None
    return None


def _is_number(node: cst.BaseExpression) -> bool:
    if isinstance(node, cst.BinaryOperation):
        return _is_number(node.left) and _is_number(node.right)
    return isinstance(node, (cst.Integer, cst.Float))


def _read(script: Script, call: cst.Call, uses: list[Use]) -> Setup:
    row = script.row(call)
    given = _arguments(script, call)
    models, optimizers = _listed_texts(script, given.get("models")), _listed_texts(script, given.get("optimizers"))
    targets = _targets(script, call, models, optimizers if "optimizers" in given else None)
    remarks = list(_remarks(script, given, row))
    level, off = _level(script, given.get("opt_level"))
    if level and not isinstance(given.get("opt_level"), cst.Name):
        option = script.text_of(given["opt_level"])
        remarks.append(Remark(row, f"{option} now only tells O0 (float32) from the other levels"))
    guards = list(_guards(script, call, uses))
    conditions = [part for guard in reversed(guards) for part in conjunction(guard.test)]
    enabled = given.get("enabled")
    if isinstance(enabled, cst.Name) and enabled.value == "False":
        off = True
    elif enabled is not None and not (isinstance(enabled, cst.Name) and enabled.value == "True"):
        conditions += conjunction(enabled)
    flags = {_operand(script, each): as_boolean(script, each, script.text_of(each)) for each in conditions}
    switches = {flag: switch if switch.startswith("bool(") else flag for flag, switch in flags.items()}
    if level:
        switches[level] = level
    cut = len(models)
    if optimizers and len(targets) != cut + len(optimizers):
        raise Refusal(row, "the optimizers that amp.initialize returns are kept in one variable")
    return Setup(
        call,
        script.scope(call),
        tuple(zip(targets[:cut], models, strict=True)),
        tuple(zip(targets[cut:], optimizers, strict=False)),
        tuple(switches),
        tuple(switches.values()),
        tuple(guards),
        _choice(script, call, uses),
        off,
        _scale(given.get("loss_scale"), script),
        tuple(remarks),
    )


def _arguments(script: Script, call: cst.Call) -> dict[str, cst.BaseExpression]:
    given = script.rewrite.arguments(call, _PARAMETERS)
    found = required(given, call, "what amp.initialize is called with is not written out")
    unknown = next((name for name in found if name not in _PARAMETERS), None)
    if unknown is not None:
        raise Refusal(call, f"amp.initialize has no argument {unknown}")
    if "models" not in found:
        raise Refusal(script.row(call), "amp.initialize is called without a model")
    return {name: value for name, value in found.items() if script.text_of(value) != "None"}


def _listed_texts(script: Script, node: cst.BaseExpression | None) -> list[str]:
    if node is None:
        return []
    if isinstance(node, (cst.List, cst.Tuple)):
        return [script.text_of(element.value) for element in node.elements]
    return [script.text_of(node)]


def _targets(script: Script, call: cst.Call, models: list[str], optimizers: list[str] | None) -> list[str]:
    """The targets of the models and then of the optimizers, as many as there are."""
    row = script.row(call)
    above = script.source.parent(call)
    if isinstance(above, cst.Expr):
        return [*models, *(optimizers or ())]
    if not isinstance(above, cst.Assign) or len(above.targets) != 1:
        raise Refusal(row, "the result of amp.initialize is not assigned to variables")
    target = above.targets[0].target
    if optimizers is None:
        return _listed_texts(script, target)
    if not isinstance(target, (cst.Tuple, cst.List)) or len(target.elements) != 2:
        raise Refusal(row, "the result of amp.initialize is not assigned to a model and an optimizer")
    first, second = (element.value for element in target.elements)
    found = _listed_texts(script, first)
    if len(found) != len(models):
        raise Refusal(row, "the models that amp.initialize returns are kept in one variable")
    return found + _listed_texts(script, second)


def _guards(script: Script, call: cst.Call, uses: list[Use]) -> Iterator[cst.If]:
    """The `if` statements that enable mixed precision, the nearest first.

    One that is also around other uses of apex in the same function has another purpose.
    """
    scope, inner = script.scope(call), call
    amp = [use for use in uses if use.name.startswith(f"{AMP}.") and use.name != INITIALIZE]
    others = [use.call for use in amp if use.call is not None]
    node: cst.CSTNode = inner
    for above in script.source.ancestors(call):
        if isinstance(above, (cst.FunctionDef, cst.ClassDef)):
            return
        if isinstance(above, (cst.If, cst.Else)) and _in_each_branch(script, above, uses):
            node = above
            continue
        if isinstance(above, (cst.For, cst.While, cst.Try, cst.Else)) or (
            isinstance(above, cst.If) and node is above.orelse
        ):
            raise Refusal(script.row(call), "amp.initialize is called in a loop, a try block or an else branch")
        if isinstance(above, cst.If):
            if script.is_elif(above):
                raise Refusal(script.row(call), "amp.initialize is one of several choices of an elif chain")
            inside = [c for c in others if script.scope(c) == scope and above in script.source.ancestors(c)]
            if inside or script.is_main(above):
                return
            yield above
        node = above


def _choice(script: Script, call: cst.Call, uses: list[Use]) -> cst.If | None:
    """The outermost `if` around `call`, in its function, of which each branch initializes."""
    found = None
    for above in script.source.ancestors(call):
        if isinstance(above, cst.FunctionDef):
            break
        if isinstance(above, (cst.If, cst.Else)):
            found = _in_each_branch(script, above, uses) or found
    return found


def _in_each_branch(script: Script, clause: cst.If | cst.Else, uses: list[Use]) -> cst.If | None:
    """The `if` of which `clause` is one, if each of its branches initializes, so that it does not enable anything."""
    first = script.source.parent(clause) if isinstance(clause, cst.Else) else clause
    while isinstance(first, cst.If) and script.is_elif(first):
        first = script.source.parent(first)
    if not isinstance(first, cst.If):
        return None
    branches = list(clauses(first))
    calls = [use.call for use in uses if use.name == INITIALIZE and use.call is not None]
    every = all(any(script.inside(branch.body, call) for call in calls) for branch in branches)
    return first if every and isinstance(branches[-1], cst.Else) else None


def _operand(script: Script, condition: cst.BaseExpression) -> str:
    text = script.text_of(condition)
    loose = isinstance(condition, (cst.IfExp, cst.Lambda, cst.NamedExpr)) or (
        isinstance(condition, cst.BooleanOperation) and isinstance(condition.operator, cst.Or)
    )
    return f"({text})" if loose and not script.rewrite.parentheses(condition) else text


def _level(script: Script, node: cst.BaseExpression | None) -> tuple[str | None, bool]:
    """The condition added by a non-literal level, and whether the level is O0."""
    if node is None:
        return None, False
    if isinstance(node, cst.SimpleString):
        level = str(node.evaluated_value)
        if level not in _LEVELS:
            raise Refusal(script.row(node), f"apex has no opt_level {level}")
        return None, level == "O0"
    spelled = isinstance(node, cst.FormattedString) or (
        isinstance(node, cst.BinaryOperation)
        and isinstance(node.operator, (cst.Add, cst.Modulo))
        and isinstance(node.left, cst.SimpleString)
    )
    if not spelled and not isinstance(node, (cst.Name, cst.Attribute, cst.Subscript)):
        raise Refusal(script.row(node), "which opt_level is meant is worked out here")
    return f'{script.text_of(node)} != "O0"', False


def _scale(node: cst.BaseExpression | None, script: Script) -> str | None:
    return script.text_of(node) if isinstance(node, (cst.Float, cst.Integer)) else None


def _remarks(script: Script, given: dict[str, cst.BaseExpression], row: int) -> Iterator[Remark]:
    level = given.get("opt_level")
    if isinstance(level, cst.SimpleString) and level.evaluated_value in ("O2", "O3"):
        yield Remark(row, f"{level.evaluated_value!s} held the weights in float16; under autocast they stay float32")
    scale = given.get("loss_scale")
    if isinstance(scale, (cst.Float, cst.Integer)):
        yield Remark(row, "apex held the loss scale constant; GradScaler begins with it and adapts it")
    elif scale is not None and script.text_of(scale).strip("'\"") != "dynamic":
        yield Remark(row, f"the loss scale {script.text_of(scale)} is no longer read; GradScaler finds its own")
    for name in given:
        if name in ("min_loss_scale", "max_loss_scale"):
            yield Remark(row, f"GradScaler has no {name}")
        elif name in ("cast_model_type", "cast_model_outputs"):
            yield Remark(row, f"{name} is gone; autocast decides the dtype of each operation")
