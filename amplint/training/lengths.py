"""Iterables of loops with a known length."""

from __future__ import annotations

from amplint.semantics.reading.scopes import dotted
from amplint.source import syntax as cst
from amplint.source.tree import walk
from amplint.torchlib.catalogue import operations_with
from amplint.training.calls import Calls
from amplint.training.definitions import values_of
from amplint.training.script import Script

_SIZED = frozenset(
    {"list", "tuple", "sorted", "range", "TensorDataset", "random_split", "ConcatDataset", "ImageFolder"}
)
_SIZED_MODULES = ("datasets.", "torchvision.datasets.", "torch.utils.data.TensorDataset")
_TENSORS = frozenset(f"torch.{name}" for name in operations_with("creates"))
_SAMPLERS = ("DistributedSampler", "RandomSampler", "SequentialSampler", "WeightedRandomSampler", "SubsetRandomSampler")
_DEEP = 4


def has_length(script: Script, calls: Calls, node: cst.BaseExpression, deep: int = _DEEP) -> bool:
    """Whether `len(...)` of the value of `node` certainly works, and is the number of iterations of a loop over it."""
    if isinstance(node, (cst.List, cst.Tuple, cst.ListComp)):
        return True
    if isinstance(node, cst.Call):
        return _made_with_length(script, calls, node, deep)
    if isinstance(node, cst.BinaryOperation):
        return isinstance(node.left, (cst.List, cst.Tuple))
    if isinstance(node, cst.IfExp):
        return has_length(script, calls, node.body, deep) and has_length(script, calls, node.orelse, deep)
    path = dotted(node)
    if path is None or deep == 0:
        return False
    values = values_of(script, calls, node, path)
    if _measured(script, calls, node, path):
        made = [value for value in values if isinstance(value, cst.Call)] if len(values) > 1 else []
        return all(has_length(script, calls, value, deep - 1) for value in made)
    return bool(values) and all(value is not None and has_length(script, calls, value, deep - 1) for value in values)


def _made_with_length(script: Script, calls: Calls, call: cst.Call, deep: int) -> bool:
    name = dotted(call.func) or ""
    last = name.rpartition(".")[2]
    if last == "DataLoader":
        return _loads_a_length(script, calls, call, deep)
    if last in _SIZED or name.startswith(_SIZED_MODULES) or name in _TENSORS:
        return True
    owner = script.source.definitions.get(last)
    made = next((one for one in script.top if isinstance(one, cst.ClassDef) and one.name.value == last), None)
    if made is not None and owner is not None:
        bases = [dotted(base.value) or "" for base in made.bases]
        methods = {one.name.value for one in made.body.body if isinstance(one, cst.FunctionDef)}
        return "__len__" in methods and not any("Iterable" in base for base in bases)
    return False


def _loads_a_length(script: Script, calls: Calls, call: cst.Call, deep: int) -> bool:
    """Whether a data loader reads a dataset with a length, as shuffling and PyTorch's samplers require."""
    given = {name: script.rewrite.find_argument(call, name, place) for name, place in _PLACES.items()}
    if given["batch_sampler"] is not None or any(argument.star for argument in call.args):
        return False
    shuffle, sampler, dataset = given["shuffle"], given["sampler"], given["dataset"]
    if shuffle is not None and script.rewrite.text(shuffle.value) == "True":
        return True
    if sampler is not None:
        made = values_of(script, calls, sampler.value, dotted(sampler.value) or "") or [sampler.value]
        names = [dotted(one.func) or "" for one in made if isinstance(one, cst.Call)]
        return len(names) == len(made) and all(name.endswith(_SAMPLERS) for name in names)
    return dataset is not None and has_length(script, calls, dataset.value, deep - 1)


_PLACES = {"dataset": 0, "shuffle": 2, "sampler": 3, "batch_sampler": 4}


def _measured(script: Script, calls: Calls, node: cst.BaseExpression, path: str) -> bool:
    """Whether the same code already takes the length of `path`, without a guard."""
    function = script.function_of(node)
    owner = script.method_owner(function)
    for call in calls.ending("len"):
        if len(call.args) == 1 and dotted(call.args[0].value) == path and not _guarded(script, call):
            there = script.function_of(call)
            if there is function or (
                path.startswith("self.") and owner is not None and script.method_owner(there) is owner
            ):
                return True
    return False


def _guarded(script: Script, call: cst.Call) -> bool:
    """Whether `call` runs only under a condition about a missing value or a type."""
    return any(
        isinstance(above, (cst.Try, cst.TryStar))
        or (isinstance(above, (cst.If, cst.IfExp)) and _doubts(above.test) and not script.inside(above.test, call))
        for above in script.source.ancestors(call)
    )


def _doubts(test: cst.BaseExpression) -> bool:
    return any(isinstance(node, cst.Name) and node.value in ("None", "hasattr", "isinstance") for node in walk(test))
