"""Backward slices of losses: the statements from the first forward pass to the argument of backward."""

from __future__ import annotations

import functools
from collections.abc import Iterator, Set

from amplint.semantics.models.half_outputs import is_loss
from amplint.semantics.models.parameters import WRAPPERS
from amplint.semantics.reading.scopes import dotted
from amplint.semantics.words import ABOUT_MODELS, CALLED_MODULE, SPEAKS_OF_LOSS
from amplint.source import syntax as cst
from amplint.source.tree import children, every, walk
from amplint.torchlib.catalogue import OPERATIONS
from amplint.training.bindings import bound_paths, called_name, changed_by, given_to, paths
from amplint.training.calls import only_raises
from amplint.training.observed import Observed, disables_gradients, is_no_grad_function
from amplint.training.refusal import Refusal
from amplint.training.script import Script

_CALLS_LIMIT = 4
_MOVES = frozenset({"to", "cuda", "cpu", "train", "eval"})
"""Methods of a module that return it."""
EXITS = frozenset({"exit", "_exit", "abort"})
"""Functions that end the process."""
_FILLING = frozenset({"add", "append", "push", "put", "store", "store_transition", "insert", "remember"})
_NUMBERS = frozenset({"item", "tolist"})


class PassedForward(Refusal):
    """A call that trains receives a forward pass as its `argument`, for its parameter `name`."""

    def __init__(self, argument: cst.BaseExpression, name: str) -> None:
        super().__init__(argument, "the forward pass is an argument of the call that trains on it")
        self.argument = argument
        self.name = name


class NoForward(Refusal):
    """A loss comes from no forward pass in sight."""


