"""`--to float8`: linear layers of a bfloat16 training script multiply in float8, by torchao.

Both sizes of a layer have to be multiples of 16, and the last layer is unchanged: its logits go into the loss.
"""

from __future__ import annotations

from collections.abc import Iterator

from amplint.codemods.conversion import Change, Plan, Remark, Wish
from amplint.codemods.editing import remarks_on
from amplint.findings import Fix
from amplint.records import dataclass
from amplint.semantics.reading.scopes import dotted
from amplint.source import syntax as cst
from amplint.source.tree import every, walk
from amplint.torchlib.float8 import MULTIPLE
from amplint.training.bindings import called_name, constructor, paths
from amplint.training.calls import Calls
from amplint.training.definitions import values_of
from amplint.training.names import Use, library_uses
from amplint.training.refusal import Refusal, required
from amplint.training.script import Script

_CONVERTS = "convert_to_float8_training"
_IMPORT = f"from torchao.float8 import {_CONVERTS}"
_OPTIMIZERS, _LINEAR, _SEQUENTIAL = "torch.optim.", "torch.nn.Linear", "torch.nn.Sequential"
_WRAPPERS = frozenset({"compile", "DistributedDataParallel", "DDP", "FullyShardedDataParallel", "FSDP", "fully_shard"})
_DEPTH = 4


@dataclass(frozen=True, slots=True)
class _Layer:
    """A linear layer: its constructor call, its name in the model, and its sizes."""

    call: cst.Call
    name: str
    sizes: tuple[int, int]

    @property
    def fits(self) -> bool:
        """Whether float8 products support its sizes."""
        return all(size % MULTIPLE == 0 for size in self.sizes)


def plan(text: str, wish: Wish, path: str) -> Plan:
    """Convert the layers of the script's single model before it passes its parameters to an optimizer."""
    if ".backward(" not in text or "optim" not in text or _CONVERTS in text:
        return Plan()
    script = Script(text, path)
    try:
        return _planned(script)
    except Refusal as refusal:
        return Plan(refused=remarks_on(refusal, script))


def _planned(script: Script) -> Plan:
    known = library_uses(script, "torch")
    named = {use.call: use.name for use in known if use.call is not None}
    optimizers = [use for use in known if use.call is not None and use.name.startswith(_OPTIMIZERS) and use.call.args]
    optimizers = [use for use in optimizers if ".lr_scheduler" not in use.name]
    models = list(dict.fromkeys(model for use in optimizers for model in _models(use)))
    if not optimizers or len(models) != 1:
        why = "several models are optimized" if len(models) > 1 else "no optimizer gets the parameters of a model"
        raise Refusal(
            optimizers[0].node if optimizers else script.top[0], f"{why}, so which layers train cannot be told"
        )
    first, model = optimizers[0].node, models[0]
    if "bfloat16" not in script.text:
        raise Refusal(first, "float8 layers are for training in bfloat16: convert --to amp --dtype bfloat16 first")
    made = [node for node in script.assignments(script.function_of(first), model) if isinstance(node, cst.Assign)]
    making = next((node for node in made if not _is_wrapped(node, model)), None)
    if making is None:
        raise Refusal(first, f"where {model} is made is not in sight")
    layers = list(_Layers(script, named).of(constructor(making.value), ""))
    fitting = [layer for layer in layers[:-1] if layer.fits]
    if not fitting:
        raise Refusal(making, f"no layer of {model} but the last has sizes that are multiples of {MULTIPLE}")
    place = _place(script, making, model, first)
    fits = " and ".join(f"layer.{size} % {MULTIPLE} == 0" for size in ("in_features", "out_features"))
    code = (
        f"{_CONVERTS}(\n    {model},\n    module_filter_fn=lambda layer, name: (\n"
        f'        name != "{layers[-1].name}" and {fits}\n    ),\n)'
    )
    edit = script.rewrite.insert_before(place, code)
    edit = required(edit, place, "there is no place for the conversion of the layers here")
    row = script.row(place)
    remark = Remark(row, f"multiply in float8 ({len(fitting)} of {len(layers)} layers)")
    fix = Fix("Multiply in float8", (edit,), imports=(_IMPORT,))
    what = (
        f"float8 products take a GPU of compute capability 8.9 or newer, and a multiple of {MULTIPLE} rows from every "
        "batch, the last one too (drop_last=True)"
    )
    return Plan((Change(fix, (remark,), (Remark(row + 1, what),)),))


