"""Refactorings of Python programs: each gives a program of another shape that does the same.

A refactoring is a function from a freshly parsed tree to the texts of files, with the program in `SCRIPT`. It raises
`Unsuited` for programs to which it does not apply. What it has to know of a program is only names: which of them a
scope binds, and where they are read.
"""

from __future__ import annotations

import ast
import copy
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial

SCRIPT = "script.py"
RESULTS = frozenset({"result", "expected"})
"""Names by which a fixture is judged, which stay global variables."""
OPTIMIZERS = frozenset({"SGD", "Adam", "AdamW", "RMSprop", "Adagrad", "Adafactor", "Adadelta"})

MODULES = {"torch.optim": "optim", "torch.nn": "nn", "torch.amp": "amp", "nn.functional": "functional"}
SHORT = {"torch.nn.functional": "F", "nn.functional": "F", "torch.nn": "nn"}

Files = dict[str, str]
Function = ast.FunctionDef | ast.AsyncFunctionDef
Scope = ast.Module | Function
Block = list[ast.stmt]


class Unsuited(Exception):
    """The refactoring does not apply to a program."""


# Names


def _inside(nodes: Iterable[ast.AST]) -> Iterator[ast.AST]:
    """The nodes of one scope: without the bodies of functions, classes, lambdas and comprehensions below it."""
    waiting = list(nodes)
    while waiting:
        node = waiting.pop()
        yield node
        if not isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef, ast.Lambda, *COMPREHENSIONS)):
            waiting.extend(ast.iter_child_nodes(node))


COMPREHENSIONS = (ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp)


def _binders(nodes: Iterable[ast.AST]) -> Iterator[tuple[str, ast.AST]]:
    """The variables that nodes of one scope bind, each with the node; no imports and definitions."""
    for node in _inside(nodes):
        if isinstance(node, ast.Name) and isinstance(node.ctx, (ast.Store, ast.Del)):
            yield node.id, node
        elif isinstance(node, ast.ExceptHandler) and node.name:
            yield node.name, node


def _bound(nodes: Iterable[ast.AST]) -> set[str]:
    return {name for name, _ in _binders(nodes)}


def _stored(tree: ast.Module) -> set[str]:
    """The variables that any scope of a program binds."""
    return {one.id for one in ast.walk(tree) if isinstance(one, ast.Name) and not _loads(one)}


def _definitions(nodes: Iterable[ast.AST], walked: bool = False) -> set[str]:
    """The names of functions, classes and imports that nodes of one scope, or the `walked` nodes, bind."""
    found = set()
    for node in nodes if walked else _inside(nodes):
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
            found.add(node.name)
        elif isinstance(node, (ast.Import, ast.ImportFrom)):
            found |= {alias.asname or alias.name.partition(".")[0] for alias in node.names}
    return found


def _read(nodes: Iterable[ast.AST]) -> set[str]:
    """All names that are read in nodes, in functions inside them too."""
    return {one.id for node in nodes for one in ast.walk(node) if isinstance(one, ast.Name) and _loads(one)}


def _loads(name: ast.Name) -> bool:
    return isinstance(name.ctx, ast.Load)


def _parameters(function: Function | ast.Lambda) -> list[str]:
    arguments = function.args
    every = [*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs]
    return [one.arg for one in [*every, arguments.vararg, arguments.kwarg] if one is not None]


def _body(scope: Scope) -> Block:
    """The statements of a scope behind its docstring and its imports."""
    return scope.body[_start(scope) :]


def _start(scope: Scope) -> int:
    """Where the statements of a scope begin."""
    for index, one in enumerate(scope.body):
        docstring = isinstance(one, ast.Expr) and isinstance(one.value, ast.Constant) and index == 0
        if not docstring and not isinstance(one, (ast.Import, ast.ImportFrom)):
            return index
    return len(scope.body)


def _scopes(tree: ast.Module) -> Iterator[Scope]:
    """Functions and methods of a program, and the program itself."""
    yield from (node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef))
    yield tree


def _variables(scope: Scope) -> set[str]:
    """The local variables of a function, or the global ones of a module."""
    own = set() if isinstance(scope, ast.Module) else set(_parameters(scope))
    return own | _bound(scope.body)


def _read_by_definitions(tree: ast.Module) -> set[str]:
    """Names that functions and classes of a module read, as global variables or otherwise."""
    return _read(one for one in tree.body if isinstance(one, (ast.FunctionDef, ast.ClassDef)))


def _has(nodes: Iterable[ast.AST], *kinds: type[ast.AST]) -> bool:
    return any(isinstance(one, kinds) for one in _inside(nodes))


def _calls(nodes: Iterable[ast.AST], *names: str) -> bool:
    """Whether something of one of these names is called in nodes."""
    return any(isinstance(one, ast.Call) and _last(one.func) in names for node in nodes for one in ast.walk(node))


def _last(function: ast.AST) -> str:
    """The last part of a dotted name."""
    return function.attr if isinstance(function, ast.Attribute) else getattr(function, "id", "")


def _dotted(node: ast.AST) -> str:
    """A dotted name as text, empty for other expressions."""
    if isinstance(node, ast.Name):
        return node.id
    if isinstance(node, ast.Attribute) and (left := _dotted(node.value)):
        return f"{left}.{node.attr}"
    return ""


# Writing


def _statements(text: str) -> Block:
    return ast.parse(text).body


def _expression(text: str) -> ast.expr:
    return ast.parse(text, mode="eval").body


def _text(nodes: ast.AST | Sequence[ast.AST], margin: int = 0) -> str:
    """The text of statements, indented."""
    block = [nodes] if isinstance(nodes, ast.AST) else nodes
    rows = "\n".join(ast.unparse(ast.fix_missing_locations(one)) for one in block).splitlines() or ["pass"]
    return "\n".join(" " * margin + row if row else row for row in rows)


def _written(tree: ast.Module) -> Files:
    return {SCRIPT: ast.unparse(ast.fix_missing_locations(tree)) + "\n"}


def _import(tree: ast.Module, text: str) -> None:
    """Add an import, behind those from `__future__`."""
    at = _start(tree)
    tree.body[at:at] = _statements(text)


def _insert_top(tree: ast.Module, node: ast.AST, text: str) -> None:
    """Add statements before the top-level statement that holds a node."""
    at = next(index for index, one in enumerate(tree.body) if any(inner is node for inner in ast.walk(one)))
    tree.body[at:at] = _statements(text)


def _fresh(tree: ast.Module, name: str) -> str:
    """A name like `name` that the program does not use."""
    used = _every_name(tree)
    while name in used:
        name += "_"
    return name


def _every_name(tree: ast.Module) -> set[str]:
    """All names of variables, parameters, functions, classes and imports in a program."""
    found = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Name):
            found.add(node.id)
        elif isinstance(node, ast.arg):
            found.add(node.arg)
        elif isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
            found.add(node.name)
        elif isinstance(node, ast.alias):
            found.add(node.asname or node.name.partition(".")[0])
    return found


