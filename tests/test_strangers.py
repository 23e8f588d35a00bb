"""Shapes of correct code that were once reported wrongly in code nobody here had written: one program for each."""

from __future__ import annotations

import pytest

from amplint.engine.registry import load_registry
from amplint.engine.screen import screen
from amplint.findings import Severity
from tests.linting import findings_of

RULES = load_registry().rules

HEAD = "import torch\nfrom torch import nn\n\n"
PROGRAMS = {
    "a step in a region that goes on with another optimizer's part of a model": """
from accelerate import Accelerator

class Loss(nn.Module):
    def __init__(self):
        super().__init__()
        self.judge = nn.Linear(4, 1)

    def fooled(self, fake):
        return -self.judge(fake).mean()

    def judged(self, real, fake):
        return self.judge(fake.detach()).mean() - self.judge(real).mean()

accelerator = Accelerator()
painter, losses = nn.Linear(4, 4), Loss()
optimizer = torch.optim.AdamW(painter.parameters())
second = torch.optim.AdamW(losses.judge.parameters())
painter, optimizer, loader = accelerator.prepare(painter, optimizer, loader)
losses, second = accelerator.prepare(losses, second)
for batch in loader:
    with accelerator.autocast():
        fake = painter(batch)
        optimizer.zero_grad()
        accelerator.backward(losses.fooled(fake))
        optimizer.step()
        loss = losses.judged(batch, fake)
    second.zero_grad()
    accelerator.backward(loss)
    second.step()
""",
    "a model that settings make, whose name is all that is seen of it": """
from settings import config

def train_step(model, batch, criterion):
    with torch.autocast("cuda", dtype=torch.bfloat16):
        loss = criterion(model, batch)["loss"]
    loss.backward()

model = config.model().to("cuda")
optimizer = torch.optim.AdamW(model.parameters())
for batch in config.data():
    optimizer.zero_grad()
    train_step(model, batch, config.criterion())
    optimizer.step()
""",
    "a region for versions of PyTorch that are too old to run": """
from packaging import version

if version.parse(version.parse(torch.__version__).base_version) < version.parse("1.10"):
    region = torch.autocast("cuda")
elif torch.__version__.split("+")[0] <= "1.13":
    region = torch.autocast("cuda", dtype=torch.float16)
else:
    region = torch.autocast("cuda", dtype=torch.bfloat16)
model = nn.Linear(4, 4).cuda()
optimizer = torch.optim.AdamW(model.parameters())
for batch in data:
    optimizer.zero_grad()
    with region:
        loss = model(batch).sum()
    loss.backward()
    optimizer.step()
""",
    "the micro-batches of a last, shorter window, divided by their number": """
def train(model, loader, optimizer, steps):
    count = 0
    for index, batch in enumerate(loader):
        loss = model(batch)["loss"]
        count += 1
        last = index + 1 == len(loader)
        if last and count < steps:
            loss = loss / count
        else:
            loss = loss / steps
        loss.backward()
        if count == steps or last:
            optimizer.step()
            optimizer.zero_grad()
            count = 0
""",
    "a copy that is frozen in half beside the model that is trained": """
from accelerate import Accelerator
from diffusers import Transformer2DModel

accelerator = Accelerator(mixed_precision="fp16")
model = Transformer2DModel.from_pretrained("small")
teacher = Transformer2DModel.from_pretrained("small")
teacher.to(accelerator.device, dtype=torch.float16)
optimizer = torch.optim.AdamW(model.parameters())
model, optimizer = accelerator.prepare(model, optimizer)
for batch in data:
    optimizer.zero_grad()
    accelerator.backward(model(batch).sample.mean())
    optimizer.step()
""",
    "a layer whose forward is replaced": """
layer = nn.Linear(8, 8, bias=False)

def patched(inputs):
    return nn.functional.linear(inputs, layer.weight.to(inputs.dtype))

layer.forward = patched
layer(torch.randn(2, 8, dtype=torch.float16))
""",
    "a step before a return, behind which another branch goes on": """
model = nn.Linear(4, 4).cuda()
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4)

def update(inputs):
    with torch.autocast("cuda", dtype=torch.bfloat16):
        optimizer.zero_grad()
        if inputs.ndim == 2:
            loss = model(inputs).sum()
            loss.backward()
            optimizer.step()
            return
        loss = model(inputs).mean()
        loss.backward()
        optimizer.step()

for inputs in data:
    update(inputs)
""",
    "a region around what moves the input, in front of the model": """
model = nn.Linear(4, 4).cuda()
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4)
for inputs in data:
    optimizer.zero_grad()
    with torch.autocast("cuda", dtype=torch.bfloat16):
        inputs = inputs.to("cuda")
    model(inputs).sum().backward()
    optimizer.step()
""",
    "a probe for losses in half": """
dtype = torch.float16
try:
    nn.functional.cross_entropy(torch.tensor([[1.0]], dtype=dtype), torch.tensor([0]))
except RuntimeError:
    dtype = torch.float32
""",
    "a model whose forward is wrapped": """
class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(8, 8)

    def forward(self, inputs):
        return self.layer(inputs)

net = Net()
plain = net.forward
net.forward = lambda inputs: plain(inputs.float())
net(torch.randn(2, 8, dtype=torch.float16))
""",
    "a clip in front of backward, which sees the gradients of the window so far": """
from accelerate import Accelerator

def fit(model, loader, steps):
    accelerator = Accelerator(mixed_precision="fp16")
    optimizer = torch.optim.AdamW(model.parameters())
    model, optimizer, loader = accelerator.prepare(model, optimizer, loader)
    for index, batch in enumerate(loader):
        loss = model(batch).mean() / steps
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        accelerator.backward(loss)
        if (index + 1) % steps == 0:
            optimizer.step()
            optimizer.zero_grad()
""",
    "the scaler of a framework, which its optimizers update": """
from accelerate import Accelerator

def fit(model, loader, precision):
    accelerator = Accelerator(mixed_precision=precision)
    optimizer = torch.optim.AdamW(model.parameters())
    model, optimizer, loader = accelerator.prepare(model, optimizer, loader)
    for batch in loader:
        loss = model(batch).mean()
        accelerator.backward(loss)
        if accelerator.scaler is not None:
            accelerator.scaler.unscale_(optimizer)
        optimizer.step()
        optimizer.zero_grad()
""",
    "numbers of images beside the boxes in them": """
def align(feature, boxes, exact):
    images, count = boxes.shape[:2]
    numbers = torch.arange(images).view(images, 1, 1).repeat(1, count, 1).to(boxes.device)
    boxes = torch.cat((numbers, boxes), dim=2).view(-1, 5)
    return boxes if exact else boxes.half().double()
""",
    "random numbers near 0, squared in half": """
def weight(latents):
    noise = torch.randn_like(latents).to(torch.float16)
    return (noise * noise).mean()
""",
    "an average that is half only where it is not moved": """
import copy

class ModelEMA:
    def __init__(self, model, half=False):
        self.ema = copy.deepcopy(model)
        if half:
            self.ema.half()

    @torch.no_grad()
    def update(self, model):
        for mean, weight in zip(self.ema.parameters(), model.parameters()):
            mean.mul_(0.9999).add_(weight, alpha=1 - 0.9999)

def fit(model, loader, optimizer):
    moving, frozen = ModelEMA(model), ModelEMA(model, half=True)
    for batch in loader:
        loss = (model(batch) - frozen.ema(batch.half()).float()).square().mean()
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        moving.update(model)
""",
    "a function that only another one's backward applies": """
class Gradient(torch.autograd.Function):
    @staticmethod
    def forward(ctx, grad, weight):
        ctx.save_for_backward(grad, weight)
        return torch.mm(grad, weight)

    @staticmethod
    def backward(ctx, again):
        grad, weight = ctx.saved_tensors
        return torch.mm(again, weight.t()), torch.mm(grad.t(), again)

class Twice(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, weight):
        ctx.save_for_backward(weight)
        return x * 2

    @staticmethod
    def backward(ctx, grad):
        (weight,) = ctx.saved_tensors
        return Gradient.apply(grad.float(), weight), None

def fit(model, weight, loader, optimizer):
    for batch in loader:
        with torch.autocast("cuda", dtype=torch.bfloat16):
            loss = Twice.apply(model(batch), weight).sum()
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
""",
    "a loss of another model than the one that ran in the region": """
def fit(vae, critic, measure, loader):
    region = torch.amp.autocast("cuda", dtype=torch.bfloat16)
    first, second = torch.optim.AdamW(vae.parameters()), torch.optim.AdamW(critic.parameters())
    measure = measure.cuda().eval()
    for batch in loader:
        with region:
            made, latents = vae(batch)
        judged = critic(made.detach()).mean()
        second.zero_grad()
        judged.backward()
        second.step()
        with region:
            critic(batch)
        loss = measure(made, batch).mean() + latents.pow(2).mean()
        first.zero_grad()
        loss.backward()
        first.step()
""",
    "a region from a dictionary": """
def train(model, loader, optimizer, device, args):
    settings = dict(device_type=device.type, enabled=args.amp)
    for inputs, targets in loader:
        optimizer.zero_grad()
        with torch.autocast(**settings):
            loss = nn.functional.mse_loss(model(inputs), targets)
        loss.backward()
        optimizer.step()
""",
    "a scaler that is None by default": """
from torch.amp import GradScaler

class Engine:
    scaler: GradScaler | None = None

    def __init__(self, model, optimizer, amp):
        self.model, self.optimizer = model, optimizer
        if amp:
            self.scaler = GradScaler("cuda")

    def backward(self, loss):
        if self.scaler is not None:
            self.scaler.scale(loss).backward()
        else:
            loss.backward()

    def step(self):
        if self.scaler is not None:
            self.scaler.step(self.optimizer)
            self.scaler.update()
        else:
            self.optimizer.step()
        self.optimizer.zero_grad()
""",
    "everything that is saved by keyword": """
from world import build, loader

def save(path, model, optimizer, **others):
    data = {"model": model.state_dict(), "optimizer": optimizer.state_dict()}
    for key, value in others.items():
        if hasattr(value, "state_dict"):
            raw = value.module if isinstance(value, nn.parallel.DistributedDataParallel) else value
            raw = getattr(raw, "_orig_mod", raw)
            data[key] = raw.state_dict()
        else:
            data[key] = value
    torch.save(data, path)

def fit(model, optimizer, epochs):
    scaler = torch.amp.GradScaler("cuda")
    for epoch in range(epochs):
        for inputs, targets in loader:
            optimizer.zero_grad()
            with torch.autocast("cuda"):
                loss = nn.functional.cross_entropy(model(inputs), targets)
            scaler.scale(loss).backward()
            scaler.step(optimizer)
            scaler.update()
        save("last.pt", model, optimizer, scaler=scaler, epoch=epoch)

fit(*build(), 3)
""",
    "a gradient read after the step of one of several optimizers": """
class Trainer:
    def __init__(self, parts, optimizers):
        self.encoder, self.decoder = parts
        self.first, self.second = optimizers
        self.scaler = torch.amp.GradScaler("cuda")

    def step(self, batch):
        self.second.zero_grad()
        with torch.autocast("cuda"):
            loss = self.decoder(batch).mean()
        self.scaler.scale(loss).backward()
        self.scaler.step(self.second)
        self.first.zero_grad()
        with torch.autocast("cuda"):
            loss = self.decoder(self.encoder(batch)).mean()
        self.scaler.scale(loss).backward()
        self.scaler.step(self.first)
        self.scaler.update()

def test_encoder_learns(parts, optimizers, batch, encoder):
    Trainer(parts, optimizers).step(batch)
    gradient = encoder.layers[-1].weight.grad
    assert float(gradient.abs().sum()) > 0
""",
    "a tokenizer beside a model": """
from transformers import AutoModelForCausalLM, AutoTokenizer

def fit(prompts, rollouts):
    tokenizer = AutoTokenizer.from_pretrained("small")
    model = AutoModelForCausalLM.from_pretrained("small").cuda()
    optimizer = torch.optim.AdamW(model.parameters())
    for prompt in prompts:
        tokens = tokenizer(prompt, return_tensors="pt").to("cuda")
        found = rollouts(tokens.input_ids)
        with torch.autocast("cuda", dtype=torch.bfloat16):
            loss = model(found, labels=found).loss
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
""",
    "layers that setUp converts": """
import unittest

class HalfLayers(unittest.TestCase):
    def setUp(self):
        self.inputs = torch.randn(3, 4, dtype=torch.float16, device="cuda")
        self.layer = nn.Linear(4, 4).cuda().half()

    def test_sum(self):
        assert self.layer(self.inputs).sum() is not None
""",
    "one key of one dictionary, read twice": """
class Runner:
    def __init__(self, model, optimizer, count):
        self.model, self.optimizer = model, optimizer
        self.args = {"micro": count, "epochs": 3}

    def fit(self, loader):
        args = self.args
        for index, (inputs, targets) in enumerate(loader):
            loss = nn.functional.mse_loss(self.model(inputs), targets)
            if args["micro"] > 1:
                loss = loss / args["micro"]
            loss.backward()
            if (index + 1) % args["micro"] == 0:
                self.optimizer.step()
                self.optimizer.zero_grad()
""",
    "cleared before the first window": """
def fit(model, loader, optimizer, steps):
    for index, (inputs, targets) in enumerate(loader):
        if steps == 1 and index == 0:
            optimizer.zero_grad()
        loss = nn.functional.mse_loss(model(inputs), targets) / steps
        loss.backward()
        if (index + 1) % steps == 0:
            optimizer.step()
            optimizer.zero_grad()
""",
    "an optimizer that comes back from a schedule": """
class Learner:
    def __init__(self, model, schedule):
        self.model, self.schedule = model, schedule
        self.optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        self.scaler = torch.amp.GradScaler("cuda")

    def epoch(self, loader):
        self.optimizer = self.schedule.rescale(optimizer=self.optimizer)
        for inputs, targets in loader:
            self.optimizer.zero_grad()
            with torch.autocast("cuda", dtype=torch.float16):
                loss = nn.functional.mse_loss(self.model(inputs), targets)
            self.scaler.scale(loss).backward()
            self.scaler.step(self.optimizer)
            self.scaler.update()
""",
    "a region that only evaluates": """
def train(model, loader, optimizer, amp):
    scaler = torch.amp.GradScaler("cuda", enabled=amp)
    for inputs, targets in loader:
        optimizer.zero_grad()
        with torch.autocast("cuda", dtype=torch.float16, enabled=amp):
            loss = nn.functional.mse_loss(model(inputs), targets)
        scaler.scale(loss).backward()
        scaler.step(optimizer)
        scaler.update()

@torch.inference_mode()
def evaluate(model, loader, half):
    model.eval()
    with torch.autocast("cuda", dtype=torch.float16, enabled=half):
        return [model(inputs) for inputs, _ in loader]
""",
    "half that is meant": '''
def as_bfloat16_reference(weight, inputs):
    """What the kernel has to give: the product in bfloat16, also inside of a region."""
    if weight.dtype is torch.bfloat16:
        with torch.autocast("cuda", enabled=False):
            return inputs.to(torch.bfloat16) @ weight
    return inputs @ weight
''',
    "no region anywhere": """
import threading

def serve(model, batches, args):
    if args.fp16:
        model.half()
    worker = threading.Thread(target=lambda: [model(batch) for batch in batches])
    worker.start()
    worker.join()
""",
    "a scaler made for every batch": """
def train(model, loader, optimizer, path):
    for inputs, targets in loader:
        scaler = torch.amp.GradScaler("cuda")
        optimizer.zero_grad()
        with torch.autocast("cuda", dtype=torch.float16):
            loss = nn.functional.mse_loss(model(inputs), targets)
        scaler.scale(loss).backward()
        scaler.step(optimizer)
        scaler.update()
    torch.save({"model": model.state_dict(), "optimizer": optimizer.state_dict()}, path)
""",
    "angles of rotary embeddings in a region that is off": """
def angles(freqs, t_x, t_y):
    with torch.autocast("cuda", enabled=False):
        across = t_x.unsqueeze(-1) @ freqs[0].unsqueeze(-2)
        down = t_y.unsqueeze(-1) @ freqs[1].unsqueeze(-2)
        return torch.polar(torch.ones_like(across), across + down)
""",
    "distances of coordinates in a region that is off": """
class Templates(nn.Module):
    def forward(self, feats):
        coords = feats["coords"]
        with torch.autocast(device_type="cuda", enabled=False):
            return torch.cdist(coords, coords)
""",
    "one optimizer on even rounds, all on odd ones": """
def fit(model, loader, every, second):
    for index, batch in enumerate(loader):
        model(batch).sum().backward()
        if index % 2 == 0:
            second.step()
            second.zero_grad()
        else:
            for one in every:
                one.step()
            model.zero_grad()
""",
    "test data made in float32": """
def payload(rows, device):
    markers = torch.arange(rows, device=device, dtype=torch.float32)
    hidden = markers.unsqueeze(1) + torch.arange(128, device=device, dtype=torch.float32) / 100
    return hidden.to(torch.bfloat16)
""",
    "a predictor that ran before training": """
from detector import DefaultPredictor, build_model

class Predictor:
    def __init__(self, weights):
        self.predictor = DefaultPredictor(weights)

    def __call__(self, image):
        with torch.autocast("cuda"):
            found = self.predictor(image)
        return found["boxes"].cpu().numpy()

teacher = Predictor("teacher.pt")
known = [teacher(image) for image in images]
student = build_model("student.pt")
optimizer = torch.optim.AdamW(student.parameters(), lr=1e-4)
for batch in batches:
    losses = student(batch)
    loss = losses["class"] + losses["box"]
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
""",
    "one choice under two names": """
class Trainer(Base):
    def setup(self):
        self.scaler = torch.amp.GradScaler("cuda") if self.configs.use_amp else None

    def backward(self, loss):
        if self.scaler is None:
            loss.backward()
        else:
            self.scaler.scale(loss).backward()

    def update(self, batches):
        for batch in batches:
            if self.single:
                self.backward(self.compute(batch))
            else:
                with self.model.no_sync():
                    self.backward(self.compute(batch))
        if self.configs.use_amp:
            self.scaler.step(self.optimizer)
            self.scaler.update()
        else:
            self.optimizer.step()
        self.model.zero_grad()
""",
    "two models converted in a loop": """
class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.dense = nn.Linear(4, 4)

    def forward(self, x):
        return self.dense(x)

first, second = Net(), Net()
for model in [first, second]:
    model.to(device="cuda", dtype=torch.float16)
x = torch.randn(2, 4, device="cuda", dtype=torch.float16)
first(x)
second(x)
""",
    "a loss that a subclass scales": """
class Base:
    def __init__(self, model, optimizer, amp):
        self.model, self.optimizer = model, optimizer
        self.scaler = torch.amp.GradScaler("cuda") if amp else None

    def _backward(self, loss):
        self.optimizer.zero_grad()
        loss.backward()
        if self.scaler:
            self.scaler.unscale_(self.optimizer)
        torch.nn.utils.clip_grad_norm_(self.model.parameters(), 1.0)
        if self.scaler:
            self.scaler.step(self.optimizer)
            self.scaler.update()
        else:
            self.optimizer.step()
""",
    "a step on a TPU": """
import torch_xla.core.xla_model as xm

class Trainer:
    def epoch(self, loader, tpu):
        for inputs in loader:
            self.scaler.scale(self.model(inputs).sum()).backward()
            self.scaler.unscale_(self.optimizer)
            nn.utils.clip_grad_norm_(self.model.parameters(), 1.0)
            if tpu():
                xm.optimizer_step(self.optimizer)
            else:
                self.scaler.step(self.optimizer)
                self.scaler.update()
            self.model.zero_grad()

    def __init__(self, model, optimizer):
        self.model, self.optimizer = model, optimizer
        self.scaler = torch.amp.GradScaler("cuda")
""",
    "a test that trains in half": """
def test_half_model():
    model = nn.Linear(4, 4).half()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
    given = torch.arange(start=0, end=model.extreme, dtype=torch.float16)
    model(given).sum().backward()
    optimizer.step()
    optimizer.zero_grad()
""",
    "a conversion that is expected to raise": """
import pytest

def test_numpy_has_no_bfloat16():
    with pytest.raises(TypeError):
        torch.ones(2, dtype=torch.bfloat16).numpy()
""",
    "a thread of a file without regions": """
import threading

def replicate(modules, inputs, results):
    enabled = torch.is_grad_enabled()

    def work(index, module, given):
        torch.set_grad_enabled(enabled)
        results[index] = module(given)

    threads = [threading.Thread(target=work, args=(i, *pair)) for i, pair in enumerate(zip(modules, inputs))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
""",
    "states of several schedulers": """
class Checkpointer:
    def __init__(self, model, optimizer, schedulers):
        self.model, self.optimizer, self.schedulers = model, optimizer, schedulers

    def save(self, path, **others):
        states = [scheduler.state_dict() for scheduler in self.schedulers]
        torch.save({"optimizer": self.optimizer.state_dict(), "schedulers": states, **others}, path)

    def load(self, path):
        found = torch.load(path)
        self.optimizer.load_state_dict(found.pop("optimizer"))
        for scheduler, state in zip(self.schedulers, found.pop("schedulers")):
            scheduler.load_state_dict(state)
        return found

def train(model, optimizer, schedulers, loader, path):
    keeper = Checkpointer(model, optimizer, schedulers)
    keeper.load(path)
    scaler = torch.amp.GradScaler("cuda")
    for batch in loader:
        optimizer.zero_grad()
        with torch.autocast("cuda", dtype=torch.float16):
            loss = model(batch).mean()
        scaler.scale(loss).backward()
        scaler.step(optimizer)
        scaler.update()
    keeper.save(path)
""",
    "micro-batches counted twice, each of which ends a window of two": """
from accelerate import Accelerator

def fit(parts, optimizer, loader):
    accelerator = Accelerator(gradient_accumulation_steps=2)
    encoder, decoder, optimizer, loader = accelerator.prepare(*parts, optimizer, loader)
    for batch in loader:
        with accelerator.accumulate(encoder), accelerator.accumulate(decoder):
            loss = decoder(encoder(batch)).mean()
            optimizer.zero_grad()
            accelerator.backward(loss)
            accelerator.clip_grad_norm_(encoder.parameters(), 1.0)
            optimizer.step()
""",
    "a decoder that is on the CPU between two uses": """
class Generator:
    def __init__(self, parts):
        self.parts = parts
        self.parts.decoder.to("cpu")

    def write(self, batches):
        self.parts.decoder.to("cuda")
        texts = [self.write_batch(batch) for batch in batches]
        self.parts.decoder.to("cpu")
        return texts

    def write_batch(self, batch):
        with torch.autocast("cuda", dtype=torch.bfloat16):
            return self.parts.decoder(batch).argmax(-1)

class Tuner(Generator):
    def __init__(self, parts):
        super().__init__(parts)
        self.parts.decoder.eval().cuda()

    def loss(self, batch):
        with torch.autocast("cuda", dtype=torch.bfloat16):
            return self.parts.decoder(batch).mean()
""",
    "an optimizer's wrapper, whose caller has the scaler": """
class Wrapper:
    def __init__(self, optimizer, names):
        self.optimizer, self.names = optimizer, names

    def step(self, scaler):
        scaler.unscale_(self.optimizer)
        scaler.step(self.optimizer)
        scaler.update()
        self.optimizer.zero_grad()

    def state_dict(self):
        state = self.optimizer.state_dict()
        state["names"] = self.names
        return state

    def load_state_dict(self, given):
        if "names" in given:
            states = {name: given["state"][index] for index, name in enumerate(given["names"])}
            given = {"state": states, "param_groups": self.optimizer.state_dict()["param_groups"]}
        self.optimizer.load_state_dict(given)
""",
    "states of an unseen model, which a norm makes float32": """
from encoders import Encoder

def collect(tokens, mask):
    encoder = Encoder("small").cuda()
    with torch.autocast("cuda", dtype=torch.bfloat16), torch.no_grad():
        states = encoder(token_ids=tokens, mask=mask)
    return states.cpu().numpy()
""",
    "gradients cleared once by the constructor, and where a window of the method ends": """
class Trainer:
    def __init__(self, model, every):
        self.model, self.every, self.count = model, every, 0
        self.optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        self.scaler = torch.amp.GradScaler("cuda")
        self.optimizer.zero_grad()

    def train_one_step(self, inputs):
        due = (self.count + 1) % self.every == 0
        with torch.autocast("cuda"):
            loss = self.model(inputs).mean() / self.every
        self.scaler.scale(loss).backward()
        self.count += 1
        if not due:
            return True
        self.scaler.step(self.optimizer)
        self.scaler.update()
        self.optimizer.zero_grad()
        return True
""",
    "gradients compared with 0, which no scale changes": """
def check(model, inputs, optimizer, scaler):
    scaler.scale(model(inputs).mean()).backward()
    found = False
    for parameter in model.parameters():
        if parameter.grad is not None and parameter.grad.abs().sum() > 0:
            found = True
    scaler.step(optimizer)
    scaler.update()
    return found
""",
    "a number put into what a long function has made float32": """
def distances(first, second):
    first, second = first.float(), second.float()
    result = torch.zeros((first.size(0), first.size(1)), dtype=first.dtype)
"""
    + 40 * "    result = result + (first - second)\n"
    + """    return result

def align(model, inputs, mask):
    with torch.autocast("cuda"):
        result = distances(model(inputs), inputs)
        result = nn.functional.pad(result, (0, 1), "constant", 0)
        return result.masked_fill(mask, 1e5).sum()
""",
    "a clip in a hook of a framework, which has unscaled the gradients": """
import lightning

class Module(lightning.LightningModule):
    def training_step(self, batch, index):
        return self(batch).mean()

    def on_before_optimizer_step(self, optimizer):
        norm = nn.utils.clip_grad_norm_(self.parameters(), max_norm=1.0)
        if not norm.isfinite():
            if getattr(self.trainer, "scaler", None) is not None:
                self.trainer.scaler.unscale_(optimizer)
            optimizer.zero_grad()
""",
    "norms behind the step that clipping to an infinite limit measures": """
import math
import numpy as np

model = nn.Linear(4, 4).cuda()
optimizer = torch.optim.AdamW(model.parameters())
scaler = torch.amp.GradScaler("cuda")
for step, batch in enumerate(loader):
    optimizer.zero_grad()
    with torch.autocast("cuda"):
        loss = model(batch).sum()
    scaler.scale(loss).backward()
    scaler.unscale_(optimizer)
    torch.nn.utils.clip_grad_norm_(model.parameters(), 50.0)
    scaler.step(optimizer)
    scaler.update()
    if step % 200 == 0:
        print(torch.nn.utils.clip_grad_norm_(model.parameters(), float("inf")).item())
        print(torch.nn.utils.clip_grad_norm_(model.parameters(), max_norm=math.inf))
        print(torch.nn.utils.clip_grad_norm_(model.parameters(), np.inf), torch.inf)
        torch.nn.utils.clip_grad_value_(model.parameters(), torch.inf)
""",
    "a region of a context manager, entered anew in every iteration and with a step at its end": """
from contextlib import contextmanager

class Precision:
    def __init__(self, half):
        self.half = half and torch.cuda.is_available()
        self.scaler = torch.amp.GradScaler("cuda") if self.half else None

    @contextmanager
    def autocast(self):
        if self.half:
            with torch.autocast("cuda"):
                yield
        else:
            yield

    def unscale(self, optimizer):
        if self.scaler is not None:
            self.scaler.unscale_(optimizer)

class Window:
    def __init__(self, length):
        self.length, self.count = length, 0

    def accumulate(self, loss):
        (loss / self.length).backward()
        self.count += 1
        full = self.count % self.length == 0
        if full:
            self.count = 0
        return full

class Steps:
    def __init__(self, model, optimizer):
        self.model, self.optimizer = model, optimizer

    def training_step(self, inputs, targets):
        self.optimizer.zero_grad()
        loss = nn.functional.mse_loss(self.model(inputs), targets)
        loss.backward()
        self.optimizer.step()
        return loss.detach()

class Trainer:
    def __init__(self, config):
        self.model = nn.Linear(1, 2)
        self.optimizer = torch.optim.AdamW(self.model.parameters())
        self.steps = Steps(self.model, self.optimizer)
        self.precision = Precision(config["half"])
        self.window = Window(4)

    def train(self, loader):
        for inputs, targets in loader:
            with self.precision.autocast():
                loss = self.steps.training_step(inputs, targets)
            if self.window.accumulate(loss):
                self.precision.unscale(self.optimizer)
""",
    "a setting that each call reads from a dictionary in which another entry changes": """
class Executor:
    def train(self, model, optimizer, loader, args, scaler):
        window = args.get("accum_grad", 1)
        use_amp = args.get("use_amp", False)
        for i, (x, y) in enumerate(loader, 1):
            with torch.autocast("cuda", dtype=torch.float16, enabled=use_amp):
                loss = model(x, y) / window
            if use_amp:
                scaler.scale(loss).backward()
            else:
                loss.backward()
            if i % window == 0:
                if use_amp:
                    scaler.unscale_(optimizer)
                    nn.utils.clip_grad_norm_(model.parameters(), 5.0)
                    scaler.step(optimizer)
                    scaler.update()
                else:
                    nn.utils.clip_grad_norm_(model.parameters(), 5.0)
                    optimizer.step()
                optimizer.zero_grad()

def main(args, configs, model, loader):
    executor, optimizer = Executor(), torch.optim.Adam(model.parameters())
    scaler = torch.amp.GradScaler("cuda") if args.use_amp else None
    for epoch in range(10):
        configs["epoch"] = epoch
        executor.train(model, optimizer, loader, configs, scaler)
""",
    "a dtype that one function of the settings tells where the scaler is made and where the region is": """
def get_amp_dtype(cfg):
    if not cfg.get("use_amp", True):
        return None
    chosen = str(cfg.get("mixed_precision", "bf16")).lower()
    if chosen in {"bf16", "bfloat16"}:
        return torch.bfloat16
    if chosen in {"fp16", "float16"}:
        return torch.float16
    return None

def train_one_epoch(model, loader, optimizer, scaler, cfg):
    amp_dtype = get_amp_dtype(cfg)
    for x, y in loader:
        optimizer.zero_grad()
        with torch.autocast("cuda", enabled=amp_dtype is not None, dtype=amp_dtype):
            loss = model(x, y)
        if scaler is not None:
            scaler.scale(loss).backward()
            scaler.step(optimizer)
            scaler.update()
        else:
            loss.backward()
            optimizer.step()

def main(cfg, model, loader):
    optimizer = torch.optim.Adam(model.parameters())
    amp_dtype = get_amp_dtype(cfg)
    scaler = None
    if amp_dtype == torch.float16:
        scaler = torch.amp.GradScaler("cuda")
    for _ in range(10):
        train_one_epoch(model, loader, optimizer, scaler, cfg)
""",
    "a scaler whose state is saved among keyword arguments, each unwrapped": """
def save_all(path, model=None, optimizer=None, **kwargs):
    raw_model = getattr(model, "_orig_mod", model)
    state = {"model": raw_model.state_dict(), "optimizer": optimizer.state_dict()}
    for key, value in kwargs.items():
        if hasattr(value, "state_dict"):
            raw_value = getattr(value, "_orig_mod", value)
            state[key] = raw_value.state_dict()
        else:
            state[key] = value
    torch.save(state, path)

model = nn.Linear(3, 3).cuda()
scaler = torch.amp.GradScaler("cuda")
optimizer = torch.optim.AdamW(model.parameters())
saved = torch.load("last.pth")
optimizer.load_state_dict(saved["optimizer"])
scaler.load_state_dict(saved["scaler"])
for epoch in range(3):
    for x, y in loader:
        optimizer.zero_grad()
        with torch.autocast("cuda", dtype=torch.float16):
            loss = nn.functional.mse_loss(model(x), y)
        scaler.scale(loss).backward()
        scaler.step(optimizer)
        scaler.update()
    save_all("last.pth", model=model, optimizer=optimizer, scaler=scaler, epoch=epoch)
""",
    "pictures of a pipeline whose weights are half": """
import numpy as np
from flow import ImagePipeline

pipe = ImagePipeline.from_pretrained("flow", torch_dtype=torch.bfloat16, device="cuda")
first = np.array(pipe("a lake"))
second = np.array(pipe("a lake"))
print(np.allclose(first, second))
""",
    "a forward pass by a method of its own, behind a switch of synchronisation": """
from models import build
from torch.nn.parallel import DistributedDataParallel

def train(args, loader):
    model = build(args)
    optimizer = torch.optim.AdamW(model.parameters())
    if args.distributed:
        model = DistributedDataParallel(model)
    for batches in loader:
        for number, x in enumerate(batches):
            guess = model(x)
            model.require_backward_grad_sync = number == args.steps - 1
            loss = model.forward_simple(x, guess)
            (loss / args.steps).backward()
        optimizer.step()
        optimizer.zero_grad()
""",
}
TRUE = {
    "a step in a region that goes on with another optimizer's part of a model": ["AMP101"],
    "a step before a return, behind which another branch goes on": ["AMP101", "AMP101"],
    "a region of a context manager, entered anew in every iteration and with a step at its end": [
        "AMP203",
        "AMP207",
        "AMP101",
    ],
    "a clip in front of backward, which sees the gradients of the window so far": ["AMP301"],
    "a scaler made for every batch": ["AMP210"],
    "micro-batches counted twice, each of which ends a window of two": ["AMP734"],
}


@pytest.mark.parametrize("shape", PROGRAMS)
def test_only_what_is_wrong_is_told(shape: str) -> None:
    raw = (HEAD + PROGRAMS[shape]).encode()
    rules = screen([rule for rule in RULES.values() if rule.default], raw, frozenset())
    found = findings_of(raw, rules, path="/nowhere/script.py")
    assert [one.code for one in found if one.severity > Severity.INFO] == TRUE.get(shape, [])
