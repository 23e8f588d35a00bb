"""Conditions that hold once every n iterations, and the counters they test."""

from __future__ import annotations

from dataclasses import replace

from amplint.findings import Guessed
from amplint.semantics.memory.rhythm import Boundary, Rhythm
from amplint.semantics.python.machine import Machine
from amplint.semantics.values.state import Iteration
from amplint.semantics.values.symbols import Key
from amplint.semantics.values.values import Const
from amplint.semantics.words import ENDS_WINDOW, INSIDE_WINDOW, PASSES_ON
from amplint.source import syntax as cst
from amplint.source.tree import every

COUNTER = "counter"


def is_ahead_of_count(machine: Machine, node: cst.CSTNode) -> bool:
    """Whether an `if` behind `node` in the same round of a loop counts, and steps an optimizer."""
    source = machine.program.source_of(node)
    inner = node
    for above in source.ancestors(node) if source is not None else ():
        if isinstance(above, (cst.For, cst.While, cst.FunctionDef)):
            return False
        block = list(above.body) if isinstance(above, cst.IndentedBlock) else []
        behind = block[block.index(inner) + 1 :] if inner in block else []
        if any(isinstance(one, cst.If) and _counts_steps(one) for one in behind):
            return True
        inner = above
    return False


def _counts_steps(choice: cst.If) -> bool:
    """Whether a condition takes a remainder, and what it guards calls `step`."""
    counted = any(isinstance(one.operator, cst.Modulo) for one in every(choice.test, cst.BinaryOperation))
    return counted and any(
        isinstance(call.func, cst.Attribute) and call.func.attr.value == "step" for call in every(choice.body, cst.Call)
    )


def boundary(machine: Machine, symbol: int) -> Boundary | None:
    """The window boundary that the condition `symbol` tests, None if it tests none."""
    if symbol not in machine[Rhythm].boundaries:
        machine[Rhythm].boundaries[symbol] = _parsed(machine, symbol, machine.symbols.key(symbol))
    return machine[Rhythm].boundaries[symbol]


def _parsed(machine: Machine, symbol: int, key: Key) -> Boundary | None:
    kind = key[0]
    if kind == "not":
        inner = boundary(machine, machine.symbols.parts(symbol)[0])
        return replace(inner, holds=not inner.holds) if inner is not None else None
    if kind in ("or", "and"):
        return _combined(machine, symbol, kind)
    if kind == "Modulo":
        return _periodic(machine, symbol, 0, holds=False)
    if kind == "==" and isinstance(key[1], Const):
        return _compared(machine, machine.symbols.parts(symbol)[0], machine.symbols.intern("value", key[1]))
    if kind == "same":
        left, right = machine.symbols.parts(symbol)
        return _compared(machine, left, right) or _compared(machine, right, left)
    if kind in ("LessThan", "GreaterThan"):
        left, right = machine.symbols.parts(symbol)
        counter, limit = (left, right) if kind == "LessThan" else (right, left)
        return Boundary(False, counter, limit) if counts(machine, counter) else None
    name = str(key[-1]) if kind == "parameter" else ""
    if ENDS_WINDOW.search(name):
        inside = INSIDE_WINDOW.search(name) is not None
        return Boundary(not inside, guesses=(INSIDE_WINDOW if inside else ENDS_WINDOW).guesses(name))
    return None


def _combined(machine: Machine, symbol: int, kind: str) -> Boundary | None:
    """The boundary that a clause of `and` or `or` tests.

    Another clause of `or` can end a window too, and so can one of `and` where the clause asks for the opposite.
    """
    for part in machine.symbols.parts(symbol):
        found = boundary(machine, part)
        if found is not None and found.counter is not None:
            return replace(found, others=found.others or found.holds is (kind == "or"))
    return None


def _compared(machine: Machine, left: int, right: int) -> Boundary | None:
    """The comparison `left == right` as a remainder or count on the left and its bound on the right."""
    if machine.symbols.key(left)[0] == "Modulo":
        known = constant(machine, right)
        if isinstance(known, int):
            return _periodic(machine, left, known, holds=True)
        base, added = shifted(machine, right)
        divisor = machine.symbols.parts(left)[1]
        return _periodic(machine, left, added, holds=True) if base == divisor and added < 0 else None
    return Boundary(True, left, right) if counts(machine, left) else None


