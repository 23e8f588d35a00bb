"""Statements of random programs that are more than a line: loops, lists, closures, early returns, conversions.

Each writes itself into a scope, with a writer that picks what is in it.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING

from tests.dtypes.operations import Line

if TYPE_CHECKING:
    from tests.dtypes.programs import Scope, Variable, Writer

STEPS = (
    "{v} = {v} * {s}",
    "{v} = {v}.half()",
    "{v} = {v}.to({d})",
    "{v} = {v} + {y}",
    "{v} = torch.sigmoid({v})",
    "{v} = {v}.exp()",
    "{v} += {y}",
    "{v} = {v}.mean() + {v}",
    "{v} = {v}.float()",
    "{v}.mul_({s})",
    "{v} = torch.stack([{v}, {y}]).sum(0)",
    "{v} = {v}.softmax(-1)",
    "{v} = {v} @ {v}.transpose(-2, -1)",
)
"""What a round of a loop does to a variable."""


def _named(writer: Writer, scope: Scope, hole: str = "X") -> tuple[str, Variable]:
    """A new variable that holds what another one does."""
    text, leader, _ = writer.filled(scope, Line("{" + hole + "}"))
    assert leader is not None
    name = writer.fresh()
    scope.write(f"{name} = {text}{writer.pick(['', '', '.clone()', ' * 1', '.float()'])}")
    return name, leader


def _step(writer: Writer, scope: Scope, name: str, leader: Variable) -> str:
    step = writer.pick(STEPS[:-2] if leader.rank < 2 else STEPS)
    others = [one.name for one in scope.variables if one.holds == "f" and one.rank == leader.rank]
    text = step.replace("{v}", name).replace("{y}", writer.pick(others))
    return text.replace("{s}", writer.pick(["0.5", "2"])).replace("{d}", writer.pick(scope.dtypes))


def rounds(writer: Writer, scope: Scope) -> None:
    """A loop whose rounds begin with what the last one left."""
    name, leader = _named(writer, scope)
    count = writer.fresh("n")
    heads = ["for _ in range(3):", f"for {count} in range(2):", f"for {count} in (1, 2):"]
    with scope.block(writer.pick(heads)):
        for _ in range(1 + writer.number(1)):
            scope.write(_step(writer, scope, name, leader))
            writer.show(scope, name)
        if writer.number(5) == 0:
            with scope.block(f"if {name}.dtype == {writer.pick(scope.dtypes)}:"):
                scope.write(writer.pick(["break", "continue"]))
    writer.show(scope, name)
    scope.variables.append(replace(leader, name=name))


def until(writer: Writer, scope: Scope) -> None:
    """A loop that counts."""
    name, leader = _named(writer, scope)
    count = writer.fresh("n")
    scope.write(f"{count} = 0")
    with scope.block(f"while {count} < 2:"):
        scope.write(_step(writer, scope, name, leader))
        scope.write(f"{count} += 1")
        writer.show(scope, name)
    writer.show(scope, name)
    scope.variables.append(replace(leader, name=name))


def gathered(writer: Writer, scope: Scope) -> None:
    """A list that a loop fills, and what is made of it."""
    name, leader = _named(writer, scope)
    kept, result = writer.fresh("kept"), writer.fresh()
    scope.write(f"{kept} = []")
    with scope.block("for _ in range(2):"):
        scope.write(_step(writer, scope, name, leader))
        scope.write(f"{kept}.append({name})")
    made = writer.pick([
        "torch.stack({k}).sum(0)", "sum({k})", "torch.cat({k})[:4]", "{k}[0]", "{k}[-1]", "{k}.pop()",
        "torch.stack([one * 2 for one in {k}])[0]",
    ])  # fmt: skip
    scope.write(f"{result} = {made.replace('{k}', kept)}")
    writer.show(scope, result)
    scope.variables.append(replace(leader, name=result))


def over(writer: Writer, scope: Scope) -> None:
    """A loop over tensors."""
    text, leader, _ = writer.filled(scope, Line(writer.pick(["[{X}, {h}]", "({X}, {h}, {h})"])))
    assert leader is not None
    item, result = writer.fresh("item"), writer.fresh()
    scope.write(f"{result} = {writer.pick(['0', 'None', leader.name])}")
    with scope.block(f"for {item} in {text}:"):
        writer.show(scope, item)
        scope.write(f"{result} = {item} * 2 if {result} is None else {result} + {item}")
        writer.show(scope, result)
    writer.show(scope, result)
    scope.variables.append(replace(leader, name=result))


def held(writer: Writer, scope: Scope) -> None:
    """A dictionary of tensors."""
    text, leader, _ = writer.filled(scope, Line('{"a": {X}, "b": {h}}'))
    assert leader is not None
    table, result = writer.fresh("table"), writer.fresh()
    scope.write(f"{table} = {text}")
    if writer.number(1):
        scope.write(f'{table}["a"] = {table}["a"].to({writer.pick(scope.dtypes)})')
    if writer.number(3) == 0:
        scope.write(f"{table} = {{key: value.float() for key, value in {table}.items()}}")
    made = writer.pick(['{t}["a"]', '{t}["b"] * 2', '{t}.get("a")', "sum({t}.values())", '{t}["a"] + {t}["b"]'])
    scope.write(f"{result} = {made.replace('{t}', table)}")
    writer.show(scope, result)
    scope.variables.append(replace(leader, name=result))


def closure(writer: Writer, scope: Scope) -> None:
    """A function inside, which uses what is around it; it may return early."""
    text, leader, _ = writer.filled(scope, Line("{X}"))
    assert leader is not None
    name, given, result = writer.fresh("inner"), writer.fresh("x"), writer.fresh()
    others = [one.name for one in scope.variables if one.holds == "f" and one.rank == leader.rank]
    default = writer.pick(["", ", scale=0.5", f", dtype={writer.pick(scope.dtypes)}"])
    with scope.block(f"def {name}({given}{default}):"):
        if writer.number(2) == 0:
            with scope.block(f"if {given}.dtype == {writer.pick(scope.dtypes)}:"):
                scope.write(f"return {given}.float()")
        if "dtype" in default:
            scope.write(f"{given} = {given}.to(dtype)")
        scope.write(_step(writer, scope, given, leader))
        writer.show(scope, given)
        scope.write(f"return {given} * {'scale' if 'scale' in default else writer.pick(others)}")
    call = writer.pick(["{f}({x})", "{f}({x}.half())", "{f}({f}({x}))", "[{f}(one) for one in ({x}, {x})][1]"])
    if "dtype" in default and writer.number(1):
        call = f"{{f}}({{x}}, dtype={writer.pick(scope.dtypes)})"
    scope.write(f"{result} = {call.replace('{f}', name).replace('{x}', text)}")
    writer.show(scope, result)
    scope.variables.append(replace(leader, name=result))


def guarded(writer: Writer, scope: Scope) -> None:
    """What is done for halves alone, and undone."""
    name, leader = _named(writer, scope)
    before, result = writer.fresh("dtype"), writer.fresh()
    scope.write(f"{before} = {name}.dtype")
    with scope.block(f"if {before} {writer.pick(['in (torch.float16, torch.bfloat16)', '!= torch.float32'])}:"):
        scope.write(f"{name} = {name}.float()")
    writer.show(scope, name)
    scope.write(_step(writer, scope, name, leader))
    scope.write(f"{result} = {name}{writer.pick([f'.to({before})', f'.type({before})', f'.to(dtype={before})'])}")
    writer.show(scope, result)
    scope.variables += [replace(leader, name=name), replace(leader, name=result)]


def optional(writer: Writer, scope: Scope) -> None:
    """A tensor that there may be none of."""
    text, leader, _ = writer.filled(scope, Line("{x}"))
    assert leader is not None
    name, result = writer.fresh(), writer.fresh()
    scope.write(f"{name} = {writer.pick(['None', text, f'{text}.half()'])}")
    scope.write(f"{result} = {text} if {name} is None else {text} * {name}")
    writer.show(scope, result)
    with scope.block(f"if {name} is not None and isinstance({name}, torch.Tensor):"):
        scope.write(f"{result} = {result} + {name}")
        writer.show(scope, result)
    writer.show(scope, result)
    scope.variables.append(replace(leader, name=result))


def unpacked(writer: Writer, scope: Scope) -> None:
    """Several names bound at once, and tried."""
    text, leader, _ = writer.filled(scope, Line("{X}, {h}"))
    assert leader is not None
    first, second = writer.fresh(), writer.fresh()
    scope.write(f"{first}, {second} = {text}")
    if writer.number(1):
        scope.write(f"{first}, {second} = {second}, {first}")
    with scope.block("try:"):
        scope.write(f"{first} = {first}.to({writer.pick(scope.dtypes)})")
    with scope.block("finally:"):
        scope.write(f"{second} = {second} * 0.5")
    for name in (first, second):
        writer.show(scope, name)
        scope.variables.append(replace(leader, name=name))


def switched(writer: Writer, scope: Scope) -> None:
    """A region that a flag turns on, among other contexts."""
    name, leader = _named(writer, scope)
    head, _ = writer.region()
    flag = writer.fresh("flag")
    scope.write(f"{flag} = {writer.pick(['True', 'False', 'DTYPE == torch.float16'])}")
    enabled = f'torch.autocast("{writer.device}", dtype={writer.pick(["torch.float16", "DTYPE"])}, enabled={flag})'
    heads = [
        f"with {enabled}:", f"with torch.no_grad(), {head}:", f"with {head}, {enabled}:",
        f"with {head} if {flag} else contextlib.nullcontext():",
    ]  # fmt: skip
    with scope.block(writer.pick(heads)):
        scope.write(_step(writer, scope, name, leader))
        writer.show(scope, name)
        result = writer.fresh()
        scope.write(f"{result} = torch.stack([{name}, {leader.name}]).float()[0] + {name}.exp()")
        writer.show(scope, result)
    writer.show(scope, name)
    scope.variables += [replace(leader, name=name), replace(leader, name=result)]


def converted(writer: Writer, scope: Scope) -> None:
    """A layer that is converted where it is."""
    names = [name for name, layer in scope.layers if layer.call.agreeing and "[" not in layer.call.text]
    if names and "self" not in names[0]:
        name, dtype = writer.pick(names), writer.pick(scope.dtypes)
        ways = [f"{name}.half()", f"{name}.float()", f"{name}.to({dtype})", f"{name} = {name}.to(DEVICE, {dtype})",
                f"{name}.eval()", f"{name}.requires_grad_(False)", f"{name}.to(DEVICE).to(dtype={dtype})"]  # fmt: skip
        scope.write(writer.pick(ways))
    else:
        rounds(writer, scope)


STRUCTURES: tuple[Callable[[Writer, Scope], None], ...] = (
    rounds, until, gathered, over, held, closure, guarded, optional, unpacked, switched, converted,
)  # fmt: skip
