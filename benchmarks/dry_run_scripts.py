"""The scripts that `benchmarks.dry_run` runs: where they come from, their options, and the files they read."""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import PurePosixPath

import numpy as np

from benchmarks.random_files import (
    Writer,
    annotations,
    array,
    boxes,
    cameras,
    citations,
    compressed,
    documents,
    empty,
    flows,
    folder,
    images,
    lines,
    listed,
    made,
    pickled,
    ratings,
    rewritten,
    rings,
    small_bert,
    sounds,
    text,
    tokenizer,
    tokens,
    vocabulary,
    weights,
    written,
)


@dataclass(frozen=True)
class Script:
    """A script at `path` of a repository, run in `inside` (a folder there; None: that of the script).

    `trace` has more options of `amplint trace`.
    """

    repository: str
    path: str
    options: str = ""
    data: Mapping[str, Writer] = field(default_factory=dict)
    inside: str | None = None
    environment: Mapping[str, str] = field(default_factory=dict)
    variant: str = ""
    trace: str = ""

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
    "locuslab/convmixer-cifar10": "2d3d9b73d3ca",
    "kentaroy47/vision-transformers-cifar10": "5bb83d36018b",
    "chengyangfu/pytorch-vgg-cifar10": "9c5da95297d2",
    "HobbitLong/RepDistiller": "b84f547c5db6",
    "davidtvs/PyTorch-ENet": "e17d404e2f64",
    "sgrvinod/a-PyTorch-Tutorial-to-Object-Detection": "5d5b75968c3c",
    "qfgaohao/pytorch-ssd": "7a839cbc8c3f",
    "fatchord/WaveRNN": "83c08fdcd625",
    "auspicious3000/autovc": "c1827a60e83e",
    "seungwonpark/melgan": "aca59909f6dd",
    "karpathy/makemore": "988aa59e4d8f",
    "649453932/Chinese-Text-Classification-Pytorch": "6cb26819af7b",
    "649453932/Bert-Chinese-Text-Classification-Pytorch": "050a7b0dc75d",
    "state-spaces/s4": "e757cef57d89",
    "salesforce/awd-lstm-lm": "1d466ec58756",
    "lucidrains/PaLM-pytorch": "7164d13d5a83",
    "codertimo/BERT-pytorch": "d10dc4f9d5a6",
    "rasbt/LLMs-from-scratch": "28c65cdfbc33",
    "Diego999/pyGAT": "3664f2dc90cb",
    "weihua916/powerful-gnns": "9a2ce8ac3e99",
    "DeepGraphLearning/KnowledgeGraphEmbedding": "2e440e0f9c68",
    "XinJingHao/PPO-Continuous-Pytorch": "388113545f1e",
    "TeaPearce/Conditional_Diffusion_MNIST": "657b49854bbf",
    "ermongroup/ddim": "e8df66cf02e4",
    "VSehwag/minimal-diffusion": "ea0321eba164",
    "christiancosgrove/pytorch-spectral-normalization-gan": "12dcf945a635",
    "leftthomas/SRGAN": "7ddfdf27273c",
    "rtqichen/torchdiffeq": "657943acefa8",
    "dragen1860/MAML-Pytorch": "98a00d41724c",
    "pmixer/SASRec.pytorch": "fde8a9c08feb",
}