class _Replace(ast.NodeTransformer):
    """Writes other expressions for variables, except where a function has its own of that name."""

    def __init__(self, written: dict[str, str]) -> None:
        self.written = written

    def visit_Name(self, node: ast.Name) -> ast.AST:
        if node.id not in self.written:
            return node
        new = _expression(self.written[node.id])
        new.ctx = node.ctx  # type: ignore[attr-defined]
        return new

    def visit_NamedExpr(self, node: ast.NamedExpr) -> ast.AST:
        if node.target.id in self.written:
            raise Unsuited
        return self.generic_visit(node)

    def visit_ExceptHandler(self, node: ast.ExceptHandler) -> ast.AST:
        if node.name in self.written:
            raise Unsuited
        return self.generic_visit(node)

    def _below(self, node: ast.AST, own: set[str]) -> ast.AST:
        return _Replace({name: new for name, new in self.written.items() if name not in own}).generic_visit(node)

    def visit_FunctionDef(self, node: ast.FunctionDef) -> ast.AST:
        return self._below(node, _variables(node))

    def visit_Lambda(self, node: ast.Lambda) -> ast.AST:
        return self._below(node, set(_parameters(node)))

    def _comprehension(self, node: ast.AST) -> ast.AST:
        return self._below(node, _bound(one.target for one in node.generators))  # type: ignore[attr-defined]

    visit_ListComp = visit_SetComp = visit_DictComp = visit_GeneratorExp = _comprehension

    def visit_Global(self, node: ast.Global) -> ast.AST:
        if self.written.keys() & set(node.names):
            raise Unsuited
        return node

    visit_Nonlocal = visit_Global  # type: ignore[assignment]


def _replaced(nodes: Iterable[ast.stmt], written: dict[str, str]) -> Block:
    return [_Replace(written).visit(copy.deepcopy(one)) for one in nodes]


# Places


def _blocks(scope: Scope) -> Iterator[Block]:
    """The lists of statements of one scope."""
    for node in [scope, *_inside(scope.body)]:
        if isinstance(node, (ast.FunctionDef, ast.ClassDef)) and node is not scope:
            continue
        for name in ("body", "orelse", "finalbody"):
            block = getattr(node, name, None)
            if isinstance(block, list) and block:
                yield block


@dataclass(frozen=True)
class Place:
    """A statement of a program."""

    tree: ast.Module
    scope: Scope
    block: Block
    index: int

    @property
    def node(self) -> ast.stmt:
        """The statement."""
        return self.block[self.index]


def _places(tree: ast.Module, holds: Callable[[ast.stmt], bool]) -> Iterator[Place]:
    for scope in _scopes(tree):
        for block in _blocks(scope):
            yield from (Place(tree, scope, block, index) for index, one in enumerate(block) if holds(one))


def _trains(node: ast.stmt) -> bool:
    """Whether a loop is the innermost that runs a step of training."""
    if not isinstance(node, ast.For) or node.orelse:
        return False
    inner = [one for part in node.body for one in ast.walk(part) if isinstance(one, (ast.For, ast.While))]
    names = ("backward", "step")
    return _calls(node.body, *names) and not any(_calls(one.body, *names) for one in inner)


def _training_loop(tree: ast.Module) -> Place:
    """The first loop that trains, or else the first loop that holds no other."""
    for wanted in (_trains, lambda node: isinstance(node, ast.For) and not node.orelse):
        for place in _places(tree, wanted):
            return place
    raise Unsuited


def _is_region(node: ast.AST) -> bool:
    return isinstance(node, ast.With) and any(_autocast(item.context_expr) for item in node.items)


def _autocast(node: ast.AST) -> bool:
    return isinstance(node, ast.Call) and _last(node.func) == "autocast"


# Extraction of functions


def extract(place: Place, count: int, name: str, *, nested: bool = False) -> list[str]:
    """Move `count` statements to a function; returns the names that it returns.

    The function takes what it needs as arguments, or, if it is `nested`, is a closure.
    """
    statements = place.block[place.index : place.index + count]
    parameters, returned = _interface(place, statements)
    body = [*statements]
    loop = _loop_of(place, statements)
    jumps = _jumps(statements)
    end = f"return {', '.join(returned)}" if returned else ""
    if jumps:
        if loop is None or any(isinstance(one, ast.Break) for one in jumps) or set(returned) - set(parameters):
            raise Unsuited
        body = [_Continue(end or "return").visit(one) for one in copy.deepcopy(body)]
    if nested and set(returned) & set(parameters):
        raise Unsuited
    taken = "" if nested else ", ".join(parameters)
    text = f"def {name}({taken}):\n{_text(body, 4)}\n" + (f"    {end}\n" if end else "")
    call = f"{name}({taken})"
    call = f"{', '.join(returned)} = {call}" if returned else call
    place.block[place.index : place.index + count] = _statements(call)
    if nested and loop is not None:
        _before_loop(place, loop, text)
    elif nested:
        place.block[place.index : place.index] = _statements(text)
    elif isinstance(place.scope, ast.Module):
        _insert_top(place.tree, place.block[place.index], text)
    else:
        _insert_top(place.tree, place.scope, text)
    return returned


def _interface(place: Place, statements: Block) -> tuple[list[str], list[str]]:
    """What statements need from their scope, and what the scope needs from them."""
    forbidden = (ast.Return, ast.Yield, ast.YieldFrom, ast.Global, ast.Nonlocal, ast.Delete, ast.Import, ast.ImportFrom)
    if _has(statements, *forbidden, ast.FunctionDef, ast.ClassDef) or "super" in _read(statements):
        raise Unsuited
    variables, assigned = _variables(place.scope), _bound(statements)
    if assigned & RESULTS:
        raise Unsuited
    if _read(statements) & _enclosed(place):
        raise Unsuited
    inside = {id(node) for one in statements for node in ast.walk(one)}
    outside = [
        node for node in ast.walk(place.scope) if id(node) not in inside and isinstance(node, (ast.Name, ast.arg))
    ]
    read_outside = {node.id for node in outside if isinstance(node, ast.Name) and _loads(node)}
    first_row = statements[0].lineno
    before = {
        node.arg if isinstance(node, ast.arg) else node.id
        for node in outside
        if node.lineno < first_row and (isinstance(node, ast.arg) or not _loads(node))
    }
    if isinstance(place.scope, ast.Module):
        before -= {node.arg for node in outside if isinstance(node, ast.arg)} - _bound(place.scope.body)
        read_outside |= RESULTS
    straight = _straight(statements)
    needed = {
        name
        for name in (_read(statements) | assigned) & variables
        if name in before and (name not in straight or _read_first(statements, name))
    }
    carried = {name for name in assigned if name in needed and _loop_of(place, statements) is not None}
    returned = {name for name in assigned if name in read_outside} | carried
    if any(name not in straight and name not in needed for name in returned):
        raise Unsuited
    late = {name for name in _read(statements) & variables if name not in before and name not in assigned}
    if late:
        raise Unsuited
    return sorted(needed), sorted(returned)


def _enclosed(place: Place) -> set[str]:
    """The variables that a function has from the functions around it."""
    around = [
        one
        for one in ast.walk(place.tree)
        if isinstance(one, ast.FunctionDef) and one is not place.scope and place.scope in ast.walk(one)
    ]
    return {name for one in around for name in _variables(one)} - _variables(place.scope)


def _straight(statements: Block) -> set[str]:
    """Names that statements bind on every path."""
    found: set[str] = set()
    for one in statements:
        if isinstance(one, (ast.Assign, ast.AugAssign, ast.AnnAssign, ast.Expr)):
            found |= _bound([one])
        elif isinstance(one, ast.With):
            found |= _bound(one.items) | _straight(one.body)
    return found


def _read_first(statements: Block, name: str) -> bool:
    """Whether statements can read a variable before they bind it."""
    for one in statements:
        if isinstance(one, ast.With):
            if name in _read(one.items) or _read_first(one.body, name):
                return True
            if name in _straight([one]):
                return False
        elif name in _read([one]) or (isinstance(one, ast.AugAssign) and name in _bound([one])):
            return True
        elif name in _straight([one]):
            return False
    return False


