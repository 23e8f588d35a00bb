"""Writes the training script that the benchmark lints when it is given none: several trainers, about 1,000 lines."""

from __future__ import annotations

from string import Template

HEADER = '''"""Training of several models with mixed precision, gradient clipping, accumulation and checkpoints."""

from __future__ import annotations

import argparse
import json
import logging
import math
import random
import time
from dataclasses import dataclass, field
from pathlib import Path

import torch
import torch.nn.functional as F
from torch import nn
from torch.utils.data import DataLoader, Dataset

log = logging.getLogger(__name__)


def seed_everything(seed: int) -> None:
    random.seed(seed)
    torch.manual_seed(seed)


@dataclass
class Meter:
    """A running mean."""

    total: float = 0.0
    count: int = 0
    history: list[float] = field(default_factory=list)

    def add(self, value: float, weight: int = 1) -> None:
        self.total += value * weight
        self.count += weight

    def close(self) -> float:
        mean = self.total / max(self.count, 1)
        self.history.append(mean)
        self.total, self.count = 0.0, 0
        return mean
'''

TASK = Template('''

@dataclass
class ${name}Config:
    """Settings of the $task run."""

    epochs: int = $epochs
    batch_size: int = $batch
    learning_rate: float = $rate
    weight_decay: float = 0.01
    accumulate: int = $accumulate
    clip: float | None = 1.0
    amp: bool = True
    amp_dtype: torch.dtype = torch.float16
    warmup: int = 200
    patience: int = 3
    workers: int = 2
    log_every: int = 50
    output: Path = Path("runs/$task")


class ${name}Data(Dataset):
    """Random inputs of the shape that the $task model expects."""

    def __init__(self, size: int = 4096, width: int = $width) -> None:
        generator = torch.Generator().manual_seed($epochs)
        self.inputs = torch.randn(size, width, generator=generator)
        self.targets = torch.randint(0, $classes, (size,), generator=generator)

    def __len__(self) -> int:
        return len(self.inputs)

    def __getitem__(self, index: int) -> tuple[torch.Tensor, torch.Tensor]:
        return self.inputs[index], self.targets[index]


class ${name}Block(nn.Module):
    """Pre-norm residual block."""

    def __init__(self, width: int, dropout: float = 0.1) -> None:
        super().__init__()
        self.norm = nn.LayerNorm(width)
        self.expand = nn.Linear(width, 4 * width)
        self.shrink = nn.Linear(4 * width, width)
        self.dropout = nn.Dropout(dropout)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        hidden = F.gelu(self.expand(self.norm(x)))
        return x + self.dropout(self.shrink(hidden))


class ${name}Model(nn.Module):
    """Classifier of the $task run."""

    def __init__(self, width: int = $width, depth: int = $depth, classes: int = $classes) -> None:
        super().__init__()
        self.blocks = nn.ModuleList([${name}Block(width) for _ in range(depth)])
        self.norm = nn.LayerNorm(width)
        self.head = nn.Linear(width, classes)
        self.apply(self._init)

    @staticmethod
    def _init(module: nn.Module) -> None:
        if isinstance(module, nn.Linear):
            nn.init.trunc_normal_(module.weight, std=0.02)
            nn.init.zeros_(module.bias)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        for block in self.blocks:
            x = block(x)
        return self.head(self.norm(x))


class ${name}Trainer:
    """Runs the $task training: accumulation, clipping, evaluation, checkpoints."""

    def __init__(self, config: ${name}Config, device: str) -> None:
        self.config = config
        self.device = device
        self.model = ${name}Model().to(device)
        self.optimizer = torch.optim.$optimizer(
            self.model.parameters(), lr=config.learning_rate, weight_decay=config.weight_decay
        )
        self.scaler = torch.amp.GradScaler(device, enabled=config.amp and config.amp_dtype is torch.float16)
        self.scheduler = torch.optim.lr_scheduler.LambdaLR(self.optimizer, self.factor)
        self.train_loss = Meter()
        self.valid_loss = Meter()
        self.started = 0.0
        self.best = math.inf
        self.step = 0
        self.stale = 0

    def factor(self, step: int) -> float:
        if step < self.config.warmup:
            return (step + 1) / self.config.warmup
        return 0.5 * (1.0 + math.cos(math.pi * min(1.0, step / 10_000)))

    def loaders(self) -> tuple[DataLoader, DataLoader]:
        common = {"batch_size": self.config.batch_size, "num_workers": self.config.workers}
        train = DataLoader(${name}Data(), shuffle=True, drop_last=True, **common)
        valid = DataLoader(${name}Data(512), shuffle=False, **common)
        return train, valid

    def loss(self, inputs: torch.Tensor, targets: torch.Tensor) -> torch.Tensor:
        with torch.autocast(self.device, dtype=self.config.amp_dtype, enabled=self.config.amp):
            return F.cross_entropy(self.model(inputs), targets, label_smoothing=0.1)

    def train_epoch(self, loader: DataLoader, epoch: int) -> float:
        self.model.train()
        self.optimizer.zero_grad(set_to_none=True)
        self.started = time.perf_counter()
        for index, (inputs, targets) in enumerate(loader):
            inputs = inputs.to(self.device, non_blocking=True)
            targets = targets.to(self.device, non_blocking=True)
            loss = self.loss(inputs, targets)
            self.scaler.scale(loss / self.config.accumulate).backward()
            if (index + 1) % self.config.accumulate == 0:
                self.scaler.unscale_(self.optimizer)
                if self.step % self.config.log_every == 0:
                    log.info("$task step %d gradient norm %.3f", self.step, self.gradient_norm())
                if self.config.clip is not None:
                    torch.nn.utils.clip_grad_norm_(self.model.parameters(), self.config.clip)
                self.scaler.step(self.optimizer)
                self.scaler.update()
                self.optimizer.zero_grad(set_to_none=True)
                self.scheduler.step()
                self.step += 1
            self.train_loss.add(loss.item(), len(inputs))
            if index % self.config.log_every == 0:
                seconds = time.perf_counter() - self.started
                log.info("$task epoch %d batch %d loss %.4f (%.1f s)", epoch, index, loss.item(), seconds)
        return self.train_loss.close()

    @torch.no_grad()
    def evaluate(self, loader: DataLoader) -> float:
        self.model.eval()
        for inputs, targets in loader:
            inputs, targets = inputs.to(self.device), targets.to(self.device)
            self.valid_loss.add(self.loss(inputs, targets).item(), len(inputs))
        return self.valid_loss.close()

    @torch.no_grad()
    def gradient_norm(self) -> float:
        norms = [parameter.grad.float().norm() for parameter in self.model.parameters() if parameter.grad is not None]
        return torch.stack(norms).norm().item() if norms else 0.0

    def summary(self) -> str:
        total = sum(parameter.numel() for parameter in self.model.parameters())
        trained = sum(parameter.numel() for parameter in self.model.parameters() if parameter.requires_grad)
        return f"$task: {trained:,} of {total:,} parameters are trained on {self.device}"

    def save(self, path: Path) -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        state = {
            "model": self.model.state_dict(),
            "optimizer": self.optimizer.state_dict(),
            "scheduler": self.scheduler.state_dict(),
            "scaler": self.scaler.state_dict(),
            "step": self.step,
            "best": self.best,
        }
        torch.save(state, path)

    def load(self, path: Path) -> None:
        state = torch.load(path, map_location=self.device, weights_only=True)
        self.model.load_state_dict(state["model"])
        self.optimizer.load_state_dict(state["optimizer"])
        self.scheduler.load_state_dict(state["scheduler"])
        self.scaler.load_state_dict(state["scaler"])
        self.step, self.best = state["step"], state["best"]

    def run(self) -> dict[str, list[float]]:
        log.info("%s", self.summary())
        train, valid = self.loaders()
        for epoch in range(self.config.epochs):
            train_loss = self.train_epoch(train, epoch)
            valid_loss = self.evaluate(valid)
            log.info("$task epoch %d train %.4f valid %.4f", epoch, train_loss, valid_loss)
            if valid_loss < self.best:
                self.best = valid_loss
                self.save(self.config.output / "best.pt")
                self.stale = 0
            else:
                self.stale += 1
                if self.stale >= self.config.patience:
                    log.info("$task stops early after epoch %d", epoch)
                    break
            self.save(self.config.output / "last.pt")
        return {"train": self.train_loss.history, "valid": self.valid_loss.history}
''')

