"""Code that says little about its dtypes and its callers: one program for each shape, wrong and right.

`# expect: CODE` ends a line where a finding of the rule must start; nothing else of the rule may be found.
"""

from __future__ import annotations

import re

import pytest

from amplint.engine.registry import load_registry
from amplint.engine.screen import screen
from tests.linting import findings_of

RULES = load_registry().rules
HEAD = "import torch\nfrom torch import nn\nimport torch.nn.functional as F\n"
PROGRAMS = {
    "AMP106 a device of CUDA that settings keep, too": """
def evaluate(net, loader):
    for batch in loader:
        with torch.autocast("cuda"):
            yield net(batch.to(device))

device = "cuda:%d" % settings.gpu
settings.device = device
""",
    "AMP106 a device type by what is available": """
class Runner:
    def __init__(self, net, device):
        self.device = device
        self.net = net.to(device)

    def step(self, batch):
        kind = "cuda" if torch.cuda.is_available() else "cpu"
        with torch.autocast(kind, dtype=torch.bfloat16):  # expect: AMP106
            return self.net(batch.to(self.device))

    def evaluate(self, batch):
        with torch.autocast(self.device.type, dtype=torch.bfloat16):
            return self.net(batch.to(self.device))
""",
    "AMP106 a device and its type by what is available": """
kind = "cuda" if torch.cuda.is_available() else "cpu"
device = torch.device("cuda" if torch.cuda.is_available() else "cpu")

def evaluate(net, loader):
    for batch in loader:
        with torch.autocast(kind):
            yield net(batch.to(device))
""",
    "AMP106 a region called on one device only": """
import contextlib

device = "cuda" if torch.cuda.is_available() else "cpu"
region = torch.cuda.amp.autocast if device == "cuda" else contextlib.nullcontext
always = torch.cuda.amp.autocast

def evaluate(net, batch):
    with region():
        yield net(batch.to(device))
    with always():  # expect: AMP106
        yield net(batch.to(device))
""",
    "AMP106 a device that a region alone gets": """
if NEW:
    from torch import autocast
else:
    from torch.cuda.amp import autocast

class Plugin:
    def __init__(self, device):
        self.device = device

    def context(self):
        if NEW:
            return autocast(self.device, dtype=torch.bfloat16)
        return autocast()
""",
    "AMP402 a file of bfloat16 alone": """
def scaled(update, moments):
    update = update.bfloat16() if FAST else update  # half the memory traffic
    step = moments.clamp_min(1e-10).rsqrt()
    return update * step.to(moments.dtype)
""",
    "AMP402 a file of either half": """
def scaled(update, moments):
    update = update.to(torch.bfloat16 if FAST else torch.float16)
    step = moments.clamp_min(1e-10).rsqrt()  # expect: AMP402
    return update * step.to(moments.dtype)
""",
    "AMP406 a table that its constructor fills": """
class Table(nn.Module):
    def __init__(self, length, size):
        super().__init__()
        self.register_buffer("angles", torch.empty(length, size, dtype=torch.float32))
        self.reset()

    def reset(self):
        steps = torch.arange(len(self.angles), dtype=self.angles.dtype)
        frequencies = torch.exp(-torch.arange(self.angles.shape[1], dtype=self.angles.dtype))
        torch.matmul(steps[:, None], frequencies[None], out=self.angles)
""",
    "AMP406 a table that is filled later": """
class Table(nn.Module):
    def __init__(self, length, size):
        super().__init__()
        self.register_buffer("angles", torch.empty(length, size, dtype=torch.float32))

    def fill(self):
        steps = torch.arange(len(self.angles), dtype=self.angles.dtype)  # expect: AMP406
        frequencies = torch.exp(-torch.arange(self.angles.shape[1], dtype=self.angles.dtype))  # expect: AMP406
        torch.matmul(steps[:, None], frequencies[None], out=self.angles)
""",
    "AMP405 squares that autocast computes in float32, and those of a layer": """
def error(x, target):
    return ((x.contiguous() - target) ** 2).mean()

class Norm(nn.Module):
    def forward(self, x):
        return x * torch.rsqrt(x.contiguous().pow(2).mean(-1, keepdim=True) + self.eps)  # expect: AMP405
""",
    "AMP405 the area of boxes in an array": """
import numpy as np

def area(boxes, scores):
    boxes = boxes[np.argsort(scores)]
    return (boxes[:, 2] - boxes[:, 0]) * (boxes[:, 3] - boxes[:, 1])

def size(boxes: np.ndarray):
    return (boxes[:, 2] - boxes[:, 0]) * (boxes[:, 3] - boxes[:, 1]), torch.amax(boxes, dim=0)
""",
    "AMP408 log-probabilities that a region computes in float32": """
def evaluate(net, loader):
    for batch, target in loader:
        with torch.autocast("cuda", dtype=torch.float16):
            out = net(batch)
        yield F.nll_loss(out, target), F.mse_loss(out, target)  # expect: AMP408
""",
    "AMP502 what comes out of the model itself": """
def embed(model, image):
    image = image.to(model.device)
    features = model.encoder(image)  # expect: AMP502
    return model.projection(features)
""",
    "AMP504 a tensor beside what autocast computes in float32": """
def soft_labels(logits):
    uniform = torch.ones(logits.shape, device=logits.device)
    return 0.9 * logits.softmax(-1) + 0.1 * uniform
""",
    "AMP504 the samples of a dataset": """
class Spheres(TensorDataset):
    def grow(self, data):
        data = data.contiguous()
        return torch.cat([data, torch.zeros(data.shape[0], 3)], dim=1)

def grow(data):
    data = data.contiguous()
    return torch.cat([data, torch.zeros(data.shape[0], 3)], dim=1)  # expect: AMP504
""",
    "AMP504 a layer in the size that a configuration says": """
class Block(nn.Module):
    def __init__(self, conf):
        super().__init__()
        self.conf = conf
        self.proj = nn.Linear(conf.in_channels, self.conf.embed_channels)
        self.drop = nn.Dropout(self.conf.dropout)

class Adapter(nn.Module):
    def __init__(self, layer):
        super().__init__()
        self.layer = layer
        self.down = nn.Linear(layer.in_features, 4, bias=False)  # expect: AMP504

    def forward(self, x):
        return self.layer(x) + self.down(x)
""",
    "AMP408 a divergence in a file that switches off the regions of its callers": """
class Consistency(nn.Module):
    def warp(self, x):
        with torch.autocast("cuda", enabled=False):
            return self.warped(x.float())

    def forward(self, hidden):
        first = self.head(hidden).log_softmax(dim=-1)
        return F.kl_div(first, first.detach().flip(0), reduction="none", log_target=True)
""",
    "AMP205 what training has left when it is evaluated": """
def run(net, loader, optimizer, scaler, every, training):
    for index, batch in enumerate(loader):
        with torch.autocast("cuda", enabled=scaler is not None):
            loss = net(batch).mean() / every
        if scaler:
            loss = scaler.scale(loss)
        if training:
            loss.backward()
        if index % every == every - 1:
            if scaler:
                scaler.unscale_(optimizer)
            nn.utils.clip_grad_norm_(net.parameters(), 1.0)
            if training:
                if scaler:
                    scaler.step(optimizer)
                    scaler.update()
                else:
                    optimizer.step()
                optimizer.zero_grad()

def fit(net, loaders, optimizer, settings):
    scaler = torch.amp.GradScaler("cuda") if settings.half else None
    for epoch in range(settings.epochs):
        run(net, loaders[0], optimizer, scaler, settings.every, True)
        with torch.no_grad():
            run(net, loaders[1], optimizer, None, settings.every, False)
""",
    "AMP205 a window that another function ends": """
def accumulate(net, batches, scaler):
    for batch in batches:
        with torch.autocast("cuda"):
            loss = net(batch).mean()
        scaler.scale(loss).backward()

def fit(net, loader, optimizer):
    scaler = torch.amp.GradScaler("cuda")
    for batches in loader:
        accumulate(net, batches, scaler)
        nn.utils.clip_grad_norm_(net.parameters(), 1.0)  # expect: AMP205
        scaler.step(optimizer)
        scaler.update()
        optimizer.zero_grad()
""",
    "AMP205 a scaler by annotation": """
from torch.amp import GradScaler

class Updater:
    def step(self, grad_helper: "GradScaler | None" = None):
        nn.utils.clip_grad_norm_(self.model.parameters(), self.limit)  # expect: AMP205
        if grad_helper is not None:
            grad_helper.step(self.optimizer)
            grad_helper.update()
        else:
            self.optimizer.step()
""",
    "AMP205 a scaler that the constructor is given": """
class ScaledOptimizer:
    def __init__(self, optimizer, scaler=None):
        self.optimizer = optimizer
        self.scaler = scaler

    def step(self, parameters, limit):
        nn.utils.clip_grad_norm_(parameters, limit)  # expect: AMP205
        if self.scaler is not None:
            self.scaler.step(self.optimizer)
            self.scaler.update()
        else:
            self.optimizer.step()
""",
    "AMP205 unscaled before": """
class ScaledOptimizer:
    def __init__(self, optimizer, scaler=None):
        self.optimizer = optimizer
        self.scaler = scaler

    def step(self, parameters, limit):
        if self.scaler is not None:
            self.scaler.unscale_(self.optimizer)
        nn.utils.clip_grad_norm_(parameters, limit)
        if self.scaler is not None:
            self.scaler.step(self.optimizer)
            self.scaler.update()
        else:
            self.optimizer.step()
""",
    "AMP205 a scaler of data": """
class Trainer:
    def __init__(self, model, optimizer, scaler):
        self.model, self.optimizer, self.scaler = model, optimizer, scaler

    def step(self, inputs, targets):
        outputs = self.scaler.inverse_transform(self.model(inputs))
        F.mse_loss(outputs, targets).backward()
        nn.utils.clip_grad_norm_(self.model.parameters(), 1.0)
        self.optimizer.step()
""",
    "AMP212 pairs of optimizers and schedulers": """
def fit(model, optimizers, schedulers, loaders, scaler, steps):
    for _ in range(steps):
        for index, (optimizer, scheduler) in enumerate(zip(optimizers, schedulers)):
            with torch.autocast("cuda"):
                loss = model(next(loaders[index]))
            scaler.scale(loss).backward()
            scaler.step(optimizer)
            scaler.update()
            optimizer.zero_grad()
            scheduler.step()  # expect: AMP212
""",
    "AMP212 pairs, and a schedule that waits": """
def fit(model, optimizers, schedulers, loaders, scaler, steps):
    for _ in range(steps):
        for index, (optimizer, scheduler) in enumerate(zip(optimizers, schedulers)):
            with torch.autocast("cuda"):
                loss = model(next(loaders[index]))
            before = scaler.get_scale()
            scaler.scale(loss).backward()
            scaler.step(optimizer)
            scaler.update()
            optimizer.zero_grad()
            if scaler.get_scale() >= before:
                scheduler.step()
""",
    "AMP209 a dtype of which a name is asserted": """
class Precision:
    def __init__(self, dtype="float16"):
        assert dtype in ("float16", "bfloat16"), dtype
        self.dtype = getattr(torch, dtype)
        self.scaler = torch.amp.GradScaler("cuda")  # expect: AMP209

    def train(self, net, batch, opt):
        with torch.autocast("cuda", dtype=self.dtype):
            loss = net(batch).mean()
        self.scaler.scale(loss).backward()
        self.scaler.step(opt)
        self.scaler.update()
""",
    "AMP209 a dtype of which other names are refused": """
ALLOWED = ["bfloat16", "float16", "float32"]

def train(cfg):
    if cfg.precision not in ALLOWED:
        raise ValueError(cfg.precision)
    dtype = getattr(torch, cfg.precision)
    scaler = torch.cuda.amp.GradScaler()  # expect: AMP209
    for batch in cfg.loader:
        with torch.autocast("cuda", dtype=dtype):
            loss = cfg.model(batch).mean()
        scaler.scale(loss).backward()
        scaler.step(cfg.opt)
        scaler.update()
        cfg.opt.zero_grad()
""",
    "AMP209 a scaler that agrees with such a dtype": """
def train(cfg):
    assert cfg.precision in {"bfloat16", "float16"}
    dtype = getattr(torch, cfg.precision)
    scaler = torch.cuda.amp.GradScaler(enabled=dtype == torch.float16)
    other = torch.cuda.amp.GradScaler(enabled=cfg.precision == "float16")
    for batch in cfg.loader:
        with torch.autocast("cuda", dtype=dtype):
            loss = cfg.model(batch).mean()
            second = cfg.other(batch).mean()
        scaler.scale(loss).backward()
        other.scale(second).backward()
        scaler.step(cfg.opt)
        other.step(cfg.second)
        scaler.update()
        other.update()
""",
    "AMP211 a scaler that the function is handed": """
def fit(model, opt, scaler, loader, path):
    for x in loader:
        with torch.autocast("cuda"):
            loss = model(x).mean()
        scaler.scale(loss).backward()
        scaler.step(opt)
        scaler.update()
        opt.zero_grad()
    torch.save({"model": model.state_dict(), "optimizer": opt.state_dict()}, path)  # expect: AMP211
""",
    "AMP211 a scaler that the function is handed, and saves": """
def fit(model, opt, scaler, loader, path):
    for x in loader:
        with torch.autocast("cuda"):
            loss = model(x).mean()
        scaler.scale(loss).backward()
        scaler.step(opt)
        scaler.update()
        opt.zero_grad()
    states = {"model": model.state_dict(), "optimizer": opt.state_dict()}
    states["scale"] = scaler.state_dict()
    torch.save(states, path)
""",
    "AMP212 schedules by what made them": """
from kit.rates import WarmupPolyLrScheduler, PolyRate
from torch.optim.lr_scheduler import LRScheduler

class Decay(LRScheduler):
    def get_lr(self):
        return [base * 0.9 for base in self.base_lrs]

def fit(net, loader, optim):
    scaler = torch.amp.GradScaler("cuda")
    plan, decay, other = WarmupPolyLrScheduler(optim, 0.9), Decay(optim), PolyRate(optim)
    for images in loader:
        optim.zero_grad()
        with torch.autocast("cuda"):
            loss = net(images).mean()
        scaler.scale(loss).backward()
        scaler.step(optim)
        scaler.update()
        plan.step()  # expect: AMP212
        decay.step()  # expect: AMP212
        other.step()
""",
    "AMP212 schedulers that an object out of sight advances": """
class Engine:
    def iterate(self, batch, step):
        self.optimizers.zero_all()
        with torch.autocast("cuda"):
            loss = self.net(batch).mean()
        self.scaler.scale(loss).backward()
        self.optimizers.step_all(self.scaler)
        self.scaler.update()
        self.optimizers.scheduler_step_all(step)  # expect: AMP212
        return loss
""",
    "AMP212 schedulers that an inherited method advances": """
from base import Base

class Runner(Base):
    def training_iteration(self, batch, epoch):
        self.opt.zero_grad()
        with torch.autocast("cuda"):
            loss = self.model(batch).mean()
        self.grad_scaler.scale(loss).backward()
        self.grad_scaler.step(self.opt)
        self.grad_scaler.update()
        self.step_lr_schedulers()  # expect: AMP212
        self.scheduler_step(epoch)
        self.noise_scheduler_step(batch)
""",
    "AMP212 schedulers out of sight that wait": """
class Engine:
    def iterate(self, batch, step):
        self.optimizers.zero_all()
        with torch.autocast("cuda"):
            loss = self.net(batch).mean()
        self.scaler.scale(loss).backward()
        self.optimizers.step_all(self.scaler)
        before = self.scaler.get_scale()
        self.scaler.update()
        if before <= self.scaler.get_scale():
            self.optimizers.scheduler_step_all(step)
        return loss
""",
    "AMP212 schedulers that a loop takes from pairs": """
def fit(net, batches, optims, lr_schedules):
    scaler = torch.amp.GradScaler("cuda")
    for batch in batches:
        for o in optims:
            o.zero_grad()
        with torch.autocast("cuda"):
            loss = net(batch).mean()
        scaler.scale(loss).backward()
        for o in optims:
            scaler.step(o)
        scaler.update()
        for k, (o, plan) in enumerate(zip(optims, lr_schedules)):
            plan.step()  # expect: AMP212
    for o, plan in zip(optims, lr_schedules):
        plan.step()
""",
    "AMP222 a scaled loss that callers get": """
class Unit:
    def train_step(self, batch, last):
        loss, out = self._differentiate(batch)
        if last:
            self._advance()
        return loss, out

    def _differentiate(self, batch):
        with self.region:
            loss, out = self.compute(batch)
        loss = loss / self.every
        scaler = self.scaler
        if scaler:
            loss = scaler.scale(loss)  # expect: AMP222
        loss.backward()
        return loss, out

    def _advance(self):
        if self.scaler:
            self.scaler.step(self.optimizer)
            self.scaler.update()
        else:
            self.optimizer.step()
        self.optimizer.zero_grad()
""",
    "AMP222 a number of a scaled loss that callers get": """
def train_batch(net, images, optim, amp_scaler):
    optim.zero_grad()
    with torch.autocast("cuda"):
        total = net(images).mean()
    total = amp_scaler.scale(total)  # expect: AMP222
    total.backward()
    amp_scaler.step(optim)
    amp_scaler.update()
    return {"total": total.item(), "n": 3}
""",
    "AMP222 losses that callers get to scale, or as scaled ones": """
class Plugin:
    def __init__(self):
        self.scaler = torch.amp.GradScaler("cuda")

    def before(self, loss):
        return self.scaler.scale(loss)

    def backward(self, loss):
        scaled_loss = self.scaler.scale(loss)
        scaled_loss.backward()
        return scaled_loss

    def again(self, loss):
        total = self.scaler.scale(loss)
        total.backward()
        return total / self.scaler.get_scale()

    def step(self, optimizer):
        self.scaler.step(optimizer)
        self.scaler.update()
""",
    "AMP301 a limit and a flag of the caller": """
def backward_pass(loss, net, optim, grad_scaler, limit=None, final=True):
    grad_scaler.scale(loss).backward()
    if limit:
        grad_scaler.unscale_(optim)  # expect: AMP301
        torch.nn.utils.clip_grad_norm_(net.parameters(), limit)
    if not final:
        return
    grad_scaler.step(optim)
    grad_scaler.update()
    optim.zero_grad(set_to_none=True)
""",
    "AMP301 flags for each": """
def backward_pass(loss, net, optim, grad_scaler, whole, final=True):
    grad_scaler.scale(loss).backward()
    if whole:
        grad_scaler.unscale_(optim)
        torch.nn.utils.clip_grad_norm_(net.parameters(), 1.0)
    if whole:
        grad_scaler.step(optim)
        grad_scaler.update()
        optim.zero_grad(set_to_none=True)
""",
    "AMP503 ctc_loss of half": """
def loss(logits, targets, lengths, sizes):
    found = logits.bfloat16().log_softmax(-1)
    return F.ctc_loss(found, targets, lengths, sizes)  # expect: AMP503
""",
    "AMP503 ctc_loss of float32": """
def loss(logits, targets, lengths, sizes):
    found = logits.bfloat16().float().log_softmax(-1)
    return F.ctc_loss(found, targets, lengths, sizes)
""",
    "AMP503 a transform in a method that is given tensors": """
class Filter(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(width, width))

    def spectrum(self, x: torch.Tensor) -> torch.Tensor:
        return torch.fft.rfft2(x)  # expect: AMP503

    def forward(self, x):
        return torch.fft.irfft2(self.spectrum(x @ self.weight))
""",
    "AMP503 a transform of what was converted": """
class Filter(nn.Module):
    def spectrum(self, x: torch.Tensor) -> torch.Tensor:
        return torch.fft.rfft2(x.float())

    def forward(self, x):
        return torch.fft.irfft2(self.spectrum(x)).to(x.dtype)
""",
    "AMP504 a truth value that widens": """
class Pool(nn.Module):
    def __init__(self):
        super().__init__()
        self.project = nn.Linear(8, 8)

    def forward(self, x, lengths):
        mask = torch.arange(x.shape[1], device=x.device)[None] < lengths[:, None]
        x = x * mask.float().unsqueeze(-1)  # expect: AMP504
        return self.project(x)
""",
    "AMP504 a truth value in the dtype of the other": """
class Pool(nn.Module):
    def __init__(self):
        super().__init__()
        self.project = nn.Linear(8, 8)

    def forward(self, x, lengths):
        mask = torch.arange(x.shape[1], device=x.device)[None] < lengths[:, None]
        x = x * mask.to(x.dtype).unsqueeze(-1)
        return self.project(x)
""",
    "AMP504 a truth value in a loss": """
class Criterion(nn.Module):
    def forward(self, logits, targets, padded):
        mask = (~padded).float()
        return (F.cross_entropy(logits, targets, reduction="none") * mask).sum() / mask.sum()
""",
    "AMP502 truth values added to a tensor like another": """
def count(x: torch.Tensor, index: torch.Tensor):
    found = torch.zeros_like(x[:, 0])
    valid = index >= 0
    found.scatter_add_(1, index.clamp(min=0), valid.unsqueeze(-1).float())  # expect: AMP502
    return found
""",
    "AMP502 numbers added to a tensor like another": """
def count(x: torch.Tensor, index: torch.Tensor):
    found = x.new_zeros(8)
    found.index_add_(0, index, torch.ones(len(index), device=x.device))  # expect: AMP502
    return found
""",
    "AMP502 truth values in the dtype of that tensor": """
def count(x: torch.Tensor, index: torch.Tensor):
    found = torch.zeros_like(x[:, 0])
    valid = index >= 0
    found.scatter_add_(1, index.clamp(min=0), valid.to(found.dtype))
    return found
""",
    "AMP502 half weights and a float32 input": """
model = nn.Sequential(nn.Linear(8, 8), nn.ReLU()).cuda().half()
features = torch.randn(4, 8, device="cuda")
print(model(features))  # expect: AMP502
""",
    "AMP502 half weights and a half input": """
model = nn.Sequential(nn.Linear(8, 8), nn.ReLU()).cuda().half()
features = torch.randn(4, 8, device="cuda").half()
print(model(features))
""",
    "AMP502 half weights that a framework gets": """
from accelerate import Accelerator

accelerator = Accelerator(mixed_precision="fp16")
model = accelerator.prepare(nn.Linear(8, 8).half())
print(model(torch.randn(4, 8, device="cuda")))
""",
    "AMP108 a region around a sum of losses": """
def step(model, batch, optimizer, scaler):
    losses = model(batch)  # expect: AMP108
    with torch.autocast("cuda"):
        loss = sum(losses.values())
    scaler.scale(loss).backward()
    scaler.step(optimizer)
    scaler.update()
""",
    "AMP108 a sum of losses of a model in a region": """
def step(model, batch, optimizer, scaler):
    with torch.autocast("cuda"):
        losses = model(batch)
        loss = sum(losses.values())
    scaler.scale(loss).backward()
    scaler.step(optimizer)
    scaler.update()
""",
    "AMP104 what layers put into a list": """
class Head(nn.Module):
    def forward(self, xs, target):
        scores, objects = [], []
        for layer, x in zip(self.layers, xs):
            scores.append(layer.score(x))
            objects.append(layer.object(x))
        scores, objects = torch.cat(scores, 1), torch.cat(objects, 1)
        with torch.cuda.amp.autocast(enabled=False):
            both = scores.float().sigmoid() * objects.sigmoid()  # expect: AMP104
        return ((both - target) ** 2).mean()
""",
    "AMP104 a result of a decoder beside others that are converted": """
class Geometry(nn.Module):
    def forward(self, images, height):
        hidden, shape = self.encode(images)
        points = self.point_decoder(hidden)
        camera = self.camera_decoder(hidden)
        certainty = self.certainty_decoder(hidden)
        with torch.autocast("cuda", enabled=False):
            points = points.float()
            where = self.point_head([points[:, 1:]], shape)
            camera = self.camera_head(
                [camera[:, 1:]],  # expect: AMP104
                shape,
            )
            self.log("certainty", certainty)
        return where, camera, self.certainty_head(certainty)

    def pairs(self, left, right):
        one, other = self.decode(left, right)
        with torch.autocast("cuda", enabled=False):
            first = self.head(1, [token.float() for token in one], left.shape)
            second = self.head(2, [token for token in other], right.shape)  # expect: AMP104
        return first, second

    def all_of_them(self, left, right):
        one, other = self.decode(left, right)
        with torch.autocast("cuda", enabled=False):
            first = self.head(1, [token.float() for token in one], left.shape)
            wide = [token.float() for token in other]
            second = self.head(2, wide, right.shape)
        return first, second
""",
    "AMP104 layers in a disabled region": """
class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.trunk = nn.Sequential(nn.Conv1d(8, 8, 1), nn.GELU())
        self.head, self.gate, self.norm = nn.Conv1d(8, 4, 1), nn.Linear(8, 4), nn.LayerNorm(8)

    def forward(self, x):
        x = self.trunk(x)
        with torch.autocast("cuda", enabled=False):
            return F.softplus(self.head(x))  # expect: AMP104

    def converted(self, x):
        x = self.trunk(x)
        with torch.autocast("cuda", enabled=False):
            x = self.norm(x.float())
            return self.gate(x)
""",
    "AMP104 entries of a batch": """
class Depth(nn.Module):
    def forward(self, current, source):
        pose, points = current["pose"], source["points"]
        with torch.autocast("cuda", enabled=False):
            return pose @ points.unsqueeze(1)
""",
    "AMP304 a condition behind every step": """
def fit(cfg, net, data):
    opt = torch.optim.AdamW(net.parameters())
    it = iter(data.train_loader())
    running = 0.0
    for step in range(cfg.total):
        acc = 0.0
        opt.zero_grad()
        for micro in range(cfg.accumulate):
            loss = net(**next(it)).loss
            loss = loss / cfg.accumulate
            acc += loss.detach()
            loss.backward()
        if acc:
            running += acc.item()
            opt.step()
        if cfg.every and step % cfg.every == 0:
            data.validate(net)
""",
    "AMP306 a model that apex may have wrapped": """
import apex

def fit(net, loader, opt, every, apart):
    if apart:
        net = apex.parallel.DistributedDataParallel(net)
    else:
        net = nn.parallel.DistributedDataParallel(net)
    for i, x in enumerate(loader):
        loss = net(x).mean() / every
        loss.backward()
        if (i + 1) % every == 0:
            opt.step()
            opt.zero_grad()
""",
    "AMP406 positions in the dtype of whole numbers": """
def angles(position_ids, frequencies, n):
    t = torch.arange(n, dtype=position_ids.dtype)
    return torch.outer(t, frequencies).cos().half()
""",
    "AMP406 positions in the dtype of another tensor": """
class Rotation(nn.Module):
    def __init__(self, dim):
        super().__init__()
        self.register_buffer("rates", 1.0 / (10000 ** (torch.arange(0, dim, 2).float() / dim)))

    def forward(self, x, places):
        angles = places[..., None].to(x.dtype) * self.rates  # expect: AMP406
        return angles.cos(), angles.sin()

    def encode(self, x, places):
        column = places.type_as(x)  # expect: AMP406
        angles = column[:, None] * self.rates[None]
        return angles.cos(), angles.sin()

    def exact(self, x, places):
        angles = places[:, None].to(self.rates.dtype) * self.rates
        return angles.cos().to(x.dtype), (places[:, None].float() * self.rates).sin().to(x.dtype)
""",
    "AMP406 slopes of heads": """
def slopes(num_heads, x):
    powers = torch.arange(1, 1 + num_heads, dtype=x.dtype)
    return torch.outer(powers, x[0]).half()
""",
    "AMP410 an optimizer that may keep float32 copies": """
from apex.optimizers import FusedAdam

def fit(net, loader, own):
    net = net.bfloat16()
    copying = FusedAdam(net.parameters(), master_weights=own)
    for x in loader:
        net(x).mean().backward()
        copying.step()

def fit_in_place(net, loader):
    net = net.bfloat16()  # expect: AMP410
    plain = FusedAdam(net.parameters(), master_weights=False)
    for x in loader:
        net(x).mean().backward()
        plain.step()
""",
    "AMP502 elements by truth values": """
class Fill(nn.Module):
    def __init__(self):
        super().__init__()
        self.proj = nn.Linear(8, 8)

    def forward(self, x, labels):
        half = self.proj(x)
        found = torch.zeros(4, 8, device=x.device)
        found[(labels > 1) & (labels < 5)] = half  # expect: AMP502
        found[~(labels > 1)] = half  # expect: AMP502
        kept = labels.ne(0)
        found[kept] = half  # expect: AMP502
        found[kept] = half.float()
        alike = torch.zeros(4, 8, device=x.device, dtype=half.dtype)
        alike[kept] = half
        return found, alike
""",
    "AMP502 labels as numbers and own kernels": """
class Edges(nn.Module):
    def __init__(self):
        super().__init__()
        self.register_buffer("kernel", torch.ones(1, 1, 3, 3))

    def loss(self, logits, labels):
        labels = labels.float()
        edges = F.conv2d(labels, self.kernel)  # expect: AMP502
        return edges + F.conv2d(labels.to(self.kernel), self.kernel) + F.conv2d(labels, self.kernel.float())
""",
    "AMP503 one half dtype asked for, and not the other": """
class Decomposed(nn.Module):
    def forward(self, x):
        if x.dtype == torch.float16:
            x = x.float()
        return torch.linalg.svd(x)  # expect: AMP503

    def both(self, x):
        if x.dtype in (torch.float16, torch.bfloat16):
            x = x.float()
        return torch.linalg.svd(x)
""",
    "AMP504 a filled buffer": """
def biased(scores, mask):
    bias = torch.zeros(4, 4, device=scores.device)  # expect: AMP504
    bias = bias.masked_fill(mask, float("-inf"))
    alike = torch.zeros(4, 4, device=scores.device, dtype=scores.dtype)
    return scores + bias, scores + alike.masked_fill(mask, float("-inf"))
""",
    "AMP502 sums in a tensor that is float32 as asked": """
class Pool(nn.Module):
    def forward(self, x, index):
        sums = torch.zeros_like(x, dtype=torch.float32)
        sums.index_add_(0, index, x)  # expect: AMP502
        alike = torch.zeros_like(x)
        alike.index_add_(0, index, x)
        exact = torch.zeros_like(x, dtype=torch.float32)
        exact.index_add_(0, index, x.float())
        return sums, alike, exact
""",
    "AMP504 a bias beside scores": """
class Attention(nn.Module):
    def forward(self, q, k, v):
        bias = torch.zeros(q.shape[1], k.shape[1], device=q.device)  # expect: AMP504
        alike = torch.zeros(q.shape[1], k.shape[1], device=q.device, dtype=q.dtype)
        return (q @ k.transpose(-1, -2) + bias) @ v + (q @ k.transpose(-1, -2) * 0.1 + alike) @ v
""",
    "AMP503 a spectrum by a window in float32": """
def spectrum(x):
    with torch.autocast("cuda", dtype=torch.bfloat16):
        y = x.bfloat16() * 2
        torch.stft(y, 256, return_complex=True)  # expect: AMP503
        return torch.stft(y, 256, window=torch.hann_window(256, device="cuda"), return_complex=True)
""",
    "AMP506 a conversion to its own dtype": """
def move(n):
    x = torch.randn(n)
    x.to(x.dtype)
    x.half()  # expect: AMP506
    return x
""",
    "AMP506 a parameter that is used as a tensor": """
def backward(ctx, grad_output, weight):
    grad_output.to(torch.float16)  # expect: AMP506
    if grad_output.ndim == 3:
        grad_output = grad_output.reshape(-1, grad_output.shape[-1])
    weight.half()  # expect: AMP506
    return grad_output @ weight
""",
    "AMP506 a model that is frozen and converted": """
def prepare(vae, batch, dtype):
    vae.requires_grad_(False)
    vae.to("cuda", dtype=torch.float16)
    batch.to(torch.float16)
    return vae(batch)
""",
    "AMP601 products in a method of an object that forward makes": """
class Base:
    def product(self, x, w):
        return torch.mm(x, w)

class Own(Base):
    pass

class Product(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, w):  # expect: AMP601
        ctx.save_for_backward(x, w)
        return Own().product(x, w)

    @staticmethod
    def backward(ctx, grad):
        x, w = ctx.saved_tensors
        return torch.mm(grad, w.t()), torch.mm(x.t(), grad)
""",
    "AMP704 a decorator for no argument": """
from mmcv.runner import auto_fp16

class Head(nn.Module):
    @auto_fp16(apply_to=("imgs",))
    def forward(self, points):
        return points

    @auto_fp16(apply_to=("points",))  # expect: AMP704
    def encode(self, points):
        return points
""",
    "AMP205 one of several callbacks clips": """
class Log:
    def after_backward(self, net, optimizer, scaler): ...

class Clip:
    def after_backward(self, net, optimizer, scaler):
        nn.utils.clip_grad_norm_(net.parameters(), 1.0)  # expect: AMP205

def train(net, optimizer, scaler, loader):
    for batch in loader:
        optimizer.zero_grad()
        scaler.scale(net(batch).mean()).backward()
        for callback in [Log(), Clip()]:
            callback.after_backward(net, optimizer, scaler)
        scaler.step(optimizer)
        scaler.update()
""",
    "AMP205 gradients that a comprehension has gathered": """
def grad_norm(parameters):
    gradients = [p.grad.detach() for p in parameters if p.grad is not None]
    return torch.norm(torch.stack([torch.norm(g) for g in gradients]))  # expect: AMP205

def train(net, optimizer, scaler, loader):
    for batch in loader:
        optimizer.zero_grad()
        scaler.scale(net(batch).mean()).backward()
        print(grad_norm(net.parameters()))
        scaler.step(optimizer)
        scaler.update()
""",
    "AMP205 gradients that are gathered once they are unscaled": """
def train(net, optimizer, scaler, loader):
    for batch in loader:
        optimizer.zero_grad()
        scaler.scale(net(batch).mean()).backward()
        scaler.unscale_(optimizer)
        gradients = [p.grad for p in net.parameters()]
        print(torch.stack(torch._foreach_norm(gradients)).norm())
        scaler.step(optimizer)
        scaler.update()
""",
    "AMP211 states that a loop over names saves": """
class Run:
    saved = ("net", "optimizer")

    def __init__(self, net):
        self.net = net
        self.optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
        self.scaler = torch.amp.GradScaler("cuda")

    def step(self, loss):
        self.scaler.scale(loss).backward()
        self.scaler.step(self.optimizer)
        self.scaler.update()

    def save(self, path):
        states = {}
        for name in self.saved:
            states[name] = getattr(self, name).state_dict()  # expect: AMP211
        torch.save(states, path)
""",
    "AMP211 a wrapper gives out the state of its optimizer alone": """
class Wrapper:
    def __init__(self, optimizer):
        self.optimizer = optimizer
        self.scaler = torch.amp.GradScaler("cuda")

    def step(self, loss):
        self.scaler.scale(loss).backward()
        self.scaler.step(self.optimizer)
        self.scaler.update()

    def state_dict(self):
        return self.optimizer.state_dict()  # expect: AMP211
""",
    "AMP302 pieces of a batch": """
def train(net, optimizer, loader, pieces):
    for batch, targets in loader:
        optimizer.zero_grad()
        for x, y in zip(batch.chunk(pieces), targets.chunk(pieces)):
            loss = F.cross_entropy(net(x), y)
            loss.backward()  # expect: AMP302
        optimizer.step()
""",
    "AMP302 pieces of a batch whose losses are divided, or sums": """
def train(net, optimizer, loader, pieces):
    for batch, targets in loader:
        optimizer.zero_grad()
        for x, y in zip(batch.chunk(pieces), targets.chunk(pieces)):
            loss = F.cross_entropy(net(x), y) / pieces
            loss.backward()
        optimizer.step()

def embed(net, optimizer, loader, gradients, pieces):
    for batch in loader:
        optimizer.zero_grad()
        for x, g in zip(batch.chunk(pieces), gradients):
            torch.dot(net(x).flatten(), g.flatten()).backward()
        optimizer.step()
""",
    "AMP402 an epsilon times ones": """
def similarity(a, b, eps=1e-8):  # expect: AMP402
    norm = a.norm(dim=1, keepdim=True)
    return a / torch.max(norm, eps * torch.ones_like(norm)) @ b.t()
""",
    "AMP502 the result of a layer that the constructor is given": """
class Assign(nn.Module):
    def __init__(self, head):
        super().__init__()
        self.head = head

    def forward(self, features, rows):
        scores = self.head(features)
        kept = torch.zeros(scores.shape, device=scores.device)
        kept[torch.where(rows)[0]] = scores  # expect: AMP502
        return kept
""",
    "AMP601 a kernel returns all gradients at once": """
import swiglu_cuda

class Gate(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, weight):  # expect: AMP601
        ctx.save_for_backward(x, weight)
        return swiglu_cuda.forward(x, weight)

    @staticmethod
    def backward(ctx, gradient):
        x, weight = ctx.saved_tensors
        return swiglu_cuda.backward(gradient, x, weight)
""",
    "AMP601 two tensors to a kernel behind custom_fwd alone": """
import swiglu_cuda

class Gate(torch.autograd.Function):
    @staticmethod
    @torch.amp.custom_fwd(device_type="cuda")
    def forward(ctx, x, weight):  # expect: AMP601
        ctx.save_for_backward(x, weight)
        return swiglu_cuda.forward(x, weight)

    @staticmethod
    @torch.amp.custom_bwd(device_type="cuda")
    def backward(ctx, gradient):
        x, weight = ctx.saved_tensors
        return swiglu_cuda.backward(gradient, x, weight)

class Cast(torch.autograd.Function):
    @staticmethod
    @torch.amp.custom_fwd(device_type="cuda", cast_inputs=torch.float16)
    def forward(ctx, x, weight):
        ctx.save_for_backward(x, weight)
        return swiglu_cuda.forward(x, weight)

    @staticmethod
    @torch.amp.custom_bwd(device_type="cuda")
    def backward(ctx, gradient):
        x, weight = ctx.saved_tensors
        return swiglu_cuda.backward(gradient, x, weight)

class Alone(torch.autograd.Function):
    @staticmethod
    @torch.amp.custom_fwd(device_type="cuda")
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return swiglu_cuda.forward(x)

    @staticmethod
    @torch.amp.custom_bwd(device_type="cuda")
    def backward(ctx, gradient):
        return swiglu_cuda.backward(gradient, *ctx.saved_tensors)
""",
    "AMP205 clipping by hand where a caller may have unscaled": """
def clip(weights, limit):
    norm = torch.norm(torch.stack([torch.norm(weight.grad.detach()) for weight in weights]))
    factor = limit / (norm + 1e-6)
    if factor < 1:
        for weight in weights:
            weight.grad.detach().mul_(factor)  # expect: AMP205

def step(scaler: torch.amp.GradScaler, optimizer):
    for group in optimizer.param_groups:
        clip(group["params"], 1.0)
    scaler.step(optimizer)
    scaler.update()
""",
    "AMP205 gradients multiplied by a number from elsewhere": """
def step(scaler: torch.amp.GradScaler, optimizer, rate):
    for group in optimizer.param_groups:
        for weight in group["params"]:
            weight.grad.mul_(rate)
    scaler.step(optimizer)
    scaler.update()
""",
    "AMP410 parameters that a method of the model returns": """
from adapters import Network, show

def train(unet, data, precision="float16"):
    dtype = torch.float32
    if precision == "float16":
        dtype = torch.float16
    elif precision == "bfloat16":
        dtype = torch.bfloat16
    network = Network(unet).to("cuda", dtype=dtype)  # expect: AMP410
    optimizer = torch.optim.Adam(network.trained(), lr=1e-4)
    for x, wanted in data:
        target = unet(wanted).float()
        target.requires_grad = False
        loss = F.mse_loss(unet(x).float(), target)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
""",
    "AMP410 parameters that a method returns of a model that is float32": """
from adapters import Network

def train(unet, data):
    unet.to(torch.float16)
    network = Network(unet).to("cuda")
    optimizer = torch.optim.Adam(network.trained(), lr=1e-4)
    for x, wanted in data:
        loss = F.mse_loss(unet(x).float(), wanted)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
""",
    "AMP410 lists that grow on nested conditions": """
def train(data):
    net = nn.Linear(4, 4).half()  # expect: AMP410
    decayed, others = [], []
    for name, weight in net.named_parameters():
        if len(name) > 3:
            if "bias" in name:
                others.append(weight)
            else:
                decayed.append(weight)
    optimizer = torch.optim.SGD([{"params": decayed}, {"params": others, "weight_decay": 0.0}], lr=1e-4)
    for x in data:
        optimizer.zero_grad()
        net(x.half()).float().sum().backward()
        optimizer.step()
""",
    "AMP410 functions that read what is trained": """
def show(model):
    for name, weight in model.named_parameters():
        print(name, weight.requires_grad)

def train(data):
    net = nn.Linear(4, 4).half()  # expect: AMP410
    optimizer = torch.optim.SGD(net.parameters(), lr=1e-4)
    show(net)
    for name, weight in net.named_parameters():
        print(name, weight.requires_grad)
    for x in data:
        optimizer.zero_grad()
        net(x.half()).float().sum().backward()
        optimizer.step()
""",
    "AMP745 float16 where a script asks for it, around weights in bfloat16": """
from transformers import AutoModelForCausalLM, Trainer, TrainingArguments

supported = torch.cuda.is_bf16_supported()
model = AutoModelForCausalLM.from_pretrained(name, torch_dtype=torch.bfloat16)
args = TrainingArguments("out", fp16=not supported, bf16=supported)
Trainer(model=model, args=args, train_dataset=data).train()  # expect: AMP745
""",
    "AMP745 weights in the dtype that a script asks for": """
from transformers import AutoModelForCausalLM, Trainer, TrainingArguments

supported = torch.cuda.is_bf16_supported()
dtype = torch.bfloat16 if supported else torch.float32
model = AutoModelForCausalLM.from_pretrained(name, torch_dtype=dtype)
args = TrainingArguments("out", fp16=not supported, bf16=supported)
Trainer(model=model, args=args, train_dataset=data).train()
""",
    "AMP202 the gradients of the next optimizer of a loop": """
def step_all(scaler: torch.amp.GradScaler, optimizers, models):
    for optimizer, model in zip(optimizers, models):
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        scaler.step(optimizer)
    scaler.update()

def step_groups(scaler: torch.amp.GradScaler, optimizers):
    for optimizer in optimizers:
        for group in optimizer.param_groups:
            nn.utils.clip_grad_norm_(group["params"], 1.0)
        scaler.step(optimizer)
        scaler.update()

def clip_late(scaler: torch.amp.GradScaler, optimizers):
    for optimizer in optimizers:
        scaler.step(optimizer)
        for group in optimizer.param_groups:
            nn.utils.clip_grad_norm_(group["params"], 1.0)  # expect: AMP202
        scaler.update()
""",
}


@pytest.mark.parametrize("shape", PROGRAMS)
def test_what_is_told(shape: str) -> None:
    code, program = shape[:6], HEAD + PROGRAMS[shape]
    raw = program.encode()
    rules = tuple(screen([RULES[code]], raw, frozenset({code})))
    found = findings_of(raw, rules, path="/nowhere/train.py", asked=frozenset({code}))
    expected = [line for line, text in enumerate(program.splitlines(), 1) if re.search(rf"# expect: {code}$", text)]
    assert sorted({finding.span.start.row for finding in found}) == expected
