"""Begin, end and length of accumulation windows in a loop: by its counter, or by a helper that groups batches."""

from __future__ import annotations

from dataclasses import replace

from amplint.codemods.parameters import New
from amplint.findings import Edit, Position, Span
from amplint.records import dataclass
from amplint.semantics.reading.scopes import dotted
from amplint.semantics.words import EPOCHS, PROGRESS_BAR
from amplint.source import syntax as cst
from amplint.source.tree import walk
from amplint.training.bindings import bound_paths, called_name
from amplint.training.calls import Calls
from amplint.training.lengths import has_length
from amplint.training.ranges import range_of
from amplint.training.refusal import Refusal
from amplint.training.script import Script

_HELPER_CODE = (
    "def {name}(batches, count):",
    '    """Yield each batch with its place in a window of `count` batches and the window\'s length."""',
    "    batches = iter(batches)",
    "    while window := list(itertools.islice(batches, count)):",
    "        for place, batch in enumerate(window):",
    "            yield place, len(window), batch",
)


@dataclass(frozen=True)
class Window:
    """The expressions of a window in the loop body: the test for its first batch, its length, and the test for its
    last.

    `sets` assigns the length at the first batch, `edits` change the loop header, and `parameters` are those of a
    function called once per batch, whose defaults mean a window of one.
    """

    begins: str
    length: str
    ends: str
    edits: tuple[Edit, ...]
    sets: tuple[str, ...] = ()
    parameters: tuple[New, ...] = ()


def counting(script: Script, calls: Calls, loop: cst.For, count: str) -> Window | None:
    """The windows of a loop with a known number of iterations; None if that is not certain."""
    header = _Header(script, calls, loop)
    if not header.certain:
        return None
    index = header.index or script.fresh("i", "step", "batch_idx", "batch_index")
    stop = header.stop
    begins = f"{index} % {count} == 0" if header.start == 0 else f"({index} - {header.start}) % {count} == 0"
    place = f"({index} + 1)" if header.start == 0 else index
    ends = f"{place} % {count} == 0 or {_last(index, stop)}"
    length = _length(script)
    sets = f"{length} = min({count}, {stop} - {index})"
    return Window(begins, length, ends, tuple(header.numbered(index)), (sets,))


def grouping(script: Script, calls: Calls, loop: cst.For | cst.While, count: str, helper: str) -> Window:
    """The windows of any loop: the helper groups its batches, or the numbers of its range."""
    place, length = (one.name for one in function_window(script).parameters)
    if isinstance(loop, cst.For):
        edits = _around(script, loop, f"{place}, {length}, ", helper, f", {count}")
    else:
        counter, end = range_of(script, calls, loop)
        header = f"for {place}, {length}, _ in {helper}(range({counter}, {end}), {count})"
        edits = [Edit(Span(script.source.span(loop).start, script.source.span(loop.test).end), header)]
    return replace(function_window(script), edits=tuple(edits))


def function_window(script: Script) -> Window:
    """The windows of a function that takes the position of its batch in a window."""
    place, length = script.fresh("micro", "micro_batch", "place"), _length(script)
    parameters = New(place, "int", "0"), New(length, "int", "1")
    return Window(f"{place} == 0", length, f"{place} + 1 == {length}", (), parameters=parameters)


def _length(script: Script) -> str:
    """The name of the variable for the length of a window."""
    return script.fresh("window", "window_size", "window_length")


def helper_code(name: str) -> tuple[str, ...]:
    """The lines of the helper that groups batches."""
    return tuple(line.format(name=name) for line in _HELPER_CODE)


def over_range(loop: cst.For | cst.While) -> bool:
    """Whether a loop counts iterations instead of iterating over batches."""
    if isinstance(loop, cst.While):
        return True
    inner = _without_progress(loop.iter)
    if isinstance(inner, cst.Call) and dotted(inner.func) == "enumerate" and inner.args:
        inner = _without_progress(inner.args[0].value)
    return isinstance(inner, cst.Call) and dotted(inner.func) in ("range", "trange")


def _around(script: Script, loop: cst.For, before: str, name: str, more: str) -> list[Edit]:
    """The edits that turn `for x in xs` into `for before x in name(xs more)`; rows aligned to `xs` stay aligned."""
    text = script.rewrite.text(loop.target)
    target = before + (
        f"({text})" if isinstance(loop.target, cst.Tuple) and not script.rewrite.parentheses(loop.target) else text
    )
    source, strings = script.source.span(loop.iter), script.rewrite.string_rows(loop.iter)
    shift = " " * (len(target) - len(text) + len(name) + 1)
    aligned = [
        Edit(Span(Position(row, 1), Position(row, 1)), shift)
        for row in range(source.start.row + 1, source.end.row + 1)
        if row not in strings and len(script.lines.indentation(row)) >= source.start.column
    ]
    opening = Edit(Span(source.start, source.start), f"{name}(")
    return [
        script.rewrite.replace(loop.target, target),
        opening,
        *aligned,
        Edit(Span(source.end, source.end), f"{more})"),
    ]


