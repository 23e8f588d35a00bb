"""Names for values nobody computed: equal expressions over equal inputs get the same symbol."""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Set

from amplint.records import dataclass

Key = tuple[Hashable, ...]
_COMPOUND = frozenset({"and", "or"})


@dataclass(frozen=True, slots=True)
class Callee:
    """What an unseen call calls that has no qualified name, in the key of what the call comes to."""

    symbol: int


class Symbols:
    """Interned symbols, plain integers, each with the time its youngest part was made.

    The time tells what one loop iteration brought forth, so that what was assumed about it can be forgotten before the
    next iteration. Conditions that are `compound` are built of others by `and` and `or`.
    """

    def __init__(self) -> None:
        self._ids: dict[Key, int] = {}
        self._keys: list[Key] = []
        self._times: list[int] = []
        self._parts: list[tuple[int, ...]] = []
        self.compound: set[int] = set()
        self.now = 0

    def tick(self) -> int:
        """Advance the clock and return the new time."""
        self.now += 1
        return self.now

    def fresh(self, *key: Hashable) -> int:
        """A symbol that equals no other."""
        return self.intern("fresh", self.tick(), *key, time=self.now)

    def intern(self, *key: Hashable, parts: tuple[int, ...] = (), time: int = 0) -> int:
        """The symbol of an operation named by `key` on the symbols `parts`."""
        whole = (*key, *parts)
        found = self._ids.get(whole)
        if found is None:
            found = self._ids[whole] = len(self._keys)
            self._keys.append(whole)
            self._parts.append(parts)
            self._times.append(max([time, *(self._times[part] for part in parts)]))
            if whole[0] in _COMPOUND:
                self.compound.add(found)
        return found

    def key(self, symbol: int) -> Key:
        """What `symbol` was interned as."""
        return self._keys[symbol]

    def parts(self, symbol: int) -> tuple[int, ...]:
        """The symbols that `symbol` was made from."""
        return self._parts[symbol]

    def time(self, symbol: int) -> int:
        """When the youngest part of `symbol` was made; 0 for what was there from the start."""
        return self._times[symbol]

    def callee(self, symbol: int) -> int | None:
        """The symbol of what was called, where `symbol` is the result of an unseen call of something without a name."""
        key = self._keys[symbol]
        return key[1].symbol if key[0] == "call" and len(key) > 1 and isinstance(key[1], Callee) else None

    def method(self, symbol: int) -> tuple[str, tuple[int, ...]] | None:
        """The method by whose unseen call `symbol` was made, and what that belongs to."""
        callee = self.callee(symbol)
        if callee is None or self._keys[callee][0] != "attribute":
            return None
        return str(self._keys[callee][1]), self._parts[callee]

    def behind(self, symbol: int) -> Iterator[int]:
        """`symbol` and everything it was made from."""
        todo, seen = [symbol], {symbol}
        while todo:
            current = todo.pop()
            yield current
            for part in self._parts[current]:
                if part not in seen:
                    seen.add(part)
                    todo.append(part)

    def involves(self, symbol: int, *names: Hashable) -> bool:
        """Whether an operation whose key begins with `names` went into `symbol`."""
        todo, seen = [symbol], set()
        while todo:
            current = todo.pop()
            if self._keys[current][: len(names)] == names:
                return True
            seen.add(current)
            todo += [part for part in self._parts[current] if part not in seen]
        return False

    def made_of(self, symbol: int, wanted: Set[int]) -> bool:
        """Whether `symbol` is one of `wanted`, or a part of one."""
        while wanted and symbol not in wanted and self._keys[symbol][0] in ("part", "index"):
            symbol = self._parts[symbol][0]
        return symbol in wanted
