"""Other ways to write a program. Each changes a `Marked` in place, and says whether there was something to change."""

from __future__ import annotations

import ast
import copy
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from tests.variations.marked import Marked
from tests.variations.names import BUILTINS, Rename, attribute, bound, parameters, read, several

Transform = Callable[[Marked], bool]
TRANSFORMS: dict[str, Transform] = {}


def transform(function: Transform) -> Transform:
    """Keep a transform by its name."""
    TRANSFORMS[function.__name__] = function
    return function


def parse(text: str) -> list[ast.stmt]:
    """The statements of `text`."""
    return ast.parse(text).body


def expression(text: str) -> ast.expr:
    """The expression `text`."""
    return ast.parse(text, mode="eval").body


def called(node: ast.AST) -> str:
    """The last name of what a call calls, empty for other nodes."""
    if not isinstance(node, ast.Call):
        return ""
    return node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")


@dataclass
class Scope:
    """A body of statements that runs with names of its own: the module's, or that of a function."""

    owner: ast.Module | ast.FunctionDef

    @property
    def body(self) -> list[ast.stmt]:
        """Its statements."""
        return self.owner.body

    @property
    def names(self) -> list[str]:
        """Variables: what it binds, without functions, classes and imports."""
        definitions = {*bound(node for node in self.body if is_definition(node))}
        given = parameters(self.owner) if isinstance(self.owner, ast.FunctionDef) else []
        return [name for name in dict.fromkeys((*given, *bound(self.body))) if name not in definitions]


def is_definition(node: ast.AST) -> bool:
    """Whether a statement is an import, a function or a class, or names the main function's condition."""
    return isinstance(node, ast.Import | ast.ImportFrom | ast.FunctionDef | ast.ClassDef)


def bodies(tree: ast.AST) -> Iterator[list[ast.stmt]]:
    """Every list of statements."""
    for node in ast.walk(tree):
        for name in ("body", "orelse", "finalbody"):
            block = getattr(node, name, None)
            if isinstance(block, list) and block and isinstance(block[0], ast.stmt):
                yield block


def scopes(tree: ast.Module) -> Iterator[Scope]:
    """The module and its functions that are no methods and nested in none."""
    yield Scope(tree)
    for node in tree.body:
        if isinstance(node, ast.FunctionDef) and not node.args.vararg and not node.args.kwarg:
            yield Scope(node)


def within(node: ast.AST, kind: type) -> bool:
    """Whether there is a node of this kind in `node`, outside of nested functions."""
    return any(isinstance(one, kind) for one in walk_own(node))


def walk_own(node: ast.AST) -> Iterator[ast.AST]:
    """The nodes of `node` that run with it, without bodies of functions."""
    yield node
    for child in ast.iter_child_nodes(node):
        if not isinstance(child, ast.FunctionDef | ast.Lambda):
            yield from walk_own(child)


def main_loop(program: Marked) -> tuple[Scope, int] | None:
    """The scope and the place in it of the first loop in which something is marked, or `backward` is called."""
    for scope in scopes(program.tree):
        for index, node in enumerate(scope.body):
            if isinstance(node, ast.For) and not node.orelse:
                inside = {*ast.walk(node)}
                if inside & program.expected.keys() or any(called(one) == "backward" for one in inside):
                    return scope, index
    return None


def innermost(loop: ast.For) -> ast.For:
    """The loop that is the last statement of this one's body, over and over, as batches are of epochs."""
    nested = [node for node in loop.body if isinstance(node, ast.For) and not node.orelse]
    trains = [node for node in nested if any(called(one) == "backward" for one in ast.walk(node))]
    return innermost(trains[0]) if len(trains) == 1 else loop


def extracted(
    statements: list[ast.stmt],
    scope: Scope,
    name: str,
    *,
    before: set[str],
    loop: bool,
    hidden: frozenset[str] = frozenset(),
) -> tuple[ast.FunctionDef, ast.stmt] | None:
    """`statements` as a function, and the call in their place; None where they leave otherwise than at their end.

    `before` are names that are bound when they start, `hidden` names that the function has by itself. In a `loop`'s
    body `continue` becomes `return`.
    """
    for node in statements:
        if any(
            isinstance(one, ast.Return | ast.Yield | ast.YieldFrom | ast.Nonlocal | ast.Global)
            for one in walk_own(node)
        ):
            return None
    if not loop and any(leaves(node) for node in statements):
        return None
    if loop and any(leaves(node, ast.Break) for node in statements):
        return None
    stored = bound(statements)
    outside = set()
    inside = {one for node in statements for one in ast.walk(node)}
    for node in ast.walk(scope.owner):
        if node not in inside and isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load):
            outside.add(node.id)
    returned = [one for one in stored if (one in outside or (one in read(statements) and one in before and loop))]
    returned = [one for one in returned if one not in hidden]
    taken = [
        one
        for one in scope.names
        if one in before and one not in hidden and (one in read(statements) or (one in returned))
    ]
    answer = several(returned, ast.Load()) if returned else None
    body = [*statements]
    if loop:
        body = [Returning(answer).visit(node) for node in body]
    if answer is not None:
        body = [*body, ast.Return(copy.deepcopy(answer))]
    arguments = ast.arguments([], [ast.arg(one) for one in taken], None, [], [], None, [])
    function = ast.FunctionDef(name, arguments, body, [], None)
    function.type_params = []
    call = ast.Call(ast.Name(name, ast.Load()), [ast.Name(one, ast.Load()) for one in taken], [])
    statement: ast.stmt = ast.Assign([several(returned, ast.Store())], call) if returned else ast.Expr(call)
    return function, ast.fix_missing_locations(statement)


