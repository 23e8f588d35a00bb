"""What a line of a random program can do.

A line is a text with holes for operands, and what it makes. All dimensions of all tensors are 4 long, so that the
number of dimensions tells the shape, and whatever is broadcast fits. A hole is a letter, by what it has to be filled
with. The first hole for a floating tensor leads: others have to fit to it.

z v m t c   a floating tensor of 0, 1, 2, 3, 4 dimensions
x X M       a floating tensor; one that has dimensions; one that has two or more; the same in all its holes
y l h       a floating tensor of no more dimensions than the leading one; of fewer; of as many
n           any tensor of no more dimensions than the leading one
a b         a tensor of integers; of bools
B           a tensor of bools that has as many dimensions as the leading one
i k         a vector, a matrix of indices
s f         a number; a number with a fraction
d e         a floating dtype; any dtype

What is made is told by words, one for each target: `x` is like the leading tensor, `x-` and `x+` have a dimension
less or more, `z` to `c` have that many; `a`, `b`, `k` and `f` before them tell of integers, bools, indices and floats.
`-` is a tensor that nothing later uses. `=` stands before lines whose operands need one dtype where autocast casts
nothing.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Line:
    """What is written, what that makes, and whether its operands have to agree."""

    text: str
    makes: tuple[str, ...] = ()
    agreeing: bool = False


def _words(text: str) -> list[str]:
    return text.split()


def table(rows: str) -> list[Line]:
    """The lines of a table: what they make, a bar, and their text."""
    found = []
    for row in rows.strip().splitlines():
        makes, _, text = row.partition("|")
        found.append(Line(text.strip(), tuple(makes.replace("=", "").split()), "=" in makes))
    return found


_ALONE = _words(
    "abs neg exp log sqrt rsqrt sigmoid tanh sin cos tan floor ceil round trunc sign square reciprocal log1p log2 "
    "log10 expm1 erf sinh cosh atan asin acos relu frac exp2 lgamma nan_to_num"
)
_IN_F = _words(
    "relu gelu silu softplus elu leaky_relu selu mish hardswish relu6 logsigmoid softsign tanhshrink celu "
    "hardsigmoid hardtanh sigmoid tanh dropout"
)
_BETWEEN = _words("add sub mul div maximum minimum pow atan2 fmod remainder")
_COMPARED = _words("eq ne lt le gt ge")
_LOSSES = _words("mse_loss l1_loss smooth_l1_loss huber_loss binary_cross_entropy_with_logits kl_div poisson_nll_loss")

ELEMENTWISE = [
    *(Line(f"{{x}}.{name}()", ("x",)) for name in _ALONE),
    *(Line(f"torch.{name}({{x}})", ("x",)) for name in _ALONE),
    *(Line(f"F.{name}({{x}})", ("x",)) for name in _IN_F),
    *(Line(f"{{x}}.{name}({{y}})", ("x",)) for name in _BETWEEN),
    *(Line(f"torch.{name}({{x}}, {{y}})", ("x",)) for name in _BETWEEN),
    *(Line(f"{{x}}.{name}({{y}})", ("bx",)) for name in _COMPARED),
    *(Line(f"torch.{name}({{x}}, {{s}})", ("bx",)) for name in _COMPARED),
]

ARITHMETIC = table("""
x | {x} + {y}
x | {x} - {y}
x | {x} * {y}
x | {x} / {y}
x | {y} * {x}
x | {y} - {x}
x | {x} + {n}
x | {x} * {n}
x | {n} * {x}
x | {x} / {n}
x | {x} + {s}
x | {x} + True
x | {x} - {s}
x | {x} * {s}
x | {x} / {s}
x | {s} * {x}
x | {s} - {x}
x | {s} / {x}
x | {x} ** 2
x | {x} ** {s}
x | {f} ** {x}
x | {x} ** {y}
x | {x} // {f}
x | {x} % {f}
x | -{x}
x | abs({x})
x | ({x} + {y}) * {s} - {n}
x | {x} * torch.sigmoid({h})
x | {x}.add({y}, alpha=2)
x | {x}.mul({s})
x | torch.sub({x}, {s})
x | torch.true_divide({x}, {n})
x | torch.floor_divide({x}, {f})
x | torch.add({x}, {n})
x | torch.mul({x}, {z})
x | torch.addcmul({x}, {h}, {h}, value=0.5)
x | {x}.addcdiv({h}, {h})
= x | torch.lerp({x}, {h}, 0.5)
x | {x}.clamp(min=0.1)
x | {x}.clamp({f}, 2)
x | torch.clamp({x}, max={s})
x | {x}.clamp_min({s})
bx | {x} > {s}
bx | {x} == {y}
bx | {x} <= {n}
bx | {x} != {x}
bx | torch.isnan({x})
bx | {x}.isfinite()
bx | torch.isclose({x}, {x})
b | {b} & {b}
b | ~{b}
b | {b} | {b}
bz | {b}.any()
bz | torch.all({b})
""")

PRODUCTS = table("""
= m | {m} @ {m}
= t | {t} @ {m}
= v | {m} @ {v}
= t | {t} @ {t}
= c | {c} @ {c}.transpose(-2, -1)
= m | {m} @ {m} * {s}
= m | {m} @ {m} + {y}
= m | torch.matmul({m}, {m})
= m | {m}.matmul({m})
= m | torch.mm({m}, {m})
= m | {m}.mm({m}.t())
= v | torch.mv({m}, {v})
= t | torch.bmm({t}, {t})
= t | {t}.bmm({t})
= z | torch.dot({v}, {v})
= m | torch.outer({v}, {v})
= m | torch.addmm({m}, {m}, {m})
= m | {m}.addmm({m}, {m}, beta=0.5)
= t | torch.baddbmm({t}, {t}, {t})
= m | torch.addbmm({m}, {t}, {t})
= v | torch.addmv({v}, {m}, {v})
= m | torch.addr({m}, {v}, {v})
= m | torch.einsum("ij,jk->ik", {m}, {m})
= t | torch.einsum("bij,bkj->bik", {t}, {t})
= m | torch.linalg.multi_dot([{m}, {m}, {m}])
= m | torch.chain_matmul({m}, {m}, {m})
= v | torch.linalg.vecdot({m}, {m})
= m | torch.tensordot({m}, {m}, dims=1)
= m | F.linear({m}, {m})
= t | F.linear({t}, {m}, {v})
= t | F.conv1d({t}, {t}[..., :1])
= t | F.conv1d({t}, {t}, padding="same")
= c | F.conv2d({c}, {c}, {v}, padding=2)[..., :4, :4]
- | F.conv_transpose2d({c}, {c})
= c | F.scaled_dot_product_attention({c}, {c}, {c})
= t | torch.softmax({t} @ {t}.transpose(-2, -1) * 0.5, dim=-1) @ {t}
= m | F.bilinear({m}, {m}, {t})
= x | F.prelu({M}, {v})
= m | torch.cdist({m}, {m})
""")

REDUCTIONS = table("""
z | {x}.sum()
z | {x}.mean()
x- | {X}.sum(-1)
x- | {X}.sum(dim=0)
x- | torch.sum({X}, dim=-1)
x- | {X}.mean(dim=-1)
x- | torch.mean({X}, 0)
x | {X}.sum(-1, keepdim=True) + {h}
x | {X} - {X}.mean(-1, keepdim=True)
x- | {X}.sum(-1, dtype={d})
z | torch.sum({x}, dtype={d})
x- | {X}.mean(-1, dtype={d})
z | {x}.max()
z | torch.min({x})
x- | {X}.amax(-1)
x- | torch.amin({X}, dim=-1)
x- kx- | {X}.max(dim=-1)
x- kx- | torch.min({X}, -1)
x- kx- | {X}.median(dim=-1)
x kx | {X}.sort(dim=-1)
x kx | torch.topk({X}, 4)
kx- | {X}.argmax(-1)
kx- | torch.argmin({X}, dim=-1)
kx | {X}.argsort(-1)
z | {x}.std()
x- | {X}.var(-1, unbiased=False)
x- | torch.std({X}, dim=0)
x- x- | torch.var_mean({X}, dim=-1)
z | {x}.prod()
x- | {X}.prod(-1)
x | {X}.cumsum(-1)
x | torch.cumprod({X}, dim=0)
x | {X}.cumsum(0, dtype={d})
x kx | {X}.cummax(-1)
z | {x}.norm()
x- | {X}.norm(dim=-1)
z | torch.norm({x})
x- | torch.linalg.vector_norm({X}, dim=-1)
z | torch.linalg.norm({v})
x- | {X}.norm(p=1, dim=-1)
x- | torch.logsumexp({X}, dim=-1)
x- | {X}.logsumexp(-1)
z | torch.dist({x}, {h})
x | {X}.softmax(-1)
x | {X}.softmax(dim=-1, dtype={d})
x | torch.softmax({X}, dim=-1)
x | {X}.log_softmax(dim=-1)
x | F.softmax({X}, dim=-1)
x | F.softmax({X}, dim=-1, dtype=torch.float32)
x | F.log_softmax({X}, dim=-1)
x | F.softmin({X}, dim=-1)
x | F.gumbel_softmax({X}, dim=-1)
x | F.normalize({X}, dim=-1)
x | F.normalize({M})
z | {m}.trace()
az | {x}.count_nonzero()
bx- | ({X} > 0).any(-1)
""")

NORMS_AND_LOSSES = [
    *(Line(f"F.{name}({{x}}, {{h}})", ("z",)) for name in _LOSSES),
    *table("""
