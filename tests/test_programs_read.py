"""Programs in the shape of code that was read unseen: what is told of them, and what is not."""

from __future__ import annotations

import textwrap
from pathlib import Path

import pytest

from amplint.engine.cache import Cache
from amplint.engine.config import Settings
from amplint.engine.discover import Target
from amplint.engine.projects import Projects
from amplint.engine.registry import load_registry
from amplint.engine.run import Linter
from amplint.findings import Applicability, Finding, Severity

SETTINGS = Settings()
PROGRAMS = {
    "settings that each leave out a step": """
        def fit(model, table, loader, flags):
            scaler = torch.amp.GradScaler("cuda")
            first, second = torch.optim.Adam(model.parameters()), torch.optim.Adam(table.parameters())
            for batch in loader:
                first.zero_grad()
                second.zero_grad()
                with torch.autocast("cuda", dtype=torch.float16):
                    loss = model(table(batch)).mean()
                scaler.scale(loss).backward()
                if not flags.freeze_model:
                    scaler.step(first)
                if not flags.freeze_table:
                    scaler.step(second)
                scaler.update()
        """,
    "a counter and a setting that leave out steps": """
        def fit(model, table, loader, flags, steps):
            scaler = torch.amp.GradScaler("cuda")
            first, second = torch.optim.Adam(model.parameters()), torch.optim.Adam(table.parameters())
            for index, batch in enumerate(loader, 1):
                with torch.autocast("cuda", dtype=torch.float16):
                    loss = model(table(batch)).mean() / steps
                scaler.scale(loss).backward()
                if index % steps == 0:
                    scaler.step(first)
                    first.zero_grad()
                if index % steps == 0 and not flags.freeze_table:
                    scaler.step(second)
                    second.zero_grad()
                scaler.update()  # expect: AMP215 AMP301
        """,
    "a scaler that no caller gives": """
        def train(model, loader, optimizer, criterion, scaler=None):
            for inputs, targets in loader:
                optimizer.zero_grad()
                loss = criterion(model(inputs), targets)
                if scaler is not None:
                    scaler.scale(loss).backward()
                    scaler.step(optimizer)
                    scaler.update()
                else:
                    loss.backward()
                    optimizer.step()
        """,
    "a scaler that every caller gives": """
        def train(model, loader, optimizer, criterion, scaler):
            for inputs, targets in loader:
                optimizer.zero_grad()
                loss = criterion(model(inputs), targets)  # expect: amp108
                if scaler is not None:
                    scaler.scale(loss).backward()
                    scaler.step(optimizer)
                    scaler.update()
                else:
                    loss.backward()
                    optimizer.step()
        """,
    "a scaler that the caller in sight gives": """
        def train(model, loader, optimizer, criterion, scaler=None):
            for inputs, targets in loader:
                optimizer.zero_grad()
                loss = criterion(model(inputs), targets)  # expect: amp108
                if scaler is not None:
                    scaler.scale(loss).backward()
                    scaler.step(optimizer)
                    scaler.update()
                else:
                    loss.backward()
                    optimizer.step()
        
        train(Net(), loader, torch.optim.Adam(net.parameters()), nn.MSELoss(), torch.amp.GradScaler("cuda"))
        """,
    "a model made while bfloat16 is the default": """
        class Net(nn.Module):
            def __init__(self):
                super().__init__()
                self.layer = nn.Linear(4, 4)

            def forward(self, x):
                return self.layer(x)

        def build():
            before = torch.get_default_dtype()
            torch.set_default_dtype(torch.bfloat16)  # expect: AMP410
            model = Net()
            torch.set_default_dtype(before)
            return model

        model = build()
        optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4)
        for batch in loader:
            model.eval()
            with torch.no_grad():
                print(model(batch).mean())
            model.train()
            with torch.autocast("cuda", dtype=torch.bfloat16):
                loss = model(batch).mean()
            loss.backward()
            optimizer.step()
            optimizer.zero_grad()
        """,
    "a model that gets a tokenizer, made while bfloat16 is the default": """
        import transformers

        class Net(nn.Module):
            def __init__(self):
                super().__init__()
                self.layer = nn.Linear(4, 4)

            def forward(self, x):
                return self.layer(x)

        def build():
            before = torch.get_default_dtype()
            torch.set_default_dtype(torch.bfloat16)  # expect: AMP410
            model = Net()
            torch.set_default_dtype(before)
            model.tokenizer = transformers.AutoTokenizer.from_pretrained("small")
            return model

        model = build()
        optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4)
        for batch in loader:
            model.eval()
            with torch.no_grad():
                print(model(batch).mean())
            model.train()
            with torch.autocast("cuda", dtype=torch.bfloat16):
                loss = model(batch).mean()
            loss.backward()
            optimizer.step()
            optimizer.zero_grad()
        """,
    "a model made while tensors of bfloat16 are the default": """
        class Net(nn.Module):
            def __init__(self):
                super().__init__()
                self.layer = nn.Linear(4, 4)

            def forward(self, x):
                return self.layer(x)

        def build():
            before = torch.get_default_dtype()
            torch.set_default_tensor_type(torch.cuda.BFloat16Tensor)  # expect: AMP410
            model = Net()
            torch.set_default_tensor_type("torch.FloatTensor")
            return model

        model = build()
        optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4)
        for batch in loader:
            model.eval()
            with torch.no_grad():
                print(model(batch).mean())
            model.train()
            with torch.autocast("cuda", dtype=torch.bfloat16):
                loss = model(batch).mean()
            loss.backward()
            optimizer.step()
            optimizer.zero_grad()
        """,
    "a model made while float32 is the default again": """
        class Net(nn.Module):
            def __init__(self):
                super().__init__()
                self.layer = nn.Linear(4, 4)

            def forward(self, x):
                return self.layer(x)

        def build():
            before = torch.get_default_dtype()
            torch.set_default_dtype(torch.bfloat16)
            torch.set_default_dtype(before)
            model = Net()
            return model

        model = build()
        optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4)
        for batch in loader:
            model.eval()
            with torch.no_grad():
                print(model(batch).mean())  # expect: amp111
            model.train()
            with torch.autocast("cuda", dtype=torch.bfloat16):
                loss = model(batch).mean()
            loss.backward()
            optimizer.step()
            optimizer.zero_grad()
        """,
    "a region and a scaler that follow from one setting": """
        from contextlib import nullcontext

        def fit(args, model, loader, optimizer):
            if args["precision"] == "bf16":
                weights, computed = torch.bfloat16, torch.bfloat16
            elif args["precision"] == "fp32":
                weights, computed = torch.float32, torch.float16
            elif args["precision"] == "fp16_autocast":
                weights, computed = torch.float32, torch.float16
            elif args["precision"] == "bf16_autocast":
                weights, computed = torch.float32, torch.bfloat16
            else:
                raise ValueError(args["precision"])
            if args["precision"] in ["fp16_autocast", "bf16_autocast", "other"]:
                region = torch.autocast("cuda", dtype=computed)
            else:
                region = nullcontext()
            scaler = torch.amp.GradScaler("cuda") if args["precision"] == "fp16_autocast" else None
            scales = scaler is not None
            for batch in loader:
                with region:
                    loss = model(batch).mean()
                if scales:
                    scaler.scale(loss).backward()
                    scaler.step(optimizer)
                    scaler.update()
                else:
                    loss.backward()
                    optimizer.step()
                optimizer.zero_grad()
        """,
    "a region in float16 that another value of the setting enters without a scaler": """
        from contextlib import nullcontext

        def fit(args, model, loader, optimizer):
            if args["precision"] == "bf16":
                weights, computed = torch.bfloat16, torch.bfloat16
            elif args["precision"] == "fp32":
                weights, computed = torch.float32, torch.float16
            elif args["precision"] == "fp16_autocast":
                weights, computed = torch.float32, torch.float16
            elif args["precision"] == "bf16_autocast":
                weights, computed = torch.float32, torch.bfloat16
            else:
                raise ValueError(args["precision"])
            if args["precision"] in ["fp16_autocast", "bf16_autocast", "fp32"]:
                region = torch.autocast("cuda", dtype=computed)  # expect: AMP220
            else:
                region = nullcontext()
            scaler = torch.amp.GradScaler("cuda") if args["precision"] == "fp16_autocast" else None
            scales = scaler is not None
            for batch in loader:
                with region:
                    loss = model(batch).mean()
                if scales:
                    scaler.scale(loss).backward()
                    scaler.step(optimizer)
                    scaler.update()
                else:
                    loss.backward()
                    optimizer.step()
                optimizer.zero_grad()
        """,
    "logits that are resized where their shape is another": """
        import torch.nn.functional as F

        weight = nn.Parameter(torch.randn(8, 8, 1, 1, device="cuda"))
        optimizer = torch.optim.Adam([weight])
        for batch, labels in loader:
            optimizer.zero_grad()
            with torch.autocast("cuda", dtype=torch.bfloat16):
                logits = F.conv2d(batch, weight)
                if logits.shape[-2:] != labels.shape[-2:]:
                    logits = F.interpolate(logits, size=labels.shape[-2:], mode="bilinear")
                loss = F.cross_entropy(logits, labels)
            loss.backward()
            optimizer.step()
        """,
    "logits that are cut where their shape is another": """
        import torch.nn.functional as F

        weight = nn.Parameter(torch.randn(8, 8, 1, 1, device="cuda"))
        optimizer = torch.optim.Adam([weight])
        for batch, labels in loader:
            optimizer.zero_grad()
            with torch.autocast("cuda", dtype=torch.bfloat16):
                logits = F.conv2d(batch, weight)
                if logits.shape[-2:] != labels.shape[-2:]:
                    logits = logits[..., ::2, ::2]
                loss = F.cross_entropy(logits, labels)  # expect: amp413
            loss.backward()
            optimizer.step()
        """,
    "logits of the shape of labels": """
        import torch.nn.functional as F

        weight = nn.Parameter(torch.randn(8, 8, 1, 1, device="cuda"))
        optimizer = torch.optim.Adam([weight])
        for batch, labels in loader:
            optimizer.zero_grad()
            with torch.autocast("cuda", dtype=torch.bfloat16):
                logits = F.conv2d(batch, weight)
                loss = F.cross_entropy(logits, labels)  # expect: amp413
            loss.backward()
            optimizer.step()
        """,
    "an attribute that each step gives a new scaler": """
        class Learner:
            def __init__(self, network, loss_fn, scaler):
                self.network, self.loss_fn, self.scaler = network, loss_fn, scaler
                self.optimizer = torch.optim.Adam(network.parameters())

            def training_step(self, batch, labels):
                self.scaler = torch.amp.GradScaler("cuda")  # expect: AMP210
                with torch.autocast("cuda", dtype=torch.float16):
                    loss = self.loss_fn(self.network(batch), labels)
                self.optimizer.zero_grad()
                self.scaler.scale(loss).backward()
                self.scaler.step(self.optimizer)
                self.scaler.update()
        """,
    "an attribute that the first step gives a scaler": """
        class Learner:
            def __init__(self, network, loss_fn, scaler):
                self.network, self.loss_fn, self.scaler = network, loss_fn, scaler
                self.optimizer = torch.optim.Adam(network.parameters())

            def training_step(self, batch, labels):
                if self.scaler is None:
                    self.scaler = torch.amp.GradScaler("cuda")
                with torch.autocast("cuda", dtype=torch.float16):
                    loss = self.loss_fn(self.network(batch), labels)
                self.optimizer.zero_grad()
                self.scaler.scale(loss).backward()
                self.scaler.step(self.optimizer)
                self.scaler.update()
        """,
    "a model that holds an engine": """
        import deepspeed

        from models import make

        model = make("large")
        config = {"train_batch_size": 8, "bf16": {"enabled": True}}
        engine, *_ = deepspeed.initialize(model=model.backbone, config=config)
        model.backbone = engine
        for batch in loader:
            with torch.autocast("cuda", dtype=torch.bfloat16):
                loss = model.forward(batch)  # expect: amp721
            engine.backward(loss)
            engine.step()
        """,
    "a model that does not hold the engine": """
        import deepspeed

        from models import make

        model = make("large")
        config = {"train_batch_size": 8, "bf16": {"enabled": True}}
        engine, *_ = deepspeed.initialize(model=model.backbone, config=config)
        model.head.requires_grad_(False)
        for batch in loader:
            with torch.autocast("cuda", dtype=torch.bfloat16):
                loss = model.forward(batch)
            engine.backward(loss)
            engine.step()
        """,
}
"""Each line that is reported ends with `# expect:` and its codes, those of infos in small letters."""


