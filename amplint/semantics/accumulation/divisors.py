"""Division of a loss by the number of micro-batches whose gradients accumulate."""

from __future__ import annotations

from collections.abc import Iterator

from amplint.regex import regex
from amplint.semantics.accumulation.boundaries import COUNTER, constant, shifted
from amplint.semantics.memory.rhythm import Rhythm
from amplint.semantics.python.machine import Machine
from amplint.semantics.values.arguments import Arguments
from amplint.semantics.values.symbols import Key
from amplint.semantics.values.values import TRUE, Const, Method
from amplint.semantics.words import COUNTS_WINDOW, SUMMED_LOSS
from amplint.source.remembered import cached_per_chunk
from amplint.source.source import Chunk
from amplint.torchlib.catalogue import in_place, operations_with, spellings
from amplint.torchlib.methods import SAME_NUMBERS

_KEEPS = SAME_NUMBERS | {"mean", "type", "get", "__enter__"}
_SCALED = spellings("div", "mul")
_RESCALES = _SCALED | in_place(_SCALED) | {"sum", "prod", "dot", "vdot"}
_MAY_DIVIDE = regex(r"/|\bdiv|\bmul|\.sum\(|sum\b")
_LOSSES = operations_with("loss")
_MEANS = frozenset({"mean", "batchmean", "none", None})
"""Reductions after which a loss is no sum, unless code that is followed adds its elements."""
_UNSEEN = frozenset({"builtins.sum", "scale of", "parameter"})
"""Kinds of values that may have been divided where they were made: for a parameter, by a caller."""
_DEEP = 60


@cached_per_chunk
def may_divide(chunk: Chunk) -> bool:
    """Whether code that is not interpreted might divide, multiply or sum its result."""
    return _MAY_DIVIDE.search(chunk.text) is not None


@cached_per_chunk
def changes_reduction(chunk: Chunk) -> bool:
    """Whether a hook in `chunk` reduces the gradients of processes, and may divide them."""
    return "comm_hook" in chunk.text


def may_be_sum(name: str, arguments: Arguments) -> bool:
    """Whether a call of a loss, or of its class, named `name` sums over the elements, or may do so."""
    reduction, averaged = arguments.value("reduction"), arguments.value("size_average")
    means = reduction is None or (isinstance(reduction, Const) and reduction.value in _MEANS)
    return not means or averaged not in (None, TRUE) or SUMMED_LOSS.search(name) is not None


def divided(machine: Machine, loss: int, every: int) -> bool | None:
    """Whether `loss` was divided by `every`, None if unknown."""
    return _Judge(machine, every).of(loss, _DEEP)


def divided_by_position(machine: Machine, loss: int, counter: int) -> bool:
    """Whether `loss` was divided by the counter of micro-batches in a window instead of their number, on every path."""
    return _is_by_position(machine, loss, _counter(machine, counter), set())


def _is_by_position(machine: Machine, loss: int, which: Key, seen: set[int]) -> bool:
    todo = [loss]
    while todo:
        symbol = todo.pop()
        key, parts = machine.symbols.key(symbol), machine.symbols.parts(symbol)
        if symbol in seen or not parts:
            continue
        seen.add(symbol)
        if key[0] == "Divide":
            if _counter(machine, parts[1]) == which:
                return True
            todo.append(parts[0])
        elif key[0] == "either":
            if all(_is_by_position(machine, part, which, seen) for part in parts):
                return True
        elif key[0] == "Add":
            todo += parts
        elif key[0] in SAME_NUMBERS:
            todo.append(parts[0])
    return False


def _counter(machine: Machine, symbol: int) -> Key:
    """The identity of a counter, irrespective of iteration and position."""
    base, _ = shifted(machine, symbol)
    key = machine.symbols.key(base)
    if key[:2] == ("part", 0):
        return ("part", *machine.symbols.key(machine.symbols.parts(base)[0])[:2])
    return {COUNTER: key[:3], "item": key[:2]}.get(str(key[0]), key)


