"""Random training programs over the GradScaler protocol, as source text.

A program begins as an iteration that is right. Then calls are left out, doubled, moved or put in, and stretches of it
go into branches, inner loops, `try` blocks and helpers. The conditions are few, so that one flag is tested in several
places of an iteration.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field

from hypothesis import strategies as st
from hypothesis.strategies import DrawFn

from tests.chance import Numbers, drawn
from tests.differential.oracle import WIDTH

RUN_FLAGS = ("amp", "extra")
ROUND_FLAGS = ("odd", "last")
KEPT_FLAG = "begun"
"""A flag that an iteration raises for the ones after it."""


@dataclass
class Branch:
    """`if condition: body else: other`."""

    condition: str
    body: list[Statement]
    other: list[Statement]


@dataclass
class Block:
    """A loop or `try`, and what stands in its `except` and `finally`."""

    head: str
    body: list[Statement]
    caught: list[Statement] = field(default_factory=list)
    closing: list[Statement] = field(default_factory=list)


Statement = str | Branch | Block
"""A line is a text in which `@` stands for what leads to the program's own objects: nothing, or `self.`."""


@dataclass
class Plan:
    """What a program is made of; `number` gives one between 0 and the limit it is asked for."""

    number: Numbers
    optimizers: range
    scalers: list[str]
    methods: bool
    at_top: bool
    guards: list[str] = field(default_factory=list)
    helpers: list[list[str]] = field(default_factory=list)

    def pick(self, options: list[str]) -> str:
        return options[self.number(len(options) - 1)]

    def owned(self, scaler: str) -> range:
        """The optimizers that `scaler` steps: the first one has a scaler of its own where there are two."""
        if len(self.scalers) == 1:
            return self.optimizers
        return self.optimizers[:1] if scaler == self.scalers[0] else self.optimizers[1:]

    def loss(self, optimizers: range) -> str:
        return " + ".join(f"@model{i}(inputs()).sum()" for i in optimizers)

    def calls(self) -> list[str]:
        """Every call of the protocol."""
        found = [f"({self.loss(self.optimizers)}).backward()"]
        for scaler in self.scalers:
            found += [f"@{scaler}.scale({self.loss(self.owned(scaler))}).backward()", f"@{scaler}.update()"]
        for i in self.optimizers:
            found += [f"torch.nn.utils.clip_grad_norm_(@model{i}.parameters(), 1.0)"]
            found += [f"@optimizer{i}.zero_grad()", f"@optimizer{i}.step()"]
            for scaler in self.scalers:
                found += [f"@{scaler}.unscale_(@optimizer{i})", f"@{scaler}.step(@optimizer{i})"]
        return found

    def iteration(self) -> list[str]:
        """A right iteration."""
        found, zeros_first = [], self.number(1)
        for scaler in self.scalers:
            zeros = [f"@optimizer{i}.zero_grad()" for i in self.owned(scaler)]
            found += zeros if zeros_first else []
            found.append(f"@{scaler}.scale({self.loss(self.owned(scaler))}).backward()")
            for i in self.owned(scaler):
                unscale, step = f"@{scaler}.unscale_(@optimizer{i})", f"@{scaler}.step(@optimizer{i})"
                clip = f"torch.nn.utils.clip_grad_norm_(@model{i}.parameters(), 1.0)"
                found += [[step], [unscale, step], [unscale, clip, step]][self.number(2)]
            found.append(f"@{scaler}.update()")
            found += zeros if not zeros_first else []
        return found

    def spoiled(self, calls: list[str]) -> list[str]:
        """`calls` with up to three mistakes."""
        for _ in range(self.number(3)):
            where, kind = self.number(len(calls) - 1), self.number(3)
            if kind == 0 and len(calls) > 1:
                del calls[where]
            elif kind == 1:
                calls.insert(self.number(len(calls)), calls[where])
            elif kind == 2:
                calls.insert(self.number(len(calls) - 1), calls.pop(where))
            else:
                calls.insert(where, self.pick(self.calls()))
        return calls

    def condition(self, flags: list[str]) -> str:
        one = self.pick(flags)
        other = self.pick(flags)
        return self.pick([one, f"not {one}", f"{one} and {other}", f"{one} or not {other}"])

    def shaped(self, body: list[Statement], flags: list[str], exits: list[str]) -> list[Statement]:
        """`body` with stretches of it put into other statements."""
        for _ in range(self.number(3)):
            first = self.number(len(body) - 1)
            last = min(first + self.number(3), len(body) - 1)
            stretch = body[first : last + 1]
            body[first : last + 1] = self._wrapped(stretch, flags, exits)
        return body

    def _wrapped(self, stretch: list[Statement], flags: list[str], exits: list[str]) -> list[Statement]:
        kind = self.number(9)
        if kind <= 4:
            other: list[Statement] = [self.pick(self.calls()) for _ in range(self.number(2))]
            if kind == 4 and exits:
                other = [*other[:1], self.pick(exits)]
            return [Branch(self.condition(flags), stretch, other)]
        if kind == 5 and exits:
            return [Branch(self.condition(flags), [self.pick(exits)], []), *stretch]
        if kind == 6:
            return [self.loop("_", stretch)]
        if kind == 7:
            return [self._tried(stretch, exits)]
        if kind >= 8 and not _names(stretch, "continue", "break", "return"):
            return [self._helper(stretch, flags)]
        return stretch

    def _tried(self, body: list[Statement], exits: list[str]) -> Block:
        if self.number(1):
            return Block("try:", body, closing=[self.pick(self.calls())])
        where = self.number(len(body))
        caught: list[Statement] = [self.pick([*self.calls(), *exits]) for _ in range(self.number(2))]
        closing: list[Statement] = [self.pick(self.calls())] if self.number(3) == 3 else []
        return Block("try:", ["fragile()", *body[:where], "fragile()", *body[where:]], caught or ["pass"], closing)

    def loop(self, target: str, body: list[Statement]) -> Block:
        """A loop of unknown length."""
        if self.number(3) < 3:
            return Block(f"for {target} in batches():", body)
        where = self.number(len(body))
        return Block("while True:", [*body[:where], Branch('coin("enough")', ["break"], []), *body[where:]])

    def guarded(self, body: list[Statement]) -> list[Statement]:
        """`body` with every use of a scaler that may be None behind a condition, and what is done without it."""
        found: list[Statement] = []
        open_guard = False
        for statement in body:
            one = self._guarded(statement) if self.guards else statement
            last = found[-1] if open_guard else None
            open_guard = isinstance(one, Branch) and isinstance(statement, str)
            if isinstance(one, Branch) and isinstance(last, Branch) and open_guard and self.number(1):
                last.body += one.body
                last.other += one.other
            else:
                found.append(one)
        return found

    def _guarded(self, statement: Statement) -> Statement:
        if isinstance(statement, Branch):
            return Branch(statement.condition, self.guarded(statement.body), self.guarded(statement.other))
        if isinstance(statement, Block):
            parts = (self.guarded(part) for part in (statement.body, statement.caught, statement.closing))
            return Block(statement.head, *parts)
        if "@scaler." not in statement:
            return statement
        plain = re.sub(r"@scaler\.scale\((.*)\)\.backward", r"(\1).backward", statement)
        plain = re.sub(r"@scaler\.step\((.*)\)", r"\1.step()", plain)
        return Branch(self.pick(self.guards), [statement], [] if plain == statement else [plain])

    def _helper(self, stretch: list[Statement], flags: list[str]) -> str:
        body = self.guarded(stretch)
        if self.number(1):
            body.insert(self.number(len(body)), Branch(self.condition(flags), ["return"], []))
        handed = [flag for flag in ROUND_FLAGS if _names(body, flag)]
        if not self.methods:
            objects = [f"{kind}{i}" for i in self.optimizers for kind in ("model", "optimizer")]
            kept = [flag for flag in (*RUN_FLAGS, KEPT_FLAG) if _names(body, flag)]
            handed = [*objects, *self.scalers, *kept, *handed]
        name = f"helper{len(self.helpers)}"
        given = ", ".join(handed)
        self.helpers.append([f"def {name}({given}):", *_lines(body, 1)])
        return f"@{name}({given})"


