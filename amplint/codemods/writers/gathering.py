"""Edits before the planning of regions, which separate a forward pass and its loss from other statements."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from amplint.codemods.conversion import Change, Remark
from amplint.codemods.writers.regions import Region, Regions, computes
from amplint.findings import Edit, Fix, Position, Span
from amplint.regex import regex
from amplint.source import syntax as cst
from amplint.source.tree import every, walk
from amplint.training.bindings import called_name, paths
from amplint.training.flow import Flow, PassedForward
from amplint.training.refusal import required
from amplint.training.script import Script

_RANDOM_NAMES = regex(r"rand|sampl|shuffle|seed|noise|dropout")
"""Names of functions that may draw random numbers, whose order is preserved."""
_ABOUT_GRADIENTS = regex(r"(?i)back|grad|optimi[sz]")
_TIMES = frozenset({"time", "perf_counter", "monotonic", "process_time", "synchronize", "record"})
_READERS = frozenset({"item", "tolist", "size", "numel", "len", "float", "int", "detach", "print"})
"""Functions and methods that read their argument without changing it."""


def separate_regions(script: Script, flow: Flow, regions: Regions) -> Change | None:
    """The change that moves independent statements below their region; None if there are none."""
    edits: list[Edit] = []
    moved: list[cst.CSTNode] = []
    for region in (*regions.training, *regions.evaluation):
        apart = list(_movable_statements(flow, region))
        texts = [_cut(script, rows, edits) for rows in _row_groups(script, apart)]
        if texts:
            place = Position(script.rows(region.statements[-1])[1] + 1, 1)
            edits.append(Edit(Span(place, place), "".join(texts)))
        moved += apart
    message = "move what is no part of the loss below it"
    done = tuple(Remark(script.row(one), message) for one in moved)
    return Change(Fix(message, tuple(edits)), done) if edits else None


def assign_argument(script: Script, passed: PassedForward) -> Change:
    """The change that assigns an argument to a variable above its call. Raises the Refusal."""
    edits = _assignment_edits(script, passed.argument, (passed.name, "loss", "total_loss"))
    return _assignment_change(script, {passed.argument: required(edits, passed.argument, passed.why)})


def assign_losses(script: Script, losses: Mapping[cst.Call, cst.BaseExpression]) -> Change | None:
    """The change that assigns losses to variables above the backward pass that contains them. Raises Refusal."""
    why = "the loss is computed inside the call of backward(); give it a variable first"
    found = {
        loss: required(_assignment_edits(script, loss, ("loss", "total_loss", "the_loss")), backward, why)
        for backward, loss in losses.items()
        if computes(loss)
    }
    return _assignment_change(script, found) if found else None


def assign_outputs(script: Script, regions: Regions) -> Change | None:
    """The change that assigns what models give to a function to variables, so that this can run behind the region."""
    calls = regions.exits.given_to_others() if regions.exits is not None else ()
    edits = {call: _assignment_edits(script, call, ("output", "outputs", "model_output")) for call in calls}
    found: dict[cst.BaseExpression, list[Edit]] = {call: one for call, one in edits.items() if one is not None}
    return _assignment_change(script, found, "output of the model") if found else None


def _assignment_change(script: Script, found: Mapping[cst.BaseExpression, list[Edit]], what: str = "loss") -> Change:
    message = f"give the {what} a variable"
    done = tuple(Remark(script.row(one), message) for one in found)
    return Change(Fix(message, tuple(edit for edits in found.values() for edit in edits)), done)


def _assignment_edits(script: Script, value: cst.BaseExpression, names: Sequence[str]) -> list[Edit] | None:
    """The edits that assign `value` to a variable above its statement, with the first unused name of `names`."""
    function, text = script.function_of(value), script.text_of(value)
    nodes = walk(function) if function is not None else script.nodes
    words = {one.value for one in nodes if isinstance(one, cst.Name)}
    name = next((one for one in names if one not in words), None)
    if name is None or "\n" in text:
        return None
    inner = text[1:-1] if script.rewrite.parentheses(value) == 1 else text
    edit = script.rewrite.insert_before(value, f"{name} = {inner}")
    return [edit, script.rewrite.replace(value, name)] if edit is not None else None


def _row_groups(script: Script, statements: list[cst.CSTNode]) -> Iterator[tuple[int, int]]:
    """The first and last row of each group of adjacent statements."""
    found: list[tuple[int, int]] = []
    for first, last in map(script.rows, statements):
        begun = found.pop()[0] if found and found[-1][1] + 1 == first else first
        found.append((begun, last))
    yield from found


def _cut(script: Script, rows: tuple[int, int], edits: list[Edit]) -> str:
    """The text of `rows`, with a comment that belongs to them alone; `edits` receives their removal."""
    lines, (first, last) = script.lines, rows
    alone = last == len(lines) or lines.blank(last + 1) or lines.comment(last + 1) or _is_headline(script, first)
    first = lines.commented(first) if alone else first
    surplus = first > 1 and lines.blank(first - 1) and last < len(lines) and lines.blank(last + 1)
    edits.append(Edit(script.lines.rows(first, last + surplus), ""))
    return script.indented(range(first, last + 1), "")


def _is_headline(script: Script, row: int) -> bool:
    """Whether the comment above `zero_grad()` in `row`, behind a blank line, is about the backward pass."""
    lines = script.text.splitlines()[: row - 1]
    if not lines or "zero_grad" not in script.text.splitlines()[row - 1]:
        return False
    comment, above = lines[-1].strip(), lines[-2].strip() if len(lines) > 1 else ""
    return comment.startswith("#") and not above and _ABOUT_GRADIENTS.search(comment) is not None


def _movable_statements(flow: Flow, region: Region) -> Iterator[cst.CSTNode]:
    """The statements of a region that can run below it, since nothing in it depends on them, in order."""
    found: list[cst.CSTNode] = []
    read, bound = set[str](), set[str]()
    for statement in reversed(region.statements):
        binds = flow.binds(statement)
        own = paths(statement)
        if statement in region.computing or binds & read or not _can_run_after(flow, statement, read, bound):
            read |= own
            bound |= binds
        else:
            found.append(statement)
    yield from reversed(found)


def _can_run_after(flow: Flow, statement: cst.CSTNode, read: set[str], bound: set[str]) -> bool:
    """Whether a statement can run after others that `read` and `bound` these variables."""
    small: Sequence[cst.CSTNode] = statement.body if isinstance(statement, cst.SimpleStatementLine) else ()
    if len(small) != 1 or not isinstance(small[0], (cst.Expr, cst.Assign, cst.AnnAssign, cst.AugAssign)):
        return False
    if isinstance(small[0], cst.Expr) and isinstance(small[0].value, cst.BaseString):  # a headline, as a comment is
        return False
    calls = list(every(statement, cst.Call))
    names = {called_name(call) for call in calls}
    if "zero_grad" in names and len(names) == 1:
        return True
    ordered = names & _TIMES or any(_RANDOM_NAMES.search(name) or name.endswith("_") for name in names)
    suspends = any(isinstance(node, (cst.Yield, cst.Await, cst.NamedExpr)) for node in walk(statement))
    if ordered or suspends or flow.runs_model(statement) or paths(statement) & bound or flow.binds(statement) & read:
        return False
    return not isinstance(small[0], cst.Expr) or not _exposed_paths(small[0].value) & read


def _exposed_paths(node: cst.CSTNode) -> set[str]:
    """The access paths in an expression through which a callee could change an object."""
    if isinstance(node, (cst.FormattedString, cst.SimpleString)) or called_name(node) in _READERS:
        return set()
    if isinstance(node, cst.Call):
        return paths(node.func) | {path for argument in node.args for path in _exposed_paths(argument.value)}
    if isinstance(node, cst.Dict):
        pairs = [one for one in node.elements if isinstance(one, cst.DictElement)]
        return {path for one in pairs for part in (one.key, one.value) for path in _exposed_paths(part)}
    return paths(node)