def leaves(node: ast.stmt, *kinds: type) -> bool:
    """Whether a statement breaks out of, or goes on with, a loop around it."""
    kinds = kinds or (ast.Break, ast.Continue)
    if isinstance(node, kinds):
        return True
    if isinstance(node, ast.For | ast.While | ast.FunctionDef | ast.ClassDef):
        return False
    return any(
        leaves(child, *kinds) for child in ast.iter_child_nodes(node) if isinstance(child, ast.stmt | ast.excepthandler)
    )


class Returning(ast.NodeTransformer):
    """`return answer` in place of the `continue` of the loop whose body this is."""

    def __init__(self, answer: ast.expr | None) -> None:
        self.answer = answer

    def visit_Continue(self, node: ast.Continue) -> ast.Return:
        """The end of the function."""
        return ast.Return(copy.deepcopy(self.answer))

    def _keep(self, node: ast.AST) -> ast.AST:
        return node

    visit_For = visit_While = visit_FunctionDef = _keep


def bound_before(scope: Scope, index: int) -> set[str]:
    """Names that are bound when the statement at `index` starts."""
    given = parameters(scope.owner) if isinstance(scope.owner, ast.FunctionDef) else []
    return {*given, *bound(scope.body[:index])}


def insert_function(program: Marked, scope: Scope, function: ast.FunctionDef, index: int) -> None:
    """Put a function where it can be called at `index` of the scope: before it, at the top level."""
    tree = program.tree
    at = index if scope.owner is tree else tree.body.index(scope.owner)
    tree.body.insert(at, function)


# Names and imports


@transform
def torch_alias(program: Marked) -> bool:
    """`import torch as th`, and `nn` by its whole name."""
    changed = False
    for node in ast.walk(program.tree):
        if isinstance(node, ast.Import):
            for alias in node.names:
                if alias.name == "torch" and alias.asname is None:
                    alias.asname = "th"
                    changed = True
        elif isinstance(node, ast.Name) and node.id == "torch":
            node.id = "th"
    return changed


@transform
def from_imports(program: Marked) -> bool:
    """`from torch.amp import GradScaler`: what is used of torch by dots is imported by name."""
    wanted: dict[str, tuple[str, str]] = {}
    taken = {node.id for node in ast.walk(program.tree) if isinstance(node, ast.Name)}

    class Short(ast.NodeTransformer):
        def visit_Attribute(self, node: ast.Attribute) -> ast.expr:
            whole = ast.unparse(node)
            module, _, name = whole.rpartition(".")
            modules = {"torch", "torch.amp", "torch.cuda.amp", "torch.optim", "torch.nn.functional", "torch.nn.utils"}
            modules |= {"torch.utils.checkpoint", "torch.nn"}
            packages = {"nn", "amp", "optim", "cuda", "utils", "functional", "cpu"}
            if module in modules and name not in packages | taken | BUILTINS:
                wanted[name] = (module, name)
                return ast.Name(name, node.ctx)
            self.generic_visit(node)
            return node

    if any(
        isinstance(node, ast.Name) and node.id == "torch" and isinstance(node.ctx, ast.Store)
        for node in ast.walk(program.tree)
    ):
        return False
    Short().visit(program.tree)
    for module, name in wanted.values():
        program.tree.body[:0] = parse(f"from {module} import {name}")
    return bool(wanted)


RENAMES = {
    "scaler": "loss_scaler", "optimizer": "optim_main", "model": "net", "loss": "total", "inputs": "images",
    "targets": "labels", "loader": "train_data", "batches": "dataset", "criterion": "objective", "outputs": "preds",
    "logits": "raw", "x": "hidden", "net": "backbone", "scheduler": "lr_policy", "mask": "keep", "scores": "affinity",
    "grad_scaler": "precision", "opt": "o", "losses": "history", "predictions": "y_hat", "features": "feats",
    "output": "res",
}  # fmt: skip


@transform
def renamed(program: Marked) -> bool:
    """Other names for variables, parameters and attributes."""
    used = {node.id for node in ast.walk(program.tree) if isinstance(node, ast.Name)}
    keywords = {node.arg for node in ast.walk(program.tree) if isinstance(node, ast.keyword)}
    names = {old: new for old, new in RENAMES.items() if new not in used and old not in keywords}
    changed = False
    for node in ast.walk(program.tree):
        if isinstance(node, ast.Name) and node.id in names:
            node.id = names[node.id]
            changed = True
        elif isinstance(node, ast.arg) and node.arg in names:
            node.arg = names[node.arg]
        elif isinstance(node, ast.Attribute) and node.attr in names and getattr(node.value, "id", "") == "self":
            node.attr = names[node.attr]
            changed = True
        elif isinstance(node, ast.ExceptHandler) and node.name in names:
            return False
    return changed


@transform
def by_keyword(program: Marked) -> bool:
    """Arguments by keyword: `scaler.step(optimizer=optimizer)`."""
    known = {
        "unscale_": ["optimizer"], "step": ["optimizer"], "scale": ["outputs"],
        "clip_grad_norm_": ["parameters", "max_norm"], "clip_grad_value_": ["parameters", "clip_value"],
        "masked_fill": ["mask", "value"], "autocast": ["device_type", "dtype"],
    }  # fmt: skip
    changed = False
    for node in ast.walk(program.tree):
        names = known.get(called(node))
        if names and isinstance(node, ast.Call) and 0 < len(node.args) <= len(names):
            if (called(node) == "autocast" and "cuda.amp" in ast.unparse(node.func)) or (
                called(node) == "step" and not node.args
            ):
                continue
            if called(node) == "step" and "scaler" not in ast.unparse(node.func):
                continue
            if any(isinstance(one, ast.Starred) for one in node.args):
                continue
            node.keywords[:0] = [ast.keyword(name, value) for name, value in zip(names, node.args, strict=False)]
            node.args = []
            changed = True
    return changed


