"""The public scripts and repositories that `benchmarks.lint` lints, with the commits its numbers were taken at."""

from __future__ import annotations

COMPARED = (
    "karpathy/nanoGPT/train.py",
    "ultralytics/yolov5/train.py",
    "huggingface/pytorch-image-models/train.py",
)
"""The scripts that are linted by amplint, torchfix and ruff, and parsed by libcst."""

TREES = (
    "huggingface/pytorch-image-models",
    "huggingface/transformers",
    "WongKinYiu/yolov9",
    "bytedance/ibot",
    "LAION-AI/CLAP",
    "princeton-vl/DPVO",
    "huggingface/diffusers",
    "k2-fsa/icefall",
)
"""The repositories that are linted as a whole: two large ones, then six that amplint has been slow on."""

TRAINING = (
    *COMPARED,
    "ultralytics/yolov5/segment/train.py",
    "WongKinYiu/yolov9/train_dual.py",
    "WongKinYiu/yolov9/segment/train_dual.py",
    "bytedance/ibot/main_ibot.py",
    "LAION-AI/CLAP/src/laion_clap/training/train.py",
    "princeton-vl/DPVO/train.py",
    "k2-fsa/icefall/egs/librispeech/ASR/zipformer/train.py",
    "princeton-vl/RAFT/train.py",
    "princeton-vl/RAFT-Stereo/train_stereo.py",
    "facebookresearch/barlowtwins/main.py",
    "facebookresearch/ConvNeXt/engine.py",
    "facebookresearch/dino/main_dino.py",
    "facebookresearch/jepa/app/vjepa/train.py",
    "facebookresearch/mae/engine_pretrain.py",
    "facebookresearch/moco-v3/main_moco.py",
    "facebookresearch/SLIP/main.py",
    "bubbliiiing/unet-pytorch/train.py",
    "guochengqian/PointNeXt/examples/segmentation/main.py",
    "libffcv/ffcv-imagenet/train_imagenet.py",
    "MCG-NJU/VideoMAE/engine_for_pretraining.py",
    "milesial/Pytorch-UNet/train.py",
    "NVIDIA/flowtron/train.py",
    "NVlabs/NVAE/train.py",
    "OFA-Sys/Chinese-CLIP/cn_clip/training/train.py",
    "p0p4k/vits2_pytorch/train.py",
    "uni-medical/SAM-Med3D/train.py",
    "YuanGongND/ast/src/traintest.py",
)
"""The scripts whose executions of statements are counted."""

COMMITS = {
    "bubbliiiing/unet-pytorch": "5bcd6b4c8326",
    "bytedance/ibot": "da316d82636a",
    "facebookresearch/barlowtwins": "8e8d284ca0bc",
    "facebookresearch/ConvNeXt": "048efcea897d",
    "facebookresearch/dino": "7c446df5b9f4",
    "facebookresearch/jepa": "51c59d518fc6",
    "facebookresearch/mae": "efb2a8062c20",
    "facebookresearch/moco-v3": "c349e6e24f40",
    "facebookresearch/SLIP": "c6faf5d03cbf",
    "guochengqian/PointNeXt": "02341db1a21f",
    "huggingface/diffusers": "58eb52c0803e",
    "huggingface/pytorch-image-models": "aa4b5850c154",
    "huggingface/transformers": "5.23.0",
    "k2-fsa/icefall": "36e0420c7e3e",
    "karpathy/nanoGPT": "3adf61e154c3",
    "LAION-AI/CLAP": "1fd4c37df5ff",
    "libffcv/ffcv-imagenet": "4dd291a12209",
    "MCG-NJU/VideoMAE": "14ef8d856287",
    "milesial/Pytorch-UNet": "21d7850f2af3",
    "NVIDIA/flowtron": "d149bc466b83",
    "NVlabs/NVAE": "9fc1a288fb83",
    "OFA-Sys/Chinese-CLIP": "31863c707501",
    "p0p4k/vits2_pytorch": "1f4f37905681",
    "princeton-vl/DPVO": "859bbbfdac6c",
    "princeton-vl/RAFT": "2888e15a51fa",
    "princeton-vl/RAFT-Stereo": "6068c1a26f84",
    "ultralytics/yolov5": "5081342f04fb",
    "uni-medical/SAM-Med3D": "f3de1fa10da9",
    "WongKinYiu/yolov9": "5b1ea9a8b3f0",
    "YuanGongND/ast": "31088be8a3f6",
}
"""Of transformers, which is too large to be fetched everywhere, the released package stands in src/."""
