"""The gradient scaler: its construction, and how it reaches each function that trains."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from amplint.codemods import parameters
from amplint.findings import Edit
from amplint.semantics.reading.scopes import dotted
from amplint.semantics.words import OPTIMIZER_NAME
from amplint.source import syntax as cst
from amplint.source.tree import every
from amplint.training.bindings import bound_paths, called_name, paths, positional
from amplint.training.derived import called_by_base
from amplint.training.observed import Observed
from amplint.training.refusal import Refusal, required
from amplint.training.script import Script
from amplint.training.states import restored_when_made

_NAMES = ("scaler", "grad_scaler", "amp_scaler")
_NO_PLACE = "there is no place for the scaler here"
_WRAPPERS = frozenset({"zip", "enumerate", "list", "tuple", "reversed", "range", "len"})


_EPOCH_LOOPS = 2
"""Number of loops around a step of which the outer one runs over epochs."""


class Scalers:
    """Constructs one scaler beside the optimizers, and passes it to the functions that need it."""

    def __init__(self, script: Script, observed: Observed, construction: Callable[[cst.CSTNode], str]) -> None:
        """`construction` returns the code that constructs a scaler below a statement.

        `passed` are the functions that construct a scaler per call unless an unseen caller passes one.
        """
        self._script = script
        self._observed = observed
        self._construction = construction
        self._known: dict[tuple[cst.FunctionDef | None, frozenset[str]], str] = {}
        self._declared: set[cst.FunctionDef] = set()
        self._passing: set[cst.Call] = set()
        self._made: dict[tuple[cst.FunctionDef | None, str], dict[cst.CSTNode, None]] = {}
        self._above: dict[cst.CSTNode, str] = {}
        self._edits: list[Edit] = []
        self._rows: list[int] = []
        self.passed: list[cst.FunctionDef] = []
        self.name = required(script.free(*_NAMES), script.top[0], f"the names {', '.join(_NAMES)} are taken")

    @property
    def edits(self) -> list[Edit]:
        """The edits that construct the scaler and pass it on. Raises Refusal."""
        made = [
            self._insertion(below, f"{name} = {self._construction(below)}")
            for (_, name), below in self._construction_statements()
        ]
        above = [
            self._script.rewrite.insert_before(statement, f"{name} = {self._construction(statement)}")
            for statement, name in self._above.items()
        ]
        return [*made, *(edit for edit in above if edit is not None), *self._edits]

    @property
    def rows(self) -> list[int]:
        """The rows at which the scaler is constructed or passed on."""
        return [
            *map(self._script.row, (*(below for _, below in self._construction_statements()), *self._above)),
            *self._rows,
        ]

    def _construction_statements(self) -> Iterator[tuple[tuple[cst.FunctionDef | None, str], cst.CSTNode]]:
        """The statements below which scalers are constructed; optimizers constructed later share the scaler."""
        for key, made in self._made.items():
            blocks = [self._script.block_of(one) for one in made] if key[1] != self.name else []
            statements = [one for one in made if not self._is_deeper(one, blocks)]
            kept: list[cst.CSTNode] = []
            for statement in sorted(statements, key=self._script.row):
                around = [block for _, block in self._script.enclosing_statements(statement)]
                if key[1] != self.name and kept and around[0] is self._script.block_of(kept[-1]):
                    kept[-1] = statement
                elif not any(block is self._script.block_of(above) for above in kept for block in around):
                    kept.append(statement)
            yield from ((key, statement) for statement in kept)

    def _is_deeper(self, statement: cst.CSTNode, blocks: list[Sequence[cst.CSTNode]]) -> bool:
        """Whether a block around that of `statement` is one of `blocks`."""
        around = [block for _, block in self._script.enclosing_statements(statement)]
        return any(block is outer for block in around[1:] for outer in blocks)

    def at(self, call: cst.Call) -> str:
        """The expression of the scaler at `call`, a backward pass or a step. Raises Refusal."""
        function = self._script.function_of(call)
        steps = [step for step in self._observed.steps if self._script.function_of(step) is function]
        roots = frozenset(root for step in steps for root in paths(self._observed.steps[step]))
        return self._scaler_of(function, roots, call) if roots else self._without_steps(function, call)

    def pass_with_state(self) -> None:
        """Pass the scaler to functions that save or restore the state of an optimizer parameter. Raises Refusal."""
        calls = self._observed.calls
        states = [call for name in ("state_dict", "load_state_dict") for call in calls.ending(name)]
        if any(map(self._restores_alone, states)):
            return
        found = True
        while found:  # a function may pass it on to another
            found = False
            for call in states:
                owner = call.func.value if isinstance(call.func, cst.Attribute) else None
                function = self._script.function_of(call)
                if function is None or not isinstance(owner, cst.Name) or self._serves(function, owner.value):
                    continue
                passed = calls.arguments_for(function, owner.value) or ()
                served = (self._serves(self._script.function_of(one), self._script.text_of(one)) for one in passed)
                if passed and all(served):
                    self._scaler_of(function, frozenset({owner.value}), call)
                    found = True

    def _restores_alone(self, call: cst.Call) -> bool:
        """Whether `call` restores the state of an optimizer where the scaler of its steps cannot be passed."""
        owner, function = (
            call.func.value if isinstance(call.func, cst.Attribute) else None,
            self._script.function_of(call),
        )
        if called_name(call) != "load_state_dict" or not isinstance(owner, cst.Name) or function is None:
            return False
        return OPTIMIZER_NAME.search(owner.value) is not None and not self._can_serve(function, owner.value)

    def _can_serve(
        self, function: cst.FunctionDef | None, optimizer: str, around: frozenset[cst.FunctionDef] = frozenset()
    ) -> bool:
        """Whether `function` has the scaler of its `optimizer`, or can be passed it by all its callers in sight.

        Those `around` are asked already.
        """
        if self._serves(function, optimizer) or function in around:
            return True
        if function is None or self._script.parameter(function, optimizer) is None:
            return False
        passed = self._observed.calls.arguments_for(function, optimizer) or ()
        homes = ((self._script.function_of(one), self._script.text_of(one)) for one in passed)
        return all(self._can_serve(*home, around | {function}) for home in homes)

    def _serves(self, function: cst.FunctionDef | None, optimizer: str) -> bool:
        """Whether `function`, or a function around it, has the scaler of its `optimizer` already."""
        if function is not None and not optimizer.startswith("self."):
            own = self._script.assignments(function, optimizer) or self._script.parameter(function, optimizer)
            if not own:
                return self._serves(self._script.function_of(function), optimizer)
        owner = self._script.method_owner(function) if optimizer.startswith("self.") else None
        return any(
            optimizer in roots and (place is function or (owner and self._script.method_owner(place) is owner))
            for place, roots in self._known
        )

    def _scaler_of(self, function: cst.FunctionDef | None, roots: frozenset[str], node: cst.CSTNode) -> str:
        """The scaler of the optimizers named by `roots` in `function`."""
        if (function, roots) not in self._known:
            self._known[function, roots] = self._found(function, roots, node)
        return self._known[function, roots]

    def _found(self, function: cst.FunctionDef | None, roots: frozenset[str], node: cst.CSTNode) -> str:
        if all(root.startswith("self.") for root in roots):
            return self._of_object(function, roots, node)
        if any(root.startswith("self.") for root in roots):
            raise Refusal(node, "some of the optimizers belong to the object and some do not")
        bindings = [
            binding
            for root in roots
            for binding in self._script.assignments(function, root)
            if not _returns_argument(binding, root)
        ]
        loops = [binding for binding in bindings if isinstance(binding, cst.For)]
        if loops and len(loops) == len(bindings):
            sources = {path for loop in loops for path in paths(loop.iter)} - _WRAPPERS
            if sources == roots:
                raise Refusal(node, "where the optimizers come from cannot be followed")
            return self._scaler_of(function, frozenset(sources), node)
        held = [path for binding in bindings for path in [_collection(binding)] if path is not None]
        known = all(one.startswith("self.") or (function and self._script.parameter(function, one)) for one in held)
        if held and len(held) == len(bindings) and known:
            return self._scaler_of(function, frozenset(held), node)
        if bindings and all(self._script.assignments(function, root) for root in roots):
            self._make_below(function, bindings, node)
            return self.name
        if function is None:
            raise Refusal(node, "the optimizer is made in another file")
        if any(self._script.parameter(function, root) for root in roots):
            return self._from_callers(function, roots, node)
        return self._scaler_of(self._script.function_of(function), roots, node)

    def _of_object(self, function: cst.FunctionDef | None, roots: frozenset[str], node: cst.CSTNode) -> str:
        owner = self._script.method_owner(function)
        homes = next(filter(None, (self._bindings_in(one, roots) for one in self._with_bases(owner))), {})
        private = (
            bool(roots)
            and f"_{self.name}" not in self._script.words
            and all(root.startswith("self._") for root in roots)
        )
        attribute = f"self.{'_' if private else ''}{self.name}"
        if len(homes) == 1:
            ((method, bindings),) = homes.items()
            self._insert(method, bindings, attribute)
        else:
            statement = self._last_attribute_assignment(owner, node)
            if owner is not None and _calls_init(statement) and restored_when_made(self._script, owner):
                self._above[statement] = attribute
            else:
                self._made.setdefault((None, attribute), {})[statement] = None
        self._known[None, frozenset({f"class {id(owner)}"})] = attribute
        return attribute

    def _bindings_in(self, owner: cst.ClassDef, roots: frozenset[str]) -> dict[cst.FunctionDef, list[cst.CSTNode]]:
        """Method of a class -> its assignments to `roots`, for the methods with any."""
        bindings = {
            method: [binding for root in sorted(roots) for binding in self._script.assignments(method, root)]
            for method in self._observed.calls.methods(owner)
        }
        return {method: found for method, found in bindings.items() if found}

    def _with_bases(self, owner: cst.ClassDef | None) -> Iterator[cst.ClassDef]:
        """A class and its bases in the file, the nearest first."""
        waiting, seen = [owner] if owner is not None else [], set[cst.ClassDef]()
        while waiting:
            one = waiting.pop(0)
            if one in seen:
                continue
            seen.add(one)
            yield one
            names = {dotted(base.value) for base in one.bases}
            waiting += (each for each in self._script.of_kind(cst.ClassDef) if each.name.value in names)

    def _last_attribute_assignment(self, owner: cst.ClassDef | None, node: cst.CSTNode) -> cst.CSTNode:
        """The call of the base's `__init__`, or the last attribute assignment with which `__init__` begins.

        Raises Refusal.
        """
        found: cst.CSTNode | None = None
        init = next((one for one in self._observed.calls.methods(owner) if one.name.value == "__init__"), None)
        for statement in init.body.body if init is not None else ():
            small = statement.body[0] if isinstance(statement, cst.SimpleStatementLine) else None
            if _calls_init(statement):
                return statement
            if isinstance(small, cst.Assign):
                found = statement
            elif found is not None or not isinstance(small, cst.Expr):
                break
        return required(found, node, "the optimizer of the object is not made in one method of its class in this file")

    def _without_steps(self, function: cst.FunctionDef | None, node: cst.CSTNode) -> str:
        """The scaler in a function that computes gradients for a step of its caller."""
        owner = self._script.method_owner(function)
        if owner is not None:
            mine = frozenset({f"class {id(owner)}"})
            steps = [
                step
                for step in self._observed.steps
                if self._script.method_owner(self._script.function_of(step)) is owner
            ]
            if steps and all(self.at(step).startswith("self.") for step in steps):
                return self._known[None, mine]
        if function is None:
            raise Refusal(node, "no optimizer in sight uses the gradients of this backward pass")
        callers = self._observed.calls.callers(function)
        every = positional(function)
        optional = not every or every[-1].default is not None
        if not callers or optional or not parameters.takes_more(function):
            raise Refusal(node, f"{function.name.value}() would need the scaler, and cannot be given one here")
        scaler = parameters.New(self.name, self._kind(every[-1]), "None")
        for call in callers:
            self._add(parameters.passed_last(self._script, function, call, (scaler, self.at(call))), call)
        self._declare(function, every[-1])
        return self.name

    def _from_callers(self, function: cst.FunctionDef, roots: frozenset[str], node: cst.CSTNode) -> str:
        """Add the scaler as a parameter of `function` after its optimizer, and as an argument of its callers."""
        found = [place for root in roots if (place := self._script.parameter(function, root)) is not None]
        _, parameter = max(found, key=lambda place: place[0])
        if len(found) < len(roots):
            raise Refusal(node, f"some of the optimizers are no parameters of {function.name.value}()")
        callers = self._observed.calls.callers(function)
        if not callers:
            return self._constructed_alone(function, node)
        default = parameter.default is not None
        self._declare(function, parameter)
        for call in (one for one in callers if one not in self._passing):
            passed = [self._observed.calls.argument(call, function, param.name.value) for _, param in found]
            given = [argument for argument in passed if argument is not None]
            if not given and default:
                continue
            named = all(dotted(argument.value) is not None for argument in given)
            if len(given) < len(found) or not named or any(argument.star for argument in call.args):
                raise Refusal(call, "the optimizer cannot be followed into this call")
            absent = all(dotted(argument.value) == "None" for argument in given)
            outer = frozenset(path for argument in given for path in paths(argument.value))
            name = "None" if absent else self._scaler_of(self._script.function_of(call), outer, call)
            last = max(call.args.index(argument) for argument in given)
            text = f"{self.name}={name}" if call.args[last].keyword is not None else name
            self._passing.add(call)
            self._add(self._script.rewrite.insert_argument(call, last + 1, text), call)
        return self.name

    def _constructed_alone(self, function: cst.FunctionDef, node: cst.CSTNode) -> str:
        """The scaler of a function that unseen code calls: an attribute of its object, or its own. Raises Refusal."""
        owner = self._script.method_owner(function)
        if any(one.name.value == "__init__" for one in self._observed.calls.methods(owner)):
            return self._of_object(function, frozenset(), node)
        self._construct_above_loop(function, node)
        return self.name

    def _construct_above_loop(self, function: cst.FunctionDef, node: cst.CSTNode) -> None:
        """Construct the scaler above the loop that steps, unless an unseen caller passes one. Raises Refusal."""
        loops = self._script.loops_around(node) if self._script.function_of(node) is function else []
        inner = self._returned_function(function, node)
        if inner is not None:
            self._above[inner] = self.name
            return
        called = self._script.statement_of(node) if isinstance(node, cst.Call) and self._runs_epoch(node) else None
        if not loops and called is None:
            why = (
                f"{function.name.value}() gets its optimizer from code out of sight, which would have to pass a scaler"
            )
            raise Refusal(node, why)
        outer = loops[-1] if loops else required(called, node, _NO_PLACE)
        made = f"{self.name} = {self._construction(outer)}"
        if not _counts(outer) or len(loops) < _EPOCH_LOOPS:
            if not parameters.takes_more(function):
                raise Refusal(function, f"{function.name.value}() cannot take a scaler as its last parameter")
            last = positional(function)[-1]
            kind = f": {self._optional(last)} = None" if last.annotation is not None else "=None"
            self._edits.append(parameters.behind(self._script, last, f"{self.name}{kind}"))
            made = f"if {self.name} is None:\n    {made}"
            self.passed.append(function)
        self._add(self._script.rewrite.insert_before(outer, made), outer)

    def _runs_epoch(self, call: cst.Call) -> bool:
        """Whether `call` runs a function of the file that steps in a loop."""
        targets = self._observed.calls.targets(call)
        steps = [step for step in self._observed.steps if self._script.function_of(step) in targets]
        return any(self._script.loops_around(step) for step in steps)

    def _returned_function(self, function: cst.FunctionDef, node: cst.CSTNode) -> cst.FunctionDef | None:
        """The function around `node` that `function` defines and returns, as one that makes an update does."""
        inner = self._script.function_of(node)
        while inner is not None and self._script.function_of(inner) is not function:
            inner = self._script.function_of(inner)
        returned = {dotted(one.value) for one in self._script.returns(function) if one.value is not None}
        return inner if inner is not None and inner.name.value in returned else None

    def _declare(self, function: cst.FunctionDef, behind: cst.Param) -> None:
        if function in self._declared:
            return
        place = called_by_base(self._script, function)
        if place is not None:
            why = f"{place[0]}:{place[1]} calls {function.name.value}() for a base class, which has no scaler to pass"
            raise Refusal(function, why)
        self._declared.add(function)
        scaler = parameters.New(self.name, self._kind(behind), "None")
        self._edits.append(parameters.declared_behind(self._script, behind, scaler))
        self._rows.append(self._script.row(function))

    def _kind(self, behind: cst.Param) -> str:
        """The annotation of a scaler after the parameter of its optimizer."""
        text = self._script.text_of(behind.annotation.annotation) if behind.annotation is not None else ""
        if text.startswith("Optional["):
            return "Optional[torch.amp.GradScaler]"
        return "torch.amp.GradScaler | None" if text.endswith("| None") else "torch.amp.GradScaler"

    def _optional(self, behind: cst.Param) -> str:
        """The annotation of a scaler after the last parameter, that may be None."""
        kind = self._kind(behind)
        return kind if kind.startswith("Optional[") or kind.endswith("| None") else f"{kind} | None"

    def _make_below(self, function: cst.FunctionDef | None, bindings: list[cst.CSTNode], node: cst.CSTNode) -> None:
        here = self._script.function_of(node) is function
        common = self._script.common([*bindings, node]) if here else None
        if common is not None:
            block, statements = common
            order = [block.index(statement) for statement in statements]
            before = [one for one, place in zip(bindings, order, strict=False) if place < order[-1]]
            if not before:
                self._above[statements[-1]] = self.name
                return
            bindings = before
        self._insert(function, bindings, self.name, node if here else None)

    def _insert(
        self,
        function: cst.FunctionDef | None,
        bindings: list[cst.CSTNode],
        name: str,
        use: cst.CSTNode | None = None,
    ) -> None:
        first = [one for one in bindings if self._script.loop_of(one) is None]
        bindings = first or bindings  # what a loop makes anew later is stepped by the same scaler
        common = self._script.common([*bindings, *([use] if use is not None else [])])
        if common is None:
            raise Refusal(bindings[0], "the optimizers are made in different places")
        block, statements = common
        made = statements[: len(bindings)]
        last = max(made, key=block.index)
        if any(isinstance(binding, cst.With) for binding in bindings):
            raise Refusal(bindings[0], "the optimizer is made by a with statement")
        epochs = self._loop_of_epochs(function, bindings)
        loop = epochs or (self._loop_around(function, bindings) if name == self.name else None)
        if loop is not None:
            self._above[loop] = self.name
            return
        self._made.setdefault((function, name), {})[last] = None

    def _loop_around(self, function: cst.FunctionDef | None, bindings: list[cst.CSTNode]) -> cst.CSTNode | None:
        """The outermost loop in which an optimizer is made again, of a model from outside of it."""
        loops = [self._script.loop_of(one) for one in bindings]
        if len(set(loops)) != 1 or loops[0] is None:
            return None
        outer: cst.CSTNode = loops[0]
        while (around := self._script.loop_of(outer)) is not None:
            outer = around
        read = _given_first(bindings)
        made = (one for path in read or () for one in self._script.assignments(function, path))
        return outer if read and not any(self._script.inside(outer, one) for one in made) else None

    def _loop_of_epochs(self, function: cst.FunctionDef | None, bindings: list[cst.CSTNode]) -> cst.CSTNode | None:
        """The loop that calls `function` in each epoch, which constructs an optimizer of the same model again."""
        if function is None or self._script.function_of(function) is not None or self._script.method_owner(function):
            return None
        calls = self._observed.calls.callers(function) or []
        loops = [self._script.loop_of(call) for call in calls if self._script.function_of(call) is None]
        read = _given_first(bindings)
        own = read is None or any(
            self._script.assignments(function, path) or self._script.parameter(function, path) for path in read
        )
        if own or len(loops) != len(calls) or len(set(loops)) != 1 or loops[0] is None:
            return None
        return [loops[0], *self._script.loops_around(loops[0])][-1]

    def _insertion(self, below: cst.CSTNode, code: str) -> Edit:
        restores = any(dotted(call.func) in _restoring(below) for call in every(below, cst.Call))
        rewrite = self._script.rewrite
        edit = rewrite.insert_before(below, code) if restores else rewrite.insert_after(below, code)
        return required(edit, below, _NO_PLACE)

    def _add(self, edit: Edit | None, node: cst.CSTNode) -> None:
        self._edits.append(required(edit, node, _NO_PLACE))
        self._rows.append(self._script.row(node))


def _given_first(bindings: Sequence[cst.CSTNode]) -> set[str] | None:
    """The paths in the first arguments of the calls that make optimizers; None where one is made otherwise."""
    calls = [one.value for one in bindings if isinstance(one, cst.Assign) and isinstance(one.value, cst.Call)]
    complete = len(calls) == len(bindings)
    return {path for call in calls for argument in call.args[:1] for path in paths(argument)} if complete else None


def _collection(binding: cst.CSTNode) -> str | None:
    """The path of what `binding` indexes or unpacks, or takes an optimizer from; None for any other value."""
    if not isinstance(binding, cst.Assign):
        return None
    if isinstance(binding.value, cst.Attribute) and binding.value.attr.value == "optimizer":
        return dotted(binding.value.value)
    unpacked = isinstance(binding.targets[0].target, (cst.Tuple, cst.List))
    owner = binding.value.value if isinstance(binding.value, cst.Subscript) else binding.value if unpacked else None
    return dotted(owner) if owner is not None else None


def _counts(loop: cst.CSTNode) -> bool:
    """Whether `loop` is a `while` loop or runs over a count."""
    over = loop.iter if isinstance(loop, cst.For) else None
    return over is None or (isinstance(over, cst.Call) and dotted(over.func) in ("range", "trange", "tqdm.trange"))


def _restoring(statement: cst.CSTNode) -> set[str]:
    """The calls that restore the state of objects constructed in a compound statement."""
    if isinstance(statement, cst.SimpleStatementLine):
        return set()
    return {f"{path}.load_state_dict" for one in every(statement, cst.Assign) for path in bound_paths(one)}


def _returns_argument(binding: cst.CSTNode, root: str) -> bool:
    """Whether `binding` passes `root` through a call, as in `optimizer = decay(optimizer)`."""
    return (
        isinstance(binding, cst.Assign)
        and isinstance(binding.value, cst.Call)
        and any(dotted(argument.value) == root for argument in binding.value.args)
    )


def _calls_init(statement: cst.CSTNode) -> bool:
    """Whether a statement calls the `__init__` of a base class."""
    small = statement.body[0] if isinstance(statement, cst.SimpleStatementLine) else None
    return isinstance(small, cst.Expr) and called_name(small.value) == "__init__"