@transform
def annotated(program: Marked) -> bool:
    """`loss: torch.Tensor = ...`."""
    changed = False
    for block in bodies(program.tree):
        seen = set()
        for index, node in enumerate(block):
            if isinstance(node, ast.Assign) and len(node.targets) == 1 and isinstance(node.targets[0], ast.Name):
                if node.targets[0].id in seen:
                    continue
                seen.add(node.targets[0].id)
                new = ast.AnnAssign(node.targets[0], expression("'Any'"), node.value, 1)
                moved(program, node, new)
                block[index] = new
                changed = True
    return changed


def moved(program: Marked, old: ast.AST, new: ast.AST) -> None:
    """What was expected at `old` is at `new`."""
    if old in program.expected:
        program.expected.setdefault(new, set()).update(program.expected.pop(old))


# Loops


@transform
def tqdm_loop(program: Marked) -> bool:
    """`for index, batch in enumerate(tqdm(loader))`."""
    place = main_loop(program)
    if place is None:
        return False
    loop = innermost(place[0].body[place[1]])
    if called(loop.iter) in ("range", "zip"):
        loop.iter = ast.Call(ast.Name("tqdm", ast.Load()), [loop.iter], [ast.keyword("desc", ast.Constant("train"))])
    elif called(loop.iter) == "enumerate":
        loop.iter.args[0] = ast.Call(ast.Name("tqdm", ast.Load()), [loop.iter.args[0]], [])
    else:
        loop.target = ast.Tuple([ast.Name("step_number", ast.Store()), loop.target], ast.Store())
        loop.iter = expression(f"enumerate(tqdm({ast.unparse(loop.iter)}))")
    program.tree.body[:0] = parse("from tqdm import tqdm")
    return True


@transform
def while_loop(program: Marked) -> bool:
    """`while True` with `next` and `StopIteration`."""
    for block in bodies(program.tree):
        for index, node in enumerate(block):
            if (
                isinstance(node, ast.For)
                and not node.orelse
                and any(called(one) == "backward" for one in ast.walk(node))
            ):
                if innermost(node) is not node:
                    continue
                taking = parse("try:\n    _x = next(source)\nexcept StopIteration:\n    break")
                taking[0].body[0].targets = [node.target]
                new = ast.While(ast.Constant(True), [*taking, *node.body], [])
                moved(program, node, new)
                block[index : index + 1] = [*parse(f"source = iter({ast.unparse(node.iter)})"), new]
                return True
    return False


@transform
def epochs(program: Marked) -> bool:
    """Once more around it, for epochs."""
    place = main_loop(program)
    if place is None:
        return False
    scope, index = place
    outer = parse("for epoch in range(start_epoch, 3):\n    pass")[0]
    outer.body = [scope.body[index], *parse("print(epoch)")]
    scope.body[index : index + 1] = [*parse("start_epoch = 0"), outer]
    return True


@transform
def early_continue(program: Marked) -> bool:
    """A batch can be left out at the beginning."""
    return _loop_body(
        program, lambda body: [*parse("if is_bad_batch():\n    continue"), *body], "from data import is_bad_batch"
    )


_TRIED = """
try:
    pass
except RuntimeError as error:
    if 'out of memory' not in str(error):
        raise
    torch.cuda.empty_cache()
"""


@transform
def tried(program: Marked) -> bool:
    """The body of the loop within `try`, for lack of memory."""

    def wrapped(body: list[ast.stmt]) -> list[ast.stmt]:
        new = parse(_TRIED)
        new[0].body = body
        return new

    return _loop_body(program, wrapped, "import torch")


@transform
def logged(program: Marked) -> bool:
    """Calls between all statements of the loop's body."""

    def noisy(body: list[ast.stmt]) -> list[ast.stmt]:
        return [one for number, node in enumerate(body) for one in (*parse(f"timers.tick({number})"), node)]

    return _loop_body(program, noisy, "from utils import timers")


def _loop_body(program: Marked, change: Callable[[list[ast.stmt]], list[ast.stmt]], imports: str) -> bool:
    place = main_loop(program)
    if place is None:
        return False
    loop = innermost(place[0].body[place[1]])
    loop.body = change(loop.body)
    program.tree.body[:0] = parse(imports)
    return True


# Functions and classes


@transform
def in_main(program: Marked) -> bool:
    """The script as a function `main`."""
    tree = program.tree
    rest = [node for node in tree.body if not is_definition(node)]
    if any(isinstance(node, ast.If) and "__main__" in ast.unparse(node.test) for node in rest) or len(rest) < 3:
        return False
    variables = {*bound(rest)}
    definitions = [node for node in tree.body if is_definition(node)]
    if any(
        isinstance(node, ast.FunctionDef | ast.ClassDef) and read([node]) & variables - {*bound([node])}
        for node in definitions
    ):
        return False
    main = parse("def main():\n    pass")[0]
    main.body = rest
    tree.body[:] = [*definitions, main, *parse("if __name__ == '__main__':\n    main()")]
    return True


@transform
def step_function(program: Marked) -> bool:
    """The body of the loop as a function."""
    return _step(program) is not None


def _step(program: Marked) -> ast.FunctionDef | None:
    place = main_loop(program)
    if place is None:
        return None
    scope, index = place
    loop = innermost(scope.body[index])
    before = bound_before(scope, index) | {*bound([loop.target])}
    outer = scope.body[index]
    if loop is not outer:
        before |= {*bound([outer.target])} | {*bound(node for node in outer.body if node is not loop)}
    done = extracted(loop.body, scope, "train_step", before=before, loop=True)
    if done is None:
        return None
    loop.body = [done[1]]
    insert_function(program, scope, done[0], index)
    return done[0]


