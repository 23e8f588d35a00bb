"""Custom autograd functions of which nothing tells whether they run under autocast, where the rules are asked for."""

from __future__ import annotations

import textwrap

import pytest

from amplint.engine.registry import load_registry
from amplint.findings import Severity
from tests.linting import findings_of

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

CONTIGUOUS = """
def contiguous(function):
    def inner(ctx, *arguments):
        return function(ctx, *(one.contiguous() for one in arguments))
    return inner
"""
BLOCKS = """
class Blocks:
    def multiply(self, data, weights):
        out = data.new_zeros(data.shape[0], weights.shape[1])
        for start in range(0, data.shape[0], 8):
            out[start:start + 8] = torch.mm(data[start:start + 8], weights{cast})
        return out

class Convolution(Function):
    @staticmethod
    {decorator}
    def forward(ctx, data, weights, size):  {found}
        {before}
        ctx.blocks = Blocks()
        ctx.save_for_backward(data, weights)
        return ctx.blocks.multiply(data, weights)

    @staticmethod
    {decorator}
    def backward(ctx, grad):
        data, weights = ctx.saved_tensors
        found = ctx.blocks.multiply(grad, weights.t())
        return (found, data.t().mm(grad)) + (None,) * 1
{after}
"""
ALL_HALF = """
class Attention(Function):
    @staticmethod
    def forward(ctx, q, k, v):  {found}
        scores = torch.softmax(torch.einsum("nqd,nkd->nqk", q, k), dim=-1)
        ctx.save_for_backward(q, k, v, scores)
        return torch.einsum("nqk,nkd->nqd", scores, v)

    @staticmethod
    def backward(ctx, grad):
        q, k, v, scores = ctx.saved_tensors
        dv = torch.einsum("nqk,nqd->nkd", scores{cast}, grad)
        return grad @ k, grad.mT @ q, dv
"""
GATED = """
class Gated(Function):
    @staticmethod
    def forward(ctx, q, k, gate):
        product = torch.matmul(q, k)
        ctx.save_for_backward(q, k, gate, product)
        return gate * product

    @staticmethod
    def backward(ctx, grad):
        q, k, gate, product = ctx.saved_tensors
        inner = gate * grad
        return inner @ k.t(), product.t() @ inner, product * grad
"""
FUSED = """
def gradients(x, weight):
    made = torch.zeros_like(weight)
    for part in x.split(2):
        logits = part @ weight.t()
        {product}
    return made

class Fused(Function):
    @staticmethod
    @torch.amp.custom_fwd(device_type="cuda"{cast})
    def forward(ctx, x, weight):
        made = gradients(x, weight)  {found}
        ctx.save_for_backward(made)
        return x.sum()

    @staticmethod
    @torch.amp.custom_bwd(device_type="cuda")
    def backward(ctx, grad):
        made, = ctx.saved_tensors
        return None, made * grad
"""
MULTIPLYING = """
import triton
import triton.language as tl

@triton.jit
def matmul(x, weight, out, N: tl.constexpr):
    offsets = tl.arange(0, N)
    x_pointers = x + offsets
    block = tl.load(x_pointers, mask=offsets < N)
    other = tl.load(weight + offsets){cast}
    tl.store(out + offsets, {combined})

def launch(x, weight):
    if not x.is_contiguous():
        raise ValueError
    out = torch.empty_like(x)
    matmul[(1,)](x, weight, out, 16)
    return out

class Multiply(Function):
    @staticmethod
    def forward(ctx, x, weight):
        ctx.save_for_backward(x, weight)
        return launch(x, weight)  {found}

    @staticmethod
    def backward(ctx, grad):
        x, weight = ctx.saved_tensors
        return launch(grad, weight), launch(x, grad)
"""
FIXED = """
class Dequantized(Function):
    @staticmethod
    def forward(ctx, x, packed, scales):  {found}
        ctx.save_for_backward(packed, scales)
        return torch.matmul(x.to(torch.float16), _C.unpack(packed, scales))

    @staticmethod
    def backward(ctx, grad):
        packed, scales = ctx.saved_tensors
        return grad.matmul(_C.unpack(packed, scales){cast}.t()), None, None
"""
ALIASES = """
import functools
if torch.__version__ >= "2.4":
    before = functools.partial(torch.amp.custom_fwd, device_type="cuda")
    behind = functools.partial(torch.amp.custom_bwd, device_type="cuda")
else:
    before, behind = torch.cuda.amp.custom_fwd, torch.cuda.amp.custom_bwd
    from torch.cuda.amp import custom_fwd as before, custom_bwd as behind
"""
SCATTERING = """
class Share(Function):
    @staticmethod
    def forward(ctx, logits, weight, label):
        index = {index}
        loss = torch.zeros(logits.size(0), 1, device=logits.device)
        loss[index] = logits @ weight  {found}
        ctx.save_for_backward(logits, weight)
        return loss.mean()

    @staticmethod
    def backward(ctx, grad):
        logits, weight = ctx.saved_tensors
        return grad * weight.to(grad.dtype), grad * logits.to(grad.dtype), None
"""


