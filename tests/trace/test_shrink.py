"""Data loaders that give less: smaller batches in epochs of the same length, and smaller images with their masks."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
import torch
from torch.utils.data import BatchSampler, DataLoader, Dataset, IterableDataset, SequentialSampler, TensorDataset

import amplint.trace
from amplint.trace.shrink import shrunk
from amplint.trace.window import Window
from tests.conftest import Command

Told = list[str]


@pytest.fixture
def told() -> Told:
    """What was said of loaders."""
    return []


class Photographs(Dataset[Any]):
    """What ImageNet's folder gives, somewhat smaller."""

    def __len__(self) -> int:
        return 21

    def __getitem__(self, index: int) -> tuple[torch.Tensor, int]:
        return torch.full((3, 64, 64), float(index)), index % 10


class Streets(Dataset[Any]):
    """Photographs and their masks, wider than high."""

    def __len__(self) -> int:
        return 4

    def __getitem__(self, index: int) -> dict[str, Any]:
        image = torch.arange(32.0).repeat(3, 16, 1)
        return {
            "image": image,
            "mask": image[0].long(),
            "edges": image[:1] > 7,
            "name": "street",
            "boxes": torch.ones(3, 4),
        }


class Stream(IterableDataset[Any]):
    """Samples one after the other."""

    def __iter__(self) -> Iterator[torch.Tensor]:
        return iter(torch.arange(10.0))


def shrinking(told: Told, batch: int | None = None, image: int | None = None) -> Any:
    """The context, outside of a watched run."""
    return shrunk(batch, image, told.append, amplint.trace.watch().paused)


@pytest.mark.parametrize("workers", [0, 2])
def test_batches_of_photographs(told: Told, workers: int) -> None:
    whole = [len(labels) for _, labels in DataLoader(Photographs(), batch_size=8)]
    with shrinking(told, 2, 16):
        for drop_last in (False, True):
            loader = DataLoader(
                Photographs(), batch_size=8, shuffle=True, num_workers=workers, drop_last=drop_last, pin_memory=False
            )
            batches = list(loader)
            assert len(batches) == len(loader) == len(whole) - drop_last
            assert {(images.shape, labels.shape) for images, labels in batches} == {((2, 3, 16, 16), (2,))}
    assert told == []


WHOLE = [[0, 1, 2, 3], [4, 5, 6], [7]]
SAMPLED: dict[str, dict[str, Any]] = {
    "a sampler": {"batch_size": 3, "sampler": SequentialSampler(range(8))},
    "batches of indices": {"batch_sampler": BatchSampler(SequentialSampler(range(8)), 3, False)},
    "batches in a list": {"batch_sampler": WHOLE},
}


@pytest.mark.parametrize("kind", SAMPLED)
def test_samplers_of_all_kinds(told: Told, kind: str) -> None:
    whole = list(DataLoader(range(8), **SAMPLED[kind]))
    with shrinking(told, 2):
        loader = DataLoader(range(8), **SAMPLED[kind])
        assert [batch.tolist() for batch in loader] == [batch.tolist()[:2] for batch in whole]
        assert len(loader) == len(whole)
    assert told == []


def test_a_sampler_that_gives_batches_to_the_dataset(told: Told) -> None:
    data = TensorDataset(torch.arange(10))
    with shrinking(told, 3):
        batches = BatchSampler(SequentialSampler(data), 4, False)
        assert [batch.tolist() for (batch,) in DataLoader(data, sampler=batches, batch_size=None)] == [
            [0, 1, 2],
            [4, 5, 6],
            [8, 9],
        ]


def test_streams_go_on_where_they_were(told: Told) -> None:
    with shrinking(told, 4):
        assert [len(batch) for batch in DataLoader(Stream(), batch_size=8)] == [4, 4, 2]
        assert [len(batch) for batch in DataLoader(Stream(), batch_size=8, drop_last=True)] == [4, 4]
        assert [len(batch) for batch in DataLoader(Stream(), batch_size=2)] == [2] * 5


def test_what_stays_as_it_is_is_told(told: Told) -> None:
    with shrinking(told, 2, 16):
        list(DataLoader(Stream(), batch_size=None))
    assert told[0].startswith("test_shrink.py:")
    assert ": --max-batch leaves this DataLoader as it is" in told[0]
    assert told[1].startswith("--image-size changed nothing")
    told.clear()
    with shrinking(told, 2):
        pass
    assert told == ["--max-batch changed nothing: no DataLoader was used"]


def test_masks_go_along_with_images(told: Told) -> None:
    with shrinking(told, None, 8):
        (batch,) = DataLoader(Streets(), batch_size=4)
    assert batch["image"].shape == (4, 3, 4, 8)
    assert batch["image"][0, 0, 0].tolist() == batch["mask"][0, 0].tolist() == [0, 4, 8, 12, 16, 20, 24, 28]
    assert (batch["mask"].shape, batch["mask"].dtype) == ((4, 4, 8), torch.int64)
    assert (batch["edges"].shape, batch["edges"].dtype) == ((4, 1, 4, 8), torch.bool)
    assert (batch["name"], batch["boxes"].shape) == (["street"] * 4, (4, 3, 4))


@pytest.mark.parametrize(
    ("tensor", "shape"),
    [
        (torch.ones(2, 32, 32, 3), (2, 8, 8, 3)),
        (torch.ones(2, 3, 32, 32, dtype=torch.uint8), (2, 3, 8, 8)),
        (torch.ones(2, 3, 8, 4), (2, 3, 8, 4)),
        (torch.ones(2, 16, 32), (2, 16, 32)),
        (torch.ones(2, 12, 32, 32, dtype=torch.int64), (2, 12, 32, 32)),
        (torch.ones(2, 1, 100, 30), (2, 1, 8, 2)),
    ],
)
def test_which_tensors_are_images(told: Told, tensor: torch.Tensor, shape: tuple[int, ...]) -> None:
    with shrinking(told, None, 8):
        ((batch,),) = DataLoader(TensorDataset(tensor), batch_size=2)
    assert batch.shape == shape


SCRIPT = """\
import torch
from torch.utils.data import DataLoader, TensorDataset
data = DataLoader(TensorDataset(torch.ones(16, 3, 32, 32)), batch_size=8, pin_memory=True)
model = torch.nn.Conv2d(3, 1, 3).cuda()
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for (images,) in data:
    print(*images.shape, len(data))
    with torch.autocast("cuda"):
        loss = model(images.cuda()).float().mean()
    loss.backward()
    optimizer.step()
"""


def test_the_command_shrinks(amplint: Command, tmp_path: Any) -> None:
    script = tmp_path / "train.py"
    script.write_text(SCRIPT)
    ran = amplint("trace", "--dry-run", "--max-batch", "2", "--image-size", "8", "--skip", "0", str(script))
    assert ran.status == 0, ran.err
    assert ran.out == "2 3 8 8 2\n" * 2
    assert "index_select" not in ran.err
    assert "Warning" not in ran.err


def test_a_window_knows_where_it_ends() -> None:
    assert (Window(3, 1, 1).end, Window(2, 0, 10).end, Window().end) == (4, 11, None)
