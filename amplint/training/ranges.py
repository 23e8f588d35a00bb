"""`while step < total:` loops that count every iteration, equivalent to loops over a range."""

from __future__ import annotations

from amplint.semantics.reading.options import options
from amplint.semantics.reading.scopes import dotted
from amplint.source import syntax as cst
from amplint.source.tree import walk
from amplint.training.bindings import bound_paths
from amplint.training.calls import Calls
from amplint.training.definitions import values_of
from amplint.training.refusal import Refusal
from amplint.training.script import Script

_WHOLE_OPERATORS = (cst.Add, cst.Subtract, cst.Multiply, cst.FloorDivide)
_CONDITIONS = (cst.IfExp, cst.BooleanOperation, cst.Comparison, cst.CompFor, cst.Lambda)
_DEEP = 4


def range_of(script: Script, calls: Calls, loop: cst.While) -> tuple[str, str]:
    """The counter of `loop`, and the integer that it counts to.

    Every iteration increments it once, in the loop or in a function that it calls, and nothing else changes the two.
    Raises Refusal if that is not certain.
    """
    test = loop.test if isinstance(loop.test, cst.Comparison) and not script.rewrite.parentheses(loop.test) else None
    if test is not None and len(test.comparisons) == 1 and loop.orelse is None:
        counter, end = dotted(test.left), test.comparisons[0].comparator
        counts = _changes(script, calls, loop, counter) if counter is not None else []
        if (
            counter is not None
            and isinstance(test.comparisons[0].operator, cst.LessThan)
            and len(counts) == 1
            and _counts_every_iteration(script, calls, loop, counts[0])
            and _is_fixed(script, calls, loop, end)
        ):
            return counter, script.rewrite.text(end)
    raise Refusal(loop, "how many rounds this loop runs is not known, so its last window cannot be told")


def _is_fixed(script: Script, calls: Calls, loop: cst.While, end: cst.BaseExpression) -> bool:
    """Whether `end` is an integer that is loop-invariant in `loop`."""
    path = dotted(end)
    known = isinstance(end, cst.Integer) if path is None else not _changes(script, calls, loop, path)
    return known and _is_whole(script, calls, end)


def _changes(script: Script, calls: Calls, loop: cst.While, path: str) -> list[cst.CSTNode]:
    """The nodes that may bind `path` while `loop` runs: for an attribute, those of any object."""
    first, attribute, last = path.partition(".")[0], "." in path, "." + path.rpartition(".")[2]
    found = []
    functions = (one for one in calls.reached([loop.body]) if script.source.owns(one))
    for body in (loop.body, *(one.body for one in functions if isinstance(one, cst.FunctionDef))):
        nodes = list(walk(body))
        here = body is loop.body or any(_declares(node, first) for node in nodes)
        for node in nodes:
            bound = bound_paths(node, whole=True)
            if (here and bound & {path, first}) or (attribute and any(one.endswith(last) for one in bound)):
                found.append(node)
    return found


def _declares(node: cst.CSTNode, name: str) -> bool:
    return isinstance(node, (cst.Global, cst.Nonlocal)) and any(item.name.value == name for item in node.names)


def _counts_every_iteration(script: Script, calls: Calls, loop: cst.While, count: cst.CSTNode) -> bool:
    """Whether every iteration of `loop` runs `count`, an increment by 1, exactly once."""
    adds = isinstance(count, cst.AugAssign) and isinstance(count.operator, cst.AddAssign)
    if not (adds and isinstance(count, cst.AugAssign) and isinstance(count.value, cst.Integer)):
        return False
    if count.value.value != "1" or any(isinstance(node, cst.Continue) for node in walk(loop.body)):
        return False
    if script.inside(loop.body, count):
        return script.block_of(script.statement(count)) is loop.body.body
    function = script.function_of(count)
    callers = calls.callers(function) if function is not None else None
    if function is None or callers is None or script.block_of(script.statement(count)) is not function.body.body:
        return False
    returns = [node for node in walk(function.body) if isinstance(node, cst.Return)]
    if any(script.statement_of(node) is not function.body.body[-1] for node in returns):
        return False
    here = [call for call in callers if script.inside(loop.body, call)]
    return len(here) == 1 and len(callers) == 1 and _always(script, loop, here[0])


def _always(script: Script, loop: cst.While, call: cst.Call) -> bool:
    """Whether every iteration of `loop` runs `call` exactly once."""
    statement = script.statement_of(call)
    if not isinstance(statement, cst.SimpleStatementLine) or script.block_of(statement) is not loop.body.body:
        return False
    return not any(
        isinstance(above, _CONDITIONS) and script.inside(statement, above) for above in script.source.ancestors(call)
    )


def _is_whole(script: Script, calls: Calls, node: cst.BaseExpression | None, deep: int = _DEEP) -> bool:
    """Whether `node` is certainly an integer."""
    if isinstance(node, cst.BinaryOperation):
        both = (node.left, node.right)
        return isinstance(node.operator, _WHOLE_OPERATORS) and all(_is_whole(script, calls, n, deep) for n in both)
    if isinstance(node, cst.IfExp):
        return _is_whole(script, calls, node.body, deep) and _is_whole(script, calls, node.orelse, deep)
    if isinstance(node, cst.Call):
        return dotted(node.func) in ("len", "int")
    path = dotted(node) if node is not None else None
    if node is None or path is None or deep == 0:
        return isinstance(node, cst.Integer)
    function = script.function_of(node)
    parameter = script.parameter(function, path) if function is not None else None
    if parameter is not None and _is_declared(parameter[1].annotation):
        return True
    values = values_of(script, calls, node, path)
    if values:
        return all(_is_whole(script, calls, value, deep - 1) for value in values)
    if parameter is not None:
        return isinstance(parameter[1].default, cst.Integer)
    return "." in path and _is_option(script, path.rpartition(".")[2])


def _is_declared(annotation: cst.Annotation | None) -> bool:
    return annotation is not None and dotted(annotation.annotation) == "int"


def _is_option(script: Script, name: str) -> bool:
    """Whether an option or a field of a class called `name` is declared as an integer."""
    option = options(script.source).get(name)
    if option is not None and option.kind is not None:
        return option.kind == "int"
    fields = list(script.of_kind(cst.AnnAssign))
    return any(dotted(one.target) == name and _is_declared(one.annotation) for one in fields)