class Flow:
    """Follows losses back to their forward passes, through blocks and to the callers of a function."""

    def __init__(self, script: Script, observed: Observed) -> None:
        self._script = script
        self._calls = observed.calls
        self._forwards = observed.forwards
        self._models = observed.models
        self._losses = observed.losses
        self._work = {*observed.backwards, *observed.steps, *observed.uses}
        self._training = self._calls.functions_reaching(self._work)
        self._running = self._calls.functions_reaching(self._forwards, constructors=False)
        self._keeping = set(_loss_holders(script))
        self._buffers = set(_buffers(script))
        self.unseen: dict[cst.Call, None] = {}
        """The calls that run an unseen model."""

    def computing(self, backward: cst.Call) -> list[cst.CSTNode]:
        """The statements from the forward passes to the loss of `backward`, without those that train.

        Raises Refusal.
        """
        loss = self._losses[backward]
        found: dict[cst.CSTNode, None] = {}
        ways = [
            [one for one in reversed(way) if not self.trains(one)]
            for way in self._dependencies_before(loss, paths(loss), 0)
        ]
        for way in ways:
            tainted = self._add_dependents(way, found)
            if not tainted and self._find_unseen(way):
                tainted = self._add_dependents(way, found)
            tainted = tainted or self._add_dependents(self._of_rounds(backward, paths(loss)), found)
            if not tainted:
                raise NoForward(backward, "no forward pass of a model was found that this loss comes from")
        return list(found)

    def _of_rounds(self, backward: cst.Call, needed: set[str]) -> list[cst.CSTNode]:
        """The statements of the innermost loop around `backward` on which it depends, in this round or one before."""
        loops = (one for one in self._script.source.ancestors(backward) if isinstance(one, (cst.For, cst.While)))
        loop = next(loops, None)
        lines = [] if loop is None else [*every(loop.body, cst.SimpleStatementLine)]
        own, known = [one for one in lines if not self.trains(one)], set[str]()
        while known != needed:
            known = set(needed)
            needed = known.union(*(self._reads(one) - self._buffers for one in own if self.binds(one) & known))
        return [one for one in own if self.binds(one) & needed]

    def _add_dependents(self, way: list[cst.CSTNode], found: dict[cst.CSTNode, None]) -> set[str]:
        """The names bound by those statements of `way` that depend on forward passes; `found` collects the
        statements.
        """
        tainted: set[str] = set()
        self._forwards |= self._alike(way)
        for statement in way:
            if self._runs_on(statement) or self._reads(statement) & tainted:
                found[statement] = None
                tainted |= set(self._binds(statement)) - set(_numbers(statement))
        return tainted

    def _runs_on(self, statement: cst.CSTNode) -> bool:
        """Whether `statement` contains a forward pass in a branch that does not leave its function."""
        return any(one in self._forwards or self._calls_one_of(one, self._running) for one in _staying(statement))

    def _alike(self, way: list[cst.CSTNode]) -> set[cst.Call]:
        """The calls on a `way` of a parameter that is a model by its name, or of what such a way runs on an output."""
        calls = [call for statement in way for call in every(statement, cst.Call)]
        found = {one for one in calls if self._calls_parameter(one) and CALLED_MODULE.search(called_name(one))}
        outputs = set[str]()
        for statement in way:
            if self.runs_model(statement) or self._reads(statement) & outputs:
                outputs |= set(self._binds(statement)) - set(_numbers(statement))
        run = {dotted(one.func) for one in calls if any(paths(each.value) & outputs for each in one.args)}
        run &= {path for path in run if path is not None and self._is_unknown(path)}
        return found | {one for one in calls if dotted(one.func) in run and one.args}

    def _is_unknown(self, path: str) -> bool:
        """Whether `path` is a variable that only assignments bind to an element of a collection."""
        values = [value for one in self._script.of_kind(cst.Assign) for value in given_to(one, path)]
        return bool(values) and not is_loss(path) and all(isinstance(one, cst.Subscript) for one in values)

    def _find_unseen(self, way: list[cst.CSTNode]) -> bool:
        """Record the calls on a `way` to a loss that run an unseen model, and return whether there are any.

        Such a call runs a parameter; else it receives a model, or an object with one, or runs a method that a derived
        or unseen class defines, or that of an object with a model. Where there is none, its result is differentiated.
        """
        called = {call for statement in way for call in every(statement, cst.Call) if self._calls_parameter(call)}
        self._forwards |= called
        models = set(self._models)
        for statement in way if not called else ():
            models |= self._renamed_models(self._script.function_of(statement))
            bound = self.binds(statement)
            for call in every(statement, cst.Call):
                given = {dotted(argument.value) for argument in call.args}
                takes_model = not given.isdisjoint(models) or not given.isdisjoint(self._holders)
                if takes_model and (called_name(call) == "partial" or _constructs(statement, call)):
                    models |= bound
                elif not bound & (models | self._holders) and (
                    takes_model
                    or dotted(call.func) in models
                    or self._runs_overridable_method(call)
                    or self._holds_model(call)
                ):
                    self.unseen[call] = None
        if not called and not self.unseen:
            self.unseen |= dict.fromkeys(self._losses_out_of_sight(way))
        self._forwards |= self.unseen.keys()
        self._running |= self._calls.functions_reaching(self._forwards, constructors=False)
        return bool(called or self.unseen)

    def gives_loss(self, call: cst.Call) -> bool:
        """Whether the statement of `call` binds a loss: one that is differentiated, or one by its name."""
        statement = self._script.statement_of(call)
        bound = self.binds(statement) if statement is not None else set[str]()
        return not bound or any(path in self._differentiated or SPEAKS_OF_LOSS.search(path) for path in bound)

    @functools.cached_property
    def _differentiated(self) -> set[str]:
        return {path for loss in self._losses.values() for path in paths(loss)}

    def _losses_out_of_sight(self, way: list[cst.CSTNode]) -> Iterator[cst.Call]:
        """The calls on a `way` of methods of objects that their function is given, whose results are differentiated."""
        for statement in way:
            function, bound = self._script.function_of(statement), self.binds(statement)
            only = statement.body[0] if isinstance(statement, cst.SimpleStatementLine) else None
            call = only.value if isinstance(only, (cst.Assign, cst.AnnAssign)) else None
            if not isinstance(call, cst.Call) or not call.args or not bound & self._differentiated:
                continue
            owner = (dotted(call.func) or "").partition(".")[0]
            given = function is not None and self._script.parameter(function, owner) is not None
            if given and owner != "self" and not self._calls.targets(call) and called_name(call) not in OPERATIONS:
                yield call

    def _renamed_models(self, function: cst.FunctionDef | None) -> set[str]:
        """The variables of `function` that it binds to a model, moved or wrapped."""
        found = set[str]()
        for node in self._script.nodes_of(function):
            if isinstance(node, cst.Assign) and self._is_model(node.value, found):
                found |= bound_paths(node, whole=True)
        return found

    def _is_model(self, value: cst.BaseExpression, renamed: Set[str]) -> bool:
        """Whether `value` is a model, or a call that returns one that it moves or wraps."""
        if not isinstance(value, cst.Call):
            return dotted(value) in self._models | renamed
        if called_name(value) in WRAPPERS:
            return bool(value.args) and self._is_model(value.args[0].value, renamed)
        func = value.func
        return isinstance(func, cst.Attribute) and func.attr.value in _MOVES and self._is_model(func.value, renamed)

    def _calls_parameter(self, call: cst.Call) -> bool:
        """Whether `call` runs a parameter of its function or constructor that is no loss by its name, on something."""
        function = self._script.function_of(call)
        name = call.func.value if isinstance(call.func, cst.Name) else ""
        given = function is not None and name and self._script.parameter(function, name) is not None
        return bool((given or self._is_kept_parameter(dotted(call.func) or "")) and call.args) and not is_loss(name)

    def _is_kept_parameter(self, path: str) -> bool:
        """Whether `path` is an attribute, no loss by its name, that its object got when it was constructed."""
        owner, _, name = path.partition(".")
        assigns = [
            one for one in self._script.of_kind(cst.Assign) if owner == "self" and path in bound_paths(one, whole=True)
        ]
        makers = [self._script.function_of(one) for one in assigns]
        return (
            bool(assigns)
            and not is_loss(name)
            and all(
                maker is not None
                and maker.name.value == "__init__"
                and any(self._script.parameter(maker, dotted(value) or "") for value in given_to(one, path))
                for one, maker in zip(assigns, makers, strict=True)
            )
        )

    def _runs_overridable_method(self, call: cst.Call) -> bool:
        """Whether `call` runs a method that is abstract in the class around, or inherited from an unseen base."""
        owner, _, method = (dotted(call.func) or "").rpartition(".")
        around = self._script.method_owner(self._script.function_of(call))
        if owner != "self" or around is None:
            return False
        own = [one for one in self._calls.methods(around) if one.name.value == method]
        abstract = (
            any((dotted(each.decorator) or "").endswith("abstractmethod") for each in one.decorators) for one in own
        )
        return any(abstract) or any(map(only_raises, own)) or (not own and bool(around.bases))

    @functools.cached_property
    def _holders(self) -> set[str]:
        """The objects with an attribute that the file uses as a model."""
        return {path.rpartition(".")[0] for path in self._models} - {"", "self"}

    def _holds_model(self, call: cst.Call) -> bool:
        """Whether `call` runs a method, on something, of an object with an attribute that the file uses as a model."""
        owner, _, method = (dotted(call.func) or "").rpartition(".")
        return bool(owner in self._holders and call.args) and not ABOUT_MODELS.search(method)

    def trains(self, node: cst.CSTNode) -> bool:
        """Whether `node` contains a backward pass, a step or a use of gradients, or a call that reaches one."""
        return any(inner in self._work or self._calls_one_of(inner, self._training) for inner in walk(node))

    def binds(self, statement: cst.CSTNode) -> set[str]:
        """The variables that `statement` or a nested statement may bind or update."""
        return set(self._binds(statement))

    def runs_model(self, node: cst.CSTNode, *, differentiably: bool = False) -> bool:
        """Whether `node` contains a forward pass, or a call that reaches one; if asked, with gradients."""
        return any(self.runs(one) and not (differentiably and self._without_gradients(one)) for one in walk(node))

    def runs(self, call: cst.CSTNode) -> bool:
        """Whether `call` is a forward pass, or a call that reaches one."""
        return call in self._forwards or self._calls_one_of(call, self._running)

    def _without_gradients(self, call: cst.CSTNode) -> bool:
        return disables_gradients(self._script.source, call) or self._calls_without_gradients(call)

    def _calls_one_of(self, node: cst.CSTNode, functions: Set[cst.CSTNode]) -> bool:
        """Whether `node` is a call of one of `functions`."""
        return isinstance(node, cst.Call) and not functions.isdisjoint(self._calls.targets(node))

    def _dependencies_before(self, node: cst.CSTNode, needed: set[str], depth: int) -> Iterator[list[cst.CSTNode]]:
        """The statements before `node` on which `needed` depends, the latest first, for each path to it."""
        way: list[cst.CSTNode] = []
        inner = True
        for statement, block in self._script.enclosing_statements(node):
            if not inner:
                needed = self._through_header(statement, needed)
            inner = False
            for above in reversed(block[: block.index(statement)]):
                bound = set(self._binds(above))
                if isinstance(above, (cst.FunctionDef, cst.ClassDef)) or not bound & needed:
                    continue
                way.append(above)
                needed = (needed - self._certainly_binds(above)) | (self._reads(above) - self._buffers)
        function = self._script.function_of(node)
        complete = any(self.runs_model(one) and not self.trains(one) for one in way)
        if function is None or (complete and not self._is_given(function, needed)):
            yield way
            return
        yield from self._from_callers(function, way, needed, depth)

    def _is_given(self, function: cst.FunctionDef, needed: set[str]) -> bool:
        """Whether some of `needed` is defined outside of `function`, as an attribute of the object or a parameter."""
        return any(path.startswith("self.") or self._script.parameter(function, path) for path in needed - {"self"})

    def _from_callers(
        self, function: cst.FunctionDef, way: list[cst.CSTNode], needed: set[str], depth: int
    ) -> Iterator[list[cst.CSTNode]]:
        callers = self._calls.callers(function)
        if not callers or depth == _CALLS_LIMIT:
            yield way
            return
        outside = {path for path in needed if path.startswith("self.")}
        for call in callers:
            passed = set(outside)
            for name in needed:
                argument = self._calls.argument(call, function, name)
                if argument is not None:
                    passed |= paths(argument.value)
                    if self.runs_model(argument.value) and not self._calls_without_gradients(argument.value):
                        raise PassedForward(argument.value, name)
            for further in self._dependencies_before(call, passed, depth + 1):
                yield [*way, *further]

    def _calls_without_gradients(self, node: cst.CSTNode) -> bool:
        """Whether `node` calls a function that runs with gradients disabled."""
        return any(map(is_no_grad_function, self._calls.targets(node)))

    def _through_header(self, statement: cst.CSTNode, needed: set[str]) -> set[str]:
        bound = bound_paths(statement)
        if not bound & needed:
            return needed
        if isinstance(statement, cst.For):
            return (needed - bound) | paths(statement.iter)
        return needed | {path for item in getattr(statement, "items", ()) for path in paths(item.item)}

    def _binds(self, statement: cst.CSTNode) -> Iterator[str]:
        for node in _staying(statement):
            yield from changed_by(node)
            if node in self._forwards and isinstance(node, cst.Call):
                yield from self._keeping & paths(node.func)
            call = node.value if isinstance(node, cst.Expr) else None
            if isinstance(call, cst.Call) and isinstance(call.func, cst.Attribute):
                if dotted(call.func.value) == "self":
                    yield from self._sets(call)
                elif call in self._forwards:
                    yield from paths(call.func.value)

    def _sets(self, call: cst.Call) -> Iterator[str]:
        """The attributes set by the method of this file that `call` runs."""
        for function in self._calls.targets(call):
            for node in walk(function):
                if isinstance(node, (cst.Assign, cst.AnnAssign, cst.AugAssign)):
                    yield from (path for path in bound_paths(node) if path.startswith("self."))

    def _certainly_binds(self, statement: cst.CSTNode) -> set[str]:
        if isinstance(statement, cst.With):
            return self._bound_in(statement.body)
        if isinstance(statement, cst.If) and isinstance(statement.orelse, cst.Else):
            return self._bound_in(statement.body) & self._bound_in(statement.orelse.body)
        if not isinstance(statement, cst.SimpleStatementLine):
            return set()
        plain = [one for one in statement.body if isinstance(one, (cst.Assign, cst.AnnAssign))]
        changed = any(isinstance(node, cst.Subscript) for one in plain for node in _targets(one))
        return set() if changed else {path for one in plain for path in bound_paths(one)}

    def _bound_in(self, block: cst.CSTNode) -> set[str]:
        """The variables that every way through a block binds."""
        return {path for one in getattr(block, "body", ()) for path in self._certainly_binds(one)}

    def _reads(self, statement: cst.CSTNode) -> set[str]:
        """The variables that `statement` reads, without those that it certainly binds before."""
        if isinstance(statement, cst.SimpleStatementLine):
            return {path for one in statement.body for path in paths(_value(one))}
        found = set[str]()
        for child in children(statement):
            if isinstance(child, cst.IndentedBlock):
                bound = set[str]()
                for one in child.body:
                    found |= self._reads(one) - bound
                    bound |= self._certainly_binds(one)
            else:
                found |= paths(child) if isinstance(child, cst.BaseExpression) else self._reads(child)
        return found - (bound_paths(statement) if isinstance(statement, cst.For) else set())


