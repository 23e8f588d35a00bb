"""The autocast regions: around the forward passes and losses of training, and the forward passes of evaluation."""

from __future__ import annotations

import builtins
from collections.abc import Callable, Iterable, Iterator, Set
from dataclasses import field

from amplint.codemods.writers.beside import Beside
from amplint.codemods.writers.exits import Exits
from amplint.findings import Edit, Position, Span
from amplint.records import dataclass
from amplint.semantics.models.half_outputs import is_loss
from amplint.semantics.reading.scopes import dotted
from amplint.semantics.words import SPEAKS_OF_LOSS
from amplint.source import syntax as cst
from amplint.source.tree import every, walk
from amplint.torchlib.policy import words
from amplint.training.bindings import bound_paths, called_name, callee, constructor, paths
from amplint.training.flow import Flow, NoForward
from amplint.training.observed import Observed, disables_gradients, is_no_grad_block
from amplint.training.operands import OF_CLASSES
from amplint.training.places import Block, clauses
from amplint.training.refusal import required
from amplint.training.script import Script

_TRIVIAL = words("mean sum detach div mul squeeze float item neg add get items keys values flatten stack view")
_OF_TENSORS = words(
    "to cuda cpu float long item view reshape view_as size detach clone max Variable LongTensor FloatTensor tensor "
    "zeros ones randn rand argmax eq sum mean squeeze unsqueeze flatten permute transpose contiguous"
)
_WEIGHTS = frozenset({"parameters", "named_parameters", "modules", "named_modules"})
_LEAVING = frozenset({"item", "numpy", "tolist", "cpu", "append", "update", "write"})
_GAP = 2
_NEAR = 3
"""The number of statements behind a forward pass of evaluation that may be anything."""
_WIDTH = 110
"""The last column up to which a header takes another context."""


@dataclass
class Region:
    """Consecutive statements of one block; those in `computing` run models or compute losses from their results."""

    statements: list[cst.CSTNode] = field(default_factory=list)
    computing: Set[cst.CSTNode] = frozenset()