def _periodic(machine: Machine, modulo: int, remainder: int, holds: bool) -> Boundary:
    counter, every = machine.symbols.parts(modulo)
    return Boundary(holds, counter, every, remainder, modulo)


def counts(machine: Machine, symbol: int) -> bool:
    """Whether `symbol` is a variable that a loop increments, or the distance to one that it advances."""
    base, _ = shifted(machine, symbol)
    if machine.symbols.key(base)[0] == "Subtract":
        base = machine.symbols.parts(base)[1]
    return machine.symbols.key(base)[0] == COUNTER


def shifted(machine: Machine, symbol: int) -> tuple[int, int]:
    """`x` and `c` of `x + c` and `x - c`; the symbol itself and 0 for anything else."""
    added = 0
    while machine.symbols.key(symbol)[0] in ("Add", "Subtract"):
        left, right = machine.symbols.parts(symbol)
        sign = 1 if machine.symbols.key(symbol)[0] == "Add" else -1
        by = constant(machine, right)
        if not isinstance(by, int) and sign == 1:
            left, by = right, constant(machine, left)
        if not isinstance(by, int):
            break
        symbol, added = left, added + sign * by
    return symbol, added


def constant(machine: Machine, symbol: int) -> object:
    """The Python value of `symbol`, None if it is no constant."""
    key = machine.symbols.key(symbol)
    return key[1].value if key[0] == "value" and isinstance(key[1], Const) else None


def first_value(machine: Machine, counter: int | None, loop: cst.CSTNode) -> int | None:
    """The value of `counter` in the first iteration of `loop`, None if unknown."""
    if counter is None:
        return None
    base, added = shifted(machine, counter)
    key = machine.symbols.key(base)
    if key[:2] == (COUNTER, id(loop)):
        start = machine[Rhythm].starts.get((id(loop), str(key[2])))
        return start + added if start is not None else None
    if key[:2] == ("part", 0):
        key = machine.symbols.key(machine.symbols.parts(base)[0])
        found = _call_in(machine, key, "builtins.enumerate") if key[:2] == ("item", id(loop)) else None
        return _argument(machine, found, 1, 0, added)
    if key[:2] == ("item", id(loop)) and _call_in(machine, key, "builtins.enumerate") is None:
        found = _call_in(machine, key, "builtins.range")
        many = found is not None and len(machine.symbols.parts(found)) > 1
        return _argument(machine, found, 0 if many else 9, 0, added)
    return None


def _argument(machine: Machine, call: int | None, position: int, default: int, added: int) -> int | None:
    if call is None:
        return None
    parts = machine.symbols.parts(call)
    value = constant(machine, parts[position]) if position < len(parts) else default
    return value + added if isinstance(value, int) else None


def _call_in(machine: Machine, key: Key, name: str) -> int | None:
    return found_in(machine, [part for part in key[3:] if isinstance(part, int)], "call", name)


_INTO_PIECES = frozenset({"chunk", "tensor_split"})
"""Methods that cut a tensor into as many pieces as their argument says."""
_CUTS = frozenset(("call", f"torch.{name}") for name in _INTO_PIECES)


def found_in(machine: Machine, symbols: list[int], *names: object) -> int | None:
    """The symbol among `symbols` and their parts whose key begins with `names`."""
    todo, seen = list(symbols), set()
    while todo:
        current = todo.pop()
        if machine.symbols.key(current)[: len(names)] == names:
            return current
        seen.add(current)
        todo += [part for part in machine.symbols.parts(current) if part not in seen]
    return None


def repeats(machine: Machine, loop: cst.CSTNode) -> int | None:
    """The symbol of `n` for a loop over `range(n)`, also within a progress bar or `enumerate`; None for other loops."""
    source = machine[Rhythm].sources.get(loop)
    found = found_in(machine, [source], "call", "builtins.range") if source is not None else None
    parts = machine.symbols.parts(found) if found is not None else ()
    if len(parts) == 2 and constant(machine, parts[0]) == 0:
        return parts[1]
    return parts[0] if len(parts) == 1 else None


