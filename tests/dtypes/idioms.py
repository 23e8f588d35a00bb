"""More lines of random programs, in the language of `operations`: what real code writes.

Arguments by name, numbers that come from tensors and sizes, formulas, masks, and what is made to fit another tensor.
"""

from __future__ import annotations

from tests.dtypes.operations import table

IDIOMS = table("""
x | torch.add(input={x}, other={y})
x | torch.mul({x}, other={n})
x | torch.add({x}, {y}, alpha=0.5)
x | {x}.clamp({h}, {h})
x | {x}.clamp(max={h})
x | torch.clip({x}, 0, 1)
x | torch.rsub({x}, {s})
x | torch.subtract({x}, {y})
x | torch.multiply({x}, {s})
x | torch.pow({f}, {x})
x | torch.pow({x}, {s})
x | {x}.pow({n})
x | torch.float_power({x}, 2)
x | torch.negative({x})
x | {x}.neg().exp()
x | +{x}
x | {x} - {x}.mean()
x | {x} / {x}.norm()
x | {x} / {x}.sum(-1, keepdim=True).clamp(min=1e-6)
x | {x} * {x}.rsqrt()
x | {x} * torch.rsqrt({x}.pow(2).mean() + 1e-6)
x | {x} / ({x}.shape[-1] ** 0.5 if {x}.dim() else 1)
x | {x} / {x}.numel()
x | {x} * {x}.dim()
x | {x} * len({X})
x | {x} * {X}.size(0)
x | {x} * {X}.shape[0] ** -0.5
x | {x} * float({z})
x | {x} * {z}.item()
x | {z}.item() * {x}
x | {x} + int(2.5)
x | {x} * math.sqrt(2.0)
x | {x} * math.pi
x | {x} / math.sqrt({X}.size(-1))
x | {x} + [1.0, 2.0][0]
x | {x} * ({x} > 0)
x | {x} * ({x} > 0).float()
x | {x} * ({x} > 0).to({x}.dtype)
x | {x} * ({x} > 0).type_as({x})
x | ({x} > 0) * {y}
x | ({x} > 0) * 0.5 + {x}
x | (1 - ({x} > 0).int()) * {x}
x | {x} + {B}
x | {x} * {B}
x | {B} / 2 + {x}
x | {B}.float() + {x}
x | torch.where({x} > 0, 1.0, 0.0)
ax | torch.where({x} > 0, 1, 0)
x | torch.where({x} > 0, {x}, torch.zeros_like({x}))
x | torch.where({x} > 0, {x}, torch.tensor(0.0{on}))
x | torch.where({x} > 0, {x}, torch.tensor(0.0, dtype={d}{on}))
x | torch.where({x} > 0, 0.5, {x})
x | torch.full_like({B}, 0.5, dtype={d})
bx | torch.full_like({B}, True)
bx | torch.zeros_like({x}, dtype=torch.bool)
ax | torch.zeros_like({x}, dtype=torch.long)
bx | torch.ones_like({x}).bool()
bx | {x}.gt(0) & {x}.lt(1)
bx | {x}.gt(0) | {B}
bx | ({x} > 0) ^ {B}
bx | torch.logical_and({x} > 0, {B})
bx | torch.logical_or({x}, {x})
bx | ({x} > 0).logical_not()
bz | torch.equal({x}, {x}) + ({x} > 0).all()
x | {X}.softmax(-1, {d})
x | {X}.log_softmax(-1, {d})
x | torch.softmax({X}, -1, {d})
x | torch.softmax({X}, -1, dtype={d})
x | torch.log_softmax({X}, dim=-1, dtype={d})
x | F.log_softmax({X}, -1, dtype={d})
x | F.softmax({X}.float(), dim=-1).type_as({x})
x | F.softmax({X}, dim=-1, dtype=torch.float32).to({X}.dtype)
x | {X}.float().softmax(-1).to({x}.dtype)
x | F.relu({x}).to({x})
x- | {X}.sum(-1, False, dtype={d})
x- | torch.sum(input={X}, dim=-1)
x | {X}.cumsum(dim=-1, dtype={d})
x | {X}.cumprod(-1, dtype={d})
z | {x}.prod(dtype={d})
z | {x}.mean(dtype={d})
z | torch.mean({x}, dtype={d})
z | {x}.float().mean()
z | {x}.double().sum().float()
z | {x}.norm(p=2)
z | {x}.norm(2)
z | torch.linalg.norm({m})
z | torch.linalg.matrix_norm({m})
z | torch.linalg.vector_norm({x})
z | {x}.pow(2).sum().sqrt()
x- | torch.linalg.norm({X}, dim=-1)
x- | torch.norm({X}, dim=-1)
x- | torch.norm({X}, p=2, dim=-1, dtype={d})
x- | {X}.norm(dim=-1, dtype=torch.float32)
x- | {X}.nansum(-1)
x- | {X}.nanmean(-1)
x- kx- | {X}.min(-1)
x- | {X}.max(-1).values
x- | {X}.max(-1)[0]
kx- | {X}.max(-1)[1]
kx- | {X}.max(-1).indices
x | {X}.sort(-1).values
x | {X}.sort(-1, descending=True)[0]
kx | torch.sort({X}, dim=-1)[1]
x | torch.sort({X})[0]
x | {X}.topk(4, dim=-1)[0]
kx | {X}.topk(4).indices
x- | torch.kthvalue({X}, 2)[0]
x- | {X}.kthvalue(1).values
x- | {X}.median(-1).values
z | {x}.median()
z | {x}.amax()
z | {x}.aminmax()[0]
x- x- | torch.std_mean({X}, dim=-1)
x- | torch.quantile({X}.float(), 0.5, dim=-1)
kx- | torch.argmax({X}, dim=-1)
kz | {x}.argmax()
az | torch.count_nonzero({x})
- | torch.nonzero({x})
- | {x}.nonzero()[:1]
- | ({x} > 0).nonzero(as_tuple=True)[0]
az | ({x} > 0).sum()
az | torch.sum({x} > 0)
z | ({x} > 0).float().mean()
az | torch.sum({a})
ax | torch.cumsum({B}, dim=0)
a | {a}.sum(-1, keepdim=True) + {a} if {a}.dim() else {a}
fa | {a} ** 2.0
a | {a} ** 2
fa | {a} ** 0.5
fa | {a} * 0.5
fa | {a} - 0.5
fa | 1 / ({a} + 1)
fa | {a} / {f}
fa | torch.true_divide({a}, 2)
fa | torch.div({a}, 3)
a | torch.div({a}, 3, rounding_mode="floor")
fa | {a}.div(2)
fa | {a}.float() / {a}.max()
fa | {a}.type({d})
fa | {a}.type_as({z})
fa | {a}.to({z})
fa | {a}.to({z}.dtype)
fa | {a}.double()
fa | {a}.bfloat16()
fa | torch.sin({a})
fa | {a}.sigmoid()
fa | torch.exp(-{a})
fa | torch.exp(-{a}.float())
a | -{a} + 1
a | {a}.neg()
a | {a}.clamp(0, 2)
a | {a}.clamp(max=3)
fa | {a}.clamp(min=0.5)
fa | {a} + {z}.float()
fa | {a} * {z}.half()
a | {a}.pow(2)
a | {a}.square()
fa | {a}.float().pow(0.5)
az | {a}.prod()
a | {a}.long() // 2
a | {a} * 2 + 1
a | ({a} > 1).long()
a | ({a} > 1) * {a}
a | torch.where({a} > 1, {a}, 0)
fa | torch.where({a} > 1, {a}, 0.5)
fa | torch.where({a} > 1, {z}, {a})
a | {a}.to(torch.int16)
a | {a}.short() + {a}.int()
a | {a}.to(torch.uint8) * {a}.to(torch.int8)
a | {b} * 3 + 1
fb | {b} * 0.5
fb | {b} * {z}
fb | {b} + {z}
fb | {b} / 2
fb | {b}.half() * {z}
fb | torch.where({b}, 1.0, {z})
fb | torch.where({b}, {z}, 0)
fb | torch.zeros_like({b}, dtype={d})
fb | {b}.to({z})
fb | {b}.type_as({z})
fb | torch.sigmoid({b}.float())
fb | 1.0 - {b}.float()
fb | 1 - {b}.half()
a | 1 - {b}.int()
a | {b}.sum(-1) if {b}.dim() else {b}.sum()
fb | {b}.float().masked_fill({b}, {f})
fb | torch.zeros_like({b}, dtype={d}).masked_fill_({b}, float("-inf"))
fb | torch.zeros({b}.shape, dtype={d}{on}).masked_fill({b}, -1e4)
m | torch.zeros({m}.shape{on})
m | torch.zeros({m}.size(), dtype={m}.dtype{on})
m | torch.zeros({m}.size(0), {m}.size(1){on})
m | torch.zeros(*{m}.shape, dtype={d}{on})
m | torch.ones({m}.shape, dtype={m}.dtype, device={m}.device)
m | torch.rand({m}.size(), device={m}.device)
x | torch.zeros({x}.shape, dtype={x}.dtype{on})
x | torch.randn({x}.shape{on}) * {x}
x | {x} + torch.randn_like({x}) * 0.1
x | {x} + 0.1 * torch.randn({x}.shape, dtype={x}.dtype, device={x}.device)
x | torch.empty({x}.shape, dtype={d}{on}).fill_(1).add_({x})
x | torch.empty_like({x}).copy_({y})
x | torch.empty_like({x}, dtype={d}).copy_({x})
x | torch.zeros_like({x}).add_({y})
x | torch.zeros_like({x}, dtype=torch.float32) + {x}
x | torch.ones_like({x}) * {y}
x | torch.zeros_like({x}).normal_(0, 1)
x | torch.empty_like({x}).uniform_()
x | {x}.new_zeros({x}.shape)
x | {x}.new_zeros({x}.size(), dtype={d})
x | {x}.new_ones({x}.shape).to({d})
x | {x}.new_full({x}.shape, {f})
z | {x}.new_tensor(0.5)
z | {x}.new_tensor({f}, dtype={d})
v | {x}.new_empty(4, dtype={d}).zero_()
m | {x}.new(4, 4).fill_(0)
z | torch.tensor({z}.item(){on})
z | torch.tensor(float({z}), dtype={d}{on})
z | torch.scalar_tensor({f}{on})
z | torch.as_tensor({f}{on})
x | torch.as_tensor({x})
x | torch.as_tensor({x}, dtype={d})
v | torch.tensor([{f}] * 4{on})
v | torch.tensor([{f}, 1, 2, True]{on})
v | torch.tensor([x / 2 for x in range(4)]{on})
v | torch.arange(4{on}).float()
v | torch.arange(4, device=DEVICE).to({d})
v | torch.arange(0, 1, 0.25{on})
v | torch.arange(4{on}) * {f}
v | torch.arange(4{on}) / 4
v | 1.0 / (10000 ** (torch.arange(0, 8, 2{on}).float() / 8))
v | 10000 ** (-torch.arange(0, 8, 2{on}) / 8)
v | torch.exp(torch.arange(0, 8, 2{on}) * -0.5)
v | torch.exp(torch.arange(0, 8, 2, dtype={d}{on}) * -0.5)
v | torch.arange({m}.size(0), dtype={d}{on})
v | torch.arange({m}.shape[0]{on}).to({m}.dtype)
v | torch.linspace(0, 1, 4, dtype={d}{on})
v | torch.linspace(0.0, 1.0, {m}.size(0){on})
v | torch.logspace(0, 1, 4{on})
m | torch.eye(4, dtype={d}{on})
m | torch.eye({m}.size(0), dtype={m}.dtype{on})
m | torch.full((4, 4), float("-inf"){on})
m | torch.full((4, 4), float("-inf"), dtype={m}.dtype{on}).triu(1)
m | torch.full_like({m}, float("-inf")).triu(1)
m | torch.full((4, 4), torch.finfo({d}).min{on})
m | torch.full((4, 4), torch.finfo({d}).min, dtype={d}{on})
m | torch.triu(torch.full((4, 4), -1e4{on}), diagonal=1)
m | torch.tril(torch.ones(4, 4{on})) * {m}
m | torch.tril(torch.ones(4, 4, dtype={d}{on})) + {m}
m | torch.ones(4, 4{on}).tril().bool() * {m}
m | {m}.masked_fill(torch.ones(4, 4{on}).triu(1).bool(), float("-inf"))
m | {m}.masked_fill(torch.ones(4, 4, dtype=torch.bool{on}).triu(1), -1e4)
bm | torch.ones(4, 4, dtype=torch.bool{on}).tril()
km | torch.zeros(4, 4{on}).long()
km | torch.arange(4{on})[None].expand(4, 4)
kv | torch.randperm(4{on})
v | torch.normal(0.0, 1.0, (4,){on})
x | torch.normal({x}, 1.0)
x | torch.bernoulli(torch.full_like({x}, 0.5))
x | torch.rand_like({x}) < 0.5
m | torch.hann_window(4{on})[None] * {m}
x | {x}.to({d}, copy=True)
x | {x}.to(DEVICE, non_blocking=True)
x | {x}.to({x}.device, {x}.dtype)
x | {x}.to(device={x}.device, dtype={y}.dtype)
x | {x}.to({y}.dtype).to({x}.dtype)
x | {x}.cpu()
x | {x}.half().float()
x | {x}.float().half()
x | {x}.type(DTYPE)
x | {x}.to(DTYPE)
x | {x}.to(getattr(torch, "float16"))
x | {x}.to({"half": torch.float16}["half"])
x | {x}.to(torch.float16 if True else torch.float32)
x | {x}.to(torch.get_autocast_dtype(DEVICE))
x | {x}.to(torch.get_default_dtype())
x | {x}.to(torch.result_type({x}, {y}))
x | {x}.to(torch.promote_types({x}.dtype, {y}.dtype))
x | {x}.double().to({x}.dtype)
x | {x}.data
x | {x}.data.float()
x | {x}.clone().detach()
x | {x}.detach().clone().float()
x | {x}.requires_grad_(False)
x | {x}.float().log().to({x}.dtype)
x | ({x}.float() + 1e-6).log()
x | {x}.float().pow(2).mean().rsqrt() * {x}
x | ({x}.float() * torch.rsqrt({x}.float().pow(2).mean() + 1e-6)).type_as({x})
x | {x} * ({x}.double() ** 2).mean().float()
x | {x}.float() @ {x}.float().mT if {x}.dim() > 2 else {x}.float()
x | {x}.float() if {x}.dtype == torch.bfloat16 else {x}
x | {x}.float() if {x}.dtype != torch.float32 else {x}
x | {x}.to(torch.float32) if {x}.element_size() == 2 else {x}
x | {x}.clamp(torch.finfo({x}.dtype).min, torch.finfo({x}.dtype).max)
x | {x} + torch.finfo({x}.dtype).eps
x | {x}.masked_fill({x} > 0, torch.finfo({x}.dtype).min)
x | torch.nan_to_num({x}, nan=0.0, posinf=1.0)
x | {x}.nan_to_num(0.0)
= m | torch.matmul(input={m}, other={m})
= m | torch.mm({m}, mat2={m})
= m | torch.addmm({m}, {m}, {m}, beta=0.5, alpha=2)
= m | torch.einsum("ij,kj->ik", [{m}, {m}])
= m | torch.einsum("i,j->ij", {v}, {v})
= m | torch.einsum("ij,j->ij", {m}, {v})
= z | torch.einsum("ij,ij->", {m}, {m})
x | torch.einsum("...->...", {x})
= t | torch.einsum("bij,jk->bik", {t}, {m})
= c | torch.einsum("bhqd,bhkd->bhqk", {c}, {c})
= m | {m}.float() @ {m}.float()
= m | ({m} @ {m}.t()).softmax(-1) @ {m}
= m | ({m} @ {m}).float()
= m | ({m} @ {m}) + {m}.float()
= m | {m} @ {m} + ({m} @ {m}) * 0.5
= t | {t} @ {m}.t() + {v}
= t | torch.matmul({t}, {t}.transpose(1, 2)) / math.sqrt(4)
= c | torch.matmul({c}, {c}.transpose(-1, -2)) * 4 ** -0.5
= v | {m}.mv({v})
= z | {v} @ {v}
= z | {v}.dot({v})
= v | {v} @ {m}
= m | {v}.outer({v})
= m | torch.ger({v}, {v})
= m | torch.kron({m}, {m})[:4, :4]
= m | torch.inner({m}, {m})
m | torch.linalg.inv({m}.float())
m | torch.linalg.matrix_power({m}, 2)
m | torch.linalg.qr({m}.float())[0]
z | torch.linalg.det({m}.float())
z | torch.logdet({m}.float() @ {m}.float().t())
m | torch.linalg.solve({m}.float(), {m}.float())
m | torch.linalg.svd({m}.float())[0]
m | torch.cov({m})
m | torch.cdist({m}.float(), {m}.float())
m | torch.cross({m}[:, :3], {m}[:, :3], dim=1).repeat(1, 2)[:, :4]
v | torch.diff({m}, dim=0)[0]
v | torch.trapz({m}, dim=-1)
= m m | torch.meshgrid({v}, {v}, indexing="ij")
km km | torch.meshgrid(torch.arange(4{on}), torch.arange(4{on}), indexing="ij")
= m m | torch.meshgrid([{v}, {v}], indexing="xy")
= m | torch.stack(torch.meshgrid({v}, {v}, indexing="ij"))[0]
= m | torch.cat(torch.meshgrid({v}, {v}, indexing="ij"))[:4]
= m | F.linear({m}, {m}, bias={v})
= m | F.linear(input={m}, weight={m}, bias=None)
= t | F.conv1d({t}, weight={t}[..., :1], bias={v})
= c | F.conv2d({c}, {c}, stride=1, padding=2)[:, :, :4, :4]
= c | F.conv2d({c}, {c}[:, :1, :3, :3], padding=1, groups=4)
= t | F.conv_transpose1d({t}, {t}[..., :1])
= x | F.layer_norm({X}, [4], weight={v}, bias={v}, eps=1e-5)
x | F.layer_norm({X}, {X}.shape[-1:])
x | F.layer_norm({X}.float(), (4,)).type_as({x})
= x | F.layer_norm({X}.float(), (4,), {v}.float(), {v}.float()).to({X}.dtype)
= m | F.batch_norm({m}, {v}, {v}, training=True)
= m | F.batch_norm({m}, None, None, {v}, {v}, training=True)
= c | F.scaled_dot_product_attention({c}, {c}, {c}, is_causal=True)
= c | F.scaled_dot_product_attention({c}, {c}, {c}, attn_mask={m} > 0)
= c | F.scaled_dot_product_attention({c}, {c}, {c}, attn_mask={m})
= c | F.scaled_dot_product_attention(query={c}, key={c}, value={c}, dropout_p=0.0)
m | F.embedding({i}, {m})
t | F.embedding({k}, {m})
m | {m}[{i}]
v | {m}[{i}, {i}]
v | {m}[0, :]
z | {m}[0, 0]
z | {v}[0]
z | {t}[0, 1, 2]
v | {t}[:, 0, -1]
m | {t}[:, -1]
m | {v}[:, None] * {v}[None, :]
m | {v}.unsqueeze(0) + {v}.unsqueeze(1)
m | {v}.view(1, -1).expand(4, -1)
m | {v}.repeat(4, 1)
t | {m}.expand(4, -1, -1)
m | {t}.mean(0)
m | {t}.squeeze(0)[0]
v | {m}.reshape(-1)[:4]
m | {t}.flatten(0, 1)[:4]
t | {m}.view(1, 4, 4).repeat(4, 1, 1)
c | {t}.unsqueeze(1).expand(-1, 4, -1, -1)
t | {c}.sum(1)
t | {c}.amax(dim=1)
t | {c}.flatten(2)[..., :4]
m | {c}.mean(dim=(2, 3))
m | {c}.mean([-2, -1])
m | {c}.amax((2, 3))
c | F.interpolate({c}, scale_factor=1.0)
c | F.interpolate({c}.float(), size=(4, 4), mode="bilinear", align_corners=False).to({c}.dtype)
c | F.interpolate({c}, size=(4, 4), mode="bicubic")
m | F.adaptive_avg_pool2d({c}, 1).flatten(1)
m | F.adaptive_avg_pool2d({c}, (1, 1))[..., 0, 0]
t | F.adaptive_avg_pool1d({t}, 4)
t | F.avg_pool1d({t}, 3, 1, 1)
c | F.max_pool2d({c}, kernel_size=3, stride=1, padding=1)
c | F.pixel_shuffle({c}, 2).reshape(4, 4, 4, 4)
c | F.unfold({c}, 1).view(4, 4, 4, 4)
c | F.fold({c}.flatten(2), (4, 4), 1)
x | F.hardtanh({x}, -1, 1)
x | F.threshold({x}, 0.1, 0.0)
x | F.leaky_relu({x}, negative_slope=0.1)
x | F.softplus({x}, beta=2)
x | F.gelu({x}, approximate="tanh")
x | torch.sigmoid({x}) * {x}
x | {x} * torch.tanh(F.softplus({x}))
x | F.silu({x}) * {h}
x | torch.special.expit({x})
x | torch.special.log_softmax({X}, dim=-1)
x | torch.logit({x}.clamp(0.1, 0.9))
x | {x}.logit(eps=1e-3)
x | torch.xlogy({x}, {h})
x | torch.logaddexp({x}, {h})
x | torch.hypot({x}, {h})
x | torch.copysign({x}, {h})
x | torch.heaviside({x}, {h})
x | torch.nextafter({x}, {h})
x | torch.fmax({x}, {h})
x | torch.erfinv({x}.clamp(-0.5, 0.5))
x | torch.erfc({x})
x | torch.digamma({x})
x | torch.deg2rad({x})
x | torch.sgn({x})
x | torch.positive({x})
x | torch.sinc({x})
x | torch.clamp({x}, {f})
x | torch.lerp({x}, {h}, {h})
= x | {x}.lerp({h}, weight=0.5)
x | torch.diagonal({M}.mT.mT.flip(0), 0).sum() + {M}
x | {X}.narrow(0, 0, 4)
x- | {X}.select(0, 1)
x | {X}.repeat_interleave(1, dim=0)
x | {X}.swapaxes(0, -1)
x | {X}.movedim(0, -1)
x | {x}.expand_as({x})
x | {x}.view_as({x})
x | {x}.reshape({x}.shape)
x | {x}.view({x}.shape).contiguous()
x | {x}.reshape_as({x})
x | torch.atleast_1d({X})
x | torch.broadcast_to({x}, {x}.shape)
- - | torch.broadcast_tensors({x}, {y})
x | torch.squeeze({X}.unsqueeze(-1), -1)
x | torch.rot90({M}) if {M}.dim() == 2 else {M}
x | torch.cat(tensors=[{X}, {h}], dim=0)[:4]
x | torch.cat([{X}] * 2)[:4]
x | torch.cat([{X}, {h}.to({X}.dtype)])[:4]
x | torch.cat([{X}, torch.zeros_like({X})], 0)[:4]
x | torch.cat([one for one in ({X}, {h})])[:4]
x | torch.stack([{X}, {h}, {h}]).mean(0)
x | torch.stack([{x}, {h}], -1).sum(-1)
x | torch.stack([{x} * 2, {h} + 1]).sum(0)
x | torch.vstack([{X}, {h}])[:4] if {X}.dim() > 1 else {X}
x | torch.dstack([{t}, {t}])[..., :4]
x | torch.column_stack([{m}, {m}])[:, :4]
x | sum([{x}, {h}])
x | sum([{x}, {h}]) / 2
x | sum(one.float() for one in ({x}, {h}))
x | max({z}, {z})
z | min({z}, 1.0)
x | [{x}, {h}][0] + 1
x | {"a": {x}, "b": {h}}["a"] * 2
x | ({x}, {h})[1]
x | (lambda value: value.float())({x})
x | (lambda a, b: a * b)({x}, {h})
- - | {X}.split([1, 3])
- - | torch.tensor_split({X}, 2)
- | {X}.chunk(2, dim=-1)[1]
- | torch.chunk({X}, 2, -1)[0]
- - - - | {X}
x- x- x- x- | torch.unbind({X})
x- | {X}.unbind(0)[1]
- | torch.unique({x})
- | {x}[{x} > 0].mean()
- | {x}[~({x} > 0)]
- | {X}[::2]
- | {X}[None]
- | {x}[None, ...]
x | {X}[torch.arange(4{on})]
x | {X}[[0, 1, 2, 3]]
x- | {X}[-1]
- | {M}[1:, :-1]
- | {M}[..., None]
x | {X}.index_add(0, {i}, {X})
x | {X}.index_add(dim=0, index={i}, source={h})
x | {X}.index_fill(0, {i}, 0)
m | {m}.scatter(1, {k}, 1.0)
m | {m}.scatter(dim=1, index={k}, src={m})
m | torch.zeros_like({m}).scatter_(1, {k}, 1.0)
m | torch.zeros(4, 4{on}).scatter_(1, {k}, {m})
m | torch.zeros(4, 4, dtype={d}{on}).scatter_add_(0, {k}, {m})
m | torch.zeros(4, 4, dtype={m}.dtype{on}).index_add_(0, {i}, {m})
m | torch.zeros(4, 4{on}).index_copy_(0, {i}, {m})
x | torch.index_select({X}, 0, {i})
x | torch.select({X}, 0, 0) + {X}
x | torch.masked_fill({x}, {x} > 0, {f})
x | torch.masked.softmax({X}, -1, mask={X} > 0)
x | {x}.masked_fill({B}, {z})
x | {x}.masked_fill(mask={B}, value=0)
x | {x}.masked_fill(~{B}, 0.0)
x | torch.utils.checkpoint.checkpoint(torch.relu, {x}, use_reentrant=False)
x | torch.utils.checkpoint.checkpoint(lambda value: value * 2, {x}, use_reentrant=False)
z | F.mse_loss({x}.float(), {h}.float())
z | F.mse_loss(input={x}, target={h})
z | F.l1_loss({x}, {h}, reduction="sum")
x | F.smooth_l1_loss({x}, {h}, reduction="none")
x | F.huber_loss({x}, {h}, reduction="none", delta=0.5)
x | F.l1_loss({x}, {h}, reduction="none").mean() + {x}
x | F.kl_div({x}, {h}, reduction="none")
z | F.kl_div({X}.log_softmax(-1), {h}.softmax(-1), reduction="batchmean")
z | F.kl_div(F.log_softmax({X}, -1), F.softmax({h}, -1))
v | F.cross_entropy({m}, {i}, reduction="none")
z | F.cross_entropy({m}.float(), {i})
z | F.cross_entropy({m}, {i}, weight={v})
z | F.cross_entropy({m}, {i}, label_smoothing=0.1)
z | F.cross_entropy({t}, {k})
z | F.nll_loss(F.log_softmax({m}, -1), {i}, weight={v})
z | F.binary_cross_entropy_with_logits({x}, {h}, weight={h})
z | F.binary_cross_entropy_with_logits({x}, {h}, pos_weight={h})
x | F.binary_cross_entropy_with_logits({x}, {h}.sigmoid(), reduction="none")
x | F.binary_cross_entropy({x}.sigmoid().float().nan_to_num(), {h}.sigmoid().nan_to_num().float(), reduction="none")
z | F.gaussian_nll_loss({x}, {h}, {h}.exp())
z | F.multilabel_soft_margin_loss({m}, {m})
z | F.multilabel_margin_loss({m}, {k})
z | F.triplet_margin_loss({m}, {m}, {m}, p=1)
z | F.triplet_margin_with_distance_loss({m}, {m}, {m})
v | F.cosine_similarity({m}, {m}, dim=1, eps=1e-6)
z | 1 - F.cosine_similarity({m}, {m}).mean()
m | F.normalize({m}, p=2, dim=1)
m | F.normalize({m}.float(), dim=-1).half() @ {m}.half().t()
m | {m} / {m}.norm(dim=-1, keepdim=True)
m | {m} / {m}.norm(p=2, dim=-1, keepdim=True).clamp_min(1e-12)
m | F.one_hot({i}, 4).float()
m | F.one_hot({i}, 4).to({m}.dtype) @ {m}
m | F.one_hot({i}, num_classes=4) * {m}
z | -(F.softmax({X}, -1) * F.log_softmax({h}, -1)).sum(-1).mean()
z | -torch.log(torch.sigmoid({x})).mean()
z | ({x} - {h}).pow(2).mean()
z | (({x} - {h}) ** 2).mean()
z | ({x}.float() - {h}).abs().mean()
z | torch.mean(torch.abs({x} - {h}))
z | torch.logsumexp({X}, dim=-1).mean()
z | {X}.exp().sum(-1).log().mean()
x | {X} - {X}.amax(-1, keepdim=True)
x | ({X} - {X}.max(-1, keepdim=True)[0]).exp()
x | ({X} - {X}.mean(-1, keepdim=True)) / ({X}.std(-1, keepdim=True) + 1e-6)
x | ({X} - {X}.mean(-1, keepdim=True)) * torch.rsqrt({X}.var(-1, keepdim=True, unbiased=False) + 1e-6)
x | {v} * F.rms_norm({X}, (4,))
x | {v} * ({X} - {X}.mean(-1, keepdim=True)) + {v}
x | F.dropout({x}, p=0.1, training=True)
x | F.dropout({x}, training=False) + {y}
x | F.alpha_dropout({x})
x | {x}.bernoulli(0.5)
""")