def _loop_of(place: Place, statements: Block) -> ast.For | ast.While | None:
    """The innermost loop of the scope around statements."""
    loops = [one for one in _inside(place.scope.body) if isinstance(one, (ast.For, ast.While))]
    around = [one for one in loops if any(node is statements[0] for node in ast.walk(one)) and one is not statements[0]]
    return max(around, key=lambda one: one.lineno, default=None)


def _jumps(statements: Block) -> list[ast.AST]:
    """`break` and `continue` for a loop around statements."""
    found: list[ast.AST] = []
    for one in statements:
        if isinstance(one, (ast.Break, ast.Continue)):
            found.append(one)
        elif not isinstance(one, (ast.For, ast.While, ast.FunctionDef, ast.ClassDef)):
            for name in ("body", "orelse", "finalbody"):
                found += _jumps(getattr(one, name, []))
            for handler in getattr(one, "handlers", []):
                found += _jumps(handler.body)
    return found


class _Continue(ast.NodeTransformer):
    """Writes other statements for `continue` of the loop around them."""

    def __init__(self, text: str) -> None:
        self.text = text

    def visit_Continue(self, node: ast.Continue) -> ast.AST:
        return _statements(f"def f():\n    {self.text}")[0].body[0]  # type: ignore[attr-defined]

    def visit_For(self, node: ast.For) -> ast.AST:
        return node

    visit_While = visit_FunctionDef = visit_ClassDef = visit_For  # type: ignore[assignment]


def _before_loop(place: Place, loop: ast.stmt, text: str) -> None:
    for block in _blocks(place.scope):
        for index, one in enumerate(block):
            if one is loop:
                block[index:index] = _statements(text)
                return


def loop_body(tree: ast.Module, *, nested: bool = False) -> Files:
    """The body of a loop in a function of its own."""
    place = _training_loop(tree)
    loop = place.node
    assert isinstance(loop, ast.For)
    extract(Place(tree, place.scope, loop.body, 0), len(loop.body), _fresh(tree, "iteration"), nested=nested)
    return _written(tree)


def _step_begins(node: ast.stmt) -> bool:
    return isinstance(node, ast.Expr) and _calls([node], "backward")


def step_helper(tree: ast.Module, *, nested: bool = False) -> Files:
    """Backward pass, step and update in a function."""
    for place in _places(tree, _step_begins):
        rest = place.block[place.index :]
        last = max(
            (index for index, one in enumerate(rest) if _calls([one], "step", "update", "clip_grad_norm_")), default=0
        )
        if last > 0 and last + 1 < len(place.block):
            extract(place, last + 1, _fresh(tree, "apply_gradients"), nested=nested)
            return _written(tree)
    raise Unsuited


def only_step_helper(tree: ast.Module) -> Files:
    """The step, without the backward pass before it, in a function."""
    for place in _places(tree, lambda one: isinstance(one, ast.Expr) and _calls([one], "step")):
        following = place.block[place.index + 1 : place.index + 2]
        count = 2 if following and _calls(following, "update") and isinstance(following[0], ast.Expr) else 1
        if place.index:
            extract(place, count, _fresh(tree, "optimize"))
            return _written(tree)
    raise Unsuited


def backward_helper(tree: ast.Module) -> Files:
    """The backward pass alone in a function."""
    for place in _places(tree, _step_begins):
        extract(place, 1, _fresh(tree, "run_backward"))
        return _written(tree)
    raise Unsuited


def region_helper(tree: ast.Module, *, nested: bool = False) -> Files:
    """An autocast region with what is in it in a function."""
    for place in _places(tree, _is_region):
        extract(place, 1, _fresh(tree, "compute"), nested=nested)
        return _written(tree)
    raise Unsuited


def region_body(tree: ast.Module) -> Files:
    """What is in an autocast region in a function."""
    for place in _places(tree, _is_region):
        region = place.node
        assert isinstance(region, ast.With)
        extract(Place(tree, place.scope, region.body, 0), len(region.body), _fresh(tree, "compute"))
        return _written(tree)
    raise Unsuited


def lambdas(tree: ast.Module) -> Files:
    """Calls that are statements of a loop behind lambdas."""
    place = _training_loop(tree)
    loop = place.node
    assert isinstance(loop, ast.For)
    found = False
    name = _fresh(tree, "act")
    for index, one in reversed([*enumerate(loop.body)]):
        if isinstance(one, ast.Expr) and _calls([one], "step", "backward", "update", "unscale_", "clip_grad_norm_"):
            loop.body[index : index + 1] = _statements(f"{name}{index} = lambda: {_text(one)}\n{name}{index}()")
            found = True
    if not found:
        raise Unsuited
    return _written(tree)


# Objects


def main_function(tree: ast.Module) -> Files:
    """Top-level statements in `main`."""
    kept: Block = []
    moved: Block = []
    used = _read_by_definitions(tree)
    for one in tree.body[_start(tree) :]:
        definition = isinstance(one, (ast.FunctionDef, ast.ClassDef, ast.Import, ast.ImportFrom))
        constant = isinstance(one, ast.Assign) and isinstance(one.value, ast.Constant) and bool(used & _bound([one]))
        if definition or constant:
            kept.append(one)
        elif isinstance(one, ast.If) and _read([one.test]) == {"__name__"}:
            moved += one.body
        else:
            moved.append(one)
    if not moved or _bound(moved) & used or _has(moved, ast.FunctionDef, ast.ClassDef):
        raise Unsuited
    name = _fresh(tree, "main")
    results = sorted(_bound(moved) & RESULTS)
    declared = f"    global {', '.join(results)}\n" if results else ""
    text = f"def {name}():\n{declared}{_text(moved, 4)}\nif __name__ == '__main__':\n    {name}()\n"
    tree.body[_start(tree) :] = [*kept, *_statements(text)]
    return _written(tree)


def _objects(tree: ast.Module) -> tuple[Scope, list[int]]:
    """A scope that trains, with the places of its first assignments of objects to variables, bound once each."""
    for scope in _scopes(tree):
        run: list[int] = []
        for index, one in enumerate(scope.body):
            made = isinstance(one, ast.Assign) and len(one.targets) == 1 and isinstance(one.targets[0], ast.Name)
            if made and isinstance(one.value, ast.Call):  # type: ignore[attr-defined]
                run.append(index)
            elif run and (not made or _has([one], ast.For, ast.With)):
                break
        if run and run[-1] - run[0] >= 1 and _calls(scope.body, "backward", "step", "autocast", "half", "to"):
            return scope, run
    raise Unsuited


def _object_names(tree: ast.Module) -> tuple[Scope, list[int], list[str]]:
    scope, run = _objects(tree)
    names = [scope.body[index].targets[0].id for index in run]  # type: ignore[attr-defined]
    every = [name for name, _ in _binders(scope.body)]
    used = _read_by_definitions(tree) if isinstance(scope, ast.Module) else set()
    names = [name for name in names if every.count(name) == 1 and name not in used and name not in RESULTS]
    if not names or (not isinstance(scope, ast.Module) and set(names) & set(_parameters(scope))):
        raise Unsuited
    return scope, run, names


def built_tuple(tree: ast.Module) -> Files:
    """Objects made in a function that returns a tuple."""
    scope, run = _objects(tree)
    extract(Place(tree, scope, scope.body, run[0]), run[-1] - run[0] + 1, _fresh(tree, "build"))
    return _written(tree)


