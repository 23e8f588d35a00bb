"""What real PyTorch does with a program: every outcome of its conditions is driven, and each call is watched.

A program runs on `torch.amp.GradScaler("cpu")`, `torch.optim.SGD` and `torch.nn.Linear`; the scaler and the optimizers
are watched. What it imports from `world` is the driver's: `coin` is a condition that can turn out either way (the same
way for the same name within one iteration of the innermost loop), `batches` an iterable of unknown length, but at least
1, `fragile` a call that can fail, and `inputs` gives every forward pass a feature of its own. Each element of a
weight's gradient then belongs to one backward pass, and what it holds tells what that pass has been multiplied by: the
scale, 1, or something that is wrong.

Every assignment of outcomes is tried. A run is given up where it has come to a state another run has been in, so loops
of any length are explored to the end.

The verdicts, at the line of the call that is named:

AMP201  `unscale_` raised: already called since the last update.
AMP202  `unscale_` raised: called after this iteration's step; or clipping found scaled gradients a step has used.
AMP203  the scaler's latest `unscale_` or `step` before a call that raised because of one in an earlier iteration; an
        `unscale_` that raised because of an earlier `unscale_` is AMP201 as well.
AMP204  `step` raised: already called in this iteration.
AMP205  clipping found gradients that carry a scale.
AMP206  `optimizer.step()` found gradients that carry a scale, or whose inf and NaN the scaler has counted for a step of
        its own, or nothing but gradients the scaler has stepped with. The latter two are open where plain gradients
        came on top.
AMP207  the latest backward whose gradients were divided by a scale they never carried; or the `unscale_` or `step` that
        divided gradients another scaler had scaled.
AMP215  the latest update before a call that divided gradients of an older scale; or an update that raised after a
        backward or after another update of its iteration.
AMP221  `step` raised for want of gradients, or `update` for want of a step, every time the line ran. That another
        optimizer than the unscaled one is stepped is left open: nothing raises.

AMP215 and AMP221 of an `update` are open where settings leave out all steps of a run, if there are several settings:
nobody chooses them so.

Where there are several optimizers, the linter cannot know which of them a backward pass was meant for. There a verdict
is open (it may be told or not) if it rests on gradients that passes of different fates have been added up in. Where
there are several scalers, a pass reaches some optimizers only; what is said of the others is open until their gradients
are cleared, and so is what `unscale_` has left in their stage until the next update. A verdict is open as well once an
exception has been caught: how far a `try` came the linter does not know.

Only gradients that no step has used count, and only until they are spoilt: by being divided when they should not be. A
call that raises is taken to have done what it is for, so that one mistake is not told twice.
"""

from __future__ import annotations

import ast
import contextlib
import itertools
import math
import sys
import types
from collections import defaultdict, deque
from collections.abc import Iterator
from dataclasses import dataclass, field

import torch
from torch.amp.grad_scaler import OptState

FILENAME = "<program>"
WIDTH = 96
FEATURES = torch.eye(WIDTH).unbind()
RUN_LIMIT = 400
OF_GRADIENTS = ("AMP202", "AMP205", "AMP206", "AMP207", "AMP215", "AMP221")

Verdict = tuple[str, int]
Iteration = tuple[int, ...]


class Abandoned(BaseException):
    """The run has come to where another has been."""


class TooLarge(Exception):
    """A program has more states than a test has time for."""


@dataclass
class Pass:
    """What one backward pass has added to the gradients of one optimizer."""

    line: int
    scaler: Scaler | None
    factor: float
    used: bool = False
    stepped: bool = False
    spoilt: bool = False
    mixed: bool = False


@dataclass
class Outcome:
    """What all runs of a program showed."""

    shown: set[Verdict] = field(default_factory=set)
    open: set[Verdict] = field(default_factory=set)
    doubted: set[Verdict] = field(default_factory=set)
    entered: set[str] = field(default_factory=set)
    always: dict[Verdict, bool] = field(default_factory=dict)
    seen: set[object] = field(default_factory=set)
    todo: deque[tuple[bool, ...]] = field(default_factory=lambda: deque([()]))
    runs: int = 0

    def verdicts(self) -> set[Verdict]:
        """Every code with the line it is due at."""
        return self.shown | {verdict for verdict, always in self.always.items() if always}


