"""Files of settings: what is read of them and where, which are linted, and what they cannot do to a run."""

from __future__ import annotations

import json
import os
import random
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
import yaml

from amplint.engine.modules.requirements import wanted
from amplint.reports.formats import FORMATS
from amplint.semantics.configs.display import Reader
from amplint.semantics.values.values import Const, Items, Unknown, Value
from amplint.source.configs.file import ConfigFile
from amplint.source.encoding import SourceError
from amplint.source.tree import walk
from amplint.torchlib.changes import SETTINGS_CHECKED
from amplint.torchlib.versions import asked
from tests.conftest import Command

CONTRADICTION = """{
  "train_batch_size": 8,
  "fp16": {"enabled": true},
  "bf16": {"enabled": true}
}
"""
YAML_CONTRADICTION = """train_batch_size: 8
fp16: &on
  enabled: true
bf16: *on  {comment}
"""
NAMING = 'import deepspeed\nengine, *_ = deepspeed.initialize(config="conf/ds.json")\n'
TRAINER = """from transformers import TrainingArguments
arguments = TrainingArguments("out", bf16=True, max_grad_norm=0.5, deepspeed="ds.json")
"""
READING = """import json
import deepspeed

def start(model):
    with open("ds.json") as file:
        config = json.load(file)
    {change}
    engine, *_ = deepspeed.initialize(model=model, config=config)
    return engine
"""


def places(amplint: Command) -> list[str]:
    """Where AMP722 is told in a project."""
    out = amplint("--output-format", "concise", "--no-cache", "--select", "AMP722", ".").out
    return [line.partition(": ")[0] for line in out.splitlines()]


def plain(value: Value) -> object:
    """`value` as Python's own."""
    if isinstance(value, Items) and value.keys is not None:
        keys = [str(plain(key)) if isinstance(key, Items) else plain(key) for key in value.keys]
        return dict(zip(keys, map(plain, value.values), strict=True))
    if isinstance(value, Items):
        return [plain(item) for item in value.values]
    return value.value if isinstance(value, Const) else "unknown"


def read(name: str, text: str) -> ConfigFile:
    """The file with this name and text."""
    return ConfigFile.of(name, text.encode("utf-8", "surrogatepass"), f"/{name}")


def value(name: str, text: str, *, omega: bool = False) -> object:
    """What is in it."""
    reader = Reader(lambda: 0, omega=omega)
    found = reader.value(read(name, text).root)
    return plain(reader.resolved(found) if omega else found)


def written(file: ConfigFile) -> list[tuple[str, int, int]]:
    """The text of each node, and where it starts."""
    nodes = [node for node in walk(file.root) if node.at is not None]
    places = [(file.code(node), file.span(node).start) for node in nodes]
    return [(text, start.row, start.column) for text, start in places]


YAML = """# Übung
base: &base
  lr: 0.5
  name: "a: b"   # comment
run:
  <<: *base
  lr: 1e-4
  flags: [yes, off, null, 0x10, 010, -3, .inf, 1:30, !mine {a: 1}]
  text: |
    two
    lines
"""
YAML_MEANS = {
    "base": {"lr": 0.5, "name": "a: b"},
    "run": {
        "lr": "1e-4",
        "flags": [True, False, None, 16, 8, -3, float("inf"), "unknown", "unknown"],
        "text": "two\nlines\n",
        "name": "a: b",
    },
}


def test_yaml_is_read_as_the_safe_loader_reads_it() -> None:
    assert value("x.yaml", YAML) == YAML_MEANS
    simple = YAML.replace(", 1:30, !mine {a: 1}", "")
    assert value("x.yml", simple) == yaml.safe_load(simple)