FOOTER = Template("""

TASKS = {
$entries
}


def parse_arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("task", choices=sorted(TASKS))
    parser.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu")
    parser.add_argument("--resume", type=Path, default=None)
    parser.add_argument("--seed", type=int, default=0)
    return parser.parse_args()


def main() -> None:
    logging.basicConfig(level=logging.INFO)
    arguments = parse_arguments()
    seed_everything(arguments.seed)
    config, trainer_class = TASKS[arguments.task]
    trainer = trainer_class(config(), arguments.device)
    if arguments.resume is not None:
        trainer.load(arguments.resume)
    print(json.dumps(trainer.run(), indent=2))


if __name__ == "__main__":
    main()
""")

NAMES = ["Image", "Audio", "Text", "Graph", "Video"]


def training_script() -> str:
    """The script's text; it is the same on every call."""
    parts = [HEADER]
    for number, name in enumerate(NAMES, 1):
        parts.append(
            TASK.substitute(
                name=name,
                task=name.lower(),
                epochs=5 * number,
                batch=32 * number,
                rate=f"{number}e-4",
                accumulate=number,
                width=64 * number,
                depth=2 + number,
                classes=10 * number,
                optimizer="AdamW" if number % 2 else "SGD",
            )
        )
    entries = "\n".join(f'    "{name.lower()}": ({name}Config, {name}Trainer),' for name in NAMES)
    parts.append(FOOTER.substitute(entries=entries))
    return "".join(parts)