def found(text: str, folder: Path, **others: str) -> list[Finding]:
    """The findings in `text`, beside modules of the given names."""
    for name, other in others.items():
        (folder / f"{name}.py").write_text(textwrap.dedent(other), encoding="utf-8")
    path = folder / "main.py"
    path.write_text(text, encoding="utf-8")
    linter = Linter(Projects(load_registry().rules, fixed=SETTINGS), Cache(None))
    return list(linter.check(Target("main.py", str(path), SETTINGS), text.encode()))


def program(text: str) -> str:
    return f"import torch\nfrom torch import nn\n\n{textwrap.dedent(text).strip()}\n"


@pytest.mark.parametrize("name", PROGRAMS)
def test_what_is_told_of_a_program(name: str, tmp_path: Path) -> None:
    text = program(PROGRAMS[name])
    told = sorted(
        (one.span.start.row, one.code if one.severity > Severity.INFO else one.code.lower())
        for one in found(text, tmp_path)
    )
    rows = enumerate((line.partition("# expect:")[2].split() for line in text.splitlines()), 1)
    assert told == [(row, code) for row, codes in rows for code in sorted(codes)]


ACCUMULATED = """
from accelerate import Accelerator


def loss_of(model, optimizer, batch):
    {inner}
    return model(batch).mean()


def fit(model, optimizer, loader, steps):
    accelerator = Accelerator(gradient_accumulation_steps={steps})
    model, optimizer, loader = accelerator.prepare(model, optimizer, loader)
    for batch in loader:
        with accelerator.accumulate(model):
            {outer}
            loss = loss_of(model, optimizer, batch)
            accelerator.backward(loss)
            optimizer.step()
"""


