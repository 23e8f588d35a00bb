"""Models sharded by FSDP: mixed precision is a policy, and float16 takes a scaler that all ranks agree on."""

from __future__ import annotations

from collections.abc import Sequence

from amplint.codemods.conversion import Remark
from amplint.findings import Edit
from amplint.records import dataclass
from amplint.source import syntax as cst
from amplint.torchlib.sharding import POLICY_OF, SHARDERS
from amplint.training.names import Use, library_uses
from amplint.training.refusal import Refusal, required
from amplint.training.script import Script

MODULES = ("torch.distributed.fsdp", "torch.distributed._composable")
_OLD = "torch.distributed._composable.fsdp"
_SCALER = "ShardedGradScaler"
_VARIABLES = ("mp_policy", "precision_policy", "half_policy")


@dataclass(frozen=True, slots=True)
class Policies:
    """The edits that give each sharded model a policy; `scaler` is the scaler class to use with it."""

    edits: tuple[Edit, ...]
    imports: tuple[str, ...]
    done: tuple[Remark, ...]
    scaler: str


def sharded(script: Script) -> list[Use]:
    """The calls that shard models. Raises Refusal for a sharder that escapes."""
    found = [
        use for use in library_uses(script, "torch") if use.name in SHARDERS and not script.rewrite.names_type(use.node)
    ]
    for use in found:
        if use.call is None:
            raise Refusal(
                use.node, f"{SHARDERS[use.name].title} is handed on, so its mixed precision cannot be set here"
            )
    return found


def is_decided(script: Script, found: Sequence[Use]) -> bool:
    """Whether one of the sharded models has a policy already."""
    return any(use.call is not None and _given(script, use, use.call) for use in found)


def policies(script: Script, found: Sequence[Use], dtype: str) -> Policies:
    """A policy for every model of `found`, all of which are calls, with float32 for reductions. Raises Refusal."""
    edits, imports, done = list[Edit](), list[str](), list[Remark]()
    for title in dict.fromkeys(SHARDERS[use.name].title for use in found):
        own = [use for use in found if SHARDERS[use.name].title == title]
        module = _OLD if own[0].name.startswith(_OLD) else "torch.distributed.fsdp"
        imports.append(f"from {module} import {POLICY_OF[title]}")
        value = f"{POLICY_OF[title]}(param_dtype=torch.{dtype}, reduce_dtype=torch.float32)"
        named = _named(script, own, value) if len(own) > 1 else None
        edits += [named[1]] if named is not None else []
        for use in own:
            assert use.call is not None
            edit = script.rewrite.set_argument(use.call, SHARDERS[use.name].policy[0], named[0] if named else value)
            hidden = f"** hides what {title} is given, and it needs a policy for {dtype}"
            edits.append(required(edit, use.node, hidden))
            done.append(Remark(script.row(use.node), f"let {title} compute in {dtype} and reduce in float32"))
    scaler = "torch.amp.GradScaler"
    if any(SHARDERS[use.name].clips for use in found):
        scaler = _SCALER
        imports += ["from torch.distributed.fsdp.sharded_grad_scaler import ShardedGradScaler"] * (dtype == "float16")
    return Policies(tuple(edits), tuple(imports), tuple(done), scaler)


def _given(script: Script, use: Use, call: cst.Call) -> bool:
    name, position = SHARDERS[use.name].policy
    found = script.rewrite.find_argument(call, name, position)
    return found is not None and script.text_of(found.value) != "None"


def _named(script: Script, own: Sequence[Use], value: str) -> tuple[str, Edit] | None:
    """A variable for the policy shared by several calls of one function, and the edit that assigns it before them."""
    calls = [use.call for use in own if use.call is not None]
    name = script.free(*_VARIABLES)
    common = script.common(calls) if len({script.function_of(call) for call in calls}) == 1 else None
    if name is None or common is None:
        return None
    block, statements = common
    first = min(statements, key=block.index)
    edit = script.rewrite.insert_before(first, f"{name} = {value}")
    return (name, edit) if edit is not None else None
