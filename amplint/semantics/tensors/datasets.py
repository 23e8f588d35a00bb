"""The class whose method runs: a dataset, in which all is float32, or a layer."""

from __future__ import annotations

from amplint.semantics.python.machine import Machine
from amplint.semantics.reading.demos import is_within_test
from amplint.semantics.reading.scopes import last_name
from amplint.semantics.words import LOSS
from amplint.source import syntax as cst
from amplint.source.remembered import cached_per_file
from amplint.torchlib.policy import words

_OF_DATA = words("__getitem__ __iter__ collate_fn collate")
_OF_DATASETS = words("__getitem__ train_dataloader")
_DATASETS = words("Dataset IterableDataset TensorDataset LightningDataModule")
_OF_MODELS = words("forward training_step")


def prepares_data(machine: Machine) -> bool:
    """Whether a running function is a method of a dataset, called by a loader, or a test, which makes its own data."""
    if is_within_test(machine.calls):
        return True
    return any(map(_gives_data, machine.calls)) or any(_is_of_dataset(machine, one) for one in machine.calls)


def layer_around(machine: Machine) -> cst.ClassDef | None:
    """The class with a `forward` whose method is the running function."""
    cls = _class_around(machine, machine.calls[-1]) if machine.calls else None
    return cls if cls is not None and "forward" in _method_names(cls) else None


def runs_in_layer(machine: Machine) -> bool:
    """Whether the running function is a method of a layer that is no loss."""
    cls = layer_around(machine)
    return cls is not None and LOSS.search(cls.name.value) is None


def _gives_data(function: cst.CSTNode) -> bool:
    return isinstance(function, cst.FunctionDef) and function.name.value in _OF_DATA


def _is_of_dataset(machine: Machine, function: cst.CSTNode) -> bool:
    cls = _class_around(machine, function)
    if cls is None:
        return False
    if any(last_name(base.value) in _DATASETS for base in cls.bases):
        return True
    names = _method_names(cls)
    return not names.isdisjoint(_OF_DATASETS) and names.isdisjoint(_OF_MODELS)


def _class_around(machine: Machine, function: cst.CSTNode) -> cst.ClassDef | None:
    """The class whose method a function is."""
    source = machine.program.source_of(function)
    around = source.ancestors(function) if source is not None else ()
    return next((above for above in around if isinstance(above, cst.ClassDef)), None)


@cached_per_file
def _method_names(cls: cst.ClassDef) -> frozenset[str]:
    """The names of the methods that a class defines."""
    return frozenset(one.name.value for one in cls.body.body if isinstance(one, cst.FunctionDef))