def _last(index: str, stop: str) -> str:
    return f"{index} == {stop.removesuffix(' + 1')}" if stop.endswith(" + 1") else f"{index} + 1 == {stop}"


class _Header:
    """The parts of `for target in iter`."""

    def __init__(self, script: Script, calls: Calls, loop: cst.For) -> None:
        self._calls = calls
        self._script = script
        self._loop = loop
        self.index: str | None = None
        self.start = 0
        self.stop = ""
        self._numbers = False
        inner = _without_progress(loop.iter)
        if isinstance(inner, cst.Call) and dotted(inner.func) == "enumerate":
            self._numbers = True
            self.certain = self._read_enumerate(inner)
        elif isinstance(inner, cst.Call) and dotted(inner.func) == "range":
            self._numbers = True
            self.certain = self._read_range(inner)
        else:
            self.certain = self._read_source(inner)
        if self.index is not None and self.certain:
            inside = {path for node in walk(loop.body) for path in bound_paths(node)}
            self.certain = self.index not in inside

    def numbered(self, index: str) -> list[Edit]:
        """The edits that add a counter to the loop, none if it has one."""
        if self.index is not None:
            return []
        rewrite, target = self._script.rewrite, self._loop.target
        if self._numbers:  # the counter is named `_`
            number = target.elements[0].value if isinstance(target, cst.Tuple) else target
            return [rewrite.replace(number, index)]
        return _around(self._script, self._loop, f"{index}, ", "enumerate", "")

    def _read_enumerate(self, call: cst.Call) -> bool:
        target = self._loop.target
        if not isinstance(target, cst.Tuple) or len(target.elements) != 2 or not call.args:
            return False
        start = self._script.rewrite.find_argument(call, "start", 1)
        return (
            self._read_index(target.elements[0].value)
            and self._read_start(start.value if start is not None else None)
            and self._read_source(_without_progress(call.args[0].value))
        )

    def _read_range(self, call: cst.Call) -> bool:
        values = [argument.value for argument in call.args]
        if not 1 <= len(values) <= 2 or not self._read_index(self._loop.target):
            return False
        if not self._read_start(values[0] if len(values) == 2 else None):
            return False
        stop = values[-1]
        plain = all(isinstance(node, _PLAIN) for node in walk(stop) if isinstance(node, cst.BaseExpression))
        plain = plain and all(dotted(node.func) == "len" for node in walk(stop) if isinstance(node, cst.Call))
        names = {node.value for node in walk(stop) if isinstance(node, cst.Name)}
        bound = {path.partition(".")[0] for node in walk(self._loop) for path in bound_paths(node)}
        text = self._script.rewrite.text(stop)
        self.stop = text if _is_simple(stop) or text.endswith(" + 1") else f"({text})"
        return plain and "\n" not in text and names.isdisjoint(bound - {"self"})

    def _read_source(self, source: cst.BaseExpression) -> bool:
        path = dotted(source)
        bound = {one for node in walk(self._loop.body) for one in bound_paths(node)}
        if path is None or path.partition(".")[0] in bound - {"self"} or path in bound:
            return False
        self.stop = f"len({path})" if self.start == 0 else f"len({path}) + {self.start}"
        return has_length(self._script, self._calls, source)

    def _read_index(self, node: cst.BaseExpression) -> bool:
        if not isinstance(node, cst.Name):
            return False
        self.index = node.value if node.value.strip("_") else None
        return True

    def _read_start(self, value: cst.BaseExpression | None) -> bool:
        if value is None:
            return True
        self.start = value.evaluated_value if isinstance(value, cst.Integer) else -1
        return self.start in (0, 1)


_PLAIN = (cst.Name, cst.Attribute, cst.Integer, cst.BinaryOperation, cst.Call)


def _is_simple(node: cst.BaseExpression) -> bool:
    return isinstance(node, (cst.Name, cst.Attribute, cst.Integer)) or (
        isinstance(node, cst.Call) and dotted(node.func) == "len"
    )


def _without_progress(node: cst.BaseExpression) -> cst.BaseExpression:
    """The iterable of a progress bar."""
    while isinstance(node, cst.Call) and node.args and node.args[0].keyword is None:
        name = called_name(node)
        if not PROGRESS_BAR.search(name) or name == "trange":
            break
        node = node.args[0].value
    return node


def refuse_epochs(loop: cst.For | cst.While) -> None:
    """Raise Refusal for a loop over epochs."""
    header = (loop.target, loop.iter) if isinstance(loop, cst.For) else (loop.test,)
    names = (node.value for part in header for node in walk(part) if isinstance(node, cst.Name))
    if over_range(loop) and any(map(EPOCHS.search, names)):
        raise Refusal(loop, "a round of this loop is an epoch; there are no batches to accumulate over")