def blocks(*, decorator: str = "", before: str = "", cast: str = "", after: str = "", found: str = "") -> str:
    return BLOCKS.format(decorator=decorator, before=before, cast=cast, after=after, found=found)


def multiplying(*, cast: str = "", combined: str = "tl.dot(block, other)", found: str = "") -> str:
    return MULTIPLYING.format(cast=cast, combined=combined, found=found)


RAISING = [
    blocks(found="# found"),
    blocks(found="# found", decorator="@contiguous").replace("class Blocks", CONTIGUOUS + "\nclass Blocks"),
    ALL_HALF.format(cast="", found="# found"),
    FUSED.format(cast="", product="torch.addmm(made, logits.t(), part, out=made)", found="# found"),
    FUSED.format(cast="", product="made.addmm_(logits.t(), part)", found="# found"),
    multiplying(found="# found"),
    SCATTERING.format(index="torch.where(label != -1)[0]", found="# found"),
]
NOT_RAISING = [
    SCATTERING.format(index="tuple([slice(None)] * 1 + [slice(0, 2)])", found=""),
    """
    class Auxiliary(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x, weight):
            ctx.save_for_backward(x, weight)
            return torch.matmul(x, weight.t())

        @staticmethod
        def backward(ctx, grad):
            x, weight = ctx.saved_tensors
            kept = torch.matmul(x, weight.t())
            scale = 1.0 + kept.mean()
            return torch.matmul(grad, weight.to(grad.dtype)) * scale, torch.matmul(grad.t(), x.to(grad.dtype))
    """,
    blocks(cast=".to(data.dtype)"),
    blocks(before="weights = weights.to(data.dtype)"),
    blocks(after="def run(x, w):\n    with torch.autocast('cuda', enabled=False):\n        Convolution.apply(x, w, 1)"),
    ALL_HALF.format(cast=".to(grad.dtype)", found=""),
    FUSED.format(cast="", product="made += (logits.t() @ part).float()", found=""),
    FUSED.format(cast=", cast_inputs=torch.float32", product="made.addmm_(logits.t(), part)", found=""),
    multiplying(cast=".to(block.dtype)"),
    multiplying(combined="block * other"),
]


def rows(code: str, asked: frozenset[str]) -> list[int]:
    found = findings_of(code, RULES, asked=asked)
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


@pytest.mark.parametrize("code", RAISING)
def test_what_raises_under_a_region_of_a_caller_is_an_info(code: str) -> None:
    code = HEADER + textwrap.dedent(code)
    marked = [row for row, line in enumerate(code.splitlines(), 1) if "# found" in line]
    found = findings_of(code, RULES)
    assert [finding.span.start.row for finding in found] == marked
    assert {finding.severity for finding in found} == {Severity.INFO}
    assert all("a caller has a region on" in (finding.reason or "") for finding in found)


@pytest.mark.parametrize("code", NOT_RAISING)
def test_silent_where_nothing_raises(code: str) -> None:
    assert not rows(HEADER + textwrap.dedent(code), frozenset())


def test_float32_inputs_are_supposed_where_asked() -> None:
    assert not rows(HEADER + GATED, frozenset())
    assert rows(HEADER + GATED, frozenset({"AMP601"}))


@pytest.mark.parametrize(("cast", "number"), [("", 1), (".to(grad.dtype)", 0)])
def test_a_dtype_that_forward_names_says_nothing_about_gradients(cast: str, number: int) -> None:
    assert len(rows(HEADER + FIXED.format(cast=cast, found=""), frozenset({"AMP601"}))) == number


@pytest.mark.parametrize(("second", "number"), [("", 1), ("@behind", 0)])
def test_decorators_chosen_for_a_version_are_known(second: str, number: int) -> None:
    rule = load_registry().rules["AMP602"]
    for aliases in (
        ALIASES,
        ALIASES.replace("before, behind = torch.cuda.amp.custom_fwd, torch.cuda.amp.custom_bwd", "pass"),
    ):
        code = (
            HEADER
            + aliases
            + blocks(decorator="@before").replace("@before\n    def backward", f"{second}\n    def backward")
        )
        found = findings_of(code, (rule,))
        assert len(found) == number
