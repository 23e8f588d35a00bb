"""Files of random data that `benchmarks.dry_run` writes where scripts of others read theirs."""

from __future__ import annotations

import gzip
import json
import pickle
import subprocess
import sys
from collections.abc import Callable, Mapping
from pathlib import Path

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


def lines(pattern: str, count: int) -> Writer:
    """Lines of `pattern`, in which `{}` is the number of the line, from 0."""

    def write(path: Path) -> None:
        path.write_text("".join(pattern.replace("{}", str(number)) + "\n" for number in range(count)))

    return write


def written(content: str) -> Writer:
    """A file of this text."""

    def write(path: Path) -> None:
        path.write_text(content)

    return write


def array(*shape: int, dtype: str = "float32") -> Writer:
    """An array of NumPy's with values from 0 to 1."""

    def write(path: Path) -> None:
        np.save(path, np.random.default_rng(0).random(shape, dtype=np.float32).astype(dtype))

    return write


def pickled(values: object) -> Writer:
    """A pickle of `values`."""

    def write(path: Path) -> None:
        path.write_bytes(pickle.dumps(values))

    return write


def listed(value: object) -> Writer:
    """A JSON file: a list of 64 times the same."""

    def write(path: Path) -> None:
        path.write_text(json.dumps([value] * 64))

    return write


def made(*command: str) -> Writer:
    """What a command leaves behind that runs in the file's folder; `python` is this one."""

    def write(path: Path) -> None:
        program = sys.executable if command[0] == "python" else command[0]
        folder = path.parent.parent if path.parent.name == ".git" else path.parent
        subprocess.run([program, *command[1:]], cwd=folder, check=True)

    return write


def rewritten(original: str, changes: Mapping[str, str]) -> Writer:
    """A copy of the repository's file `original` with other words."""

    def write(path: Path) -> None:
        content = (path.parent / original).read_text()
        for old, new in changes.items():
            content = content.replace(old, new)
        path.write_text(content)

    return write


def sounds(count: int) -> Writer:
    """A folder of sounds of a second, 22,050 numbers of 16 bits each, and of their spectra (1, 80, 80)."""

    def write(path: Path) -> None:
        import torch
        from scipy.io import wavfile

        path.mkdir(exist_ok=True)
        for number in range(count):
            sound = np.random.default_rng(number).integers(-9999, 9999, 20480, dtype=np.int16)
            wavfile.write(path / f"{number}.wav", 22050, sound)
            torch.save(torch.randn(1, 80, 80), path / f"{number}.mel")

    return write


def annotations(path: Path) -> None:
    """Eight files of Pascal VOC's, with a box each."""
    path.mkdir(exist_ok=True)
    box = "<xmin>40</xmin><ymin>40</ymin><xmax>200</xmax><ymax>240</ymax>"
    for number in range(8):
        thing = f"<object><name>cat</name><difficult>0</difficult><bndbox>{box}</bndbox></object>"
        (path / f"{number:04}.xml").write_text(f"<annotation>{thing}</annotation>")


def citations(count: int) -> Writer:
    """Papers with 50 words and a class each, and beside them a file of who cites whom."""

    def write(path: Path) -> None:
        words = np.random.default_rng(0).integers(0, 2, (count, 50))
        rows = (f"{number} {' '.join(map(str, row))} class{number % 7}" for number, row in enumerate(words))
        path.write_text("\n".join(rows) + "\n")
        path.with_suffix(".cites").write_text("".join(f"{one} {(7 * one + 1) % count}\n" for one in range(count)))

    return write


def rings(count: int) -> Writer:
    """Graphs of two classes, each a ring of five nodes, as those of MUTAG are written."""

    def write(path: Path) -> None:
        nodes = "".join(f"{node % 2} 2 {(node - 1) % 5} {(node + 1) % 5}\n" for node in range(5))
        path.write_text(f"{count}\n" + "".join(f"5 {number % 2}\n{nodes}" for number in range(count)))

    return write


def ratings(users: int) -> Writer:
    """Lines of a user and an item, ten for each user, both from 1."""

    def write(path: Path) -> None:
        pairs = ((user, 1 + (7 * user + item) % 50) for user in range(1, users + 1) for item in range(10))
        path.write_text("".join(f"{user} {item}\n" for user, item in pairs))

    return write


def small_bert(path: Path) -> None:
    """The description of a BERT of one layer."""
    sizes = {"hidden_size": 768, "num_hidden_layers": 1, "num_attention_heads": 4, "intermediate_size": 256}
    path.write_text(json.dumps({"vocab_size_or_config_json_file": 1000, "vocab_size": 1000, **sizes}))


def weights(path: Path) -> None:
    """A checkpoint of nothing: what is loaded from it keeps its random weights."""
    import torch

    torch.save({}, path)


def tokenizer(path: Path) -> None:
    """A module in place of tiktoken, whose tables are on the network: a token for each word."""
    path.write_text(
        "class Encoding:\n"
        "    n_vocab = 50257\n"
        "    def encode(self, text, **_): return [len(word) for word in text.split()]\n"
        "    def decode(self, tokens): return ' '.join(map(str, tokens))\n"
        "def get_encoding(name): return Encoding()\n"
    )