def built_dict(tree: ast.Module) -> Files:
    """Objects made in a function that returns a dictionary."""
    scope, run, names = _object_names(tree)
    builder = _fresh(tree, "build")
    returned = extract(Place(tree, scope, scope.body, run[0]), run[-1] - run[0] + 1, builder)
    if set(returned) - set(names):
        raise Unsuited
    function = next(one for one in tree.body if isinstance(one, ast.FunctionDef) and one.name == builder)
    function.body[-1] = _statements(f"def f():\n    return dict({', '.join(f'{n}={n}' for n in returned)})")[0].body[0]  # type: ignore[attr-defined]
    at = next(index for index, one in enumerate(scope.body) if isinstance(one, ast.Assign) and _calls([one], builder))
    parts = _fresh(tree, "parts")
    call = scope.body[at].value  # type: ignore[attr-defined]
    rest = _replaced(scope.body[at + 1 :], {name: f"{parts}['{name}']" for name in returned})
    scope.body[at:] = [*_statements(f"{parts} = {_text(call)}"), *rest]
    return _written(tree)


def in_dict(tree: ast.Module) -> Files:
    """Objects kept in a dictionary."""
    return _held(tree, "state = {}", lambda name: f"state['{name}']")


def in_namespace(tree: ast.Module) -> Files:
    """Objects kept in attributes of a namespace."""
    _import(tree, "import types")
    return _held(tree, "state = types.SimpleNamespace()", lambda name: f"state.{name}")


def _held(tree: ast.Module, made: str, written: Callable[[str], str]) -> Files:
    scope, run, names = _object_names(tree)
    holder = _fresh(tree, "state")
    new = {name: written(name).replace("state", holder, 1) for name in names}
    scope.body[run[0] :] = [*_statements(made.replace("state", holder, 1)), *_replaced(scope.body[run[0] :], new)]
    return _written(tree)


def in_dataclass(tree: ast.Module) -> Files:
    """Objects kept in a dataclass."""
    scope, run, names = _object_names(tree)
    parts, kind = _fresh(tree, "parts"), _fresh(tree, "Parts")
    rest = _replaced(scope.body[run[-1] + 1 :], {name: f"{parts}.{name}" for name in names})
    made = f"{parts} = {kind}({', '.join(f'{name}={name}' for name in names)})"
    scope.body[run[-1] + 1 :] = [*_statements(made), *rest]
    fields = "".join(f"    {name}: object\n" for name in names)
    _insert_top(tree, scope.body[run[-1] + 1], f"@dataclasses.dataclass\nclass {kind}:\n{fields}")
    _import(tree, "import dataclasses")
    return _written(tree)


@dataclass(frozen=True)
class _Training:
    """A scope whose statements are before a loop that trains, the loop, and behind it."""

    place: Place
    before: Block
    loop: ast.stmt
    after: Block
    held: set[str]
    taken: list[str]


def _training(tree: ast.Module) -> _Training:
    """A scope with a loop that trains, and which variables its rounds share."""
    for place in _places(tree, _trains):
        scope, inner = place.scope, place.node
        assert isinstance(inner, ast.For)
        in_class = any(isinstance(node, ast.ClassDef) and scope in node.body for node in ast.walk(tree))
        if in_class or (not isinstance(scope, ast.Module) and (scope.args.vararg or scope.args.kwarg)):
            continue
        at = next(i for i, one in enumerate(scope.body) if any(node is inner for node in ast.walk(one)))
        before, loop, after = scope.body[_start(scope) : at], scope.body[at], scope.body[at + 1 :]
        top = isinstance(scope, ast.Module)
        if top:
            kinds = (ast.FunctionDef, ast.ClassDef, ast.Import, ast.ImportFrom)
            before = [one for one in before if not isinstance(one, kinds)]
        if _has([*before, loop], ast.Return, ast.Yield, ast.Global, ast.Nonlocal, ast.FunctionDef, ast.ClassDef):
            continue
        if any(isinstance(one, ast.Break) for one in _jumps(inner.body)) or not isinstance(loop, (ast.For, ast.If)):
            continue
        if top and (_bound([*before, loop]) & _read_by_definitions(tree) or isinstance(loop, ast.If)):
            continue
        own = {*_bound([inner.target]), *_bound(inner.body)}
        inside = {id(node) for node in [*ast.walk(inner)]}
        elsewhere = {n.id for n in ast.walk(scope) if isinstance(n, ast.Name) and id(n) not in inside}
        local = {
            name
            for name in own
            if name not in elsewhere
            and (name in _bound([inner.target]) or not _read_first(inner.body, name))
            and (name in _bound([inner.target]) or name in _straight(inner.body))
        }
        if _bound([inner.target]) - local:
            continue
        held = (_variables(scope) - local) if not top else _bound([*before, loop]) - local
        return _Training(place, before, loop, after, held - RESULTS, [] if top else _parameters(scope))
    raise Unsuited


def trainer(tree: ast.Module, *, base: bool = False, hooks: bool = False) -> Files:
    """A class whose attributes are the variables, and whose methods are the loop and its body."""
    found = _training(tree)
    scope, inner = found.place.scope, found.place.node
    assert isinstance(inner, ast.For)
    if RESULTS & _bound([*found.before, found.loop]):
        raise Unsuited
    kind, name = _fresh(tree, "Trainer"), _fresh(tree, "trainer")
    attributes = {one: f"self.{one}" for one in found.held}
    passed = ", ".join(sorted(_bound([inner.target])))
    step = [_Continue("return").visit(one) for one in _replaced(inner.body, attributes)]
    call = f"self.train_step({passed})"
    if hooks:
        call = f"for hook in self.hooks:\n    hook({passed})"
    inner.body[:] = _statements(call)
    taken = "".join(f", {one}" for one in found.taken)
    setup = "".join(f"        self.{one} = {one}\n" for one in found.taken)
    setup += _text(_replaced(found.before, attributes), 8) + "\n" if found.before else ""
    setup += "        self.hooks = [self.train_step]\n" if hooks else ""
    loop = f"    def train(self):\n{_text(_replaced([found.loop], attributes), 8)}\n"
    text = (
        f"class {kind}Base:\n{loop}\n    def train_step(self, *batch):\n        raise NotImplementedError\n"
        if base
        else ""
    )
    text += (
        f"class {kind}{f'({kind}Base)' if base else ''}:\n    def __init__(self{taken}):\n{setup or '        pass'}\n"
    )
    text += "" if base else loop
    text += f"    def train_step(self{', ' if passed else ''}{passed}):\n{_text(step, 8)}\n"
    use = f"{name} = {kind}({', '.join(found.taken)})\n{name}.train()\n"
    after = _replaced(found.after, {one: f"{name}.{one}" for one in found.held})
    if isinstance(scope, ast.Module):
        kept = [
            one for one in tree.body if one not in found.before and one is not found.loop and one not in found.after
        ]
        tree.body[:] = [*kept, *_statements(text + use), *after]
    else:
        _insert_top(tree, scope, text)
        scope.body[_start(scope) :] = [*_statements(use), *after]
    return _written(tree)


# Constants


def _keywords(tree: ast.Module) -> list[ast.keyword]:
    """Arguments by keyword that are numbers, of calls outside class bodies and defaults."""
    found = []
    for scope in _scopes(tree):
        for node in _inside(scope.body):
            if isinstance(node, ast.Call) and not _calls([node], "add_argument", "parse_args"):
                found += [one for one in node.keywords if one.arg and _is_number(one.value)]
    return found