@pytest.mark.parametrize("loader", ["CSafeLoader", "SafeLoader"])
def test_places_in_yaml(loader: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(yaml, "CSafeLoader", getattr(yaml, loader))
    for text in (YAML, YAML.replace("\n", "\r\n")):
        places = written(read("x.yaml", text))
        assert [place for place in places if place[1] == 3 and len(place[0]) < 4][:2] == [("lr", 3, 3), ("0.5", 3, 7)]
        assert ('"a: b"', 4, 9) in places
        assert ("[yes, off, null, 0x10, 010, -3, .inf, 1:30, !mine {a: 1}]", 8, 10) in places


def test_references_of_omegaconf() -> None:
    text = "a: 1e-5\nb: ${c.d}\nc: {d: true}\ne: ${b}\nf: ${f}\ng: ${oc.env:HOME}\nh: x${a}\n"
    found = value("x.yaml", text, omega=True)
    unknown = {"f": "unknown", "g": "unknown", "h": "unknown"}
    assert found == {"a": 1e-5, "b": True, "c": {"d": True}, "e": True, **unknown}


def test_json_with_what_deepspeed_accepts() -> None:
    text = '{ // one\n\t"a": [1, -2.5e3, "\\u00e9\\n", true, null,], # two\n "b": /* three */ {},\n}'
    assert value("x.json", text) == {"a": [1, -2500.0, "é\n", True, None], "b": {}}
    assert ('"\\u00e9\\n"', 2, 19) in written(read("x.json", text))


def random_value(source: random.Random, depth: int) -> object:
    """Something that JSON can hold."""
    kind = source.randrange(8 if depth < 4 else 6)
    plain_ones = [None, True, False, source.randrange(-999, 999), source.random() * 1e9, source.choice("äb\n\"'\\/#{}")]
    if kind < 6:
        return plain_ones[kind]
    size = source.randrange(4)
    if kind == 6:
        return [random_value(source, depth + 1) for _ in range(size)]
    return {
        source.choice(["a", "b:", "#c", "ü"]) * (index + 1): random_value(source, depth + 1) for index in range(size)
    }


def test_random_values_come_back() -> None:
    source = random.Random(3)
    for case in range(300):
        given = random_value(source, 0)
        text = json.dumps(given, indent=source.choice([None, 1, "\t"]), ensure_ascii=source.random() < 0.5)
        assert value("x.json", text) == given, case
        assert value("x.yaml", yaml.safe_dump(given, allow_unicode=True)) == given, case


BOMB = "a: &a [x, x]\n" + "".join(
    f"b{level}: &{chr(98 + level)} [{', '.join([f'*{chr(97 + level)}'] * 9)}]\n" for level in range(20)
)
HOSTILE = {
    "an aliases bomb": BOMB,
    "an alias in itself": "a: &a [*a]",
    "an alias of nothing": "a: *b",
    "deep mappings": '{"a":' * 5000,
    "deep sequences": "- " * 5000,
    "deep brackets": "[" * 100_000,
    "many values": "[" + "1," * 90_000 + "1]",
    "an endless number": "1" * 100_000,
    "an endless exponent": "1e" + "9" * 1000,
    "an endless text": '"' + "\\" * 99_999,
    "an endless comment": "/*" + "*" * 100_000,
    "blanks": " " * 100_000 + "x",
    "a lone surrogate": 'a: "\\ud800"',
    "an object": "!!python/object/apply:os.system [echo]",
    "keys that are no texts": "? [a]\n: b\n1: c\nnull: d\n",
    "merging a number": "<<: 3\n<<: [1, {a: b}]",
    "another version": "%YAML 9.9\n---\na: b",
    "several documents": "---\na: 1\n---\na: 2\n",
    "nothing": "",
    "a template": "{{ a }}: {% if b %}",
    "a tab": "a:\n\tb: c",
    "too large": "#" * 300_000,
}


@pytest.mark.parametrize("name", ["x.json", "x.yaml"])
@pytest.mark.parametrize("text", HOSTILE.values(), ids=HOSTILE.keys())
def test_hostile_files_are_refused_or_read(name: str, text: str) -> None:
    try:
        file = read(name, text)
    except SourceError:
        return
    plain(Reader(lambda: 0).value(file.root))
    written(file)


@pytest.mark.parametrize("name", ["x.json", "x.yaml"])
@pytest.mark.parametrize("text", HOSTILE.values(), ids=HOSTILE.keys())
def test_hostile_files_end_no_run(name: str, text: str, amplint: Command, project: Path) -> None:
    (project / name).write_text(text, encoding="utf-8", errors="surrogatepass")
    (project / "train.py").write_text(TRAINER.replace("ds.json", name), encoding="utf-8")
    ran = amplint("--output-format", "concise", ".")
    assert (ran.status, ran.out) == (0, "")
    ran = amplint("--output-format", "concise", name)
    assert "Traceback" not in ran.out + ran.err
    assert ran.status in (0, 1)
    assert all(": AMP00" in line for line in ran.out.splitlines())


def test_a_file_that_is_named_must_be_readable(amplint: Command, project: Path) -> None:
    (project / "ds.json").write_text('{\n  "a": 1 "b"\n}', encoding="utf-8")
    assert (
        'ds.json:2:10: AMP001[syntax-error] error: not JSON: "," or "}" is expected'
        in amplint("--output-format", "concise", "ds.json").out
    )


def test_what_a_script_reads_of_a_file_is_told_at_the_file(amplint: Command, project: Path) -> None:
    (project / "ds.json").write_text(CONTRADICTION, encoding="utf-8")
    (project / "train.py").write_text(READING.format(change="pass"), encoding="utf-8")
    assert places(amplint) == ["ds.json:4:3"]
    fine = CONTRADICTION.replace('"fp16": {"enabled": true}', '"fp16": {"enabled": false}')
    (project / "ds.json").write_text(fine, encoding="utf-8")
    assert places(amplint) == []
    change = 'config["fp16"] = {"enabled": True}'
    (project / "train.py").write_text(READING.format(change=change), encoding="utf-8")
    assert [place.partition(":")[0] for place in places(amplint)] == ["train.py"]


def test_a_file_that_is_no_configuration_by_itself_is_told_in_the_script(amplint: Command, project: Path) -> None:
    (project / "ds.json").write_text(CONTRADICTION.replace("train_batch_size", "model"), encoding="utf-8")
    (project / "train.py").write_text(READING.format(change="pass"), encoding="utf-8")
    assert [place.partition(":")[0] for place in places(amplint)] == ["train.py"]


@pytest.mark.parametrize("name", ["ds.json", "ds.yaml"])
def test_a_file_alone(name: str, amplint: Command, project: Path) -> None:
    text = CONTRADICTION if name.endswith("json") else YAML_CONTRADICTION.format(comment="")
    (project / name).write_text(text, encoding="utf-8")
    assert amplint("--output-format", "concise", name).out.startswith(
        f"{name}:4:{3 if name == 'ds.json' else 1}: AMP722"
    )
    assert amplint(".").status == 0


RECIPE = "model_name_or_path: org/model\n{model}\noutput_dir: out\nper_device_train_batch_size: 8\n{switch}\n"
RECIPES = [
    ("torch_dtype: float16", "bf16: true", "warning"),
    ("dtype: torch.bfloat16", "fp16: true", "warning"),
    ("use_peft: true\nload_in_4bit: true\nbnb_4bit_compute_dtype: float16", "bf16: true", "info"),
    ("torch_dtype: bfloat16", "bf16: true", None),
    ("torch_dtype: auto", "fp16: true", None),
    ("torch_dtype: float32", "bf16: true", None),
    ("torch_dtype: float16", "bf16: false", None),
    ("torch_dtype: float16", "seed: 1", None),
]


@pytest.mark.parametrize(("model", "switch", "severity"), RECIPES)
def test_dtypes_of_a_recipe(model: str, switch: str, severity: str | None, amplint: Command, project: Path) -> None:
    text = RECIPE.format(model=model, switch=switch)
    (project / "recipe.yaml").write_text(text, encoding="utf-8")
    out = amplint("--output-format", "concise", "--select", "AMP745", "recipe.yaml").out
    line = text[: text.index(switch)].count("\n") + 1
    told = f"recipe.yaml:{line}:1: AMP745[weights-in-other-half] {severity}: "
    assert out.startswith(told) if severity is not None else out == ""


SECTIONS = """{section}:
  name: x
  torch_dtype: bfloat16
training:
  reinforced:
    per_device_train_batch_size: 4
    num_train_epochs: 3
    fp16: true
"""


@pytest.mark.parametrize(("section", "told"), [("model", True), ("model_config", True), ("teacher", False)])
def test_dtypes_in_a_section_about_the_model(section: str, told: bool, amplint: Command, project: Path) -> None:
    (project / "train.yaml").write_text(SECTIONS.format(section=section), encoding="utf-8")
    out = amplint("--output-format", "concise", "--select", "AMP745", "train.yaml").out
    assert out.startswith("train.yaml:8:5: AMP745") is told


@pytest.fixture
def conf(project: Path) -> Path:
    """A file that contradicts itself, and a script that names it."""
    (project / "conf").mkdir()
    (project / "conf" / "ds.json").write_text(CONTRADICTION, encoding="utf-8")
    (project / "train.py").write_text(NAMING, encoding="utf-8")
    return project / "conf" / "ds.json"


@pytest.mark.usefixtures("conf")
def test_what_a_script_names_is_linted_with_it(amplint: Command, project: Path) -> None:
    ran = amplint("--output-format", "concise")
    assert ran.out.startswith("conf/ds.json:4:3: AMP722[deepspeed-config-contradiction] error: fp16 and bf16 are both")
    assert "1 finding (1 error) in 1 of 2 files" in ran.err
    (project / "amplint.toml").write_text('exclude = ["conf"]\n', encoding="utf-8")
    assert amplint("--output-format", "concise").out == ""


@pytest.mark.usefixtures("conf")
def test_what_is_outside_of_the_project_is_not_opened(
    amplint: Command, project: Path, tmp_path_factory: pytest.TempPathFactory
) -> None:
    outside = tmp_path_factory.mktemp("outside") / "ds.json"
    outside.write_text(CONTRADICTION, encoding="utf-8")
    for name in (outside.as_posix(), os.path.relpath(outside, project)):
        (project / "train.py").write_text(NAMING.replace("conf/ds.json", name), encoding="utf-8")
        assert amplint("--output-format", "concise").out == ""


@pytest.mark.skipif(sys.platform == "win32", reason="needs a FIFO")
def test_a_pipe_is_not_opened(amplint: Command, conf: Path) -> None:
    conf.unlink()
    os.mkfifo(conf)
    assert amplint("--output-format", "concise").out == ""


@pytest.mark.usefixtures("conf")
@pytest.mark.parametrize("name", FORMATS)
def test_every_report_shows_the_place(name: str, amplint: Command) -> None:
    out = amplint("--output-format", name, "--exit-zero").out
    assert "ds.json" in out
    assert "4" in out


@pytest.mark.usefixtures("conf")
def test_baselines_and_ignores(amplint: Command, project: Path) -> None:
    before = (project / "conf" / "ds.json").read_bytes()
    assert amplint("--fix", "--unsafe-fixes").status == 1
    assert "0 findings silenced" in amplint("--add-ignore").err
    assert (project / "conf" / "ds.json").read_bytes() == before
    assert amplint("--baseline", "known.json", "--update-baseline").status == 0
    assert amplint("--baseline", "known.json").out == ""
    (project / "amplint.toml").write_text('[per-file-ignores]\n"conf/*.json" = ["AMP722"]\n', encoding="utf-8")
    assert amplint("--output-format", "concise").out == ""


def test_comments_in_yaml_silence(amplint: Command, project: Path) -> None:
    file = project / "ds.yaml"
    file.write_text(YAML_CONTRADICTION.format(comment="# amplint: ignore[AMP722]"), encoding="utf-8")
    assert amplint("ds.yaml").status == 0
    file.write_text(f"# amplint: ignore-file\n{YAML_CONTRADICTION.format(comment='')}", encoding="utf-8")
    assert amplint("ds.yaml").status == 0
    file.write_text("a: 1  # amplint: ignore[AMP722]\n", encoding="utf-8")
    assert "AMP004" in amplint("--output-format", "concise", "ds.yaml").out


def change_value(project: Path) -> None:
    (project / "ds.json").write_text('{"bf16": {"enabled": "auto"}, "gradient_clipping": "auto"}', encoding="utf-8")


def remove(project: Path) -> None:
    (project / "ds.json").unlink()


@pytest.mark.parametrize("change", [change_value, remove])
def test_a_result_is_stale_once_a_file_has_changed(
    change: Callable[[Path], None], amplint: Command, project: Path
) -> None:
    (project / "ds.json").write_text('{"fp16": {"enabled": true}}', encoding="utf-8")
    (project / "train.py").write_text(TRAINER, encoding="utf-8")
    first = amplint("--output-format", "concise").out
    assert "AMP723" in first
    assert "AMP724" in first
    assert amplint("--output-format", "concise").out == first
    change(project)
    assert amplint("--output-format", "concise").out == ""


def test_the_version_that_is_asked_for_counts(amplint: Command, project: Path) -> None:
    (project / "ds.json").write_text(
        '{"train_batch_size": 8, "bf16": {"enabled": true, "loss_scale": 0}}', encoding="utf-8"
    )
    assert "[error]" in amplint("ds.json").out
    (project / "requirements.txt").write_text("torch\ndeepspeed==0.14.2\n", encoding="utf-8")
    older = " ".join(amplint("ds.json").out.split())
    assert "[warning]" in older
    assert "deepspeed ==0.14.2 is asked for (requirements.txt)" in older
    (project / "uv.lock").write_text('[[package]]\nname = "deepspeed"\nversion = "0.17.5"\n', encoding="utf-8")
    newer = " ".join(amplint("ds.json").out.split())
    assert "[error]" in newer
    assert "deepspeed ==0.17.5 is asked for (uv.lock)" in newer


REQUIREMENTS = {
    "deepspeed==0.14.4\n": "==0.14.4",
    "torch\ndeepspeed>=0.14,<0.17  # why": ">=0.14,<0.17",
    '[project]\ndependencies = ["deepspeed[all]>=0.15.1", "x"]': ">=0.15.1",
    '[tool.poetry.dependencies]\ndeepspeed = "^0.12.3"\n': "^0.12.3",
    'deepspeed = {version = "~=0.16.1", extras = []}': "~=0.16.1",
    '[[package]]\nname = "deepspeed"\nversion = "0.17.5"\n': "==0.17.5",
    '"deepspeed": {\n  "hashes": [],\n  "version": "==0.3"\n}': "==0.3",
    "dependencies:\n  - pip:\n    - deepspeed==0.9.2": "==0.9.2",
    "install_requires=['deepspeed >= 0.10', 'a']": ">= 0.10",
    "deepspeed\n": None,
    "mydeepspeed==1\ndeepspeed-kernels==1\n": None,
    "deepspeed @ git+https://example.org/x@v1\n": None,
    "deepspeed" + " " * 100_000 + "==1": None,
}


@pytest.mark.parametrize(("text", "says"), REQUIREMENTS.items())
def test_requirements(text: str, says: str | None) -> None:
    found = wanted(text.encode(), "deepspeed", "requirements.txt")
    assert (found.text if found is not None else None) == says


HOLDS = {
    "==0.17.1": True,
    "==0.17.0": False,
    ">=0.17.1": True,
    ">=0.16": None,
    "<0.17.1": False,
    "<=0.17": False,
    "<0.18": None,
    "~=0.16.1": False,
    "==0.17.*": None,
    "==0.16.*": False,
    "^0.17.2": True,
    "!=0.16": None,
}


@pytest.mark.parametrize(("text", "holds"), HOLDS.items())
def test_whether_a_change_is_in_what_is_asked_for(text: str, holds: bool | None) -> None:
    found = asked("deepspeed", text, "requirements.txt")
    assert (found.has(SETTINGS_CHECKED) if found is not None else None) is holds


LAUNCH = """compute_environment: LOCAL_MACHINE
distributed_type: DEEPSPEED
mixed_precision: bf16
deepspeed_config:
  deepspeed_config_file: ds.json
  gradient_clipping: 1.0
  zero3_init_flag: true
"""


def test_what_accelerate_launch_reads(amplint: Command, project: Path) -> None:
    file = project / "launch.yaml"
    file.write_text(LAUNCH, encoding="utf-8")
    found = amplint("--output-format", "concise", "launch.yaml").out.splitlines()
    assert [line.partition("[")[0] for line in found] == ["launch.yaml:3:1: AMP723", "launch.yaml:6:3: AMP723"]
    for fine in (LAUNCH.replace("DEEPSPEED", "FSDP"), LAUNCH.replace("ds.json", "none")):
        file.write_text(fine, encoding="utf-8")
        assert amplint("launch.yaml").status == 0


def test_arguments_of_the_trainer_in_a_file(amplint: Command, project: Path) -> None:
    file = project / "sft.yaml"
    file.write_text("output_dir: out\nmax_grad_norm: 1.0\nbf16: true\nfp16: true\n", encoding="utf-8")
    assert amplint("--output-format", "concise", "sft.yaml").out.startswith("sft.yaml:4:1: AMP744")
    file.write_text("output_dir: out\nbf16: true\nfp16: true\n", encoding="utf-8")
    assert amplint("sft.yaml").status == 0


def test_unknown_values_have_no_symbol_in_common() -> None:
    counter = iter(range(9))
    found = Reader(counter.__next__).value(read("x.yaml", "[!a 1, !b 2]").root)
    assert isinstance(found, Items)
    assert len({one.symbol for one in found.values if isinstance(one, Unknown)}) == 2


def test_the_strategy_of_lightning(amplint: Command, project: Path) -> None:
    script = "from lightning.pytorch.strategies import DeepSpeedStrategy\n"
    script += 'strategy = DeepSpeedStrategy(config={"fp16": {"enabled": True}, "bf16": {"enabled": True}})\n'
    (project / "train.py").write_text(script, encoding="utf-8")
    assert amplint("--output-format", "concise").out.startswith("train.py:2:65: AMP722")


OUTER = """import deepspeed, torch
config = {"train_batch_size": 8, "bf16": {"enabled": True}}
engine, *_ = deepspeed.initialize(model=torch.nn.Linear(2, 2), config=config)
with torch.autocast("cuda", dtype=torch.bfloat16):
    loss = engine(torch.ones(2, 2)).sum()
engine.backward(loss)
"""
AS_SAVED = """from transformers import AutoModelForCausalLM, Trainer, TrainingArguments
model = AutoModelForCausalLM.from_pretrained("some/model")
trainer = Trainer(model=model, args=TrainingArguments("out", bf16=True))
trainer.train()
"""
VERSIONS = {
    "the newest": (OUTER, "", ["[warning]", "so 0.17.2 or later is assumed"]),
    "raising": (OUTER, "deepspeed==0.17.4", ["[error]", "deepspeed ==0.17.4 is asked for (requirements.txt)"]),
    "switching off": (OUTER, "deepspeed>=0.17.6", ["[warning]", "deepspeed >=0.17.6 is asked for"]),
    "either": (OUTER, "deepspeed>=0.17.2", ["[warning]", "deepspeed >=0.17.2 is asked for"]),
    "running in it": (OUTER, "deepspeed==0.16.9", []),
    "as saved": (AS_SAVED, "", ["[info]", "so 5.0 or later is assumed"]),
    "as saved, asked for": (AS_SAVED, "transformers~=5.1", ["[info]", "transformers ~=5.1 is asked for"]),
    "perhaps as saved": (AS_SAVED, "transformers>=4.40", ["[info]", "transformers >=4.40 is asked for"]),
    "in float32": (AS_SAVED, "transformers>=4.40,<5", []),
}


@pytest.mark.parametrize("case", VERSIONS)
def test_findings_say_by_which_version_they_hold(case: str, amplint: Command, project: Path) -> None:
    script, requirements, told = VERSIONS[case]
    (project / "train.py").write_text(script, encoding="utf-8")
    (project / "requirements.txt").write_text(f"torch\n{requirements}\n", encoding="utf-8")
    found = " ".join(amplint("--select", "AMP721,AMP741", "train.py").out.split())
    assert [text for text in told if text not in found] == [], found
    assert bool(told) is ("AMP7" in found)


def test_the_version_in_the_configuration_counts_first(amplint: Command, project: Path) -> None:
    (project / "train.py").write_text(OUTER, encoding="utf-8")
    (project / "requirements.txt").write_text("deepspeed==0.16.9\n", encoding="utf-8")
    assert amplint("--select", "AMP721").out == ""
    (project / "amplint.toml").write_text('library-versions = { deepspeed = "0.17.3" }\n', encoding="utf-8")
    found = " ".join(amplint("--select", "AMP721").out.split())
    assert "[error]" in found
    assert "deepspeed ==0.17.3 is asked for (amplint.toml)" in found
    (project / "amplint.toml").write_text('library-versions = { deepspeed = "<0.17" }\n', encoding="utf-8")
    assert amplint("--select", "AMP721").out == ""