class Run:
    """One run of a program, its conditions decided by `script` and, behind its end, always by True."""

    def __init__(self, outcome: Outcome, loops: dict[str, list[tuple[int, int]]], script: tuple[bool, ...]) -> None:
        self.outcome = outcome
        self.loops = loops
        self.script = script
        self.taken: list[bool] = []
        self.serial = 0
        self.rounds: dict[int, int] = {}
        self.known: dict[tuple[str, int], bool] = {}
        self.scalers: list[Scaler] = []
        self.optimizers: list[Optimizer] = []
        self.features = itertools.cycle(range(WIDTH))
        self.scaler_steps = False
        self.trains = False
        self.failed = False
        self.over = False

    def show(self, code: str, line: int, *passes: Pass) -> None:
        """A verdict is due; it is open where only mixed passes lead to it, or an exception that was caught."""
        if not self.over:
            mixed = bool(passes) and all(made.mixed for made in passes)
            (self.outcome.open if mixed or self.failed else self.outcome.shown).add((code, line))

    def always(self, code: str, line: int, holds: bool) -> None:
        """A verdict is due if it holds whenever the line runs; it is open if that is so after an exception too."""
        if not self.over:
            always = self.outcome.always
            always[code, line] = always.get((code, line), True) and holds and not self.failed
            if self.failed and holds:
                self.outcome.open.add((code, line))

    def doubt(self, optimizer: Optimizer) -> bool:
        """Whether the last backward pass has missed the optimizer of the running call: what rests on it is open."""
        if optimizer.missed:
            updates = [scaler.updated[0] for scaler in self.scalers if scaler.updated is not None]
            lines = [self.line(), *updates, *(made.line for _, made, _ in optimizer.live())]
            self.outcome.doubted.update(itertools.product(OF_GRADIENTS, lines))
        return optimizer.missed

    def give_up(self) -> None:
        """End the run; what its `finally` blocks still do is not looked at."""
        self.over = True
        raise Abandoned

    def frames(self) -> list[types.FrameType]:
        found = []
        frame: types.FrameType | None = sys._getframe(1)
        while frame is not None:
            if frame.f_code.co_filename == FILENAME:
                found.append(frame)
            frame = frame.f_back
        return found[::-1]

    def line(self) -> int:
        frame = sys._getframe(1)
        while frame.f_code.co_filename != FILENAME:
            assert frame.f_back is not None
            frame = frame.f_back
        return frame.f_lineno

    def iteration(self) -> Iteration:
        """Which round of each loop around the current call this is."""
        return tuple(
            self.rounds[first]
            for frame in self.frames()
            for first, last in self.loops.get(frame.f_code.co_name, ())
            if first < frame.f_lineno <= last
        )

    def next_round(self, loop: int) -> None:
        """Called by the program at the start of every loop body."""
        if self.over:
            raise Abandoned
        self.serial += 1
        self.rounds[loop] = self.serial
        self._arrive()

    def coin(self, name: str) -> bool:
        now = self.iteration()
        key = (name, now[-1] if now else 0)
        if key not in self.known:
            self.known[key] = self.choose()
        return self.known[key]

    def choose(self) -> bool:
        if self.over:
            raise Abandoned
        position = len(self.taken)
        if position < len(self.script):
            self.taken.append(self.script[position])
        else:
            self._arrive()
            self.outcome.todo.append((*self.taken, False))
            self.taken.append(True)
        return self.taken[-1]

    def fragile(self) -> None:
        """Something that can fail."""
        if not self.choose():
            self.failed = True
            raise RuntimeError("out of memory")

    def batches(self) -> Iterator[int]:
        yield 0
        while not self.choose():
            yield 0

    def inputs(self) -> torch.Tensor:
        present = {i for optimizer in self.optimizers for i in optimizer.gradients()}
        feature = next(i for i in self.features if i not in present)
        return FEATURES[feature]

    def _arrive(self) -> None:
        if len(self.taken) < len(self.script):
            return
        state = self._state()
        if state in self.outcome.seen:
            self.give_up()
        self.outcome.seen.add(state)

    def _state(self) -> object:
        """All that decides how the program can go on from here."""
        now = self.iteration()
        places = []
        for frame in self.frames():
            names = {**vars(frame.f_locals.get("self", types.SimpleNamespace())), **frame.f_locals}
            plain = tuple((name, value) for name, value in names.items() if value is None or isinstance(value, bool))
            scaled = tuple(name for name, value in names.items() if getattr(value, "scaled", False))
            places.append((frame.f_code.co_name, frame.f_lasti, plain, scaled))
        coins = frozenset((name, now.index(when), value) for (name, when), value in self.known.items() if when in now)
        always = frozenset((name, value) for (name, when), value in self.known.items() if not when)
        scalers = tuple(scaler.progress(now) for scaler in self.scalers)
        optimizers = tuple(optimizer.progress() for optimizer in self.optimizers)
        return tuple(places), coins, always, scalers, optimizers, self.failed