def _names(body: list[Statement], *words: str) -> bool:
    return any(word in line for line in _lines(body, 0) for word in words)


def _lines(body: list[Statement], depth: int) -> list[str]:
    found: list[str] = []
    indent = "    " * depth
    for statement in body:
        if isinstance(statement, str):
            found.append(indent + statement)
        elif isinstance(statement, Branch):
            found += [f"{indent}if {statement.condition}:", *_lines(statement.body, depth + 1)]
            if statement.other:
                found += [f"{indent}else:", *_lines(statement.other, depth + 1)]
        else:
            found += [indent + statement.head, *_lines(statement.body, depth + 1)]
            if statement.caught:
                found += [f"{indent}except RuntimeError:", *_lines(statement.caught, depth + 1)]
            if statement.closing:
                found += [f"{indent}finally:", *_lines(statement.closing, depth + 1)]
    return found


def _training(plan: Plan, prefix: str) -> list[Statement]:
    """The loops of the program."""
    flags = [prefix + flag for flag in RUN_FLAGS] + list(ROUND_FLAGS) + ['coin("rare")']
    exits = ["continue", "break", "continue"] if plan.at_top else ["continue", "break", "return"]
    body: list[Statement] = list(plan.spoiled(plan.iteration()))
    before: list[Statement] = []
    if plan.number(2) == 2:
        kept = prefix + KEPT_FLAG
        flags.append(kept)
        body.insert(plan.number(len(body)), f"{kept} = True")
        before.append(f"{kept} = False")
    body = plan.shaped(body, flags, exits)
    starts: list[Statement] = [f'{flag} = coin("{flag}")' for flag in ROUND_FLAGS if _names(body, flag)]
    loop: list[Statement] = [plan.loop("batch", [*starts, *body])]
    for _ in range(plan.number(2)):
        loop.insert(plan.number(1) * len(loop), plan.pick(plan.calls()))
    if plan.number(3) == 3:
        loop = [plan.loop("epoch", loop)]
    return before + plan.guarded(loop)