@transform
def nested_step(program: Marked) -> bool:
    """The body of the loop as a function within the function that shares its variables."""
    in_main(program)
    place = main_loop(program)
    if place is None or not isinstance(place[0].owner, ast.FunctionDef):
        return False
    scope, index = place
    loop = innermost(scope.body[index])
    if any(leaves(node, ast.Break) or within(node, ast.Return) or within(node, ast.Yield) for node in loop.body):
        return False
    targets = [*bound([loop.target])]
    given = [name for name in targets if name in read(loop.body)]
    outside = [name for name in bound(loop.body) if name in bound_before(scope, index) and name not in targets]
    function = parse("def one_step():\n    pass")[0]
    function.args.args = [ast.arg(name) for name in given]
    function.body = [Returning(None).visit(node) for node in loop.body]
    if outside:
        function.body.insert(0, ast.Nonlocal(outside))
    unknown = [name for name in bound(loop.body) if name in read(scope.body[index + 1 :]) and name not in outside]
    if unknown:
        return False
    loop.body = parse(f"one_step({', '.join(given)})")
    scope.body.insert(index, function)
    return True


@transform
def in_trainer(program: Marked) -> bool:
    """What is set up becomes attributes of an object, and the loop its method."""
    return _trainer(program) is not None


def _trainer(program: Marked) -> tuple[ast.ClassDef, ast.FunctionDef] | None:
    place = main_loop(program)
    if place is None:
        return None
    scope, index = place
    tree = program.tree
    if scope.owner is tree:
        functions = [node for node in tree.body if isinstance(node, ast.FunctionDef | ast.ClassDef)]
        if any(read([node]) & {*scope.names} for node in functions):
            return None
        setup = [node for node in scope.body[:index] if not is_definition(node)]
        rest = [node for node in scope.body[index:] if not is_definition(node)]
    else:
        setup, rest = scope.body[:index], scope.body[index:]
    if any(within(node, ast.Return) or within(node, ast.Yield) for node in setup) or any(
        within(node, ast.Yield) for node in rest
    ):
        return None
    given = parameters(scope.owner) if isinstance(scope.owner, ast.FunctionDef) else []
    targets = {
        name for node in rest for one in ast.walk(node) if isinstance(one, ast.For) for name in bound([one.target])
    }
    kept = [name for name in (*given, *bound(setup)) if name in read(rest) | {*bound(rest)} and name not in targets]
    kept = [name for name in kept if name not in bound(node for node in setup if is_definition(node))]
    rename = Rename(kept, lambda name, context: attribute("self", name, context))
    owner = parse("class Trainer:\n    def __init__(self):\n        pass\n    def fit(self):\n        pass")[0]
    start, fit = owner.body
    start.args.args += [ast.arg(name) for name in given]
    handed = [one for name in given if name in kept for one in parse(f"self.{name} = {name}")]
    local = Rename([name for name in kept if name not in given], lambda name, context: attribute("self", name, context))
    start.body = [*handed, *(local.visit(node) for node in setup)] or parse("pass")
    fit.body = [rename.visit(node) for node in rest]
    if scope.owner is tree:
        definitions = [node for node in tree.body if is_definition(node)]
        tree.body[:] = [*definitions, owner, *parse("if __name__ == '__main__':\n    Trainer().fit()")]
    else:
        if isinstance(scope.owner, ast.FunctionDef) and (scope.owner.decorator_list or scope.owner.args.kwonlyargs):
            return None
        tree.body.insert(tree.body.index(scope.owner), owner)
        scope.owner.body = parse(f"return Trainer({', '.join(given)}).fit()")
    return owner, fit


@transform
def step_method(program: Marked) -> bool:
    """The loop's body as a method of an object that owns what is set up."""
    done = _trainer(program)
    if done is None:
        return False
    owner, fit = done
    loop = next((node for node in fit.body if isinstance(node, ast.For)), None)
    if loop is None:
        return False
    loop = innermost(loop)
    before = {"self", *bound([loop.target])}
    for node in ast.walk(fit):
        if isinstance(node, ast.For) and node is not loop:
            before |= {*bound([node.target])}
    step = extracted(loop.body, Scope(fit), "train_step", before=before, loop=True)
    if step is None:
        return False
    function, call = step
    value = call.value
    value.func = attribute("self", "train_step", ast.Load())
    value.args = [one for one in value.args if one.id != "self"]
    function.args.args = [ast.arg("self"), *(one for one in function.args.args if one.arg != "self")]
    loop.body = [call]
    owner.body.append(function)
    return True


@transform
def based_step(program: Marked) -> bool:
    """The method of the step in a base class, what is set up in a subclass."""
    if not step_method(program):
        return False
    owner = next(node for node in program.tree.body if isinstance(node, ast.ClassDef) and node.name == "Trainer")
    base = parse("class BaseTrainer:\n    pass")[0]
    base.body = [node for node in owner.body if node.name != "__init__"]
    owner.body = owner.body[:1]
    owner.bases = [ast.Name("BaseTrainer", ast.Load())]
    program.tree.body.insert(program.tree.body.index(owner), base)
    return True


@transform
def abstract_step(program: Marked) -> bool:
    """The method of the step in a subclass, the loop in a base class that it never names."""
    if not step_method(program):
        return False
    owner = next(node for node in program.tree.body if isinstance(node, ast.ClassDef) and node.name == "Trainer")
    base = parse("class BaseTrainer:\n    def train_step(self, *args):\n        raise NotImplementedError")[0]
    base.body = [*base.body, *(node for node in owner.body if node.name == "fit")]
    owner.body = [node for node in owner.body if node.name != "fit"]
    owner.bases = [ast.Name("BaseTrainer", ast.Load())]
    program.tree.body.insert(program.tree.body.index(owner), base)
    return True


@transform
def built(program: Marked) -> bool:
    """What is set up comes out of a function, as a tuple."""
    return _build(program, "return {}") is not None


