"""Regions that end with their forward passes, whose outputs leave them in float32."""

from __future__ import annotations

import builtins
from collections.abc import Callable, Iterable, Iterator, Sequence

from amplint.codemods.rows import row_edited
from amplint.findings import Edit, Fix, Position, Span
from amplint.fixes.apply import apply_round
from amplint.regex import regex
from amplint.semantics.reading.scopes import dotted
from amplint.source import syntax as cst
from amplint.source.tree import children, every, walk
from amplint.torchlib.catalogue import OPERATIONS
from amplint.torchlib.names import TO_FLOAT32
from amplint.torchlib.policy import FLOAT32, LOWER
from amplint.training.bindings import called_name, paths
from amplint.training.flow import Flow
from amplint.training.observed import Observed
from amplint.training.penalties import names_differentiated, outputs_of
from amplint.training.results import Result, is_floating, is_wide, key_of, result_by_class, results_cast, unpacked
from amplint.training.script import Script
from amplint.training.staying import Staying
from amplint.training.surroundings import whole_program

_HELPER = '''def {name}(value):
    """Half tensors as float32, also those in lists, tuples and dictionaries."""
    if isinstance(value, {torch}.Tensor):
        return value.float() if value.dtype in ({torch}.float16, {torch}.bfloat16) else value
    if isinstance(value, dict):
        return type(value)({{key: {name}(one) for key, one in value.items()}})
    if isinstance(value, (list, tuple)):
        parts = [{name}(one) for one in value]
        return type(value)(*parts) if hasattr(value, "_fields") else type(value)(parts)
{rest}    return value
'''
_OBJECTS = """    if hasattr(value, "__dict__") and not callable(value):
        value = copy.copy(value)
        value.__dict__.update({name}(value.__dict__))
"""
_WITH_OBJECTS = regex(r"\bdistributions\b|@dataclass|\bSimpleNamespace\b")
"""Words in code whose models may return objects that hold tensors."""
_LISTS = regex(r"\breturn \[")
"""Words in code whose models may return a list, which code that gets it may change."""
_COLLECTING = frozenset({"append", "extend", "update", "add", "write", "put"})
_GAP = 2
_DEPTH = 3
"""The limit of functions of the file through which a region follows the models that it runs."""
_Statements = list[cst.CSTNode]