def _numbers(statement: cst.CSTNode) -> Iterator[str]:
    """The variables to which `statement` assigns results of calls alone, of which some make numbers of Python."""
    values = dict[str, list[str]]()
    for assign in every(statement, cst.Assign):
        for path in bound_paths(assign):
            values.setdefault(path, []).append(called_name(assign.value))
    yield from (path for path, names in values.items() if all(names) and not _NUMBERS.isdisjoint(names))


def _staying(statement: cst.CSTNode) -> Iterator[cst.CSTNode]:
    """`statement` and the nodes in it, without branches that return or raise."""
    waiting = [statement]
    while waiting:
        node = waiting.pop()
        if isinstance(node, cst.IndentedBlock) and node.body and _leaves(node.body[-1]):
            continue
        yield node
        waiting += reversed(list(children(node)))


def _leaves(statement: cst.CSTNode) -> bool:
    last = statement.body[-1] if isinstance(statement, cst.SimpleStatementLine) else None
    return isinstance(last, (cst.Return, cst.Raise)) or (
        isinstance(last, cst.Expr) and called_name(last.value) in EXITS
    )


def _constructs(statement: cst.CSTNode, call: cst.Call) -> bool:
    """Whether `statement` assigns an object that `call` constructs, by the style of its name."""
    only = statement.body[0] if isinstance(statement, cst.SimpleStatementLine) else None
    return isinstance(only, cst.Assign) and only.value is call and called_name(call)[:1].isupper()


