"""Decorators of mmcv: `force_fp32` becomes a region without autocast, `auto_fp16` is removed with `fp16_enabled`."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from amplint.codemods.conversion import Remark, Wish
from amplint.codemods.editing import edited
from amplint.codemods.mmcv.decorated import AUTO, FLAG, FORCE, Decorated, decorated, known
from amplint.codemods.rows import tidied
from amplint.findings import Edit, Position, Span
from amplint.fixes.imports import add_imports, can_import, remove_stale_imports
from amplint.semantics.words import SPEAKS_OF_LOSS
from amplint.source import syntax as cst
from amplint.source.tree import walk
from amplint.torchlib.catalogue import operations_with
from amplint.training.names import uses
from amplint.training.refusal import Refusal, required
from amplint.training.script import Script

_HELPER = '''def {name}(value):
    """Make half tensors float32, also those in lists, tuples and dicts."""
    if isinstance(value, torch.Tensor):
        half = value.dtype in (torch.float16, torch.bfloat16)
        return value.float() if half else value
    if isinstance(value, (list, tuple)):
        return type(value)([{name}(item) for item in value])
    if isinstance(value, dict):
        items = value.items()
        return type(value)({{key: {name}(item) for key, item in items}})
    return value
'''
_WIDTH = 79
_LIKE = operations_with("creates-new") | {"dtype", "type", "type_as"}
"""Attributes that pass on the dtype of a tensor."""
_ENTERED = "autocast is entered by what calls this now, as mmengine's AmpOptimWrapper does"
_NOT_HALF = "{} was made half by auto_fp16: here it may be float32 now"
_OUTPUT = "force_fp32 made the result half: it stays float32 now"
_FORWARD = ("forward", "extract")
"""Prefixes of methods that run modules; others compute losses and boxes."""
_INSIDE = "all that this calls stays float32 now, also what auto_fp16 made half again"


def converted(text: str, wish: Wish, path: str) -> tuple[str, list[Remark]]:
    """The new text of a module, and remarks for review, by rows of the old one. Raises Refusal."""
    script = Script(text, path)
    every = list(decorated(script, uses(script, known(script))))
    edits = list(_without_flags(script))
    if not every and not edits:
        return text, []
    pass_ = _Pass(script, every, "cpu" if wish.device == "cpu" else "cuda")
    for each in every:
        edits += pass_.edits(each)
    edits += _guarded_imports(script)
    new = _with_helper(edited(script, edits), pass_.helper if pass_.casts else None)
    if any(each.name == FORCE for each in every) or pass_.casts:
        if not can_import(text, ["import torch"]):
            raise Refusal(1, "torch is the name of something else here")
        new = add_imports(new, ["import torch"])
    new = tidied(text, remove_stale_imports(_using(script), new))
    return new, pass_.remarks


def _using(script: Script) -> str:
    """The text with a use of each imported decorator, so that imports unused before are removed as well."""
    bound = [name for name, stands_for in known(script).items() if stands_for.endswith((AUTO, FORCE))]
    return "\n".join([script.text, *bound, ""])


class _Pass:
    """Writes the edits of one file; `casts` says that they call `helper`."""

    def __init__(self, script: Script, every: Sequence[Decorated], device: str) -> None:
        self.script = script
        self.remarks: list[Remark] = []
        self.casts = False
        self.helper = script.fresh("to_float32")
        self._device = device
        self._halved = {one.function for one in every if one.name == AUTO}

    def edits(self, one: Decorated) -> Iterator[Edit]:
        """The edits of one decorated method."""
        if one.name == AUTO:
            yield from self._undecorated(one)
            return
        body = _statements(one.function)
        if not body:
            yield self._removal(one.decorator)
            return
        casts = self._casts(one, body)
        if casts:
            place = Position(_first_row(self.script, body[0]), 1)
            yield Edit(Span(place, place), casts)
        header = f'torch.autocast("{self._device}", enabled=False)'
        if _calls_itself(self.script, one.function):
            yield self._removal(one.decorator)
            yield from self._wrapped(one, body, header)
        else:
            yield self.script.rewrite.replace(one.decorator.decorator, header)
        row = self.script.row(one.decorator)
        if one.output:
            self.remarks.append(Remark(row, _OUTPUT))
        if self._calls_modules(one.function) and one.function.name.value.startswith(_FORWARD):
            self.remarks.append(Remark(row, _INSIDE))

    def _calls_modules(self, function: cst.FunctionDef) -> bool:
        """Whether a method calls modules of its object, other than losses. Raises Refusal for an `auto_fp16` method."""
        methods = self.script.functions
        scope = self.script.scope(function)
        todo, seen, found = [function], {function}, False
        while todo:
            for name in _called(todo.pop()):
                method = methods.get((*scope, name))
                if method in self._halved:
                    why = f"this keeps {name} float32, which {AUTO} makes half again"
                    raise Refusal(self.script.row(function), why)
                if method is None:
                    found = found or SPEAKS_OF_LOSS.search(name) is None
                elif method not in seen:
                    seen.add(method)
                    todo.append(method)
        return found

    def _undecorated(self, one: Decorated) -> Iterator[Edit]:
        if not any(remark.text == _ENTERED for remark in self.remarks):
            self.remarks.append(Remark(self.script.row(one.decorator), _ENTERED))
        for node, name in _computed(self.script, one):
            self.remarks.append(Remark(self.script.row(node), _NOT_HALF.format(name)))
        yield self._removal(one.decorator)
        for node in self.script.returns(one.function) if one.output else ():
            if node.value is not None:
                self.casts = True
                bare = isinstance(node.value, cst.Tuple) and not self.script.rewrite.parentheses(node.value)
                text = self.script.text_of(node.value)
                code = f"{self.helper}(({text}))" if bare else f"{self.helper}({text})"
                yield self.script.rewrite.replace(node.value, code)

    def _casts(self, one: Decorated, body: Sequence[cst.BaseStatement]) -> str:
        """The rows that cast the named arguments to float32."""
        read = {node.value for statement in body for node in walk(statement) if isinstance(node, cst.Name)}
        names = [name for name in one.names if name in read or "locals" in read]
        if not names:
            return ""
        self.casts = True
        indentation = self.script.lines.indentation(self.script.row(body[0]))
        joined = ", ".join(names)
        row = f"{indentation}{joined} = {self.helper}(({joined}))"
        if len(names) > 1 and len(row) <= _WIDTH:
            return row + self.script.source.newline
        rows = [f"{indentation}{name} = {self.helper}({name}){self.script.source.newline}" for name in names]
        return "".join(rows)

    def _wrapped(self, one: Decorated, body: Sequence[cst.BaseStatement], header: str) -> list[Edit]:
        edits = self.script.rewrite.wrap_statements(body, f"with {header}")
        return required(edits, self.script.row(one.function), "the body of the method cannot be indented")

    def _removal(self, decorator: cst.Decorator) -> Edit:
        first, last = self.script.rows(decorator)
        if self.script.lines.line(first)[: self.script.source.span(decorator).start.column - 1].strip():
            raise Refusal(first, "the decorator shares its row with something else")
        return Edit(self.script.lines.rows(first, last), "")


def _statements(function: cst.FunctionDef) -> list[cst.BaseStatement]:
    """The body below the docstring; empty if it does nothing."""
    body = [each for each in function.body.body if isinstance(each, cst.BaseStatement)]
    if body and isinstance(body[0], cst.SimpleStatementLine) and _is_docstring(body[0]):
        body = body[1:]
    idle = all(isinstance(each, cst.SimpleStatementLine) and _idle(each) for each in body)
    return [] if idle else body


def _is_docstring(line: cst.SimpleStatementLine) -> bool:
    value = line.body[0].value if isinstance(line.body[0], cst.Expr) else None
    return isinstance(value, (cst.SimpleString, cst.ConcatenatedString)) and isinstance(value.evaluated_value, str)


def _idle(line: cst.SimpleStatementLine) -> bool:
    return all(
        isinstance(each, (cst.Pass, cst.Raise)) or (isinstance(each, cst.Expr) and isinstance(each.value, cst.Ellipsis))
        for each in line.body
    )


def _calls_itself(script: Script, function: cst.FunctionDef) -> bool:
    """Whether a method may be reentered, in which case a single autocast decorator would not restore its state."""
    around = next((node for node in script.source.ancestors(function) if isinstance(node, cst.ClassDef)), None)
    for node in walk(function.body):
        if isinstance(node, cst.Call) and isinstance(node.func, cst.Attribute):
            parent = isinstance(node.func.value, cst.Call) and script.text_of(node.func.value.func) == "super"
            if node.func.attr.value == function.name.value and not parent:
                return True
    made = (node for node in walk(around) if isinstance(node, cst.Call)) if around is not None else ()
    return around is not None and any(script.text_of(node.func) == around.name.value for node in made)


def _called(function: cst.FunctionDef) -> Iterator[str]:
    """`name` of each `self.name(...)`."""
    calls = [node.func for node in walk(function.body) if isinstance(node, cst.Call)]
    for node in calls:
        if isinstance(node, cst.Attribute) and isinstance(node.value, cst.Name) and node.value.value == "self":
            yield node.attr.value


def _computed(script: Script, one: Decorated) -> Iterator[tuple[cst.CSTNode, str]]:
    """The computations with an argument that was cast to half, or uses of its dtype, one per argument."""
    reported: set[str] = set()
    for node in walk(one.function.body):
        if not isinstance(node, cst.Name) or node.value not in one.names or node.value in reported:
            continue
        value: cst.CSTNode = node
        above = script.source.parent(value)
        if isinstance(above, cst.Subscript) and above.value is value:
            value, above = above, script.source.parent(above)
        like = isinstance(above, cst.Attribute) and above.value is value and above.attr.value in _LIKE
        if like or isinstance(above, cst.BinaryOperation):
            reported.add(node.value)
            yield node, node.value


def _without_flags(script: Script) -> Iterator[Edit]:
    """The removal of `self.fp16_enabled = False`. Raises Refusal if the flag is used in another way."""
    for node in script.of_kind(cst.Name):
        if node.value != FLAG:
            continue
        above = script.source.parent(node)
        target = script.source.parent(above) if isinstance(above, cst.Attribute) else None
        statement = script.source.parent(target) if isinstance(target, cst.AssignTarget) else None
        off = isinstance(statement, cst.Assign) and script.text_of(statement.value) == "False"
        only = isinstance(statement, cst.Assign) and len(statement.targets) == 1
        edit = script.rewrite.remove_statement(statement) if off and only and statement is not None else None
        yield required(edit, script.row(node), f"{FLAG} is used here, and nothing sets it any more")


def _guarded_imports(script: Script) -> Iterator[Edit]:
    """The removal of each `try` that only imports the decorators from one place or another."""
    for node in script.of_kind(cst.Try):
        if node.orelse is not None or node.finalbody is not None:
            continue
        lines = [line for block in (node.body, *(each.body for each in node.handlers)) for line in block.body]
        smalls = [small for line in lines for small in getattr(line, "body", [line])]
        imports = [small for small in smalls if isinstance(small, cst.ImportFrom)]
        names = {
            alias.name.value for one in imports if not isinstance(one.names, cst.ImportStar) for alias in one.names
        }
        idle = all(isinstance(small, (cst.ImportFrom, cst.Pass, cst.Expr)) for small in smalls)
        edit = script.rewrite.remove_statement(node) if imports and idle and names <= {AUTO, FORCE} else None
        if edit is not None:
            yield edit


def _with_helper(script: Script, name: str | None) -> str:
    """The text with the helper above its first class or function."""
    if name is None:
        return script.text
    first = next(node for node in script.of_kind(cst.ClassDef, cst.FunctionDef) if not script.scope(node))
    row = _first_row(script, first)
    newline = script.source.newline
    above = row - 1
    while above > 0 and script.lines.blank(above):
        above -= 1
    code = newline * (2 - min(2, row - 1 - above)) + _HELPER.format(name=name).replace("\n", newline) + newline * 2
    at = script.lines.start(row)
    return script.text[:at] + code + script.text[at:]


def _first_row(script: Script, statement: cst.CSTNode) -> int:
    """The first row of a statement, including its decorators and the comments above it."""
    return script.lines.commented(script.rewrite.start(statement).row)
