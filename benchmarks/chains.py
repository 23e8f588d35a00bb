"""A long file of functions that call each other, for measuring how the cost of linting grows with the code."""

from __future__ import annotations

FUNCTION = '''\
def stage_{number}(model, optimizer, scaler, batch, flag, args):
    """One stage of many."""
{preparation}
    with torch.autocast("cuda", enabled=args.amp):
        loss = model(batch).mean()
{calls}
    if flag:
        scaler.scale(loss).backward()
    return loss

'''
PREPARATION = """\
    value_{number} = batch[{number}] * {number}
    if args.option_{number}:
        value_{number} = value_{number} + args.weight_{number}
    total_{number} = sum([value_{number}, {number}])
"""
LOOP = """\
def train(model, loader, scaler, args):
    optimizer = torch.optim.SGD(model.parameters(), 0.1)
    for batch in loader:
        optimizer.zero_grad()
        stage_0(model, optimizer, scaler, batch, args.flag, args)
        scaler.unscale_(optimizer)
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        scaler.step(optimizer)
        scaler.update()
"""


def chain(functions: int, calls: int = 2) -> str:
    """A training script of this many functions of 25 lines, each of which calls the next `calls` ones."""
    preparation = "".join(PREPARATION.format(number=number) for number in range(4))
    stages = []
    for number in range(functions):
        following = range(number + 1, min(number + 1 + calls, functions))
        called = "\n".join(f"    stage_{one}(model, optimizer, scaler, batch, flag, args)" for one in following)
        stages.append(FUNCTION.format(number=number, preparation=preparation, calls=called or "    pass"))
    return "\n".join(["import torch\n", *stages, LOOP])