x | F.layer_norm({X}, (4,))
= x | F.layer_norm({X}, (4,), {v}, {v})
x | F.group_norm({M}, 2)
= x | F.group_norm({M}, 2, {v}, {v})
x | F.rms_norm({X}, (4,))
= x | F.rms_norm({X}, (4,), {v})
x | F.instance_norm({t})
x | F.batch_norm({m}, torch.zeros(4{on}), torch.ones(4{on}))
x | F.local_response_norm({t}, 2)
z | F.cross_entropy({m}, {i})
z | F.cross_entropy({m}, {h}.softmax(-1))
z | F.nll_loss({m}.log_softmax(-1), {i})
z | F.nll_loss({m}, {i})
z | F.binary_cross_entropy({x}.sigmoid().nan_to_num(), {h}.sigmoid().nan_to_num())
z | F.binary_cross_entropy(torch.sigmoid({x}).nan_to_num().float(), {h}.float().sigmoid().nan_to_num())
x | F.mse_loss({x}, {h}, reduction="none")
z | F.cosine_embedding_loss({m}, {m}, {v})
z | F.margin_ranking_loss({v}, {v}, {v})
z | F.triplet_margin_loss({m}, {m}, {m})
v | F.cosine_similarity({m}, {m})
v | F.pairwise_distance({m}, {m})
z | F.hinge_embedding_loss({x}, {h})
z | F.soft_margin_loss({x}, {h})
z | F.multi_margin_loss({m}, {i})
x | F.avg_pool2d({c}, 3, stride=1, padding=1)
x | F.max_pool2d({c}, 3, stride=1, padding=1)
x | F.max_pool1d({t}, 3, stride=1, padding=1)
x | F.adaptive_avg_pool2d({c}, 4)
x | F.adaptive_max_pool2d({c}, 4)
x | F.interpolate({c}, size=4)
- | F.interpolate({c}, scale_factor=2, mode="bilinear")
x | F.grid_sample({c}, {c}[..., :2])
x | F.dropout({x}, 0.5, training=False)
x | F.glu(torch.cat([{X}, {h}], dim=-1))
- | F.pad({X}, (1, 1))
x | F.pad({X}, (1, 1), value={s})[..., :4]
- | F.one_hot({i}, 4)
    """),
]  # fmt: skip

SHAPES = table("""
x | {M}.transpose(0, 1)
x | {M}.mT
m | {m}.t()
m | {m}.T
x | {X}.flip(0)
x | {X}.roll(1, 0)
v | {m}.diagonal()
m | torch.diag({v})
x | torch.tril({M})
x | {M}.triu(1)
t | {m}.unsqueeze(0).expand(4, 4, 4)
t | {m}[None].repeat(4, 1, 1)
c | {c}.permute(0, 2, 3, 1)
m | {m}.reshape(4, -1)
m | {m}.flatten().view(4, 4)
- | {M}.flatten(1)
x | {x}.clone()
x | {x}.detach()
x | {x}.contiguous()
x- | {X}[0]
x- | {X}[..., 1]
x- | {M}[:, 2]
x | {X}[{i}]
- | {X}[1:3]
- | {X}[{X} > 0]
- | {X}[:2]
x+ | {m}[:, None].expand(4, 4, 4)
x | {X}.index_select(0, {i})
m | {m}.gather(1, {k})
m | torch.gather({m}, 0, {k})
m | torch.take_along_dim({m}, {k}, dim=1)
- | torch.masked_select({m}, {m} > 0)
- - | {X}.chunk(2)
- - | torch.split({X}, 2)
- | {X}.split(2, dim=-1)[0]
x- x- x- x- | {X}.unbind(0)
- | torch.cat([{X}, {h}])
x | torch.cat([{X}, {h}])[:4]
x | torch.cat(({X}, {h}), dim=-1)[..., :4]
- | torch.cat([{X}, {h}, {h}], dim=0)
x | torch.stack([{X}, {h}])[0]
x | torch.stack(({X}, {h}), dim=0).sum(0)
- | torch.stack([{x}, {h}])
- | torch.hstack([{X}, {h}])
- | torch.concat([{X}, {h}])
x | torch.where({B}, {x}, {h})
x | torch.where({B}, {x}, {s})
x | torch.where({x} > 0, {s}, {x})
x | torch.where({B}, {y}, {x})
x | {x}.where({B}, {y})
x | {x}.masked_fill({B}, {f})
x | {x}.masked_fill({x} > 1, float("-inf"))
x | torch.masked_fill({x}, {B}, {z})
x | {X}.index_fill(0, {i}, {s})
= x | {X}.index_add(0, {i}, {h})
= x | {X}.index_copy(0, {i}, {h})
= m | {m}.scatter(1, {k}, {m})
m | {m}.scatter(0, {k}, {s})
= m | {m}.scatter_add(1, {k}, {m})
= m | {m}.scatter_reduce(1, {k}, {m}, reduce="sum")
= m | torch.scatter_add({m}, 0, {k}, {m})
= x | {X}.index_put(({i},), {h})
- | {x}.new_zeros(3)
v | {x}.new_ones(4)
m | {x}.new_full((4, 4), {s})
v | {x}.new_tensor([1, 2, 3, 4])
m | {x}.new_empty(4, 4).fill_(1)
x | torch.zeros_like({x})
x | torch.ones_like({x}, dtype={d})
x | torch.full_like({x}, {s})
x | torch.rand_like({x})
x | torch.empty_like({x}).normal_()
x | torch.bernoulli({x}.sigmoid().nan_to_num())
az | torch.tensor({X}.size(0){on})
- | {x}.view(-1)
k | {X}.argsort(-1).clamp(0, 3).view(-1)[:1].expand(4, 4)
""")

CASTS = table("""
x | {x}.half()
x | {x}.bfloat16()
x | {x}.float()
x | {x}.double()
x | {x}.to({d})
x | {x}.to(dtype={d})
x | {x}.to({y})
x | {x}.to({y}.dtype)
x | {x}.type_as({y})
x | {x}.type({d})
x | {x}.to(DEVICE)
x | {x}.to(DEVICE, {d})
x | {x}.to(device=DEVICE, dtype={d})
x | {x}.to({y}.device)
ax | {x}.long()
ax | {x}.int()
ax | {x}.to(torch.int32)
bx | {x}.bool()
x | {x}.float().exp()
x | {x}.float().softmax(-1) if {x}.dtype == torch.float16 else {x}
x | {x}.float() if {x}.dtype in (torch.float16, torch.bfloat16) else {x}
x | {x} if {x}.dtype == torch.float32 else {x}.float()
x | {x}.clamp(min=torch.finfo({x}.dtype).tiny)
x | {x} + torch.finfo({d}).eps
x | {x}.to(torch.promote_types({x}.dtype, torch.float32))
""")

INTEGERS = table("""
fa | {a}.float()
fa | {a}.half()
fa | {a}.to({d})
fa | {a} * {f}
fa | {a} / 2
fa | {a} / {a}
fa | torch.sqrt({a})
fa | {a}.exp()
fa | {a}.float().mean()
a | {a} + 1
a | {a} * {a}
a | {a} // 2
a | {a} % 3
a | -{a}
a | {a} + True
a | {a}.abs()
a | {a}.clamp(min=1)
az | {a}.sum()
az | {a}.max()
b | {a} == 1
b | {a} > {f}
fa | {a} + {z}
az | {b}.sum()
az | {b}.long().sum()
fb | {b}.float()
fb | {b}.to({d})
fb | {b} * {f}
b | {b} & {b}
b | ~{b}
b | {b}.logical_not()
fz | {b}.float().mean()
a | {b} * 2
a | {b}.int()
a | {b} + {b}
a | {a}.to(torch.int32) + {a}
a | {a}.to(torch.uint8) + 1
""")

FACTORIES = table("""
m | torch.rand(4, 4{on})
m | torch.randn(4, 4, dtype={d}{on})
m | torch.ones(4, 4{on})
v | torch.rand(4, dtype={d}{on})
v | torch.zeros(4{on})
t | torch.randn(4, 4, 4{on})
t | torch.rand(4, 4, 4, dtype={d}{on})
c | torch.rand(4, 4, 4, 4{on})
c | torch.randn((4, 4, 4, 4), dtype={d}{on})
z | torch.tensor({f}{on})
z | torch.tensor({f}, dtype={d}{on})
v | torch.tensor([0.5, 1.0, 2.0, 4.0]{on})
v | torch.tensor([1, 2, 3, 4], dtype={d}{on})
m | torch.full((4, 4), {f}{on})
m | torch.full((4, 4), 1, dtype={d}{on})
m | torch.eye(4{on})
v | torch.linspace(0, 1, 4{on})
v | torch.arange(4, dtype={d}{on})
v | torch.arange(0.0, 4.0{on})
iv | torch.arange(4{on})
iv | torch.randint(0, 4, (4,){on})
km | torch.randint(0, 4, (4, 4){on})
av | torch.tensor([1, 2, 3, 4]{on})
az | torch.tensor(3{on})
am | torch.full((4, 4), 2{on})
av | torch.ones(4, dtype=torch.int32{on})
am | torch.zeros(4, 4, dtype=torch.long{on})
bm | torch.ones(4, 4, dtype=torch.bool{on})
bv | torch.tensor([True, False, True, False]{on})
bm | torch.rand(4, 4{on}) > 0.5
m | torch.zeros(4, 4, dtype=torch.get_default_dtype(){on})
m | torch.rand(4, 4{on}).to({d})
t | torch.rand(4, 4, 4{on}).half()
c | torch.rand(4, 4, 4, 4{on}).bfloat16()
m | torch.rand(4, 4).to(DEVICE)
""")

IN_PLACE = table("""
| {x}.add_({y})
| {x}.mul_({n})
| {x}.sub_({s})
| {x}.div_({y})
| {x}.add_({y}, alpha=0.5)
| {x}.exp_()
| {x}.relu_()
| {x}.sqrt_()
| {x}.zero_()
| {x}.fill_({s})
| {x}.clamp_(min={f})
| {x}.sigmoid_()
| {x}.neg_()
| {x}.pow_(2)
| {x}.copy_({y})
| {x}.masked_fill_({B}, {s})
| {x}.masked_fill_({x} > 0, {f})
| {x}.addcmul_({y}, {y})
= | {m}.addmm_({m}, {m})
= | {t}.baddbmm_({t}, {t})
= | {x}.lerp_({h}, 0.5)
= | {X}.index_add_(0, {i}, {h})
= | {X}.index_copy_(0, {i}, {h})
= | {m}.scatter_add_(1, {k}, {m})
| {m}.scatter_(0, {k}, {s})
| F.relu({x}, inplace=True)
| {x} += {y}
| {x} -= {s}
| {x} *= {n}
| {x} /= {y}
| {x} **= 2
| {X}[0] = {l}
| {X}[0] = {s}
| {X}[:2] = {l}
| {X}[1:3] = {f}
| {X}[..., 0] = {s}
| {X}[{B}] = {s}
| {X}[{X} > 0] = {f}
| {X}[{X} > 0] = {z}
= | {X}[{i}] = {l}
| {X}[{i}] = {s}
| {M}[:, 1] = {l}
| {X}[0] += {l}
| {X}[...] = {y}
| torch.add({h}, {y}, out={x})
| torch.mul({h}, {s}, out={x})
| torch.exp({h}, out={x})
| torch.sigmoid({h}, out={x})
= | torch.mm({m}, {m}, out={m})
= | torch.matmul({m}, {m}, out={m})
= | torch.bmm({t}, {t}, out={t})
| torch.div({h}, {y}, out={x})
| torch.sub({h}, {n}, out={x})
""")
"""Statements that change the tensor they begin with, or that is given as `out`."""
