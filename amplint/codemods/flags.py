"""`--add-flag`: a command-line option, and the functions that it is passed to."""

from __future__ import annotations

from amplint.codemods import parameters
from amplint.codemods.conversion import Remark
from amplint.codemods.options import Kind, add_option
from amplint.semantics.reading.scopes import dotted
from amplint.source import syntax as cst
from amplint.training.calls import Calls
from amplint.training.refusal import Refusal, required
from amplint.training.script import Script


class Flag:
    """Adds an option to the script's command line, and the expressions that read it elsewhere. Raises Refusal."""

    def __init__(self, script: Script, calls: Calls, kind: Kind) -> None:
        self._script = script
        self._kind = kind
        self._calls = calls
        self._declared: dict[cst.FunctionDef, str] = {}
        self._known: dict[cst.FunctionDef | None, bool] = {}
        self._option = option = add_option(script, kind)
        self.edits = list(option.edits)
        self.done = [option.done]
        self.imports = option.imports

    def at(self, place: cst.CSTNode) -> str:
        """The expression of the flag at `place`."""
        function = self._script.function_of(place)
        if function is self._option.home and self._script.row(place) < self._option.since:
            raise Refusal(place, "the arguments of the script are not known yet here")
        if self._has_arguments_in_scope(function):
            return self._option.expression
        if function is None:
            raise Refusal(place, "the arguments of the script are not known here")
        if function not in self._declared:
            self._declared[function] = self._kind.name
            self._add_parameter(function, place)
        return self._declared[function]

    def _has_arguments_in_scope(self, function: cst.FunctionDef | None) -> bool:
        """Whether the script's arguments are available by their own name in `function`."""
        if function not in self._known:
            self._known[function] = True  # a recursive call does not decide
            self._known[function] = function is self._option.home or (
                function is not None and self._has_option(function)
            )
        return self._known[function]

    def _has_option(self, function: cst.FunctionDef) -> bool:
        if self._script.assignments(function, self._option.name):
            return False
        found = self._script.parameter(function, self._option.name)
        if found is None:
            return self._has_arguments_in_scope(self._script.function_of(function))
        passed = self._calls.arguments_for(function, self._option.name) or ()
        return bool(passed) and all(
            dotted(value) == self._option.name and self._has_arguments_in_scope(self._script.function_of(value))
            for value in passed
        )

    def _add_parameter(self, function: cst.FunctionDef, place: cst.CSTNode) -> None:
        """Add the flag as the last parameter of `function`."""
        callers = self._calls.callers(function)
        if not callers or not parameters.takes_more(function) or any(one.star for c in callers for one in c.args):
            raise Refusal(place, f"{function.name.value}() would need the option, and cannot be given it here")
        self.edits.append(parameters.appended(self._script, function, self._kind.parameter))
        self.done.append(Remark(self._script.row(function), "hand on the option"))
        for call in callers:
            text = f"{self._kind.name}={self.at(call)}"
            edit = self._script.rewrite.insert_argument(call, len(call.args), text)
            self.edits.append(required(edit, call, "the option cannot be passed to this call"))