def since(then: Iteration | None, now: Iteration) -> tuple[int, int] | None:
    """How many of the rounds around `then` are still going on."""
    if then is None:
        return None
    shared = [a == b for a, b in zip(then, now, strict=False)]
    return (shared.index(False) if False in shared else len(shared)), len(then)


def same(then: Iteration, now: Iteration) -> bool:
    """Whether one of two calls stands in the other's iteration."""
    return all(a == b for a, b in zip(then, now, strict=False))


RUN: Run


class Optimizer(torch.optim.SGD):
    """SGD whose gradients are known by the backward pass they come from."""

    def __init__(self, params: object, lr: float) -> None:
        super().__init__(params, lr=lr)  # type: ignore[arg-type]
        self.passes: dict[int, Pass] = {}
        self.missed = False
        self._read: tuple[torch.Tensor | None, int, dict[int, float]] = (None, 0, {})
        RUN.optimizers.append(self)

    def weight(self) -> torch.Tensor:
        return self.param_groups[0]["params"][0]  # type: ignore[no-any-return]

    def gradients(self) -> dict[int, float]:
        grad = self.weight().grad
        if grad is None:
            return {}
        if grad is not self._read[0] or grad._version != self._read[1]:
            values = {i: value for i, value in enumerate(grad[0].tolist()) if value}
            self._read = grad, grad._version, values
        return self._read[2]

    def miss(self) -> None:
        """A backward pass has not reached these gradients, for all that the linter knows it has."""
        self.missed = True
        for _, made, _ in self.live():
            made.mixed = True

    def zero_grad(self, set_to_none: bool = True) -> None:
        self.missed = False
        super().zero_grad(set_to_none)

    def changed(self) -> None:
        """The gradients have been divided, which their version does not tell."""
        self._read = (None, 0, {})

    def live(self) -> list[tuple[int, Pass, float]]:
        """Each backward pass whose gradients no step has used, with what they have been multiplied by."""
        present = ((i, self.passes[i], value) for i, value in self.gradients().items())
        return [found for found in present if not found[1].used and not found[1].spoilt]

    def carrying(self) -> list[Pass]:
        return [made for _, made, value in self.live() if made.scaler is not None and math.isclose(value, made.factor)]

    def raw(self) -> list[tuple[int, int]]:
        """The plain backward passes in their order, each with its line."""
        return [(i, made.line) for i, made, _ in self.live() if made.scaler is None]

    def use(self, by: Scaler | None = None) -> None:
        for i in self.gradients():
            made = self.passes[i]
            made.used, made.stepped = True, by is not None and (made.scaler is by or made.stepped)

    def add_to_used(self) -> None:
        """A new backward pass comes on top of gradients that a step has used: these are not what is clipped then."""
        for i in self.gradients():
            if i in self.passes and self.passes[i].used:
                self.passes[i].spoilt = True

    def progress(self) -> object:
        present = [(self.passes[i], value) for i, value in self.gradients().items() if not self.passes[i].spoilt]
        kinds = frozenset(
            (
                made.mixed,
                made.scaler and RUN.scalers.index(made.scaler),
                made.stepped,
                made.used or _kind(made, value),
            )
            for made, value in present
        )
        raw = max(self.raw(), default=None)
        latest = raw and (raw[1], self.passes[raw[0]].mixed)
        return kinds, latest, self.weight().grad is None, self.missed

    def step(self, closure: None = None) -> None:  # type: ignore[override]
        RUN.doubt(self)
        RUN.trains = True
        live = [made for _, made, _ in self.live()]
        if not RUN.scaler_steps and not live:
            self._again()
        if not RUN.scaler_steps and self.carrying():
            RUN.show("AMP206", RUN.line(), *self.carrying())
        elif not RUN.scaler_steps and any(scaler.waits(self) for scaler in RUN.scalers):
            divided = [made for made in live if made.scaler is not None]
            if divided and len(divided) == len(live):
                RUN.show("AMP206", RUN.line(), *divided)
            elif divided:
                RUN.outcome.open.add(("AMP206", RUN.line()))
        if not RUN.scaler_steps:
            self.use()
        super().step()

    def _again(self) -> None:
        """A step without new gradients; it is open where some of the old ones never carried a scale, or are spoilt."""
        present = [self.passes[i] for i in self.gradients()]
        whole = [made for made in present if not made.spoilt]
        stepped = [made for made in whole if made.stepped]
        if stepped and len(stepped) == len(whole):
            RUN.show("AMP206", RUN.line(), *stepped)
        elif stepped or (present and not whole):
            RUN.outcome.open.add(("AMP206", RUN.line()))


