"""Dataclasses with methods generated on first use: a run uses few of the two hundred that it loads."""

from __future__ import annotations

import dataclasses
import threading
from collections.abc import Callable
from types import MemberDescriptorType
from typing import TYPE_CHECKING, Any, NoReturn

if TYPE_CHECKING:
    from dataclasses import dataclass as dataclass
else:

    def dataclass(cls=None, /, **options):
        """`dataclasses.dataclass` with the options `frozen`, `slots`, `kw_only`, `eq`, `order` and `repr`."""
        return (lambda one: _made(one, **options)) if cls is None else _made(cls, **options)


_MISSING: Any = object()


def _made(
    cls: type[Any],
    *,
    frozen: bool = False,
    slots: bool = False,
    kw_only: bool = False,
    eq: bool = True,
    order: bool = False,
    repr: bool = True,
) -> type[Any]:
    own = {name for name, value in vars(cls).items() if name != "__hash__" or value is not None}
    made: Any = _slotted(cls) if slots else cls
    made.__dataclass_fields__ = _Fields(cls, made, kw_only)
    later: dict[str, Callable[[type[Any]], Callable[..., Any]]] = {"__init__": _init_of(frozen)}
    if eq:
        later["__eq__"] = _eq_of
        if frozen:
            later["__hash__"] = _hash_of
        elif "__hash__" not in own:
            made.__hash__ = None
    if order:
        later.update({name: _order_of(sign) for name, sign in _SIGNS.items()})
    if repr and "__repr__" not in own:
        made.__repr__ = _repr
    if frozen:
        made.__setattr__, made.__delattr__ = _refuse_set, _refuse_del
        if slots:
            made.__getstate__, made.__setstate__ = _state, _set_state
    for name, write in later.items():
        if name not in own:
            setattr(made, name, _stub(made, name, write))
    finished: type[Any] = made
    return finished


class _Fields:
    """The fields of the dataclass `made` of `cls`, computed on access."""

    def __init__(self, cls: type[Any], made: type[Any], kw_only: bool) -> None:
        self._cls, self._made, self._kw_only = cls, made, kw_only

    def own(self) -> dict[str, dataclasses.Field[Any]]:
        """The fields that the class itself declares."""
        found: dict[str, dataclasses.Field[Any]] = {}
        for name in _declared(self._cls):
            value = vars(self._cls).get(name, dataclasses.MISSING)
            one = value if isinstance(value, dataclasses.Field) else dataclasses.field(default=value)
            one.name = name
            one.kw_only = self._kw_only if one.kw_only is dataclasses.MISSING else one.kw_only
            found[name] = one
        return found

    def __get__(self, one: object, owner: type[Any]) -> dict[str, dataclasses.Field[Any]]:
        with _working_out:
            if vars(self._made)["__dataclass_fields__"] is self:
                cls: Any = dataclasses.dataclass(init=False, repr=False, eq=False, kw_only=self._kw_only)(self._cls)
                for name in _TOLD:
                    setattr(self._made, name, vars(cls)[name])
        found: dict[str, dataclasses.Field[Any]] = vars(self._made)["__dataclass_fields__"]
        return found


_working_out = threading.RLock()
_TOLD = ("__dataclass_params__", "__match_args__", "__dataclass_fields__")


def fields(cls: type[Any]) -> list[dataclasses.Field[Any]]:
    """As `dataclasses.fields`, at a tenth of its cost: without types, and without creating the dataclass's methods."""
    found: dict[str, dataclasses.Field[Any]] = {}
    for base in reversed(cls.__mro__):
        declared = vars(base).get("__dataclass_fields__")
        if isinstance(declared, _Fields):
            found.update(declared.own())
        elif declared is not None:
            found.update({one.name: one for one in dataclasses.fields(base)})
    return list(found.values())


def _declared(cls: type[Any]) -> list[str]:
    """The names of the fields that a class itself declares."""
    return [name for name, kind in cls.__annotations__.items() if "ClassVar" not in str(kind)]


def _slotted(cls: type[Any]) -> type[Any]:
    """A copy of `cls` with slots for its fields."""
    names = _declared(cls)
    inherited = {name for base in cls.__mro__[1:-1] for name in getattr(base, "__slots__", ())}
    left_out = {"__dict__", "__weakref__", *names}
    body = {name: value for name, value in vars(cls).items() if name not in left_out}
    body["__slots__"] = tuple(name for name in names if name not in inherited)
    kind: Any = type(cls)
    made: type[Any] = kind(cls.__name__, cls.__bases__, body)
    made.__qualname__ = cls.__qualname__
    return made


