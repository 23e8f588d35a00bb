"""What the table of libraries says of them is what those do that are installed, on a CPU."""

from __future__ import annotations

from collections import OrderedDict
from importlib import metadata
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

from amplint.torchlib.changes import CHANGES, LOADED_AS_SAVED
from amplint.torchlib.frameworks import DIVIDING, MANAGERS
from amplint.torchlib.practice import PRACTICES
from amplint.torchlib.versions import version


class Seen(nn.Module):
    """A layer that remembers the dtypes that it computes in."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Linear(2, 1, bias=False)
        nn.init.ones_(self.layer.weight)
        self.dtypes: list[torch.dtype] = []

    def forward(self, inputs: torch.Tensor) -> torch.Tensor:
        outputs: torch.Tensor = self.layer(inputs)
        self.dtypes.append(outputs.dtype)
        return outputs


def gradient(model: nn.Module) -> float:
    """The first component of the gradient of the only weight."""
    (weight,) = model.parameters()
    assert weight.grad is not None
    return weight.grad.flatten()[0].item()


def test_every_entry_is_told_apart() -> None:
    assert len({practice.key for practice in PRACTICES}) == len(PRACTICES)
    assert {practice.manager for practice in PRACTICES} - {""} == set(MANAGERS.values())
    assert {"accelerate"} == DIVIDING
    assert len({(change.package, change.since) for change in CHANGES}) == len(CHANGES)


def prepared(precision: str | None, window: int) -> tuple[Any, Seen, Any]:
    """An Accelerator, with a model and an optimizer that it has prepared."""
    accelerate = pytest.importorskip("accelerate")
    accelerate.state.AcceleratorState._reset_state(reset_partial_state=True)
    accelerator = accelerate.Accelerator(mixed_precision=precision, gradient_accumulation_steps=window, cpu=True)
    model = Seen()
    model, optimizer = accelerator.prepare(model, torch.optim.SGD(model.parameters(), lr=1.0))
    return accelerator, model, optimizer


def test_accelerate_casts_around_the_forward_pass() -> None:
    _, model, _ = prepared("bf16", 1)
    outputs = model(torch.ones(4, 2))
    assert model.dtypes == [torch.bfloat16]
    assert outputs.dtype is model.layer.weight.dtype is torch.float32


def test_accelerate_divides_and_leaves_steps_out() -> None:
    accelerator, model, optimizer = prepared("bf16", 4)
    weights = []
    for _ in range(4):
        with accelerator.accumulate(model):
            accelerator.backward(model(torch.ones(4, 2)).mean())
            optimizer.step()
            optimizer.zero_grad()
            weights.append(model.layer.weight[0, 0].item())
    assert weights == [1, 1, 1, 0]


def test_accelerate_clips_whenever_it_is_told_to() -> None:
    accelerator, model, _ = prepared("bf16", 4)
    synced, norms = [], []
    for _ in range(4):
        with accelerator.accumulate(model):
            accelerator.backward(100 * model(torch.ones(4, 2)).mean())
            accelerator.clip_grad_norm_(model.parameters(), 1.0)
            synced.append(accelerator.sync_gradients)
            norms.append(model.layer.weight.grad.norm().item())
    assert synced == [False, False, False, True]
    assert norms == pytest.approx([1] * 4, rel=1e-3)


def fabric_with(precision: str) -> tuple[Any, Any, Any]:
    """A Fabric, with a model and an optimizer that it has set up."""
    lightning = pytest.importorskip("lightning")
    plugins = {}
    if precision == "16-mixed":  # for a CPU Fabric takes bfloat16 instead, unless it is given the plug-in
        from lightning.fabric.plugins import MixedPrecision

        scaler = torch.amp.GradScaler("cpu", init_scale=1024.0)
        plugins = {"plugins": [MixedPrecision("16-mixed", "cpu", scaler=scaler)]}
    fabric = lightning.Fabric(accelerator="cpu", devices=1, **(plugins or {"precision": precision}))
    model = Seen()
    return fabric, *fabric.setup(model, torch.optim.SGD(model.parameters(), lr=1.0))


def test_fabric_casts_around_the_forward_pass() -> None:
    _, model, _ = fabric_with("bf16-mixed")
    outputs = model(torch.ones(4, 2))
    assert model.module.dtypes == [torch.bfloat16]
    assert outputs.dtype is model.layer.weight.dtype is torch.float32


def test_fabric_scales_and_unscales() -> None:
    fabric, model, optimizer = fabric_with("16-mixed")
    fabric.backward(model(torch.ones(4, 2)).mean())
    assert gradient(model) == 1024
    fabric.clip_gradients(model, optimizer, max_norm=0.5)
    assert gradient(model) == pytest.approx(0.5 / 2**0.5, rel=1e-3)


@pytest.mark.parametrize(("precision", "dtype"), [("16-true", torch.float16), ("bf16-true", torch.bfloat16)])
def test_fabric_converts_weights_and_scales_nothing(precision: str, dtype: torch.dtype) -> None:
    fabric, model, _ = fabric_with(precision)
    fabric.backward(model(torch.ones(4, 2)).mean())
    assert model.layer.weight.dtype is dtype
    assert gradient(model) == 1


def fitted(by_hand: bool, precision: str, **options: Any) -> list[float]:
    """Gradients of a Lightning module: as they are when it steps, or where it has clipped them by hand."""
    lightning = pytest.importorskip("lightning")
    from lightning.pytorch.plugins import MixedPrecision

    gradients = []

    class Module(lightning.LightningModule):  # type: ignore[misc, name-defined]
        def __init__(self) -> None:
            super().__init__()
            self.model = Seen()
            self.automatic_optimization = not by_hand

        def training_step(self, batch: list[torch.Tensor], index: int) -> torch.Tensor | None:
            loss: torch.Tensor = self.model(batch[0]).mean()
            if not by_hand:
                return loss
            self.manual_backward(loss)
            optimizer = self.optimizers()
            self.clip_gradients(optimizer, gradient_clip_val=1.0, gradient_clip_algorithm="norm")
            gradients.append(gradient(self.model))
            optimizer.step()
            gradients.append(gradient(self.model))
            return None

        def on_before_optimizer_step(self, optimizer: torch.optim.Optimizer) -> None:
            gradients.append(gradient(self.model))

        def configure_optimizers(self) -> torch.optim.Optimizer:
            return torch.optim.SGD(self.parameters(), lr=0.0)

    scaler = torch.amp.GradScaler("cpu", init_scale=1024.0)
    mixed = {"plugins": [MixedPrecision("16-mixed", "cpu", scaler=scaler)]}
    trainer = lightning.Trainer(
        accelerator="cpu", devices=1, max_steps=1, logger=False, enable_checkpointing=False, enable_progress_bar=False,
        enable_model_summary=False, **(mixed if precision == "16-mixed" else {"precision": precision}), **options,
    )  # fmt: skip
    data = torch.utils.data.DataLoader(torch.utils.data.TensorDataset(torch.ones(16, 2)), batch_size=4)
    module = Module()
    trainer.fit(module, data)
    assert set(module.model.dtypes) == {torch.float16 if precision.startswith("16") else torch.bfloat16}
    assert module.model.layer.weight.dtype is (torch.float32 if "mixed" in precision else module.model.dtypes[0])
    return gradients


@pytest.mark.filterwarnings("ignore")
def test_lightning_divides_and_unscales() -> None:
    assert fitted(False, "bf16-mixed", accumulate_grad_batches=4) == [1]
    assert fitted(False, "16-mixed") == [1]
    assert fitted(False, "16-true") == [1]


@pytest.mark.filterwarnings("ignore")
def test_lightning_clips_by_hand_what_is_scaled() -> None:
    clipped, unscaled, *_ = fitted(True, "16-mixed")
    assert clipped == pytest.approx(1 / 2**0.5, rel=1e-3)
    assert unscaled == pytest.approx(clipped / 1024, rel=1e-3)


@pytest.mark.filterwarnings("ignore")
def test_transformers_loads_weights_as_they_were_saved(tmp_path: Path) -> None:
    transformers = pytest.importorskip("transformers")
    config = transformers.LlamaConfig(
        vocab_size=16, hidden_size=8, intermediate_size=8, num_hidden_layers=1, num_attention_heads=2
    )
    transformers.LlamaForCausalLM(config).to(torch.bfloat16).save_pretrained(tmp_path)
    now = version(metadata.version("transformers")) >= LOADED_AS_SAVED.since
    loaded = transformers.AutoModelForCausalLM.from_pretrained(tmp_path)
    assert loaded.dtype is (torch.bfloat16 if now else torch.float32)
    asked = "dtype" if now else "torch_dtype"
    assert transformers.AutoModelForCausalLM.from_pretrained(tmp_path, **{asked: torch.float32}).dtype is torch.float32


@pytest.mark.filterwarnings("ignore")
def test_transformers_divides_and_keeps_weights_in_half(tmp_path: Path) -> None:
    transformers = pytest.importorskip("transformers")
    pytest.importorskip("accelerate").state.AcceleratorState._reset_state(reset_partial_state=True)
    gradients = []

    class Model(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.seen = Seen()

        def forward(self, inputs: torch.Tensor) -> dict[str, torch.Tensor]:
            return {"loss": self.seen(inputs).mean()}

    class Watch(transformers.TrainerCallback):  # type: ignore[misc, name-defined]
        def on_pre_optimizer_step(self, arguments: Any, state: Any, control: Any, model: Any, **others: Any) -> None:
            gradients.append(gradient(model))

    model = Model().to(torch.bfloat16)
    arguments = transformers.TrainingArguments(
        str(tmp_path), bf16=True, gradient_accumulation_steps=4, max_steps=1, max_grad_norm=0, use_cpu=True,
        per_device_train_batch_size=2, report_to=[], disable_tqdm=True, save_strategy="no",
    )  # fmt: skip
    data = [{"inputs": torch.ones(2)} for _ in range(8)]
    transformers.Trainer(model, arguments, train_dataset=data, callbacks=[Watch()]).train()
    assert gradients == [1]
    assert model.seen.layer.weight.dtype is torch.bfloat16
    assert set(model.seen.dtypes) == {torch.bfloat16}


@pytest.mark.filterwarnings("ignore")
def test_torchao_converts_what_its_filter_lets_through() -> None:
    float8 = pytest.importorskip("torchao.float8")

    def converted(**options: Any) -> list[bool]:
        model = nn.Sequential(nn.Linear(32, 16), nn.ReLU(), nn.Linear(16, 10))
        float8.convert_to_float8_training(model, **options)
        assert {weight.dtype for weight in model.parameters()} == {torch.float32}
        return [type(layer).__name__ == "Float8Linear" for layer in (model[0], model[2])]

    assert converted() == [True, True]
    assert converted(module_filter_fn=lambda module, name: module.out_features % 16 == 0) == [True, False]


def adapted(**options: Any) -> set[torch.dtype]:
    """The dtypes of what peft trains of a model in float16."""
    peft = pytest.importorskip("peft")
    keeps = {name: options.pop(name) for name in ("autocast_adapter_dtype",) if name in options}
    net = nn.Sequential(OrderedDict(first=nn.Linear(4, 4), last=nn.Linear(4, 4))).half()
    model = peft.get_peft_model(net, peft.LoraConfig(r=2, target_modules=["first"], **options), **keeps)
    return {parameter.dtype for parameter in model.parameters() if parameter.requires_grad}


def test_peft_makes_adapters_float32_and_copies_of_layers_not() -> None:
    assert adapted() == {torch.float32}
    assert adapted(modules_to_save=["last"]) == {torch.float32, torch.float16}
    assert adapted(autocast_adapter_dtype=False) == {torch.float16}


def test_adapters_that_are_added_have_the_dtype_of_the_weights() -> None:
    peft = pytest.importorskip("peft")
    net = nn.Sequential(OrderedDict(first=nn.Linear(4, 4))).half()
    peft.inject_adapter_in_model(peft.LoraConfig(r=2, target_modules=["first"]), net)
    assert {parameter.dtype for parameter in net.parameters() if parameter.requires_grad} == {torch.float16}


@pytest.mark.parametrize(("hook", "length"), [("training_step", 1.0), ("on_before_optimizer_step", 0.1)])
def test_lightning_runs_backward_behind_its_step(hook: str, length: float) -> None:
    lightning = pytest.importorskip("lightning")

    class Module(lightning.LightningModule):  # type: ignore[misc, name-defined]
        def __init__(self) -> None:
            super().__init__()
            self.layer = nn.Linear(4, 1, bias=False)

        def clip(self, now: str) -> None:
            if now == hook:
                nn.utils.clip_grad_norm_(self.layer.parameters(), 0.1)

        def training_step(self, batch: list[torch.Tensor], index: int) -> torch.Tensor:
            loss: torch.Tensor = self.layer(batch[0]).float().mean() * 0.5
            self.clip("training_step")
            return loss

        def on_before_optimizer_step(self, optimizer: torch.optim.Optimizer) -> None:
            self.clip("on_before_optimizer_step")

        def configure_optimizers(self) -> torch.optim.Optimizer:
            return torch.optim.SGD(self.parameters(), lr=1.0)

    module, loader = Module(), DataLoader(TensorDataset(torch.ones(8, 4)), batch_size=8)
    before = module.layer.weight.detach().clone()
    trainer = lightning.Trainer(accelerator="cpu", devices=1, precision="bf16-mixed", max_epochs=1, barebones=True)
    trainer.fit(module, loader)
    assert (module.layer.weight.detach() - before).norm().item() == pytest.approx(length, rel=1e-3)