class Regions:
    """Finds the statements for regions and writes the regions; for evaluation only at places that `can_be` one."""

    def __init__(
        self,
        script: Script,
        observed: Observed,
        flow: Flow,
        can_be: Callable[[cst.CSTNode], bool] = lambda place: True,
        *,
        exits: bool = False,
    ) -> None:
        self._can_be = can_be
        self._script = script
        self._observed = observed
        self._flow = flow
        self.training: list[Region] = []
        self.alone: dict[cst.Call, NoForward] = {}
        """The backward passes of losses without a model in sight, if there are others, and why."""
        self._apart: list[cst.CSTNode] = []
        self.exits = Exits(script, observed, flow, self._parts) if exits else None
        self._find()
        self.training, ended = self._ended(self.training)
        losses = self._losses()
        half, self.training = self.training, [*self.training, *ended]
        self.evaluation, apart = self._ended(self._evaluations(losses))
        self._beside = Beside(
            script, observed, flow, _statements((*half, *self.evaluation)), losses, _statements((*ended, *apart))
        )
        chosen = dict.fromkeys(one for region in self.evaluation for one in region.computing)
        chosen |= dict.fromkeys(self._beside.statements)
        found, late = self._ended(Region(run, chosen.keys()) for run in self._runs(chosen))
        self.evaluation = [region for region in found if not self._merge_into_training(region)]
        apart += late
        self.training, ended = self._apart_from(half, ended)
        self.evaluation, apart = self._apart_from(self.evaluation, apart)
        self.training += ended
        self.evaluation += apart

    def _ended(self, regions: Iterable[Region]) -> tuple[list[Region], list[Region]]:
        """Those of `regions` whose outputs may stay half, and what the others become, whose outputs are float32."""
        whole, ended = list[Region](), list[Region]()
        for region in sorted(regions, key=lambda one: self._script.row(one.statements[0])):
            runs = self.exits.narrowed(region.statements) if self.exits is not None else None
            whole += [region] if runs is None else []
            ended += (Region(run, {*run}) for run in runs or ())
        return whole, ended

    def _apart_from(self, whole: list[Region], ended: list[Region]) -> tuple[list[Region], list[Region]]:
        """The regions that are `whole`, and those that have `ended`, so that none stands in another one."""
        inner = _statements(ended)
        whole = [region for region in whole if not all(self._is_in(inner, one) for one in region.statements)]
        outer = _statements(whole)
        left = [[one for one in region.statements if not self._is_in(outer, one)] for region in ended]
        return whole, [Region(run, {*run}) for run in left if run]

    def _is_in(self, statements: Iterable[cst.CSTNode], node: cst.CSTNode) -> bool:
        return any(self._script.inside(one, node) for one in statements)

    def _merge_into_training(self, region: Region) -> bool:
        """Merge a region into one of training right above it; return whether there is one."""
        block = self._script.block_of(region.statements[0])
        for one in self.training:
            if block.index(region.statements[0]) and block[block.index(region.statements[0]) - 1] is one.statements[-1]:
                one.statements += region.statements
                one.computing = {*one.computing, *region.computing}
                return True
        return False

    def edits(self, header: Callable[[cst.CSTNode], str]) -> Iterator[Edit]:
        """Every region, below the `header` for its first statement.

        Raises Refusal if a statement shares its line with others.
        """
        for region in (*self.training, *self.evaluation):
            first = region.statements[0]
            below = self._header_end(region)
            if below is not None and below.column + len(header(first)) < _WIDTH:
                yield Edit(Span(below, below), f", {header(first)}")
                continue
            yield from required(self._script.rewrite.wrap_statements(region.statements, f"with {header(first)}"), first)
        yield from self._beside.widened()

    def foreign_calls(self) -> Iterator[tuple[int, str]]:
        """Row and name of the calls that pass half tensors to a library other than PyTorch's.

        Outside of regions these are outputs of a model, within regions values of training.
        """
        statements = (statement for region in self.training for statement in region.statements)
        inside = (call for statement in statements for call in every(statement, cst.Call))
        strange = (one for one in inside if (dotted(one.func) or "").partition(".")[0] in self._observed.foreign)
        for call in (*filter(self._beside.halves.arguments, strange), *self._beside.foreign_calls):
            yield self._script.row(call), self._script.text_of(call.func)

    def rows(self) -> list[int]:
        """The rows in which regions begin."""
        return sorted(self._script.row(region.statements[0]) for region in (*self.training, *self.evaluation))

    def _find(self) -> None:
        chosen: dict[cst.CSTNode, None] = {}
        for backward in self._observed.losses:
            try:
                chosen |= dict.fromkeys(self._flow.computing(backward))
            except NoForward as refusal:
                self.alone[backward] = refusal
        for alone in self.alone.values() if not chosen else ():
            raise alone
        labels = self._labels(chosen)
        self._apart = [one for one in chosen if is_no_grad_block(one) and self._flow.binds(one) & labels]
        chosen = {one: None for one in chosen if one not in self._apart and not self._acts(one)}
        chosen = {one: None for one in chosen if not self._sets_up(one)} or chosen
        self._add_followers(chosen)
        made = self._made(chosen)
        runs = [self._from_half(run, made) for run in self._runs(chosen)]
        runs = [run for run in runs if run and run not in self._collecting(runs)]
        self.training = [Region(self._without_regularizers(run), chosen.keys()) for run in runs]

    def _made(self, chosen: Iterable[cst.CSTNode]) -> set[str]:
        """The variables that `chosen` statements compute of what models give, without losses."""
        made, known = set[str](), -1
        while known < len(made):
            known = len(made)
            for one in chosen:
                if (self._flow.runs_model(one) or paths(one) & made) and not _is_loss_of(one):
                    made |= self._flow.binds(one)
        return made

    def _from_half(self, run: list[cst.CSTNode], made: Set[str]) -> list[cst.CSTNode]:
        """`run` from the first statement that autocast affects on; empty if there is none."""
        affected = (index for index, one in enumerate(run) if self._needs_autocast(one, made))
        return run[next(affected, len(run)) :]

    def _acts(self, statement: cst.CSTNode) -> bool:
        """Whether `statement` is a loop that runs models without gradients alone."""
        runs = isinstance(statement, (cst.For, cst.While)) and self._flow.runs_model(statement)
        return runs and not self._flow.runs_model(statement, differentiably=True)

    def _collecting(self, runs: list[list[cst.CSTNode]]) -> list[list[cst.CSTNode]]:
        """Those of `runs` that run models without gradients alone, as acting does: these get regions of evaluation."""
        found, graph = [], set[str]()
        for run in runs:
            differentiable = False
            for one in run:
                if self._flow.runs_model(one, differentiably=True) or paths(one) & graph:
                    differentiable = True
                    graph |= self._flow.binds(one)
            if not differentiable and any(map(self._flow.runs_model, run)):
                found.append(run)
        return found if len(found) < len(runs) else []

    def _without_regularizers(self, run: list[cst.CSTNode]) -> list[cst.CSTNode]:
        """`run` without the last statements that add to the loss what they compute of weights alone."""
        end = len(run)
        while end > 1 and self._is_of_weights(run[end - 1], run[: end - 1]):
            end -= 1
        return run[:end]

    def _is_of_weights(self, statement: cst.CSTNode, before: list[cst.CSTNode]) -> bool:
        """Whether `statement` reads, of what is made `before` it, losses alone, and a model that it does not run."""
        if not isinstance(statement, cst.SimpleStatementLine) or self._flow.runs_model(statement):
            return False
        read = paths(statement) & {path for one in before for path in self._flow.binds(one)}
        if not read or not all(SPEAKS_OF_LOSS.search(path) for path in read):
            return False
        models = paths(statement) & self._observed.models
        given = [
            call
            for call in every(statement, cst.Call)
            if any(dotted(one.value) in self._observed.models for one in call.args)
        ]
        known = all(any(map(self._reads_weights, self._observed.calls.runs(call))) for call in given)
        lists = any(called_name(call) in _WEIGHTS for call in every(statement, cst.Call))
        return bool(models) and known and (bool(given) or lists)

    def _reads_weights(self, function: cst.CSTNode) -> bool:
        """Whether a function goes through the weights of a model, or its layers, and calls nothing that it is given."""
        params = {one.name.value for one in every(function, cst.Param)}
        calls = list(every(function, cst.Call))
        return any(called_name(call) in _WEIGHTS for call in calls) and not any(
            dotted(call.func) in params for call in calls
        )

    def shorten(self) -> None:
        """End regions of training with the last statement that autocast affects, unless that leaves a loss alone."""
        for region in self.training:
            while len(region.statements) > 1 and not self._needs_autocast(region.statements[-1]):
                region.statements.pop()

    def _labels(self, chosen: Iterable[cst.CSTNode]) -> set[str]:
        """The variables that are labels of classification losses, which half would select differently."""
        return {
            path
            for statement in chosen
            for call in every(statement, cst.Call)
            if self._is_of_classes(call.func)
            for argument in call.args[1:2]
            for path in paths(argument.value)
        }

    def _is_of_classes(self, func: cst.BaseExpression) -> bool:
        name = dotted(func) or ""
        made = (
            one.value
            for one in self._script.of_kind(cst.Assign)
            if isinstance(one, cst.Assign) and name in bound_paths(one, whole=True)
        )
        names = [name, *(dotted(one.func) or "" for one in made if isinstance(one, cst.Call))]
        return any(one.rpartition(".")[2] in OF_CLASSES for one in names)

    def _needs_autocast(self, statement: cst.CSTNode, made: Set[str] | None = None) -> bool:
        """Whether autocast affects `statement`, or what it computes from `made`.

        It does not if that only is added up, divided or read.
        """

        def depends(call: cst.Call) -> bool:
            return made is None or bool(paths(call) & made or self._observed.calls.targets(call))

        operators = (operation.operator for operation in every(statement, cst.BinaryOperation))
        return (
            self._flow.runs_model(statement)
            or any(not _is_trivial(call) and depends(call) for call in every(statement, cst.Call))
            or any(isinstance(operator, cst.MatrixMultiply) for operator in operators)
        )

    def _add_followers(self, chosen: dict[cst.CSTNode, None]) -> None:
        """Add forward passes without a loss: on half results of a region they need one, too."""
        made = {path for statement in chosen for path in self._flow.binds(statement)}
        for statement in list(chosen):
            block = self._script.block_of(statement)
            for following in block[block.index(statement) + 1 :]:
                plain = isinstance(following, cst.SimpleStatementLine) and not self._parts(following)
                if plain and self._flow.runs_model(following) and paths(following) & made:
                    chosen[following] = None
                    made |= self._flow.binds(following)

    def _header_end(self, region: Region) -> Position | None:
        """The end of the header of a gradient-disabling `with` whose whole body is the region; None otherwise."""
        body = self._script.source.parent(region.statements[0])
        above = self._script.source.parent(body) if body is not None else None
        if not isinstance(above, cst.With) or not is_no_grad_block(above):
            return None
        if len(self._script.block_of(region.statements[0])) > len(region.statements):
            return None
        last = above.items[-1]
        bare = last.asname is None and not self._script.rewrite.parentheses(last.item)
        return self._script.source.span(last.item).end if bare else None

    def _runs(self, chosen: dict[cst.CSTNode, None]) -> list[list[cst.CSTNode]]:
        """`chosen` grouped by blocks, adjacent ones together with the statements in between, unless these train."""
        runs = list(self._runs_of_blocks(chosen))
        within = [one for run in runs for one in run if one not in chosen]
        return [run for run in runs if not any(self._script.inside(one, run[0]) for one in within if one not in run)]

    def _runs_of_blocks(self, chosen: dict[cst.CSTNode, None]) -> Iterator[list[cst.CSTNode]]:
        outermost = [
            one for one in chosen if not any(other is not one and self._script.inside(other, one) for other in chosen)
        ]
        blocks: dict[int, Block] = {}
        for statement in outermost:
            block = self._script.block_of(statement)
            blocks[id(block) if block is not self._script.top else 0] = block
        for block in blocks.values():
            indices = [index for index, one in enumerate(block) if one in outermost]
            run = [indices[0]]
            for index in indices[1:]:
                between = block[run[-1] + 1 : index]
                if len(between) <= _GAP and not any(map(self._parts, between)):
                    run.append(index)
                    continue
                yield list(block[run[0] : run[-1] + 1])
                run = [index]
            yield list(block[run[0] : run[-1] + 1])

    def _parts(self, statement: cst.CSTNode) -> bool:
        """Whether `statement` must stay outside of regions; a `yield` would leave them open."""
        yields = any(isinstance(node, cst.Yield) for node in walk(statement))
        return yields or self._flow.trains(statement) or isinstance(statement, (cst.FunctionDef, cst.ClassDef))

    def _losses(self) -> set[str]:
        """The names of the callees in the regions of training, forward passes and metrics apart."""
        return {
            name
            for region in self.training
            for metrics in [list(self._metrics(region.statements))]
            for statement in region.statements
            for node in every(statement, cst.Call)
            if (name := callee(node))
            and node not in self._observed.forwards
            and name.rpartition(".")[2] not in _OF_TENSORS
            and not hasattr(builtins, name)
            and not any(self._script.inside(one, node) for one in metrics)
        }

    def _metrics(self, statements: list[cst.CSTNode]) -> Iterator[cst.CSTNode]:
        """The assignments in a region of variables that neither the loss differentiated here nor the region reads."""
        home = self._script.function_of(statements[0])
        losses = [loss for loss in self._observed.losses.values() if self._script.function_of(loss) is home]
        plain = [one for statement in statements for one in every(statement, cst.Assign)]
        names = [one for statement in statements for one in every(statement, cst.Name)]
        targets = {name for one in plain for target in one.targets for name in every(target, cst.Name)}
        read = {name.value for name in names if name not in targets} | {path for one in losses for path in paths(one)}
        for one in plain if losses else ():
            if all(isinstance(target.target, cst.Name) for target in one.targets) and not bound_paths(one) & read:
                yield one

    def _evaluations(self, losses: set[str]) -> Iterator[Region]:
        """The regions of evaluation, without those that call a function with a region of its own."""
        chosen: dict[cst.CSTNode, None] = {}
        taken: list[cst.CSTNode] = [one for region in self.training for one in region.statements]
        covered = self._observed.calls.reached(taken)
        for way in self._observed.evaluations:
            own = [call for call in reversed(way) if not self._is_trained(call, covered) and self._can_be(call)]
            own = [call for call in own if not self._sets_up(call)]
            apart = (call for call in own if disables_gradients(self._script.source, call))
            call = next(apart, own[0] if own else None)
            statement = self._script.statement_of(call) if call is not None else None
            if statement is None or not isinstance(statement, cst.SimpleStatementLine):
                continue
            if self._script.function_of(statement) in covered:
                continue
            if any(self._script.inside(one, statement) for one in (*taken, *self._apart)) or self._parts(statement):
                continue
            run = self._mirrored(statement) or self._with_losses(statement, losses)
            taken += self._enclosing_run(run)
            chosen.update(dict.fromkeys(run))
        self._join_branches(chosen)
        runs = self._runs(chosen)
        homes = {self._script.function_of(run[0]) for run in (*(one.statements for one in self.training), *runs)}
        for run in runs:
            if not self._observed.calls.reached(run) & homes - {self._script.function_of(run[0])}:
                yield Region(run, {one for one in chosen if any(self._script.inside(each, one) for each in run)})

    def _is_trained(self, call: cst.CSTNode, covered: Set[cst.CSTNode]) -> bool:
        """Whether training runs `call`, in a region or in a function that is `covered` by one."""
        if call not in self._observed.shared:
            return False
        inside = any(self._script.inside(one, call) for region in self.training for one in region.statements)
        return inside or self._script.function_of(call) in covered

    def _sets_up(self, node: cst.CSTNode) -> bool:
        """Whether `node` leads to a function that makes an optimizer which the file steps."""
        optimizers = {path for one in self._observed.steps.values() if (path := dotted(one)) is not None}
        functions = (one for one in self._observed.calls.reached([node]) if isinstance(one, cst.FunctionDef))
        return any(self._script.assignments(one, path) for one in functions for path in optimizers)

    def _join_branches(self, chosen: dict[cst.CSTNode, None]) -> None:
        """Choose a condition instead of its branches, if these are chosen as a whole and leave none out."""
        for statement in list(chosen):
            around = [one for one, _ in self._script.enclosing_statements(statement)][1:2]
            found = list(clauses(around[0])) if around and isinstance(around[0], cst.If) else []
            inside = [one for clause in found for one in clause.body.body]
            if found and isinstance(found[-1], cst.Else) and all(one in chosen for one in inside):
                chosen.update(dict.fromkeys(around))
                for one in inside:
                    del chosen[one]

    def _enclosing_run(self, statements: list[cst.CSTNode]) -> Block:
        """The statements of a block from the first to the last of `statements`."""
        block = self._script.block_of(statements[0])
        return block[block.index(statements[0]) : block.index(statements[-1]) + 1]

    def _mirrored(self, statement: cst.CSTNode) -> list[cst.CSTNode]:
        """The condition around `statement`, if its code is that of one in a region of training; else nothing."""
        trained = [one for region in self.training for one in region.statements if isinstance(one, cst.If)]
        for one, _ in self._script.enclosing_statements(statement):
            if isinstance(one, cst.If) and any(one.deep_equals(other) for other in trained):
                return [one]
        return []

    def _with_losses(self, statement: cst.CSTNode, losses: set[str]) -> list[cst.CSTNode]:
        """`statement`, a forward pass, and its dependents up to the last loss function that training uses as well.

        If these follow the condition or `try` around it, or a block without gradients of the forward pass alone, that
        is included.
        """
        for one, block in self._script.enclosing_statements(statement):
            around = isinstance(one, (cst.If, cst.Try)) or self._only_runs_without_gradients(one)
            if one is not statement and (not around or self._flow.trains(one)):
                break
            run = self._up_to_loss(one, block, losses)
            if len(run) > 1:
                return run
        return [statement]

    def _only_runs_without_gradients(self, statement: cst.CSTNode) -> bool:
        """Whether a statement is a forward pass, with few others, below a `with` that disables gradients."""
        body = statement.body.body if isinstance(statement, cst.With) and is_no_grad_block(statement) else ()
        return 0 < len(body) <= _NEAR and all(isinstance(one, cst.SimpleStatementLine) for one in body)

    def _up_to_loss(self, statement: cst.CSTNode, block: Block, losses: set[str]) -> list[cst.CSTNode]:
        """`statement` and its dependents among the next statements of `block`, up to the last loss in `losses`.

        These are few, or compute nothing but tensors.
        """
        start = block.index(statement)
        tainted, found, end = self._flow.binds(statement), [statement], 1
        apart = 0
        for place, following in enumerate(block[start + 1 :]):
            if not isinstance(following, cst.SimpleStatementLine) or self._parts(following):
                break
            if place >= _NEAR and (apart > _GAP or not self._computes_tensors(following, losses)):
                break
            apart = 0 if paths(following) & tainted else apart + 1
            if apart:
                continue
            tainted |= self._flow.binds(following)
            found.append(following)
            calls = every(following, cst.Call)
            if any(callee(call) in losses or call in self._observed.forwards for call in calls):
                end = len(found)
        return found[:end]

    def _computes_tensors(self, statement: cst.SimpleStatementLine, losses: set[str]) -> bool:
        """Whether a statement assigns what operations of PyTorch, methods of tensors, or `losses` compute."""
        calls = list(every(statement, cst.Call))
        known = (callee(call) in losses or _is_of_torch(call) or called_name(call)[:1].isupper() for call in calls)
        return len(statement.body) == 1 and isinstance(statement.body[0], cst.Assign) and all(known)


def _statements(regions: Iterable[Region]) -> list[cst.CSTNode]:
    return [statement for region in regions for statement in region.statements]


def computes(loss: cst.BaseExpression) -> bool:
    """Whether an expression does more than to add up, average or pick losses that are there already."""
    return not all(map(_is_trivial, every(loss, cst.Call)))


def _is_of_torch(call: cst.Call) -> bool:
    """Whether a call is of an operation of PyTorch, or of a method that is none of a tensor's to NumPy or to Python."""
    owner = (dotted(call.func) or "").partition(".")[0]
    return isinstance(call.func, cst.Attribute) and owner not in ("np", "numpy") and called_name(call) not in _LEAVING


def _is_loss_of(statement: cst.CSTNode) -> bool:
    """Whether `statement` assigns the result of a loss by its name, possibly detached or moved."""
    only = statement.body[0] if isinstance(statement, cst.SimpleStatementLine) else None
    return isinstance(only, cst.Assign) and is_loss(called_name(constructor(only.value)))


def _is_trivial(call: cst.Call) -> bool:
    return isinstance(call.func, cst.Attribute) and call.func.attr.value in _TRIVIAL
