"""Custom autograd functions of which nothing tells whether they run under autocast, where the rules are asked for."""

from __future__ import annotations

import textwrap

import pytest

from amplint.engine.analyse import analyse
from amplint.engine.job import Job
from amplint.engine.modules import Modules
from amplint.engine.registry import load_registry

RULES = tuple(rule for code, rule in load_registry().rules.items() if code in ("AMP601", "AMP605"))
HEADER = """
import torch
from torch.autograd import Function
from pkg import _C, kernel, plain
backend = load("kernels", sources=[])
"""
REGION = """
class Checkpoint(Function):
    @staticmethod
    def forward(ctx, run, x):
        ctx.run, ctx.x = run, x
        with torch.no_grad():
            return run(x)

    @staticmethod
    def backward(ctx, grad):{found}
        x = ctx.x.detach().requires_grad_(True)
        with torch.enable_grad():
            out = ctx.run(x)
        return None, torch.autograd.grad(out, x, grad)[0]

def train(loader, amp):
    layer = torch.nn.Linear(10, 10).cuda()
    optimizer = torch.optim.SGD(layer.parameters(), lr=0.1)
    scaler = torch.amp.GradScaler("cuda", enabled=amp)
    for x in loader:
        optimizer.zero_grad()
        with torch.autocast("cuda", enabled=amp):
            loss = Checkpoint.apply(layer, x).float().mean()
            scaler.scale(loss).backward()
        scaler.step(optimizer)
        scaler.update()
{further}
"""
OUTSIDE = """
def tune(layer, optimizer, loader):
    for x in loader:
        optimizer.zero_grad()
        with torch.autocast("cuda", dtype=torch.bfloat16):
            loss = Checkpoint.apply(layer, x).float().mean()
        loss.backward()
        optimizer.step()
"""
PLAIN = """
def tune(layer, optimizer, loader):
    for x in loader:
        optimizer.zero_grad()
        Checkpoint.apply(layer, x).mean().backward()
        optimizer.step()
"""
INDICES = """
class Scatter(Function):
    @staticmethod
    def forward(ctx, features, indices, counts):{found}
        ctx.save_for_backward(indices, counts)
        return _C.scatter(features, indices, counts)

    @staticmethod
    def backward(ctx, grad):
        indices, counts = ctx.saved_tensors
        return _C.scatter_backward(grad, indices, counts), None, None
"""
POOL = """
class Pool(Function):
    @staticmethod
    {decorator}
    def forward(ctx, features, boxes, size):  # found
        ctx.save_for_backward(boxes)
        {before}
        return _C.pool_forward(features.contiguous(), boxes, size)

    @staticmethod
    def backward(ctx, grad):
        boxes, = ctx.saved_tensors
        return _C.pool_backward(grad.contiguous(), boxes), None, None, None
{after}
"""
BUFFER = """
class Encode(Function):
    @staticmethod
    def forward(ctx, inputs, degree):
        inputs = inputs.contiguous()
        outputs = torch.empty(inputs.shape[0], degree{like}, device=inputs.device)  # found
        backend.encode(inputs, outputs, degree)
        ctx.save_for_backward(inputs)
        return outputs

    @staticmethod
    def backward(ctx, grad):
        result = torch.zeros_like(ctx.saved_tensors[0])
        backend.encode_backward(grad, result)
        return result, None
"""
POINTS = """
class Gather(Function):
    @staticmethod
    def forward(ctx, features, indices):
        assert indices.dtype == torch.int
        found = torch.cuda.FloatTensor(features.size(0), indices.size(1))  # found
        _C.gather_wrapper(features, indices, found)
        ctx.saved = indices, features.size(1)
        return found

    @staticmethod
    def backward(ctx, grad):
        indices, count = ctx.saved
        return _C.gather_grad_wrapper(grad, indices, count), None
"""
NEAREST = """
class Nearest(Function):
    @staticmethod
    def forward(ctx, target, source):
        distances = torch.FloatTensor(*target.size()).to(target.device)  # found
        _C.nearest_wrapper(target.contiguous(), source.contiguous(), distances)
        return distances

    @staticmethod
    def backward(ctx, grad):
        return None, None
"""
TRITON = """
class Scale(Function):
    @staticmethod
    def forward(ctx, x, weight):  # found
        out = torch.empty_like(x)
        kernel[(x.shape[0],)](x, weight, out)
        ctx.save_for_backward(x, weight)
        return out

    @staticmethod
    def backward(ctx, grad):
        x, weight = ctx.saved_tensors
        return backward_of(grad, x, weight), None and weight
"""
REGISTERED = """
class Rotate(Function):
    @staticmethod
    def forward(ctx, x, angles):  # found
        ctx.save_for_backward(angles)
        return torch.ops.mine.rotate(x, angles)

    @staticmethod
    def backward(ctx, grad):
        return torch.ops.mine.rotate(grad, -ctx.saved_tensors[0]), angles_grad
"""
RECOMPUTED = """
class Norm(Function):
    @staticmethod
    def forward(ctx, x, scale):
        ctx.save_for_backward(x, scale)
        return x * (x ** 2).mean(-1, keepdim=True) ** -0.5 * scale.exp()

    @staticmethod
    def backward(ctx, grad):  # found
        x, scale = [kept.detach().requires_grad_() for kept in ctx.saved_tensors]
        with torch.enable_grad():
            y = x * (x{lifted} ** 2).mean(-1, keepdim=True) ** -0.5 * scale.exp()
        y.backward(grad)
        return x.grad, scale.grad
"""
BY_ROWS = """
class ByRows(Function):
    @staticmethod
    def forward(ctx, rows, weight):
        result = torch.empty(rows.shape[0], weight.shape[0], dtype=rows.dtype, device=rows.device)
        torch.mm({rows}, weight.t(), out=result){found}
        return result

    @staticmethod
    def backward(ctx, grad):
        return grad, None
"""
PRODUCTS = """
class Mix(Function):
    @staticmethod
    def forward(ctx, x, first, second):  # found
        ctx.save_for_backward(x, first, second)
        return (x.mm(first) * x.mm(second)).relu() + 1

    @staticmethod
    def backward(ctx, grad):
        x, first, second = ctx.saved_tensors
        return grad.mm(first.t()) + grad.mm(second.t()), None, None
"""
ACTIVATION = """
@torch.jit.script
def mish_forward(x):
    return x.mul(torch.tanh(F.softplus(x)))

@torch.jit.script
def mish_backward(x, grad):
    {before}
    gate = F.softplus(x).tanh()
    return grad * (gate + x * torch.sigmoid(x) * (1 - gate * gate))

class Mish(Function):
    @staticmethod
    def forward(ctx, x):  # found
        ctx.save_for_backward(x)
        return mish_forward(x)

    @staticmethod
    def backward(ctx, grad):
        x, = ctx.saved_tensors
        return mish_backward(x, grad)
"""
DENSITY = """
class Density(Function):
    @staticmethod
    def forward(ctx, x):  # found
        ctx.save_for_backward(x)
        return torch.exp(x)

    @staticmethod
    def backward(ctx, grad):
        x, = ctx.saved_tensors
        return grad * {library}.exp(x.clamp(max=15))
"""
STRAIGHT_THROUGH = """
class Round(Function):
    @staticmethod
    def forward(ctx, x, scale):
        return plain(torch.round(x * scale), scale)

    @staticmethod
    def backward(ctx, grad):
        return grad, None
"""