class Exits:
    """Decides for regions which outputs become float32, and ends those regions with their forward passes.

    `casts` are the calls whose results become float32, `imports` what the function needs that makes some of them so.
    """

    def __init__(self, script: Script, observed: Observed, flow: Flow, parts: Callable[[cst.CSTNode], bool]) -> None:
        self._script = script
        self._staying = Staying(script, observed, flow)
        self._flow = flow
        self._parts = parts
        self.casts: dict[cst.Call, None] = {}
        self._seen = set[cst.CSTNode]()
        self._entered = set[cst.FunctionDef]()
        self._name = script.fresh(TO_FLOAT32)
        self.imports: list[str] = []

    def narrowed(self, statements: _Statements) -> list[_Statements] | None:
        """The regions that the forward passes in a region need by themselves; None if its outputs may stay half.

        A region without any, behind one that has become narrower, is none.
        """
        simple = list(self._followed(self._passes(statements, _DEPTH)))
        if not simple and self._script.function_of(statements[0]) in map(self._script.function_of, self.casts):
            return []
        calls = [call for one in simple for call in self._staying.outermost(one) if not self._is_entered(call)]
        if all(self._staying.stays_half(call, statements) for call in calls):
            return None
        wide = [call for call in calls if not self._staying.stays_half(call, simple)]
        self.casts |= dict.fromkeys(wide)
        fresh = [one for one in simple if one not in self._seen]
        self._seen.update(fresh)
        return list(self._runs(fresh))

    def edits(self, others: Sequence[Edit], imports: tuple[str, ...], torch: str) -> Iterator[Edit]:
        """The casts of what is not float32 yet, besides the `others`, and the function that makes some of them.

        PyTorch has the name `torch` in the file.
        """
        results = self._results(others, imports)
        helped, part = list[cst.Call](), self._script.fresh("output")
        for call, result in results.items():
            node, result = self._element(call, result)
            by_name = self._staying.gives_loss(call) or self._staying.gives_tokens(call)
            if self._is_wide(call, result) or (result is None and by_name):
                continue
            several = self._are_tensors(call, result)
            if several is None and self._is_tensor(call, result):
                yield self._with_float(node)
                continue
            helped += [] if several is not None else [call]
            span = self._script.source.span(call)
            each = f"({part}.float() for {part} in "
            yield Edit(Span(span.start, span.start), f"{several}{each}" if several is not None else f"{self._name}(")
            yield Edit(Span(span.end, span.end), ")")
        if helped:
            top = self._top(min(helped, key=self._script.row))
            row = self._script.lines.commented(self._script.rewrite.start(top).row)
            lines, place = self._script.lines, Position(row, 1)
            above = sum(row > one and lines.blank(row - one) for one in (1, 2))
            rest = _OBJECTS.format(name=self._name) if any(map(_WITH_OBJECTS.search, self._texts())) else ""
            self.imports += ["import copy"] if rest else []
            code = "\n" * (2 - above) * (row > 1) + _HELPER.format(name=self._name, torch=torch, rest=rest) + "\n\n"
            code = code.replace("    ", self._script.source.chunk_of(top).default_indent)
            yield Edit(Span(place, place), code.replace("\n", self._script.source.newline))

    def _texts(self) -> list[str]:
        return [one.text for one in whole_program(self._script.source).sources]

    def _with_float(self, node: cst.CSTNode) -> Edit:
        """The edit that casts a call or an element, in which others can be cast as well."""
        end = self._script.source.span(node).end
        return Edit(Span(end, end), ".float()")

    def _element(self, call: cst.Call, result: Result) -> tuple[cst.BaseExpression, Result]:
        """What to cast of a call: the element that is taken of a tuple which it certainly gives, or all of it."""
        above = self._script.source.parent(call)
        if isinstance(above, cst.Subscript) and above.value is call and isinstance(result, tuple):
            index = next((one.slice.value for one in above.slice if isinstance(one.slice, cst.Index)), None)
            place = int(index.value) if isinstance(index, cst.Integer) else len(result)
            if place < len(result) and is_floating(result[place]):
                return above, result[place]
        return call, result

    def _is_wide(self, call: cst.Call, result: Result) -> bool:
        """Whether what `call` gives certainly has no half tensor that is used."""
        parts = self._staying.parts(call)
        if isinstance(result, tuple) and len(parts) == len(result):
            return all(is_wide(one) or self._staying.is_unused(part) for one, part in zip(result, parts, strict=True))
        return is_wide(result)

    def _are_tensors(self, call: cst.Call, result: Result) -> str | None:
        """The collection of tensors that `call` certainly gives: one for each variable of a tuple, or a tuple.

        Empty for those of variables; None if there may be something else.
        """
        count, staying = len(self._staying.parts(call)), self._staying
        if not isinstance(result, tuple):
            alike = is_floating(result) or (result is None and staying.are_tensors(call))
            return "" if count and alike else None
        if not all(one is None or is_floating(one) for one in result):
            return None
        if count != len(result):
            one_by_one = not count and None not in result and staying.is_only_read(call)
            return "tuple" if one_by_one and not any(map(_LISTS.search, self._texts())) else None
        certain = None not in result or staying.are_tensors(call)
        return "" if certain and not staying.may_be_none(call) else None

    def _is_tensor(self, call: cst.Call, result: Result) -> bool:
        """Whether `call` certainly gives one tensor."""
        known = is_floating(result) and not self._staying.parts(call)
        return known or (result is None and self._staying.is_tensor(call))

    def _top(self, call: cst.Call) -> cst.CSTNode:
        """The statement of the module in front of which a function stands that `call` is to be passed to."""
        around = next(one for one in self._script.source.ancestors(call) if one in self._script.top)
        if isinstance(around, (cst.FunctionDef, cst.ClassDef)):
            return around
        before = self._script.top[: self._script.top.index(around)]
        imports = [row for row, one in enumerate(before) if any(every(one, cst.Import, cst.ImportFrom))]
        return self._script.top[imports[-1] + 1] if imports else around

    def _gives(self, call: cst.Call) -> bool:
        """Whether `call` computes something of what it gets, and is none of Python's functions, or of collections."""
        name = called_name(call)
        return self._staying.is_of_others(call) and not hasattr(builtins, name) and name not in _COLLECTING

    def _is_entered(self, call: cst.Call) -> bool:
        """Whether the functions that `call` runs have their own regions."""
        return any(one in self._entered for one in self._staying.functions(call))

    def _results(self, others: Sequence[Edit], imports: tuple[str, ...]) -> dict[cst.Call, Result]:
        """What the calls to cast give in their regions, as far as that is known."""
        if not self.casts:
            return {}
        source, text = self._script.source, self._script.text
        edits = (*others, *map(self._with_float, self.casts))
        new, _ = apply_round(text, [Fix("Cast all", edits, imports=imports)])
        found = results_cast(new, self._script.path)
        rows = {call: row_edited(text, new, edits, source.span(call).start.row) for call in self.casts}
        return {call: self._result(call, found.get(key_of(source, call, row), ())) for call, row in rows.items()}

    def _result(self, call: cst.Call, results: Iterable[Result]) -> Result:
        """What `call` gives by these `results` of its paths, or by the classes of the models that it can run."""
        count = len(self._staying.parts(call))
        known = unpacked(results, count)
        method = self._staying.calls_method(call)
        return known if known is not None else result_by_class(self._script.source, call, count, method=method)

    def given_to_others(self) -> list[cst.BaseExpression]:
        """What each statement gives first, of calls to cast, to code which is not to run in the region."""
        found, parent = dict[cst.CSTNode | None, cst.BaseExpression](), self._script.source.parent
        for call in self.casts:
            given: cst.BaseExpression = call
            while isinstance(above := parent(given), cst.Attribute) and isinstance(method := parent(above), cst.Call):
                given = method
            taking = parent(above) if isinstance(above, cst.Arg) else None
            if isinstance(taking, cst.Call) and self._gives(taking):
                found.setdefault(self._script.statement_of(call), given)
        return list(found.values())

    def _passes(self, statements: Iterable[cst.CSTNode], depth: int) -> Iterator[cst.CSTNode]:
        """The innermost statements that run models, also in functions of the file that `statements` call."""
        for one in statements:
            if not any(map(self._staying.runs_model, walk(one))):
                continue
            calls = list(self._staying.outermost(one))
            own = dict.fromkeys(each for call in calls for each in self._staying.functions(call) if depth)
            deep = [function for function in own if not self._differentiated(function)]
            self._entered.update(own)
            inner = [each for block in _blocks(one) for each in block]
            deeper = [each for function in deep for each in function.body.body]
            found = list(self._passes(inner, depth)) or list(self._passes(deeper, depth - 1))
            yield from found
            direct = [call for call in calls if not any(self._staying.functions(call))]
            alone = (direct and not inner) or (not found and (deep or not own))
            yield from [one] if alone and not self.is_of_penalty(one) else ()

    def _followed(self, statements: Iterable[cst.CSTNode]) -> Iterator[cst.CSTNode]:
        """`statements`, each with those right below it that run models, too."""
        known = list(statements)
        for one in known:
            yield one
            block = self._script.block_of(one)
            for following in block[block.index(one) + 1 :]:
                plain = isinstance(following, cst.SimpleStatementLine) and not self._parts(following)
                if following in known or not plain or list(self._passes([following], _DEPTH)) != [following]:
                    break
                yield following

    def is_of_penalty(self, statement: cst.CSTNode) -> bool:
        """Whether its function, or a loss of another file, differentiates what `statement` computes, for a penalty.

        It stays float32.
        """
        home, bound = self._script.function_of(statement), self._flow.binds(statement)
        if any(bound & paths(one) for one in self._differentiated(home)):
            return True
        asked = bound & names_differentiated(self._script.source)
        return any(self._passes_by_name(name, node) for node in self._script.nodes_of(home) for name in asked)

    def _differentiated(self, function: cst.FunctionDef | None) -> list[cst.BaseExpression]:
        """What the calls in a function differentiate that compute gradients for a penalty."""
        calls = (one for one in self._script.calls if self._script.function_of(one) is function)
        return [value for one in calls for value in outputs_of(one)]

    def _passes_by_name(self, name: str, node: cst.CSTNode) -> bool:
        """Whether `node` is an argument or an entry with this name, of a variable of this name."""
        if isinstance(node, cst.DictElement) and isinstance(node.key, cst.SimpleString):
            return node.key.evaluated_value == name and dotted(node.value) == name
        return isinstance(node, cst.Arg) and dotted(node.value) == name

    def _runs(self, statements: _Statements) -> Iterator[_Statements]:
        """`statements` in groups of near ones of a block, with what stands between them, if that computes little."""
        run = list[cst.CSTNode]()
        parents = [self._script.source.parent(one) for one in statements]
        for one in sorted(statements, key=lambda one: parents.index(self._script.source.parent(one))):
            block = list(self._script.block_of(one))
            if run and run[-1] in block:
                between = block[block.index(run[-1]) + 1 : block.index(one)]
                if len(between) <= _GAP and not any(map(self._parts, between)) and all(map(_is_plain, between)):
                    run += [*between, one]
                    continue
            if run:
                yield run
            run = [one]
        if run:
            yield run


def _is_plain(statement: cst.CSTNode) -> bool:
    """Whether a statement calls nothing but operations that autocast leaves alone."""
    calls = list(every(statement, cst.Call))
    return isinstance(statement, cst.SimpleStatementLine) and all(
        called_name(call) in OPERATIONS.keys() - LOWER - FLOAT32 for call in calls
    )


def _blocks(statement: cst.CSTNode) -> Iterator[list[cst.CSTNode]]:
    """The blocks of a compound statement, those of its other clauses included."""
    for child in children(statement):
        if isinstance(child, cst.IndentedBlock):
            yield [*child.body]
        elif not isinstance(child, (cst.BaseExpression, cst.BaseSmallStatement)):
            yield from _blocks(child)