class _Judge:
    def __init__(self, machine: Machine, every: int) -> None:
        self.machine = machine
        self.every = every
        self.number = constant(machine, every)
        self.is_length = machine.symbols.key(every)[:2] == ("call", "builtins.len")
        self.names = set() if self.is_length else set(self._names(every))
        self.owners = self._owners(every)
        self._known: dict[int, bool | None] = {}

    def of(self, symbol: int, depth: int) -> bool | None:
        """Whether the value of `symbol` was divided."""
        if symbol not in self._known:
            self._known[symbol] = None
            self._known[symbol] = self._of(symbol, depth) if depth else None
        return self._known[symbol]

    def _of(self, symbol: int, depth: int) -> bool | None:
        if self._involved(symbol):
            return True
        if symbol in self.machine[Rhythm].opaque:
            return None
        key, parts = self.machine.symbols.key(symbol), self.machine.symbols.parts(symbol)
        kind = key[0]
        if kind == "Divide" and (averaged := self._averaged(*parts)) is not None:
            return self.of(averaged, depth - 1)
        if kind in ("Divide", "Multiply", "FloorDivide"):
            return self._scaled(kind == "Multiply", parts[0], parts[1], depth)
        if kind in _LOSSES:
            return False
        if kind in _RESCALES or kind in _UNSEEN:
            return None
        if kind == "call":
            return self._called(symbol, parts, depth)
        if kind == "either":
            parts = tuple(p if isinstance(p, int) else getattr(p, "symbol", -1) for p in key[1:])
            if -1 in parts:
                return None
        if kind in ("Add", "Subtract", "either", "if"):
            verdicts = [self.of(part, depth - 1) for part in (parts[1:] if kind == "if" else parts)]
            return False if False in verdicts or (kind == "Add" and self._weighted(parts, depth)) else None
        return self.of(parts[0], depth - 1) if parts else False

    def _scaled(self, multiplied: bool, left: int, right: int, depth: int) -> bool | None:
        for one, other in ((left, right), (right, left)) if multiplied else ((left, right),):
            factor = constant(self.machine, other)
            if isinstance(factor, (int, float)) and not isinstance(factor, bool):
                share = factor if multiplied else 1 / factor if factor else 0.0
                if isinstance(self.number, (int, float)) and abs(share * self.number - 1) < 1e-6:
                    return True
                return None if self.is_length else self.of(one, depth - 1)
        return None

    def _averaged(self, dividend: int, divisor: int) -> int | None:
        """The elements of which a quotient is the mean: a sum by the sum of the weights, or of the mask, in it."""
        symbols = self.machine.symbols
        if symbols.key(dividend)[0] != "sum" or not symbols.parts(dividend):
            return None
        elements, counted = symbols.parts(dividend)[0], set(symbols.derivation(divisor))
        summed = {part for one in counted if symbols.key(one)[0] == "sum" for part in symbols.parts(one)[:1]}
        weights = summed.intersection(symbols.derivation(dividend))
        if not weights or dividend in counted:
            return None
        others = [one for one in symbols.parts(elements) if one not in weights]
        return others[0] if symbols.key(elements)[0] == "Multiply" and len(others) == 1 else elements

    def _weighted(self, summands: tuple[int, ...], depth: int) -> bool:
        """Whether undivided losses are added that have no factor in common, which would be the one of a division."""
        factors = [self._factors(one, depth) for one in summands]
        return all(factors) and not frozenset.intersection(*factors)

    def _factors(self, symbol: int, depth: int) -> frozenset[int]:
        """The factors of a product, none of them divided; empty for anything else."""
        symbols = self.machine.symbols

        def factors(one: int) -> tuple[int, ...]:
            return symbols.parts(one) if symbols.key(one)[0] == "Multiply" else ()

        found = frozenset(symbols.closure(symbol, factors))
        divided = any(self.of(one, depth - 1) is not False for one in found if not factors(one))
        return frozenset() if divided else found - {symbol}

    def _called(self, symbol: int, parts: tuple[int, ...], depth: int) -> bool | None:
        if any(part in self.owners or self._is_total(part) for part in parts):
            return None
        callee = self.machine.symbols.callee(symbol)
        if callee in self.machine[Rhythm].opaque:
            return None
        if callee is None:
            name = str(self.machine.symbols.key(symbol)[1])
            return None if name.rpartition(".")[2] in _RESCALES else False
        key = self.machine.symbols.key(callee)
        if key[0] == "value" and isinstance(key[1], Method) and isinstance(key[1].owner, Const):
            return None  # such as `None.scale`, if there may be no scaler
        if key[0] != "attribute":
            return False
        owner = self.machine.symbols.parts(callee)[0]
        if key[1] in _RESCALES:
            return None
        return self.of(owner, depth - 1) if key[1] in _KEEPS else False

    def _is_total(self, symbol: int) -> bool:
        """Whether a value is what rounds of a loop add up, such as the tokens of all micro-batches of a window."""
        symbols, key = self.machine.symbols, self.machine.symbols.key(symbol)
        if key[0] == "parameter" and COUNTS_WINDOW.search(str(key[-1])):
            return True

        def summands(one: int) -> tuple[int, ...]:
            return symbols.parts(one) if symbols.key(one)[0] in ("Add", "either", "cast", *_KEEPS) else ()

        return sum(symbols.key(one)[0] == "Add" for one in symbols.closure(symbol, summands)) > 1

    def _involved(self, symbol: int) -> bool:
        return any(
            (part == self.every and self.number is None) or self._name(part) in self.names for part in self._all(symbol)
        )

    def _all(self, symbol: int) -> set[int]:
        """What `symbol` was computed from, without what the items of a loop come from."""
        found, todo = set(), [symbol]
        while todo:
            current = todo.pop()
            if current not in found:
                found.add(current)
                if self.machine.symbols.key(current)[0] != "item":
                    todo += self.machine.symbols.parts(current)
        return found

    def _name(self, symbol: int) -> object:
        key = self.machine.symbols.key(symbol)
        if key[0] == "attribute":
            return key[1]
        return key[-1] if key[0] in ("parameter", "name") else None

    def _names(self, symbol: int) -> Iterator[object]:
        """The names of the values that contributed to `symbol`, without their owners."""
        symbols = self.machine.symbols
        for one in symbols.closure(symbol, lambda one: symbols.parts(one) if self._name(one) is None else ()):
            if (name := self._name(one)) is not None:
                yield name

    def _owners(self, symbol: int) -> set[int]:
        found = set()
        while self.machine.symbols.key(symbol)[0] in ("attribute", "index"):
            symbol = self.machine.symbols.parts(symbol)[0]
            found.add(symbol)
        return found
