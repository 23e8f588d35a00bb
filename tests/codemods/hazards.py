"""What goes wrong in half, one small training program for each thing and each place that it can stand in.

Every program is right in float32. A conversion of it has to refuse, to repair what would go wrong, or to name one of the
rows that are marked with `# here`.
"""

from __future__ import annotations

import textwrap

from amplint.records import dataclass

PLACES = ("loop", "function", "module", "forward", "evaluation", "after")
"""Where the code stands: between forward and backward pass, in a function, in a module of another file, in the forward
pass of a model of another file, in evaluation, and behind the step.
"""


@dataclass
class Hazard:
    """`body` makes a number `value` from `out`, `y` (zeros and ones) and `k` (classes); `helpers` stand above it.

    The model's last layer gives values of about `gain`. Only what `trains` can be differentiated.
    """

    body: str
    helpers: str = ""
    gain: float = 1.0
    trains: bool = True
    safe: bool = False


HAZARDS = {
    # epsilons that vanish, and numbers that round to 1
    "log of sigmoid": Hazard(
        "p = torch.sigmoid(out)  # here\n"
        "value = -(y * torch.log(p + 1e-8) + (1 - y) * torch.log(1 - p + 1e-8)).mean()  # here\n",
        gain=12,
    ),
    "epsilon of a parameter": Hazard(
        "value = (logit(torch.sigmoid(out)) * (0.5 - y)).mean()  # here\n",
        helpers="def logit(x, eps=1e-8):\n    return torch.log(x + eps) - torch.log(1 - x + eps)  # here\n",
        gain=10,
    ),
    "epsilon of the file": Hazard(
        "p = torch.sigmoid(out)  # here\nvalue = -torch.log(1 - p + EPS).mean()  # here\n",
        helpers="EPS = 1e-10\n",
        gain=10,
    ),
    "division by a largest value": Hazard(
        "f = torch.relu(out - 40)\nvalue = (f / (f.max() + 1e-8)).mean() + (out - y).abs().mean()  # here\n"
    ),
    "square root near zero": Hazard(
        "f = torch.relu(out)\nvalue = torch.sqrt(f * f + 1e-12).mean()  # here\n", gain=1
    ),
    "clamp above zero": Hazard(
        "p = torch.sigmoid(out).clamp(min=1e-8)\nvalue = -torch.log(p).mean()  # here\n".replace(
            "1e-8)\n", "1e-8)  # here\n"
        ),
        gain=12,
    ),
    "clamp below one": Hazard(
        "p = torch.clamp(torch.sigmoid(out), 1e-4, 1 - 1e-4)  # here\n"
        "value = -(y * p.log() + (1 - y) * (1 - p).log()).mean()  # here\n",
        gain=9,
    ),
    "log1p of a probability": Hazard(
        "p = torch.sigmoid(out)  # here\nvalue = -torch.log1p(-p).mean()  # here\n", gain=6
    ),
    "logit of a probability": Hazard(
        "value = torch.logit(torch.sigmoid(out)).abs().mean()  # here\n", gain=6
    ),
    "squashed gaussian": Hazard(
        "action = torch.tanh(out)  # here\nvalue = torch.log(1 - action.pow(2) + 1e-6).mean()  # here\n", gain=5
    ),
    "inverse of a squashed action": Hazard(
        "action = torch.tanh(out)  # here\nvalue = torch.atanh(action * 0.99999).abs().mean()  # here\n", gain=5
    ),
    "odds": Hazard("p = torch.sigmoid(out)  # here\nvalue = (p / (1 - p + 1e-6)).log().abs().mean()  # here\n", gain=6),
    "power below one": Hazard(
        "p = torch.sigmoid(out)  # here\nvalue = (torch.log(1 - p + 1e-6) * p ** 2).mean()  # here\n", gain=6
    ),
    "sine from cosine": Hazard(
        "unit = F.normalize(out)\ncosine = F.linear(unit, unit.detach())\n"
        "value = torch.sqrt(1.0 + 1e-6 - cosine.pow(2)).mean()  # here\n"
    ),
    # masks
    "masked_fill": Hazard(
        "scores = out.masked_fill(y == 0, -1e9)  # here\nvalue = torch.softmax(scores, 1).pow(2).mean()\n"
    ),
    "mask by assignment": Hazard(
        "scores = out * 1.0\nscores[y == 0] = -1e9  # here\nvalue = torch.softmax(scores, 1).pow(2).mean()\n"
    ),
    "mask by arithmetic": Hazard(
        "keep = (y > 0).to(out.dtype)\nscores = out - 1e9 * (1 - keep)  # here\n"
        "value = torch.softmax(scores, 1).pow(2).mean()\n"
    ),
    "full_like": Hazard(
        "low = torch.full_like(out, -1e9)  # here\n"
        "value = torch.softmax(torch.where(y > 0, out, low), 1).pow(2).mean()\n"
    ),
    "padding": Hazard(
        "scores = F.pad(out, (0, 2), value=-1e9)  # here\nvalue = torch.softmax(scores, 1).pow(2).mean()\n"
    ),
    # overflow and coarse numbers
    "own square": Hazard("value = (out * out).mean() / 1e5  # here\n", gain=500),
    "area of boxes": Hazard(
        "w, h = out[:, 0].abs(), out[:, 1].abs()\narea = w * h  # here\nvalue = torch.log(area + 1).mean()\n", gain=900
    ),
    "Gram matrix": Hazard("gram = out @ out.t()  # here\nvalue = (gram / 1e6).abs().mean()\n", gain=500),
    "large variance": Hazard("value = out.var(0).mean() / 1e5  # here\n", gain=900),
    "mean times number": Hazard("value = (out.mean() * out.numel() * 50).abs() / 1e4  # here\n", gain=60),
    "exponential kept": Hazard(
        "box = out * 1.0\nbox[:, 2:] = torch.exp(box[:, 2:])  # here\nvalue = torch.log(box[:, 2:] + 1).mean()\n",
        gain=9,
    ),
    "running sum": Hazard(
        "total = 0\nfor _ in range(400):\n    total = total + torch.sigmoid(out)  # here\nvalue = (total / 400).mean()\n"
    ),
    "sum of scalars": Hazard(
        "parts = [torch.sigmoid(out).mean() for _ in range(900)]\nvalue = sum(parts) / 900  # here\n"
    ),
    "units of the data": Hazard(
        "value = ((out * 0.05 + 900.0) - (y * 0.05 + 900.0)).abs().mean() * 20  # here\n"
    ),
    "units by a class": Hazard(
        "value = (scaler.restore(out) - scaler.restore(y)).abs().mean() * 20  # here\n",
        helpers="class Units:\n    def __init__(self, mean, std):\n        self.mean, self.std = mean, std\n\n"
        "    def restore(self, data):\n        return data * self.std + self.mean  # here\n\n\n"
        "scaler = Units(900.0, 0.05)\n",
    ),
    "indices": Hazard(
        "place = ((torch.sigmoid(out) * 5000).long() % 7).float()  # here\n"
        "value = place.mean() + (out - y).abs().mean()\n"
    ),
    "positions": Hazard(
        "steps = torch.arange(4001, device=out.device).to(out.dtype)  # here\n"
        "value = torch.cos(steps * 1.1).mean() * 900 + out.abs().mean()  # here\n"
    ),
    "expanded distances": Hazard(
        "a = (out ** 2).sum(1, keepdim=True)\nfar = a + a.t() - 2 * out @ out.t()  # here\n"
        "value = torch.sqrt(far.clamp(min=1e-12)).mean()\n",
        gain=40,
    ),
    "nearest code": Hazard(
        "far = (out ** 2).sum(1, keepdim=True) - 2 * out @ codes.t() + (codes ** 2).sum(1)\n"
        "code = far.argmin(1)  # here\nvalue = (out - codes[code]).pow(2).mean() + (code % 5).float().mean()\n",
        helpers="codes = (torch.rand(64, 6, generator=torch.Generator().manual_seed(1)) * 0.02).cuda()\n",
    ),
    "balanced transport": Hazard(
        "kernel = torch.exp(-torch.cdist(out, out) * 9)\nu = torch.ones(16, 1, device=out.device)\n"
        "for _ in range(5):\n    v = 1 / (kernel.t() @ u)  # here\n    u = 1 / (kernel @ v)  # here\n"
        "value = (u * v).log().abs().mean() + out.abs().mean()\n",
        gain=9,
    ),
    "matrix power": Hazard(
        "step = torch.softmax(out[:6, :6], 1)\nstate = torch.ones(1, 6, device=out.device) / 6\n"
        "value = (torch.linalg.matrix_power(step, 3)[0] * 1e-9).sum() * 1e9 + out.abs().mean()\n",
        safe=True,
    ),
    "small factors": Hazard(
        "small = torch.sigmoid(out) * 1e-5\nvalue = ((small * small.flip(0)) * 1e10).mean()  # here\n"
    ),
    # operands of two dtypes
    "indexed assignment": Hazard(
        "kept = torch.zeros(16, 6, device=out.device)\nrows = torch.arange(16, device=out.device)\n"
        "kept[rows] = out  # here\nvalue = (kept - y).abs().mean()\n"
    ),
    "masked assignment": Hazard(
        "kept = torch.zeros(16, 6, device=out.device)\nkept[y > 0] = out[y > 0]  # here\nvalue = (kept - y).pow(2).mean()\n"
    ),
    "scatter_": Hazard(
        "kept = torch.zeros(16, 9, device=out.device)\nplace = torch.arange(6, device=out.device).expand(16, 6)\n"
        "kept = kept.scatter_(1, place, out)  # here\nvalue = kept.abs().mean()\n"
    ),
    "scatter": Hazard(
        "kept = torch.zeros(16, 9, device=out.device)\nplace = torch.arange(6, device=out.device).expand(16, 6)\n"
        "value = torch.scatter(kept, 1, place, out).abs().mean()  # here\n"
    ),
    "scatter_add_": Hazard(
        "sums = torch.zeros(3, 6, device=out.device)\n"
        "sums = sums.scatter_add_(0, (k % 3).unsqueeze(1).expand(16, 6), out)  # here\nvalue = sums.abs().mean()\n"
    ),
    "index_add_": Hazard(
        "sums = torch.zeros(6, 6, device=out.device)\nsums = sums.index_add_(0, k, out)  # here\nvalue = sums.abs().mean()\n"
    ),
    "index_add": Hazard(
        "sums = torch.zeros(6, 6, device=out.device)\nvalue = sums.index_add(0, k, out).abs().mean()  # here\n"
    ),
    "index_copy_": Hazard(
        "bank = torch.zeros(16, 6, device=out.device)\nrows = torch.arange(16, device=out.device)\n"
        "bank = bank.index_copy_(0, rows, out)  # here\nvalue = bank.abs().mean()\n"
    ),
    "masked_scatter": Hazard(
        "kept = torch.zeros(16, 6, device=out.device)\nvalue = kept.masked_scatter(y > 0, out).abs().mean()  # here\n"
    ),
    "lerp": Hazard(
        "mean = torch.zeros(6, device=out.device)\nvalue = torch.lerp(mean, out.mean(0), 0.5).abs().mean()  # here\n"
    ),
    "addmm_": Hazard(
        "far = out.pow(2).sum(1, keepdim=True).expand(16, 16).clone()\n"
        "far = far.addmm_(out, out.t(), beta=1, alpha=-2)  # here\nvalue = far.abs().mean()\n"
    ),
    "searchsorted": Hazard(
        "edges = torch.linspace(-3, 3, 9, device=out.device)\n"
        "bins = torch.bucketize(out.detach().contiguous(), edges)  # here\n"
        "value = bins.float().mean() + (out - y).abs().mean()\n"
    ),
    "product with float32": Hazard(
        "bank = torch.eye(6, device=out.device)\nvalue = (out @ bank).abs().mean()  # here\n"
    ),
    "convolution": Hazard(
        "window = torch.ones(1, 1, 3, device=out.device) / 3\n"
        "value = F.conv1d(out.unsqueeze(1), window).abs().mean()  # here\n"
    ),
    "allclose": Hazard("value = out.abs().mean() + torch.isclose(out, y).float().sum()  # here\n"),
    "new parameter": Hazard(
        "value = (out - anchor.at(out)).abs().mean()  # here\n",
        helpers="class Anchor(nn.Module):\n    def __init__(self):\n        super().__init__()\n"
        "        self.place = nn.Parameter(torch.zeros(6))\n        self.ready = False\n\n"
        "    def at(self, out):\n        if not self.ready:\n"
        "            self.place.data = out.detach().mean(0)  # here\n            self.ready = True\n"
        "            self.weight = torch.ones(6, device=out.device)\n"
        "        return torch.lerp(self.place, self.weight, 0.5)  # here\n\n\nanchor = Anchor().cuda()\n",
    ),
    # no kernel
    "inverse": Hazard(
        "gram = out.t() @ out\nvalue = torch.linalg.inv(gram).abs().mean()  # here\n"
    ),
    "cholesky": Hazard(
        "gram = out.t() @ out\n"
        "value = torch.linalg.cholesky(gram).abs().mean()  # here\n"
    ),
    "solve": Hazard(
        "gram = out.t() @ out\n"
        "value = torch.linalg.solve(gram, out.t() @ y).abs().mean()  # here\n"
    ),
    "logdet": Hazard(
        "gram = out.t() @ out\nvalue = torch.logdet(gram) / 9  # here\n"
    ),
    "eigenvalues": Hazard(
        "gram = out.t() @ out\nvalue = torch.linalg.eigvalsh(gram).mean()  # here\n"
    ),
    "singular values": Hazard("value = torch.linalg.svdvals(out.t() @ y).mean()  # here\n"),
    "Fourier transform": Hazard("value = torch.fft.rfft(out).abs().mean()  # here\n"),
    "quantile": Hazard("value = torch.quantile(out, 0.9) + out.abs().mean()  # here\n"),
    "histogram": Hazard("value = torch.histc(out.detach(), 5, -2, 2).mean() + out.abs().mean()  # here\n"),
    "complex numbers": Hazard("value = torch.complex(out, out).abs().mean()  # here\n"),
    "view as complex": Hazard(
        "value = torch.view_as_complex(out.reshape(16, 3, 2)).abs().mean()  # here\n"
    ),
    "multivariate normal": Hazard(
        "spread = torch.distributions.MultivariateNormal(out, torch.eye(6, device=out.device))  # here\n"
        "value = -spread.log_prob(y).mean() / 9  # here\n"
    ),
    "probabilities of a choice": Hazard(
        "p = torch.sigmoid(out)  # here\nchoice = torch.distributions.Categorical(probs=p / p.sum(1, keepdim=True))\n"
        "value = -choice.log_prob(k).mean()\n",
        safe=True,
    ),
    "beta distribution": Hazard(
        "spread = torch.distributions.Beta(F.softplus(out) + 1, F.softplus(out) + 2)\n"
        "value = -spread.log_prob(y * 0.5 + 0.2).mean()\n",
        safe=True,
    ),
    "own function": Hazard(
        "value = Own.apply(out, weight).abs().mean()  # here\n",
        helpers="class Own(torch.autograd.Function):\n    @staticmethod\n    def forward(ctx, x, weight):\n"
        "        ctx.save_for_backward(x, weight)\n        return x.mm(weight)\n\n"
        "    @staticmethod\n    def backward(ctx, grad):  # here\n        x, weight = ctx.saved_tensors\n"
        "        return grad.mm(weight.t()), None  # here\n\n\n"
        "weight = torch.eye(6).cuda()\n",
    ),
    "sparse product": Hazard(
        "graph = torch.eye(16, device=out.device).to_sparse()  # here\nvalue = torch.sparse.mm(graph, out).abs().mean()  # here\n"
    ),
    # what leaves PyTorch
    "numpy": Hazard("value = float(np.abs(out.detach().cpu().numpy()).mean())  # here\n", trains=False),
    "numpy of a result": Hazard(
        "p = torch.tanh(out.detach()) * 3\nvalue = float(np.abs(p.cpu().numpy()).mean())  # here\n", trains=False
    ),
    "asarray": Hazard("value = float(np.abs(np.asarray(out.detach().cpu())).mean())  # here\n", trains=False),
    "numpy of a list": Hazard(
        "rows = [row.cpu().numpy() for row in out.detach()]  # here\nvalue = float(np.abs(np.stack(rows)).mean())\n",
        trains=False,
    ),
    "linear algebra of numpy": Hazard(
        "value = float(np.linalg.norm(out.detach().cpu().numpy()))  # here\n", trains=False
    ),
    "sum of numpy": Hazard("value = float((out.detach().cpu().numpy() ** 2).sum()) / 1e5  # here\n", trains=False, gain=300),
    "tensor of numpy": Hazard(
        "again = torch.from_numpy(out.detach().cpu().numpy()).cuda()  # here\n"
        "value = (again @ torch.eye(6, device=again.device)).abs().mean()  # here\n",
        trains=False,
    ),
    "list": Hazard("value = sum(map(sum, out.detach().tolist())) / 96\n", trains=False, safe=True),
    "accuracy": Hazard("value = (out.argmax(1) == k).float().mean()\n", trains=False, safe=True),
    # right in half, too
    "cross entropy": Hazard("value = F.cross_entropy(out, k)\n", safe=True),
    "mean of squares": Hazard("value = ((out - y) ** 2).mean()\n", safe=True),
    "logarithm of softmax": Hazard("p = torch.softmax(out, 1)\nvalue = -(p * torch.log(p + 1e-8)).sum(1).mean()\n", safe=True),
    "island": Hazard(
        "p = torch.sigmoid(out.float())  # here\nvalue = -(y * torch.log(p + 1e-8) + (1 - y) * torch.log(1 - p + 1e-8)).mean()\n",
        gain=12,
        safe=True,
    ),
    "scatter of float32": Hazard(
        "kept = torch.zeros(16, 9, device=out.device)\nplace = torch.arange(6, device=out.device).expand(16, 6)\n"
        "value = kept.scatter_(1, place, out.float()).abs().mean()\n",
        safe=True,
    ),
    "dice": Hazard(
        "p = torch.sigmoid(out)  # here\nvalue = 1 - (2 * (p * y).sum() + 1) / (p.sum() + y.sum() + 1)\n", safe=True
    ),
    "gaussian": Hazard(
        "mean, log = out[:, :3], out[:, 3:]\nvalue = -0.5 * (1 + log - mean.pow(2) - log.exp()).sum(1).mean()\n", safe=True
    ),
    "normalized": Hazard("unit = F.normalize(out, dim=1)\nvalue = F.cross_entropy(unit @ unit.t() / 0.1, k)\n", safe=True),
}

