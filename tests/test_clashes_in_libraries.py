"""What library code makes float32 whatever its caller's dtype is, and where that meets half: masks, kernels, counts."""

from __future__ import annotations

import textwrap

import pytest
import torch

from tests.test_clashes import found

PROGRAMS = {
    "tensors that are joined before a kernel meets them": """
        class Similarity:
            def __init__(self, width):
                self.kernel = self.window(width)

            def window(self, width):
                steps = torch.linspace(-width, width, steps=width)
                return torch.exp(-steps.pow(2)).unsqueeze(0)

            def update(self, pictures, others):
                if pictures.dtype != others.dtype:
                    raise TypeError("pictures of two dtypes")
                whole = torch.cat([pictures, others, pictures * others])
                return F.conv2d(whole, self.kernel, groups=3)  # AMP502

            def in_float32(self, pictures, others):
                assert pictures.dtype == torch.float32
                return F.conv2d(torch.cat([pictures, others]), self.kernel, groups=3)

            def widened(self, pictures):
                whole = torch.cat([pictures, torch.zeros(1, 3, 8, 8)])
                return F.conv2d(whole, self.kernel, groups=3)

            def by_dtype(self, pictures, others):
                kernel = self.kernel
                if pictures.dtype != kernel.dtype:
                    kernel = kernel.to(pictures.dtype)
                return F.conv2d(torch.cat([pictures, others]), kernel, groups=3)
    """,
    "a bias that is converted where it is given, beside values that are not": """
        def attention(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, bias=None):
            dtype = q.dtype
            q, k = q.float(), k.float()
            if bias is not None:
                bias = bias.float()
            return F.scaled_dot_product_attention(q, k, v, attn_mask=bias).to(dtype)  # AMP502

        def converted(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, bias=None):
            dtype = q.dtype
            q, k, v = q.float(), k.float(), v.float()
            if bias is not None:
                bias = bias.float()
            return F.scaled_dot_product_attention(q, k, v, attn_mask=bias).to(dtype)
    """,
    "elements of a tensor that is given or made": """
        def replaced(places: torch.Tensor, chosen, device):
            if places is None:
                places = torch.zeros(8, 2, device=device)
            missing = chosen > 3
            drawn = torch.stack([torch.rand(4) * 180 - 90, torch.rand(4) * 360 - 180], dim=-1)
            places = places.clone()
            places[missing] = drawn  # AMP502
            return places

        def made(chosen, device):
            places = torch.zeros(8, 2, device=device)
            places[chosen > 3] = torch.rand(4, 2)
            return places
    """,
    "what autocast computes in float32, written into a tensor of the dtype of its input": """
        class Experts(nn.Module):
            def __init__(self):
                super().__init__()
                self.proj = nn.Linear(8, 8)

            def forward(self, x, chosen):
                scores = self.proj(x)
                found = torch.zeros_like(scores)
                found[chosen > 3] = F.softmax(scores, dim=-1)  # AMP502
                return found

        def tried(x: torch.Tensor):
            found = torch.zeros_like(x)
            try:
                found[x > 0] = torch.exp(x[x > 0])
            except RuntimeError:
                found[x > 0] = torch.exp(x[x > 0]).half()
            return found

        def by_signs(x: torch.Tensor):
            found = torch.zeros_like(x)
            found[x > 0] = torch.exp(x[x > 0])  # AMP502
            return found

        def gathered(x: torch.Tensor, rows):
            found = torch.zeros(8, 8, dtype=x.dtype)
            found.index_add_(0, rows, x * x.softmax(-1))  # AMP502
            return found

        def promoted(x: torch.Tensor, rows):
            found = torch.zeros(8, 8, dtype=x.dtype)
            return found.scatter_add(0, rows, x.exp())

        def converted(x: torch.Tensor, rows):
            found = torch.zeros(8, 8, dtype=x.dtype)
            found.index_add_(0, rows, x.exp().to(x.dtype))
            found.index_add_(0, rows, x.sigmoid())
            return found
    """,
    "one of two views": """
        def chosen(x: torch.Tensor, by_rows):
            part = x[:1] if by_rows else x[:, :1]
            return part @ torch.eye(8, device=x.device)  # AMP502

        def counted(x: torch.Tensor, by_rows):
            part = torch.ones(8, 8) if by_rows else torch.zeros(8, 8)
            return part @ torch.eye(8, device=x.device)
    """,
    "noise for a model that its class converts": """
        class Sampler:
            def __init__(self, net, other):
                self.unet = net.half()
                self.other = other

            def sample(self, shape, device):
                latents = torch.randn(shape, device=device)
                latents = latents - self.unet(latents, 3)  # AMP502
                return latents + self.other(latents, 3)

            def converted(self, shape, device):
                latents = torch.randn(shape, device=device).half()
                return self.unet(latents, 3)
    """,
    "pooling by a mask in a method beside the forward pass": """
        class Encoder(nn.Module):
            def pooled(self, layers: torch.Tensor, pad_mask: torch.Tensor):
                last = layers[-1]
                pad_mask = pad_mask.unsqueeze(2)
                last = last * pad_mask.float()  # AMP504
                return last.sum(1) / pad_mask.sum(1)

            def forward(self, x):
                return self.proj(x)
    """,
    "normalisation with statistics that are kept": """
        class Frozen(nn.Module):
            def __init__(self, width):
                super().__init__()
                self.register_buffer("weight", torch.ones(width))
                self.register_buffer("bias", torch.zeros(width))
                self.register_buffer("mean", torch.zeros(width))
                self.register_buffer("var", torch.ones(width))

            def forward(self, x):
                scale = (self.weight * (self.var + 1e-5).rsqrt()).reshape(1, -1, 1, 1)
                bias = self.bias.reshape(1, -1, 1, 1) - self.mean.view(1, -1, 1, 1) * scale
                return x * scale + bias  # AMP504

        class Converted(Frozen):
            def forward(self, x):
                scale = (self.weight * (self.var + 1e-5).rsqrt()).reshape(1, -1, 1, 1)
                return x * scale.to(x.dtype) + self.bias.view(1, -1, 1, 1).to(x.dtype)

        class Divided(Frozen):
            def forward(self, x):
                return (x - self.mean[None, :, None, None]) / torch.sqrt(self.var + 1e-5)[None, :, None, None]  # AMP504

        class OfTheBatch(Frozen):
            def forward(self, x):
                var = x.var((0, 2, 3), unbiased=False)
                scale = (var + 1e-5).rsqrt().reshape(1, -1, 1, 1)
                return x * scale

        class OfVectors(Frozen):
            def forward(self, state):
                return (state - self.mean) / torch.sqrt(self.var + 1e-5)
    """,
    "inputs lifted for weights of the model": """
        class Norm(nn.LayerNorm):
            def forward(self, x):
                lifted = F.layer_norm(x.float(), self.normalized_shape, self.weight, self.bias)  # AMP502
                return lifted.to(x.dtype)

        class Converted(nn.LayerNorm):
            def forward(self, x):
                weight, bias = self.weight.float(), self.bias.float()
                return F.layer_norm(x.float(), self.normalized_shape, weight, bias).type_as(x)

        class Head(nn.Module):
            def __init__(self, width):
                super().__init__()
                self.scale = nn.Parameter(torch.empty(width, width))
                self.proj = nn.Linear(width, width)
                self.register_buffer("table", torch.empty(width, width))

            def forward(self, x):
                dtype = x.dtype
                x = x.float()
                return (x @ self.scale).to(dtype)  # AMP502

            def by_a_layer(self, x):
                return F.linear(x.float(), self.proj.weight).to(x.dtype)  # AMP502

            def by_a_converted_layer(self, x):
                weight = self.proj.weight.float()
                y = F.linear(x.float(), self.proj.weight.float()) + F.linear(x.float(), weight)
                return y.to(x.dtype)

            def by_a_buffer(self, x):
                return (x.to(torch.float32) @ self.table).to(x.dtype)  # AMP502

            def in_float32(self, x):
                return x.float() @ self.scale

            def switched_off(self, x):
                with torch.autocast("cuda", enabled=False):
                    return (x.float() @ self.scale).to(x.dtype)
    """,
    "a float32 bias of fused attention": """
        class Windows(nn.Module):
            def __init__(self, width):
                super().__init__()
                self.qkv = nn.Linear(width, 3 * width)

            def forward(self, tokens, lengths):
                b, n, c = tokens.shape
                q, k, v = self.qkv(tokens).view(b, n, 3, 4, -1).permute(2, 0, 3, 1, 4)
                bias = torch.zeros(b, 1, n, n, device=tokens.device)
                bias.masked_fill_(torch.arange(n, device=tokens.device) >= lengths[:, None, None, None], -1e4)
                mixed = F.scaled_dot_product_attention(q, k, v, attn_mask=bias)  # AMP502
                mixed = mixed + F.scaled_dot_product_attention(q, k, v, attn_mask=bias.to(q.dtype))
                return mixed + F.scaled_dot_product_attention(q, k, v, attn_mask=bias < 0)
    """,
    "a float32 bias under autocast": """
        def attend(q, k, v):
            bias = torch.zeros(q.shape[2], k.shape[2], device=q.device)
            with torch.autocast("cuda", dtype=torch.bfloat16):
                return F.scaled_dot_product_attention(q, k, v, attn_mask=bias)
    """,
    "a converted mask that is handed to blocks": """
        class Block(nn.Module):
            def __init__(self, width):
                super().__init__()
                self.q = nn.Linear(width, width)
                self.kv = nn.Linear(width, 2 * width)

            def forward(self, x, bias=None):
                k, v = self.kv(x).chunk(2, dim=-1)
                return x + F.scaled_dot_product_attention(self.q(x), k, v, attn_mask=bias)  # AMP502

        class Stack(nn.Module):
            def __init__(self, width, depth):
                super().__init__()
                self.blocks = nn.ModuleList([Block(width) for _ in range(depth)])

            def forward(self, x, padding_mask):
                bias = (1.0 - padding_mask.float()) * -1e4
                for block in self.blocks:
                    x = block(x, bias=bias[:, None, :])
                return x
    """,
    "a mask that is made where none is given": """
        class Attention(nn.Module):
            def __init__(self, width):
                super().__init__()
                self.q = wrapped(nn.Linear(width, width))

            def forward(self, x, memory, bias=None):
                q, k, v = map(lambda t: t.unflatten(-1, (4, -1)).transpose(1, 2), (self.q(x), memory, memory))
                if bias is None:
                    bias = torch.zeros(x.shape[1], memory.shape[1], dtype=torch.float32, device=x.device)
                return F.scaled_dot_product_attention(q, k, v, bias)  # AMP502
    """,
    "averages of a helper or a step": """
        class RunningMean(nn.Module):
            def averaging(self, steps):
                lower = torch.tril(torch.ones(steps, steps))
                return lower / torch.arange(1, steps + 1, dtype=torch.float).unsqueeze(1)

            def mix(self, frames, weights_or_step, cache=None):
                if cache is not None:
                    return (frames + weights_or_step * cache["sum"]) / (weights_or_step + 1)
                return torch.matmul(weights_or_step, frames)  # AMP502

            def forward(self, frames, cache=None, step=None):
                weights = self.averaging(frames.size(1)).to(frames.device) if cache is None else step
                return self.mix(frames, weights, cache=cache)
    """,
    "averages that follow": """
        class RunningMean(nn.Module):
            def averaging(self, steps):
                return torch.tril(torch.ones(steps, steps))

            def mix(self, frames, weights_or_step):
                return torch.matmul(weights_or_step.to(frames.dtype), frames)

            def forward(self, frames, cache=None, step=None):
                weights = self.averaging(frames.size(1)).to(frames.device) if cache is None else step
                return self.mix(frames, weights)
    """,
    "numbers and arrays that become kernels": """
        class Blur(nn.Module):
            def __init__(self, taps):
                super().__init__()
                self.taps = taps

            def forward(self, image):
                kernel = torch.tensor(self.taps, device=image.device)[None, None].expand(image.shape[1], 1, -1, -1)
                edges = torch.from_numpy(sobel()).to(image.device)
                image = F.conv2d(image, kernel, groups=image.shape[1])  # AMP502
                return F.conv2d(image, edges)  # AMP502

        class Safe(nn.Module):
            def __init__(self, taps):
                super().__init__()
                self.taps = taps

            def forward(self, image):
                kernel = torch.tensor(self.taps, device=image.device, dtype=image.dtype)[None, None]
                return F.conv2d(image, kernel) + F.conv2d(image, torch.from_numpy(sobel().astype("float16")))
    """,
    "a window that is no buffer": """
        class Frames(nn.Module):
            def __init__(self, size):
                super().__init__()
                self.proj = nn.Linear(size, size)
                self.window = torch.hann_window(size)

            def forward(self, x):
                y = self.proj(x)
                return torch.einsum("bti,i->bt", y, self.window.to(y.device))  # AMP502
    """,
    "powers of a discount": """
        def returns(rewards, gamma, lam):
            steps = rewards.shape[-1]
            decay = (lam * gamma) ** torch.arange(steps, device=rewards.device)[None, None, :]
            safe = (lam * gamma) ** torch.arange(steps, device=rewards.device, dtype=rewards.dtype)[None, None, :]
            padded = F.pad(rewards, (0, steps - 1)).unsqueeze(1)
            return torch.conv1d(padded, decay).squeeze(1) + torch.conv1d(padded, safe).squeeze(1)  # AMP502
    """,
    "a layer for each kind": """
        class TypedLinear(nn.Module):
            def __init__(self, width, out, kinds):
                super().__init__()
                self.kinds, self.out = kinds, out
                self.weight = nn.Parameter(torch.empty(kinds, width, out))

            def forward(self, x, kind):
                out = x.new_empty(x.size(0), self.out)
                for i in range(self.kinds):
                    rows = kind == i
                    out[rows] = F.linear(x[rows], self.weight[i].T)  # AMP502
                return out
    """,
    "levels that are pooled": """
        class Levels(nn.Module):
            def __init__(self, width, levels):
                super().__init__()
                self.heads = nn.ModuleList([nn.Linear(width, width) for _ in range(levels)])

            def forward(self, rois, level):
                pooled = rois.new_zeros(rois.size(0), rois.size(1))
                safe = rois.new_zeros(rois.size(0), rois.size(1))
                for number, head in enumerate(self.heads):
                    rows = (level == number).nonzero(as_tuple=True)[0]
                    pooled[rows] = head(rois[rows])  # AMP502
                    safe[rows] = head(rois[rows]).to(safe.dtype)
                return pooled + safe
    """,
    "a tensor like what a layer has computed": """
        class Sorted(nn.Module):
            def __init__(self, width):
                super().__init__()
                self.proj = nn.Linear(width, width)

            def forward(self, x, indices):
                out = self.proj(x)
                unsorted = torch.empty_like(out)
                unsorted[indices] = out
                mixed = out.new_zeros(out.shape)
                mixed[indices] = self.proj(out[indices])
                return unsorted + mixed
    """,
    "ranks among scores": """
        def prizes(query, nodes, topk):
            score = F.cosine_similarity(query, nodes, dim=-1)
            _, top_indices = torch.topk(score, topk)
            score = torch.zeros_like(score)
            score[top_indices] = torch.arange(topk, 0, -1).float()  # AMP502
            return score
    """,
    "a helper that chooses": """
        def default(value, other):
            if value is not None:
                return value
            return other() if callable(other) else other

        class Memory(nn.Module):
            def __init__(self, width):
                super().__init__()
                self.qk = nn.Linear(width, width)

            def forward(self, x, keys=None):
                b, t, e = x.shape
                keys = default(keys, torch.empty(b, 0, e, device=x.device))  # AMP504
                safe = default(keys, torch.empty(b, 0, e, device=x.device, dtype=x.dtype))
                return self.qk(torch.cat((x, keys), dim=1)) + self.qk(torch.cat((x, safe), dim=1))
    """,
    "a gate of truth values": """
        class Gated(nn.Module):
            def __init__(self, width, hidden):
                super().__init__()
                self.W_in = nn.Parameter(torch.empty(width, hidden))
                self.W_out = nn.Parameter(torch.empty(hidden, width))

            def forward(self, x):
                hidden = x @ self.W_in
                gate = (hidden > 0).float()  # AMP502
                safe = (hidden > 0).to(hidden.dtype)
                return (gate * F.relu(hidden)) @ self.W_out + (safe * F.relu(hidden)) @ self.W_out
    """,
    "lengths that divide": """
        class Pool(nn.Module):
            def __init__(self, width):
                super().__init__()
                self.proj = nn.Linear(width, width)

            def forward(self, x, lengths):
                return self.proj(x.sum(dim=1) / lengths.float().unsqueeze(1))  # AMP502

        class Back(nn.Module):
            def __init__(self, width):
                super().__init__()
                self.proj = nn.Linear(width, width)

            def forward(self, x, lengths):
                mean = (x.sum(dim=1) / lengths.float().unsqueeze(1)).to(x.dtype)
                all_wide = x.float().sum(dim=1) / lengths.float().unsqueeze(1)
                return self.proj(mean), all_wide

        class Follows(nn.Module):
            def __init__(self, width):
                super().__init__()
                self.proj = nn.Linear(width, width)

            def forward(self, x, lengths):
                return self.proj(x.sum(dim=1) / lengths.to(x.dtype).unsqueeze(1))
    """,
    "elements chosen by what is a list on one path": """
        class Windows(nn.Module):
            def forward(self, x, both):
                kept = torch.zeros_like(x)
                for window in windows(len(x)):
                    if both:
                        window = window + [one + 1 for one in window]
                    kept[window] = self.inner(x[window])  # AMP502
                return kept

            def by_number(self, x, both):
                kept = torch.zeros_like(x)
                for index in range(len(x)):
                    if both:
                        index = index + 1
                    kept[index] = self.inner(x[index])
                return kept

            def converted(self, x, both):
                kept = torch.zeros_like(x)
                for window in windows(len(x)):
                    if both:
                        window = window + [one + 1 for one in window]
                    kept[window] = self.inner(x[window]).to(kept.dtype)
                return kept
    """,
    "a method that is defined outside of its class": """
        def attend(self, x):
            bias = torch.zeros(x.shape[1], x.shape[1], device=x.device)
            return torch.bmm(bias.expand(len(x), -1, -1), self.to_v(x))  # AMP502

        def converted(self, x):
            bias = torch.zeros(x.shape[1], x.shape[1], device=x.device, dtype=x.dtype)
            return torch.bmm(bias.expand(len(x), -1, -1), self.to_v(x))
    """,
    "places to sample, computed from whole numbers that are converted to float32": """
        class Warped:
            def __init__(self, xs, ys, width):
                self.xs, self.ys, self.width = torch.tensor(xs), torch.tensor(ys), width

            def sample(self, picture, motion):
                across = self.xs.expand_as(motion[:, 0]).float() + motion[:, 0]
                down = self.ys.expand_as(motion[:, 1]).float() + motion[:, 1]  # AMP502
                grid = torch.stack((2 * (across / self.width - 0.5), 2 * (down / self.width - 0.5)), dim=3)
                return F.grid_sample(picture, grid)

            def alike(self, picture, motion):
                across = self.xs.expand_as(motion[:, 0]).to(motion.dtype) + motion[:, 0]
                down = self.ys.expand_as(motion[:, 1]).to(motion.dtype) + motion[:, 1]
                grid = torch.stack((2 * (across / self.width - 0.5), 2 * (down / self.width - 0.5)), dim=3)
                return F.grid_sample(picture, grid)

            def converted(self, picture, motion):
                across = self.xs.expand_as(motion[:, 0]).float() + motion[:, 0]
                grid = torch.stack((across, across), dim=3)
                return F.grid_sample(picture, grid.to(picture.dtype))
    """,
    "a factor that is a power of a cast on every path, before own weights": """
        class Neighbours(nn.Module):
            def __init__(self, width):
                super().__init__()
                self.weight = nn.Parameter(torch.ones(width, width))

            def forward(self, counts, nodes, both):
                counts = counts.float().clamp(min=1)  # AMP502
                if both:
                    share = torch.pow(counts, -0.5)
                else:
                    share = 1.0 / counts
                nodes = nodes * share.reshape(-1, 1)
                return torch.matmul(nodes, self.weight)

            def alike(self, counts, nodes, both):
                counts = counts.to(nodes.dtype).clamp(min=1)
                if both:
                    share = torch.pow(counts, -0.5)
                else:
                    share = 1.0 / counts
                nodes = nodes * share.reshape(-1, 1)
                return torch.matmul(nodes, self.weight)
    """,
    "features of a part of a model among the embeddings of its tokens": """
        def placed(model, batch, token):
            embedding = model.get_input_embeddings()
            tokens = embedding(batch["ids"]).to(device=embedding.weight.device)
            features = model.see(batch["pictures"]).to(tokens.device)
            tokens[batch["ids"] == token] = features.reshape(-1, features.shape[-1])  # AMP502
            return tokens

        def alike(model, batch, token):
            tokens = model.get_input_embeddings()(batch["ids"])
            features = model.see(batch["pictures"]).to(tokens.device, tokens.dtype)
            tokens[batch["ids"] == token] = features.reshape(-1, features.shape[-1])
            return tokens

        class Reader(nn.Module):
            def forward(self, ids, pictures):
                tokens = self.language.get_input_embeddings()(ids)
                return tokens.masked_scatter((ids == self.token).unsqueeze(-1), self.eyes(pictures))  # AMP502

            def alike(self, ids, pictures):
                tokens = self.language.get_input_embeddings()(ids)
                features = self.eyes(pictures)
                features = features.to(tokens.device, tokens.dtype)
                return tokens.masked_scatter((ids == self.token).unsqueeze(-1), features)

            def made(self, ids, pictures):
                tokens = nn.Embedding(8, 8)(ids)
                features = self.eyes(pictures)
                features = features.to(tokens)
                return tokens.masked_scatter((ids == self.token).unsqueeze(-1), features)
    """,
    "what was computed in float32 is written into a tensor like its source": """
        def routed(scores: torch.Tensor, chosen: torch.Tensor):
            weights = F.softmax(scores, dim=-1, dtype=torch.float32)
            return torch.zeros_like(scores).scatter(1, chosen, weights)  # AMP502

        def narrowed(scores: torch.Tensor, chosen: torch.Tensor):
            weights = F.softmax(scores, dim=-1, dtype=torch.float32).to(scores.dtype)
            return torch.zeros_like(scores).scatter(1, chosen, weights)

        def in_float32(scores: torch.Tensor, chosen: torch.Tensor):
            scores = scores.float()
            return torch.zeros_like(scores).scatter(1, chosen, scores.softmax(-1))

        def of_float32(scores: torch.Tensor, chosen: torch.Tensor):
            weights = scores.float().softmax(-1)
            return torch.zeros_like(weights).scatter(1, chosen, weights)

        def summed(x: torch.Tensor, rows: torch.Tensor):
            squares = x.float().square()
            out = torch.empty(x.shape, dtype=x.dtype, device=x.device)
            out.index_add_(0, rows, squares)  # AMP502
            return out

        def replaced(x: torch.Tensor, mask: torch.Tensor):
            roots = x.float().sqrt()
            x = x.clone()
            x[mask] = roots[mask]  # AMP502
            x[0] = roots[0]
            return x

        def of_another(x: torch.Tensor, other, mask: torch.Tensor):
            x[mask] = other.float().sqrt()
            return x
    """,
    "a mask that widens what a layer gets on one path": """
        class Masked(nn.Module):
            def __init__(self, width, kind):
                super().__init__()
                self.kind, self.head = kind, nn.Linear(width, width)

            def averaged(self, layers: torch.Tensor, kept: torch.Tensor):
                found = layers[-1] * kept.float()  # AMP502
                return torch.sum(found, 1) / torch.sum(kept, 1)

            def forward(self, words):
                layers, pooled = self.encode(words)
                if self.kind != "first":
                    pooled = self.averaged(layers, words[1])
                return self.head(pooled)

            def optional(self, x: torch.Tensor, kept: torch.Tensor = None):
                if kept is not None:
                    x = x * kept.unsqueeze(-1).float()  # AMP502
                return self.head(x)

            def converted(self, x: torch.Tensor, kept: torch.Tensor = None):
                if kept is not None:
                    x = x * kept.unsqueeze(-1).to(x.dtype)
                return self.head(x)

            def narrowed(self, x: torch.Tensor, kept: torch.Tensor = None):
                dtype = x.dtype
                if kept is not None:
                    x = x * kept.float()
                return self.head(x.to(dtype))

            def on_purpose(self, x: torch.Tensor, wide):
                if wide:
                    x = x.float() * 2
                return self.head(x)
    """,
    "means and deviations of unknown type, made for pictures": """
        class Normalised(nn.Module):
            def __init__(self, mean, std, sizes):
                super().__init__()
                self.mean, self.std, self.sizes = mean, std, sizes
                self.conv = nn.Conv2d(3, 3, 1)

            def forward(self, pictures):
                mean = torch.tensor(self.mean, device=pictures.device).view(1, 3, 1, 1)  # AMP504
                std = torch.tensor(self.std, dtype=pictures.dtype, device=pictures.device).view(1, 3, 1, 1)
                return self.conv((pictures - mean) / std)  # AMP502

            def converted(self, pictures):
                mean = torch.tensor(self.mean).to(pictures).view(1, 3, 1, 1)
                return self.conv(pictures - mean)

            def scaled(self, pictures):
                sizes = torch.tensor(self.sizes, device=pictures.device).view(1, 3, 1, 1)
                return self.conv(pictures * sizes)
    """,
    "what a model returned is gathered in a list": """
        class Ranked(nn.Module):
            def __init__(self, model):
                super().__init__()
                self.model = model

            def forward(self, pairs, n, m, rows: torch.Tensor):
                parts = []
                for pair in pairs:
                    parts.append(self.model(pair)["scores"].view(-1))
                scores = torch.cat(parts)
                ranked = torch.full((n, m), -1e4, device=self.model.device)
                ranked[rows] = scores  # AMP502
                return ranked

            def converted(self, pairs, n, m, rows: torch.Tensor):
                parts = []
                for pair in pairs:
                    parts.append(self.model(pair)["scores"].view(-1))
                ranked = torch.full((n, m), -1e4, device=self.model.device)
                ranked[rows] = torch.cat(parts).float()
                return ranked

            def mixed(self, pairs, more, n, m, rows: torch.Tensor):
                parts, rest, last = [], [], []
                for pair in pairs:
                    parts.append(self.model(pair))
                    parts.append(more.pop())
                    rest.append(self.model(pair))
                    last.append(self.model(pair))
                rest.extend(more)
                last.append(torch.zeros(3))
                ranked = torch.full((n, m), -1e4, device=self.model.device)
                ranked[rows] = torch.cat(parts)
                ranked[rows] = torch.cat(rest)
                ranked[rows] = torch.cat(last)
                return ranked
    """,
}


@pytest.mark.parametrize("name", PROGRAMS)
def test_clash_in_library(name: str) -> None:
    lines = textwrap.dedent(PROGRAMS[name]).lstrip("\n").splitlines()
    expected = {(row, line.partition("# ")[2]) for row, line in enumerate(lines, 1) if "# AMP" in line}
    assert found(PROGRAMS[name]) == expected


def test_writes_refuse_float32_for_half() -> None:
    scores, rows = torch.rand(2, 4, dtype=torch.float16), torch.tensor([0, 1])
    weights = torch.softmax(scores, -1, dtype=torch.float32)
    with pytest.raises(RuntimeError, match="dtype"):
        torch.zeros_like(scores).scatter(0, rows[None], weights)
    with pytest.raises(RuntimeError, match="same scalar type"):
        torch.zeros_like(scores).index_add_(0, rows, weights)
    with pytest.raises(RuntimeError, match="dtypes match"):
        scores[scores > 0] = weights[scores > 0]
