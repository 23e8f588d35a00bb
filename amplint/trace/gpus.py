"""GPUs that a dry run can pretend. Source: NVIDIA's data sheets and its list of compute capabilities."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Gpu:
    """`memory` is in GiB, as sold; `capability` decides about bfloat16, which is native from (8, 0) on."""

    name: str
    memory: int
    capability: tuple[int, int]
    multiprocessors: int


GPUS = {
    "p100": Gpu("Tesla P100-PCIE-16GB", 16, (6, 0), 56),
    "v100": Gpu("Tesla V100-SXM2-32GB", 32, (7, 0), 80),
    "t4": Gpu("Tesla T4", 16, (7, 5), 40),
    "a100": Gpu("NVIDIA A100-SXM4-80GB", 80, (8, 0), 108),
    "rtx3090": Gpu("NVIDIA GeForce RTX 3090", 24, (8, 6), 82),
    "rtx4090": Gpu("NVIDIA GeForce RTX 4090", 24, (8, 9), 128),
    "l4": Gpu("NVIDIA L4", 24, (8, 9), 58),
    "h100": Gpu("NVIDIA H100 80GB HBM3", 80, (9, 0), 132),
    "h200": Gpu("NVIDIA H200", 141, (9, 0), 132),
    "b200": Gpu("NVIDIA B200", 180, (10, 0), 148),
}


def fitting(size: int) -> list[Gpu]:
    """The GPUs with more memory than `size` bytes, the smallest first."""
    return sorted((gpu for gpu in GPUS.values() if size < gpu.memory * 2**30), key=lambda gpu: gpu.memory)
