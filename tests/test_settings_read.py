"""What scripts read of files of settings: which ways are known, what rests on them, and what does not."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from tests.conftest import Command

Find = Callable[..., str]
LOOP = """
import torch

def fit(dtype, model, loader):
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for inputs in loader:
        optimizer.zero_grad()
        with torch.autocast("cuda", dtype=dtype):
            loss = model(inputs).sum()
        loss.backward()
        optimizer.step()
"""
DTYPES = '{"float16": torch.float16, "bfloat16": torch.bfloat16}'
MODEL = "torch.nn.Linear(4, 1).cuda(), [torch.ones(2, 4).cuda()]"
FILES = {
    "conf/c.yaml": "train:\n  dtype: float16\n",
    "conf/c.json": '{"train": {"dtype": "float16"}}',
    "c.yaml": "train:\n  dtype: float16\n",
    "h/main.yaml": "defaults:\n  - train: half\n  - optional local: none\n  - override hydra/launcher: x\n  - _self_\n",
    "h/train/half.yaml": "dtype: ${kind}\nname: x\nkind: bfloat16\n",
    "h/global.yaml": "defaults:\n  - _self_\n  - inner: g\ntrain: {dtype: bfloat16}\n",
    "h/inner/g.yaml": "# @package _global_\ntrain:\n  dtype: float16\n",
    "h/plain.yaml": "train:\n  dtype: ${kind}\nkind: float16\n",
    "loading.py": "import yaml\ndef load(path):\n    with open(path) as file:\n        return yaml.safe_load(file)\n",
}
READ = {
    "yaml.safe_load": 'import yaml\ncfg = yaml.safe_load(open("conf/c.yaml"))',
    "with open": 'import yaml\nwith open("conf/c.yaml") as file:\n    cfg = yaml.load(file, Loader=yaml.SafeLoader)',
    "json.load": 'import json\nwith open("conf/c.json", "r") as file:\n    cfg = json.load(file)',
    "a text": 'import json\nfrom pathlib import Path\ncfg = json.loads(Path("conf/c.json").read_text())',
    "beside": 'import yaml\nfrom pathlib import Path\nwith (Path(__file__).resolve().parent / "c.yaml").open() as f:\n'
    "    cfg = yaml.safe_load(f)",
    "os.path": 'import os, yaml\ncfg = yaml.safe_load(open(os.path.join(os.path.dirname(__file__), "conf", "c.yaml")))',
    "a sum": 'import os, yaml\ncfg = yaml.safe_load(open(os.path.dirname(os.path.abspath(__file__)) + "/c.yaml"))',
    "an option": 'import argparse, yaml\np = argparse.ArgumentParser()\np.add_argument("-c", "--config-file", '
    'default="c.yaml")\nargs = p.parse_args()\ncfg = yaml.safe_load(open(args.config_file))',
    "a function": "import yaml\ndef load(path):\n    with open(path) as file:\n        return yaml.safe_load(file)\n"
    'cfg = load("c.yaml")',
    "another file": 'from loading import load\ncfg = load("c.yaml")',
    "a default": 'import yaml\ndef load(path="c.yaml"):\n    return yaml.safe_load(open(path))\ncfg = load()',
    "get": 'import yaml\ncfg = {"train": {"dtype": yaml.safe_load(open("c.yaml")).get("train").get("dtype", "x")}}',
}
ATTRIBUTES = {
    "OmegaConf": 'from omegaconf import OmegaConf\ncfg = OmegaConf.load("c.yaml")',
    "merged": 'from omegaconf import OmegaConf\ncfg = OmegaConf.merge(OmegaConf.load("c.yaml"), OmegaConf.from_cli())',
    "EasyDict": 'import yaml\nfrom easydict import EasyDict\ncfg = EasyDict(yaml.safe_load(open("c.yaml")))',
}
HYDRA = """
import hydra, torch

@hydra.main(version_base=None, config_path="h", config_name="{name}")
def main(cfg):
    fit({dtypes}[cfg.train.dtype], {model})

if __name__ == "__main__":
    main()