_HEAD = """import numpy as np
import torch
from torch import nn
from torch.nn import functional as F
"""
_NET = """class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.hidden = nn.Linear(8, 16)
        self.head = nn.Linear(16, 6)

    def forward(self, x{more}):
        out = self.head(torch.tanh(self.hidden(x)))
{rest}
"""
_MAIN = """
torch.manual_seed(0)
net = Net().cuda()
nn.init.normal_(net.head.weight, std={gain} / 3)
optimizer = torch.optim.SGD(net.parameters(), lr=1e-6)
losses = []
batches = [(torch.randn(16, 8), torch.randint(0, 2, (16, 6)).float(), torch.randint(0, 6, (16,))) for _ in range(3)]


{between}for x, y, k in batches:
    x, y, k = x.cuda(), y.cuda(), k.cuda()
    optimizer.zero_grad()
{forward}    loss.backward()
    optimizer.step()
{after}"""


def program(hazard: Hazard, place: str, *, hidden: bool = False) -> dict[str, str] | None:
    """The files of the program of `hazard` in `place`, `train` the script; None where it cannot stand there.

    A `hidden` model comes from `zoo`, a library that no conversion sees.
    """
    files = _files(hazard, place)
    if files is None or not hidden:
        return files
    net = _NET.format(more="", rest="        return out")
    if net not in files["train"]:
        return None
    train = files["train"].replace(net, "").replace("net = Net()", 'net = zoo.create("net")')
    zoo = f"{_HEAD}\n\n{net}\n\ndef create(name):\n    return Net()\n"
    return {**files, "train": train.replace("import torch\n", "import torch\nimport zoo\n", 1), "zoo": zoo}


