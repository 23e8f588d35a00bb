"""GPUs that a dry run can simulate. Source: NVIDIA's data sheets, white papers and list of compute capabilities."""

from __future__ import annotations

from amplint.records import dataclass


@dataclass(frozen=True, slots=True)
class Gpu:
    """`memory` is in GiB, as sold, `cache` (L2) in MiB; `capability` decides about bfloat16, native from (8, 0) on."""

    name: str
    memory: int
    capability: tuple[int, int]
    multiprocessors: int
    cache: int


GPUS = {
    "p100": Gpu("Tesla P100-PCIE-16GB", 16, (6, 0), 56, 4),
    "v100": Gpu("Tesla V100-SXM2-32GB", 32, (7, 0), 80, 6),
    "t4": Gpu("Tesla T4", 16, (7, 5), 40, 4),
    "a100": Gpu("NVIDIA A100-SXM4-80GB", 80, (8, 0), 108, 40),
    "rtx3090": Gpu("NVIDIA GeForce RTX 3090", 24, (8, 6), 82, 6),
    "rtx4090": Gpu("NVIDIA GeForce RTX 4090", 24, (8, 9), 128, 72),
    "l4": Gpu("NVIDIA L4", 24, (8, 9), 58, 48),
    "h100": Gpu("NVIDIA H100 80GB HBM3", 80, (9, 0), 132, 50),
    "h200": Gpu("NVIDIA H200", 141, (9, 0), 132, 50),
    "b200": Gpu("NVIDIA B200", 180, (10, 0), 148, 126),
}


def fitting(size: int) -> list[Gpu]:
    """The GPUs with more memory than `size` bytes, smallest first."""
    return sorted((gpu for gpu in GPUS.values() if size < gpu.memory * 2**30), key=lambda gpu: gpu.memory)


@dataclass(frozen=True, slots=True)
class Limits:
    """The limits of a multiprocessor: threads, and KiB of shared memory, of which a block can use `block`."""

    threads: int
    shared: int
    block: int


LIMITS = {
    (6, 0): Limits(2048, 64, 48),
    (7, 0): Limits(2048, 96, 96),
    (7, 5): Limits(1024, 64, 64),
    (8, 0): Limits(2048, 164, 163),
    (8, 6): Limits(1536, 100, 99),
    (8, 9): Limits(1536, 100, 99),
    (9, 0): Limits(2048, 228, 227),
    (10, 0): Limits(2048, 228, 227),
}
"""By compute capability. Source: NVIDIA's CUDA programming guide."""