HELPER = """
class Chosen(Function):
    @staticmethod
    def forward(ctx, x, weight):
        return plain(x, weight)

    @staticmethod
    def backward(ctx, grad):
        return plain(grad, grad), grad.sum()
"""
LEFT_TO_ANOTHER = """
class Message(Function):
    @staticmethod
    def forward(ctx, graph, kind, nodes, edges):  # found
        made, places = plain(graph, kind, nodes, edges)
        {before}
        ctx.save_for_backward(nodes, edges, places)
        return made

    @staticmethod
    def backward(ctx, grad):
        nodes, edges, places = ctx.saved_tensors
        of_nodes = plain(ctx.graph, "mul", grad, edges)
        return None, None, of_nodes, plain(ctx.graph, "dot", nodes, grad)
"""
WRAPPED = """
run = Pool.apply

@custom_fwd(cast_inputs=torch.float32)
def pool(x, boxes):
    return run(x, boxes)
"""


def pool(before: str = "", after: str = "", decorator: str = "") -> str:
    return POOL.format(before=before, after=after, decorator=decorator)


FOUND = [
    INDICES.format(found="  # found"),
    pool(),
    BUFFER.format(like=""),
    POINTS,
    NEAREST,
    TRITON,
    REGISTERED,
    RECOMPUTED.format(lifted=""),
    PRODUCTS,
    BY_ROWS.format(rows="rows", found="  # found"),
    ACTIVATION.format(before="pass"),
    DENSITY.format(library="torch"),
    LEFT_TO_ANOTHER.format(before="assert made.is_contiguous()"),
]
SILENT = [
    INDICES.format(found="").replace("(features,", "(features.to(weights.dtype),"),
    STRAIGHT_THROUGH,
    HELPER,
    pool(before="boxes = boxes.to(features)"),
    pool(before="boxes = boxes.type_as(features)"),
    pool(before="assert features.dtype == boxes.dtype"),
    pool(decorator="@torch.amp.custom_fwd(device_type='cuda')"),
    pool(after="def pool(x, boxes):\n    return Pool.apply(x.float(), boxes.float(), 7)"),
    pool(after="pool = float_function(Pool.apply)"),
    pool(after=WRAPPED),
    BUFFER.format(like=", dtype=inputs.dtype"),
    RECOMPUTED.format(lifted=".float()"),
    ACTIVATION.format(before="x = x.float()"),
    BY_ROWS.format(rows="rows.to(weight.dtype)", found=""),
    DENSITY.format(library="math"),
    LEFT_TO_ANOTHER.format(before="made = torch.einsum('ij,jk->ik', made, edges)"),
    LEFT_TO_ANOTHER.format(before="edges = edges.to(nodes.dtype)"),
    REGION.format(found="", further=""),
    REGION.format(found="", further=PLAIN),
]


def rows(code: str, asked: frozenset[str]) -> list[int]:
    found = analyse(Job("function.py", "", code.encode(), RULES, asked=asked), Modules()).findings
    return [finding.span.start.row for finding in found if finding.code != "AMP602"]


@pytest.mark.parametrize("code", FOUND)
def test_found_where_asked(code: str) -> None:
    code = HEADER + textwrap.dedent(code)
    marked = [row for row, line in enumerate(code.splitlines(), 1) if "# found" in line]
    assert rows(code, frozenset({"AMP601", "AMP605"})) == marked
    assert not rows(code, frozenset())


@pytest.mark.parametrize("code", SILENT)
def test_silent(code: str) -> None:
    assert not rows(HEADER + textwrap.dedent(code), frozenset({"AMP601", "AMP605"}))


def test_a_recomputation_outside_of_a_region_in_one_of_two_loops() -> None:
    code = HEADER + REGION.format(found="  # found", further=OUTSIDE)
    marked = [row for row, line in enumerate(code.splitlines(), 1) if "# found" in line]
    assert rows(code, frozenset()) == marked
