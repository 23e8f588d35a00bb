"""`--add-flag`: an option `--amp/--no-amp` of the script that switches the regions and the scaler."""

from __future__ import annotations

import libcst as cst

from amplint.codemods.bindings import bound_paths
from amplint.codemods.calls import Calls
from amplint.codemods.conversion import Remark
from amplint.codemods.refusal import Refusal
from amplint.codemods.script import Script
from amplint.findings import Edit, Span
from amplint.semantics.scopes import dotted
from amplint.source.tree import walk

NAME = "use_amp"
_OPTION = 'add_argument("--amp", action=argparse.BooleanOptionalAction, default=True, help="train in mixed precision")'


class Flag:
    """Adds the option to the script's argparse parser, and says how code elsewhere asks for it. Raises Refusal."""

    def __init__(self, script: Script, calls: Calls) -> None:
        self._script = script
        self._calls = calls
        self._handed: dict[cst.FunctionDef, str] = {}
        self._known: dict[cst.FunctionDef | None, bool] = {}
        self.edits: list[Edit] = []
        self.done: list[Remark] = []
        parse = self._only(calls.ending("parse_args"), "parse_args() of an argparse parser")
        make = self._only(calls.ending("ArgumentParser"), "argparse.ArgumentParser()")
        self._home = script.function_of(parse)
        statement = script.statement_of(parse)
        bound = [path for path in self._bound(statement) if "." not in path]
        if len(bound) != 1 or NAME in script.words or '"--amp"' in script.source.text.replace("'", '"'):
            raise Refusal(parse, "there is no place for an option --amp here")
        self._arguments = bound[0]
        self._add_option(make)

    def at(self, place: cst.CSTNode) -> str:
        """The expression of the flag where `place` stands."""
        function = self._script.function_of(place)
        if self._knows(function):
            return f"{self._arguments}.amp"
        if function is None:
            raise Refusal(place, "the arguments of the script are not known here")
        if function not in self._handed:
            self._handed[function] = NAME
            self._hand_on(function, place)
        return self._handed[function]

    def _only(self, calls: list[cst.Call], what: str) -> cst.Call:
        if len(calls) != 1:
            where = calls[0] if calls else self._script.top[0]
            raise Refusal(where, f"an option needs exactly one call of {what} in the file")
        return calls[0]

    def _bound(self, statement: cst.CSTNode | None) -> list[str]:
        nodes = walk(statement) if statement is not None else ()
        return sorted({path for node in nodes if isinstance(node, cst.Assign) for path in bound_paths(node)})

    def _add_option(self, make: cst.Call) -> None:
        statement = self._script.statement_of(make)
        names = self._bound(statement)
        if statement is None or len(names) != 1:
            raise Refusal(make, "the parser has no name that an option could be added to")
        last: cst.CSTNode = statement
        for following in self._script.block_of(statement):
            call = next((node for node in walk(following) if isinstance(node, cst.Call)), None)
            if call is not None and dotted(call.func) == f"{names[0]}.add_argument":
                last = following
        edit = self._script.rewrite.insert_after(last, f"{names[0]}.{_OPTION}")
        if edit is None:
            raise Refusal(make, "there is no place for an option --amp here")
        self.edits.append(edit)
        self.done.append(Remark(self._script.row(last), "add the option --amp/--no-amp"))

    def _knows(self, function: cst.FunctionDef | None) -> bool:
        """Whether the script's arguments go by their own name in `function`."""
        if function not in self._known:
            self._known[function] = True  # a call of itself does not decide
            self._known[function] = function is self._home or (function is not None and self._is_told(function))
        return self._known[function]

    def _is_told(self, function: cst.FunctionDef) -> bool:
        if self._script.assignments(function, self._arguments):
            return False
        found = self._script.parameter(function, self._arguments)
        if found is None:
            return self._knows(self._script.function_of(function))
        passed = self._calls.passed(function, self._arguments) or ()
        return bool(passed) and all(
            dotted(value) == self._arguments and self._knows(self._script.function_of(value)) for value in passed
        )

    def _hand_on(self, function: cst.FunctionDef, place: cst.CSTNode) -> None:
        """Let `function` take the flag as its last parameter."""
        every = [*function.params.posonly_params, *function.params.params]
        more = function.params.kwonly_params or function.params.star_kwarg
        star = isinstance(function.params.star_arg, (cst.Param, cst.ParamStar))
        callers = self._calls.callers(function)
        if not callers or more or star or not every or any(one.star for call in callers for one in call.args):
            raise Refusal(place, f"{function.name.value}() would need the option, and cannot be given it here")
        last = every[-1]
        annotation = ": bool" if last.annotation is not None else ""
        default = "" if last.default is None else " = True" if annotation else "=True"
        kept = last.default or (last.annotation.annotation if last.annotation is not None else last.name)
        end = self._script.rewrite.span(kept).end
        self.edits.append(Edit(Span(end, end), f", {NAME}{annotation}{default}"))
        self.done.append(Remark(self._script.row(function), "hand on the option"))
        for call in callers:
            text = f"{NAME}={self.at(call)}"
            edit = self._script.rewrite.insert_argument(call, len(call.args), text)
            if edit is None:
                raise Refusal(call, "the option cannot be passed to this call")
            self.edits.append(edit)