def program(number: Numbers) -> str:
    """The source of the program that is decided by these numbers, each between 0 and the limit it is asked for."""
    count = max(1, number(3))
    style = ("function", "script", "class")[number(2)]
    scalers = ["scaler", "other_scaler"] if count > 1 and number(3) == 3 else ["scaler"]
    plan = Plan(number, range(count), scalers, methods=style == "class", at_top=style == "script")
    prefix = "@" if plan.methods else ""
    scaler = 'torch.amp.GradScaler("cpu", init_scale=256.0)'
    kind = number(5)
    if kind == 1 and len(scalers) == 1:
        plan.guards += ["@scaler is not None", f"{prefix}amp"]
        scaler += " if amp else None"
    elif kind % 2:
        scaler = f"{scaler[:-1]}, enabled=amp)"
    setup: list[Statement] = []
    for i in plan.optimizers:
        setup.append(f"@model{i} = torch.nn.Linear({WIDTH}, 1, bias=False)")
        setup.append(f"@optimizer{i} = torch.optim.SGD(@model{i}.parameters(), lr=0.1)")
    scales = dict(zip(scalers, ("256.0", "768.0"), strict=False))  # no scale of one is ever a scale of the other
    setup += [f"@{name} = {scaler.replace('256.0', scale)}" for name, scale in scales.items()]
    training = _training(plan, prefix)
    given = ", ".join(RUN_FLAGS)
    helpers = [line for helper in plan.helpers for line in [*helper, ""]]
    outcomes = ", ".join(f'coin("{flag}")' for flag in RUN_FLAGS)
    if style == "class":
        kept: list[Statement] = [f"@{flag} = {flag}" for flag in RUN_FLAGS]
        methods = [f"def __init__(self, {given}):", *_lines([*kept, *setup], 1), ""]
        methods += [
            line.replace("(", "(self, ", 1).replace(", )", ")") if line[:4] == "def " else line for line in helpers
        ]
        methods += ["def fit(self):", *_lines(training, 1)]
        lines = ["class Trainer:", *(f"    {line}".rstrip() for line in methods), "", f"Trainer({outcomes}).fit()"]
    elif style == "function":
        lines = [*helpers, f"def main({given}):", *_lines([*setup, *training], 1), "", f"main({outcomes})"]
    else:
        flags: list[Statement] = [f'{flag} = coin("{flag}")' for flag in RUN_FLAGS]
        lines = [*helpers, *_lines([*flags, *setup, *training], 0)]
    text = "\n".join(["import torch", "from world import batches, coin, fragile, inputs", "", *lines, ""])
    return text.replace("@", "self." if plan.methods else "")


@st.composite
def programs(draw: DrawFn) -> str:
    """The source of a program."""
    return program(drawn(draw))