"""


@pytest.fixture
def found(amplint: Command, project: Path) -> Find:
    """What is found in a script beside the files."""
    for name, text in FILES.items():
        (project / name).parent.mkdir(exist_ok=True, parents=True)
        (project / name).write_text(text, encoding="utf-8")

    def find(script: str, *options: str) -> str:
        (project / "train.py").write_text(script, encoding="utf-8")
        return amplint("--output-format", "concise", "--no-cache", *options, "train.py").out

    return find


def calling(read: str, dtype: str) -> str:
    """A script that trains in a dtype that it has read."""
    return f"{LOOP}\n{read}\nfit({DTYPES}[{dtype}], {MODEL})\n"


@pytest.mark.parametrize("read", READ.values(), ids=READ.keys())
def test_ways_to_read(read: str, found: Find) -> None:
    out = found(calling(read, 'cfg["train"]["dtype"]'))
    assert "AMP208[float16-without-scaler] warning" in out
    assert "json as it is)" in out or "yaml as it is)" in out


@pytest.mark.parametrize("read", ATTRIBUTES.values(), ids=ATTRIBUTES.keys())
def test_dictionaries_with_attributes(read: str, found: Find) -> None:
    assert "(with c.yaml as it is)" in found(calling(read, "cfg.train.dtype"))


@pytest.mark.parametrize(
    ("name", "says"),
    [("plain", "plain.yaml as it is"), ("global", "g.yaml, global.yaml as they are"), ("main", ""), ("missing", "")],
)
def test_hydra(name: str, says: str, found: Find) -> None:
    out = found(LOOP + HYDRA.format(name=name, dtypes=DTYPES, model=MODEL))
    assert (says in out) if says else "as it is" not in out


CHANGED = {
    "an item": 'cfg["train"]["dtype"] = sys.argv[1]',
    "update": 'cfg["train"].update(vars(args))',
    "merging": 'cfg["train"].merge_from_list(sys.argv)',
    "another dictionary": 'cfg["train"] = other',
}


@pytest.mark.parametrize("change", CHANGED.values(), ids=CHANGED.keys())
def test_what_is_changed_is_not_known(change: str, found: Find) -> None:
    read = f'import sys, yaml\ncfg = yaml.safe_load(open("c.yaml"))\n{change}'
    assert "(with" not in found(calling(read, 'cfg["train"]["dtype"]'))


SWITCH = """
import torch, yaml

cfg = yaml.safe_load(open("switch.yaml"))
model = torch.nn.Linear(4, 1).cuda()
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
scaler = torch.amp.GradScaler("cuda")
for inputs in [torch.ones(2, 4).cuda()]:
    optimizer.zero_grad()
    with torch.autocast("cuda", dtype=torch.float16):
        loss = model(inputs).sum()
    scaler.scale(loss).backward()
    if cfg["clip"]:
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    scaler.step(optimizer)
    scaler.update()
"""


@pytest.mark.parametrize("value", ["true", "false", "null", "0.5"])
def test_no_value_hides_what_is_found_without_it(value: str, found: Find, project: Path) -> None:
    before = found(SWITCH)
    assert "AMP205" in before
    (project / "switch.yaml").write_text(f"clip: {value}\n", encoding="utf-8")
    assert found(SWITCH) == before


def test_a_repair_that_rests_on_settings_is_not_safe(found: Find, project: Path) -> None:
    script = calling(READ["yaml.safe_load"], 'cfg["train"]["dtype"]')
    found(script, "--fix")
    assert (project / "train.py").read_text(encoding="utf-8") == script


def test_the_settings_are_notes(amplint: Command, found: Find, project: Path) -> None:
    found(calling(READ["yaml.safe_load"], 'cfg["train"]["dtype"]'))
    assert "conf/c.yaml, line 2: dtype is float16 here" in amplint("train.py").out
    assert "with c.yaml as it is" in " ".join(amplint("train.py").out.split())  # from the cache
    (project / "conf" / "c.yaml").write_text("train:\n  dtype: bfloat16\n", encoding="utf-8")
    assert "c.yaml" not in amplint("train.py").out


LAUNCHED = """
import torch
from accelerate import Accelerator

accelerator = Accelerator()
model = torch.nn.Linear(4, 1).half()
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
model, optimizer = accelerator.prepare(model, optimizer)
for inputs in batches:
    accelerator.backward(model(inputs).sum())
    optimizer.step()
    optimizer.zero_grad()
"""
LAUNCH = "compute_environment: LOCAL_MACHINE\ndistributed_type: MULTI_GPU\nmixed_precision: {}\n"


def test_what_accelerate_launch_sets(found: Find, project: Path) -> None:
    assert "AMP706" not in found(LAUNCHED)
    (project / "launch.yaml").write_text(LAUNCH.format("fp16"), encoding="utf-8")
    assert "AMP706[trainer-with-half-model] error" in found(LAUNCHED)
    assert "(with launch.yaml as it is)" in found(LAUNCHED)
    (project / "launch_bf16.yaml").write_text(LAUNCH.format("bf16"), encoding="utf-8")
    assert "AMP706" not in found(LAUNCHED)  # one of two


def test_a_script_that_hands_settings_on(found: Find, project: Path) -> None:
    (project / "fitting.py").write_text(LOOP, encoding="utf-8")
    script = (
        f'import torch\nfrom fitting import fit\n{READ["a function"]}\nfit({DTYPES}[cfg["train"]["dtype"]], {MODEL})\n'
    )
    out = found(script)
    assert out.startswith("train.py:8:1: AMP208")
    assert "(with c.yaml as it is)" in out


def test_files_that_are_no_settings_say_nothing(found: Find, project: Path) -> None:
    for text in (
        "- 1\n- 2\n",
        "train: [\n",
        "just a text\n",
        "train: !mine {dtype: float16}\n",
        "train: {dtype: '${x}'}\n",
    ):
        (project / "c.yaml").write_text(text, encoding="utf-8")
        for read in (READ["an option"], ATTRIBUTES["OmegaConf"]):
            assert "(with" not in found(calling(read, 'cfg["train"]["dtype"]'))