@pytest.mark.parametrize(
    ("inner", "outer", "steps", "safety"),
    [
        ("", "optimizer.zero_grad()", "4", Applicability.SAFE),
        ("", "optimizer.zero_grad()", "steps", Applicability.UNSAFE),
        ("optimizer.zero_grad()", "", "4", None),
    ],
)
def test_clearing_moves_within_a_function(
    inner: str, outer: str, steps: str, safety: Applicability | None, tmp_path: Path
) -> None:
    text = ACCUMULATED.format(inner=inner, outer=outer, steps=steps)
    (told,) = [one for one in found(text, tmp_path) if one.code == "AMP304"]
    assert (told.fix.applicability if told.fix is not None else None) is safety


@pytest.mark.parametrize(("dtype", "safety"), [("torch.bfloat16", Applicability.SAFE), ("dtype", Applicability.UNSAFE)])
def test_arrays_that_may_have_been_float16(dtype: str, safety: Applicability, tmp_path: Path) -> None:
    text = program(f"""
        def predict(inputs, flags):
            dtype = torch.bfloat16 if flags.new else torch.float16
            model = nn.Linear(8, 8).cuda()
            with torch.no_grad(), torch.autocast("cuda", dtype={dtype}):
                out = model(inputs)
            return out.cpu().numpy()
        """)
    (told,) = [one for one in found(text, tmp_path) if one.code == "AMP501"]
    assert told.fix is not None
    assert told.fix.applicability is safety


