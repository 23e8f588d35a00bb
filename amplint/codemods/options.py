"""New options on the script's command line: argparse, click or typer."""

from __future__ import annotations

from collections.abc import Iterator

from amplint.codemods.conversion import Remark
from amplint.codemods.parameters import New, behind, declared_behind
from amplint.findings import Edit, Position, Span
from amplint.records import dataclass
from amplint.semantics.reading.scopes import dotted
from amplint.source import syntax as cst
from amplint.source.tree import walk
from amplint.training.bindings import bound_paths
from amplint.training.names import Use, library_uses
from amplint.training.refusal import Refusal, required
from amplint.training.script import Script


@dataclass(frozen=True, slots=True)
class Kind:
    """The purpose of an option: `spelled` on the command line, of the type `kind`, a variable `name` in functions."""

    name: str
    attribute: str
    spelled: str
    kind: str
    default: str
    argparse: str
    purpose: str

    @property
    def parameter(self) -> New:
        """The option as a parameter of a function."""
        return New(self.name, self.kind, self.default)

    @property
    def help(self) -> str:
        """The argument with the help text for users."""
        return f'help="{self.purpose}"'


SWITCH = Kind(
    "use_amp",
    "amp",
    "--amp/--no-amp",
    "bool",
    "True",
    "action=argparse.BooleanOptionalAction",
    "train in mixed precision",
)


def number_of_batches(count: int) -> Kind:
    """The option for the number of batches that are accumulated."""
    name = "accumulation_steps"
    return Kind(name, name, "--accumulation-steps", "int", str(count), "type=int", "batches for each step")


@dataclass(frozen=True, slots=True)
class Option:
    """The new option: in the function `home` the variable `name` holds it below row `since`, `expression` reads it."""

    home: cst.FunctionDef | None
    name: str
    expression: str
    edits: tuple[Edit, ...]
    done: Remark
    imports: tuple[str, ...] = ()
    since: int = 0


def add_option(script: Script, kind: Kind) -> Option:
    """The option, added where the script's command line is defined. Raises Refusal."""
    spelled = kind.spelled.partition("/")[0]
    if kind.name in script.words or f'"{spelled}"' in script.text.replace("'", '"'):
        raise Refusal(script.top[0], f"the script has an option {spelled} or a variable {kind.name} already")
    known = {use.node: use for use in library_uses(script, "argparse", "click", "typer")}
    parses = [
        call for call in script.calls if isinstance(call.func, cst.Attribute) and call.func.attr.value == "parse_args"
    ]
    if parses:
        return _of_argparse(script, kind, parses, known)
    commands = list(_commands(script, known))
    if len(commands) > 1:
        raise Refusal(commands[1][0], "there are several commands; which of them trains cannot be told")
    if not commands:
        raise Refusal(script.top[0], "an option needs an argparse parser, or a command of click or typer, in the file")
    command, library = commands[0]
    return _of_click(script, kind, command) if library == "click" else _of_typer(script, kind, command)


def _of_argparse(script: Script, kind: Kind, parses: list[cst.Call], known: dict[cst.BaseExpression, Use]) -> Option:
    makes = [use.call for use in known.values() if use.name == "argparse.ArgumentParser" and use.call is not None]
    for calls, what in ((parses, "parse_args()"), (makes, "argparse.ArgumentParser()")):
        if len(calls) != 1:
            raise Refusal(calls[1] if calls else parses[0], f"an option needs exactly one call of {what} in the file")
    parse, make = parses[0], makes[0]
    named = _arguments(script, parse)
    parser, statement = _bound(script, make), script.statement_of(make)
    if named is None or len(parser) != 1 or statement is None:
        raise Refusal(parse, "the parser and its arguments need names for a new option")
    home, name = named
    last: cst.CSTNode = statement
    for following in script.block_of(statement):
        call = next((node for node in walk(following) if isinstance(node, cst.Call)), None)
        if call is not None and dotted(call.func) == f"{parser[0]}.add_argument":
            last = following
    spelled = kind.spelled.partition("/")[0]
    code = f'{parser[0]}.add_argument("{spelled}", {kind.argparse}, default={kind.default}, {kind.help})'
    edit = required(script.rewrite.insert_after(last, code), make, "there is no place for a new option here")
    since = script.row(parse) if script.function_of(parse) is home else 0
    done = Remark(script.row(last), f"add the option {kind.spelled}")
    return Option(home, name, f"{name}.{kind.attribute}", (edit,), done, ("import argparse",), since)


