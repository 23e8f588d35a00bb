"""Floating-point values in a region, by what makes them and what their function does with them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from enum import Enum

from amplint.semantics.reading.scopes import MODEL, dotted, kinds_in
from amplint.source import syntax as cst
from amplint.source.source import Chunk, Source
from amplint.source.tree import every
from amplint.torchlib.catalogue import OPERATIONS, fact_values, in_place, operations_with
from amplint.torchlib.methods import CASTS
from amplint.torchlib.names import HALF_DTYPES, TO_FLOAT32
from amplint.torchlib.policy import BOOLEAN, FLOAT32, INTEGER, LOWER, MODULE_OPS
from amplint.torchlib.promotion import FLOATING
from amplint.training.bindings import called_name, constructor, positional
from amplint.training.operands import is_off, operands
from amplint.training.surroundings import whole_program


class Kind(Enum):
    """What a value is in a region: float32, half, one of these, or none of them."""

    FLOAT32 = "float32"
    HALF = "half"
    FLOATING = "floating"
    OTHER = "other"


_OF_ANY = operations_with("counts") | {"pow", "square", "embedding", "one_hot"}
_MAKING = (
    operations_with("follows")
    | operations_with("needs-floating")
    | operations_with("no-half")
    | operations_with("promotes-to-floating")
    | operations_with("promotes-floating")
    | operations_with("loss")
    | FLOAT32
    | LOWER
) - _OF_ANY
"""Operations whose result is floating."""
_TAKING = _MAKING - operations_with("promotes-to-floating") - {"bernoulli"}
"""Operations of which whoever trains gives the first operand as floating."""
_TAKING_METHODS = (_TAKING - LOWER) | in_place((_TAKING - LOWER) | operations_with("promotes-to-floating"))
_KEEPING = (
    operations_with("keeps") | operations_with("copies") | operations_with("reshapes") | {"to", "data", "T", "Variable"}
)
_NEW = operations_with("creates", "float32") - operations_with("of-content") - {"arange", "full"}
_WITH_INDICES = operations_with("indices-too") | operations_with("indices-along")
_BY_FIRST = frozenset({"embedding", "one_hot"})
_BY_SECOND = frozenset({"index_select", "gather", "cross_entropy", "nll_loss"})
"""Operations that take whole numbers first, or behind their first operand."""
_OF_NUMBERS = frozenset({"long", "tolist", "item"})
_OF_LIBRARIES = frozenset({"np", "numpy", "math", "random", "os", "cv2", "scipy"})


def is_floating(source: Source, node: cst.CSTNode) -> bool | None:
    """Whether `node` is a floating-point tensor; None if neither what makes it nor its uses tell."""
    kind = kind_of(source, node)
    return None if kind is None else kind is not Kind.OTHER


def kind_of(source: Source, node: cst.CSTNode) -> Kind | None:
    """What `node` is in a region; None if neither what makes it nor its uses tell."""
    return _Judge(source).judge(node)


def needless_casts(before: str, source: Source) -> Iterator[cst.Call]:
    """The casts to float32 in a file that `before` lacks, of what others, or its constructor, made float32 already."""
    judge = _Judge(source, lifts=False)
    for call in (one for chunk in source.chunks for one in every(chunk.module, cst.Call)):
        casts = called_name(call) == "float" and not call.args and isinstance(call.func, cst.Attribute)
        if casts and isinstance(call.func, cst.Attribute) and source.code(call) not in before:
            if judge.judge(call.func.value) is Kind.FLOAT32:
                yield call
            judge.forget()


def held(source: Source, path: str) -> Iterator[cst.BaseExpression]:
    """What the file registers as the buffer or parameter `self.name` of an object, at this path."""
    name = path.removeprefix("self.")
    for call in (
        one for chunk in source.chunks if "register_buffer" in chunk.words for one in every(chunk.module, cst.Call)
    ):
        key = call.args[0].value if called_name(call) == "register_buffer" and len(call.args) > 1 else None
        if isinstance(key, cst.SimpleString) and key.evaluated_value == name:
            yield call.args[1].value


class _Judge:
    """Judges the expressions of a file, each variable of a function once.

    Without `lifts`, nothing is float32 because autocast, or another operand, makes it so.
    """

    def __init__(self, source: Source, *, lifts: bool = True, asked: set[Chunk] | None = None) -> None:
        self._source = source
        self._asked = asked if asked is not None else set[Chunk]()
        self._lifts = lifts
        self._seen = set[tuple[cst.CSTNode | None, str]]()
        self._met_again = False

    def forget(self) -> None:
        """Judge every variable anew."""
        self._seen.clear()
        self._asked.clear()

    def judge(self, node: cst.CSTNode) -> Kind | None:
        if isinstance(node, cst.Call):
            return self._of_call(node)
        if isinstance(node, (cst.Comparison, cst.BaseString, cst.FormattedString)):
            return Kind.OTHER
        if isinstance(node, cst.BinaryOperation):
            return self._of_operator(node)
        if isinstance(node, cst.UnaryOperation):
            return Kind.OTHER if isinstance(node.operator, cst.Not) else self.judge(node.expression)
        if isinstance(node, cst.IfExp):
            return _joined([self.judge(one) for one in (node.body, node.orelse)])
        if isinstance(node, cst.Subscript):
            return self._of_element(node)
        if isinstance(node, cst.Attribute) and node.attr.value in _KEEPING:
            return self.judge(node.value)
        path = dotted(node)
        return self._of_name(node, path) if path is not None else None

    def _of_operator(self, node: cst.BinaryOperation) -> Kind | None:
        found = self._of_all((node.left, node.right))
        if not self._lifts and found is not Kind.OTHER:
            return found if not isinstance(node.operator, cst.MatrixMultiply) or is_off(self._source, node) else None
        if isinstance(node.operator, cst.MatrixMultiply):
            return Kind.HALF if found in (Kind.FLOAT32, Kind.HALF, Kind.FLOATING) else None
        if isinstance(node.operator, cst.Power) and found is not Kind.OTHER:
            return Kind.FLOAT32 if found is not None else None
        return None if isinstance(node.operator, cst.Divide) and found is Kind.OTHER else found

    def _of_all(self, nodes: Iterable[cst.CSTNode]) -> Kind | None:
        """Of operands that are promoted, numbers aside."""
        found = [self.judge(one) for one in nodes if not isinstance(one, cst.BaseNumber)]
        if Kind.FLOAT32 in found and (self._lifts or set(found) <= {Kind.FLOAT32, Kind.OTHER}):
            return Kind.FLOAT32
        floating = [one for one in found if one in (Kind.HALF, Kind.FLOATING)]
        if floating:
            return Kind.HALF if set(found) <= {Kind.HALF, Kind.OTHER} else Kind.FLOATING
        return Kind.OTHER if found and None not in found else None

    def _of_call(self, call: cst.Call) -> Kind | None:
        name, path = called_name(call).rstrip("_"), dotted(call.func) or ""
        owner, root = call.func.value if isinstance(call.func, cst.Attribute) else None, path.partition(".")[0]
        if root in _OF_LIBRARIES or name in BOOLEAN | INTEGER or name == "numpy":
            return Kind.OTHER
        dtype = "float32" if name == TO_FLOAT32 else CASTS.get(name) or self._dtype(call)
        if dtype is not None:
            return Kind.HALF if dtype in HALF_DTYPES else Kind.FLOAT32 if dtype in FLOATING else Kind.OTHER
        function = owner is None or root in self._source.imports
        first = call.args[0].value if function and call.args else owner
        if isinstance(first, (cst.Tuple, cst.List)):
            return self._of_all(one.value for one in first.elements)
        if name in _NEW and function:
            return Kind.FLOAT32
        if (name in OPERATIONS or name in _KEEPING) and first is not None and not path.startswith(f"self.{name}"):
            return self._of_operation(name, first) if self._lifts else self._of_plain_operation(name, call, first)
        return Kind.FLOATING if self._runs_layer(call, path) else self._of_project(path)

    def _of_project(self, path: str) -> Kind | None:
        """Of a function of the project whose results are all of one kind that autocast does not change."""
        found = whole_program(self._source).resolve(self._source, path) if path and self._source.path else None
        if not isinstance(found, Chunk) or found.is_class or found in self._asked:
            return None
        self._asked.add(found)
        judge = _Judge(found.source, lifts=False, asked=self._asked)
        kinds = {judge.judge(one.value) if one.value is not None else None for one in every(found.module, cst.Return)}
        return kinds.pop() if len(kinds) == 1 and kinds <= {Kind.OTHER, Kind.FLOAT32} else None

    def _of_operation(self, name: str, first: cst.CSTNode) -> Kind | None:
        if name in LOWER:
            return Kind.HALF
        kind = self.judge(first) if name not in FLOAT32 - _OF_ANY else Kind.FLOAT32
        if name in FLOAT32 and kind in (Kind.HALF, Kind.FLOATING):
            return Kind.FLOAT32
        return kind if kind not in (None, Kind.OTHER) or name not in _MAKING else Kind.FLOATING

    def _of_plain_operation(self, name: str, call: cst.Call, first: cst.CSTNode) -> Kind | None:
        """Of an operation whose result has the dtype of its operands, unless autocast lowers it."""
        if name in LOWER and not is_off(self._source, call):
            return None
        follows = name in LOWER or name in _KEEPING or name in operations_with("follows")
        kinds = {self.judge(one) for one in (first, *(operands(self._source, call) if name in LOWER else ()))}
        return Kind.FLOAT32 if follows and kinds == {Kind.FLOAT32} else None

    def _dtype(self, call: cst.Call) -> str | None:
        """The dtype that a call names, among its arguments."""
        for one in call.args:
            owner, _, name = (dotted(one.value) or "").rpartition(".")
            if owner == "torch" and (name in FLOATING or name.startswith(("int", "uint", "bool", "long"))):
                return name
        return None

    def _runs_layer(self, call: cst.Call, path: str) -> bool:
        """Whether `call` runs a layer, or a model by its uses, of which the result is one tensor."""
        if isinstance(call.func, cst.Call):
            return called_name(call.func) in MODULE_OPS
        if any(kinds_in(chunk).get(path) == MODEL for chunk in self._source.chunks):
            return True
        made = {
            called_name(constructor(one.value))
            for chunk in (self._source.chunks if path.startswith("self.") else ())
            for one in every(chunk.module, cst.Assign)
            if path in {dotted(each.target) for each in one.targets}
        }
        return bool(made) and made <= MODULE_OPS.keys() | {"Sequential", "Embedding"}

    def _of_element(self, node: cst.Subscript) -> Kind | None:
        name = called_name(node.value)
        if isinstance(node.value, cst.Call) and (name in _WITH_INDICES or name in fact_values("returns")):
            index = node.slice[0].slice
            if not isinstance(index, cst.Index) or self._source.code(index.value) != "0":
                return Kind.OTHER if name in _WITH_INDICES else None
        return self.judge(node.value)

    def _of_name(self, node: cst.CSTNode, path: str) -> Kind | None:
        home = self._source.function_around(node)
        if (home, path) in self._seen:
            self._met_again = True
            return None
        self._seen.add((home, path))
        row = self._source.span(node).start.row
        whole = path.startswith("self.") or home is None
        chunks = (
            self._source.chunks_at(row) if home is not None else (one for one in self._source.chunks if not one.name)
        )
        roots: list[cst.CSTNode] = [one.module for one in chunks] if whole else []
        roots += [home] if home is not None and not whole else []
        statements: list[cst.CSTNode] = [one for root in roots for one in every(root, cst.Assign, cst.For)]
        if not whole:  # what is bound behind it is another value
            statements = [one for one in statements if self._source.span(one).start.row < row]
            statements = statements[self._last_certain(statements, node, path) :]
        known = [kind for one in statements for kind in self._of_first_binding(one, path)]
        known += [self.judge(one) for one in held(self._source, path)] if path.startswith("self.") else []
        if known and (None not in known or Kind.OTHER in known):
            return _joined(known)
        given = {one.name.value for one in positional(home)} if home is not None else set[str]()
        return self._of_uses(roots, path) if not known or path in given else None

    def _last_certain(self, statements: list[cst.CSTNode], node: cst.CSTNode, path: str) -> int:
        """The place of the last of `statements` that binds `path` wherever `node` runs, 0 without any."""
        around = {*self._source.ancestors(node)}
        certain = 0
        for place, one in enumerate(statements):
            if isinstance(one, cst.Assign) and path in {dotted(each.target) for each in one.targets}:
                block = next(
                    (above for above in self._source.ancestors(one) if isinstance(above, cst.IndentedBlock)), None
                )
                certain = place if block in around else certain
        return certain

    def _of_first_binding(self, statement: cst.CSTNode, path: str) -> list[Kind | None]:
        """What a statement binds `path` to, unless it makes that of `path` itself: a view is what it was."""
        self._met_again = False
        found = list(self._of_binding(statement, path))
        return [] if found == [None] and self._met_again else found

    def _of_binding(self, statement: cst.CSTNode, path: str) -> Iterator[Kind | None]:
        """What a statement binds `path` to, if it does."""
        pairs: list[tuple[cst.BaseExpression, cst.BaseExpression | None]] = []
        if isinstance(statement, cst.For):
            pairs.append((statement.target, None))
        elif isinstance(statement, cst.Assign):
            pairs += ((one.target, statement.value) for one in statement.targets)
        for target, value in pairs:
            if dotted(target) == path:
                yield self.judge(value) if value is not None else None
            elif isinstance(target, (cst.Tuple, cst.List)):
                places = [dotted(one.value) for one in target.elements]
                if path in places:
                    yield self._of_part(value, places.index(path), len(places))

    def _of_part(self, value: cst.CSTNode | None, place: int, number: int) -> Kind | None:
        if isinstance(value, cst.Tuple) and len(value.elements) == number:
            return self.judge(value.elements[place].value)
        name = called_name(value) if value is not None else ""
        if value is not None and name in _WITH_INDICES:
            return self.judge(value) if place == 0 else Kind.OTHER
        return Kind.FLOAT32 if name in fact_values("returns") else None

    def _of_uses(self, roots: list[cst.CSTNode], path: str) -> Kind | None:
        """What a function does with a variable: indexing is for whole numbers, layers and sigmoids for others."""
        found: Kind | None = None
        for use in (one for root in roots for one in every(root, cst.Name, cst.Attribute) if dotted(one) == path):
            above = self._source.parent(use)
            if isinstance(above, cst.Index):
                return Kind.OTHER
            if isinstance(above, cst.Attribute) and above.value is use:
                if above.attr.value in _OF_NUMBERS:
                    return Kind.OTHER
                found = Kind.FLOATING if above.attr.value in _TAKING_METHODS else found
            elif isinstance(above, cst.Arg):
                call = self._source.parent(above)
                name, path_of_call = (
                    (called_name(call), dotted(call.func) or "") if isinstance(call, cst.Call) else ("", "")
                )
                first = isinstance(call, cst.Call) and call.args[0] is above
                if name in (_BY_FIRST if first else _BY_SECOND):
                    return Kind.OTHER
                takes = first and name in _TAKING and path_of_call.startswith(("torch.", "F.", "nn."))
                found = Kind.FLOATING if takes else found
        return found


def _joined(found: list[Kind | None]) -> Kind | None:
    """What a value is that is one of several."""
    if Kind.OTHER in found:
        return Kind.OTHER
    return None if None in found else found[0] if len(set(found)) == 1 else Kind.FLOATING
