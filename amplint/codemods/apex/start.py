"""The call of `amp.initialize`, replaced by the construction of a scaler."""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Iterator

from amplint.codemods.apex.checkpoints import states
from amplint.codemods.apex.reach import Reach
from amplint.codemods.apex.setup import Setup
from amplint.codemods.conversion import Wish
from amplint.findings import Edit
from amplint.source import syntax as cst
from amplint.source.lower import parse_expression
from amplint.source.tree import walk
from amplint.training.bindings import bound_paths, paths
from amplint.training.refusal import Refusal, required
from amplint.training.script import Script


def scaler_made(setup: Setup, scaler: str, wish: Wish) -> str:
    """The statement that constructs the scaler."""
    arguments = ['"cpu"' if wish.device == "cpu" else '"cuda"']
    if setup.scale is not None:
        arguments.append(f"init_scale={setup.scale}")
    if setup.switches:
        arguments.append(f"enabled={' and '.join(setup.switches)}")
    return f"{scaler} = torch.amp.GradScaler({', '.join(arguments)})"


def scaler_place(script: Script, reach: Reach) -> cst.CSTNode:
    """The first call of `amp.initialize`, its guard, or an earlier statement that restores the optimizer.

    The latter only if the conditions of the scaler are known by then.
    """
    setup = reach.setups[0]
    statement = setup.guards[-1] if setup.guards else setup.choice or script.statement(setup.call)
    restored = [call for call in states(script, reach) if call.args and script.scope(call) == reach.home]
    above = [each for each in script.block_of(statement) if script.row(each) < script.row(statement)]
    place = next((each for each in above if any(script.inside(each, call) for call in restored)), None)
    if place is None:
        return statement
    rows = range(script.row(place), script.row(statement))
    bound = {path for node in script.nodes for path in bound_paths(node, whole=True) if script.row(node) in rows}
    read = {found for text in setup.switches for found in paths(parse_expression(text))}
    changed = any(one == path or one.startswith(f"{path}.") for path in read for one in bound)
    return statement if changed else place


def start_edits(
    script: Script, setups: list[Setup], setup: Setup, made: str | None, place: cst.CSTNode
) -> Iterator[Edit]:
    """The edits that remove one of several `amp.initialize` and insert `made` there, or before `place`."""
    statement = script.statement(setup.call)
    row = script.row(statement)
    first, last = script.rows(statement)
    indentation = script.lines.indentation(first)
    idle = _reassignments(script, setup, statement)
    rest = _rest(setup) if not idle else None
    if idle:
        last = script.rows(idle[-1])[1]
    lines = [rest] if rest is not None else []
    if made is not None and place is statement:
        lines.append(made)
    if "#" in script.lines.line(last) and not lines:
        raise Refusal(row, "a comment stands beside amp.initialize")
    if lines:
        newline = script.source.newline
        text = newline.join(f"{indentation}{line}" for line in lines)
        tail = script.lines.after(script.source.span(statement).end)
        yield Edit(script.lines.rows(first, last), text + tail + newline)
    elif idle:
        others = [each for each in script.block_of(statement) if each is not statement and each not in idle]
        text = f"{indentation}pass{script.source.newline}" if all(map(_binds_names, others)) else ""
        yield Edit(script.lines.rows(first, last), text)
    elif _is_emptied(script, setups, statement):
        text = f"{indentation}pass{script.source.newline}" if script.block_of(statement)[0] is statement else ""
        yield Edit(script.lines.rows(first, last), text)
    else:
        yield _with_blank(script, statement, required(script.rewrite.remove_statement(statement), row))
    if made is not None and place is not statement:
        yield required(_insertion(script, place, made), row, "there is no place for the scaler")


def _is_emptied(script: Script, setups: list[Setup], statement: cst.CSTNode) -> bool:
    """Whether nothing is left of the block of `statement`, in which several statements initialize."""
    gone = [script.statement(one.call) for one in setups if _rest(one) is None]
    block = script.block_of(statement)
    return len(block) > 1 and all(one in gone for one in block)


def _insertion(script: Script, place: cst.CSTNode, made: str) -> Edit | None:
    """The edit that inserts `made` above the statement `place` and the comments above it."""
    block, row = script.block_of(place), script.row(place)
    index = block.index(place)
    if index > 0 and row > 1 and script.lines.line(row - 1).lstrip().startswith("#"):
        return script.rewrite.insert_after(block[index - 1], made)
    return script.rewrite.insert_before(place, made)


def _with_blank(script: Script, statement: cst.CSTNode, removal: Edit) -> Edit:
    """The removal of a statement, with the blank row below if it was the first of its block."""
    block = script.rewrite.block_of(statement)
    below = script.rows(statement)[1] + 1
    alone = removal.content or not block or block[0] is not statement
    if alone or below > len(script.lines) or not script.lines.blank(below):
        return removal
    return Edit(script.lines.rows(script.rows(statement)[0], below), "")


def _reassignments(script: Script, setup: Setup, statement: cst.CSTNode) -> list[cst.CSTNode]:
    """The statements right below that assign all results back to the arguments, if nothing else reads them."""
    pairs = {f"{given} = {target}": target for target, given in setup.pairs if target != given}
    block = list(script.block_of(statement))
    below = block[block.index(statement) + 1 :][: len(pairs)]
    rows = [script.rows(each) for each in (statement, *below)]
    apart = any(later[0] != earlier[1] + 1 for earlier, later in itertools.pairwise(rows))
    apart |= any("#" in script.lines.line(row) for row in range(rows[0][0], rows[-1][1] + 1))
    if apart or {script.text_of(each).strip() for each in below} != pairs.keys():
        return []
    function = script.functions.get(setup.scope)
    inside = list(walk(function.body)) if function is not None else script.nodes
    mentioned = Counter(node.value for node in inside if isinstance(node, cst.Name))
    mentioned.subtract(node.attr.value for node in inside if isinstance(node, cst.Attribute))
    return below if all(mentioned[name] == 2 for name in pairs.values()) else []


def _binds_names(statement: cst.CSTNode) -> bool:
    """Whether a statement only imports, or declares names as global."""
    parts = statement.body if isinstance(statement, cst.SimpleStatementLine) else [statement]
    return all(isinstance(part, (cst.Import, cst.ImportFrom, cst.Global)) for part in parts)


def _rest(setup: Setup) -> str | None:
    """The assignment that remains of the call."""
    pairs = [(target, given) for target, given in setup.pairs if target != given and target != "_"]
    if not pairs:
        return None
    return f"{', '.join(target for target, _ in pairs)} = {', '.join(given for _, given in pairs)}"
