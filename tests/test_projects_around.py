"""What the files around a script say of it: imports that lead nowhere, kernels for CUDA alone, precisions chosen."""

from __future__ import annotations

from pathlib import Path

import pytest

from amplint.engine.analyse import analyse
from amplint.engine.job import Job
from amplint.engine.modules import Modules
from amplint.engine.registry import load_registry
from amplint.findings import Finding
from tests.linting import findings_of

RULES = tuple(load_registry().rules.values())
TRAINING = """
import torch
{imports}

def train(model, loader):
    optimizer = torch.optim.AdamW(model.parameters())
    scaler = torch.amp.GradScaler("cuda")
    for x, y in loader:
        optimizer.zero_grad()
        with torch.autocast("cuda", dtype=torch.float16):
            loss = model(x, y)
            scaler.scale(loss).backward()
        scaler.step(optimizer)
        scaler.update()
"""
REGION = """
import torch
from parts.parsing import Parsing

device = "cuda:0" if torch.cuda.is_available() else "cpu"
parsing = Parsing(0)

def run(pipe, x):
    pipe.to(device)
    with torch.cuda.amp.autocast():
        return pipe(parsing(x), x.to(device))
"""
ACCELERATED = """
import torch
from accelerate import Accelerator

def train(config, net, loader):
    accelerator = Accelerator(mixed_precision=config.mixed_precision)
    dtype = torch.float16 if config.weight_dtype == "fp16" else torch.float32
    net = net.to(dtype=dtype)
    optimizer = torch.optim.AdamW(net.parameters())
    net, optimizer, loader = accelerator.prepare(net, optimizer, loader)
    for x, y in loader:
        loss = net(x, y)
        accelerator.backward(loss)
        optimizer.step()
        optimizer.zero_grad()
"""


def lint(folder: Path, files: dict[str, str], name: str, code: str) -> list[Finding]:
    """What a rule finds in one of several files of a project."""
    for path, text in {"pyproject.toml": "", **files}.items():
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        (folder / path).write_text(text)
    job = Job(name, str(folder / name), files[name].encode(), RULES)
    return [one for one in analyse(job, Modules()).findings if one.code == code]


@pytest.mark.parametrize(
    ("imports", "is_there"),
    [
        ("from lib.models.net import build", True),
        ("from lib.models.net import rebuild", False),
        ("from lib.models.stark import build", False),
        ("from lib.models.broken import build", False),
        ("from beside import Loader", True),
        ("from beside import Loader, Collate", False),
        ("from .models.stark import build", False),
        ("from .models import net", True),
        ("from lib.models import stark", False),
        ("from lib.models.opened import anything", True),
        ("from lib.models._compiled import kernel", True),
        ("from lib.models.cython import kernel", True),
        ("from elsewhere.models import build", True),
        ("from lib.models.starred import build, rebuild", False),
        ("from lib.models.starred import build", True),
        ("from lib.models.starred_outside import rebuild", True),
        ("from lib.models import net\nimport lib.models.stark", False),
        ("from lib.models import net\nimport lib.models.built", True),
        ("from lib.models import net\nimport lib.models.tree", True),
        ("import lib.models.net", True),
        ("from logging import Logger", True),
        ("from datasets import load_dataset", True),
        ("from datasets.here import there", True),
        ("from datasets.gone import there", True),
        ("from metrics import accuracy", True),
        ("from metrics import accuracy, own", False),
        ("import lib.models.broken", False),
        ("import elsewhere.models", True),
        ("try:\n    from lib.models.stark import build\nexcept ImportError:\n    build = None", True),
        ("def make():\n    from lib.models.stark import build\n    return build()", True),
        ("import sys\nsys.path.append('third')\nfrom lib.models.stark import build", True),
        ("import sys\nsys.path.append('third')\nfrom lib.models.net import rebuild", True),
        ("import sys\nsys.path.append('third')\nfrom lib.models.net import build, rebuild", False),
        ("import sys\nsys.path.append('third')\nfrom lib.models.twin import build, rebuild", True),
        ("import sys\nsys.path.append('third')\nfrom .models.net import rebuild", False),
        ("from lib.models.unfinished import build", False),
        ("from lib.models import unfinished", False),
        ("from lib.models.newer import build", True),
        ("from lib.models.lazy import rebuild", False),
        ("from lib.models.lazier import rebuild", True),
    ],
)
def test_nothing_is_told_of_a_file_whose_imports_lead_nowhere(tmp_path: Path, imports: str, is_there: bool) -> None:
    files = {
        "lib/__init__.py": "",
        "lib/models/__init__.py": "",
        "lib/models/net.py": "def build():\n    return None\n",
        "lib/models/opened.py": "def __getattr__(name):\n    return name\n",
        "lib/models/cython.pyx": "",
        "lib/models/setup.py": 'setup(ext_modules=cythonize("tree.pyx"))\n',
        "lib/models/starred.py": "from .net import *\n",
        "lib/models/starred_outside.py": "from .net import *\nfrom numpy import *\n",
        "setup.py": 'setup(ext_modules=[CppExtension("lib.models.built", ["built.cpp"])])\n',
        "lib/models/broken.py": "from lib.models.net import build\nfrom .gone import rest\n",
        "lib/models/unfinished.py": "def build():\n    if True:\n    return None\n",
        "lib/models/newer.py": "def build(names):\n    return f'{\" \".join(f'{name}' for name in names)}'\n",
        "lib/models/twin.py": "def build():\n    return None\n",
        "other/lib/models/twin.py": "",
        "lib/models/lazy.py": "def build():\n    lazy_loader = True\n    return lazy_loader\n",
        "lib/models/lazier.py": "build = lazy_import('build')\n",
        "lib/beside.py": "class Loader:\n    pass\n",
        "lib/metrics.py": "own = 1\n",
        "lib/logging.py": "own = 1\n",
        "datasets/here.py": "there = 1\n",
        "lib/train.py": TRAINING.format(imports=imports),
    }
    assert bool(lint(tmp_path, files, "lib/train.py", "AMP101")) is is_there


