"""Training code of which a part is out of sight: one program for each shape, wrong and right.

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
    "AMP101 an engine is handed the loss": """
from parallel import build_engine

class Learner:
    def __init__(self, net, engine):
        self.net, self.engine = net, engine

    def round(self, clips, wanted):
        with torch.autocast("cuda", dtype=torch.bfloat16):
            ce_loss = F.cross_entropy(self.net(clips), wanted)
            self.engine.backward(ce_loss)  # expect: AMP101
        self.engine.step()
""",
    "AMP101 losses are summed for the engine": """
from parallel import build_engine

def main(net, loader):
    engine = build_engine(net)
    for batch in loader:
        with torch.autocast("cuda"):
            losses = net(batch)
            engine.backward(sum(losses.values()))  # expect: AMP101
        engine.step()
""",
    "AMP101 handed behind the region, or in one that is off": """
from parallel import build_engine

class Learner:
    def __init__(self, net, engine):
        self.net, self.engine = net, engine

    def round(self, clips, wanted):
        with torch.autocast("cuda", dtype=torch.bfloat16):
            ce_loss = F.cross_entropy(self.net(clips), wanted)
        self.engine.backward(ce_loss)
        with torch.autocast("cuda"):
            ce_loss = F.cross_entropy(self.net(clips), wanted)
            with torch.autocast("cuda", enabled=False):
                self.engine.backward(ce_loss)
        self.engine.step()
""",
    "AMP101 no loss": """
def sweep(layers, inputs, gradient):
    with torch.autocast("cuda"):
        hidden = layers(inputs)
        return layers.backward(gradient), hidden
""",
    "AMP205 an inherited method clips": """
from basis import Updater
from torch.amp import GradScaler

class HalfUpdater(Updater):
    def __init__(self, **more):
        super().__init__(**more)
        self.amp = GradScaler("cuda")

    def apply(self):
        if self.limit:
            self.clip_gradients()  # expect: AMP205
        self.amp.unscale_(self.opt)
        self.amp.step(self.opt)
        self.amp.update()
""",
    "AMP205 a function out of sight clips": """
from basis import clip_gradients
from torch.amp import GradScaler

def finish(net, opt, scaler: GradScaler, limit):
    clip_gradients(net, limit)  # expect: AMP205
    scaler.unscale_(opt)
    scaler.step(opt)
    scaler.update()
""",
    "AMP205 what clips may unscale": """
from basis import Updater, clip_gradients
from torch.amp import GradScaler

class HalfUpdater(Updater):
    def __init__(self, **more):
        super().__init__(**more)
        self.amp = GradScaler("cuda")

    def apply(self):
        self.clip_gradients()
        self.amp.step(self.opt)
        self.amp.update()

    def unscaled(self):
        self.amp.unscale_(self.opt)
        self.clip_gradients()
        self.amp.step(self.opt)
        self.amp.update()

def finish(net, opt, critic, critic_opt, scaler: GradScaler, limit):
    clip_gradients(critic, limit)
    critic_opt.step()
    scaler.unscale_(opt)
    clip_gradients(net, limit)
    scaler.step(opt)
    scaler.update()
""",
    "AMP302 divided by how many were seen": """
from loaders import clips

def main(net, opt, limit):
    seen = 0
    for clip, wanted in clips():
        seen += 1
        loss = F.cross_entropy(net(clip), wanted)
        loss = loss / seen
        loss.backward()  # expect: AMP302
        if seen == limit:
            opt.step()
            opt.zero_grad()
            seen = 0
""",
    "AMP302 divided by its index": """
def main(net, opt, window, loader):
    scaler = torch.amp.GradScaler("cuda")
    for i, (clip, wanted) in enumerate(loader):
        with torch.autocast("cuda"):
            loss = F.cross_entropy(net(clip), wanted)
        scaler.scale(loss / (i + 1)).backward()  # expect: AMP302
        if (i + 1) % window == 0:
            scaler.step(opt)
            scaler.update()
            opt.zero_grad()
""",
    "AMP302 only what is shown is divided by how many were seen": """
from loaders import clips

def main(net, opt, limit):
    seen, total = 0, 0.0
    for clip, wanted in clips():
        seen += 1
        loss = F.cross_entropy(net(clip), wanted)
        (loss / limit).backward()
        total += loss.item()
        print(total / seen, loss / seen)
        if seen == limit:
            opt.step()
            opt.zero_grad()
            seen, total = 0, 0.0
""",
    "AMP302 multiplied in a wrapper": """
class Stepper:
    def __init__(self, opt, n_accumulation: int = 1):
        self.opt = opt
        self.share = n_accumulation
        self.scaler = torch.amp.GradScaler("cuda")

    def __call__(self, loss, last):
        loss = loss.mul(self.share)  # expect: AMP302
        self.scaler.scale(loss).backward()
        if last:
            self.scaler.step(self.opt)
            self.scaler.update()
            self.opt.zero_grad()
""",
    "AMP302 multiplied in a loop": """
def fit(net, opt, loader, num_accum_steps):
    for index, (waves, texts) in enumerate(loader):
        ctc = F.mse_loss(net(waves), texts) * num_accum_steps  # expect: AMP302
        ctc.backward()
        if (index + 1) % num_accum_steps == 0:
            opt.step()
            opt.zero_grad()
""",
    "AMP302 shares by other factors": """
class Stepper:
    def __init__(self, opt, n_accumulation: int = 1, accum_weight=0.5):
        self.opt, self.weight = opt, accum_weight
        self.share, self.count = 1.0 / n_accumulation, n_accumulation
        self.scaler = torch.amp.GradScaler("cuda")

    def __call__(self, loss, tokens, last):
        self.scaler.scale(loss.mul(self.share)).backward()
        self.scaler.scale(loss * self.weight).backward()
        self.scaler.scale(loss * self.count / tokens).backward()
        self.scaler.scale((loss / tokens) * self.count).backward()
        if last:
            self.scaler.step(self.opt)
            self.scaler.update()
            self.opt.zero_grad()
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
