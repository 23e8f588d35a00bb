"""Where a script uses apex."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import libcst as cst

from amplint.codemods.script import Refused, Script, bound_by
from amplint.source.tree import walk

AMP, FP16_UTILS = "apex.amp", "apex.fp16_utils"
INITIALIZE, SCALE_LOSS, MASTER_PARAMS = f"{AMP}.initialize", f"{AMP}.scale_loss", f"{AMP}.master_params"
TO_FLOAT = f"{FP16_UTILS}.to_python_float"
_FP16_NAMES = (
    "BN_convert_float", "network_to_half", "prep_param_lists", "model_grads_to_master_grads", "tofp16",
    "master_params_to_model_params", "to_python_float", "clip_grad_norm", "convert_module", "convert_network",
    "FP16Model", "FP16_Optimizer", "LossScaler", "DynamicLossScaler",
)  # fmt: skip
"""What `from apex.fp16_utils import *` brings."""
STATE_DICT, LOAD_STATE_DICT = f"{AMP}.state_dict", f"{AMP}.load_state_dict"


@dataclass(frozen=True, slots=True)
class Use:
    """A use of something in apex by its qualified `name`; `node` spells it, `call` calls it if anything does."""

    name: str
    node: cst.BaseExpression
    call: cst.Call | None


def aliases(script: Script) -> dict[str, str]:
    """Name -> what it stands for in apex, for the names that imports anywhere in the file bind."""
    found: dict[str, str] = {}
    others: dict[str, int] = {}
    for statement in script.of_kind(cst.Import, cst.ImportFrom):
        own = dict(imported(script, statement))
        for bound, name in own.items():
            if found.setdefault(bound, name) != name:
                raise Refused(script.row(statement), f"{bound} stands for {found[bound]} elsewhere in the file")
        named = getattr(statement, "names", ())
        aliases = () if isinstance(named, cst.ImportStar) else named
        others.update({bound: script.row(statement) for a in aliases if (bound := bound_by(a)) not in own})
    for bound in found.keys() & others.keys():
        raise Refused(others[bound], f"{bound} also stands for something that is not apex")
    return found


def imported(script: Script, statement: cst.CSTNode) -> Iterator[tuple[str, str]]:
    """Each name of apex that an import statement binds, with what it stands for."""
    if isinstance(statement, cst.Import):
        for alias in statement.names:
            name = script.text_of(alias.name)
            if name.partition(".")[0] == "apex":
                yield bound_by(alias), name if alias.asname is not None else "apex"
    elif isinstance(statement, cst.ImportFrom) and statement.module is not None and not statement.relative:
        module = script.text_of(statement.module)
        if module.partition(".")[0] == "apex":
            if isinstance(statement.names, cst.ImportStar):
                if module != FP16_UTILS:
                    raise Refused(script.row(statement), f"everything is imported from {module}")
                yield from ((name, f"{FP16_UTILS}.{name}") for name in _FP16_NAMES)
                return
            for alias in statement.names:
                yield bound_by(alias), f"{module}.{script.text_of(alias.name)}"


def uses(script: Script) -> list[Use]:
    """Every use of apex outside of import statements."""
    known = aliases(script)
    found = []
    for node in script.of_kind(cst.Name):
        assert isinstance(node, cst.Name)
        if node.value in known and _reads(script, node):
            found.append(_outermost(script, node, known[node.value]))
    return found


def _reads(script: Script, node: cst.Name) -> bool:
    """Whether a name is read, and stands for what the imports bind."""
    above = script.source.parent(node)
    if isinstance(above, (cst.ImportAlias, cst.AsName, cst.NameItem, cst.Param, cst.AssignTarget, cst.FunctionDef)):
        return isinstance(above, cst.Param) and above.default is node
    if isinstance(above, cst.Attribute) and above.attr is node:
        return False
    if isinstance(above, cst.Arg) and above.keyword is node:
        return False
    inside = (each for each in script.source.ancestors(node))
    if any(isinstance(each, (cst.Import, cst.ImportFrom)) for each in inside):
        return False
    scope = script.scope(node)
    scopes = (scope[:length] for length in range(len(scope), 0, -1))
    return not any(script.binds(each, node.value, by_import=False) for each in scopes)


def _outermost(script: Script, node: cst.Name, name: str) -> Use:
    inner: cst.BaseExpression = node
    while isinstance(above := script.source.parent(inner), cst.Attribute) and above.value is inner:
        name, inner = f"{name}.{above.attr.value}", above
    call = above if isinstance(above, cst.Call) and above.func is inner else None
    return Use(name, inner, call)


def names_in(node: cst.CSTNode) -> set[str]:
    """The variables that `node` reads or binds, without attributes and keywords."""
    found = set[str]()
    skipped = set[int]()
    for inner in walk(node):
        if isinstance(inner, cst.Attribute):
            skipped.add(id(inner.attr))
        elif isinstance(inner, cst.Arg) and inner.keyword is not None:
            skipped.add(id(inner.keyword))
        elif isinstance(inner, cst.Name) and id(inner) not in skipped:
            found.add(inner.value)
    return found