def _is_number(node: ast.expr) -> bool:
    """Whether this is a number; what is switched by a setting is meant to be switched, so that no switch is one."""
    return isinstance(node, ast.Constant) and type(node.value) in (int, float)


def _constants(tree: ast.Module) -> dict[str, ast.expr]:
    """Global variables that are bound once, to a number."""
    every = [name for name, _ in _binders(tree.body)]
    globals_ = {name for node in ast.walk(tree) if isinstance(node, ast.Global) for name in node.names}
    return {
        one.targets[0].id: one.value
        for one in tree.body
        if isinstance(one, ast.Assign)
        and isinstance(one.targets[0], ast.Name)
        and _is_number(one.value)
        and every.count(one.targets[0].id) == 1
        and one.targets[0].id not in RESULTS | globals_
    }


def settings(tree: ast.Module, style: str) -> Files:
    """Numbers as settings of a program."""
    holder = _fresh(tree, "settings")
    values: dict[str, str] = {}
    written = {}
    access = (lambda name: f"{holder}['{name}']") if style == "dict" else (lambda name: f"{holder}.{name}")
    for name, constant in _constants(tree).items():
        values[name.lower()] = _text(constant)
        written[name] = access(name.lower())
    for keyword in _keywords(tree):
        assert isinstance(keyword.value, ast.Constant)
        name = keyword.arg or ""
        text = _text(keyword.value)
        if values.get(name, text) == text:
            values[name] = text
            keyword.value = _expression(access(name))
    if not values:
        raise Unsuited
    start = _start(tree)
    rest = [one for one in tree.body[start:] if not (isinstance(one, ast.Assign) and _bound([one]) & written.keys())]
    tree.body[start:] = [*_statements(_settings(style, holder, values)), *_replaced(rest, written)]
    _import(tree, {"argparse": "import argparse", "dataclass": "import dataclasses"}.get(style, "import types"))
    return _written(tree)


def _settings(style: str, holder: str, values: dict[str, str]) -> str:
    """The statements that make the settings."""
    if style == "dict":
        return f"{holder} = {{{', '.join(f'{name!r}: {value}' for name, value in values.items())}}}"
    if style == "namespace":
        return f"{holder} = types.SimpleNamespace({', '.join(f'{name}={value}' for name, value in values.items())})"
    if style == "dataclass":
        fields = "".join(f"    {name}: float = {value}\n" for name, value in values.items())
        return f"@dataclasses.dataclass\nclass Settings_:\n{fields}\n{holder} = Settings_()"
    rows = ""
    for name, value in values.items():
        kind = "int" if value.isdigit() else "float"
        rows += f"    parser.add_argument('--{name}', default={value}, type={kind})\n"
    return (
        f"def parse_settings_():\n    parser = argparse.ArgumentParser()\n{rows}    return parser.parse_args([])\n"
        f"{holder} = parse_settings_()"
    )


def _halves(tree: ast.Module) -> list[ast.Attribute]:
    """Where half dtypes are written out, outside classes and defaults."""
    return [
        node
        for node in ast.walk(tree)
        if isinstance(node, ast.Attribute) and _dotted(node) in ("torch.float16", "torch.bfloat16")
    ]


def dtypes(tree: ast.Module, style: str) -> Files:
    """Half dtypes that come out of a variable, a table or `getattr`."""
    found = {_dotted(node): node.attr for node in _halves(tree)}
    if not found or "torch" not in _definitions(tree.body):
        raise Unsuited
    name = _fresh(tree, "dtypes")
    forms = {
        "variable": {dotted: f"{name}_{last}" for dotted, last in found.items()},
        "table": {dotted: f"{name}['{last}']" for dotted, last in found.items()},
        "getattr": {dotted: f"getattr(torch, '{last}')" for dotted, last in found.items()},
    }[style]
    for node in _halves(tree):
        new = _expression(forms[_dotted(node)])
        _substitute(tree, node, new)
    made = ""
    if style == "variable":
        made = "\n".join(f"{name}_{last} = {dotted}" for dotted, last in found.items())
    elif style == "table":
        entries = ", ".join(f"{last!r}: {dotted}" for dotted, last in {**found, "torch.float32": "float32"}.items())
        made = f"{name} = {{{entries}}}"
    _import(tree, made)
    return _written(tree)


def _substitute(tree: ast.AST, old: ast.AST, new: ast.AST) -> None:
    """Put a node in the place of another."""
    for node in ast.walk(tree):
        for field, value in ast.iter_fields(node):
            if value is old:
                setattr(node, field, new)
                return
            if isinstance(value, list) and any(one is old for one in value):
                value[[one is old for one in value].index(True)] = new
                return


# Models and optimizers that are chosen


def chosen(tree: ast.Module, style: str, wanted: Callable[[ast.Module, ast.Call], bool]) -> Files:
    """Classes found in a registry, by `getattr` or by a factory."""
    table, maker = _fresh(tree, "REGISTRY"), _fresh(tree, "make")
    names: dict[str, str] = {}
    first = None
    calls = [
        node.value
        for scope in _scopes(tree)
        for node in _inside(scope.body)
        if isinstance(node, ast.Assign) and isinstance(node.value, ast.Call) and wanted(tree, node.value)
    ]
    for call in calls:
        dotted = _dotted(call.func)
        key = call.func.attr.lower() if isinstance(call.func, ast.Attribute) else dotted.lower()
        if style == "getattr":
            left, _, last = dotted.rpartition(".")
            if not left:
                continue
            call.func = _expression(f"getattr({left}, '{last}')")
        elif style == "registry":
            call.func = _expression(f"{table}['{key}']")
        else:
            call.args.insert(0, ast.Constant(key))
            call.func = _expression(maker)
        names[key] = dotted
        first = first or call
    if first is None:
        raise Unsuited
    if style == "registry":
        made = f"{table} = {{{', '.join(f'{key!r}: {dotted}' for key, dotted in names.items())}}}"
    else:
        branches = "".join(f"    if kind == '{k}':\n        return {d}(*args, **kwargs)\n" for k, d in names.items())
        made = f"def {maker}(kind, *args, **kwargs):\n{branches}    raise ValueError(kind)\n"
    if style != "getattr":
        classes = [i for i, one in enumerate(tree.body) if isinstance(one, ast.ClassDef) and one.name in names.values()]
        at = max([*(index + 1 for index in classes), _start(tree)])
        tree.body[at:at] = _statements(made)
    return _written(tree)


def _is_model(tree: ast.Module, call: ast.Call) -> bool:
    """Whether a call makes a module of `torch.nn` or of the program itself."""
    classes = {one.name for one in tree.body if isinstance(one, ast.ClassDef) and one.bases}
    dotted = _dotted(call.func)
    layer = dotted.startswith(("nn.", "torch.nn.")) and dotted.rpartition(".")[2][:1].isupper()
    return dotted in classes or (layer and not dotted.endswith(("Loss", "Parameter")))


def _is_optimizer(tree: ast.Module, call: ast.Call) -> bool:
    return _last(call.func) in OPTIMIZERS and bool(_dotted(call.func))


def _is_scaler(tree: ast.Module, call: ast.Call) -> bool:
    return _last(call.func) == "GradScaler" and bool(_dotted(call.func))


def any_made(tree: ast.Module, call: ast.Call) -> bool:
    """Whether a call makes a model, an optimizer or a scaler."""
    return _is_model(tree, call) or _is_optimizer(tree, call) or _is_scaler(tree, call)


# Regions