def _files(hazard: Hazard, place: str) -> dict[str, str] | None:
    if not hazard.trains and place not in ("evaluation", "after"):
        return None
    function = f"def criterion(out, y, k):\n{_indented(hazard.body)}    return value\n"
    module = f"class Criterion(nn.Module):\n    def forward(self, out, y, k):\n{_indented(hazard.body, 8)}        return value\n"
    net = _NET.format(more="", rest="        return out")
    helpers = f"\n{hazard.helpers}\n\n" if hazard.helpers else "\n\n"
    plain = "    out = net(x)\n    loss = F.mse_loss(out, y)\n"
    keep = "    losses.append(loss.item())\n"
    if place == "loop":
        body = f"    out = net(x)\n{_indented(hazard.body, 4)}    loss = value\n"
        return {"train": f"{_HEAD}{helpers}{net}\n{_main(hazard, body, keep)}"}
    if place == "function":
        body = "    out = net(x)\n    loss = criterion(out, y, k)\n"
        return {"train": f"{_HEAD}{helpers}{function}\n\n{net}\n{_main(hazard, body, keep)}"}
    if place == "module":
        body = "    out = net(x)\n    loss = criterion(out, y, k)\n"
        between = "criterion = Criterion()\n"
        return {
            "train": f"{_HEAD}from losses import Criterion\n\n\n{net}\n{_main(hazard, body, keep, between)}",
            "losses": f"{_HEAD}{helpers}{module}",
        }
    if place == "forward":
        inner = _NET.format(more=", y, k", rest=_indented(hazard.body, 8) + "        return value")
        return {
            "train": f"import torch\nfrom torch import nn\nfrom models import Net\n{_main(hazard, '    loss = net(x, y, k)' + chr(10), keep)}",
            "models": f"{_HEAD}{helpers}{inner}",
        }
    if place == "evaluation":
        between = (
            f"def evaluate(x, y, k):\n    net.eval()\n    with torch.no_grad():\n        out = net(x)\n"
            f"{_indented(hazard.body, 8)}    net.train()\n    return float(value)\n\n\n"
        )
        after = "    losses.append(evaluate(x, y, k))\n"
        return {"train": f"{_HEAD}{helpers}{net}\n{_main(hazard, plain, after, between)}"}
    after = "    losses.append(float(criterion(out.detach(), y, k)))\n"
    return {"train": f"{_HEAD}{helpers}{function}\n\n{net}\n{_main(hazard, plain, after)}"}


def _main(hazard: Hazard, forward: str, after: str, between: str = "") -> str:
    return _MAIN.format(gain=hazard.gain, forward=forward, after=after, between=between)


def _indented(text: str, by: int = 4) -> str:
    return textwrap.indent(text, " " * by)
