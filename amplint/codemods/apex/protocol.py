"""The calls of apex, each converted to its equivalent with PyTorch's scaler."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping

from amplint.codemods.apex.checkpoints import kept_with_optimizer
from amplint.codemods.apex.reach import Reach
from amplint.codemods.apex.start import scaler_place
from amplint.codemods.apex.uses import LOAD_STATE_DICT, MASTER_PARAMS, SCALE_LOSS, STATE_DICT, uses
from amplint.codemods.conversion import Remark
from amplint.codemods.parameters import New, passed_on, takes_more
from amplint.codemods.writers import protocol
from amplint.edits.protocol import scaled
from amplint.findings import Edit
from amplint.semantics.words import ABOUT_GRADIENTS
from amplint.source import syntax as cst
from amplint.source.tree import walk
from amplint.training.bindings import positional
from amplint.training.names import Use
from amplint.training.observed import Observed
from amplint.training.refusal import Refusal, required
from amplint.training.scopes import Scope
from amplint.training.script import Script

_SCALE_LOSS = ("loss", "optimizers", "loss_id", "model", "delay_unscale", "delay_overflow_check")
_STATES = (STATE_DICT, LOAD_STATE_DICT)


class Protocol:
    """The edits of one script; `on` is false if mixed precision is always disabled.

    The scaler is constructed at the statement `made_at`: before it, or instead of it if that is `amp.initialize`.
    """

    def __init__(self, script: Script, reach: Reach, uses: list[Use], *, on: bool) -> None:
        self.made_at = scaler_place(script, reach)
        self.script = script
        self.reach = reach
        self.uses = uses
        self.on = on
        self.scaled = [use for use in uses if use.name == SCALE_LOSS]
        self.masters = [use for use in uses if use.name == MASTER_PARAMS]
        self.states = [use for use in uses if use.name in _STATES]

    def edits(self) -> list[Edit]:
        """Every edit, after the scaler was passed to the functions that need it."""
        steps = self.steps()
        if self.on:
            calls = [use.node for use in (*self.scaled, *self.states)]
            self.reach.need(self.script.scope(node) for node in (*calls, *steps))
        elif self.states:
            raise Refusal(self.script.row(self.states[0].node), "with O0 there is no state to save or load")
        found: list[Edit] = []
        for use in self.scaled:
            found += self._scaled(use)
        for use in self.masters:
            found.append(self._masters(use))
        if self.on:
            found += self._protocol_edits(steps)
        for use in self.states:
            found.append(
                self.script.rewrite.replace(use.node, f"{self._scaler(use.node)}.{use.name.rpartition('.')[2]}")
            )
        if self.on and not self.states:
            found += kept_with_optimizer(self.script, self.reach, self.script.row(self.made_at))
        return [*found, *self._parameter_edits()]

    def remarks(self) -> Iterator[Remark]:
        """Remarks for review, once the edits are known."""
        for use in self.states:
            if use.name == LOAD_STATE_DICT:
                yield Remark(
                    self.script.row(use.node), "a state that apex has saved cannot be loaded into a GradScaler"
                )
        if "__main__" not in self.script.text:
            for scope in dict.fromkeys(self.reach.receivers):
                row = self.script.row(self.script.functions[scope])
                yield Remark(row, f"{scope[-1]} takes the scaler now: calls in other files have to pass it")

    def _scaler(self, node: cst.CSTNode) -> str:
        found = self.reach.scaler_in(self.script.scope(node))
        assert found is not None
        return found

    def _scaled(self, use: Use) -> Iterator[Edit]:
        row = self.script.row(use.node)
        item = use.call and self.script.source.parent(use.call)
        region = item and self.script.source.parent(item)
        if use.call is None or not isinstance(item, cst.WithItem) or not isinstance(region, cst.With):
            raise Refusal(row, "amp.scale_loss is not used in a with statement")
        if len(region.items) != 1 or item.asname is None or not isinstance(item.asname.name, cst.Name):
            raise Refusal(row, "amp.scale_loss is entered together with something else or without a name")
        given = self.script.rewrite.arguments(use.call, _SCALE_LOSS)
        if given is None or "loss" not in given or "optimizers" not in given:
            raise Refusal(row, "what amp.scale_loss is called with is not written out")
        self._known_optimizers(given["optimizers"], row)
        name, loss = item.asname.name.value, given["loss"]
        code = scaled(loss, self._scaler(region), self.script.rewrite) if self.on else self.script.rewrite.operand(loss)
        uses = [n for n in walk(region.body) if isinstance(n, cst.Name) and n.value == name]
        backward = [n for n in uses if self._runs_backward(n)]
        if not backward:
            raise Refusal(row, "no backward pass runs on the scaled loss inside of the with statement")
        later = self.script.text_of(loss) != name and self._mentioned_later(region, name)
        body = region.body
        if len(uses) == 1 and not later:
            yield Edit(self.script.rewrite.span(uses[0]), code)
        elif isinstance(body, cst.IndentedBlock):
            yield required(self.script.rewrite.insert_before(body.body[0], f"{name} = {code}"), row)

    def _known_optimizers(self, node: cst.BaseExpression, row: int) -> None:
        nodes = [each.value for each in node.elements] if isinstance(node, (cst.List, cst.Tuple)) else [node]
        texts = [self.script.text_of(each) for each in nodes]
        for text in texts:
            if not self.reach.objects.means(self.script.scope(node), text, "optimizer"):
                raise Refusal(row, f"where {text} goes through amp.initialize is not in sight")

    def _runs_backward(self, name: cst.Name) -> bool:
        above = self.script.source.parent(name)
        return isinstance(above, cst.Attribute) and above.value is name and above.attr.value == "backward"

    def _mentioned_later(self, region: cst.With, name: str) -> bool:
        """Whether the function of `region` mentions `name` outside of statements that bind it as this one does."""
        function = self.script.functions.get(self.script.scope(region))
        nodes = list(walk(function.body)) if function is not None else self.script.nodes
        binding = [node for node in nodes if isinstance(node, cst.With) and _binds(node, name)]
        inside = {inner for node in binding for inner in walk(node)}
        return any(isinstance(node, cst.Name) and node.value == name and node not in inside for node in nodes)

    def _masters(self, use: Use) -> Edit:
        row, scope = self.script.row(use.node), self.script.scope(use.node)
        given = self.script.rewrite.arguments(use.call, ("optimizer",)) if use.call is not None else None
        if use.call is None or given is None or "optimizer" not in given:
            raise Refusal(row, "amp.master_params is handed on instead of being called")
        self._known_optimizers(given["optimizer"], row)
        optimizer = self.script.text_of(given["optimizer"])
        return self.script.rewrite.replace(use.call, self._parameters(use.call, scope, optimizer))

    def _protocol_edits(self, steps: dict[cst.Call, cst.BaseExpression]) -> list[Edit]:
        """The edits of the steps, and of the uses of gradients, which apex has unscaled."""
        for call, optimizer in steps.items():
            if call.args or not isinstance(self.script.source.parent(call), cst.Expr):
                why = f"{self.script.text_of(optimizer)}.step() is called with a closure, or its result is used"
                raise Refusal(self.script.row(call), why)
        uses = [use.call for use in self.masters if use.call is not None and self._reads_gradients(use.call)]
        for use in uses:
            self._check_window_end(use, steps)
        backwards = [use.call for use in self.scaled if use.call is not None]
        observed = Observed(self.reach.calls, backwards, steps=steps, uses=[*uses])
        return protocol.Protocol(self.script, observed, self._scaler).edits

    def _parameters(self, call: cst.Call, scope: Scope, optimizer: str) -> str:
        """The value of `amp.master_params(optimizer)`, spelled as in the other branch of an `if` if there is one."""
        for above in self.script.source.ancestors(call):
            if isinstance(above, cst.If) and isinstance(above.orelse, cst.Else):
                found = [c for c in walk(above.orelse) if isinstance(c, cst.Call) and _gives_parameters(c)]
                if len(found) == 1:
                    return self.script.text_of(found[0])
        models = self.reach.objects.named(scope, "model")
        single = len({setup.models for setup in self.reach.setups}) == 1 and self.reach.one_optimizer
        single &= len(self.reach.setups[0].models) == 1
        if single and models:
            return f"{models[0]}.parameters()"
        return f'[p for group in {optimizer}.param_groups for p in group["params"]]'

    def _reads_gradients(self, call: cst.Call) -> bool:
        """Whether the statement of `call` is about gradients, and not about the parameters alone."""
        return ABOUT_GRADIENTS.search(self.script.text_of(self.script.statement(call))) is not None

    def _check_window_end(self, use: cst.Call, steps: Mapping[cst.Call, cst.BaseExpression]) -> None:
        """Raise Refusal if the gradients are used on micro-batches that no step of their optimizer follows."""
        around = set(self.script.source.ancestors(use))
        optimizer = self.script.text_of(use.args[0].value)
        own = (one for one, taken in steps.items() if self.script.text_of(taken) == optimizer)
        for step in own:
            inside = itertools.takewhile(lambda above: above not in around, self.script.source.ancestors(step))
            if self.script.scope(step) == self.script.scope(use) and any(isinstance(one, cst.If) for one in inside):
                why = "gradients are used here on micro-batches that do not end with a step: GradScaler "
                raise Refusal(self.script.row(use), why + "can unscale them only once, right before it")

    def steps(self) -> dict[cst.Call, cst.BaseExpression]:
        """The steps of the optimizers, with these, except those right after the gradients were cleared."""
        found = {}
        for call in self.script.calls:
            func = call.func
            if isinstance(func, cst.Attribute) and func.attr.value == "step":
                text = self.script.text_of(func.value)
                steps = self.reach.objects.means(self.script.scope(call), text, "optimizer")
                if steps and not self._is_redundant(call, text):
                    found[call] = func.value
        return found

    def _is_redundant(self, call: cst.Call, optimizer: str) -> bool:
        """Whether a step follows `zero_grad`: apex needed one to prepare for `delay_unscale`."""
        block = list(self.script.rewrite.block_of(call))
        statement = self.script.rewrite.statement_of(call)
        place = next((index for index, each in enumerate(block) if each is statement), 0)
        return place > 0 and self.script.text_of(block[place - 1]).strip() == f"{optimizer}.zero_grad()"

    def _parameter_edits(self) -> Iterator[Edit]:
        """The edits that add the scaler to the parameters of each function that needs it, and to its calls."""
        for scope in dict.fromkeys(self.reach.receivers):
            function = self.script.functions[scope]
            scaler = New(self.reach.scaler, "torch.amp.GradScaler")
            if not positional(function) or not takes_more(function):
                raise Refusal(function, f"{function.name.value} needs the scaler; add a parameter for it by hand")
            calls = self.reach.calls.callers(function) or ()
            yield from passed_on(self.script, function, calls, [scaler], "the scaler cannot be passed on here")


def leave_regions(script: Script) -> Iterator[Edit]:
    """The edits that unwrap `with amp.scale_loss(...)` around statements that no longer need it."""
    for use in uses(script):
        if use.name == SCALE_LOSS and use.call is not None:
            region = next(above for above in script.source.ancestors(use.call) if isinstance(above, cst.With))
            if isinstance(region.body, cst.SimpleStatementSuite):
                inside = "; ".join(script.text_of(small) for small in region.body.body)
                yield script.rewrite.replace(region, inside)
                continue
            edit = script.rewrite.drop_region(region, named=True)
            yield required(edit, region, "the with statement cannot be taken apart line by line")


def _binds(statement: cst.With, name: str) -> bool:
    targets = (item.asname.name for item in statement.items if item.asname is not None)
    return any(isinstance(target, cst.Name) and target.value == name for target in targets)


def _gives_parameters(call: cst.Call) -> bool:
    return isinstance(call.func, cst.Attribute) and call.func.attr.value == "parameters" and not call.args
