"""What goes wrong in half: one small training program for each thing and each place that it can stand in.

`hazards.txt` holds the things. Every program is right in float32. A conversion of it has to refuse, to keep its
numbers, or to name one of the rows that are marked with `# here`. `python -m tests.codemods.hazards` shows all.
"""

from __future__ import annotations

import contextlib
import functools
import re
import runpy
import sys
import tempfile
import textwrap
import warnings
from collections.abc import Iterator, Mapping
from pathlib import Path
from unittest import mock

import torch

from amplint.codemods import Conversion, Wish, convert
from amplint.records import dataclass
from amplint.trace.dry import dry_run
from amplint.trace.gpus import GPUS

PLACES = ("loop", "function", "module", "forward", "evaluation", "after")
"""Where the code stands: between forward and backward pass, in a function, in a module of another file, in the forward
pass of a model of another file, in evaluation, and behind the step.
"""
TOLERANCES = {"float16": 0.01, "bfloat16": 0.06}
"""How far numbers may be from those of float32, relative to 1 plus their size."""
_HEADER = re.compile(r"^## (?P<name>[^(\n]*?)(?: \((?P<options>.*)\))?\n", re.MULTILINE)


@dataclass
class Hazard:
    """`body` makes a number `value` from `out`, `y` (zeros and ones) and `k` (classes); `helpers` stand above it.

    The model's last layer gives values of about `gain`. What does not train is for evaluation alone, and nothing is to
    be said of what is `safe`.
    """

    body: str
    helpers: str = ""
    gain: float = 1.0
    trains: bool = True
    safe: bool = False


def _read() -> Iterator[tuple[str, Hazard]]:
    text = Path(__file__).with_suffix(".txt").read_text(encoding="utf-8")
    text = re.sub(r"^#### .*\n+", "", text, flags=re.MULTILINE)
    for found, end in _sections(text):
        above, between, below = text[found.end() : end].partition("\n--\n")
        body, helpers = (below, above) if between else (above, "")
        options = (found["options"] or "").split(", ")
        gain = next((float(one.removeprefix("gain ")) for one in options if one.startswith("gain ")), 1.0)
        hazard = Hazard(
            body.strip("\n") + "\n", helpers.strip("\n"), gain, "evaluation" not in options, "safe" in options
        )
        yield found["name"], hazard


def _sections(text: str) -> Iterator[tuple[re.Match[str], int]]:
    found = list(_HEADER.finditer(text))
    yield from zip(found, [*(one.start() for one in found[1:]), len(text)], strict=True)


HAZARDS = dict(_read())
_HEAD = """import numpy as np
import torch
from torch import nn
from torch.nn import functional as F
"""
_NET = """class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.hidden = nn.Linear(8, 16)
        self.head = nn.Linear(16, 6)

    def forward(self, x{more}):
        out = self.head(torch.tanh(self.hidden(x)))
{rest}
"""
_OUTPUT = "        return out"
_MAIN = """
torch.manual_seed(0)
net = Net().cuda()
nn.init.normal_(net.head.weight, std={gain} / 3)
optimizer = torch.optim.SGD(net.parameters(), lr=1e-12)
losses = []
batches = [(torch.randn(16, 8), torch.randint(0, 2, (16, 6)).float(), torch.randint(0, 6, (16,))) for _ in range(3)]


{between}for x, y, k in batches:
    x, y, k = x.cuda(), y.cuda(), k.cuda()
    optimizer.zero_grad()
{forward}    loss.backward()
    optimizer.step()
{after}"""
_EVALUATION = """def evaluate(x, y, k):
    net.eval()
    with torch.no_grad():
        out = net(x)
{body}    net.train()
    return float(value)


"""


def program(hazard: Hazard, place: str, *, hidden: bool = False) -> dict[str, str] | None:
    """The files of the program of `hazard` in `place`, `train` the script; None where it cannot stand there.

    A `hidden` model comes from `zoo`, a library that no conversion sees.
    """
    files = _files(hazard, place) if hazard.trains or place in ("evaluation", "after") else None
    net = _NET.format(more="", rest=_OUTPUT)
    if files is None or not hidden or net not in files["train"]:
        return None if hidden else files
    train = files["train"].replace(net, "").replace("net = Net()", 'net = zoo.create("net")')
    zoo = f"{_HEAD}\n\n{net}\n\ndef create(name):\n    return Net()\n"
    return {**files, "train": train.replace("import torch\n", "import torch\nimport zoo\n", 1), "zoo": zoo}