def _build(program: Marked, answer: str) -> tuple[list[str], Scope] | None:
    place = main_loop(program)
    if place is None:
        return None
    scope, index = place
    setup = [node for node in scope.body[:index] if not is_definition(node)]
    if not setup or any(within(node, ast.Return) or within(node, ast.Yield) for node in setup):
        return None
    rest = [node for node in scope.body[index:] if not is_definition(node)]
    later = read(rest)
    functions = [node for node in program.tree.body if isinstance(node, ast.FunctionDef | ast.ClassDef)]
    if scope.owner is program.tree and any(read([node]) & {*bound(setup)} for node in functions):
        return None
    given = parameters(scope.owner) if isinstance(scope.owner, ast.FunctionDef) else []
    returned = [name for name in bound(setup) if name in later]
    if len(returned) < 2 or {*returned} & {*given}:
        return None
    taken = [name for name in given if name in read(setup)]
    function = parse(f"def build({', '.join(taken)}):\n    pass")[0]
    function.body = [*setup, *parse(answer.format(", ".join(returned)))]
    for node in setup:
        scope.body.remove(node)
    at = scope.body.index(rest[0])
    if answer.startswith("return {}"):
        call = parse(f"{', '.join(returned)} = build({', '.join(taken)})")
    else:
        call = parse(f"setup = build({', '.join(taken)})")
    scope.body[at:at] = call
    insert_function(program, scope, function, at)
    return returned, scope


@transform
def built_dict(program: Marked) -> bool:
    """What is set up comes out of a function, as a dictionary whose items are used by key."""
    done = _build(program, "return dict(zip('{}'.split(), ()))")
    if done is None:
        return False
    returned, scope = done
    function = next(node for node in program.tree.body if isinstance(node, ast.FunctionDef) and node.name == "build")
    function.body[-1:] = parse(f"return {{{', '.join(f'{name!r}: {name}' for name in returned)}}}")
    start = next(
        index for index, node in enumerate(scope.body) if isinstance(node, ast.Assign) and bound([node]) == ["setup"]
    )
    if {*bound(scope.body[start + 1 :])} & {*returned}:
        return False
    rename = Rename(returned, lambda name, context: expression(f"setup[{name!r}]"))
    scope.body[start + 1 :] = [rename.visit(node) for node in scope.body[start + 1 :]]
    return True


@transform
def built_object(program: Marked) -> bool:
    """What is set up comes out of a function, as an object of a dataclass."""
    done = _build(program, "return Setup({})")
    if done is None:
        return False
    returned, scope = done
    start = next(
        index for index, node in enumerate(scope.body) if isinstance(node, ast.Assign) and bound([node]) == ["setup"]
    )
    rename = Rename(returned, lambda name, context: attribute("setup", name, context))
    scope.body[start + 1 :] = [rename.visit(node) for node in scope.body[start + 1 :]]
    fields = "\n".join(f"    {name}: object" for name in returned)
    program.tree.body[:0] = parse(f"from dataclasses import dataclass\n@dataclass\nclass Setup:\n{fields}")
    return True


@transform
def generator(program: Marked) -> bool:
    """The loop in a generator, which another loop runs."""
    in_main(program)
    place = main_loop(program)
    if place is None or not isinstance(place[0].owner, ast.FunctionDef):
        return False
    scope, index = place
    loop = scope.body[index]
    stored = bound([loop])
    if (
        any(name in read(scope.body[index + 1 :]) for name in stored)
        or within(loop, ast.Return)
        or within(loop, ast.Yield)
    ):
        return False
    before = bound_before(scope, index)
    taken = [name for name in scope.names if name in before and name in read([loop])]
    function = parse(f"def steps({', '.join(taken)}):\n    pass")[0]
    innermost(loop).body.extend(parse("yield 1"))
    function.body = [loop]
    scope.body[index : index + 1] = parse(f"for done in steps({', '.join(taken)}):\n    print(done)")
    insert_function(program, scope, function, index)
    return True


@transform
def sibling(program: Marked) -> bool:
    """Functions and classes in another file of the folder."""
    return _sibling(program, star=False)


@transform
def sibling_star(program: Marked) -> bool:
    """Functions and classes in another file, all imported by `*`."""
    return _sibling(program, star=True)


def _sibling(program: Marked, *, star: bool) -> bool:
    tree = program.tree
    definitions = [
        node for node in tree.body if isinstance(node, ast.FunctionDef | ast.ClassDef) and node.name != "main"
    ]
    variables = {*bound(node for node in tree.body if not is_definition(node))}
    if not definitions or any(read([node]) & variables for node in definitions):
        return False
    if any("main" in read([node]) for node in definitions):
        return False
    imports = [node for node in tree.body if isinstance(node, ast.Import | ast.ImportFrom)]
    names = "*" if star else ", ".join(node.name for node in definitions)
    other = ast.Module([*imports, *definitions], [])
    tree.body[:] = [
        *imports,
        *parse(f"from helpers import {names}"),
        *(node for node in tree.body if node not in definitions and node not in imports),
    ]
    program.others["helpers.py"] = other
    return True


@transform
def sibling_step(program: Marked) -> bool:
    """The loop's body as a function of another file."""
    return step_function(program) and sibling(program)


@transform
def sibling_trainer(program: Marked) -> bool:
    """An object that trains, in another file."""
    return step_method(program) and sibling(program)


# Regions


def region_calls(program: Marked) -> list[tuple[list[ast.stmt], int, ast.With, ast.withitem]]:
    """Every `with` whose item calls `autocast`."""
    found = []
    for block in bodies(program.tree):
        for index, node in enumerate(block):
            if isinstance(node, ast.With):
                found += [(block, index, node, item) for item in node.items if called(item.context_expr) == "autocast"]
    return found