@pytest.mark.parametrize(("given", "repaired"), [("torch.float16", True), ("dtype", False)])
def test_a_setting_of_a_policy_is_left(given: str, repaired: bool, tmp_path: Path) -> None:
    text = program(f"""
        from torch.distributed.fsdp import MixedPrecision

        dtype = torch.float16
        policy = MixedPrecision(param_dtype=torch.float16, reduce_dtype={given})
        """)
    (told,) = [one for one in found(text, tmp_path) if one.code == "AMP714"]
    assert (told.fix is not None) is repaired


@pytest.mark.parametrize(
    ("given", "requirement", "told"),
    [
        ('loss_scale="dynamic"', "", "mmengine and PyTorch bring their own mixed precision."),
        ('loss_scale="dynamic"', "mmcv-full>=1.4.7,<=1.7.2", "the project moves on to mmcv 2.0"),
        ('type="apex", loss_scale="dynamic"', "", None),
    ],
)
def test_a_setting_of_mmcv(given: str, requirement: str, told: str | None, tmp_path: Path) -> None:
    (tmp_path / "requirements.txt").write_text(f"{requirement}\n", encoding="utf-8")
    reasons = [one.reason for one in found(f"fp16 = dict({given})\n", tmp_path) if one.code == "AMP703"]
    assert len(reasons) == (told is not None)
    assert all(told is not None and told in one for one in reasons)