_WIKITEXT = {f"data/wikitext-2/{part}.txt": text(20000) for part in ("train", "valid", "test")}
_AUTHOR = ("-c", "user.name=nobody", "-c", "user.email=nobody@localhost")
_NEWS = {f"THUCNews/data/{part}.txt": lines("\u6587\u672c {}\t1", 130) for part in ("train", "dev", "test")}
_SHORT = {
    "''": "data",
    "num_workers: 32": "num_workers: 0",
    "batch_size: 16": "batch_size: 1",
    "segment_length: 16000": "segment_length: 4096",
}
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
    Script("locuslab/convmixer-cifar10", "train.py", "--batch-size 4 --hdim 32 --depth 2 --workers 0"),
    Script("kentaroy47/vision-transformers-cifar10", "train_cifar10.py", "--bs 4"),
    Script("chengyangfu/pytorch-vgg-cifar10", "main.py", "--arch vgg11_bn --half -b 4 -j 0"),
    Script("HobbitLong/RepDistiller", "train_teacher.py", "--model resnet8 --batch_size 8 --num_workers 0"),
    Script(
        "davidtvs/PyTorch-ENet",
        "main.py",
        "--height 64 --width 96 --batch-size 2 --workers 0",
        {
            **{f"data/CamVid/{part}": images(4, (64, 96)) for part in ("train", "val", "test")},
            **{f"data/CamVid/{part}annot": images(4, (64, 96), 12, 1) for part in ("train", "val", "test")},
        },
    ),
    Script(
        "sgrvinod/a-PyTorch-Tutorial-to-Object-Detection",
        "train.py",
        data={
            "pictures": images(1, (300, 300)),
            "TRAIN_images.json": listed("pictures/0000.png"),
            "TRAIN_objects.json": listed({"boxes": [[40, 40, 200, 240]], "labels": [3], "difficulties": [0]}),
        },
        trace="--max-batch 1",
    ),
    Script(
        "qfgaohao/pytorch-ssd",
        "train_ssd.py",
        "--net mb2-ssd-lite --mb2_width_mult 0.35 --datasets VOC --validation_dataset VOC --batch_size 2 "
        "--num_workers 0",
        {
            "VOC/ImageSets/Main/trainval.txt": lines("000{}", 8),
            "VOC/ImageSets/Main/test.txt": lines("000{}", 8),
            "VOC/JPEGImages": images(8, (300, 300), suffix=".jpg"),
            "VOC/Annotations": annotations,
            "models": folder,
        },
    ),
    Script(
        "fatchord/WaveRNN",
        "train_wavernn.py",
        "--batch_size 2",
        {
            "data/dataset.pkl": pickled([(str(number), 40) for number in range(60)]),
            **{f"data/mel/{number}.npy": array(80, 40) for number in range(60)},
            **{f"data/quant/{number}.npy": array(40 * 275) for number in range(60)},
        },
    ),
    Script(
        "auspicious3000/autovc",
        "main.py",
        "--len_crop 32",
        {
            "spmel/train.pkl": pickled([[name, np.ones(256, np.float32), f"{name}.npy"] for name in "abcd"]),
            **{f"spmel/{name}.npy": array(150, 80) for name in "abcd"},
        },
    ),
    Script(
        "seungwonpark/melgan",
        "trainer.py",
        "--config small.yaml --name random",
        {
            ".git": made("git", "init", "--quiet"),
            ".git/HEAD": made("git", *_AUTHOR, "commit", "--quiet", "--allow-empty", "--message", "random"),
            "small.yaml": rewritten("config/default.yaml", _SHORT),
            "data": sounds(2),
        },
        trace="--max-batch 1",
    ),
    Script("karpathy/makemore", "makemore.py", "--device cuda --batch-size 4 --num-workers 0"),
    Script("649453932/Chinese-Text-Classification-Pytorch", "run.py", "--model TextRNN --embedding random", _NEWS),
    Script(
        "649453932/Bert-Chinese-Text-Classification-Pytorch",
        "run.py",
        "--model bert",
        {
            **_NEWS,
            "bert_pretrain/vocab.txt": written("[PAD]\n[UNK]\n[CLS]\n[SEP]\n[MASK]\n\u6587\n\u672c\n1\n2\n"),
            "bert_pretrain/bert_config.json": small_bert,
            "bert_pretrain/pytorch_model.bin": weights,
            "THUCNews/saved_dict": folder,
        },
    ),
    Script(
        "state-spaces/s4",
        "example.py",
        "--d_model 16 --n_layers 2 --batch_size 2 --num_workers 0",
    ),
    Script(
        "salesforce/awd-lstm-lm",
        "main.py",
        "--emsize 32 --nhid 32 --batch_size 4 --bptt 16 --data words/",
        {f"words/{part}.txt": text(20000) for part in ("train", "valid", "test")},
    ),
    Script(
        "lucidrains/PaLM-pytorch",
        "train.py",
        data={"examples/enwik8_deepspeed/data/enwik8.gz": compressed(95_000_000)},
        trace="--max-batch 1",
    ),
    Script(
        "codertimo/BERT-pytorch",
        "bert.py",
        "-c corpus.txt -v vocabulary -o output/bert -hs 32 -l 2 -a 2 -b 8 -w 0",
        {
            "bert.py": written("from bert_pytorch.__main__ import train; train()\n"),
            "corpus.txt": lines("some words {}\tand others {}", 64),
            "vocabulary": made(
                *("python", "-c", "from bert_pytorch.dataset.vocab import build; build()"),
                *("-c", "corpus.txt", "-o", "vocabulary"),
            ),
            "output": folder,
        },
    ),
    Script(
        "rasbt/LLMs-from-scratch",
        "ch05/01_main-chapter-code/gpt_train.py",
        data={"the-verdict.txt": text(20000), "tiktoken.py": tokenizer},
        trace="--max-batch 1",
    ),
    Script(
        "Diego999/pyGAT",
        "train.py",
        "--nb_heads 2",
        {"data/cora/cora.content": citations(1600)},
    ),
    Script(
        "weihua916/powerful-gnns",
        "main.py",
        "--batch_size 4 --iters_per_epoch 2",
        {"dataset/MUTAG/MUTAG.txt": rings(60)},
    ),
    Script(
        "DeepGraphLearning/KnowledgeGraphEmbedding",
        "codes/run.py",
        "--cuda --do_train --data_path data/wn18rr --model RotatE -n 16 -b 16 -d 16 -de -adv -cpu 1 -save out",
        inside="",
    ),
    Script("XinJingHao/PPO-Continuous-Pytorch", "main.py", "--T_horizon 128"),
    Script("TeaPearce/Conditional_Diffusion_MNIST", "script.py", trace="--max-batch 2"),
    Script("ermongroup/ddim", "main.py", "--config cifar10.yml --doc random --ni", trace="--max-batch 2"),
    Script("VSehwag/minimal-diffusion", "main.py", "--arch UNet --dataset cifar10 --class-cond --batch-size 2"),
    Script("christiancosgrove/pytorch-spectral-normalization-gan", "main.py", "--batch_size 2"),
    Script(
        "leftthomas/SRGAN",
        "train.py",
        "--crop_size 32",
        {f"data/DIV2K_{part}_HR": images(8, (64, 64)) for part in ("train", "valid")},
        trace="--max-batch 2",
    ),
    Script(
        "rtqichen/torchdiffeq",
        "examples/odenet_mnist.py",
        "--batch_size 4 --test_batch_size 4",
        inside="",
        environment={"RANDOM_IMAGES": "8"},
    ),
    Script(
        "dragen1860/MAML-Pytorch",
        "omniglot_train.py",
        "--task_num 2 --k_qry 2",
        {"omniglot/omniglot.npy": array(1220, 20, 28, 28, 1)},
    ),
    Script(
        "pmixer/SASRec.pytorch",
        "python/main.py",
        "--dataset random --train_dir out --batch_size 4 --maxlen 20",
        {"data/random.txt": ratings(40)},
    ),
]