def region(tree: ast.Module, style: str) -> Files:
    """Autocast regions that are entered in another way."""
    places = [(place.block, place.node) for place in _places(tree, _is_region)]
    if not places:
        raise Unsuited
    imported = {
        "contextmanager": "contextlib",
        "nullcontext": "contextlib",
        "partial": "functools",
        "stack": "contextlib",
    }
    for block, node in places:
        assert isinstance(node, ast.With)
        item = next(one for one in node.items if _autocast(one.context_expr))
        call = item.context_expr
        assert isinstance(call, ast.Call)
        name, text = _fresh(tree, "region"), _text(call)
        at = next(index for index, one in enumerate(block) if one is node)
        made = ""
        if item is not node.items[0] and style != "partial":
            raise Unsuited
        if style == "variable":
            made, item.context_expr = f"{name} = {text}", _expression(name)
        elif style == "function":
            made, item.context_expr = f"def {name}():\n    return {text}", _expression(f"{name}()")
        elif style == "contextmanager":
            made = f"@contextlib.contextmanager\ndef {name}():\n    with {text}:\n        yield"
            item.context_expr = _expression(f"{name}()")
        elif style == "nullcontext":
            item.context_expr = _expression(f"{text} if use_amp_ else contextlib.nullcontext()")
        elif style == "partial":
            passed = ", ".join([_text(call.func), *map(_argument, [*call.args, *call.keywords])])
            made = f"{name} = functools.partial({passed})"
            item.context_expr = _expression(f"{name}()")
        else:
            item.context_expr = _expression("contextlib.ExitStack()")
            item.optional_vars = ast.Name(name, ast.Store())
            node.body[:0] = _statements(f"{name}.enter_context({text})")
        block[at:at] = _statements(made)
    if style == "nullcontext":
        _import(tree, "use_amp_ = True")
    if style in imported:
        _import(tree, f"import {imported[style]}")
    return _written(tree)


def _argument(node: ast.AST) -> str:
    if isinstance(node, ast.keyword):
        return f"{node.arg}={_text(node.value)}" if node.arg else f"**{_text(node.value)}"
    return _text(node)


def region_method(tree: ast.Module) -> Files:
    """Autocast regions that a method of the class makes."""
    for place in _places(tree, _is_region):
        kind = next((n for n in ast.walk(tree) if isinstance(n, ast.ClassDef) and place.scope in n.body), None)
        node = place.node
        assert isinstance(node, ast.With)
        call = node.items[0].context_expr
        if kind is None or not _autocast(call) or _read([call]) & _variables(place.scope) - {"self"}:
            continue
        if "self" not in _variables(place.scope):
            continue
        kind.body += _statements(f"def region(self):\n    return {_text(call)}")
        node.items[0].context_expr = _expression("self.region()")
        return _written(tree)
    raise Unsuited


# Imports


def _imports_torch(tree: ast.Module) -> None:
    """Raise `Unsuited` unless `torch` is the library, by that name alone."""
    aliases = [alias for one in tree.body if isinstance(one, ast.Import) for alias in one.names]
    plain = any(alias.name == "torch" and not alias.asname for alias in aliases)
    if not plain or any(alias.asname for alias in aliases if alias.name == "torch") or "torch" in _stored(tree):
        raise Unsuited


def import_alias(tree: ast.Module) -> Files:
    """The library by another name."""
    _imports_torch(tree)
    for node in ast.walk(tree):
        if isinstance(node, ast.Name) and node.id == "torch":
            node.id = "th"
        elif isinstance(node, ast.Import):
            if any(alias.name.startswith("torch.") and not alias.asname for alias in node.names):
                raise Unsuited
            node.names = [ast.alias(one.name, "th") if one.name == "torch" else one for one in node.names]
    return _written(tree)


def import_modules(tree: ast.Module, names: dict[str, str]) -> Files:
    """Modules of the library by names of their own; `names` are these, by what is written for them."""
    _imports_torch(tree)
    added = set()
    taken = _stored(tree) | {node.arg for node in ast.walk(tree) if isinstance(node, ast.arg)}
    for node in ast.walk(tree):
        left = _dotted(node.value) if isinstance(node, ast.Attribute) else ""
        short = names.get(left)
        if short and short not in taken:
            assert isinstance(node, ast.Attribute)
            added.add(_from(left, short))
            node.value = ast.Name(short, ast.Load())
    return _with_imports(tree, added)


def import_names(tree: ast.Module) -> Files:
    """Classes of the library, and `autocast`, by their names."""
    _imports_torch(tree)
    added = set()
    taken = _every_name(tree)
    for node in [*ast.walk(tree)]:
        left = _dotted(node.value) if isinstance(node, ast.Attribute) else ""
        if left not in ("torch", "torch.optim", "torch.amp", "torch.cuda.amp", "nn", "torch.nn"):
            continue
        assert isinstance(node, ast.Attribute)
        wanted = node.attr == "autocast" or (node.attr[:1].isupper() and left != "torch")
        if wanted and node.attr not in taken:
            added.add(_from(f"{left}.{node.attr}", node.attr))
            _substitute(tree, node, ast.Name(node.attr, ast.Load()))
    return _with_imports(tree, added)


def _from(dotted: str, name: str) -> str:
    """The import of a part of the library by a name."""
    full = dotted if dotted.startswith("torch") else f"torch.{dotted}"
    parent, _, last = full.rpartition(".")
    return f"from {parent} import {last}" + (f" as {name}" if name != last else "")


def _with_imports(tree: ast.Module, added: set[str]) -> Files:
    if not added:
        raise Unsuited
    tree.body[_start(tree) : _start(tree)] = _statements("\n".join(sorted(added)))
    return _written(tree)


def guarded_imports(tree: ast.Module) -> Files:
    """The scaler and the region imported where the version of PyTorch has them, and None elsewhere."""
    used = {"torch.amp.GradScaler": "GradScaler", "torch.autocast": "autocast", "torch.amp.autocast": "autocast"}
    found = set()
    for node in [*ast.walk(tree)]:
        if (last := used.get(_dotted(node))) and isinstance(node, ast.Attribute):
            _substitute(tree, node, ast.Name(last, ast.Load()))
            found.add(last)
    if not found or found & _definitions(ast.walk(tree), walked=True) or found & _stored(tree):
        raise Unsuited
    names = sorted(found)
    absent = "".join(f"    {name} = None\n" for name in names)
    _import(tree, f"try:\n    from torch.amp import {', '.join(names)}\nexcept ImportError:\n{absent}")
    return _written(tree)


# Files


def _moved(tree: ast.Module) -> tuple[str, list[str]]:
    """The text of a module with the functions and classes of a program, which are taken out of it, and their names."""
    parts = [one for one in tree.body if isinstance(one, (ast.FunctionDef, ast.ClassDef))]
    if not parts:
        raise Unsuited
    used = _read(parts)
    globals_ = {name for node in ast.walk(tree) if isinstance(node, ast.Global) for name in node.names}
    constants = {name for name, one in _constants(tree).items() if name in used}
    if globals_ or (used & _bound(tree.body)) - constants - _local_names(parts):
        raise Unsuited
    imported = [one for one in tree.body if isinstance(one, (ast.Import, ast.ImportFrom))]
    kept = [one for one in tree.body if isinstance(one, ast.Assign) and _bound([one]) & constants]
    names = [one.name for one in parts]
    tree.body[:] = [one for one in tree.body if one not in parts and one not in kept]
    return _text([*imported, *kept, *parts]) + "\n", [*names, *sorted(constants)]