def _files(hazard: Hazard, place: str) -> dict[str, str]:
    body, helpers = functools.partial(textwrap.indent, hazard.body), f"\n{hazard.helpers}\n\n"
    function = f"def criterion(out, y, k):\n{body('    ')}    return value\n\n\n"
    net = _NET.format(more="", rest=_OUTPUT)
    plain, of_function = "    loss = F.mse_loss(out, y)\n", "    loss = criterion(out, y, k)\n"
    keep = "    losses.append(loss.item())\n"
    if place == "loop":
        return {"train": f"{_HEAD}{helpers}\n{net}\n{_main(hazard, body('    ') + '    loss = value' + chr(10), keep)}"}
    if place == "function":
        return {"train": f"{_HEAD}{helpers}\n{function}{net}\n{_main(hazard, of_function, keep)}"}
    if place == "module":
        method = f"    def forward(self, out, y, k):\n{body(' ' * 8)}        return value\n"
        main = _main(hazard, of_function, keep, "criterion = Criterion()\n")
        return {
            "train": f"{_HEAD}from losses import Criterion\n\n\n{net}\n{main}",
            "losses": f"{_HEAD}{helpers}\nclass Criterion(nn.Module):\n{method}",
        }
    if place == "forward":
        inner = _NET.format(more=", y, k", rest=f"{body(' ' * 8)}        return value")
        main = _main(hazard, "", keep).replace("    out = net(x)\n", "    loss = net(x, y, k)\n")
        return {
            "train": f"import torch\nfrom torch import nn\nfrom models import Net\n{main}",
            "models": f"{_HEAD}{helpers}\n{inner}",
        }
    if place == "evaluation":
        evaluation = _EVALUATION.format(body=body(" " * 8))
        main = _main(hazard, plain, "    losses.append(evaluate(x, y, k))\n", evaluation)
        return {"train": f"{_HEAD}{helpers}\n{net}\n{main}"}
    main = _main(hazard, plain, "    losses.append(float(criterion(out.detach(), y, k)))\n")
    return {"train": f"{_HEAD}{helpers}\n{function}{net}\n{main}"}


def _main(hazard: Hazard, loss: str, after: str, between: str = "") -> str:
    return _MAIN.format(gain=hazard.gain, forward=f"    out = net(x)\n{loss}", after=after, between=between)


def fate(hazard: Hazard, place: str, dtype: str, *, hidden: bool) -> str:
    """What becomes of a program: `refused`, `told` of where it goes wrong, `right`, or `wrong` in silence.

    It is empty where there is no such program. Of what is safe nothing is to be told. What is not told of runs dry, as
    if on a GPU, before and after its conversion.
    """
    files = program(hazard, place, hidden=hidden)
    if files is None:
        return ""
    with tempfile.TemporaryDirectory() as folder:
        conversion = _converted(files, Path(folder), dtype)
        if conversion.refused:
            return "refused"
        if _is_told(conversion, files) or (hazard.safe and conversion.left):
            return "told"
        before = _losses(files, Path(folder))
        try:
            cured = {Path(one.path).stem: one.after.decode() for one in conversion.others}
            after = _losses({**files, **cured, "train": conversion.text}, Path(folder))
        except Exception as failure:
            return f"wrong: {type(failure).__name__}: {failure}"
    far = max(abs(a - b) / (1 + abs(b)) if a == a else float("inf") for a, b in zip(after, before, strict=True))
    return "right" if far <= TOLERANCES[dtype] else f"wrong: {far:.2g}"


def _converted(files: Mapping[str, str], folder: Path, dtype: str) -> Conversion:
    for name, text in files.items():
        if name != "zoo":
            (folder / f"{name}.py").write_text(text, encoding="utf-8")
    return convert(files["train"], Wish(to="amp", dtype=dtype), str(folder / "train.py"))


def _is_told(conversion: Conversion, files: Mapping[str, str]) -> bool:
    """Whether a remark names a marked row, of the result or of another file."""
    for remark in conversion.left:
        there = re.match(r"(\w+)\.py:(\d+):", remark.text)
        text, row = (files[there[1]], int(there[2])) if there is not None else (conversion.text, remark.row)
        if "# here" in text.split("\n")[row - 1]:
            return True
    return False


def _losses(files: Mapping[str, str], folder: Path) -> list[float]:
    """The numbers that a program records, with a scaler whose scale skips no step."""
    for name, text in files.items():
        (folder / f"{name}.py").write_text(text, encoding="utf-8")
    gentle = functools.partialmethod(torch.amp.GradScaler.__init__, init_scale=256.0)
    with (
        _importing_from(folder),
        mock.patch.object(torch.amp.GradScaler, "__init__", gentle),
        warnings.catch_warnings(),
        dry_run(GPUS["a100"]),
    ):
        warnings.simplefilter("ignore")
        return [float(one) for one in runpy.run_path(str(folder / "train.py"), run_name="__main__")["losses"]]


@contextlib.contextmanager
def _importing_from(folder: Path) -> Iterator[None]:
    """Let modules be imported from `folder`, and forget them afterwards."""
    known = set(sys.modules)
    with mock.patch.object(sys, "path", [str(folder), *sys.path]), mock.patch.object(sys, "dont_write_bytecode", True):
        try:
            yield
        finally:
            for name in {"losses", "models", "zoo"} & (set(sys.modules) - known):
                del sys.modules[name]


def _show(names: list[str]) -> None:
    """A row for each hazard, with a column for each place: first where the model is seen, then where it is hidden."""
    signs = {"": "-", "refused": "R", "told": "t", "right": ".", "wrong": "X"}
    counts = dict.fromkeys(signs, 0)
    for name in names or HAZARDS:
        fates = [
            [fate(HAZARDS[name], place, dtype, hidden=hidden).partition(":")[0] for dtype in TOLERANCES]
            for hidden in (False, True)
            for place in PLACES
        ]
        for one in (one for pair in fates for one in pair):
            counts[one] += 1
        print(f"{name:30}", *("".join(signs[one] for one in pair) for pair in fates), flush=True)
    print({name: count for name, count in counts.items() if name})


if __name__ == "__main__":
    _show(sys.argv[1:])