def _kind(made: Pass, value: float) -> tuple[object, ...]:
    current = made.scaler is not None and math.isclose(made.factor, made.scaler.get_scale())
    return made.scaler is None, math.isclose(value, made.factor), math.isclose(value, 1.0), current


class Scaler(torch.amp.GradScaler):
    """A scaler that grows with every update, so that one update too many shows in the gradients."""

    def __init__(self, device: str, init_scale: float, enabled: bool = True) -> None:
        super().__init__(device, init_scale=init_scale, growth_interval=1, enabled=enabled)
        self.scales: set[float] = set()
        self.when: dict[int, Iteration] = {}
        self.latest: int | None = None
        self.steps: set[int] = set()
        self.updated: tuple[int, Iteration] | None = None
        self.missed: set[int] = set()
        RUN.scalers.append(self)

    def progress(self, now: Iteration) -> object:
        if not self._enabled:
            return None
        stages = tuple(
            (
                RUN.optimizers.index(o),
                self._stage(o),
                bool(self._state(o)["found_inf_per_device"]),
                since(when, now),
                id(o) in self.missed,
            )
            for o in RUN.optimizers
            for when in [self.when.get(id(o))]
        )
        updated = self.updated and (self.updated[0], since(self.updated[1], now))
        return stages, self.latest, frozenset(self.steps), updated

    def _state(self, optimizer: Optimizer) -> dict[str, object]:
        return self._per_optimizer_states[id(optimizer)]

    def waits(self, optimizer: Optimizer) -> bool:
        """Whether `unscale_` has looked for inf and NaN, for a `step` that has not come yet."""
        if not self._enabled:
            return False
        return self._stage(optimizer) is OptState.UNSCALED and bool(self._state(optimizer)["found_inf_per_device"])

    def _stage(self, optimizer: Optimizer) -> OptState:
        return self._state(optimizer)["stage"]  # type: ignore[return-value]

    def scale(self, outputs: torch.Tensor) -> torch.Tensor:  # type: ignore[override]
        scaled = super().scale(outputs)
        assert isinstance(scaled, torch.Tensor)
        if self._enabled:
            self.scales.add(self.get_scale())
            scaled.scaled = True  # type: ignore[attr-defined]
        return scaled

    def _unscale_grads_(self, optimizer: Optimizer, *arguments: object) -> dict[torch.device, torch.Tensor]:  # type: ignore[override]
        found = super()._unscale_grads_(optimizer, *arguments)  # type: ignore[arg-type]
        optimizer.changed()
        return found

    def unscale_(self, optimizer: Optimizer) -> None:  # type: ignore[override]
        if not self._enabled or sys._getframe(1).f_code.co_filename != FILENAME:
            return super().unscale_(optimizer)
        line, now, stage = RUN.line(), RUN.iteration(), self._stage(optimizer)
        if RUN.doubt(optimizer):
            self.missed.add(id(optimizer))
        self._divides(optimizer, line)
        try:
            self._lazy()
            super().unscale_(optimizer)
        except RuntimeError as refused:
            self._expect(refused, "unscale_() has already", "unscale_() is being called after")
            again = same(self.when[id(optimizer)], now)
            if stage is OptState.UNSCALED:
                RUN.show("AMP201", line)
            elif again:
                RUN.show("AMP202", line)
            if not again:
                RUN.show("AMP203", self._latest())
            state = self._state(optimizer)
            state["stage"] = OptState.UNSCALED
            if optimizer.gradients():
                state["found_inf_per_device"] = {torch.device("cpu"): torch.zeros(())}
            for i, made, value in optimizer.live():
                if made.scaler is not None and math.isclose(value, made.factor):
                    optimizer.weight().grad[0, i] = 1.0  # type: ignore[index]
        self.when[id(optimizer)], self.latest = now, line
        return None

    def step(self, optimizer: Optimizer) -> None:  # type: ignore[override]
        if not self._enabled:
            super().step(optimizer)
            return
        RUN.scaler_steps = RUN.trains = True
        line, now = RUN.line(), RUN.iteration()
        missed = RUN.doubt(optimizer)
        self._divides(optimizer, line)
        empty = False
        try:
            self._lazy()
            super().step(optimizer)
        except RuntimeError as refused:
            self._expect(refused, "step() has already")
            if same(self.when[id(optimizer)], now):
                RUN.show("AMP204", line)
            else:
                RUN.show("AMP203", self._latest())
        except AssertionError as refused:
            self._expect(refused, "No inf checks were recorded for this")
            empty = True
            if id(optimizer) in self.missed:
                RUN.outcome.doubted.add(("AMP221", line))
            state = self._state(optimizer)
            state["stage"], state["found_inf_per_device"] = OptState.STEPPED, {torch.device("cpu"): torch.zeros(())}
        RUN.scaler_steps = False
        optimizer.use(self)
        RUN.always("AMP221", line, empty and not missed)
        self.when[id(optimizer)], self.latest = now, line
        self.steps.add(line)

    def update(self) -> None:  # type: ignore[override]
        if not self._enabled:
            return
        line, now = RUN.line(), RUN.iteration()
        empty = False
        stages = {self._state(optimizer)["stage"] for optimizer in RUN.optimizers}
        if {OptState.UNSCALED, OptState.STEPPED} <= stages:
            RUN.outcome.open |= {("AMP221", step) for step in self.steps}
        try:
            self._lazy()
            super().update()
        except AssertionError as refused:
            self._expect(refused, "No inf checks were recorded prior")
            if any(optimizer.missed for optimizer in RUN.optimizers):
                RUN.outcome.doubted |= {("AMP215", line), ("AMP221", line)}
            if not RUN.trains and sum(began == 0 for _, began in RUN.known) > 1:
                RUN.outcome.doubted |= {("AMP215", line), ("AMP221", line)}
            made = [made for optimizer in RUN.optimizers for made in optimizer.carrying()]
            pending = [one for one in made if one.scaler is self and math.isclose(one.factor, self.get_scale())]
            if self.updated is not None and same(self.updated[1], now):
                RUN.show("AMP215", line)
            elif pending:
                RUN.show("AMP215", line, *pending)
                if all(one.mixed for one in pending):
                    RUN.outcome.open.add(("AMP221", line))
            else:
                empty = True
            super().update(2 * self.get_scale())
        RUN.always("AMP221", line, empty)
        self.latest, self.updated, self.when, self.steps, self.missed = None, (line, now), {}, set(), set()

    def _lazy(self) -> None:
        """PyTorch insists that `scale` comes before everything else; that a script forgets it is not looked for."""
        if self._scale is None:
            self._lazy_init_scale_growth_tracker(torch.device("cpu"))

    def _expect(self, refused: Exception, *beginnings: str) -> None:
        if not str(refused).startswith(beginnings):
            raise refused

    def _latest(self) -> int:
        assert self.latest is not None
        return self.latest

    def _divides(self, optimizer: Optimizer, line: int) -> None:
        """Look at the gradients this call is going to divide by the scale."""
        if self._stage(optimizer) is not OptState.READY:
            return
        if optimizer.raw():
            latest, line_of_it = max(optimizer.raw())
            RUN.show("AMP207", line_of_it, optimizer.passes[latest])
        for _, made, value in optimizer.live():
            made.spoilt = made.scaler is not self or not math.isclose(value, self.get_scale())
            if made.scaler is self and made.spoilt:
                # gradients of the present scale, or without an update, were divided by another scaler or twice
                if self.updated is not None and not math.isclose(made.factor, self.get_scale()):
                    RUN.show("AMP215", self.updated[0], made)
            elif made.scaler is not None and made.spoilt:
                RUN.show("AMP207", line, made)


