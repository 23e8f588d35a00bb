"""Random programs over tensors of several dtypes, as source text.

Functions, modules and a main part are made of random lines (`operations`, `networks`), some of them in autocast
regions, branches and loops. Every value gets a name of its own and is shown. Shapes are kept track of, so that lines
fit. Where operands need the same dtype and no region casts them, mostly such are taken as seem to have it: else most
programs would soon end.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import TypeVar

from hypothesis import strategies as st
from hypothesis.strategies import DrawFn

from tests.chance import Numbers, drawn
from tests.dtypes import idioms, operations
from tests.dtypes.networks import LAYERS, RECURRENT, Layer
from tests.dtypes.operations import Line
from tests.dtypes.structures import STRUCTURES

DIMENSIONS = "zvmtc"
HALF = ("torch.float16", "torch.bfloat16")
FLOATING = (*HALF, "torch.float32", "torch.float64")
NUMBERS = ("2", "0.5", "3", "1e-3", "-1.0")
ATTEMPTS = 4
FRACTIONS = ("0.5", "1e-3", "2.5")
NAMES = {"half": "torch.float16", "bfloat16": "torch.bfloat16", "float": "torch.float32", "double": "torch.float64"}
SHARES = (
    (operations.ARITHMETIC, 6),
    (operations.ELEMENTWISE, 5),
    (operations.PRODUCTS, 6),
    (operations.REDUCTIONS, 5),
    (operations.NORMS_AND_LOSSES, 4),
    (operations.SHAPES, 5),
    (operations.CASTS, 4),
    (operations.INTEGERS, 3),
    (operations.FACTORIES, 3),
    (idioms.IDIOMS, 20),
)
TABLES = tuple(table for table, share in SHARES for _ in range(share))
IN_PLACE = (*operations.IN_PLACE, *idioms.IN_PLACE)
_HOLE = re.compile(r"\{(\w+)\}")
_DTYPE = re.compile(r"torch\.(?:float16|bfloat16|float32|float64)\b")
_T = TypeVar("_T")


@dataclass(frozen=True)
class Variable:
    """A value: its name, its dimensions, what it holds (`f`, `a`, `b`, `i`, `k`), and what dtype it seems to have."""

    name: str
    rank: int
    holds: str = "f"
    seems: str = "torch.float32"


@dataclass(frozen=True)
class Callable:
    """A function or module of the program, what it is called with, what it returns, and its attributes."""

    name: str
    takes: tuple[Variable, ...]
    returns: tuple[Variable, ...]
    seems: str = ""
    keyword: str = ""
    parts: tuple[str, ...] = ()


@dataclass
class Scope:
    """What a line may use, and the lines so far."""

    lines: list[str] = field(default_factory=list)
    depth: int = 0
    variables: list[Variable] = field(default_factory=list)
    layers: list[tuple[str, Layer]] = field(default_factory=list)
    callables: list[Callable] = field(default_factory=list)
    dtypes: tuple[str, ...] = FLOATING
    region: str = ""

    def write(self, text: str) -> None:
        self.lines.append("    " * self.depth + text)

    @contextmanager
    def block(self, head: str) -> Iterator[None]:
        """Write what `head` begins; the names bound inside are not for what follows."""
        self.write(head)
        self.depth += 1
        known = list(self.variables)
        try:
            yield
        finally:
            self.depth -= 1
            self.variables = known


class Misfit(Exception):
    """There is nothing that a hole could be filled with."""


class Writer:
    """Writes one program; `number` gives one between 0 and the limit it is asked for."""

    def __init__(self, number: Numbers, device: str) -> None:
        self.number = number
        self.device = device
        self._names = 0

    def pick(self, options: Sequence[_T]) -> _T:
        return options[self.number(len(options) - 1)]

    def fresh(self, prefix: str = "v") -> str:
        self._names += 1
        return f"{prefix}{self._names}"

    def on(self) -> str:
        """What puts a new tensor on the device."""
        options = ["device=DEVICE", f'device="{self.device}"']
        return self.pick(options) if self.device == "cuda" or self.number(9) == 9 else ""

    def region(self) -> tuple[str, str]:
        """What enters an autocast region, and the dtype it seems to have, nothing where it is off."""
        dtype, kind = self.pick(HALF), self.number(9)
        default = "torch.float16" if self.device == "cuda" else "torch.bfloat16"
        name = self.pick(["torch.autocast", "torch.amp.autocast"])
        if kind == 0:
            return f'{name}("{self.device}", enabled=False)', ""
        if kind == 1:
            return f"{name}(DEVICE)", default
        if kind == 2 and self.device == "cuda":
            return "torch.cuda.amp.autocast()", default
        if kind == 3:
            return f'{name}("{self.device}", dtype=DTYPE)', dtype
        if kind == 4:
            return f"{name}(device_type=DEVICE, enabled=True, dtype={dtype})", dtype
        if kind == 5:
            return f'{name}("{self.device}", {dtype})', dtype
        return f'{name}("{self.device}", dtype={dtype})', dtype

    def filled(self, scope: Scope, line: Line) -> tuple[str, Variable | None, list[Variable]]:
        """The text of a line with operands in its holes, the leading one, and all. Raises Misfit."""
        holes = _HOLE.findall(line.text)
        leading = next((hole for hole in holes if hole in "xXM" + DIMENSIONS), None)
        leader = self._operand(scope, leading, None, "") if leading else None
        alike = leader.seems if leader and line.agreeing and not scope.region and self.number(19) else ""
        operands: list[Variable] = []

        def fill(match: re.Match[str]) -> str:
            hole = match[1]
            if hole == "on":
                on = self.on()
                return f", {on}" if on else ""
            if hole in "sf":
                return self.pick(NUMBERS if hole == "s" else FRACTIONS)
            if hole in "de":
                return self.pick(scope.dtypes)
            again = leader is not None and hole == leading and (hole in "xXM" or leader not in operands)
            found = leader if leader is not None and again else self._operand(scope, hole, leader, alike)
            operands.append(found)
            return found.name

        text = line.text.replace(".cpu()", ".cuda()") if self.device == "cuda" else line.text
        return _HOLE.sub(fill, text), leader, operands

    def _operand(self, scope: Scope, hole: str, leader: Variable | None, alike: str) -> Variable:
        rank = leader.rank if leader is not None else 4
        fitting = [one for one in scope.variables if _fits(one, hole, rank)]
        if alike:
            fitting = [one for one in fitting if one.holds != "f" or one.seems == alike]
        if not fitting:
            raise Misfit
        return fitting[max(self.number(len(fitting) - 1), self.number(len(fitting) - 1))]

    def line(self, scope: Scope, line: Line, called: str = "") -> None:
        """Write a line that makes something. Raises Misfit."""
        text, leader, operands = self.filled(scope, line)
        made, targets = [], []
        for word in line.makes:
            name = self.fresh()
            targets.append(word[: word.find("-")] * word.startswith("(") + name + ")" * word.endswith(")"))
            variable = self._made(scope, word.strip("()"), name, text, leader, operands, line.agreeing)
            if variable is not None:
                made.append(variable)
        scope.write(f"{', '.join(targets)} = {text.replace('LAYER', called)}")
        for target in targets:
            self.show(scope, target.strip("()"))
        scope.variables += made

    def _made(
        self,
        scope: Scope,
        word: str,
        name: str,
        text: str,
        leader: Variable | None,
        operands: list[Variable],
        agreeing: bool,
    ) -> Variable | None:
        if word == "-":
            return None
        rank, holds = (leader or operands[0]).rank if operands else 0, "f"
        if word[0] in "abkif":
            holds, word = word[0], word[1:]
        elif operands and operands[0].holds != "f":
            holds = operands[0].holds
        if word[:1] and word[0] in DIMENSIONS:
            rank = DIMENSIONS.index(word[0])
        rank += {"-": -1, "+": 1}.get(word[-1:], 0)
        seems = operands[0].seems if operands else "torch.float32"
        if scope.region and agreeing:
            seems = scope.region
        named = _DTYPE.search(text) or re.search(r"\.(half|bfloat16|float|double)\(\)", text)
        if named is not None:
            seems = NAMES.get(named[0][1:-2], named[0])
        return Variable(name, rank, holds, seems)

    def show(self, scope: Scope, name: str) -> None:
        scope.write(f'see("{name}", {name})')

    def change(self, scope: Scope) -> None:
        """Write a line that changes a tensor."""
        line = self.pick(IN_PLACE)
        text, _, operands = self.filled(scope, line)
        scope.write(text)
        self.show(scope, operands[-1 if "out=" in text else 0].name)

    def simple(self, scope: Scope) -> None:
        """Write one line of any kind."""
        kind = self.number(11)
        if kind == 0:
            self.change(scope)
        elif kind <= 3 and scope.layers:
            name, layer = self.pick(scope.layers)
            self.line(scope, layer.call, name)
        elif kind == 4 and scope.callables:
            self.call(scope, self.pick(scope.callables))
        else:
            self.line(scope, self.pick(self.pick(TABLES)))

    def call(self, scope: Scope, one: Callable) -> None:
        """Write the call of something of the program."""
        given = []
        for wanted in one.takes:
            fitting = [v for v in scope.variables if v.rank == wanted.rank and v.holds == wanted.holds]
            alike = [v for v in fitting if v.holds != "f" or v.seems == (one.seems or "torch.float32")]
            if not scope.region and alike and self.number(9):
                fitting = alike
            if not fitting:
                raise Misfit
            given.append(self.pick(fitting).name)
        if one.keyword and self.number(1):
            given.append(f"{one.keyword}={self.pick(FLOATING)}")
        names = [self.fresh() for _ in one.returns]
        scope.write(f"{', '.join(names)} = {one.name}({', '.join(given)})")
        for name, returned in zip(names, one.returns, strict=True):
            self.show(scope, name)
            scope.variables.append(replace(returned, name=name))

    def statement(self, scope: Scope, depth: int = 2) -> None:
        """Write a statement."""
        for _ in range(ATTEMPTS):
            kind = self.number(19) if depth else 19
            try:
                if kind <= 2:
                    self.in_region(scope, depth)
                elif kind == 3:
                    self.branch(scope, depth)
                elif kind in (5, 6):
                    self.pick(STRUCTURES)(self, scope)
                elif kind == 4 and any("ModuleList" in layer.made_by for _, layer in scope.layers):
                    self.loop(scope)
                else:
                    self.simple(scope)
            except Misfit:
                continue
            return

    def in_region(self, scope: Scope, depth: int) -> None:
        head, dtype = self.region()
        if self.number(9) == 9:
            name = self.fresh("region")
            scope.write(f"{name} = {head}")
            head = name
        outer, known = scope.region, len(scope.variables)
        scope.region = dtype
        with scope.block(f"with {head}:"):
            self.body(scope, 1 + self.number(4), depth - 1)
            inner = scope.variables[known:]
        scope.region = outer
        scope.variables += inner

    def branch(self, scope: Scope, depth: int) -> None:
        of = self._operand(scope, "x", None, "")
        dtype = self.pick(FLOATING)
        conditions = [
            f"{of.name}.dtype == {dtype}",
            f"{of.name}.dtype != {dtype}",
            f"{of.name}.dtype in (torch.float16, torch.bfloat16)",
            f"{of.name}.is_floating_point()",
            f'torch.is_autocast_enabled("{self.device}")',
            f"{of.name}.dtype is {dtype}",
        ]
        name = self.fresh()
        for head in (f"if {self.pick(conditions)}:", "else:"):
            with scope.block(head):
                self.body(scope, self.number(1), depth - 1)
                line = self.pick(_SAME)
                text = line.text.replace("{x}", of.name).replace("{d}", self.pick(scope.dtypes))
                scope.write(f"{name} = {text}")
                self.show(scope, name)
        self.show(scope, name)
        scope.variables.append(replace(of, name=name))

    def loop(self, scope: Scope) -> None:
        name = self.pick([name for name, layer in scope.layers if "ModuleList" in layer.made_by])
        text, leader, _ = self.filled(scope, Line("{M}"))
        assert leader is not None
        value = self.fresh()
        scope.write(f"{value} = {text}")
        item = self.fresh("layer")
        heads = [f"for {item} in {name}:", f"for {self.fresh('n')}, {item} in enumerate({name}):"]
        with scope.block(self.pick(heads)):
            scope.write(f"{value} = {item}({value})")
            self.show(scope, value)
        self.show(scope, value)
        scope.variables.append(replace(leader, name=value))

    def body(self, scope: Scope, statements: int, depth: int = 2) -> None:
        for _ in range(statements):
            self.statement(scope, depth)
        if scope.lines and scope.lines[-1].endswith(":"):
            scope.write("pass")

    def function(self, known: list[Callable]) -> tuple[list[str], Callable]:
        """A function of the program."""
        name = self.fresh("helper")
        keyword = "dtype" if self.number(2) == 0 else ""
        scope, takes = self._parameters(known)
        if keyword:
            scope.dtypes = (*FLOATING[:2], "dtype", "dtype")
        given = [variable.name for variable in takes] + [f"dtype={self.pick(FLOATING)}"] * bool(keyword)
        head = self._decorated(f"def {name}({', '.join(given)}):")
        returns = self._function_body(scope)
        return [*head, *scope.lines], Callable(name, takes, returns, keyword=keyword)

    def _parameters(self, known: list[Callable]) -> tuple[Scope, tuple[Variable, ...]]:
        scope = Scope(depth=1, callables=list(known))
        for _ in range(1 + self.number(2)):
            scope.variables.append(Variable(self.fresh("x"), 1 + self.number(3), seems="torch.float32"))
        return scope, tuple(scope.variables)

    def _decorated(self, head: str) -> list[str]:
        kind = self.number(9)
        if kind == 0:
            return [f"@{self.region()[0]}", head]
        return ["@torch.no_grad()", head] if kind == 1 else [head]

    def _function_body(self, scope: Scope) -> tuple[Variable, ...]:
        for variable in scope.variables:
            self.show(scope, variable.name)
        self.body(scope, 2 + self.number(5))
        floating = [variable for variable in scope.variables if variable.holds == "f" and "." not in variable.name]
        returns = tuple(self.pick(floating[-3:]) for _ in range(1 + (self.number(4) == 4)))
        scope.write(f"return {', '.join(variable.name for variable in returns)}")
        return returns

    def autograd_function(self) -> tuple[list[str], Callable]:
        """A function of the program that has a backward pass of its own."""
        name = self.fresh("Function")
        scope, takes = self._parameters([])
        scope.depth = 2
        lines = [f"class {name}(torch.autograd.Function):", "    @staticmethod"]
        cast = self.pick(["", ", cast_inputs=torch.float32", f", cast_inputs={self.pick(FLOATING)}"])
        if self.number(3):
            lines.append(f'    @torch.amp.custom_fwd(device_type="{self.device}"{cast})')
        lines.append(f"    def forward({', '.join(['ctx', *(variable.name for variable in takes)])}):")
        returns = self._function_body(scope)
        backward = ["    @staticmethod", "    def backward(ctx, *gradients):", "        return gradients"]
        return [*lines, *scope.lines, "", *backward], Callable(f"{name}.apply", takes, returns)

    def network(self, known: list[Callable], others: list[Callable]) -> tuple[list[str], Callable]:
        """A module of the program: its class, and how its `forward` is called."""
        name = self.fresh("Net")
        lines = [f"class {name}(nn.Module):", "    def __init__(self):", "        super().__init__()"]
        layers: list[tuple[str, Layer]] = []
        kept: list[Variable] = []
        known = list(known)
        for _ in range(1 + self.number(4)):
            kind, attribute = self.number(9), self.fresh("self.a")
            if kind == 3 and others:
                other = self.pick(others)
                made = self.pick(["", "", ".half()", ".to(DTYPE)"])
                lines.append(f"        {attribute} = {other.name}(){made}")
                known.append(replace(other, name=attribute))
            elif kind == 0:
                lines.append(f"        {attribute} = nn.Parameter({self.pick(['torch.ones(4)', 'torch.rand(4, 4)'])})")
                kept.append(Variable(attribute, lines[-1].count("4")))
            elif kind == 1:
                made = self.pick(["torch.ones(4)", "torch.zeros(4, dtype=torch.float16)", "torch.ones(4, dtype=DTYPE)"])
                lines.append(f'        self.register_buffer("{attribute[5:]}", {made})')
                kept.append(Variable(attribute, 1))
            elif kind == 2:
                inner = self.pick(["nn.Linear(4, 4)", "nn.LayerNorm(4)", "nn.Linear(4, 4, bias=False)", "nn.Sigmoid()"])
                several = f"nn.ModuleList([{inner} for _ in range({1 + self.number(2)})])"
                lines.append(f"        {attribute} = {several}")
                layers.append((attribute, Layer(several, Line("LAYER[0]({M})", ("x",), True))))
            else:
                layer = self.layer()
                lines.append(f"        {attribute} = {layer.made_by}")
                layers.append((attribute, layer))
        method = []
        if self.number(3) == 0:
            body, part = self.function(known[:1])
            given = part.name.join(["def ", "(self, "])
            method = ["", *(f"    {line.replace(f'def {part.name}(', given)}" for line in body)]
            known.append(replace(part, name=f"self.{part.name}"))
        scope, takes = self._parameters(known)
        scope.depth = 2
        scope.layers = layers
        scope.variables += kept
        given = ", ".join(["self", *(variable.name for variable in takes)])
        head = self._decorated(f"def forward({given}):")
        returns = self._function_body(scope)
        parts = tuple(attribute for attribute, _ in layers)
        forward = [*(f"    {line}" for line in head), *scope.lines]
        return [*lines, *method, "", *forward], Callable(name, takes, returns, parts=parts)

    def layer(self) -> Layer:
        recurrent = RECURRENT if self.device == "cpu" and self.number(9) == 9 else ()
        return self.pick(recurrent or LAYERS)

    def model(self, scope: Scope, network: Callable) -> Callable:
        """Write how a module of the program is made."""
        name, dtype = self.fresh("model"), ""
        kind = self.number(9)
        text = f"{network.name}()"
        device = self.pick(['.to("cuda")', ".cuda()", ".to(DEVICE)"]) if self.device == "cuda" else ""
        if kind == 0:
            text, dtype = f"{text}.half()", "torch.float16"
        elif kind == 1:
            dtype = self.pick(FLOATING)
            text = f"{text}.to({dtype})"
        elif kind == 2:
            text, dtype = f"{text}.bfloat16()", "torch.bfloat16"
        elif kind == 3:
            text = f"{text}.eval()"
        scope.write(f"{name} = {text}{device}")
        if kind == 4:
            dtype = self.pick(FLOATING)
            scope.write(f"{name}.to({dtype})")
        elif kind == 5 and network.parts:
            part = self.pick(network.parts).replace("self", name)
            scope.write(self.pick([f"{part}.half()", f"{part}.to({self.pick(FLOATING)})", f"{part} = {part}.float()"]))
        return replace(network, name=name, seems=dtype)

    def program(self) -> str:
        """A program."""
        style = self.pick(["script", "script", "function"])
        definitions: list[str] = []
        helpers: list[Callable] = []
        for _ in range(self.number(2)):
            lines, one = self.function(helpers)
            definitions += [*lines, "", ""]
            helpers.append(one)
        if self.number(4) == 0:
            lines, one = self.autograd_function()
            definitions += [*lines, "", ""]
            helpers.append(one)
        networks: list[Callable] = []
        for _ in range(self.number(2)):
            lines, one = self.network(helpers[-1:], networks)
            definitions += [*lines, "", ""]
            networks.append(one)
        scope = Scope(depth=int(style == "function"), callables=list(helpers))
        for text, rank in (("torch.rand(4{on})", 1), ("torch.randn(4, 4{on})", 2), ("torch.rand(4, 4, 4{on})", 3)):
            self.line(scope, Line(text, (DIMENSIONS[rank],)))
        for _ in range(self.number(2)):
            self.line(scope, self.pick(operations.FACTORIES))
        scope.callables += [self.model(scope, network) for network in networks]
        for _ in range(self.number(2)):
            layer, name = self.layer(), self.fresh("layer")
            moved = ".cuda()" if self.device == "cuda" else ""
            scope.write(f"{name} = {layer.made_by}{moved}")
            scope.layers.append((name, layer))
        for _ in range(4 + self.number(8)):
            self.statement(scope)
        for one in scope.callables:
            try:
                self.call(scope, one)
            except Misfit:
                continue
        head = ["import contextlib", "import math", "", "import torch"]
        head += ["from torch import nn", "import torch.nn.functional as F", "from world import see", ""]
        head += [f'DEVICE = "{self.device}"', f"DTYPE = {self.pick(HALF)}", "", ""]
        main = ["def main():", *scope.lines, "", "", "main()"] if style == "function" else scope.lines
        return "\n".join([*head, *definitions, *main, ""])


_SAME = [
    line
    for line in (*operations.CASTS, *operations.ARITHMETIC)
    if line.makes == ("x",) and set(_HOLE.findall(line.text)) <= {"x", "d"}
]


def _fits(one: Variable, hole: str, rank: int) -> bool:
    if hole in DIMENSIONS:
        return one.holds == "f" and one.rank == DIMENSIONS.index(hole)
    if hole in "abB":
        holds = one.holds in "aik" if hole == "a" else one.holds == "b"
        return holds and (hole != "B" or one.rank == rank)
    if hole in "ik":
        return one.holds in "ik" and one.rank == (1 if hole == "i" else 2)
    if hole == "n":
        return one.rank <= rank
    ranks = {"x": one.rank >= 0, "X": one.rank >= 1, "M": one.rank >= 2, "y": one.rank <= rank, "l": one.rank < rank}
    return one.holds == "f" and ranks.get(hole, one.rank == rank)


@st.composite
def programs(draw: DrawFn, device: str) -> str:
    """The source of a program for this device type."""
    return Writer(drawn(draw), device).program()