@pytest.mark.parametrize(
    ("others", "is_there"),
    [
        ({"libs/commons.py": "", "libs/data_utils.py": ""}, False),
        ({"libs/commons.py": ""}, True),
        ({"libs/commons.py": "", "parts/data_utils.py": ""}, True),
        ({"libs/commons.py": "", "libs/data_utils.py": "", "parts/commons.py": "", "parts/data_utils.py": ""}, True),
        ({"libs/commons/__init__.py": "", "libs/data_utils/__init__.py": ""}, True),
        ({"libs/commons.py": "", "libs/data_utils.py": "", "run.sh": "PYTHONPATH=libs python train.py\n"}, True),
        ({"libs/commons.py": "", "libs/data_utils.py": "", "README.md": "export PYTHONPATH=$PWD/libs\n"}, True),
        ({"libs/commons.py": "", "libs/data_utils.py": "", "setup.py": "setup(package_dir={'': 'libs'})\n"}, True),
        ({"libs/commons.py": "", "libs/data_utils.py": "", "paths.py": "import sys\nsys.path.append('libs')\n"}, True),
        ({"src/commons.py": "", "src/data_utils.py": ""}, True),
    ],
)
def test_a_script_does_not_have_modules_of_a_folder_that_nothing_searches(
    tmp_path: Path, others: dict[str, str], is_there: bool
) -> None:
    script = TRAINING.format(imports="import commons\nfrom data_utils import Loader")
    files = {"train.py": f'{script}\n\nif __name__ == "__main__":\n    train(*commons.made())\n', **others}
    files |= {"libs/data_utils.py": "class Loader: pass\n"} if "libs/data_utils.py" in files else {}
    files |= {"src/data_utils.py": "class Loader: pass\n"} if "src/data_utils.py" in files else {}
    assert bool(lint(tmp_path, files, "train.py", "AMP101")) is is_there


@pytest.mark.parametrize(
    ("imports", "others", "is_there"),
    [
        ("from beside import Loader\nfrom models import build", {}, False),
        ("from beside import Loader\nfrom models.net import build", {}, False),
        ("from models import build", {}, True),
        ("from beside import Loader\nfrom stark import build", {}, True),
        ("from beside import Loader\nfrom models import build", {"other/models.py": ""}, True),
        ("from beside import Loader\nfrom models import build", {"other/models/net.yaml": ""}, True),
        ("import sys\nsys.path.append('x')\nfrom beside import Loader\nfrom models import build", {}, True),
        ("from beside import Loader\ntry:\n    from models import build\nexcept ImportError:\n    pass", {}, True),
    ],
)
def test_a_script_does_not_have_modules_of_common_names_that_are_nowhere(
    tmp_path: Path, imports: str, others: dict[str, str], is_there: bool
) -> None:
    script = TRAINING.format(imports=imports)
    files = {
        "train.py": f'{script}\n\nif __name__ == "__main__":\n    train(*made())\n',
        "beside.py": "class Loader: pass\n",
    }
    assert bool(lint(tmp_path, {**files, **others}, "train.py", "AMP101")) is is_there


@pytest.mark.parametrize(
    ("constructor", "count"),
    [
        ("torch.cuda.set_device(gpu)", 0),
        ("if torch.cuda.is_available():\n            torch.cuda.set_device(gpu)", 1),
        ("self.gpu = gpu", 1),
    ],
)
def test_a_class_that_cannot_be_made_without_cuda_keeps_a_script_to_it(
    tmp_path: Path, constructor: str, count: int
) -> None:
    parsing = f"import torch\n\nclass Parsing:\n    def __init__(self, gpu):\n        {constructor}\n"
    files = {"parts/__init__.py": "", "parts/parsing.py": parsing, "app.py": REGION}
    assert len(lint(tmp_path, files, "app.py", "AMP106")) == count


