"""Lightning's Trainer with a validation, clipping and accumulation."""

import sys

import lightning
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset


class Classifier(lightning.LightningModule):
    """Two layers."""

    def __init__(self) -> None:
        super().__init__()
        self.body = nn.Sequential(nn.Linear(8, 16), nn.GELU())
        self.head = nn.Linear(16, 4)

    def training_step(self, batch, index):
        inputs, targets = batch
        return nn.functional.cross_entropy(self.head(self.body(inputs)), targets)

    def validation_step(self, batch, index):
        self.log("loss", self.training_step(batch, index))

    def configure_optimizers(self):
        return torch.optim.AdamW(self.parameters())


lightning.seed_everything(0)
model = Classifier()
if "--spoil" in sys.argv:
    model.head.weight.data.fill_(1e6)
loader = DataLoader(TensorDataset(torch.randn(24, 8), torch.randint(0, 4, (24,))), batch_size=4)
gpu = torch.cuda.is_available()
trainer = lightning.Trainer(
    accelerator="gpu" if gpu else "cpu",
    devices=1,
    precision="16-mixed" if gpu else "bf16-mixed",
    max_steps=3,
    accumulate_grad_batches=2,
    gradient_clip_val=1.0,
    logger=False,
    enable_checkpointing=False,
    enable_progress_bar=False,
    enable_model_summary=False,
)
trainer.fit(model, loader, loader)