def constant_arguments(call: ast.Call) -> bool:
    """Whether a call can stand anywhere: what it calls is imported, and its arguments are written out."""
    if ast.unparse(call.func).partition(".")[0] not in ("torch", "autocast", "amp"):
        return False
    values = [*call.args, *(one.value for one in call.keywords)]
    return all(isinstance(value, ast.Constant) or ast.unparse(value).startswith("torch.") for value in values)


@transform
def conditional_region(program: Marked) -> bool:
    """`nullcontext` where mixed precision is switched off on the command line."""
    found = region_calls(program)
    for _, _, _, item in found:
        item.context_expr = ast.IfExp(expression("cli.amp"), item.context_expr, expression("contextlib.nullcontext()"))
    if found:
        program.tree.body[:0] = parse(PARSER)
    return bool(found)


PARSER = """
import argparse, contextlib
cli_parser = argparse.ArgumentParser()
cli_parser.add_argument('--amp', action='store_true')
cli = cli_parser.parse_args()
"""


@transform
def amp_flag(program: Marked) -> bool:
    """`enabled=` of regions and scalers from the command line."""
    changed = False
    for node in ast.walk(program.tree):
        if called(node) in ("autocast", "GradScaler") and all(
            one.arg not in ("enabled", None) for one in node.keywords
        ):
            if called(node) == "autocast" and "cuda.amp" in ast.unparse(node.func) and node.args:
                continue
            if len(node.args) < 3:
                node.keywords.append(ast.keyword("enabled", expression("cli.amp")))
                changed = True
    program.tree.body[:0] = parse(PARSER)
    return changed


@transform
def config_flag(program: Marked) -> bool:
    """`enabled=` from a configuration object that comes from elsewhere."""
    if not amp_flag(program):
        return False
    program.tree.body[:4] = parse("from configs import cfg")
    for node in ast.walk(program.tree):
        if isinstance(node, ast.Attribute) and ast.unparse(node) == "cli.amp":
            node.value = expression("cfg.train")
    return True


@transform
def region_function(program: Marked) -> bool:
    """A function that makes the region."""
    found = [one for one in region_calls(program) if constant_arguments(one[3].context_expr)]
    if not found:
        return False
    call = found[0][3].context_expr
    function = parse("def amp_context():\n    return x")[0]
    function.body[0].value = copy.deepcopy(call)
    for _, _, _, item in found:
        if ast.unparse(item.context_expr) == ast.unparse(call):
            item.context_expr = expression("amp_context()")
    _after_imports(program, [function])
    return True


@transform
def region_manager(program: Marked) -> bool:
    """A `contextmanager` that enters the region."""
    found = [one for one in region_calls(program) if constant_arguments(one[3].context_expr)]
    if not found:
        return False
    call = ast.unparse(found[0][3].context_expr)
    for _, _, _, item in found:
        if ast.unparse(item.context_expr) == call:
            item.context_expr = expression("mixed()")
    _after_imports(
        program, parse(f"import contextlib\n@contextlib.contextmanager\ndef mixed():\n    with {call}:\n        yield")
    )
    return True


@transform
def region_partial(program: Marked) -> bool:
    """`functools.partial(torch.autocast, ...)`."""
    found = [one for one in region_calls(program) if constant_arguments(one[3].context_expr)]
    if not found:
        return False
    call = copy.deepcopy(found[0][3].context_expr)
    for _, _, _, item in found:
        if ast.unparse(item.context_expr) == ast.unparse(call):
            item.context_expr = expression("amp_context()")
    call.args.insert(0, call.func)
    call.func = expression("functools.partial")
    _after_imports(program, parse(f"import functools\namp_context = {ast.unparse(call)}"))
    return True


@transform
def region_settings(program: Marked) -> bool:
    """The arguments of regions in a dictionary."""
    found = [
        one for one in region_calls(program) if constant_arguments(one[3].context_expr) and one[3].context_expr.keywords
    ]
    if not found:
        return False
    call = found[0][3].context_expr
    text = ast.unparse(call)
    items = ", ".join(f"{one.arg}={ast.unparse(one.value)}" for one in call.keywords)
    for _, _, _, item in found:
        if ast.unparse(item.context_expr) == text:
            item.context_expr.keywords = [ast.keyword(None, expression("AMP_SETTINGS"))]
    _after_imports(program, parse(f"AMP_SETTINGS = dict({items})"))
    return True


@transform
def region_config(program: Marked) -> bool:
    """Device and dtype of regions in a dataclass with defaults."""
    found = [one for one in region_calls(program) if constant_arguments(one[3].context_expr)]
    texts = []
    for _, _, _, item in found:
        call = item.context_expr
        for one in (*call.args, *(keyword.value for keyword in call.keywords)):
            if ast.unparse(one) not in texts:
                texts.append(ast.unparse(one))
    if not texts:
        return False
    names = {text: f"field_{number}" for number, text in enumerate(texts)}
    for _, _, _, item in found:
        call = item.context_expr
        call.args = [expression(f"settings.{names[ast.unparse(one)]}") for one in call.args]
        for keyword in call.keywords:
            keyword.value = expression(f"settings.{names[ast.unparse(keyword.value)]}")
    fields = "\n".join(f"    {name}: object = {text}" for text, name in names.items())
    _after_imports(
        program,
        parse(f"from dataclasses import dataclass\n@dataclass\nclass Settings:\n{fields}\nsettings = Settings()"),
    )
    return True


def _after_imports(program: Marked, new: list[ast.stmt]) -> None:
    body = program.tree.body
    last = max((index for index, node in enumerate(body) if isinstance(node, ast.Import | ast.ImportFrom)), default=-1)
    body[last + 1 : last + 1] = new


@transform
def region_variable(program: Marked) -> bool:
    """The region in a variable of its own."""
    found = region_calls(program)
    for block, index, _, item in reversed(found):
        new = ast.Assign([ast.Name("amp_region", ast.Store())], item.context_expr)
        item.context_expr = ast.Name("amp_region", ast.Load())
        block.insert(index, new)
    return bool(found)


