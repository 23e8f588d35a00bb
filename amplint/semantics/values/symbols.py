"""Value numbering of unknown values: equal expressions over equal inputs have the same symbol."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Iterator, Set

from amplint.records import dataclass

Key = tuple[Hashable, ...]
_COMPOUND = frozenset({"and", "or"})


@dataclass(frozen=True, slots=True)
class Callee:
    """The callee of an unseen call without a qualified name, in the key of its result."""

    symbol: int


class Symbols:
    """Interned symbols, plain integers, each with the creation time of its youngest part.

    The time identifies values created in a loop iteration, whose assumptions are dropped before the next one.
    `compound` conditions are composed by `and` and `or`.
    """

    def __init__(self) -> None:
        self._ids: dict[Key, int] = {}
        self._keys: list[Key] = []
        self._times: list[int] = []
        self._parts: list[tuple[int, ...]] = []
        self.compound: set[int] = set()
        self.now = 0
        self.key: Callable[[int], Key] = self._keys.__getitem__
        """The key under which a symbol was interned."""
        self.parts: Callable[[int], tuple[int, ...]] = self._parts.__getitem__
        """The symbols from which a symbol was made."""
        self.time: Callable[[int], int] = self._times.__getitem__
        """The creation time of the youngest part of a symbol; 0 for initial values."""

    def tick(self) -> int:
        """Advance the clock and return the new time."""
        self.now += 1
        return self.now

    def fresh(self, *key: Hashable) -> int:
        """A unique symbol."""
        return self.intern("fresh", self.tick(), *key, time=self.now)

    def intern(self, *key: Hashable, parts: tuple[int, ...] = (), time: int = 0) -> int:
        """The symbol of an operation named by `key` on the symbols `parts`."""
        whole = (*key, *parts)
        found = self._ids.get(whole)
        if found is None:
            found = self._ids[whole] = len(self._keys)
            self._keys.append(whole)
            self._parts.append(parts)
            self._times.append(max(time, *map(self.time, parts)) if parts else time)
            if whole[0] in _COMPOUND:
                self.compound.add(found)
        return found

    def callee(self, symbol: int) -> int | None:
        """The callee's symbol, if `symbol` is the result of an unseen call of an unnamed callee."""
        key = self._keys[symbol]
        return key[1].symbol if key[0] == "call" and len(key) > 1 and isinstance(key[1], Callee) else None

    def method(self, symbol: int) -> tuple[str, tuple[int, ...]] | None:
        """The method whose unseen call returned `symbol`, and its owner."""
        callee = self.callee(symbol)
        if callee is None or self._keys[callee][0] != "attribute":
            return None
        return str(self._keys[callee][1]), self._parts[callee]

    def closure(self, symbol: int, below: Callable[[int], Iterable[int]]) -> Iterator[int]:
        """The symbols reachable from `symbol` by `below`, each once: paths through shared parts grow exponentially."""
        todo, seen = [symbol], {symbol}
        while todo:
            current = todo.pop()
            yield current
            for part in below(current):
                if part not in seen:
                    seen.add(part)
                    todo.append(part)

    def alternatives(self, symbol: int) -> Iterator[int]:
        """The distinct operands of nested joins; `symbol` itself if it is no join."""

        def operands(one: int) -> tuple[int, ...]:
            return self._parts[one] if self._keys[one][0] == "either" else ()

        return (one for one in self.closure(symbol, operands) if not operands(one))

    def derivation(self, symbol: int) -> Iterator[int]:
        """`symbol` and everything it was made from, transitively."""
        return self.closure(symbol, self.parts)

    def involves(self, symbol: int, *names: Hashable) -> bool:
        """Whether an operation whose key begins with `names` contributed to `symbol`."""
        return any(self._keys[one][: len(names)] == names for one in self.derivation(symbol))

    def derives_from(self, symbol: int, wanted: Set[int]) -> bool:
        """Whether `symbol` is one of `wanted`, or made from one."""
        while wanted and symbol not in wanted and self._keys[symbol][0] in ("part", "index"):
            symbol = self._parts[symbol][0]
        return symbol in wanted