def _stub(cls: type[Any], name: str, write: Callable[[type[Any]], Callable[..., Any]]) -> Callable[..., Any]:
    """A method that, when called, generates the method `name` and installs it in its own place."""

    def first(self: Any, /, *arguments: Any, **named: Any) -> Any:
        method = write(cls)
        setattr(cls, name, method)
        return method(self, *arguments, **named)

    first.__name__ = name
    return first


def _init_of(frozen: bool) -> Callable[[type[Any]], Callable[..., Any]]:
    def write(cls: type[Any]) -> Callable[..., Any]:
        known: dict[str, Any] = {"_set": object.__setattr__, "_MISSING": _MISSING}
        plain: list[str] = []
        named: list[str] = []
        body: list[str] = []
        for field in fields(cls):
            name, value = field.name, field.name
            default = field.default is not dataclasses.MISSING
            made = field.default_factory is not dataclasses.MISSING
            known[f"_of_{name}"] = field.default if default else field.default_factory
            if made:
                value = f"_of_{name}() if {name} is _MISSING else {name}" if field.init else f"_of_{name}()"
            elif not field.init:
                value = f"_of_{name}"
            if field.init:
                parameter = f"{name}=_MISSING" if made else f"{name}=_of_{name}" if default else name
                (named if field.kw_only else plain).append(parameter)
            if field.init or made or default:
                slot = getattr(cls, name, None)
                if not frozen:
                    body.append(f"self.{name} = {value}")
                elif isinstance(slot, MemberDescriptorType):
                    known[f"_set_{name}"] = slot.__set__
                    body.append(f"_set_{name}(self, {value})")
                else:
                    body.append(f"_set(self, {name!r}, {value})")
        if hasattr(cls, "__post_init__"):
            body.append("self.__post_init__()")
        parameters = ", ".join(["self", *plain, *(["*", *named] if named else [])])
        return _function("__init__", parameters, body or ["pass"], known)

    return write


def _eq_of(cls: type[Any]) -> Callable[..., Any]:
    return _comparison(cls, "==")


def _hash_of(cls: type[Any]) -> Callable[..., Any]:
    names = [each.name for each in fields(cls) if (each.compare if each.hash is None else each.hash)]
    values = "".join(f"self.{name}, " for name in names)
    return _function("__hash__", "self", [f"return hash(({values}))"], {})


def _order_of(sign: str) -> Callable[[type[Any]], Callable[..., Any]]:
    return lambda cls: _comparison(cls, sign)


_SIGNS = {"__lt__": "<", "__le__": "<=", "__gt__": ">", "__ge__": ">="}


def _comparison(cls: type[Any], sign: str) -> Callable[..., Any]:
    compared = [each.name for each in fields(cls) if each.compare]
    ours, theirs = (f"({''.join(f'{owner}.{name}, ' for name in compared)})" for owner in ("self", "other"))
    body = ["if other.__class__ is self.__class__:", f" return {ours} {sign} {theirs}", "return NotImplemented"]
    if sign == "==":
        body.insert(0, "if other is self: return True")
    return _function(f"comparison {sign}", "self, other", body, {})


def _function(name: str, parameters: str, body: list[str], known: dict[str, Any]) -> Callable[..., Any]:
    lines = "\n".join(f" {line}" for line in body)
    exec(f"def method({parameters}):\n{lines}", known)
    method: Callable[..., Any] = known["method"]
    method.__name__ = method.__qualname__ = name
    return method


def _repr(self: Any) -> str:
    shown = (f"{each.name}={getattr(self, each.name)!r}" for each in fields(type(self)) if each.repr)
    return f"{type(self).__qualname__}({', '.join(shown)})"


def _refuse_set(self: Any, name: str, value: object) -> NoReturn:
    raise dataclasses.FrozenInstanceError(f"cannot assign to field {name!r}")


def _refuse_del(self: Any, name: str) -> NoReturn:
    raise dataclasses.FrozenInstanceError(f"cannot delete field {name!r}")


def _state(self: Any) -> list[Any]:
    return [getattr(self, field.name) for field in fields(type(self))]


def _set_state(self: Any, state: list[Any]) -> None:
    for field, value in zip(fields(type(self)), state, strict=True):
        object.__setattr__(self, field.name, value)
