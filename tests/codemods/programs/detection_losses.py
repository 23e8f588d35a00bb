"""A detector gives a dictionary of losses while it trains, and boxes with scores when it is evaluated."""

import torch
import torch.nn.functional as F
from torch import nn

losses = []


class Detector(nn.Module):
    def __init__(self, cells=8, width=12):
        super().__init__()
        self.backbone = nn.Sequential(
            nn.Conv2d(1, width, 3, stride=2, padding=1), nn.BatchNorm2d(width), nn.Softplus()
        )
        self.objectness = nn.Conv2d(width, 1, 1)
        self.boxes = nn.Conv2d(width, 4, 1)
        self.cells = cells

    def forward(self, images, targets=None):
        features = self.backbone(images)
        scores, boxes = self.objectness(features), self.boxes(features)
        if self.training:
            return self.compute_losses(scores, boxes, targets)
        best = scores.flatten(1).argmax(1)
        chosen = boxes.flatten(2)[torch.arange(len(best)), :, best]
        return [{"box": box, "score": score} for box, score in zip(chosen, scores.flatten(1).max(1)[0].sigmoid())]

    def compute_losses(self, scores, boxes, targets):
        where = torch.stack([target["cell"] for target in targets])
        wanted = torch.stack([target["box"] for target in targets])
        hit = F.one_hot(where, self.cells**2).float()
        found = boxes.flatten(2)[torch.arange(len(where)), :, where]
        return {
            "loss_objectness": F.binary_cross_entropy_with_logits(scores.flatten(1), hit),
            "loss_box_reg": F.smooth_l1_loss(found, wanted, beta=0.1),
        }


def collate(seed, count=8):
    rng = torch.Generator().manual_seed(seed)
    images = 0.1 * torch.randn(count, 1, 16, 16, generator=rng)
    targets = []
    for image in images:
        x, y = (torch.rand(2, generator=rng) * 10).long().tolist()
        size = 4
        image[0, y : y + size, x : x + size] += 1
        centre = (y + size // 2) // 2 * 8 + (x + size // 2) // 2
        targets.append({"cell": torch.tensor(centre), "box": torch.tensor([x, y, x + size, y + size]) / 16})
    return images, targets


def train_one_epoch(model, optimizer, epoch):
    model.train()
    for i in range(10):
        images, targets = collate(epoch * 10 + i)
        loss_dict = model(images, targets)
        total = sum(loss for loss in loss_dict.values())
        loss_value = total.item()
        if loss_value != loss_value:
            raise SystemExit(f"Loss is {loss_value}, stopping training: {loss_dict}")

        optimizer.zero_grad()
        total.backward()
        optimizer.step()
        losses.append(loss_value)


@torch.inference_mode()
def evaluate(model):
    model.eval()
    images, targets = collate(777)
    results = model(images)
    return sum(F.l1_loss(r["box"].float(), t["box"]).item() for r, t in zip(results, targets)) / len(targets)


if __name__ == "__main__":
    torch.manual_seed(43)
    detector = Detector()
    params = [p for p in detector.parameters() if p.requires_grad]
    optimizer = torch.optim.SGD(params, lr=0.02, momentum=0.9, weight_decay=1e-4)
    scheduler = torch.optim.lr_scheduler.MultiStepLR(optimizer, milestones=[3, 4], gamma=0.3)
    for epoch in range(5):
        train_one_epoch(detector, optimizer, epoch)
        scheduler.step()
        print(epoch, evaluate(detector))