@transform
def exit_stack(program: Marked) -> bool:
    """The region entered by an `ExitStack`."""
    found = region_calls(program)
    for _, _, node, item in found:
        call = ast.unparse(item.context_expr)
        item.context_expr = expression("contextlib.ExitStack()")
        item.optional_vars = ast.Name("stack", ast.Store())
        node.body[:0] = parse(f"stack.enter_context({call})")
    program.tree.body[:0] = parse("import contextlib")
    return bool(found)


@transform
def two_contexts(program: Marked) -> bool:
    """Another context beside the region."""
    found = region_calls(program)
    for _, _, node, _ in found:
        node.items.insert(0, ast.withitem(expression("record_function('forward')")))
    program.tree.body[:0] = parse("from torch.profiler import record_function")
    return bool(found)


@transform
def entered(program: Marked) -> bool:
    """`__enter__` and `__exit__` in place of `with`."""
    changed = False
    for block, index, node, item in region_calls(program)[:1]:
        if len(node.items) > 1 or any(within(one, ast.Return) for one in node.body):
            continue
        block[index : index + 1] = [
            *parse(f"context = {ast.unparse(item.context_expr)}\ncontext.__enter__()"),
            *node.body,
            *parse("context.__exit__(None, None, None)"),
        ]
        changed = True
    return changed


@transform
def region_decorator(program: Marked) -> bool:
    """What runs in the region as a function with the region as its decorator."""
    for block, index, node, item in region_calls(program):
        if len(node.items) > 1 or not constant_arguments(item.context_expr):
            continue
        scope = next(
            (one for one in (*scopes(program.tree),) if one.owner is not program.tree and node in ast.walk(one.owner)),
            None,
        )
        scope = scope or Scope(program.tree)
        if any(isinstance(one, ast.ClassDef) and node in ast.walk(one) for one in program.tree.body):
            continue
        top = next(number for number, one in enumerate(scope.body) if node in ast.walk(one))
        before = bound_before(scope, top)
        for one in ast.walk(scope.body[top]):
            if isinstance(one, ast.For) and node in ast.walk(one):
                before |= {*bound([one.target])}
                before |= {*bound(one.body)} - {*bound(node.body)}
        done = extracted(node.body, scope, "run_in_half", before=before, loop=False)
        if done is None:
            continue
        done[0].decorator_list = [item.context_expr]
        block[index] = done[1]
        insert_function(program, scope, done[0], top)
        return True
    return False


# Values


@transform
def dtype_table(program: Marked) -> bool:
    """Half dtypes out of a dictionary by their short names."""
    return _dtypes(
        program,
        "DTYPES[{!r}]",
        "DTYPES = {'float16': torch.float16, 'bfloat16': torch.bfloat16, 'float32': torch.float32}",
    )


@transform
def dtype_getattr(program: Marked) -> bool:
    """`getattr(torch, "float16")`."""
    return _dtypes(program, "getattr(torch, {!r})", "")


@transform
def dtype_choice(program: Marked) -> bool:
    """The half dtype, or float32 where the command line says so."""
    return _dtypes(program, "(torch.{} if cli.amp else torch.float32)", PARSER)


@transform
def dtype_attribute(program: Marked) -> bool:
    """Half dtypes as attributes of a class."""
    return _dtypes(
        program, "Precision.{}", "class Precision:\n    float16 = torch.float16\n    bfloat16 = torch.bfloat16"
    )


def _dtypes(program: Marked, form: str, before: str) -> bool:
    changed = False

    class Other(ast.NodeTransformer):
        def visit_Attribute(self, node: ast.Attribute) -> ast.expr:
            nonlocal changed
            if ast.unparse(node) in ("torch.float16", "torch.bfloat16", "torch.half"):
                changed = True
                return expression(form.format(node.attr.replace("half", "float16")))
            self.generic_visit(node)
            return node

    Other().visit(program.tree)
    if before:
        _after_imports(program, parse(before))
    return changed


@transform
def cast_by_to(program: Marked) -> bool:
    """`.to(torch.float16)` in place of `.half()`."""
    changed = False
    for node in ast.walk(program.tree):
        if called(node) in ("half", "bfloat16") and isinstance(node.func, ast.Attribute) and not node.args:
            node.args = [expression("torch.float16" if node.func.attr == "half" else "torch.bfloat16")]
            node.func.attr = "to"
            changed = True
    return changed


@transform
def loss_dict(program: Marked) -> bool:
    """The loss as the sum of a dictionary's values."""
    changed = False
    for block in bodies(program.tree):
        for index, node in enumerate(block):
            if (
                isinstance(node, ast.Assign)
                and ast.unparse(node.targets[0]) == "loss"
                and len(node.targets) == 1
                and not changed
            ):
                node.targets = [ast.Name("terms", ast.Store())]
                node.value = ast.Dict([ast.Constant("main")], [node.value])
                block.insert(index + 1, parse("loss = sum(terms.values())")[0])
                changed = True
                break
    return changed


@transform
def constants(program: Marked) -> bool:
    """Numbers of marked statements as constants of the module."""
    return _numbers(program, "LIMIT_{}", "")


@transform
def class_constants(program: Marked) -> bool:
    """Numbers of marked statements as attributes of a class."""
    return _numbers(program, "Limits.LIMIT_{}", "Limits")


