"""Variables that can hold what regions made half, by the order of statements and through functions of the file."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence, Set
from types import MappingProxyType

from amplint.edits.casting import UNTOUCHED
from amplint.findings import Finding, Severity, Span
from amplint.semantics.models.half_outputs import is_loss
from amplint.semantics.reading.scopes import MODEL, dotted, kinds
from amplint.semantics.words import RAW, SPEAKS_OF_LOSS
from amplint.source import syntax as cst
from amplint.source.source import Chunk, Source
from amplint.source.tree import children, every, targets, walk
from amplint.torchlib.catalogue import OPERATIONS
from amplint.torchlib.methods import CASTS
from amplint.torchlib.names import (
    HALF_DTYPES,
    LIBRARIES_OF_ARRAYS,
    LIBRARIES_WITHOUT_FLOAT16,
    SUMMARIES,
    TO_FLOAT32,
    WRITERS_WITHOUT_BFLOAT16,
)
from amplint.torchlib.policy import BOOLEAN, FLOAT32, INTEGER, LOWER, words
from amplint.training.bindings import bound_paths, called_name, constructor, matched, paths, positional
from amplint.training.returned import classes_returned
from amplint.training.script import parsed
from amplint.training.surroundings import cached_by_text, whole_program

ABOUT_HALF = (
    "constant-overflows-half",
    "constant-vanishes-in-half",
    "infinity-in-half",
    "square-overflows-half",
    "integers-in-half",
    "accumulation-in-half",
    "loss-in-half",
    "bfloat16-to-numpy",
    "dtype-mismatch-after-autocast",
    "unsupported-half-op",
    "inplace-or-out-under-autocast",
    "custom-function-without-custom-fwd",
)
"""The rules about numerical failures in half."""
_NOTHING: Mapping[cst.FunctionDef, Set[str]] = MappingProxyType({})
_ROUNDS = 6
"""The limit of passes over the functions, each of which follows values through one more call."""
_WIDENING = {name for name, dtype in CASTS.items() if dtype not in HALF_DTYPES} | words(
    f"{TO_FLOAT32} numpy item tolist len size str format type decode batch_decode is_tensor isinstance hasattr range"
)
"""Functions and methods whose result is no half tensor, nor an array of one."""
_CHOICES = frozenset({"max", "min", "topk", "sort", "kthvalue", "mode", "median", "cummax", "cummin"})
"""Operations that return values and, second, their indices."""
_NO_VALUES = frozenset({"shape", "dtype", "device", "indices", "ndim", "grad_fn", "requires_grad", "is_cuda"})
_COLLECTING = frozenset({"append", "extend", "add", "insert", "update", "put"})
_LOOK_UP = re.compile(r"(?:^|_)emb(?:edding)?s?$")
"""What returns rows of a weight, which autocast leaves float32."""
_OF_ARRAYS = re.compile(r"astype|u?int\d+|float(?:32|64)")
"""What makes arrays of another dtype."""
_OTHER_ARRAYS = frozenset({"np", "numpy", "math", "random", "time", "os", "sys", "logging", "logger"})
_OF_CLASSES = "Categorical"
_DRAWS = re.compile(r"\.(?:sample\(|mode\b)")
"""What gives whole numbers, of a distribution over classes."""
_Blocks = Iterator[Sequence[cst.CSTNode]]
Callee = tuple[str, frozenset[str]]
"""The name of a function, and for a method those of the classes of its object, as far as the file constructs it."""


def regions_of(source: Source) -> Iterator[cst.With]:
    """The `with` statements of the file that enter autocast."""
    for chunk in source.chunks:
        for node in walk(chunk.module) if "autocast" in chunk.words else ():
            if isinstance(node, cst.With) and any("autocast" in source.code(item) for item in node.items):
                yield node


@cached_by_text
def halves_of(text: str, path: str, *, arrays: bool = False) -> Halves:
    """The half values of the regions in `text`, the content of the file at `path` if it is in one."""
    source = parsed(text, path).source
    return Halves(source, regions_of(source), arrays=arrays)


class Halves:
    """Which variables of a file can hold half values that its `regions` made, before each statement.

    Regions are `with` statements that enter autocast, or statements that are to stand in one. With `arrays`, NumPy
    arrays of half values are such values, too.
    """

    def __init__(
        self,
        source: Source,
        regions: Iterable[cst.CSTNode],
        given: Mapping[cst.FunctionDef, Set[str]] = _NOTHING,
        *,
        arrays: bool = False,
    ) -> None:
        self.source = source
        self._of_arrays = arrays
        self.leaving: dict[Callee, tuple[int, set[str]]] = {}
        """Function of another file -> the row of a call, and its half arguments, by place or name.

        Of a tuple it is an element: `0[1]`.
        """
        self.on_cpu: set[str] = set()
        """The names of those that are given such a value on the CPU."""
        self._regions = set(regions)
        self._classes: dict[str, set[str]] = {}
        self._arrays: set[tuple[cst.FunctionDef | None, str | None]] = set()
        self._models: set[str] = set()
        self._returned: dict[Chunk, bool] = {}
        self._functions: dict[str, list[cst.FunctionDef]] = {}
        for chunk in source.chunks:
            self._models |= {path for path, kind in kinds(chunk.module).items() if kind == MODEL}
            for function in every(chunk.module, cst.FunctionDef) if chunk.name != TO_FLOAT32 else ():
                self._functions.setdefault(function.name.value, []).append(function)
            for one in every(chunk.module, cst.Assign):
                made = called_name(constructor(one.value))
                root = (dotted(one.value.func) or "").partition(".")[0] if isinstance(one.value, cst.Call) else ""
                library = source.imports[root].module if root in source.imports else ""
                if library == "numpy":
                    home = next((each for each in source.ancestors(one) if isinstance(each, cst.FunctionDef)), None)
                    self._arrays |= {(home, name) for name in bound_paths(one, whole=True)}
                for path in bound_paths(one, whole=True) if made[:1].isupper() else ():
                    self._classes.setdefault(path, set()).add(made)
        program = whole_program(source) if self._regions and _DRAWS.search(source.text) is not None else None
        if program is not None and any(_OF_CLASSES in chunk.words for chunk in program.chunks):
            assigns = (one for chunk in source.chunks for one in every(chunk.module, cst.Assign))
            for path, names in list(classes_returned(program, assigns, self._classes)):
                self._classes.setdefault(path, set()).update(names)
        self._given = {function: set(names) for function, names in given.items()}
        self.inside: set[cst.FunctionDef] = set()
        """The functions of the file that run in regions."""
        self._returning: set[tuple[cst.FunctionDef, int | None]] = set()
        """Functions that return half values, with the index in the tuple they return, None for the whole result."""
        self._shared: set[str] = set()
        self._before: dict[cst.CSTNode, frozenset[str]] = {}
        self._within: set[cst.CSTNode] = set()
        self._function: cst.FunctionDef | None = None
        known = -1
        for _ in range(_ROUNDS):
            self._follow()
            size = sum(map(len, self._given.values())) + len(self.inside) + len(self._returning) + len(self._shared)
            if size == known:
                break
            known = size

    def concern(self, finding: Finding) -> bool:
        """Whether what a finding assumes to be half can be so, as far as the regions of the file make it."""
        if not self._regions or finding.severity > Severity.INFO or finding.name not in ABOUT_HALF:
            return True
        if finding.elsewhere is not None:
            return self._reach_call(finding.span)
        places = (finding.span, *(note.span for note in finding.notes if not note.filename))
        return self.reaches(next((one for one in places if self._at(one)[1] in self._before), finding.span))

    def reaches(self, span: Span) -> bool:
        """Whether what stands at `span` can meet a half value: an expression, or else its whole statement."""
        node, statement = self._at(span)
        if statement is None or statement not in self._before:
            return True
        half, inside = set(self._before[statement]), statement in self._within
        for loop in every(statement, cst.CompFor):
            self._iterate(loop.target, loop.iter, half, inside=inside)
        if not isinstance(node, cst.Call):
            return self._mentions(statement, half, inside=inside)
        owner = [node.func.value] if isinstance(node.func, cst.Attribute) else []
        operands = [*owner, *(argument.value for argument in node.args)]
        return any(self._carries(one, half, inside=inside) for one in operands)

    def to_arrays(self) -> Iterator[Span]:
        """The calls that can make an array of NumPy of a half value, or, with `arrays`, raise for such an array."""
        for statement, before in self._before.items():
            inside, half = statement in self._within, set(before)
            half |= set(self._mapped(statement, half, inside=inside))
            for loop in every(statement, cst.CompFor) if isinstance(statement, cst.SimpleStatementLine) else ():
                self._iterate(loop.target, loop.iter, half, inside=inside)
            for call in every(statement, cst.Call) if isinstance(statement, cst.SimpleStatementLine) and half else ():
                if any(self._carries(one, half, inside=inside) for one in self._array_operands(call)):
                    yield self.source.span(call)

    def _array_operands(self, call: cst.Call) -> list[cst.BaseExpression]:
        """What `call` makes an array of, or, with `arrays`, takes no array of float16 for."""
        given = [argument.value for argument in call.args]
        if self._of_arrays:
            return given if calls_library(self.source, call, LIBRARIES_WITHOUT_FLOAT16) else []
        if isinstance(call.func, cst.Attribute) and call.func.attr.value == "numpy":
            return [call.func.value]
        writes = called_name(call) in SUMMARIES and WRITERS_WITHOUT_BFLOAT16 in self.source.text
        return given if writes or calls_library(self.source, call, LIBRARIES_OF_ARRAYS) else []

    def _mapped(self, statement: cst.CSTNode, half: Set[str], *, inside: bool) -> Iterator[str]:
        """The parameters of lambdas that `map()` calls with half values in a simple statement."""
        calls = every(statement, cst.Call) if isinstance(statement, cst.SimpleStatementLine) and half else ()
        for call in (one for one in calls if called_name(one) == "map" and one.args):
            mapped, *given = (argument.value for argument in call.args)
            params = mapped.params.params if isinstance(mapped, cst.Lambda) else ()
            for param, values in zip(params, given, strict=False):
                if self._carries(values, half, inside=inside):
                    yield param.name.value

    def given_to(self, function: cst.FunctionDef) -> Set[str]:
        """The parameters of a function of the file that its calls give half values."""
        return self._given.get(function, set())

    def arguments(self, call: cst.Call) -> list[cst.BaseExpression]:
        """The arguments of `call`, and the elements of displays among them, that can be half."""
        _, statement = self._at(self.source.span(call))
        half = self._before.get(statement, frozenset()) if statement is not None else frozenset()
        waiting, found = [argument.value for argument in call.args], list[cst.BaseExpression]()
        while waiting:
            one = waiting.pop(0)
            if isinstance(one, (cst.List, cst.Tuple)):
                waiting += (element.value for element in one.elements)
            elif self._carries(one, half, inside=False):
                found.append(one)
        return found

    def is_inside(self, node: cst.CSTNode) -> bool:
        """Whether `node` runs in a region."""
        return any(one in self._within for one in self.source.ancestors(node))

    def outside(self) -> Iterator[tuple[cst.SimpleStatementLine, frozenset[str]]]:
        """The simple statements outside of regions before which something is half, with the half variables there."""
        for statement, half in self._before.items():
            if half and statement not in self._within and isinstance(statement, cst.SimpleStatementLine):
                yield statement, half

    def carries(self, node: cst.CSTNode, half: Set[str]) -> bool:
        """Whether an expression outside of regions can be, or hold, a half value, given the `half` variables."""
        return self._carries(node, half, inside=False)

    def calls_outside(self) -> Iterator[tuple[cst.Call, frozenset[str], int]]:
        """The calls outside of regions that are given a half value, with the half variables there, and their rows."""
        for statement, half in self.outside():
            for call in every(statement, cst.Call):
                if any(self.carries(argument.value, half) for argument in call.args):
                    yield call, half, self.source.span(call).start.row

    def products(self) -> Iterator[int]:
        """The rows of matrix products outside of regions of which one operand alone can be half."""
        for statement, half in self.outside():
            for product in every(statement, cst.BinaryOperation):
                if isinstance(product.operator, cst.MatrixMultiply):
                    sides = [self.carries(one, half) for one in (product.left, product.right)]
                    if sides[0] != sides[1]:
                        yield self.source.span(product).start.row

    def _reach_call(self, span: Span) -> bool:
        """Whether the call at `span` runs in a region, or can be given a half value."""
        _, statement = self._at(span)
        return statement is None or statement in self._within or self.reaches(span)

    def _at(self, span: Span) -> tuple[cst.CSTNode | None, cst.CSTNode | None]:
        """The outermost expression at `span`, and the innermost statement around it."""
        statement: cst.CSTNode | None = None
        for chunk in self.source.chunks_at(span.start.row):
            for node in walk(chunk.module):
                if node in self._before or isinstance(node, cst.BaseExpression):
                    place = self.source.span(node)
                    if place.start <= span.start and span.end <= place.end:
                        statement = node if node in self._before else statement
                        if place == span and isinstance(node, cst.BaseExpression):
                            return node, statement
        return None, statement

    def _follow(self) -> None:
        """Follow values through the top level and each function once."""
        self._function, top = None, set[str]()
        for chunk in self.source.chunks:
            self._run([*chunk.module.body], top, inside=False)
        for function in [one for each in self._functions.values() for one in each]:
            self._function = function
            own = {one.name.value for one in every(function.params, cst.Param)}
            half = self._given.get(function, set()) | (self._shared - own) | (top - own)
            body = function.body.body
            self._run(body, half, inside=function in self.inside)

    def _run(self, statements: Sequence[cst.CSTNode], half: set[str], *, inside: bool) -> None:
        for statement in statements:
            if isinstance(statement, (cst.FunctionDef, cst.ClassDef)):
                if isinstance(statement, cst.FunctionDef) and self._function is not None:
                    self._given.setdefault(statement, set()).update(half)
                continue
            self._before[statement] = self._before.get(statement, frozenset()) | half
            within = inside or statement in self._regions
            if within:
                self._within.add(statement)
            if isinstance(statement, cst.SimpleStatementLine):
                for one in statement.body:
                    self._step(one, half, inside=within)
            elif isinstance(statement, cst.BaseSmallStatement):
                self._step(statement, half, inside=within)
            else:
                self._branch(statement, half, inside=within)

    def _branch(self, statement: cst.CSTNode, half: set[str], *, inside: bool) -> None:
        """Follow values through a compound statement; what any of its blocks leaves half is half behind it."""
        for child in children(statement):
            if isinstance(child, cst.BaseExpression):
                self._hand_on(child, half, inside=inside)
        if isinstance(statement, cst.For):
            self._iterate(statement.target, statement.iter, half, inside=inside)
        blocks = list(_blocks(statement))
        if isinstance(statement, cst.With):
            for block in blocks:
                self._run(block, half, inside=inside)
            return
        for _ in range(2 if isinstance(statement, (cst.For, cst.While)) else 1):
            found = set[str]() if _has_else(statement) else set(half)
            for block in blocks:
                branch = set(half)
                self._run(block, branch, inside=inside)
                found |= branch
            half.clear()
            half |= found

    def _step(self, statement: cst.CSTNode, half: set[str], *, inside: bool) -> None:
        self._hand_on(statement, half, inside=inside)
        value = getattr(statement, "value", None)
        if isinstance(statement, cst.Return) and value is not None and self._function is not None:
            parts = [one.value for one in value.elements] if isinstance(value, cst.Tuple) else []
            carried = [index for index, part in enumerate(parts) if self._carries(part, half, inside=inside)]
            self._returning |= {(self._function, index) for index in carried}
            if not parts and self._carries(value, half, inside=inside):
                self._returning.add((self._function, None))
        elif isinstance(statement, cst.Assign):
            for target in statement.targets:
                self._assign(target.target, statement.value, half, inside=inside)
        elif isinstance(statement, cst.AnnAssign) and value is not None:
            self._assign(statement.target, value, half, inside=inside)
        elif isinstance(statement, cst.AugAssign):
            if self._carries(statement.value, half, inside=inside):
                self._bind(statement.target, True, half)
        elif isinstance(statement, cst.Expr) and isinstance(value, cst.Call) and isinstance(value.func, cst.Attribute):
            given = any(self._carries(one.value, half, inside=inside) for one in value.args)
            if given and value.func.attr.value in _COLLECTING:
                self._bind(value.func.value, True, half)

    def _assign(self, target: cst.BaseExpression, value: cst.BaseExpression, half: set[str], *, inside: bool) -> None:
        keyed = _keyed(value)
        path = _path(target)
        if keyed and path is not None and "[" not in path and path == dotted(target):
            held = [key for key, one in keyed if self._carries(one, half, inside=inside)]
            self._bind(target, False, half)
            half.update(f"{path}[{key}]" for key in held)
            return
        into = [one.value for one in target.elements] if isinstance(target, (cst.Tuple, cst.List)) else []
        out_of = [one.value for one in value.elements] if isinstance(value, cst.Tuple) else []
        if into and len(into) == len(out_of):
            carried = [self._carries(one, half, inside=inside) for one in out_of]
        else:
            into = into or [target]
            carried = [self._carries(value, half, inside=inside)] * len(into)
            own = self._targets(value) if isinstance(value, cst.Call) else []
            if len(into) > 1 and own:
                places = {index for function, index in self._returning if function in own}
                carried = [index in places or None in places for index in range(len(into))]
            elif len(into) > 1 and isinstance(value, cst.Call) and is_loss(called_name(value)):
                runs = inside and any(paths(one.value) & self._models for one in value.args)
                carried = [runs or any(self._carries(one.value, half, inside=inside) for one in value.args)] * len(into)
            elements = [f"{_path(value)}[{index}]" for index in range(len(into))]
            if not half.isdisjoint(elements):
                carried = [element in half for element in elements]
            if called_name(value) in _CHOICES and len(into) > 1:
                carried[1:] = [False] * (len(into) - 1)
        for one, carries in zip(into, carried, strict=True):
            self._bind(one, carries, half)

    def _iterate(self, target: cst.CSTNode, over: cst.BaseExpression, half: set[str], *, inside: bool) -> None:
        """Bind the target of a loop, that over `zip`, `enumerate` or `items()` by its elements."""
        into = [one.value for one in target.elements] if isinstance(target, cst.Tuple) else []
        given = [one.value for one in over.args] if isinstance(over, cst.Call) else []
        name = called_name(over)
        if name == "enumerate" and len(into) == 2 and given:
            self._bind(into[0], False, half)
            self._iterate(into[1], given[0], half, inside=inside)
        elif name == "zip" and len(into) == len(given):
            for one, values in zip(into, given, strict=True):
                self._iterate(one, values, half, inside=inside)
        else:
            carried = self._carries(over, half, inside=inside)
            for place, part in enumerate(into or [target]):
                self._bind(part, carried and (name != "items" or place > 0), half)

    def _bind(self, target: cst.CSTNode, carried: bool, half: set[str]) -> None:
        for one in targets(target):
            path = _path(one)
            if isinstance(one, cst.Subscript) and (self._function, dotted(one.value)) in self._arrays:
                continue
            whole = path is not None and (isinstance(one, cst.Subscript) or path == dotted(one))
            owner: cst.CSTNode = one
            while path is None and isinstance(owner, cst.Subscript):
                owner = owner.value
                path = _path(owner)
            if path is None:
                continue
            if carried and not SPEAKS_OF_LOSS.search(path):
                half.add(path)
                if path.startswith("self."):
                    self._shared.add(path)
            elif not carried and whole:
                half.difference_update([known for known in half if _is_of(known, path)])

    def _hand_on(self, node: cst.CSTNode, half: set[str], *, inside: bool) -> None:
        """Tell functions of the file which of their parameters are given half values."""
        for call in every(node, cst.Call):
            targets = self._targets(call)
            if not inside and not targets and half:
                self._leave(call, half)
            for function in targets:
                if inside:
                    self.inside.add(function)
                params = [one.name.value for one in positional(function)]
                params = params[1:] if params[:1] == ["self"] else params
                given = self._given.setdefault(function, set())
                pairs = matched(call, params)
                given.update(name for name, one in pairs if self._carries(one.value, half, inside=inside))

    def _leave(self, call: cst.Call, half: Set[str]) -> None:
        name = called_name(call)
        owner = dotted(call.func.value) if isinstance(call.func, cst.Attribute) else None
        classes = frozenset(self._classes.get(owner or "", ()))
        if name in OPERATIONS or name in UNTOUCHED or name in _WIDENING or (name in _COLLECTING and not classes):
            return
        for index, argument in enumerate(call.args):
            if not argument.star and self._carries(argument.value, half, inside=False):
                place = argument.keyword.value if argument.keyword is not None else str(index)
                parts = argument.value.elements if isinstance(argument.value, cst.Tuple) else ()
                inside = (at for at, one in enumerate(parts) if self._carries(one.value, half, inside=False))
                places = {f"{place}[{at}]" for at in inside} or {place}
                if any(called_name(each) == "cpu" for each in every(argument, cst.Call)):
                    self.on_cpu.add(name)
                row = self.source.span(call).start.row
                self.leaving.setdefault((name, classes), (row, set()))[1].update(places)

    def _gives_back(self, call: cst.Call) -> bool | None:
        """Whether a function of another file, run without a model of this one, can return what it is given.

        None for other calls.
        """
        target = whole_program(self.source).resolve(self.source, dotted(call.func) or "")
        if not isinstance(target, Chunk) or target.is_class or target.source is self.source:
            return None
        if any(paths(argument.value) & self._models for argument in call.args):
            return None
        if target not in self._returned:
            functions = [one for one in every(target.module, cst.FunctionDef) if one.name.value == target.name]
            self._returned[target] = True
            for function in functions if self._regions else ():
                given = {one.name.value for one in every(function.params, cst.Param)}
                there = Halves(target.source, (), {function: given}, arrays=self._of_arrays)
                self._returned[target] = any(one is function for one, _ in there._returning)
        return self._returned[target]

    def _targets(self, call: cst.Call) -> list[cst.FunctionDef]:
        """The functions of the file that `call` runs, by a bare name or as methods of `self`."""
        func = call.func
        if isinstance(func, cst.Name) or (isinstance(func, cst.Attribute) and dotted(func.value) == "self"):
            return self._functions.get(called_name(call), [])
        return []

    def _mentions(self, statement: cst.CSTNode, half: Set[str], *, inside: bool) -> bool:
        parts = statement.body if isinstance(statement, cst.SimpleStatementLine) else [statement]
        within = (one for part in parts for one in children(part))
        calls = (call for part in parts for call in _own_calls(part))
        given = (argument.value for call in calls for argument in call.args)
        owners = (
            call.func.value for part in parts for call in _own_calls(part) if isinstance(call.func, cst.Attribute)
        )
        expressions = (one for one in (*within, *given, *owners) if isinstance(one, cst.BaseExpression))
        return any(self._carries(one, half, inside=inside) for one in expressions)

    def _carries(self, node: cst.CSTNode, half: Set[str], *, inside: bool) -> bool:
        """Whether an expression can be half, or hold something that is."""
        if isinstance(node, (cst.Name, cst.Attribute)):
            if isinstance(node, cst.Attribute) and (node.attr.value in _NO_VALUES or self._draws_classes(node)):
                return False
            path = _path(node)
            if path is not None:
                return any(_is_of(one, path) for one in half)
            return isinstance(node, cst.Attribute) and self._carries(node.value, half, inside=inside)
        if isinstance(node, cst.Call):
            return self._call_carries(node, half, inside=inside)
        if isinstance(node, cst.Subscript):
            element = _path(node)
            if element is not None:
                owner, _, key = element.partition("[")
                return element in half or (owner in half and RAW.search(key.strip("'\"]")) is None)
            return not _takes_indices(node) and self._carries(node.value, half, inside=inside)
        if inside and isinstance(node, cst.BinaryOperation) and isinstance(node.operator, cst.MatrixMultiply):
            return True
        if isinstance(node, (cst.Comparison, cst.Lambda, cst.BaseString, cst.FormattedString)):
            return False
        if isinstance(node, (cst.ListComp, cst.SetComp, cst.GeneratorExp, cst.DictComp)):
            bound = set(half)
            for loop in every(node, cst.CompFor):
                self._iterate(loop.target, loop.iter, bound, inside=inside)
            made = [node.value] if isinstance(node, cst.DictComp) else [node.elt]
            return any(self._carries(one, bound, inside=inside) for one in made)
        if isinstance(node, cst.IfExp):
            return any(self._carries(one, half, inside=inside) for one in (node.body, node.orelse))
        return any(self._carries(one, half, inside=inside) for one in children(node))

    def _draws_classes(self, node: cst.Call | cst.Attribute) -> bool:
        """Whether `node` is a sample or the mode of a distribution over classes, which are whole numbers."""
        func, name = (node.func, "sample") if isinstance(node, cst.Call) else (node, "mode")
        owner = func.value if isinstance(func, cst.Attribute) and func.attr.value == name else None
        made = {called_name(owner), *self._classes.get(dotted(owner) or "", ())} if owner is not None else set[str]()
        return _OF_CLASSES in made

    def _call_carries(self, call: cst.Call, half: Set[str], *, inside: bool) -> bool:
        name, owner = called_name(call), call.func.value if isinstance(call.func, cst.Attribute) else None
        if (
            self._draws_classes(call)
            or changes_dtype(call)
            or (name == "numpy" and not self._of_arrays)
            or (name == "to" and converts(call))
        ):
            return False
        if owner is not None and (root := (dotted(owner) or "").partition(".")[0]) in _OTHER_ARRAYS:
            computes = self._of_arrays and root in ("np", "numpy")
            return computes and any(self._carries(one.value, half, inside=inside) for one in call.args)
        own = self._targets(call)
        if own:
            return any(function in own for function, _ in self._returning)
        if is_loss(name) or (inside and name in FLOAT32):
            return False
        operands = [argument.value for argument in call.args]
        if operands and not self._of_arrays and all(map(_is_array, operands)):
            return False
        back = self._gives_back(call)
        if back is False:
            return False
        known = name in OPERATIONS or name in UNTOUCHED or _LOOK_UP.search(name) is not None or back is not None
        if inside and (name in LOWER or not known):
            return True
        operands += [owner] if owner is not None else [call.func] if not isinstance(call.func, cst.Name) else []
        return any(self._carries(one, half, inside=inside) for one in operands)


def _is_array(value: cst.BaseExpression) -> bool:
    """Whether a value is an array that is made of a tensor, or a constant."""
    return called_name(value) == "numpy" or dotted(value) in ("True", "False", "None")


def calls_library(source: Source, call: cst.Call, modules: Sequence[str]) -> bool:
    """Whether `call` is of something in one of these `modules`, as a file imports it or names an object of one."""
    root, _, rest = (dotted(call.func) or "").partition(".")
    one = source.imports.get(root)
    path = f"{one.module}.{one.name or ''}.{rest}".replace("..", ".") if one is not None else ""
    return any(path.startswith(f"{module}.") for module in modules)


def changes_dtype(call: cst.Call) -> bool:
    """Whether `call` makes float32, whole numbers or no tensor or array at all."""
    name = called_name(call)
    return name in _WIDENING - {"numpy"} or name in BOOLEAN or name in INTEGER or _OF_ARRAYS.fullmatch(name) is not None


def converts(call: cst.Call) -> bool:
    """Whether `call` asks for a dtype that is written out and no half."""
    dtypes = [path.rpartition(".") for one in call.args if (path := dotted(one.value)) is not None]
    return any(owner == "torch" and name not in ("half", *HALF_DTYPES) for owner, _, name in dtypes)


def _takes_indices(node: cst.Subscript) -> bool:
    """Whether `node` takes the indices that such an operation returns second."""
    index = node.slice[0].slice
    second = isinstance(index, cst.Index) and isinstance(index.value, cst.Integer) and index.value.value == "1"
    return second and called_name(node.value) in _CHOICES


def _blocks(statement: cst.CSTNode) -> _Blocks:
    """The blocks of a compound statement, those of its other clauses included."""
    for child in children(statement):
        if isinstance(child, (cst.IndentedBlock, cst.SimpleStatementSuite)):
            yield child.body
        elif not isinstance(child, (cst.BaseExpression, cst.BaseSmallStatement)):
            yield from _blocks(child)


def _has_else(statement: cst.CSTNode | None) -> bool:
    """Whether one of the branches of an `if` statement always runs."""
    return isinstance(statement, cst.If) and (isinstance(statement.orelse, cst.Else) or _has_else(statement.orelse))


def _own_calls(node: cst.CSTNode) -> Iterator[cst.Call]:
    """The calls in `node`, without those in blocks."""
    for child in children(node):
        if not isinstance(child, (cst.IndentedBlock, cst.SimpleStatementSuite)):
            if isinstance(child, cst.Call):
                yield child
            yield from _own_calls(child)


def _path(node: cst.CSTNode) -> str | None:
    """The variable or attribute of the object that an expression is, or is an attribute of, or its element by a string.

    None for others.
    """
    if isinstance(node, cst.Subscript):
        index = node.slice[0].slice if len(node.slice) == 1 else None
        key = index.value.value if isinstance(index, cst.Index) and isinstance(index.value, cst.SimpleString) else None
        owner = _path(node.value) if isinstance(node.value, (cst.Name, cst.Attribute)) else None
        return f"{owner}[{key}]" if owner is not None and key is not None else None
    path = dotted(node)
    if path is None:
        return None
    parts = path.split(".")
    return ".".join(parts[:2]) if parts[0] == "self" else parts[0]


def _keyed(value: cst.BaseExpression) -> list[tuple[str, cst.BaseExpression]]:
    """The elements of a dictionary that is written out with strings as keys; none for all else."""
    elements = value.elements if isinstance(value, cst.Dict) else ()
    pairs = [(one.key, one.value) for one in elements if isinstance(one, cst.DictElement)]
    found = [(key.value, one) for key, one in pairs if isinstance(key, cst.SimpleString)]
    return found if len(found) == len(elements) else []


def _is_of(known: str, path: str) -> bool:
    """Whether `known` is `path`, or an element of it."""
    return known == path or known.startswith(f"{path}[")