def _clip(params: object, max_norm: float) -> None:
    weights = list(params)  # type: ignore[call-overload]
    clipped = [o for o in RUN.optimizers if any(o.weight() is weight for weight in weights)]
    for optimizer in clipped:
        RUN.doubt(optimizer)
    live = [made for optimizer in clipped for made in optimizer.live()]
    used = [o.passes[i] for o in clipped for i in o.gradients() if o.passes[i].used and not o.passes[i].spoilt]
    carrying = [made for optimizer in clipped for made in optimizer.carrying()]
    scaled = [made for made in used if made.scaler is not None]
    if carrying:
        RUN.show("AMP205", RUN.line(), *carrying)
    elif not live and scaled:
        RUN.show("AMP202", RUN.line(), *scaled)


_backward = torch.Tensor.backward


def _watched_backward(loss: torch.Tensor) -> None:
    before = [optimizer.gradients() for optimizer in RUN.optimizers]
    _backward(loss)
    for optimizer, held in zip(RUN.optimizers, before, strict=True):
        if len(optimizer.gradients()) == len(held):
            optimizer.miss()
        for i, factor in optimizer.gradients().items():
            if i not in held:
                optimizer.add_to_used()
                scaler = None if factor == 1.0 else next(s for s in RUN.scalers if factor in s.scales)
                optimizer.passes[i] = Pass(RUN.line(), scaler, factor)
        fates = {_kind(made, value) for _, made, value in optimizer.live()}
        for _, made, _ in optimizer.live():
            made.mixed = made.mixed or (len(RUN.optimizers) > 1 and len(fates) > 1)


