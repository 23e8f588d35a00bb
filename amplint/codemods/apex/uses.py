"""Uses of apex in a script."""

from __future__ import annotations

from collections.abc import Iterator

from amplint.source import syntax as cst
from amplint.source.tree import bound_by, walk
from amplint.training import names
from amplint.training.names import Use
from amplint.training.refusal import Refusal
from amplint.training.script import Script

AMP, FP16_UTILS = "apex.amp", "apex.fp16_utils"
INITIALIZE, SCALE_LOSS, MASTER_PARAMS = f"{AMP}.initialize", f"{AMP}.scale_loss", f"{AMP}.master_params"
TO_FLOAT = f"{FP16_UTILS}.to_python_float"
_FP16_NAMES = (
    "BN_convert_float", "network_to_half", "prep_param_lists", "model_grads_to_master_grads", "tofp16",
    "master_params_to_model_params", "to_python_float", "clip_grad_norm", "convert_module", "convert_network",
    "FP16Model", "FP16_Optimizer", "LossScaler", "DynamicLossScaler",
)  # fmt: skip
"""The names bound by `from apex.fp16_utils import *`."""
STATE_DICT, LOAD_STATE_DICT = f"{AMP}.state_dict", f"{AMP}.load_state_dict"


def is_of_amp(name: str) -> bool:
    """Whether a qualified name is one of apex for mixed precision."""
    return f"{name}.".startswith((f"{AMP}.", f"{FP16_UTILS}."))


def aliases(script: Script) -> dict[str, str]:
    """Name -> its qualified name in apex, for the names bound by imports anywhere in the file.

    Those that are imported from elsewhere where apex is missing are left out, unless they are of `apex.amp`.
    """
    found: dict[str, str] = {}
    others: dict[str, int] = {}
    plain = set[str]()
    for statement in script.of_kind(cst.Import, cst.ImportFrom):
        own = dict(imported(script, statement))
        for bound, name in own.items():
            if found.setdefault(bound, name) != name:
                raise Refusal(script.row(statement), f"{bound} stands for {found[bound]} elsewhere in the file")
        plain |= own.keys() if not is_guarded(script, statement) else set()
        assert isinstance(statement, (cst.Import, cst.ImportFrom))
        parts = () if isinstance(statement.names, cst.ImportStar) else statement.names
        others.update({bound: script.row(statement) for a in parts if (bound := bound_by(a)) not in own})
    for bound in sorted(found.keys() & others.keys(), key=others.__getitem__):
        if bound in plain or is_of_amp(found.pop(bound)):
            raise Refusal(others[bound], f"{bound} also stands for something that is not apex")
    return found


def is_guarded(script: Script, statement: cst.CSTNode) -> bool:
    return any(isinstance(above, cst.Try) for above in script.source.ancestors(statement))


def imported(script: Script, statement: cst.CSTNode) -> Iterator[tuple[str, str]]:
    """Each name of apex that an import statement binds, with its qualified name."""
    if isinstance(statement, cst.ImportFrom) and isinstance(statement.names, cst.ImportStar):
        module = script.text_of(statement.module) if statement.module is not None else ""
        if module == FP16_UTILS:
            yield from ((name, f"{FP16_UTILS}.{name}") for name in _FP16_NAMES)
        elif module.partition(".")[0] == "apex":
            raise Refusal(script.row(statement), f"everything is imported from {module}")
        return
    yield from names.imported(script, statement, "apex")


def uses(script: Script) -> list[Use]:
    """Every use of apex outside of import statements."""
    return names.uses(script, aliases(script))


def names_in(node: cst.CSTNode) -> set[str]:
    """The variables that `node` reads or binds, without attributes and keywords."""
    found = set[str]()
    skipped = set[cst.CSTNode]()
    for inner in walk(node):
        if isinstance(inner, cst.Attribute):
            skipped.add(inner.attr)
        elif isinstance(inner, cst.Arg) and inner.keyword is not None:
            skipped.add(inner.keyword)
        elif isinstance(inner, cst.Name) and inner not in skipped:
            found.add(inner.value)
    return found