WORDS = {
    "a scaler that begins at another scale": (
        """
        def fit(model, loader, optimizer):
            scaler = torch.amp.GradScaler("cuda", init_scale=1024.0)
            for batch in loader:
                optimizer.zero_grad()
                with torch.autocast("cuda", dtype=torch.float16):
                    loss = model(batch).mean()
                scaler.scale(loss).backward()
                nn.utils.clip_grad_norm_(model.parameters(), 1.0)
                scaler.step(optimizer)
                scaler.update()
        """,
        "AMP205",
        "multiplied by the loss scale, so",
    ),
    "a window as long as a list": (
        """
        def fit(model, loader, optimizer, chunks):
            for index, batch in enumerate(loader):
                loss = model(batch).mean()
                loss.backward()
                if (index + 1) % len(chunks) == 0:
                    optimizer.step()
                    optimizer.zero_grad()
        """,
        "AMP302",
        "Divide it before backward: (loss / len(chunks)).backward().",
    ),
    "a region with other arguments": (
        """
        def score(model, batches, device):
            model = model.to(device).eval()
            for batch in batches:
                with torch.no_grad(), torch.cuda.amp.autocast(dtype=torch.bfloat16):
                    yield model(batch.to(device)).argmax(dim=-1)

        device = "cuda" if torch.cuda.is_available() else "cpu"
        result = [*score(nn.Linear(6, 3), torch.randn(2, 4, 6), device)]
        """,
        "AMP106",
        "`torch.autocast(device_type=torch.device(device).type, dtype=...)`",
    ),
}


@pytest.mark.parametrize("name", WORDS)
def test_words_that_a_reader_needs(name: str, tmp_path: Path) -> None:
    text, code, words = WORDS[name]
    told = [f"{one.reason} {one.advice}" for one in found(program(text), tmp_path) if one.code == code]
    assert told
    assert all(words in one for one in told)


LOADER = """
import torch
from transformers import AutoModelForCausalLM


def load_model(name, quietly=True):
    if not quietly:
        print(name)
    return AutoModelForCausalLM.from_pretrained(name, torch_dtype=torch.{dtype})


def load_both(name, tokenizer=None):
    model = load_model(name)
    return model, tokenizer
"""
TRAINER = """
import transformers

from loading import load_both


def finetune(name, dataset):
    model, tokenizer = load_both(name)
    args = transformers.TrainingArguments("out", {precision}=True)
    trainer = transformers.Trainer(model=model, args=args, train_dataset=dataset)
    trainer.train()
"""


@pytest.mark.parametrize(
    ("dtype", "precision", "codes"),
    [
        ("float16", "fp16", ["AMP706"]),
        ("bfloat16", "bf16", ["AMP741"]),
        ("float16", "bf16", ["AMP745"]),
        ("float32", "fp16", []),
    ],
)
def test_models_that_another_file_loads(dtype: str, precision: str, codes: list[str], tmp_path: Path) -> None:
    told = found(TRAINER.format(precision=precision), tmp_path, loading=LOADER.format(dtype=dtype))
    assert [one.code for one in told] == codes


SAVING = """
import torch


def keep(model, optimizer, path):
    torch.save({"model": model.state_dict(), "optimizer": optimizer.state_dict()}, path)


def resume(model, optimizer, path):
    state = torch.load(path)
    model.load_state_dict(state["model"])
    optimizer.load_state_dict(state["optimizer"])
"""


def test_a_checkpoint_of_another_file(tmp_path: Path) -> None:
    text = program("""
        from saving import keep, resume

        model = nn.Linear(4, 1).cuda()
        optimizer = torch.optim.Adam(model.parameters())
        scaler = torch.amp.GradScaler("cuda")
        resume(model, optimizer, "last.pt")
        for batch in [torch.ones(2, 4)]:
            optimizer.zero_grad()
            with torch.autocast("cuda", dtype=torch.float16):
                loss = model(batch).mean()
            scaler.scale(loss).backward()
            scaler.step(optimizer)
            scaler.update()
        keep(model, optimizer, "last.pt")
        """)
    messages = [one.message for one in found(text, tmp_path, saving=SAVING) if one.code == "AMP211"]
    assert messages == ["a checkpoint that this call leads to holds the optimizer's state but not the scaler's"]