def _loss_holders(script: Script) -> Iterator[str]:
    """The objects that hold a loss after a call, as in `model(x); loss = model.loss`."""
    for assignment in script.of_kind(cst.Assign):
        for value in every(assignment.value, cst.Attribute):
            if SPEAKS_OF_LOSS.search(value.attr.value) and not isinstance(script.source.parent(value), cst.Call):
                yield from paths(value.value)


def _buffers(script: Script) -> Iterator[str]:
    """The objects that are filled and sampled, as memories are: what they give carries no gradient."""
    methods: dict[str, set[str]] = {}
    for call in script.calls:
        if isinstance(call.func, cst.Attribute) and (owner := dotted(call.func.value)) is not None:
            methods.setdefault(owner, set()).add(call.func.attr.value)
    yield from (path for path, names in methods.items() if "sample" in names and names & _FILLING)


def _targets(one: cst.BaseSmallStatement) -> list[cst.CSTNode]:
    if isinstance(one, cst.Assign):
        return [target.target for target in one.targets]
    return [one.target] if isinstance(one, cst.AnnAssign) else []


def _value(one: cst.BaseSmallStatement) -> cst.CSTNode:
    plain = isinstance(one, (cst.Assign, cst.AnnAssign)) and not any(
        isinstance(t, cst.Subscript) for t in _targets(one)
    )
    value = one.value if isinstance(one, (cst.Assign, cst.AnnAssign)) else None
    return value if plain and value is not None else one