@contextlib.contextmanager
def _watched() -> Iterator[None]:
    utils = torch.nn.utils
    kept = torch.amp.GradScaler, torch.optim.SGD, utils.clip_grad_norm_
    torch.amp.GradScaler, torch.optim.SGD = Scaler, Optimizer  # type: ignore[assignment,misc]
    utils.clip_grad_norm_, torch.Tensor.backward = _clip, _watched_backward  # type: ignore[assignment]
    try:
        yield
    finally:
        torch.amp.GradScaler, torch.optim.SGD, utils.clip_grad_norm_ = kept  # type: ignore[misc]
        torch.Tensor.backward = _backward  # type: ignore[method-assign]
        sys.modules.pop("world", None)


def _marked(source: str) -> tuple[types.CodeType, dict[str, list[tuple[int, int]]]]:
    """The compiled program, whose functions and loop bodies tell that they begin, and the loops' lines by function."""
    tree = ast.parse(source)
    loops: dict[str, list[tuple[int, int]]] = defaultdict(list)
    scopes: list[tuple[ast.AST, str]] = [(tree, "<module>")]
    while scopes:
        node, scope = scopes.pop()
        for child in ast.iter_child_nodes(node):
            scopes.append((child, child.name if isinstance(child, ast.FunctionDef) else scope))
        if isinstance(node, (ast.For, ast.While)):
            loops[scope].append((node.lineno, node.end_lineno or node.lineno))
            _mark(node, f"__round__({node.lineno})")
        elif isinstance(node, ast.FunctionDef):
            _mark(node, f"__function__({node.name!r})")
    return compile(tree, FILENAME, "exec"), {scope: sorted(lines) for scope, lines in loops.items()}


def _mark(node: ast.For | ast.While | ast.FunctionDef, call: str) -> None:
    mark = ast.parse(call).body[0]
    for inner in ast.walk(mark):
        ast.copy_location(inner, node.body[0])
    node.body.insert(0, mark)


def observe(source: str) -> Outcome:
    """Run `source` with every outcome of its conditions."""
    global RUN
    outcome = Outcome()
    code, loops = _marked(source)
    with _watched():
        while outcome.todo:
            outcome.runs += 1
            if outcome.runs > RUN_LIMIT:
                raise TooLarge
            RUN = Run(outcome, loops, outcome.todo.popleft())
            world = types.ModuleType("world")
            vars(world).update(coin=RUN.coin, batches=RUN.batches, inputs=RUN.inputs, fragile=RUN.fragile)
            sys.modules["world"] = world
            with contextlib.suppress(Abandoned):
                marks = {"__round__": RUN.next_round, "__function__": outcome.entered.add}
                exec(code, {"__name__": "__main__", **marks})
    return outcome
