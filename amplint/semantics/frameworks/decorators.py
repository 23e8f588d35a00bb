"""Method decorators of mmcv that read a switch of the object, in classes that never set it."""

from __future__ import annotations

from amplint.regex import regex
from amplint.semantics.events import InertDecorator
from amplint.semantics.python import attributes
from amplint.semantics.python.machine import Machine
from amplint.semantics.python.tracker import Tracker
from amplint.semantics.values.state import MODULE_FRAME, State
from amplint.semantics.values.values import Class, Ref
from amplint.source import syntax as cst
from amplint.source.tree import walk
from amplint.torchlib.legacy import CAST_DECORATORS, PLAIN_BASES, SWITCH, is_mmcv

_SET_FROM_OUTSIDE = regex(rf"(?<!\bself)\.{SWITCH}\s*=|setattr\([^()]*{SWITCH}")
_ABSTRACT = regex(r"@(?:abc\.)?abstractmethod\b")


def inspect(machine: Machine, state: State, cls: Class) -> None:
    """Report the methods of `cls` whose decorator finds no switch."""
    if not any(name in cls.chunk.text for name in CAST_DECORATORS):
        return
    methods = [member for member in attributes.members(cls).values() if isinstance(member, cst.FunctionDef)]
    decorated = [(decorator, method) for method in methods for decorator in method.decorators]
    found = [
        (decorator, method, name)
        for decorator, method in decorated
        if (name := _name(machine, state, decorator.decorator)) is not None and _applies(decorator.decorator, method)
    ]
    if found and not _may_have_switch(machine, state, cls):
        for decorator, method, name in found:
            machine.chunk, machine.statement = cls.chunk, method
            machine.emit(state, InertDecorator, decorator.decorator, name=name)


def _name(machine: Machine, state: State, node: cst.BaseExpression) -> str | None:
    value = machine.evaluate(state, node.func if isinstance(node, cst.Call) else node)
    if not isinstance(value, Ref) or not is_mmcv(value.name):
        return None
    name = value.name.rpartition(".")[2]
    return name if name in CAST_DECORATORS else None


def _applies(decorator: cst.BaseExpression, method: cst.FunctionDef) -> bool:
    """Whether a decorator casts an argument of `method`: `apply_to` can name none, and then no switch helps."""
    given = decorator.args if isinstance(decorator, cst.Call) else []
    named = next((one.value for one in given if one.keyword is None or one.keyword.value == "apply_to"), None)
    texts = (
        [inner.raw_value for inner in walk(named) if isinstance(inner, cst.SimpleString)] if named is not None else []
    )
    params = {param.name.value for param in (*method.params.params, *method.params.kwonly_params)}
    return not texts or not params.isdisjoint(texts)


def _may_have_switch(machine: Machine, state: State, cls: Class) -> bool:
    """Whether an instance of the class, or of a subclass, can have the switch.

    An abstract class has instances of subclasses only, which may be in unseen files.
    """
    if _ABSTRACT.search(cls.chunk.text):
        return True
    if any(_SET_FROM_OUTSIDE.search(chunk.text) for chunk in machine.program.chunks):
        return True
    family = set(attributes.lineage(machine, state, cls))
    for value in state.frames[MODULE_FRAME].values():
        if isinstance(value, Class) and cls in (above := attributes.lineage(machine, state, value)):
            family |= set(above)
    bases = [base for member in family for base in attributes.bases(machine, state, member)]
    known = all(isinstance(base, Class) or _is_plain(base) for base in bases)
    is_module = any(_is_plain(base) for base in bases)
    return not known or not is_module or any(SWITCH in member.chunk.text for member in family)


def _is_plain(base: object) -> bool:
    return isinstance(base, Ref) and (base.name.startswith("torch.nn.") or base.name in PLAIN_BASES)


class SwitchDecorators(Tracker):
    """Tracks methods whose decorator reads a switch of the object."""

    def class_begins(self, state: State, cls: Class) -> None:
        """Report the methods of `cls`."""
        inspect(self.machine, state, cls)