IN_PLACE = table("""
| {x}.add_(1)
| {x}.add_(other={y})
| {x}.mul_({x})
| {x}.mul_({f}).add_({y})
| {x}.mul_({f}).add_({y}, alpha=1 - {f})
| {x}.div_({x}.norm() + 1e-6)
| {x}.div_({s})
| {x}.sub_({y} * {f})
| {x}.copy_({n})
| {x}.clamp_(0, 1)
| {x}.clamp_max_({f})
| {x}.floor_()
| {x}.abs_()
| {x}.log_()
| {x}.rsqrt_()
| {x}.tanh_()
| {x}.reciprocal_()
| {x}.nan_to_num_()
| {x}.normal_()
| {x}.uniform_(0, 1)
| {x}.bernoulli_(0.5)
| {x}.addcdiv_({y}, {y}, value=0.1)
| {x}.masked_fill_(~{B}, float("-inf"))
| {M}.tril_()
| {X}.fill_diagonal_(0) if {X}.dim() == 2 else None
| {m}.scatter_(1, {k}, {m})
| {m}.scatter_add_(0, {k}, {m}.to({m}.dtype))
| {X}.index_fill_(0, {i}, 0.5)
| {X}.index_put_(({i},), {z})
| {x}.copy_({x}.float())
| {x}.data.mul_({f})
| {x}.data = {x}.data.half()
| {x}.data = {x}.to({d})
| {x}.t_() if {x}.dim() == 2 else None
| {x}.unsqueeze_(0).squeeze_(0)
| nn.init.ones_({x})
| nn.init.normal_({x}, std=0.1)
| nn.init.xavier_uniform_({M})
| {x} += {s}
| {x} += {n}
| {x} -= {y}
| {x} *= {f}
| {x} *= {y}
| {x} /= {f}
| {x} /= {n}
| {x} //= 2
| {x} += {x}.mean()
| {x} -= {f} * {y}
| {x} *= torch.sigmoid({y})
| {x} = {x} * {y}
| {x} = {x}.float()
| {x} = {x}.half()
| {x} = {x}.to({d})
| {x} = F.relu({x}) + {x}
| {M} @= {M} if {M}.dim() == 2 else 1
| {X}[0] = 0
| {X}[-1] = {X}[0]
| {X}[0] *= 2
| {X}[0] -= {l}
| {X}[1:] += {s}
| {X}[:, ...] = {y}
| {X}[{X} > {f}] *= 2
| {X}[{X} != {X}] = 0
| {X}[{B}] += {s}
| {X}[{B}] = {z}
| {X}[{i}] = {h}
| {X}[{i}] += {h}
| {X}[{i}] *= {s}
| {M}[:, 0] = {s}
| {M}[:, 1:3] = 0
| {M}[0, 0] = {z}
| {M}[..., 0] += {s}
| {M}[{i}, {i}] = {s}
| {M}[{i}, 0] = {z}
| torch.add({h}, {y}, out={x}[...])
| torch.mul(out={x}, input={h}, other={y})
| torch.sqrt({h}, out={x})
| torch.log({h}, out={x})
| torch.tanh({h}, out={x})
| torch.clamp({h}, 0, 1, out={x})
| torch.maximum({h}, {h}, out={x})
| torch.pow({h}, 2, out={x})
| torch.where({B}, {h}, {h}, out={x})
| torch.sum({h}, 0, out={h}[0]) if {h}.dim() else None
| torch.cumsum({h}, 0, out={x}) if {h}.dim() else None
| torch.softmax({m}, -1, out={m})
| torch.stack([{v}, {v}, {v}, {v}], out={m})
= | torch.addmm({m}, {m}, {m}, out={m})
= | torch.mv({m}, {v}, out={v})
= | torch.outer({v}, {v}, out={m})
= | torch.baddbmm({t}, {t}, {t}, out={t})
| torch.floor({h}, out={x})
| torch.neg({h}, out={x})
| torch.abs({h}, out={x})
| torch.zeros(4, 4, out={m})
| torch.arange(4, out={v})
| F.silu({x}, inplace=True)
| F.dropout({x}, 0.1, inplace=True)
| F.leaky_relu({x}, 0.1, inplace=True)
| F.relu_({x})
| torch.relu_({x})
| torch.sigmoid_({x})
""")
"""Statements that change a tensor."""
