"""Where autocast has to be on: the forward passes of models, with the losses computed from them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from amplint.codemods.bindings import bound_paths, called_name, changed, paths
from amplint.codemods.interpretation import Interpretation
from amplint.codemods.scopes import Scope
from amplint.codemods.script import Script
from amplint.records import dataclass
from amplint.semantics.events import Backward, Event, Forward, Purpose, Recipe
from amplint.semantics.words import SPEAKS_OF_LOSS
from amplint.source import syntax as cst
from amplint.source.tree import every, walk

_TRIVIAL = frozenset(
    {
        "mean",
        "sum",
        "item",
        "len",
        "size",
        "dim",
        "numel",
        "detach",
        "float",
        "append",
        "isinstance",
        "zero_grad",
        "scale",
    }
)


@dataclass(frozen=True, slots=True)
class Stretch:
    """The statements from `first` to `last` of one block, in the function `scope`; `training` where a loss comes."""

    first: cst.BaseStatement
    last: cst.BaseStatement
    scope: Scope
    training: bool


class Passes:
    """The forward and backward passes of a script."""

    def __init__(self, script: Script, is_model: Callable[[Scope, str], bool]) -> None:
        self.script = script
        self.is_model = is_model
        self.forwards: list[Forward] = []
        self.backwards: list[cst.Call] = []
        interpretation = Interpretation(script)
        self.calls = interpretation.calls
        interpretation.follow(self._note, Forward, Backward)
        self.backwards += [c for c in script.calls if _is_backward(c) and c not in self.backwards]
        self.backwards.sort(key=script.row)

    def _note(self, event: Event) -> None:
        if isinstance(event, Forward):
            self.forwards.append(event)
        elif isinstance(event.node, cst.Call) and self.script.source.owns(event.node):
            self.backwards.append(event.node)

    def sites(self, scope: Scope) -> list[cst.CSTNode]:
        """The calls in the function `scope` by which forward passes run."""
        found: dict[cst.CSTNode, None] = {}
        for event in self.forwards:
            if event.autocast is not Recipe.ON and event.gradients is not False:
                for _, call in event.way:
                    if self.script.source.owns(call) and self.script.scope(call) == scope:
                        found[call] = None
        return sorted(found or self._handed(scope), key=self.script.row)

    def _handed(self, scope: Scope) -> list[cst.Call]:
        """The calls in the function `scope` that assign what they make of a model to variables."""
        found = []
        for call in self.script.calls:
            if self.script.scope(call) == scope and isinstance(self.script.source.parent(call), cst.Assign):
                given = [call.func, *(argument.value for argument in call.args)]
                if any(self.is_model(scope, self.script.text_of(each)) for each in given):
                    found.append(call)
        return found

    def training(self, backward: cst.Call) -> Stretch | None:
        """What has to run under autocast for one backward pass."""
        return self._before(backward, backward, 2)

    def _before(self, node: cst.CSTNode, backward: cst.Call, depth: int) -> Stretch | None:
        script, scope = self.script, self.script.scope(node)
        for site in self.sites(scope):
            block = self._common(site, node)
            if block is None:
                continue
            body, start, end = block
            since = [b for b in self.backwards if b is not backward and script.scope(b) == scope]
            barrier = max((i for i in range(end) if any(script.inside(body[i], b) for b in since)), default=-1)
            if start <= barrier or start >= end:
                continue
            last = self._last(body, start, end)
            return Stretch(body[start], body[last], scope, True)
        if depth and scope:
            for call in script.calls:
                if script.functions.get(scope) in self.calls.targets(call) and script.scope(call) != scope:
                    found = self._before(call, backward, depth - 1)
                    if found is not None:
                        return found
        return None

    def _common(self, site: cst.CSTNode, node: cst.CSTNode) -> tuple[Sequence[cst.BaseStatement], int, int] | None:
        """The innermost block that holds both, and the places in it of the statements that hold them."""
        for above in self.script.source.ancestors(node):
            if isinstance(above, (cst.FunctionDef, cst.ClassDef)):
                break
            if not isinstance(above, (cst.IndentedBlock, cst.Module)):
                continue
            body = [each for each in above.body if isinstance(each, cst.BaseStatement)]
            places = [[i for i, each in enumerate(body) if self.script.inside(each, n)] for n in (site, node)]
            if places[0] and places[1]:
                return body, places[0][0], places[1][0]
        return None

    def _last(self, body: Sequence[cst.BaseStatement], start: int, end: int) -> int:
        """The last statement from `start` on that computes something of the loss that the one at `end` needs."""
        needed = paths(body[end])
        last = start
        for index in range(end - 1, start, -1):
            if changed(body[index]) & needed:
                since = {name for each in body[start : index + 1] for name in changed(each)}
                if last == start and _computes(body[index], needed, since):
                    last = index
                needed |= paths(body[index])
        return last

    def evaluations(self, scopes: Callable[[Scope], bool]) -> Iterator[Stretch]:
        """The forward passes that no loss is trained on, entered from functions that `scopes` lets a region be in.

        Where that is a caller, the region holds the call.
        """
        for event in self.forwards:
            evaluates = event.purpose is Purpose.EVALUATION or event.gradients is False
            if event.autocast is Recipe.ON or not evaluates or SPEAKS_OF_LOSS.search(event.name):
                continue
            own = [call for _, call in event.way if self.script.source.owns(call)]
            for call in reversed(own or [event.node]):
                statement = self.script.rewrite.statement_of(call) if self.script.source.owns(call) else None
                if isinstance(statement, cst.SimpleStatementLine) and scopes(self.script.scope(call)):
                    yield self._with_loss(statement) if call is own[-1] else self._alone(statement)
                    break

    def _alone(self, statement: cst.BaseStatement) -> Stretch:
        return Stretch(statement, statement, self.script.scope(statement), False)

    def _with_loss(self, forward: cst.SimpleStatementLine) -> Stretch:
        """A forward pass with the loss that is computed from its result, in its block or in one around that."""
        inner: cst.CSTNode = forward
        bound = changed(forward)
        for above in self.script.source.ancestors(forward):
            if isinstance(above, (cst.FunctionDef, cst.For, cst.While, cst.Lambda)) and inner is not above.body:
                break
            if isinstance(above, cst.IndentedBlock):
                body = list(above.body)
                start = next((index for index, each in enumerate(body) if each is inner), None)
                for index in range(start + 1, len(body)) if start is not None else ():
                    names = changed(body[index])
                    loss = any(SPEAKS_OF_LOSS.search(name) for name in names)
                    simple = isinstance(body[index], cst.SimpleStatementLine)
                    if simple and loss and paths(body[index]) & bound and _computes(body[index], names, bound):
                        first = body[start or 0]
                        if isinstance(first, cst.BaseStatement):
                            return Stretch(first, body[index], self.script.scope(forward), False)
            if isinstance(above, (cst.FunctionDef, cst.For, cst.While)):
                break
            inner = above
        return self._alone(forward)


def _is_backward(call: cst.Call) -> bool:
    return isinstance(call.func, cst.Attribute) and call.func.attr.value == "backward"


def _needed_inside(statement: cst.CSTNode, needed: set[str]) -> set[str]:
    """What `statement` itself computes of the `needed` variables from."""
    if isinstance(statement, cst.SimpleStatementLine):
        return set()
    assigned = [node for node in walk(statement) if isinstance(node, (cst.Assign, cst.AugAssign))]
    found: set[str] = set()
    for node in reversed(assigned):
        if bound_paths(node) & (needed | found):
            found |= paths(node.value)
    return found


def _computes(statement: cst.CSTNode, needed: set[str], made: set[str]) -> bool:
    """Whether a statement hands what was `made` to a function to get one of the `needed` variables.

    To average or divide a loss, or to take it out of a tuple, does not count.
    """
    needed = needed | _needed_inside(statement, needed)
    for node in walk(statement):
        if isinstance(node, (cst.Assign, cst.AugAssign, cst.AnnAssign)):
            targets = bound_paths(node)
        elif isinstance(node, cst.Expr):
            targets = changed(node)
        else:
            continue
        if targets & needed:
            calls = (inner for inner in every(node, cst.Call) if called_name(inner) not in _TRIVIAL)
            if any(paths(call) & made for call in calls):
                return True
    return False