def _local_names(parts: Sequence[ast.AST]) -> set[str]:
    """Names that are local to every function that reads them."""
    local: set[str] = set()
    for part in parts:
        for node in ast.walk(part):
            if isinstance(node, ast.FunctionDef):
                local |= _variables(node)
            elif isinstance(node, ast.Lambda):
                local |= set(_parameters(node))
            elif isinstance(node, ast.comprehension):
                local |= _bound([node.target])
    return local


def other_file(tree: ast.Module) -> Files:
    """Functions and classes in another file."""
    text, names = _moved(tree)
    _import(tree, f"from parts import {', '.join(names)}")
    return {**_written(tree), "parts.py": text}


def other_module(tree: ast.Module) -> Files:
    """Functions and classes in another file, by the name of the module."""
    text, names = _moved(tree)
    tree.body[:] = _replaced(tree.body, {name: f"parts.{name}" for name in names})
    _import(tree, "import parts")
    return {**_written(tree), "parts.py": text}


def package(tree: ast.Module) -> Files:
    """Functions and classes in a module of a package, imported by its `__init__`."""
    text, names = _moved(tree)
    _import(tree, f"from kit import {', '.join(names)}")
    init = f"from .parts import {', '.join(names)}\n"
    return {**_written(tree), "kit/__init__.py": init, "kit/parts.py": text}


def relative(tree: ast.Module) -> Files:
    """A program in a package, with functions and classes in a module beside it."""
    text, names = _moved(tree)
    _import(tree, f"from .parts import {', '.join(names)}")
    return {"kit/__init__.py": "", "kit/script.py": _written(tree)[SCRIPT], "kit/parts.py": text}


# Loops


def progress_bar(tree: ast.Module) -> Files:
    """A bar around what a loop runs over."""
    place = _training_loop(tree)
    loop = place.node
    assert isinstance(loop, ast.For)
    if isinstance(loop.iter, (ast.Tuple, ast.List)):
        raise Unsuited
    loop.iter = _expression(f"tqdm({_text(loop.iter)})")
    _import(tree, "from tqdm import tqdm")
    return _written(tree)


def enumerated(tree: ast.Module) -> Files:
    """A loop that counts its rounds."""
    place = _training_loop(tree)
    loop = place.node
    assert isinstance(loop, ast.For)
    if isinstance(loop.iter, (ast.Tuple, ast.List)) or _calls([loop.iter], "enumerate", "range", "zip"):
        raise Unsuited
    loop.iter = _expression(f"enumerate({_text(loop.iter)})")
    loop.target = _statements(f"({_fresh(tree, 'round_number')}, ({_text(loop.target)})) = 0, 0")[0].targets[0]  # type: ignore[attr-defined]
    return _written(tree)


def epochs(tree: ast.Module) -> Files:
    """A loop of one round around the loop."""
    place = _training_loop(tree)
    place.block[place.index] = _statements(f"for {_fresh(tree, 'epoch')} in range(1):\n{_text(place.node, 4)}")[0]
    return _written(tree)


def counted_while(tree: ast.Module) -> Files:
    """`while` with `next` for a loop."""
    place = _training_loop(tree)
    loop = place.node
    assert isinstance(loop, ast.For)
    batches = _fresh(tree, "batches")
    text = (
        f"{batches} = iter({_text(loop.iter)})\nwhile True:\n    try:\n        {_text(loop.target)} = next({batches})\n"
    )
    text += f"    except StopIteration:\n        break\n{_text(loop.body, 4)}\n"
    place.block[place.index : place.index + 1] = _statements(text)
    return _written(tree)


def generator(tree: ast.Module) -> Files:
    """A generator that yields what a loop runs over."""
    place = _training_loop(tree)
    loop = place.node
    assert isinstance(loop, ast.For)
    if isinstance(loop.iter, (ast.Tuple, ast.List)):
        raise Unsuited
    name = _fresh(tree, "batches_of")
    loop.iter = _expression(f"{name}({_text(loop.iter)})")
    anchor = place.node if isinstance(place.scope, ast.Module) else place.scope
    _insert_top(tree, anchor, f"def {name}(source):\n    for batch in source:\n        yield batch\n")
    return _written(tree)


def dict_batches(tree: ast.Module) -> Files:
    """Batches that are dictionaries."""
    place = _training_loop(tree)
    loop = place.node
    assert isinstance(loop, ast.For)
    names = sorted(_bound([loop.target]))
    if isinstance(loop.iter, (ast.Tuple, ast.List)) or _bound(loop.body) & set(names) or not names:
        raise Unsuited
    inside = {id(node) for node in ast.walk(loop)}
    if any(isinstance(n, ast.Name) and n.id in names and id(n) not in inside for n in ast.walk(place.scope)):
        raise Unsuited
    batch = _fresh(tree, "batch")
    pairs = ", ".join(f"'{name}': {name}" for name in names)
    text = _text(_replaced(loop.body, {name: f"{batch}['{name}']" for name in names}), 4)
    new = f"for {batch} in ({{{pairs}}} for {_text(loop.target)} in {_text(loop.iter)}):\n{text}"
    place.block[place.index] = _statements(new)[0]
    return _written(tree)


def guarded(tree: ast.Module) -> Files:
    """The body of a loop under a flag that is not known."""
    place = _training_loop(tree)
    loop = place.node
    assert isinstance(loop, ast.For)
    flag = _fresh(tree, "training")
    loop.body[:] = _statements(f"if {flag}:\n{_text(loop.body, 4)}") if not _jumps(loop.body) else _raise()
    _import(tree, f"import os\n{flag} = os.environ.get('TRAINING', '1') == '1'")
    return _written(tree)


def _raise() -> Block:
    raise Unsuited


def walrus(tree: ast.Module) -> Files:
    """A loss that is bound where it is used."""
    for place in _places(tree, _step_begins):
        before = place.block[place.index - 1] if place.index else None
        if isinstance(before, ast.Assign) and isinstance(before.targets[0], ast.Name):
            name = before.targets[0].id
            reads = [n for n in ast.walk(place.node) if isinstance(n, ast.Name) and n.id == name]
            if len(reads) == 1 and not isinstance(place.scope, ast.ClassDef):
                _substitute(place.node, reads[0], _expression(f"({name} := {_text(before.value)})"))
                del place.block[place.index - 1]
                return _written(tree)
    raise Unsuited


# Names and calls


class _Rename(ast.NodeTransformer):
    def __init__(self, names: dict[str, str]) -> None:
        self.names = names

    def visit_Name(self, node: ast.Name) -> ast.AST:
        node.id = self.names.get(node.id, node.id)
        return node

    def visit_arg(self, node: ast.arg) -> ast.AST:
        node.arg = self.names.get(node.arg, node.arg)
        return node


def nondescript(tree: ast.Module) -> Files:
    """Variables and parameters whose names tell nothing."""
    keywords = {one.arg for node in ast.walk(tree) if isinstance(node, ast.Call) for one in node.keywords}
    fixed = {"self", "cls", "__name__"} | RESULTS | keywords | _definitions(ast.walk(tree), walked=True)
    fixed |= {name for node in ast.walk(tree) if isinstance(node, (ast.Global, ast.Nonlocal)) for name in node.names}
    fixed |= {
        node.target.id
        for node in ast.walk(tree)
        if isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name)
    }
    fixed |= {name for node in ast.walk(tree) if isinstance(node, ast.ClassDef) for name in _bound(node.body)}
    fixed |= {node.name for node in ast.walk(tree) if isinstance(node, ast.ExceptHandler) and node.name}
    found = [n.id for n in ast.walk(tree) if isinstance(n, ast.Name) and not _loads(n)]
    found += [n.arg for n in ast.walk(tree) if isinstance(n, ast.arg)]
    names = {name: f"v{index}" for index, name in enumerate(dict.fromkeys(found)) if name not in fixed}
    if not names:
        raise Unsuited
    return _written(_Rename(names).visit(tree))