def pieces(machine: Machine, loop: cst.CSTNode) -> int | None:
    """The symbol of `n` for a loop over `batch.chunk(n)`, also within `zip` or `enumerate`; None for other loops."""
    source = machine[Rhythm].sources.get(loop)
    for symbol in machine.symbols.closure(source, machine.symbols.parts) if source is not None else ():
        method, parts = machine.symbols.method(symbol), machine.symbols.parts(symbol)
        by_method = method is not None and method[0] in _INTO_PIECES
        if by_method or machine.symbols.key(symbol)[:2] in _CUTS:
            return parts[-1]
    return None


def length(machine: Machine, loop: cst.CSTNode, around: Iteration) -> int | None:
    """The symbol of `len(values)` for a loop over `values`, also within a progress bar or `enumerate`.

    `around` are the iterations of the enclosing loops.
    """
    source = machine[Rhythm].sources.get(loop)
    while source is not None and (inner := _wrapped(machine, source)) is not None:
        source = inner
    now = around[-1] if around else 0
    return None if source is None else machine.symbols.intern("call", "builtins.len", now, parts=(source,), time=now)


def runs_once(machine: Machine, source: int) -> bool:
    """Whether a loop over `source` is over `range(1)`, also within a progress bar or `enumerate`."""
    current: int | None = source
    while current is not None and machine.symbols.key(current)[:2] != ("call", "builtins.range"):
        current = _wrapped(machine, current)
    parts = machine.symbols.parts(current) if current is not None else ()
    return len(parts) == 1 and constant(machine, parts[0]) == 1


def _wrapped(machine: Machine, source: int) -> int | None:
    """The iterable wrapped by a progress bar, `enumerate` or `iter`."""
    key, parts = machine.symbols.key(source), machine.symbols.parts(source)
    goes_on = key[0] == "call" and PASSES_ON.search(str(key[1]))
    return parts[0] if goes_on and parts else None


def pass_through_guesses(machine: Machine, loop: cst.CSTNode) -> tuple[Guessed, ...]:
    """The guesses by which functions pass a data loader's batches through to `loop`."""
    guesses: list[Guessed] = []
    source = machine[Rhythm].sources.get(loop)
    while source is not None and source not in machine[Rhythm].loaders:
        guesses += PASSES_ON.guesses(str(machine.symbols.key(source)[1]))
        source = _wrapped(machine, source)
    return tuple(guesses)


def may_be_uneven(machine: Machine, loop: cst.For) -> bool:
    """Whether the last window of `loop` can be shorter, as far as is known of what it iterates over.

    A loader that drops its last batch can have any number of whole ones.
    """
    source = machine[Rhythm].sources.get(loop)
    while source is not None and source not in machine[Rhythm].loaders:
        source = _wrapped(machine, source)
    if source is not None:
        return True
    calls = (call.func for call in every(loop.iter, cst.Call))
    counted = any(isinstance(func, cst.Name) and func.value == "range" for func in calls)
    return not counted or _goes_over_all(machine, loop)


def _goes_over_all(machine: Machine, loop: cst.For) -> bool:
    """Whether a loop over numbers has as many rounds as something has elements, or at most as many."""
    symbols, rounds = machine.symbols, repeats(machine, loop)

    def operands(one: int) -> tuple[int, ...]:
        return symbols.parts(one) if symbols.key(one)[:2] == ("call", "builtins.min") else ()

    reached = symbols.closure(rounds, operands) if rounds is not None else ()
    return any(symbols.key(one)[:2] == ("call", "builtins.len") for one in reached)


def uneven(machine: Machine, loop: cst.CSTNode) -> bool:
    """Whether `loop` iterates over a data loader with a visible constructor, whose last window may be shorter."""
    source = machine[Rhythm].sources.get(loop)
    while source is not None and source not in machine[Rhythm].loaders:
        source = _wrapped(machine, source)
    return source is not None and not any(map(_may_even, machine[Rhythm].loaders[source].args))


def _may_even(argument: cst.Arg) -> bool:
    """Whether an argument of a data loader may leave out a shorter last batch."""
    name = argument.keyword.value if argument.keyword is not None else ""
    off = isinstance(argument.value, cst.Name) and argument.value.value == "False"
    return argument.star == "**" or name == "batch_sampler" or (name == "drop_last" and not off)