def _models(use: Use) -> Iterator[str]:
    """The models whose parameters are passed to an optimizer."""
    assert use.call is not None
    for call in every(use.call, cst.Call):
        if isinstance(call.func, cst.Attribute) and call.func.attr.value in ("parameters", "named_parameters"):
            yield dotted(call.func.value) or ""


def _is_wrapped(node: cst.Assign, model: str) -> bool:
    return model in paths(node.value)


def _place(script: Script, making: cst.Assign, model: str, optimizer: cst.CSTNode) -> cst.CSTNode:
    """The first statement after `making` that wraps the model, or passes its parameters on."""
    statement = script.statement_of(making)
    block = list(script.block_of(statement)) if statement is not None else []
    for one in block[block.index(statement) + 1 :] if statement is not None else ():
        if script.inside(one, optimizer):
            return one
        calls = (call for call in every(one, cst.Call) if called_name(call) in _WRAPPERS)
        if any(model in paths(call) for call in calls):
            return one
    raise Refusal(optimizer, f"the optimizer is not made in the block that makes {model}")


class _Layers:
    """The linear layers of a model, in the order of their construction."""

    def __init__(self, script: Script, named: dict[cst.Call, str]) -> None:
        self._script = script
        self._named = named
        self._calls = Calls(script, {})
        self._classes = {one.name.value: one for one in script.top if isinstance(one, cst.ClassDef)}

    def of(self, node: cst.BaseExpression, prefix: str, depth: int = 0) -> Iterator[_Layer]:
        """The layers that `node` constructs, by their names below `prefix`. Raises Refusal for hidden ones."""
        if not isinstance(node, cst.Call):
            raise Refusal(node, "the layers of the model are not in this file")
        name = self._named.get(node, "")
        cls = self._classes.get(dotted(node.func) or "")
        if name == _LINEAR:
            yield _Layer(node, prefix, (self._size(node, "in_features", 0), self._size(node, "out_features", 1)))
        elif name == _SEQUENTIAL:
            for index, argument in enumerate(node.args):
                if argument.star:
                    raise Refusal(argument.value, "which layers these are is not written out")
                if isinstance(argument.value, cst.Call):
                    yield from self.of(argument.value, _joined(prefix, str(index)), depth)
        elif cls is not None and depth < _DEPTH:
            yield from self._of_class(cls, prefix, depth)
        elif not name.startswith("torch.nn."):
            raise Refusal(node, f"the layers of {self._script.text_of(node.func)} are not in this file")

    def _of_class(self, cls: cst.ClassDef, prefix: str, depth: int) -> Iterator[_Layer]:
        for assign in every(cls, cst.Assign):
            path = dotted(assign.targets[0].target) or ""
            made = constructor(assign.value)
            if path.startswith("self.") and path.count(".") == 1 and isinstance(made, cst.Call):
                yield from self._attribute(made, _joined(prefix, path.removeprefix("self.")), depth)

    def _attribute(self, made: cst.Call, name: str, depth: int) -> Iterator[_Layer]:
        known = self._named.get(made, "") or (dotted(made.func) or "") in self._classes
        if known:
            yield from self.of(made, name, depth + 1)
        elif any(self._named.get(call) == _LINEAR for call in walk(made) if isinstance(call, cst.Call)):
            raise Refusal(made, "which layers these are is not written out")

    def _size(self, call: cst.Call, keyword: str, position: int) -> int:
        found = self._script.rewrite.find_argument(call, keyword, position)
        size = self._number(found.value, _DEPTH) if found is not None else None
        if size is None:
            raise Refusal(call, f"a size of this layer is not known here, and float8 takes multiples of {MULTIPLE}")
        return size

    def _number(self, node: cst.BaseExpression, depth: int) -> int | None:
        """The integer value of `node`, by literals in the file."""
        if isinstance(node, cst.Integer):
            return int(node.value, 0)
        if isinstance(node, cst.BinaryOperation) and isinstance(node.operator, cst.Multiply):
            left, right = self._number(node.left, depth), self._number(node.right, depth)
            return left * right if left is not None and right is not None else None
        if not isinstance(node, cst.Name) or not depth:
            return None
        given = values_of(self._script, self._calls, node, node.value)
        values = {self._number(value, depth - 1) if value is not None else None for value in given}
        return values.pop() if len(values) == 1 else None


def _joined(prefix: str, name: str) -> str:
    return f"{prefix}.{name}" if prefix else name
