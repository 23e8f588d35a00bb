"""AMP701."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from amplint.findings import Applicability, Edit, Fix, Severity
from amplint.premises import Premise
from amplint.rule import Report, Rule
from amplint.semantics.events import ApiUse, Event
from amplint.source import syntax as cst
from amplint.torchlib.names import AUTOCAST_PARAMETERS, DEPRECATED_SINCE, SUCCESSORS, successor_since

if TYPE_CHECKING:
    from amplint.source.rewrite import Rewriter


class DeprecatedAmpApi(Rule):
    """A deprecated spelling of the AMP API, such as `torch.cuda.amp.autocast`, is used.

    ## Why is this bad?
    Since PyTorch 2.4, `torch.cuda.amp` and `torch.cpu.amp` (`autocast`, `GradScaler`, `custom_fwd`, `custom_bwd`) and
    `torch.get_autocast_gpu_dtype` and its kin warn at every use. `torch.amp` is one API for all devices. Its arguments
    come in another order: `autocast(enabled, dtype)` has become `autocast(device_type, dtype, enabled)`.

    ## Example
    ```python
    scaler = torch.cuda.amp.GradScaler(1024.0)
    with torch.cuda.amp.autocast(use_amp):
        loss = model(inputs)
    ```

    ## Use instead
    ```python
    scaler = torch.amp.GradScaler("cuda", 1024.0)
    with torch.amp.autocast("cuda", enabled=use_amp):
        loss = model(inputs)
    ```

    ## Fix safety
    The device type is added, arguments that change their place are named, imports follow; an imported name is changed
    with all its uses or not at all. A class of regions that is kept in a variable becomes a `functools.partial` with
    the device type, where the file calls it by keywords alone. The result needs PyTorch 2.4, scalers 2.3, regions alone
    1.13: where the project's requirements, its lock file or `torch-version` admit an older version, it is unsafe. Where
    `dtype` is left out, the old CUDA `autocast` takes float16 even inside a bfloat16 region; the new one keeps the
    dtype of the region around it.

    ## References
    - <https://docs.pytorch.org/docs/stable/amp.html>
    """

    code = "AMP701"
    name = "deprecated-amp-api"
    severity = Severity.INFO
    anywhere = True
    screen = ((b"autocast", b"GradScaler", b"custom_fwd", b"custom_bwd"), (b"amp", b"autocast_"))
    fixable = Applicability.SAFE
    reason = "PyTorch warns about it since 2.4; the successor serves every device type, with another argument order."

    def on_api_use(self, event: ApiUse) -> Iterator[Report]:
        if event.name in SUCCESSORS:
            advice = "Use {} and pass it the device type {!r}.".format(*SUCCESSORS[event.name])
            newest = event.required.before if event.required is not None else None
            unseen = (Premise.MOVES_ON,) if newest is not None and newest <= DEPRECATED_SINCE else ()
            yield self.report(event, f"{event.name} is deprecated", advice=advice, premises=unseen)

    def fix(self, event: Event, rewrite: Rewriter) -> Fix | None:
        assert isinstance(event, ApiUse)
        successor, imports = SUCCESSORS[event.name][0], list[str]()
        if isinstance(event.node, cst.ImportAlias):
            edits = list(_change_import(event.node, rewrite))
        else:
            root = rewrite.text(event.node).removesuffix(event.name.removeprefix("torch"))
            if root == rewrite.text(event.node):
                root, imports = "torch", ["import torch"]
            spelled = root + successor.removeprefix("torch")
            edits = list(_change_use(event.node, event.name, spelled, rewrite))
            if None in edits and _is_class_alias(event.node, event.name, rewrite):
                edits = [rewrite.replace(event.node, f'functools.partial({spelled}, "{SUCCESSORS[event.name][1]}")')]
                imports.append("import functools")
        done = tuple(filter(None, edits))
        if len(done) < len(edits):
            return None
        known = event.required is None or event.required.least >= _needed(event, rewrite)
        certain = Applicability.SAFE if known else Applicability.UNSAFE
        return Fix(f"Use {successor}", done, certain, tuple(imports))


def _needed(event: ApiUse, rewrite: Rewriter) -> tuple[int, ...]:
    """The first version of PyTorch that has what the repair writes."""
    found = rewrite.import_uses(event.node) if isinstance(event.node, cst.ImportAlias) else None
    return max(map(successor_since, (event.name, *(found[1] if found is not None else ()))))


def _change_import(alias: cst.ImportAlias, rewrite: Rewriter) -> Iterator[Edit | None]:
    """The edits of an import and of all uses of the names it binds, None for each that is not possible."""
    module, names = rewrite.import_uses(alias) or (alias, {})
    used = all(names.values()) or (any(names.values()) and "__main__" in rewrite.source.text)
    yield rewrite.replace(module, "torch.amp") if names and used else None
    for imported, uses in names.items():
        name = f"{rewrite.text(module)}.{imported}"
        if SUCCESSORS.get(name, ("",))[0] != f"torch.amp.{imported}":
            return (yield None)
        for use in uses:
            yield from _change_use(use, name, rewrite.text(use), rewrite)


def _change_use(node: cst.CSTNode, name: str, spelled: str, rewrite: Rewriter) -> Iterator[Edit | None]:
    """The edits that replace one use of the deprecated `name` by its successor, which is `spelled` there."""
    device, custom, above = SUCCESSORS[name][1], ".custom_" in name, rewrite.source.parent(node)
    argument = f'device_type="{device}"' if custom else f'"{device}"'
    bare = custom and isinstance(above, cst.Decorator)
    yield rewrite.replace(node, f"{spelled}({argument})" if bare else spelled)
    if isinstance(above, cst.Call) and above.func is node:
        if name.endswith(".autocast"):
            yield from rewrite.name_arguments(above, AUTOCAST_PARAMETERS[device])
        if not _names_device(above):
            yield rewrite.insert_argument(above, len(above.args) if custom else 0, argument)
    elif not bare and not rewrite.names_type(node) and not _is_asked_for(node, above):
        yield None


def _names_device(call: cst.Call) -> bool:
    """Whether `call` passes the device by name already, as the successor takes it."""
    return any(one.keyword is not None and one.keyword.value in ("device_type", "device") for one in call.args)


def _is_asked_for(node: cst.CSTNode, above: cst.CSTNode | None) -> bool:
    """Whether `getattr(torch.cuda.amp, "autocast")` is only compared: `is not None` tests its existence."""
    return isinstance(node, cst.Call) and isinstance(above, cst.Comparison)


def _is_class_alias(node: cst.CSTNode, name: str, rewrite: Rewriter) -> bool:
    """Whether `node` is the class of regions, bound to a variable that this file only calls with keywords."""
    above = rewrite.source.parent(node)
    target = above.targets[0].target if isinstance(above, cst.Assign) and len(above.targets) == 1 else None
    if not isinstance(target, cst.Name) or target.value == "_":
        return False  # `_ = torch.cpu.amp.autocast` asks whether it exists
    return name.endswith(".autocast") and rewrite.is_only_called(target.value)