def _numbers(program: Marked, form: str, owner: str) -> bool:
    values: list[str] = []

    class Other(ast.NodeTransformer):
        def visit_UnaryOp(self, node: ast.UnaryOp) -> ast.expr:
            return (
                self.replaced(node)
                if isinstance(node.operand, ast.Constant) and isinstance(node.op, ast.USub)
                else self.generic_visit(node)
            )

        def visit_Constant(self, node: ast.Constant) -> ast.expr:
            return self.replaced(node) if isinstance(node.value, float) else node

        def replaced(self, node: ast.expr) -> ast.expr:
            if ast.unparse(node).lstrip("-") == "1":
                return node
            values.append(ast.unparse(node))
            return expression(form.format(len(values) - 1))

    for node in program.expected:
        if isinstance(node, ast.stmt) and not isinstance(node, ast.FunctionDef | ast.ClassDef | ast.For | ast.With):
            Other().visit(node)
    lines = [f"LIMIT_{number} = {value}" for number, value in enumerate(values)]
    if lines:
        _after_imports(program, parse(f"class {owner}:\n    " + "\n    ".join(lines) if owner else "\n".join(lines)))
    return bool(lines)


@transform
def conditional(program: Marked) -> bool:
    """Marked statements only where the command line says so."""
    changed = False
    for block in bodies(program.tree):
        for index, node in enumerate(block):
            if node in program.expected and isinstance(node, ast.Expr | ast.AugAssign):
                block[index] = ast.If(expression("cli.amp"), [node], [])
                changed = True
    program.tree.body[:0] = parse(PARSER)
    return changed


@transform
def statement_function(program: Marked) -> bool:
    """A marked statement as a function of its own."""
    for scope in scopes(program.tree):
        for block in bodies(scope.owner):
            for index, node in enumerate(block):
                if node in program.expected and isinstance(node, ast.Expr | ast.Assign | ast.AugAssign):
                    if any(
                        isinstance(one, ast.FunctionDef) and node in ast.walk(one)
                        for one in ast.walk(scope.owner)
                        if one is not scope.owner
                    ):
                        continue
                    if any(isinstance(one, ast.ClassDef) and node in ast.walk(one) for one in program.tree.body):
                        continue
                    top = next(number for number, one in enumerate(scope.body) if node in ast.walk(one))
                    before = {*scope.names} - ({*bound([node])} - read([node]))
                    done = extracted([node], scope, "helper", before=before, loop=False)
                    if done is None:
                        continue
                    block[index] = done[1]
                    insert_function(program, scope, done[0], top)
                    return True
    return False


@transform
def sibling_statement(program: Marked) -> bool:
    """A marked statement as a function in another file."""
    return statement_function(program) and sibling(program)


@transform
def method(program: Marked) -> bool:
    """A function as a static method of a class."""
    tree = program.tree
    for index, node in enumerate(tree.body):
        if (
            isinstance(node, ast.FunctionDef)
            and node.name != "main"
            and any(one in program.expected for one in ast.walk(node))
        ):
            if node.decorator_list or any(isinstance(one, ast.Name) and one.id == node.name for one in ast.walk(node)):
                continue
            owner = parse("class Toolbox:\n    pass")[0]
            node.decorator_list = [ast.Name("staticmethod", ast.Load())]
            owner.body = [node]
            tree.body[index] = owner
            Rename([node.name], lambda name, context: attribute("Toolbox", name, context)).visit(
                ast.Module(tree.body, [])
            )
            return True
    return False


@transform
def forwarded(program: Marked) -> bool:
    """A function behind another that hands on `*args` and `**kwargs`."""
    tree = program.tree
    for index, node in enumerate(tree.body):
        if (
            isinstance(node, ast.FunctionDef)
            and node.name != "main"
            and any(one in program.expected for one in ast.walk(node))
        ):
            name = node.name
            node.name = f"_{name}_impl"
            tree.body[index + 1 : index + 1] = parse(
                f"def {name}(*args, **kwargs):\n    return _{name}_impl(*args, **kwargs)"
            )
            return True
    return False


_TIMED = """
import functools
def timed(function):
    @functools.wraps(function)
    def inner(*args, **kwargs):
        print('start')
        return function(*args, **kwargs)
    return inner
"""


@transform
def wrapped(program: Marked) -> bool:
    """A function with a decorator of its own that measures time."""
    tree = program.tree
    for node in tree.body:
        if (
            isinstance(node, ast.FunctionDef)
            and node.name != "main"
            and any(one in program.expected for one in ast.walk(node))
        ):
            node.decorator_list.insert(0, ast.Name("timed", ast.Load()))
            _after_imports(
                program,
                parse(_TIMED),
            )
            return True
    return False


@transform
def scaled_apart(program: Marked) -> bool:
    """The scaled loss in a variable of its own."""
    changed = False
    for block in bodies(program.tree):
        for index, node in enumerate(block):
            if (
                isinstance(node, ast.Expr)
                and called(node.value) == "backward"
                and isinstance(node.value.func, ast.Attribute)
            ):
                inner = node.value.func.value
                if called(inner) == "scale":
                    block[index] = ast.Expr(node.value)
                    moved(program, node, block[index])
                    block.insert(index, ast.Assign([ast.Name("scaled_loss", ast.Store())], inner))
                    node.value.func.value = ast.Name("scaled_loss", ast.Load())
                    changed = True
                    break
    return changed


@transform
def optimizer_list(program: Marked) -> bool:
    """The optimizer in a list over which every step goes."""
    changed = False
    for block in bodies(program.tree):
        for index, node in enumerate(block):
            if isinstance(node, ast.Expr) and called(node.value) in ("step", "unscale_") and len(node.value.args) == 1:
                argument = node.value.args[0]
                if "optimizer" in ast.unparse(argument) and isinstance(argument, ast.Name | ast.Attribute):
                    loop = parse(f"for each in [{ast.unparse(argument)}]:\n    pass")[0]
                    node.value.args = [ast.Name("each", ast.Load())]
                    loop.body = [node]
                    block[index] = loop
                    changed = True
    return changed


@transform
def rewritten(program: Marked) -> bool:
    """The same without comments and layout."""
    return True