def test_kernels_that_are_compiled_keep_a_script_to_cuda(tmp_path: Path) -> None:
    parsing = (
        "from torch.utils.cpp_extension import load\n\nbackend = load(name='march', sources=['march.cu'])\n\n"
        "class Parsing:\n    def __init__(self, gpu):\n        self.march = backend.march\n"
    )
    files = {"parts/__init__.py": "", "parts/parsing.py": parsing, "app.py": REGION}
    assert not lint(tmp_path, files, "app.py", "AMP106")


@pytest.mark.parametrize(
    ("configs", "count"),
    [
        ({}, 1),
        ({"configs/a.yaml": "mixed_precision: bf16\n"}, 0),
        ({"configs/a.yaml": 'solver:\n  mixed_precision: "no"\n', "configs/b.yaml": "mixed_precision: fp16\n"}, 1),
        ({"a.yaml": "mixed_precision: bf16\n", "b.yaml": "distributed_type: DEEPSPEED\nmixed_precision: fp16\n"}, 0),
    ],
)
def test_a_precision_that_no_configuration_chooses_is_not_supposed(
    tmp_path: Path, configs: dict[str, str], count: int
) -> None:
    assert len(lint(tmp_path, {"train.py": ACCELERATED, **configs}, "train.py", "AMP706")) == count


@pytest.mark.parametrize(
    ("start", "is_there"), [("", False), ('\n\nif __name__ == "__main__":\n    train(1, 2)\n', True)]
)
def test_packages_run_before_their_modules(tmp_path: Path, start: str, is_there: bool) -> None:
    files = {
        "lib/__init__.py": "from .models.gone import build\n",
        "lib/models/__init__.py": "",
        "lib/parts/__init__.py": "",
        "lib/parts/train.py": TRAINING.format(imports="") + start,
    }
    assert bool(lint(tmp_path, files, "lib/parts/train.py", "AMP101")) is is_there


@pytest.mark.parametrize(
    ("imports", "count"),
    [("import march", 0), ("from march import rays", 0), ("import marching", 1), ("def f():\n    import march", 1)],
)
def test_models_beside_a_file_that_need_kernels_keep_it_to_cuda(tmp_path: Path, imports: str, count: int) -> None:
    trainer = REGION.replace("from parts.parsing import Parsing\n", "").replace("parsing = Parsing(0)\n", "")
    files = {
        "march/__init__.py": "from .backend import rays\n",
        "march/backend.py": "from torch.utils.cpp_extension import load\n\nrays = load('march', ['a.cu'])\n",
        "nerf/renderer.py": f"{imports}\n\nclass Renderer:\n    pass\n",
        "nerf/utils.py": trainer.replace("pipe(parsing(x), x.to(device))", "pipe(x.to(device))"),
    }
    assert len(lint(tmp_path, files, "nerf/utils.py", "AMP106")) == count


EVALUATING = """
import torch

def train(model, loader, optimizer, criterion):
    model.train()
    for x, y in loader:
        optimizer.zero_grad()
        with torch.autocast("cuda"):
            loss = criterion(model(x), y)
        loss.backward()
        optimizer.step()

def evaluate(model, loader, criterion):
    model.eval()
    with torch.no_grad():
        return [criterion(model(x), y).item() for x, y in loader]
"""
MODEL = """
import torch
from torch import nn

class Net(nn.Module):
    {decorated}
    def forward(self, x):
        {first}
            return self.layer(x)
"""


@pytest.mark.parametrize(
    ("decorated", "first", "expected"),
    [
        ("", "with torch.autocast('cuda', enabled=self.mixed):", 0),
        ("", '"""Scores."""\n        with amp.autocast("cuda"):', 0),
        ("@torch.cuda.amp.autocast()", "if self.layer:", 0),
        ("", "with torch.autocast('cuda', enabled=False):", 1),
        ("", "with autocast(False):", 1),
        ("", "if self.layer:", 1),
        ("", "x = self.first(x)\n        with autocast():", 1),
    ],
)
def test_a_model_out_of_sight_may_be_one_that_enters_a_region(
    tmp_path: Path, decorated: str, first: str, expected: int
) -> None:
    (tmp_path / "setup.py").write_text("")
    (tmp_path / "nets.py").write_text(MODEL.format(decorated=decorated, first=first))
    script = tmp_path / "epochs.py"
    script.write_text(EVALUATING)
    for imported, told in (("", 1), ("from nets import Net\nfrom epochs import train, evaluate\n", expected)):
        (tmp_path / "main.py").write_text(imported)
        found = findings_of(script.read_bytes(), RULES, path=str(script))
        assert sum(one.code == "AMP111" for one in found) == told
