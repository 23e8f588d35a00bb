"""The scripts that `benchmarks.dry_run` runs: where they come from, their options, and the files they read."""

from __future__ import annotations

import gzip
import json
import pickle
import shlex
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath

import numpy as np
from PIL import Image

Writer = Callable[[Path], None]
"""Writes a file of random data."""


def text(words: int, vocabulary: int = 200) -> Writer:
    """Lines of ten words."""

    def write(path: Path) -> None:
        numbers = np.random.default_rng(0).integers(0, vocabulary, (words // 10, 10))
        path.write_text("\n".join(" ".join(f"word{number}" for number in line) for line in numbers) + "\n")

    return write


def tokens(count: int, vocabulary: int) -> Writer:
    """Unsigned numbers of 16 bits below `vocabulary`."""

    def write(path: Path) -> None:
        np.random.default_rng(0).integers(0, vocabulary, count).astype(np.uint16).tofile(path)

    return write


def images(count: int, size: tuple[int, int], values: int = 256, channels: int = 3, suffix: str = ".png") -> Writer:
    """A folder of images of `size` (height, width), whose pixels lie below `values`, named 0000, 0001, ..."""

    def write(path: Path) -> None:
        path.mkdir(exist_ok=True)
        for number in range(count):
            shape = size if channels == 1 else (*size, channels)
            pixels = np.random.default_rng(number).integers(0, values, shape, dtype=np.uint8)
            Image.fromarray(pixels).save(path / f"{number:04}{suffix}")

    return write


def flows(count: int, size: tuple[int, int]) -> Writer:
    """A folder of pairs of images and their optical flow, in Middlebury's format."""

    def write(path: Path) -> None:
        images(2 * count, size, suffix=".ppm")(path)
        for number in range(count):
            flow = np.random.default_rng(number).normal(size=(*size, 2)).astype(np.float32)
            head = np.float32(202021.25).tobytes() + np.int32(size[::-1]).tobytes()
            (path / f"{number:04}.flo").write_bytes(head + flow.tobytes())

    return write


def cameras(path: Path) -> None:
    """A scene in the layout of NeRF's synthetic ones: eight views for each part."""
    for part in ("train", "val", "test"):
        images(8, (16, 16), channels=4)(path.parent / part)
        frames = [{"file_path": f"{part}/{number:04}", "transform_matrix": np.eye(4).tolist()} for number in range(8)]
        (path.parent / f"transforms_{part}.json").write_text(json.dumps({"camera_angle_x": 0.7, "frames": frames}))


def boxes(path: Path) -> None:
    """A data set in YOLO's layout: eight images with a box each, and the file that describes it."""
    images(8, (64, 64))(path.parent / "images")
    labels = path.parent / "labels"
    labels.mkdir()
    for number in range(8):
        (labels / f"{number:04}.txt").write_text("0 0.5 0.5 0.4 0.4\n")
    path.write_text(f"path: {path.parent.resolve()}\ntrain: images\nval: images\nnames: [thing]\n")


def vocabulary(path: Path) -> None:
    """A tokenizer of the 256 bytes and nanochat's first special token, pickled, and the length of each token."""
    import tiktoken
    import torch

    ranks = {bytes([number]): number for number in range(256)}
    path.write_bytes(
        pickle.dumps(tiktoken.Encoding("bytes", pat_str=".", mergeable_ranks=ranks, special_tokens={"<|bos|>": 256}))
    )
    torch.save(torch.tensor([1] * 256 + [0]), path.parent / "token_bytes.pt")


def documents(path: Path) -> None:
    """A table with a column of texts."""
    from pyarrow import parquet, table

    parquet.write_table(table({"text": ["some words of a document " * 20] * 400}), path, row_group_size=100)


def compressed(size: int) -> Writer:
    """A file of `size` bytes, gzip."""

    def write(path: Path) -> None:
        with gzip.open(path, "wb", compresslevel=1) as file:
            file.write(b"some words of a text " * (size // 21 + 1))

    return write


def empty(path: Path) -> None:
    """An empty file."""
    path.touch()


def folder(path: Path) -> None:
    """An empty folder."""
    path.mkdir(exist_ok=True)


@dataclass(frozen=True)
class Script:
    """A script at `path` of a repository, run in `inside` (a folder there; None: that of the script)."""

    repository: str
    path: str
    options: str = ""
    data: Mapping[str, Writer] = field(default_factory=dict)
    inside: str | None = None
    environment: Mapping[str, str] = field(default_factory=dict)
    variant: str = ""

    @property
    def name(self) -> str:
        """What the script is called in the table, and its files."""
        stem = self.path.removesuffix(".py").removesuffix("/main").replace("/", "-")
        return "-".join(filter(None, [self.repository.partition("/")[2], stem, self.variant]))

    @property
    def folder(self) -> PurePosixPath:
        """Where the script is started."""
        return PurePosixPath(self.path).parent if self.inside is None else PurePosixPath(self.inside)

    @property
    def command(self) -> list[str]:
        """The script, as seen from there, and its options."""
        return [str(PurePosixPath(self.path).relative_to(self.folder)), *shlex.split(self.options)]


COMMITS = {
    "pytorch/examples": "77f55b912142",
    "karpathy/nanoGPT": "3adf61e154c3",
    "karpathy/llama2.c": "350e04fe3543",
    "rosinality/vq-vae-2-pytorch": "ef5f67c46f93",
    "milesial/Pytorch-UNet": "21d7850f2af3",
    "sthalles/SimCLR": "1848fc934ad8",
    "princeton-vl/RAFT": "2888e15a51fa",
    "facebookresearch/mae": "efb2a8062c20",
    "facebookresearch/dino": "7c446df5b9f4",
    "facebookresearch/barlowtwins": "8e8d284ca0bc",
    "facebookresearch/ConvNeXt": "048efcea897d",
    "facebookresearch/DiT": "ed81ce222909",
    "facebookresearch/detr": "29901c51d7fe",
    "fundamentalvision/Deformable-DETR": "11169a60c333",
    "huggingface/pytorch-image-models": "aa4b5850c154",
    "HobbitLong/SupContrast": "66a8fe53880d",
    "KellerJordan/cifar10-airbench": "f1c599c4af24",
    "KellerJordan/modded-nanogpt": "f411b3d346aa",
    "akamaster/pytorch_resnet_cifar10": "d5489e8995e8",
    "davda54/sam": "3c3afdbd71cf",
    "dome272/Diffusion-Models-pytorch": "be352208d057",
    "eriklindernoren/PyTorch-GAN": "36d3c77e5ff2",
    "eriklindernoren/PyTorch-YOLOv3": "1d621c8489e2",
    "graykode/nlp-tutorial": "d05e31ec81d5",
    "jadore801120/attention-is-all-you-need-pytorch": "132907dd272e",
    "karpathy/minGPT": "37baab71b9ab",
    "karpathy/nanochat": "92d63d4e8bb4",
    "kuangliu/pytorch-cifar": "49b7aa97b0c1",
    "labmlai/annotated_deep_learning_paper_implementations": "e6b3c8a6a2cd",
    "lucidrains/vit-pytorch": "69d24fe9e302",
    "lucidrains/x-transformers": "9252ed783802",
    "openai/guided-diffusion": "22e0df818350",
    "rosinality/stylegan2-pytorch": "bef283a1c240",
    "ultralytics/yolov5": "5081342f04fb",
    "vwxyzjn/cleanrl": "fe8d8a03c41a",
    "weiaicunzai/pytorch-cifar100": "11d8418f415b",
    "yenchenlin/nerf-pytorch": "63a5a630c9ab",
}

_WIKITEXT = {f"data/wikitext-2/{part}.txt": text(20000) for part in ("train", "valid", "test")}
_SMALL_GPT = "--block_size=32 --n_layer=2 --n_head=2 --n_embd=64 --batch_size=4 --gradient_accumulation_steps=2"
_SMALL_LLAMA = "--max_seq_len=32 --n_layers=2 --n_heads=2 --n_kv_heads=2 --dim=64 --batch_size=4"

SCRIPTS = [
    Script("pytorch/examples", "mnist/main.py", "--batch-size 8"),
    Script("pytorch/examples", "mnist_rnn/main.py", "--batch-size 8 --accel"),
    Script("pytorch/examples", "mnist_forward_forward/main.py", "--train_size 32 --test_size 32"),
    Script("pytorch/examples", "vae/main.py", "--batch-size 8"),
    Script("pytorch/examples", "dcgan/main.py", "--dataset cifar10 --dataroot data --batchSize 8 --accel"),
    Script("pytorch/examples", "siamese_network/main.py", "--batch-size 4"),
    Script("pytorch/examples", "imagenet/main.py", "--gpu 0 --batch-size 4 --workers 1 data"),
    Script(
        "pytorch/examples",
        "word_language_model/main.py",
        "--accel --use-optimizer --batch_size 4 --emsize 32 --nhid 32",
        _WIKITEXT,
        variant="lstm",
    ),
    Script(
        "pytorch/examples",
        "word_language_model/main.py",
        "--accel --use-optimizer --batch_size 4 --emsize 32 --nhid 32 --model Transformer",
        _WIKITEXT,
        variant="transformer",
    ),
    Script("pytorch/examples", "distributed/ddp-tutorial-series/single_gpu.py", "1 1"),
    Script(
        "karpathy/nanoGPT",
        "train.py",
        f"{_SMALL_GPT} --dtype=float16 --eval_iters=1 --dataset=random",
        {f"data/random/{part}.bin": tokens(4096, 50257) for part in ("train", "val")},
    ),
    Script(
        "karpathy/llama2.c",
        "train.py",
        f"{_SMALL_LLAMA} --dtype=float16 --eval_iters=1 --gradient_accumulation_steps=2",
        {f"data/TinyStories_all_data/data{shard:02}.bin": tokens(4096, 32000) for shard in range(2)},
    ),
    Script(
        "rosinality/vq-vae-2-pytorch",
        "train_vqvae.py",
        "--n_gpu 1 --size 32 data",
        {"sample": folder, "checkpoint": folder},
    ),
    Script(
        "milesial/Pytorch-UNet",
        "train.py",
        "--amp --batch-size 2 --scale 1",
        {"data/imgs": images(40, (32, 32)), "data/masks": images(40, (32, 32), values=2, channels=1)},
    ),
    Script("sthalles/SimCLR", "run.py", "-data data -dataset-name cifar10 --fp16-precision -b 8 -j 1"),
    Script(
        "princeton-vl/RAFT",
        "train.py",
        "--stage chairs --mixed_precision --gpus 0 --image_size 128 160 --batch_size 1 --iters 4",
        {"datasets/FlyingChairs_release/data": flows(8, (192, 256))},
    ),
    Script("facebookresearch/mae", "main_pretrain.py", "--model mae_vit_base_patch16 --batch_size 2 --data_path data"),
    Script(
        "facebookresearch/dino",
        "main_dino.py",
        "--arch vit_tiny --out_dim 64 --local_crops_number 2 --batch_size_per_gpu 2 --num_workers 1 --data_path data",
        {"hub/facebookresearch_xcit_main/hubconf.py": empty},
        environment={"TORCH_HOME": "."},
    ),
    Script("facebookresearch/barlowtwins", "main.py", "data --batch-size 4 --projector 64-64 --workers 1"),
    Script(
        "facebookresearch/ConvNeXt",
        "main.py",
        "--data_set CIFAR --batch_size 2 --use_amp true --update_freq 2 --model_ema true --num_workers 1",
    ),
    Script("facebookresearch/DiT", "train.py", "--data-path data --model DiT-S/8 --global-batch-size 2"),
    Script("facebookresearch/detr", "main.py", "--coco_path data --batch_size 1", {"data": folder}),
    Script("fundamentalvision/Deformable-DETR", "main.py", "--coco_path data --batch_size 1", {"data": folder}),
    Script(
        "huggingface/pytorch-image-models",
        "train.py",
        "--data-dir data --train-split train --val-split train --model vit_tiny_patch16_224 --model-kwargs img_size=32 "
        "--img-size 32 -b 4 --num-classes 2 --amp --model-ema --workers 1",
        {"data/train/one": images(8, (32, 32)), "data/train/two": images(8, (32, 32))},
    ),
    Script("HobbitLong/SupContrast", "main_supcon.py", "--model resnet18 --batch_size 8 --num_workers 1"),
    Script(
        "KellerJordan/cifar10-airbench",
        "airbench94_muon.py",
        data={"cifar10": folder},
        environment={"RANDOM_IMAGES": "4096"},
    ),
    Script(
        "KellerJordan/modded-nanogpt", "train_gpt.py", environment={"RANK": "0", "LOCAL_RANK": "0", "WORLD_SIZE": "1"}
    ),
    Script("akamaster/pytorch_resnet_cifar10", "trainer.py", "--arch resnet20 --half -b 16 -j 1"),
    Script("davda54/sam", "example/train.py", "--batch_size 8 --width_factor 1 --threads 1"),
    Script("dome272/Diffusion-Models-pytorch", "ddpm.py"),
    Script("eriklindernoren/PyTorch-GAN", "implementations/wgan_gp/wgan_gp.py", "--batch_size 8"),
    Script(
        "eriklindernoren/PyTorch-GAN",
        "implementations/pix2pix/pix2pix.py",
        "--batch_size 1 --n_cpu 1 --sample_interval 1000",
        {"../../data/facades/train": images(8, (256, 512)), "../../data/facades/val": images(8, (256, 512))},
    ),
    Script("eriklindernoren/PyTorch-YOLOv3", "pytorchyolo/train.py", inside=""),
    Script("graykode/nlp-tutorial", "4-3.Bi-LSTM(Attention)/Bi-LSTM(Attention).py"),
    Script("graykode/nlp-tutorial", "5-1.Transformer/Transformer.py"),
    Script("jadore801120/attention-is-all-you-need-pytorch", "train.py", "-data_pkl data.pkl -output_dir out"),
    Script("karpathy/minGPT", "projects/adder/adder.py", "--trainer.batch_size=8"),
    Script(
        "karpathy/nanochat",
        "scripts/base_train.py",
        "--depth 2 --head-dim 32 --aspect-ratio 32 --max-seq-len 64 --device-batch-size 2 --total-batch-size 256 "
        "--num-iterations 10 --eval-every -1 --core-metric-every -1 --sample-every -1 --window-pattern L",
        {
            "data/tokenizer/tokenizer.pkl": vocabulary,
            **{f"data/base_data_climbmix/shard_{number:05}.parquet": documents for number in range(2)},
        },
        inside="",
        environment={"NANOCHAT_BASE_DIR": "data"},
    ),
    Script("kuangliu/pytorch-cifar", "main.py"),
    Script("labmlai/annotated_deep_learning_paper_implementations", "labml_nn/gan/dcgan/__init__.py", inside=""),
    Script("lucidrains/vit-pytorch", "train_vit_decorr.py"),
    Script("lucidrains/x-transformers", "train_copy.py"),
    Script(
        "lucidrains/x-transformers",
        "train_enwik8.py",
        "--seq_len 64 --batch_size 2",
        {"data/enwik8.gz": compressed(95_000_000)},
    ),
    Script(
        "openai/guided-diffusion",
        "scripts/image_train.py",
        "--data_dir data --image_size 64 --num_channels 32 --num_res_blocks 1 --batch_size 2 --use_fp16 True",
        {"data": images(8, (64, 64))},
        inside="",
    ),
    Script("rosinality/stylegan2-pytorch", "train.py", "--batch 2 --size 32 data"),
    Script(
        "ultralytics/yolov5",
        "train.py",
        "--img 64 --batch-size 2 --weights '' --cfg yolov5n.yaml --workers 1 --data random/data.yaml --noautoanchor "
        "--noplots",
        {"random/data.yaml": boxes, "settings/Arial.ttf": empty},
        environment={"YOLOV5_CONFIG_DIR": "settings", "YOLO_AUTOINSTALL": "false", "YOLO_OFFLINE": "true"},
    ),
    Script("vwxyzjn/cleanrl", "cleanrl/ppo.py", "--num-envs 1 --num-steps 16", inside=""),
    Script("vwxyzjn/cleanrl", "cleanrl/dqn.py", "--learning-starts 20 --batch-size 8 --buffer-size 100", inside=""),
    Script("weiaicunzai/pytorch-cifar100", "train.py", "-net resnet18 -gpu -b 8"),
    Script(
        "yenchenlin/nerf-pytorch",
        "run_nerf.py",
        "--expname random --datadir data --dataset_type blender --no_batching --white_bkgd --N_rand 32 --N_samples 8 "
        "--netwidth 32 --testskip 1",
        {"data/scene": cameras},
    ),
]