def _arguments(script: Script, call: cst.Call) -> tuple[cst.FunctionDef | None, str] | None:
    """The function that uses the arguments returned by `call`, and their name there; None if it is not certain.

    If a function returns them, it is the caller.
    """
    home, above = script.function_of(call), script.source.parent(call)
    if isinstance(above, cst.Arg):
        return _receiving_parameter(script, above)
    bound = [path for path in _bound(script, call) if "." not in path]
    if home is not None and (isinstance(above, cst.Return) or (len(bound) == 1 and _returns(script, home, bound[0]))):
        calls = [one for one in script.calls if dotted(one.func) == home.name.value]
        return _arguments(script, calls[0]) if len(calls) == 1 else None
    return (home, bound[0]) if len(bound) == 1 else None


def _returns(script: Script, function: cst.FunctionDef, name: str) -> bool:
    return any(one.value is not None and dotted(one.value) == name for one in script.returns(function))


def _receiving_parameter(script: Script, argument: cst.Arg) -> tuple[cst.FunctionDef, str] | None:
    """The function whose only call passes `argument`, and its parameter."""
    call = script.source.parent(argument)
    scope = script.target(call) if isinstance(call, cst.Call) else None
    name = script.bound_parameter(call, argument) if isinstance(call, cst.Call) else None
    if scope is None or name is None or len(scope) > 1 or sum(script.target(one) == scope for one in script.calls) > 1:
        return None
    return script.functions[scope], name


def _bound(script: Script, call: cst.Call) -> list[str]:
    """The variables to which `call` is assigned as a whole."""
    above = script.source.parent(call)
    return sorted(bound_paths(above)) if isinstance(above, (cst.Assign, cst.AnnAssign)) else []


def _commands(script: Script, known: dict[cst.BaseExpression, Use]) -> Iterator[tuple[cst.FunctionDef, str]]:
    """The functions that are commands, each with its library."""
    groups = {"click": set[str](), "typer": set[str]()}
    for use in known.values():
        above = script.source.parent(use.call) if use.call is not None else None
        if use.name == "typer.Typer" and isinstance(above, cst.Assign):
            groups["typer"] |= bound_paths(above)
    functions = list(script.of_kind(cst.FunctionDef))
    for function in functions:
        for decorator in function.decorators:
            callee = _callee(decorator)
            name = known[callee].name if callee in known else ""
            if name == "click.group":
                groups["click"].add(function.name.value)
            elif name == "click.command":
                yield function, "click"
            for library, members in groups.items():
                if (dotted(callee) or "") in {f"{group}.command" for group in members}:
                    yield function, library
    for use in known.values():
        if use.name == "typer.run" and use.call is not None and use.call.args:
            named = dotted(use.call.args[0].value)
            yield from ((one, "typer") for one in functions if one.name.value == named)


def _callee(decorator: cst.Decorator) -> cst.BaseExpression:
    made = decorator.decorator
    return made.func if isinstance(made, cst.Call) else made


def _of_click(script: Script, kind: Kind, command: cst.FunctionDef) -> Option:
    """Add a decorator below those of the other options, and a parameter for its value."""
    last = command.decorators[-1]
    end = script.source.span(last).end.row
    start = script.rewrite.row_before(script.source.span(last).start)
    below = Position(end + 1, 1)
    named = f'"{kind.spelled}", "{kind.name}"'
    code = f"{start}@click.option({named}, default={kind.default}, {kind.help}){script.source.newline}"
    parameter = declared_behind(script, _last(command), kind.parameter)
    done = Remark(script.row(last), f"add the option {kind.spelled}")
    return Option(command, kind.name, kind.name, (Edit(Span(below, below), code), parameter), done, ("import click",))


def _of_typer(script: Script, kind: Kind, command: cst.FunctionDef) -> Option:
    text = f'{kind.name}: {kind.kind} = typer.Option({kind.default}, "{kind.spelled}", {kind.help})'
    edit = behind(script, _last(command), text)
    done = Remark(script.row(command), f"add the option {kind.spelled}")
    return Option(command, kind.name, kind.name, (edit,), done, ("import typer",))


def _last(command: cst.FunctionDef) -> cst.Param:
    """The last parameter of a command that takes the values of its options one by one. Raises Refusal."""
    params = command.params
    every = [*params.posonly_params, *params.params, *params.kwonly_params]
    if params.star_kwarg is not None or isinstance(params.star_arg, cst.Param) or not every:
        raise Refusal(command, f"{command.name.value}() takes the values of its options together, or none")
    return every[-1]