def wrapped(tree: ast.Module) -> Files:
    """A decorator around functions and methods that only passes on."""
    name = _fresh(tree, "logged")
    methods = [part for one in tree.body if isinstance(one, ast.ClassDef) for part in one.body]
    found = [
        one
        for one in [*tree.body, *methods]
        if isinstance(one, ast.FunctionDef) and not one.decorator_list and not one.name.startswith("__")
    ]
    if not found:
        raise Unsuited
    for one in found:
        one.decorator_list = [ast.Name(name, ast.Load())]
    text = f"""import functools
def {name}(function):
    @functools.wraps(function)
    def wrapper(*args, **kwargs):
        return function(*args, **kwargs)
    return wrapper
"""
    at = _start(tree)
    tree.body[at:at] = _statements(text)
    return _written(tree)


def by_keyword(tree: ast.Module) -> Files:
    """Arguments by keyword in calls of the program's functions and of PyTorch's protocol."""
    known = {"scaler.step": ["optimizer"], "scaler.unscale_": ["optimizer"], "scaler.scale": ["outputs"]}
    functions = {
        one.name: _parameters(one) for one in tree.body if isinstance(one, ast.FunctionDef) and not one.args.vararg
    }
    changed = False
    for node in ast.walk(tree):
        if not isinstance(node, ast.Call) or any(isinstance(one, ast.Starred) for one in node.args) or not node.args:
            continue
        dotted = _dotted(node.func)
        names = functions.get(dotted) or next((known[one] for one in known if dotted.endswith(one)), None)
        if _last(node.func) == "autocast" or dotted.endswith("amp.GradScaler"):
            cuda = "cuda" in dotted
            names = None if cuda else ["device_type" if _last(node.func) == "autocast" else "device"]
        if names is None or len(names) < len(node.args):
            continue
        node.keywords[:0] = [ast.keyword(name, one) for name, one in zip(names, node.args, strict=False)]
        node.args = []
        changed = True
    if not changed:
        raise Unsuited
    return _written(tree)


def forwarded(tree: ast.Module) -> Files:
    """Objects made by a function that passes on all arguments to a class."""
    name = _fresh(tree, "instantiate")
    calls = [
        node.value
        for scope in _scopes(tree)
        for node in _inside(scope.body)
        if isinstance(node, ast.Assign) and isinstance(node.value, ast.Call) and any_made(tree, node.value)
    ]
    if not calls:
        raise Unsuited
    for call in calls:
        call.args.insert(0, call.func)
        call.func = _expression(name)
    at = _start(tree)
    tree.body[at:at] = _statements(f"def {name}(kind, *args, **kwargs):\n    return kind(*args, **kwargs)\n")
    return _written(tree)


def unpacked(tree: ast.Module) -> Files:
    """Keywords of a call out of a dictionary."""
    changed = 0
    assigned = [(place.block, place.node) for place in _places(tree, lambda one: isinstance(one, ast.Assign))]
    for block, node in assigned:
        call = node.value  # type: ignore[attr-defined]
        if isinstance(call, ast.Call) and call.keywords and all(one.arg for one in call.keywords):
            name = _fresh(tree, f"options{changed}")
            text = f"{name} = dict({', '.join(map(_argument, call.keywords))})"
            call.keywords = [ast.keyword(None, ast.Name(name, ast.Load()))]
            at = next(index for index, one in enumerate(block) if one is node)
            block[at:at] = _statements(text)
            changed += 1
    if not changed:
        raise Unsuited
    return _written(tree)


def composed(
    first: Callable[[ast.Module], Files], second: Callable[[ast.Module], Files]
) -> Callable[[ast.Module], Files]:
    """One refactoring after another."""
    return lambda tree: second(ast.parse(first(tree)[SCRIPT]))


REFACTORINGS: dict[str, Callable[[ast.Module], Files]] = {
    "unparsed": _written,
    "main": main_function,
    "argparse": partial(settings, style="argparse"),
    "settings-dict": partial(settings, style="dict"),
    "settings-dataclass": partial(settings, style="dataclass"),
    "settings-namespace": partial(settings, style="namespace"),
    "dtype-variable": partial(dtypes, style="variable"),
    "dtype-table": partial(dtypes, style="table"),
    "dtype-getattr": partial(dtypes, style="getattr"),
    "build-tuple": built_tuple,
    "build-dict": built_dict,
    "objects-in-dict": in_dict,
    "objects-in-namespace": in_namespace,
    "objects-in-dataclass": in_dataclass,
    "trainer": trainer,
    "trainer-base": partial(trainer, base=True),
    "trainer-hooks": partial(trainer, hooks=True),
    "loop-body": loop_body,
    "loop-body-closure": partial(loop_body, nested=True),
    "step-helper": step_helper,
    "step-closure": partial(step_helper, nested=True),
    "only-step-helper": only_step_helper,
    "backward-helper": backward_helper,
    "region-helper": region_helper,
    "region-closure": partial(region_helper, nested=True),
    "region-body": region_body,
    "lambdas": lambdas,
    "other-file": other_file,
    "other-module": other_module,
    "package": package,
    "relative": relative,
    "trainer-other-file": composed(trainer, other_file),
    "trainer-base-package": composed(partial(trainer, base=True), package),
    "loop-body-other-file": composed(loop_body, other_file),
    "step-other-file": composed(step_helper, other_file),
    "region-other-file": composed(region_helper, other_file),
    "build-other-file": composed(built_tuple, other_file),
    "main-build-dict": composed(main_function, built_dict),
    "main-loop-body": composed(main_function, loop_body),
    "main-trainer": composed(main_function, trainer),
    "model-registry": partial(chosen, style="registry", wanted=_is_model),
    "model-getattr": partial(chosen, style="getattr", wanted=_is_model),
    "model-factory": partial(chosen, style="factory", wanted=_is_model),
    "optimizer-registry": partial(chosen, style="registry", wanted=_is_optimizer),
    "optimizer-getattr": partial(chosen, style="getattr", wanted=_is_optimizer),
    "optimizer-factory": partial(chosen, style="factory", wanted=_is_optimizer),
    "region-variable": partial(region, style="variable"),
    "region-function": partial(region, style="function"),
    "region-contextmanager": partial(region, style="contextmanager"),
    "region-nullcontext": partial(region, style="nullcontext"),
    "region-partial": partial(region, style="partial"),
    "region-stack": partial(region, style="stack"),
    "region-method": region_method,
    "import-alias": import_alias,
    "import-modules": partial(import_modules, names=MODULES),
    "import-short": partial(import_modules, names=SHORT),
    "import-names": import_names,
    "import-guarded": guarded_imports,
    "nondescript-names": nondescript,
    "progress-bar": progress_bar,
    "enumerate": enumerated,
    "epochs": epochs,
    "while-next": counted_while,
    "generator": generator,
    "dict-batches": dict_batches,
    "unknown-flag": guarded,
    "walrus": walrus,
    "decorator": wrapped,
    "by-keyword": by_keyword,
    "forwarded-arguments": forwarded,
    "unpacked-keywords": unpacked,
}
